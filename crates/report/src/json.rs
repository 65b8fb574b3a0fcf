//! The files for machines: `findings.json` as `docs/findings.schema.json` describes it, and `readings.json` for histories.

use std::io;

use serde::Serialize;

use crate::escape;
use crate::writer::Writer;
use judge::history;
use record::{Judgement, Recorded, files};

/// The judgement.
pub(super) struct Findings;

impl Writer for Findings {
    fn file(&self) -> &'static str {
        files::FINDINGS
    }

    fn render(&self, _: &Recorded, judgement: &Judgement) -> io::Result<String> {
        Ok(finished(&judgement.to_json()?))
    }
}

/// What the run says of every part.
pub(super) struct Readings;

impl Writer for Readings {
    fn file(&self) -> &'static str {
        files::READINGS
    }

    fn render(&self, recorded: &Recorded, judgement: &Judgement) -> io::Result<String> {
        Ok(finished(&history::readings(recorded, judgement).to_json()?))
    }
}

/// JSON over several lines, fields in a fixed order, ending with a line end; names from other machines are escaped.
pub(super) fn pretty(value: &impl Serialize) -> io::Result<String> {
    Ok(finished(&serde_json::to_string_pretty(value)?))
}

fn finished(json: &str) -> String {
    let mut text = escape::json(json);
    text.push('\n');
    text
}
