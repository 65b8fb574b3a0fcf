//! `railgauge report RUN...`: judge and render recorded runs again: one as files, several as a fleet.

use std::path::{Path, PathBuf};

use clap::Args;

use super::burn_in::certificate;
use crate::browser;
use crate::error::CliError;
use crate::terminal::{self, page_for_stdout, print_result};
use judge::findings::judge;
use record::{History, Recorded, burn_in_files, exit_code, files};
use report::fleet::{self, Fleet, FleetRun};
use report::{escape, replace, write_all, writer_of};

/// Which runs, and as what.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  railgauge report reports/2026-11-14T23-50-12Z-smoke\n  \
railgauge report reports/tonight --junit > junit.xml\n  \
railgauge report reports/tonight --html --csv --out /srv/www/tonight\n  \
railgauge report reports/2026-11-* --out /srv/www/fleet --open\n\n\
Without a format all files in the run's folder are written again (and --json also prints the findings). A single format is printed \
and not written; several, or any with --out, are written as files. Several runs are shown as a fleet: a table of runs and the \
parts that fail in more than one of them, with --html, --md or --json in that format, with --out as files. The exit code is the \
worst of the runs'; a run that cannot be read counts as 20."
)]
pub struct Arguments {
    /// Folders of recorded runs, complete or interrupted
    #[arg(value_name = "RUN", required = true)]
    runs: Vec<PathBuf>,
    #[command(flatten)]
    formats: Formats,
    /// Write files into this folder, which is created if missing [default: the run's own]
    #[arg(long, value_name = "DIR", conflicts_with = "dry_run")]
    out: Option<PathBuf>,
    /// Open the page in a browser: $BROWSER, or the desktop's default
    #[arg(long, conflicts_with = "dry_run")]
    open: bool,
    /// Print the verdict only
    #[arg(long, short)]
    quiet: bool,
    /// Do not write any file
    #[arg(long)]
    dry_run: bool,
}

/// Which formats were requested.
#[derive(Debug, Clone, Copy, Default, Args)]
struct Formats {
    /// The HTML page
    #[arg(long)]
    html: bool,
    /// Verdicts as test cases, for pipelines
    #[arg(long)]
    junit: bool,
    /// Metrics for Prometheus, as OpenMetrics
    #[arg(long)]
    prom: bool,
    /// The report as Markdown
    #[arg(long)]
    md: bool,
    /// The verdict in a few lines of Markdown, for a pipeline's page
    #[arg(long)]
    summary: bool,
    /// One line per cell, for spreadsheets
    #[arg(long)]
    csv: bool,
    /// The findings as JSON
    #[arg(long)]
    json: bool,
}

impl Formats {
    /// Every format: its flag, whether it was requested, and its file.
    fn table(self) -> [(&'static str, bool, &'static str); 7] {
        [
            ("--html", self.html, files::HTML),
            ("--junit", self.junit, files::JUNIT),
            ("--prom", self.prom, files::METRICS),
            ("--md", self.md, files::MARKDOWN),
            ("--summary", self.summary, files::SUMMARY),
            ("--csv", self.csv, files::CSV),
            ("--json", self.json, files::FINDINGS),
        ]
    }

    /// The files that were requested.
    fn files(self) -> Vec<&'static str> {
        let requested = self
            .table()
            .into_iter()
            .filter(|(_, is_requested, _)| *is_requested);
        requested.map(|(_, _, file)| file).collect()
    }
}

/// Reads, judges, writes and shows.
pub fn run(arguments: &Arguments) -> Result<u8, CliError> {
    match arguments.runs.as_slice() {
        [folder] if certificate::is_burn_in(folder) => of_burn_in(arguments, folder),
        [folder] => of_one(arguments, folder),
        folders => of_fleet(arguments, folders),
    }
}

/// Reports a burn-in: its certificate.
fn of_burn_in(arguments: &Arguments, folder: &Path) -> Result<u8, CliError> {
    let requested = arguments.formats.files();
    if arguments.out.is_some()
        || arguments.dry_run
        || !(requested.is_empty() || requested == [files::FINDINGS])
    {
        let problem = "the report of a burn-in is its certificate, in its own folder; only --json, --quiet and --open apply to it. Its cycles are \
                       runs that can be reported by themselves (RUN/cycles/000001)";
        return Err(CliError::Usage(problem.to_string()));
    }
    let code = certificate::write_and_print(folder, arguments.formats.json, arguments.quiet)?;
    if arguments.open {
        browser::open(&folder.join(burn_in_files::CERTIFICATE_PAGE));
    }
    Ok(code)
}

fn of_one(arguments: &Arguments, folder: &Path) -> Result<u8, CliError> {
    let recorded = Recorded::read(folder)?;
    let judgement = judge(&recorded);
    let history = recorded.history.as_ref();
    let requested = arguments.formats.files();
    let target = arguments.out.as_deref().unwrap_or(folder);
    let render = |file: &str| -> Result<String, CliError> {
        let missing = || std::io::Error::other("this format has no writer");
        let writer = writer_of(file).ok_or_else(missing);
        let text = writer.and_then(|writer| writer.render(&recorded, &judgement));
        text.map_err(CliError::system(format!("cannot render {file}")))
    };
    let is_json_only = requested == [files::FINDINGS];
    match requested.as_slice() {
        // All files are written, and the requested one is printed.
        [] | [files::FINDINGS] if arguments.out.is_none() || requested.is_empty() => {
            if !arguments.dry_run {
                make(target)?;
                let written = write_all(target, &recorded, &judgement);
                written.map_err(CliError::system(format!("cannot write to {}", target.display())))?;
            }
            print_result(&judgement, history, target, is_json_only, arguments.quiet);
        }
        [file] if arguments.out.is_none() => {
            print!("{}", render(file)?);
            if arguments.open {
                put(target, files::HTML, &render(files::HTML)?)?;
            }
        }
        several => {
            let mut files_written: Vec<&str> = several.to_vec();
            if arguments.open && !files_written.contains(&files::HTML) {
                files_written.push(files::HTML);
            }
            for file in files_written {
                let text = render(file)?;
                if !arguments.dry_run {
                    put(target, file, &text)?;
                }
            }
            print_result(&judgement, history, target, false, arguments.quiet);
        }
    }
    if arguments.open {
        browser::open(&target.join(files::HTML));
    }
    Ok(exit_code::worst([
        judgement.exit_code,
        history.map_or(exit_code::PASS, History::exit_code),
    ]))
}

fn of_fleet(arguments: &Arguments, folders: &[PathBuf]) -> Result<u8, CliError> {
    let of_one_run = ["--junit", "--prom", "--summary", "--csv"];
    let table = arguments.formats.table();
    let wrong = table
        .iter()
        .find(|(flag, is_requested, _)| *is_requested && of_one_run.contains(flag));
    if let Some((flag, ..)) = wrong {
        return Err(CliError::Usage(format!(
            "{flag} renders one run, and {} are named; use --html, --md or --json for several",
            folders.len()
        )));
    }
    if arguments.open && arguments.out.is_none() {
        return Err(CliError::Usage(
            "--open with several runs needs a folder for their page; add --out DIR".to_string(),
        ));
    }
    // One after the other, so that only what the table needs stays in memory.
    let runs = folders.iter().map(|folder| one_of_fleet(folder)).collect();
    let fleet = Fleet::of(runs);
    let cannot = || CliError::system("cannot render the fleet");
    let requested = arguments.formats.files();
    let wants = |file: &str| requested.is_empty() || requested.contains(&file);
    if let Some(out) = &arguments.out {
        make(out)?;
        if wants(files::HTML) || arguments.open {
            put(out, fleet::files::HTML, &fleet::html(&fleet))?;
        }
        if wants(files::MARKDOWN) {
            put(
                out,
                fleet::files::MARKDOWN,
                &fleet::markdown(&fleet).map_err(cannot())?,
            )?;
        }
        if wants(files::FINDINGS) {
            put(out, fleet::files::JSON, &fleet::json(&fleet).map_err(cannot())?)?;
        }
    }
    match requested.as_slice() {
        [files::FINDINGS] if arguments.out.is_none() => print!("{}", fleet::json(&fleet).map_err(cannot())?),
        [files::HTML] if arguments.out.is_none() => print!("{}", fleet::html(&fleet)),
        [files::MARKDOWN] if arguments.out.is_none() => {
            print!("{}", fleet::markdown(&fleet).map_err(cannot())?);
        }
        [_, _, ..] if arguments.out.is_none() => {
            return Err(CliError::Usage(
                "several formats of several runs need a folder; add --out DIR".to_string(),
            ));
        }
        _ if arguments.quiet => println!("{}", escape::line(&fleet.summary)),
        _ => print!("{}", fleet::terminal(&fleet, page_for_stdout())),
    }
    if let Some(out) = arguments.out.as_ref().filter(|_| arguments.open) {
        browser::open(&out.join(fleet::files::HTML));
    }
    Ok(fleet.exit_code)
}

fn one_of_fleet(folder: &Path) -> FleetRun {
    let name = folder.display().to_string();
    match Recorded::read(folder) {
        Ok(recorded) => FleetRun::of(&name, &judge(&recorded)),
        Err(error) => {
            terminal::warn(&error);
            FleetRun::unreadable(&name, &error.to_string())
        }
    }
}

fn make(folder: &Path) -> Result<(), CliError> {
    let made = std::fs::create_dir_all(folder);
    made.map_err(CliError::system(format!("cannot create {}", folder.display())))
}

fn put(folder: &Path, file: &str, text: &str) -> Result<(), CliError> {
    make(folder)?;
    let written = replace(&folder.join(file), text.as_bytes());
    written.map_err(CliError::system("cannot write the report"))
}

/// The formats without a writer.
#[cfg(test)]
fn unwritten() -> Vec<&'static str> {
    let table = Formats::default().table().into_iter();
    table
        .filter(|(_, _, file)| writer_of(file).is_none())
        .map(|(flag, ..)| flag)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use report::{ON_REQUEST, WRITERS};

    #[test]
    fn what_is_written_always_is_found_by_its_name() {
        for writer in WRITERS.iter().chain(ON_REQUEST) {
            let found = writer_of(writer.file()).map(|writer| writer.file());
            assert_eq!(found, Some(writer.file()));
        }
        assert!(writer_of("nosuch").is_none());
    }

    #[test]
    fn every_format_that_can_be_asked_for_has_a_writer() {
        assert_eq!(unwritten(), Vec::<&str>::new());
    }
}
