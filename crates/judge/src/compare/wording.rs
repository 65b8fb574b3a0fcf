//! The sentences of a comparison, so that the same fact reads the same everywhere.

use super::outcome::{is_fault, is_mostly_unclear};
use record::text::{list, percent, plural};
use record::{
    CellComparison, CommonPart, Comparison, FindingState, Outcome, Pace, Shift, TestChange, Verdict,
};

/// `20 % slower`, `25 % faster`, `3.2 times as fast`.
fn by_how_much(ratio: f64) -> String {
    match ratio {
        ratio if ratio < 1.0 => format!("{} slower", percent(1.0 - ratio)),
        ratio if ratio < 2.0 => format!("{} faster", percent(ratio - 1.0)),
        ratio => format!("{ratio:.1} times as fast"),
    }
}

/// A line about cells that moved together, described by the one that moved furthest.
pub(super) fn shift(shift: &Shift, furthest: &CellComparison) -> String {
    let sizes = match shift.sizes {
        (least, most) if least == most => format!("at {least}"),
        (least, most) => format!("from {least} to {most}"),
    };
    let tests = match shift.common {
        CommonPart::Everything => format!(" in {}", list(&shift.tests)),
        _ => String::new(),
    };
    let moved = match shift.cells {
        1 => format!("1 of {} cells", shift.of),
        cells => format!("median of {cells} of {} cells", shift.of),
    };
    format!(
        "{}{tests}: {} ({moved}, {sizes}); {}: {}",
        shift.part,
        by_how_much(shift.ratio),
        furthest.what,
        then_and_now(furthest)
    )
}

/// `1.00 GB/s [0.99, 1.01] -> 0.80 GB/s [0.79, 0.81], 0.80 [0.78, 0.82] of before`.
fn then_and_now(row: &CellComparison) -> String {
    let figures = match (row.old_rate, row.new_rate, row.old, row.new) {
        (Some(old), Some(new), ..) => format!("{old} -> {new}, "),
        (_, _, Some(old), Some(new)) => format!(
            "{} [{}, {}] -> {} [{}, {}], ",
            old.median, old.lower, old.upper, new.median, new.lower, new.upper
        ),
        _ => String::new(),
    };
    let ratio = row.ratio.map_or_else(String::new, |ratio| {
        format!(
            "{:.2} [{:.2}, {:.2}] of the previous speed",
            ratio.median, ratio.lower, ratio.upper
        )
    });
    format!("{figures}{ratio}")
}

/// The comparison in one sentence.
pub(super) fn summary(comparison: &Comparison) -> String {
    let outcome = comparison.outcome.to_string().to_uppercase();
    let said = match comparison.outcome {
        Outcome::Worse => worse(comparison),
        Outcome::Better => better(comparison),
        Outcome::Incomplete => incomplete(comparison),
        Outcome::Incomparable => incomparable(comparison),
        Outcome::Same => Vec::new(),
    };
    let mut said = said;
    said.push(measured(comparison));
    format!("{outcome}: {}", said.join("; "))
}

fn worse(comparison: &Comparison) -> Vec<String> {
    let mut said = Vec::new();
    said.extend(moved(&comparison.slower, Pace::Slower));
    let new: Vec<String> = comparison
        .findings
        .iter()
        .filter(|finding| finding.state == FindingState::New && is_fault(finding.kind))
        .map(|finding| format!("{} {}", finding.kind, finding.part))
        .collect();
    if !new.is_empty() {
        said.push(format!("newly failing: {}", list(&new)));
    }
    let is_failing =
        |test: &&TestChange| test.old == Some(Verdict::Pass) && matches!(test.new, Some(Verdict::Fail(_)));
    let tests: Vec<String> = comparison
        .tests
        .iter()
        .filter(is_failing)
        .map(|test| test.name.clone())
        .collect();
    if !tests.is_empty() {
        said.push(format!(
            "test{} {} passed and {} now",
            plural(tests.len()),
            list(&tests),
            if tests.len() == 1 { "fails" } else { "fail" }
        ));
    }
    said
}

fn better(comparison: &Comparison) -> Vec<String> {
    let mut said = Vec::new();
    said.extend(moved(&comparison.faster, Pace::Faster));
    let gone: Vec<String> = comparison
        .findings
        .iter()
        .filter(|finding| finding.state == FindingState::Gone)
        .map(|finding| format!("{} {}", finding.kind, finding.part))
        .collect();
    if !gone.is_empty() {
        said.push(format!("no longer failing: {}", list(&gone)));
    }
    said
}

fn incomplete(comparison: &Comparison) -> Vec<String> {
    let mut said = Vec::new();
    if is_mostly_unclear(&comparison.counts) {
        said.push("most cells are unclear".to_string());
    }
    let parts: Vec<String> = comparison
        .no_longer_tested
        .iter()
        .map(|line| line.part.clone())
        .collect();
    if !parts.is_empty() {
        said.push(format!("no longer tested: {}", list(&parts)));
    }
    let is_unsettled =
        |test: &&TestChange| test.old == Some(Verdict::Pass) && test.new != Some(Verdict::Pass);
    let tests: Vec<String> = comparison
        .tests
        .iter()
        .filter(is_unsettled)
        .map(|test| test.name.clone())
        .collect();
    if !tests.is_empty() {
        said.push(format!("no longer known to pass: {}", list(&tests)));
    }
    let new = comparison
        .findings
        .iter()
        .find(|finding| finding.state == FindingState::New);
    said.extend(new.map(|finding| finding.sentence.clone()));
    said
}

fn incomparable(comparison: &Comparison) -> Vec<String> {
    match comparison.counts.compared {
        0 => vec!["the runs have no measured cell in common".to_string()],
        _ => vec!["no cell is shown to be as fast as before".to_string()],
    }
}

fn moved(shifts: &[Shift], pace: Pace) -> Option<String> {
    let first = shifts.first()?;
    let more = match shifts.len() - 1 {
        0 => String::new(),
        more => format!(" (and {more} more {pace} part{})", plural(more)),
    };
    Some(format!(
        "{}: {} in {} of {} cells{more}",
        first.part,
        by_how_much(first.ratio),
        first.cells,
        first.of
    ))
}

/// How much of it could be compared.
fn measured(comparison: &Comparison) -> String {
    let counts = &comparison.counts;
    let mut said = vec![format!(
        "{} cell{} compared, {} slower, {} faster, {} the same, {} unclear",
        counts.compared,
        plural(counts.compared as usize),
        counts.slower,
        counts.faster,
        counts.same,
        counts.unclear
    )];
    if counts.only_old > 0 {
        said.push(format!("{} only in the old run", counts.only_old));
    }
    if counts.only_new > 0 {
        said.push(format!("{} only in the new run", counts.only_new));
    }
    said.join(", ")
}
