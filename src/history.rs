//! `--history`: keeping runs of a suite side by side, comparing each with the earlier ones, and notifying about what changed.

use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;

use crate::error::CliError;
use crate::execution::ExecutedRun;
use crate::notify::{self, Patience, Target};
use crate::recorded_runs::{RecordedRuns, read_night, read_runs};
use crate::run_folders::{default_folder, new_folder};
use crate::terminal;
use judge::history;
use record::{History, Notice, Recorded, Severity, Unsent, files};

/// Names the target when --notify is not typed.
const NOTIFY: &str = "RAILGAUGE_NOTIFY";

/// Flags about history and notifications.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "History and notifications")]
pub struct HistoryFlags {
    /// Keep the run in this folder beside earlier runs, and report what changed since them
    #[arg(long, value_name = "DIR")]
    pub history: Option<PathBuf>,
    /// Send notices to a program (JSON on its standard input) or to a URL (POST); may be given several times [env: RAILGAUGE_NOTIFY]
    #[arg(long, value_name = "CMD|URL", requires = "history")]
    pub notify: Vec<Target>,
    /// The lowest severity to send: page, ticket or info
    #[arg(long, value_name = "SEVERITY", default_value_t = Severity::Ticket, requires = "history")]
    pub notify_severity: Severity,
}

impl HistoryFlags {
    /// The folder of a run of `suite` without --out.
    pub fn folder_of(&self, suite: &str) -> PathBuf {
        match &self.history {
            Some(parent) => new_folder(parent, suite),
            None => default_folder(suite),
        }
    }

    /// Compares the run with earlier ones, adds that to its reports and sends notices. A failure here never changes the run's
    /// verdict.
    pub fn compare_and_notify(&self, executed: &ExecutedRun) -> Option<History> {
        let parent = self.history.as_deref()?;
        let (history, missed) = match compare(parent, executed) {
            Ok(compared) => compared,
            Err(error) => {
                terminal::warn(format_args!("cannot compare this run with earlier ones: {error}"));
                return None;
            }
        };
        for folder in &history.skipped {
            terminal::warn(format_args!("not compared with {folder}"));
        }
        let whole = std::fs::canonicalize(&executed.folder);
        let folder = whole.unwrap_or_else(|_| executed.folder.clone());
        let unsent = self.send_notices(&history, &folder, &missed);
        if let Err(error) = write_unsent(&folder, &unsent) {
            terminal::warn(error);
        }
        Some(history)
    }

    /// Sends first the notices that did not arrive last time, then those of this run; returns those that do not arrive.
    fn send_notices(&self, history: &History, folder: &Path, missed: &[Unsent]) -> Vec<Unsent> {
        let place = folder.display().to_string();
        let due = history.notices(self.notify_severity, &place);
        let until = Instant::now() + Patience::default().all;
        let mut unsent = Vec::new();
        for target in self.targets() {
            let name = target.to_string();
            let missed = missed.iter().filter(|missed| missed.target == name);
            let again = missed.filter_map(|missed| history.notice_again(missed, &place));
            let notices: Vec<Notice> = again.chain(due.iter().cloned()).collect();
            let patience = Patience {
                all: until.saturating_duration_since(Instant::now()),
                ..Patience::default()
            };
            let sent = notify::send(&[target], &notices, patience);
            for trouble in &sent.troubles {
                terminal::warn(format_args!("--notify: {trouble}"));
            }
            unsent.extend(sent.unsent);
        }
        unsent
    }

    /// The targets that were typed; else the one in the environment, where a secret address can stay.
    fn targets(&self) -> Vec<Target> {
        let named = std::env::var(NOTIFY).unwrap_or_default();
        if !self.notify.is_empty() || named.trim().is_empty() {
            return self.notify.clone();
        }
        match named.parse() {
            Ok(target) => vec![target],
            Err(problem) => {
                terminal::warn(format_args!("{NOTIFY}: {problem}"));
                Vec::new()
            }
        }
    }
}

/// Compares the run with earlier ones and writes the result. Also returns the notices that did not arrive last time.
fn compare(parent: &Path, executed: &ExecutedRun) -> Result<(History, Vec<Unsent>), CliError> {
    let folder = &executed.folder;
    std::fs::create_dir_all(parent)
        .map_err(CliError::system(format!("cannot create {}", parent.display())))?;
    let mut recorded = Recorded::read(folder)?;
    let name = name_of(folder);
    let RecordedRuns {
        mut nights,
        mut skipped,
    } = read_runs(parent, Some(&recorded.run.suite))?;
    let tonight = read_night(folder, name.clone())
        .map_err(|why| CliError::Usage(format!("{}: {why}", folder.display())))?;
    if is_in(folder, parent) {
        nights.retain(|night| night.name != name);
        skipped.retain(|other| !other.starts_with(&format!("{name}: ")));
    }
    nights.retain(|night| night.at <= tonight.at);
    let previous = nights.last().map(|night| parent.join(&night.name));
    let missed = previous.map_or_else(Vec::new, |previous| read_unsent(&previous));
    nights.push(tonight);
    let history = History {
        skipped,
        ..history::since_earlier_runs(&nights)
    };
    let cannot = || CliError::system("cannot write the history");
    let text = history.to_json().map_err(std::io::Error::from);
    let text = text.map_err(cannot())? + "\n";
    report::replace(&folder.join(files::HISTORY), text.as_bytes()).map_err(cannot())?;
    recorded.history = Some(history.clone());
    report::write_all(folder, &recorded, &executed.judgement).map_err(cannot())?;
    Ok((history, missed))
}

/// The notices of a run that did not arrive. A file that cannot be read is ignored.
fn read_unsent(folder: &Path) -> Vec<Unsent> {
    let text = std::fs::read(folder.join(files::UNSENT)).unwrap_or_default();
    serde_json::from_slice(&text).unwrap_or_default()
}

/// Writes the notices that did not arrive, for the next run to send.
fn write_unsent(folder: &Path, unsent: &[Unsent]) -> Result<(), CliError> {
    if unsent.is_empty() {
        return Ok(());
    }
    let cannot = || CliError::system("cannot write the unsent notices");
    let text = serde_json::to_vec_pretty(unsent).map_err(std::io::Error::from);
    report::replace(&folder.join(files::UNSENT), &text.map_err(cannot())?).map_err(cannot())
}

/// The name of a run: that of its folder.
fn name_of(folder: &Path) -> String {
    let whole = std::fs::canonicalize(folder).unwrap_or_else(|_| folder.to_path_buf());
    let name = whole.file_name().unwrap_or(whole.as_os_str());
    name.to_string_lossy().into_owned()
}

/// Whether the folder is a direct child of the other one.
fn is_in(folder: &Path, parent: &Path) -> bool {
    let whole = std::fs::canonicalize(folder);
    let parent = std::fs::canonicalize(parent);
    matches!((whole, parent), (Ok(whole), Ok(parent)) if whole.parent() == Some(&parent))
}
