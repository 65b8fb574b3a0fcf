//! `findings.json`: the judgement for machines, as `docs/findings.schema.json` describes it.

use std::io;

use super::{Writer, escape};
use record::{Judgement, Recorded, files};

/// The judgement, pretty-printed, fields in a fixed order.
pub(super) struct Json;

impl Writer for Json {
    fn file(&self) -> &'static str {
        files::FINDINGS
    }

    fn render(&self, _: &Recorded, judgement: &Judgement) -> io::Result<String> {
        let mut text = escape::json(&serde_json::to_string_pretty(judgement)?);
        text.push('\n');
        Ok(text)
    }
}
