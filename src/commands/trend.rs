//! `railgauge trend DIR`: every part over all runs of a folder.

use std::path::{Path, PathBuf};

use clap::Args;
use serde::de::DeserializeOwned;

use crate::error::CliError;
use crate::flags::share::parse_share;
use crate::recorded_runs::read_runs;
use crate::terminal;
use crate::terminal::page_for_stdout;
use judge::history::{self, Rule};
use record::{PartKind, Quantity, Trends};
use report::trend::Filter;
use report::{self, escape};

/// Which runs, and which parts of them to show.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  railgauge trend /var/lib/railgauge/nights\n  \
railgauge trend nights --part node07/rail3 --html node07.html\n  \
railgauge trend reports/burn-in-rack12 --kind gpu --quantity temperature\n\n\
DIR holds one folder per run, as `railgauge run --history DIR` creates them, or is the folder of a burn-in, whose cycles are the runs. Every run \
is judged by what was known at its time; see docs/history.md.\n\nExit codes: 0 nothing got worse; 12 something did; 20 too few runs to decide")]
pub struct Arguments {
    /// Folder of runs, or of a burn-in
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Runs of this suite [default: that of the newest run]
    #[arg(long, value_name = "NAME")]
    suite: Option<String>,
    /// Show only parts whose name contains this
    #[arg(long, value_name = "TEXT")]
    part: Option<String>,
    /// Show only parts of this kind: link, rail-end, rail, node, gpu, collective
    #[arg(long, value_name = "KIND", value_parser = word::<PartKind>)]
    kind: Option<PartKind>,
    /// Show only this quantity: bandwidth, latency, tail, temperature, clock
    #[arg(long, value_name = "QUANTITY", value_parser = word::<Quantity>)]
    quantity: Option<Quantity>,
    /// Smallest change of bandwidth that matters, as 2% or 0.02; other quantities in proportion
    #[arg(long, value_name = "SHARE", default_value = "2%", value_parser = parse_share)]
    least_effect: f64,
    /// Print one sentence only
    #[arg(long, short)]
    quiet: bool,
    /// Print everything as JSON, as docs/trend.schema.json describes it
    #[arg(long, conflicts_with = "quiet")]
    json: bool,
    /// Write an HTML page with the time series of what changed
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write the page and the JSON into this folder, as trend.html and trend.json
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// A word as in the recorded files.
fn word<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    let value = serde_json::Value::String(text.trim().to_lowercase());
    serde_json::from_value(value).map_err(|error| error.to_string())
}

/// Reads the runs, judges them in order and prints the trend of every part.
pub fn run(arguments: &Arguments) -> Result<u8, CliError> {
    let read = read_runs(&arguments.folder, arguments.suite.as_deref())?;
    let rule = Rule {
        least_effect: arguments.least_effect,
        ..Rule::default()
    };
    let mut trends = history::trends_by(&read.nights, &rule);
    trends.skipped = read.skipped;
    let filter = Filter {
        part: arguments.part.clone(),
        kind: arguments.kind,
        quantity: arguments.quantity,
    };
    let trends = filter.apply(trends);
    write(arguments, &trends)?;
    if arguments.json {
        let cannot = CliError::system("cannot print the trends");
        print!("{}", report::trend::json(&trends).map_err(cannot)?);
    } else if arguments.quiet {
        println!("{}", escape::line(&trends.summary));
    } else {
        print!("{}", report::trend::terminal(&trends, page_for_stdout()));
    }
    Ok(trends.exit_code)
}

/// Writes the files that the flags name.
fn write(arguments: &Arguments, trends: &Trends) -> Result<(), CliError> {
    let mut pages: Vec<PathBuf> = arguments.html.iter().cloned().collect();
    if let Some(folder) = &arguments.out {
        std::fs::create_dir_all(folder)
            .map_err(CliError::system(format!("cannot create {}", folder.display())))?;
        pages.push(folder.join(report::trend::FILE));
        let text = report::trend::json(trends).map_err(CliError::system("cannot write the trends"))?;
        put(&folder.join("trend.json"), &text)?;
    }
    if !pages.is_empty() {
        let page = report::trend::html(trends).map_err(CliError::system("cannot draw the trends"))?;
        for path in &pages {
            put(path, &page)?;
            if !arguments.quiet && !arguments.json {
                terminal::note(format_args!("{}", path.display()));
            }
        }
    }
    Ok(())
}

fn put(path: &Path, text: &str) -> Result<(), CliError> {
    report::replace(path, text.as_bytes()).map_err(CliError::system("cannot write the trends"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_and_quantities_are_called_as_in_the_files() {
        assert_eq!(word::<PartKind>("rail-end"), Ok(PartKind::RailEnd));
        assert_eq!(word::<PartKind>(" GPU "), Ok(PartKind::Gpu));
        assert_eq!(word::<Quantity>("latency"), Ok(Quantity::Latency));
        assert!(word::<Quantity>("speed").unwrap_err().contains("bandwidth"));
    }
}
