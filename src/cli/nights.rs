//! Night after night: where runs of a suite are kept, what changed since the last ones, and who is told.

use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;

use super::conduct::{Conducted, default_folder, new_folder};
use super::trend::runs::{self, Runs};
use super::{CliError, say};
use crate::notify::{self, Patience, Target};
use judge::history;
use record::{History, Notice, Recorded, Severity, Unsent, files};
use report;

/// Names who is told, where nobody is typed.
const NOTIFY: &str = "RAILGAUGE_NOTIFY";

/// The flags.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Night after night")]
pub struct NightFlags {
    /// Keep the run in this folder, beside the nights before, and say what changed since them
    #[arg(long, value_name = "DIR")]
    pub history: Option<PathBuf>,
    /// Tell what is due tonight: a program that gets it as JSON on standard input, or an address that takes a POST; may be said several times
    /// [env: RAILGAUGE_NOTIFY]
    #[arg(long, value_name = "CMD|URL", requires = "history")]
    pub notify: Vec<Target>,
    /// The least that is told: page, ticket or info
    #[arg(long, value_name = "SEVERITY", default_value_t = Severity::Ticket, requires = "history")]
    pub notify_severity: Severity,
}

impl NightFlags {
    /// Where a run of `suite` goes when nobody says otherwise.
    pub fn folder_of(&self, suite: &str) -> PathBuf {
        match &self.history {
            Some(parent) => new_folder(parent, suite),
            None => default_folder(suite),
        }
    }

    /// Compares the run with the nights before, writes that down, renders its reports with it and tells whoever is to be told. Nothing that
    /// goes wrong here changes the verdict of the run.
    pub fn conclude(&self, conducted: &Conducted) -> Option<History> {
        let parent = self.history.as_deref()?;
        let (history, before) = match compare(parent, conducted) {
            Ok(compared) => compared,
            Err(error) => {
                say::complain(format_args!(
                    "tonight is not compared with the nights before: {error}"
                ));
                return None;
            }
        };
        for folder in &history.skipped {
            say::complain(format_args!("not compared with {folder}"));
        }
        let whole = std::fs::canonicalize(&conducted.folder);
        let folder = whole.unwrap_or_else(|_| conducted.folder.clone());
        let unsent = self.tell(&history, &folder, &before);
        if let Err(error) = keep_unsent(&folder, &unsent) {
            say::complain(error);
        }
        Some(history)
    }

    /// Tells everybody what is due tonight, and before that what did not reach them the night before; returns what does not reach them tonight.
    fn tell(&self, history: &History, folder: &Path, before: &[Unsent]) -> Vec<Unsent> {
        let place = folder.display().to_string();
        let due = history.notices(self.notify_severity, &place);
        let until = Instant::now() + Patience::default().all;
        let mut unsent = Vec::new();
        for target in self.targets() {
            let name = target.to_string();
            let missed = before.iter().filter(|missed| missed.target == name);
            let again = missed.filter_map(|missed| history.notice_again(missed, &place));
            let notices: Vec<Notice> = again.chain(due.iter().cloned()).collect();
            let patience = Patience {
                all: until.saturating_duration_since(Instant::now()),
                ..Patience::default()
            };
            let told = notify::tell(&[target], &notices, patience);
            for trouble in &told.troubles {
                say::complain(format_args!("--notify: {trouble}"));
            }
            unsent.extend(told.unsent);
        }
        unsent
    }

    /// Who was typed; else who the environment names, where an address that is a secret can stay.
    fn targets(&self) -> Vec<Target> {
        let named = std::env::var(NOTIFY).unwrap_or_default();
        if !self.notify.is_empty() || named.trim().is_empty() {
            return self.notify.clone();
        }
        match named.parse() {
            Ok(target) => vec![target],
            Err(problem) => {
                say::complain(format_args!("{NOTIFY}: {problem}"));
                Vec::new()
            }
        }
    }
}

/// Tonight against the nights before, written down; and what did not reach somebody the night before.
fn compare(parent: &Path, conducted: &Conducted) -> Result<(History, Vec<Unsent>), CliError> {
    let folder = &conducted.folder;
    std::fs::create_dir_all(parent).map_err(CliError::system(format!("cannot make {}", parent.display())))?;
    let mut recorded = Recorded::read(folder)?;
    let name = name_of(folder);
    let Runs {
        mut nights,
        mut skipped,
    } = runs::read(parent, Some(&recorded.run.suite))?;
    let tonight = runs::night(folder, name.clone())
        .map_err(|why| CliError::Usage(format!("{}: {why}", folder.display())))?;
    if is_in(folder, parent) {
        nights.retain(|night| night.name != name);
        skipped.retain(|other| !other.starts_with(&format!("{name}: ")));
    }
    nights.retain(|night| night.at <= tonight.at);
    let before = nights.last().map(|night| parent.join(&night.name));
    let before = before.map_or_else(Vec::new, |before| unsent_of(&before));
    nights.push(tonight);
    let history = History {
        skipped,
        ..history::tonight(&nights)
    };
    let cannot = || CliError::system("cannot write what changed");
    let text = serde_json::to_string_pretty(&history).map_err(std::io::Error::from);
    let text = text.map_err(cannot())? + "\n";
    report::replace(&folder.join(files::HISTORY), text.as_bytes()).map_err(cannot())?;
    recorded.history = Some(history.clone());
    report::write_all(folder, &recorded, &conducted.judgement).map_err(cannot())?;
    Ok((history, before))
}

/// What did not reach somebody in that night. What cannot be read is not sent again.
fn unsent_of(folder: &Path) -> Vec<Unsent> {
    let text = std::fs::read(folder.join(files::UNSENT)).unwrap_or_default();
    serde_json::from_slice(&text).unwrap_or_default()
}

/// Keeps what did not reach somebody for the next night.
fn keep_unsent(folder: &Path, unsent: &[Unsent]) -> Result<(), CliError> {
    if unsent.is_empty() {
        return Ok(());
    }
    let cannot = || CliError::system("cannot keep what was not sent");
    let text = serde_json::to_vec_pretty(unsent).map_err(std::io::Error::from);
    report::replace(&folder.join(files::UNSENT), &text.map_err(cannot())?).map_err(cannot())
}

/// The name of a run: that of its folder.
fn name_of(folder: &Path) -> String {
    let whole = std::fs::canonicalize(folder).unwrap_or_else(|_| folder.to_path_buf());
    let name = whole.file_name().unwrap_or(whole.as_os_str());
    name.to_string_lossy().into_owned()
}

/// Whether the folder lies right in the other one.
fn is_in(folder: &Path, parent: &Path) -> bool {
    let whole = std::fs::canonicalize(folder);
    let parent = std::fs::canonicalize(parent);
    matches!((whole, parent), (Ok(whole), Ok(parent)) if whole.parent() == Some(&parent))
}

/// The command line as it is recorded: the address of a webhook may be a secret, and only its host is kept.
pub fn command_to_record(words: impl Iterator<Item = String>) -> Vec<String> {
    const FLAG: &str = "--notify";
    let veiled = |text: &str| match text.parse::<Target>() {
        Ok(target @ Target::Webhook(_)) => target.to_string(),
        _ => text.to_string(),
    };
    let mut is_value = false;
    words
        .map(|word| {
            let was_value = std::mem::replace(&mut is_value, word == FLAG);
            match (was_value, word.strip_prefix("--notify=")) {
                (true, _) => veiled(&word),
                (false, Some(value)) => format!("{FLAG}={}", veiled(value)),
                (false, None) => word,
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_of_a_webhook_is_not_recorded() {
        let words = "railgauge run nightly --notify https://hooks.example/T0/secret --notify=http://h:1/secret --notify tell --out x";
        let recorded = command_to_record(words.split(' ').map(String::from)).join(" ");
        assert_eq!(
            recorded,
            "railgauge run nightly --notify https://hooks.example/... --notify=http://h:1/... --notify tell --out x"
        );
    }
}
