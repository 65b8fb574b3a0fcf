//! The source of switch counters: a folder, a file, or a command.

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use super::{PortBytes, PortTable, TextError, Width, read_text};
use crate::{command, sysfs};

/// The largest file, and the most that a command may print.
const LARGEST: u64 = 64 << 20;
/// The most entries of a folder that are looked at.
const MOST_ENTRIES: usize = 16_384;
/// What begins a command.
const EXEC: &str = "exec:";

/// Where counters come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A folder with one sub-folder or file per switch, or a file with all of them.
    Path(PathBuf),
    /// A command and its arguments; what it prints is read.
    Command(Vec<String>),
}

/// Why counters cannot be read, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}{}: {message}", .line.map(|line| format!(":{line}")).unwrap_or_default())]
pub struct SourceError {
    /// The file, folder or command.
    pub place: String,
    /// Line, counted from 1; none when the whole is meant.
    pub line: Option<usize>,
    /// What is wrong.
    pub message: String,
}

impl FromStr for Source {
    type Err = String;

    fn from_str(text: &str) -> Result<Source, String> {
        match text.strip_prefix(EXEC) {
            Some(typed) => command::words(typed).map(Source::Command).ok_or_else(|| {
                format!("`{EXEC}` takes a command, as in {EXEC}/usr/local/bin/ask-switches --json")
            }),
            None if text.trim().is_empty() => Err("a folder, a file or exec:COMMAND".to_string()),
            None => Ok(Source::Path(PathBuf::from(text))),
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Path(path) => write!(f, "{}", path.display()),
            Source::Command(words) => write!(f, "{EXEC}{}", words.join(" ")),
        }
    }
}

impl Source {
    /// Reads the counters of all ports now. A command gets `patience` to end.
    pub fn read(&self, patience: Duration) -> Result<PortTable, SourceError> {
        match self {
            Source::Path(path) if path.is_dir() => folder(path),
            Source::Path(path) => file(path, None),
            Source::Command(words) => {
                let place = self.to_string();
                let printed = bytes_printed(words, &place, patience)?;
                read_bytes(&place, &printed, None)
            }
        }
    }
}

pub(super) fn whole(place: &str, message: impl Into<String>) -> SourceError {
    SourceError {
        place: place.to_string(),
        line: None,
        message: message.into(),
    }
}

/// A folder: trees and files of switches, or the tree of one. Other entries are skipped; no switch at all is an error.
fn folder(path: &Path) -> Result<PortTable, SourceError> {
    let place = path.display().to_string();
    let names = names_in(path)?;
    let mut table = PortTable::default();
    for name in names {
        let entry = path.join(&name);
        let shown = entry.display().to_string();
        if entry.is_dir() {
            read_tree(&entry, &name, &mut table).map_err(|message| whole(&shown, message))?;
        } else if entry.is_file() {
            let stem = entry.file_stem().and_then(|stem| stem.to_str());
            let one = file(&entry, stem)?;
            table.join(one).map_err(|message| whole(&shown, message))?;
        }
    }
    match table.is_empty() {
        false => Ok(table),
        true => Err(whole(
            &place,
            "no switch in it; expected one sub-folder per switch with its sys/class/net, or one file per switch",
        )),
    }
}

/// Where in a switch's folder its sysfs may begin.
const ROOTS: &[&str] = &["sys", "."];

/// Puts in the ports of one switch, whose folder this is. Whether it is one at all.
fn read_tree(folder: &Path, switch: &str, table: &mut PortTable) -> Result<bool, String> {
    let roots = ROOTS.iter().map(|root| folder.join(root));
    let Some(root) = roots.into_iter().find(|root| root.join("class/net").is_dir()) else {
        return Ok(false);
    };
    for interface in sysfs::interfaces(&root) {
        let counters = sysfs::read_counters(&root, &interface.name);
        let counter = |name: &str| {
            let mut named = counters.iter().filter(|(found, _)| found == name);
            named.find_map(|(_, value)| *value)
        };
        let bytes = PortBytes {
            tx_bytes: counter("tx_bytes"),
            rx_bytes: counter("rx_bytes"),
            width: Width::Bits64,
        };
        table.put(switch, &interface.name, bytes)?;
    }
    Ok(true)
}

/// A file about the switch of this name, unless the file names its switch.
fn file(path: &Path, switch: Option<&str>) -> Result<PortTable, SourceError> {
    let place = path.display().to_string();
    let switch = switch.or_else(|| path.file_stem().and_then(|stem| stem.to_str()));
    let bytes = bytes_of(path)?;
    read_bytes(&place, &bytes, switch)
}

/// The names of what is in a folder, in order, without what is hidden.
pub(super) fn names_in(path: &Path) -> Result<Vec<String>, SourceError> {
    let place = path.display().to_string();
    let entries = std::fs::read_dir(path).map_err(|error| whole(&place, error.to_string()))?;
    let names = entries
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> = names
        .filter(|name| !name.starts_with('.'))
        .take(MOST_ENTRIES + 1)
        .collect();
    if names.len() > MOST_ENTRIES {
        return Err(whole(&place, format!("more than {MOST_ENTRIES} entries")));
    }
    names.sort();
    Ok(names)
}

/// What is in a file, if it is one and not too large.
pub(super) fn bytes_of(path: &Path) -> Result<Vec<u8>, SourceError> {
    let place = path.display().to_string();
    let about = std::fs::metadata(path).map_err(|error| whole(&place, error.to_string()))?;
    if !about.is_file() {
        // Reading a pipe could block forever.
        return Err(whole(&place, "not a file or a folder"));
    }
    let too_large = || whole(&place, format!("larger than {LARGEST} bytes"));
    if about.len() > LARGEST {
        return Err(too_large());
    }
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(LARGEST + 1).read_to_end(&mut bytes));
    read.map_err(|error| whole(&place, error.to_string()))?;
    match bytes.len() as u64 > LARGEST {
        true => Err(too_large()),
        false => Ok(bytes),
    }
}

/// What a command prints.
pub(super) fn bytes_printed(
    words: &[String],
    place: &str,
    patience: Duration,
) -> Result<Vec<u8>, SourceError> {
    command::output(words, LARGEST, patience).map_err(|message| whole(place, message))
}

/// The text in some bytes.
pub(super) fn text_in<'b>(place: &str, bytes: &'b [u8]) -> Result<&'b str, SourceError> {
    std::str::from_utf8(bytes).map_err(|error| whole(place, format!("not text: {error}")))
}

impl SourceError {
    /// TextError with a text, and where that came from.
    pub(super) fn with_place(place: &str, TextError { line, message }: TextError) -> SourceError {
        SourceError {
            place: place.to_string(),
            line,
            message,
        }
    }
}

fn read_bytes(place: &str, bytes: &[u8], switch: Option<&str>) -> Result<PortTable, SourceError> {
    let text = text_in(place, bytes)?;
    read_text(text, switch).map_err(|error| SourceError::with_place(place, error))
}
