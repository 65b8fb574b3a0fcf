//! Two judged runs, the older and the newer: what became slower, faster, newly failing, no longer tested.
//!
//! Cells are the same when they measure the same on the same hosts and rails, whatever their numbers are (`cells`).
//! Each pair of them is compared by its samples (`pace`); cells that moved together become one line (`groups`,
//! `shifts`); findings, tests and what was left out are compared (`findings`, `coverage`); and changes of the runs
//! themselves are reported (`changes`).
//!
//! Invariants: nothing is called slower or faster unless intervals, margin, every round and a test over all
//! comparisons agree; swapping the runs gives the opposite answer; only what both runs measured is compared, and what
//! only one of them measured is reported.

mod cells;
mod changes;
mod coverage;
mod findings;
mod groups;
mod outcome;
mod pace;
mod shifts;
mod wording;

#[cfg(test)]
mod coverage_tests;
#[cfg(test)]
mod tests;

pub use cells::Side;

use cells::Cells;
use outcome::outcome;
use record::{ComparedRun, Comparison, ComparisonCounts, Outcome, Pace, SCHEMA};

/// Compares two runs. `margin` is how far a speed may move and still be the same. Without one, each test has its own:
/// that of its baseline, else the narrowest of its other references.
pub fn compare(old: Side<'_>, new: Side<'_>, margin: Option<f64>) -> Comparison {
    let (then, now) = (Cells::of(old.recorded), Cells::of(new.recorded));
    let (rule, pairs) = pace::compare(&old, &new, &then, &now, margin);
    let rows: Vec<_> = pairs.iter().map(|pair| pair.row.clone()).collect();
    let slower = shifts::shifts(&pairs, Pace::Slower, &now, &new.recorded.run);
    let faster = shifts::shifts(&pairs, Pace::Faster, &now, &new.recorded.run);
    let findings = findings::of(&old, &new, &then, &now);
    let tests = findings::tests(old.judgement, new.judgement);
    let gone = coverage::one_sided(&then, &now, &old, &new, "the new run does not plan it");
    let came = coverage::one_sided(&now, &then, &new, &old, "the old run did not plan it");
    let count = |wanted: Pace| rows.iter().filter(|row| row.pace == wanted).count() as u32;
    let counts = ComparisonCounts {
        compared: rows.len() as u32,
        slower: count(Pace::Slower),
        faster: count(Pace::Faster),
        same: count(Pace::Same),
        unclear: count(Pace::Unclear),
        without_speed: pace::without_speed(&then, &now),
        other_partners: gone.other_partners,
        only_old: gone.cells,
        only_new: came.cells,
    };
    let mut comparison = Comparison {
        schema: SCHEMA,
        version: record::VERSION.to_string(),
        outcome: Outcome::Same,
        exit_code: 0,
        summary: String::new(),
        old: run(&old),
        new: run(&new),
        rule,
        counts,
        remarks: changes::remarks(&old, &new, &counts),
        slower,
        faster,
        findings,
        tests,
        no_longer_tested: gone.lines,
        newly_tested: came.lines,
        changed: changes::of_run(&old.recorded.run, &new.recorded.run),
        inventory: changes::of_inventory(&old, &new),
        cells: rows,
    };
    comparison.outcome = outcome(&comparison);
    comparison.exit_code = comparison.outcome.exit_code();
    comparison.summary = wording::summary(&comparison);
    comparison
}

fn run(side: &Side<'_>) -> ComparedRun {
    let (run, judgement) = (&side.recorded.run, side.judgement);
    ComparedRun {
        name: side.name.to_string(),
        suite: run.suite.clone(),
        started: run.started.clone(),
        version: run.version.clone(),
        verdict: judgement.verdict.clone(),
        exit_code: judgement.exit_code,
        hosts: run.hosts.len() as u32,
        ranks: run.ranks.len() as u32,
        planned: judgement.coverage.planned,
        measured: judgement.coverage.measured,
    }
}
