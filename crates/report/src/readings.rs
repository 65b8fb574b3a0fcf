//! `readings.json`: what the run says of every part, for histories.

use std::io;

use super::{Writer, escape};
use judge::history;
use record::{Judgement, Recorded, files};

/// The readings, pretty-printed, fields in a fixed order.
pub(super) struct Readings;

impl Writer for Readings {
    fn file(&self) -> &'static str {
        files::READINGS
    }

    fn render(&self, recorded: &Recorded, judgement: &Judgement) -> io::Result<String> {
        let readings = history::readings(recorded, judgement);
        let mut text = escape::json(&serde_json::to_string_pretty(&readings)?);
        text.push('\n');
        Ok(text)
    }
}
