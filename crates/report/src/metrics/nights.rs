//! What changed since the last nights, as a few series: matters are counted, not named, so that dashboards stay small.

use strum::IntoEnumIterator;

use super::names::*;
use super::text::Sheet;
use record::{History, Severity, Standing};

/// The words of standings, as labels.
const STANDINGS: [&str; 5] = ["new", "still", "again", "gone", "unknown"];

pub(super) fn put(sheet: &mut Sheet, history: &History) {
    sheet.put(&HISTORY_NIGHTS, &[], f64::from(history.nights));
    sheet.put(&HISTORY_SERIES, &["compared"], f64::from(history.compared));
    sheet.put(&HISTORY_SERIES, &["young"], f64::from(history.young));
    for standing in STANDINGS {
        for severity in Severity::iter() {
            let matters = history.matters.iter();
            let count = matters
                .filter(|matter| word_of(&matter.standing) == standing && matter.severity == severity)
                .count();
            sheet.put(&HISTORY_MATTERS, &[standing, &severity.to_string()], count as f64);
        }
    }
    sheet.put(&HISTORY_REPLACED, &[], history.replaced.len() as f64);
}

fn word_of(standing: &Standing) -> &'static str {
    match standing {
        Standing::New => "new",
        Standing::Still { .. } => "still",
        Standing::Again { .. } => "again",
        Standing::Gone { .. } => "gone",
        Standing::Unknown { .. } => "unknown",
    }
}
