//! What changed since the last nights.

use super::super::history::{MOST_MATTERS, about, matters, replaced};
use super::Facts;
use super::out::Out;
use record::files;

/// Whether the run was compared with earlier ones.
pub(super) fn is_wanted(facts: &Facts<'_>) -> bool {
    facts.recorded.history.is_some()
}

/// Matters, replaced parts, and what could not be compared.
pub(super) fn section(out: &mut Out, facts: &Facts<'_>) {
    let Some(history) = &facts.recorded.history else {
        return;
    };
    out.paragraph(&history.summary);
    out.paragraph(&about(history));
    if !history.matters.is_empty() {
        out.table(&matters(history, MOST_MATTERS));
    }
    if !history.replaced.is_empty() {
        out.table(&replaced(history, MOST_MATTERS));
    }
    let most = history.matters.len().max(history.replaced.len());
    if most > MOST_MATTERS {
        out.paragraph(&format!("The rest is in {}.", files::HISTORY));
    }
    if !history.skipped.is_empty() {
        out.paragraph("Not compared with:");
        out.within("ul", &[], |out| {
            for folder in history.skipped.iter().take(MOST_MATTERS) {
                out.leaf("li", &[], folder);
            }
        });
    }
}
