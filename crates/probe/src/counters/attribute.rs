//! One small file of a tree that holds a number or a list of them.

use std::fs::File;
use std::io::{Error, ErrorKind, Read};
use std::path::Path;

use super::Value;
use record::CounterState;

/// No file of counters is longer.
const LONGEST: u64 = 4096;

/// The number in a file.
pub(super) fn number(path: &Path) -> Value {
    let text = text(path)?;
    text.trim().parse().map_err(|_| unreadable("it is no number"))
}

/// What is written in a file. Only plain files are opened: a pipe in a recorded tree would be waited on for ever.
pub(super) fn text(path: &Path) -> Result<String, CounterState> {
    match std::fs::metadata(path) {
        Ok(metadata) if metadata.is_file() => {}
        Ok(_) => return Err(unreadable("it is no file")),
        Err(error) => return Err(state(&error)),
    }
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(|error| state(&error))?;
    file.take(LONGEST + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| state(&error))?;
    if bytes.len() as u64 > LONGEST {
        return Err(unreadable("it is longer than anything of its kind"));
    }
    String::from_utf8(bytes).map_err(|_| unreadable("it is not text"))
}

fn state(error: &Error) -> CounterState {
    match error.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory => CounterState::Absent,
        // The kind alone: what the system says in full differs from machine to machine.
        kind => CounterState::Unreadable(kind.to_string()),
    }
}

pub(super) fn unreadable(why: &str) -> CounterState {
    CounterState::Unreadable(why.to_string())
}
