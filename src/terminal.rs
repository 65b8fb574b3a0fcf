//! What goes to the terminal. Names in it may come from other machines: control characters in them are escaped.

use std::fmt::Display;
use std::io::IsTerminal;
use std::path::Path;

use comfy_table::{ContentArrangement, Table, presets};
use record::{History, Judgement};
use report::escape;
use report::terminal::{self, Page};

/// Prints an error or a warning to standard error.
pub fn warn(text: impl Display) {
    eprintln!("railgauge: {}", escape::block(&text.to_string()));
}

/// Prints a line of progress to standard error.
pub fn note(text: impl Display) {
    eprintln!("{}", escape::block(&text.to_string()));
}

/// Prints a judged run: as JSON, as one line, or in full with what changed since earlier runs.
pub fn print_result(
    judgement: &Judgement,
    history: Option<&History>,
    folder: &Path,
    json: bool,
    quiet: bool,
) {
    if json {
        match judgement.to_json() {
            Ok(text) => println!("{}", escape::json(&text)),
            Err(error) => warn(&error),
        }
    } else if quiet {
        println!("{}", escape::line(&judgement.summary));
    } else {
        let summary = terminal::summary_with_history(judgement, history, folder, page_for_stdout());
        print!("{summary}");
    }
}

/// An empty table with lines between rows, as wide as the terminal on standard output where there is one.
pub fn table() -> Table {
    let mut table = Table::new();
    table
        .load_style(presets::UTF8_HORIZONTAL_ONLY)
        .set_content_arrangement(ContentArrangement::Dynamic);
    if let Some((columns, _)) = terminal_size::terminal_size_of(std::io::stdout()) {
        table.set_width(columns.0);
    }
    table
}

/// The layout that fits standard output: a terminal's, with or without colour, or a log's.
pub fn page_for_stdout() -> Page {
    let stdout = std::io::stdout();
    match is_watched(&stdout) {
        true => Page::terminal(use_color(&stdout)),
        false => Page::log(),
    }
}

/// Whether a person reads `stream`. Open MPI gives every rank a pseudo-terminal and forwards its output, so there a terminal
/// proves nothing.
fn is_watched(stream: &impl IsTerminal) -> bool {
    stream.is_terminal() && std::env::var_os("OMPI_COMM_WORLD_RANK").is_none()
}

/// Whether lines on `stream` can be overwritten: a terminal other than a dumb one.
pub fn can_move_cursor(stream: &impl IsTerminal) -> bool {
    let is_capable = std::env::var_os("TERM").is_some_and(|kind| !kind.is_empty() && kind != "dumb");
    is_watched(stream) && is_capable
}

/// Whether to colour `stream`: a capable terminal, and NO_COLOR is not set.
pub fn use_color(stream: &impl IsTerminal) -> bool {
    can_move_cursor(stream) && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}
