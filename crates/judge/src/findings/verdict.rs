//! The conclusions: verdicts of cells, of tests, and of the run.
//!
//! A **cell** passes when at least one reference applied, none is missed or suspected, no rank is suspected to
//! keep the others waiting, and no checked result was wrong.
//! A **test**, by the first rule that applies:
//!
//! 1. a cell failed: fail;
//! 2. no cell was planned or measured: not run;
//! 3. it has no reference at all, because none was requested or none was available, and it is not about the spread
//!    of streams or about probes, which need none: inconclusive;
//! 4. a cell was not measured, or is inconclusive for any reason but that its spec does not apply to its size or algorithm:
//!    inconclusive;
//! 5. no cell passed (the spec applies to none): inconclusive; else pass.
//!
//! The **run** fails when a finding is a fault. It passes only when there is no finding, every test passed, and at
//! least one was planned. Of the exit codes of its findings, and 20 where something is not settled, the worst wins.

use super::analysis::RunAnalysis;
use super::fairness::Shared;
use super::speed::Speed;
use record::stats::{beyond_fences, spread};
use record::text;
use record::units::{Nanos, Rate};
use record::{
    CellVerdict, Collective, Event, Finding, Interval, Percentiles, Question, Run, TestKind, TestRecord,
    TestVerdict, Verdict, exit_code,
};

/// The verdict of every planned cell, in plan order.
pub(super) fn of_cells(analysis: &RunAnalysis<'_>) -> Vec<CellVerdict> {
    use rayon::prelude::*;
    (0..analysis.summaries.len())
        .into_par_iter()
        .map(|place| of_cell(analysis, place))
        .collect()
}

fn of_cell(analysis: &RunAnalysis<'_>, place: usize) -> CellVerdict {
    let (summary, speed) = (&analysis.summaries[place], &analysis.speeds[place]);
    let confidence = analysis.run().rule.confidence;
    let time = summary.time(confidence);
    let algorithm_rate = time
        .filter(|time| time.median > 0.0)
        .map(|time| Rate(summary.cell.size.0 as f64 * 1e9 / time.median));
    let verdict = if analysis.corrupt.contains(&summary.cell.id) {
        Verdict::Fail("wrong data was delivered".into())
    } else if let Some(shared) = share_of(analysis, place) {
        shared
    } else if let Some(said) = analysis.traffic.says(summary.cell).filter(|_| summary.done) {
        said
    } else if summary.cell.collective == Collective::Streams && summary.done {
        of_streams(analysis, summary.cell.id)
    } else if summary.cell.collective == Collective::Probes && summary.done {
        of_probes(analysis, place)
    } else if let Some(said) = under_load(analysis, place) {
        said
    } else {
        match speed {
            Speed::NotRun(why) => Verdict::NotRun(why.clone()),
            Speed::Unclear(why) | Speed::OutOfReach(why) | Speed::Suspected(_, why) => {
                Verdict::Inconclusive(why.clone())
            }
            Speed::Good(_) if analysis.stragglers.suspected.contains(&place) => Verdict::Inconclusive(
                "a rank seems to keep the others waiting, and was not measured often enough to tell".into(),
            ),
            Speed::Good(_) if let Some(doubt) = analysis.shapes.doubtful.get(&place) => {
                Verdict::Inconclusive(doubt.clone())
            }
            Speed::Good(_) => Verdict::Pass,
            Speed::Slow(comparison) => Verdict::Fail(format!("slow: {}", comparison.in_words())),
        }
    };
    CellVerdict {
        cell: summary.cell.clone(),
        verdict,
        iterations: summary.times.len() as u32,
        rounds: summary.rounds.len() as u16,
        verified: summary.verified,
        time: time.map(|time| Interval {
            median: Nanos(time.median as u64),
            lower: Nanos(time.lower),
            upper: Nanos(time.upper),
        }),
        percentiles: spread(&summary.times).map(|spread| Percentiles {
            min: Nanos(spread.min),
            p50: time.map_or(Nanos(spread.p50), |time| Nanos(time.median as u64)),
            p95: Nanos(spread.p95),
            p99: Nanos(spread.p99),
            max: Nanos(spread.max),
        }),
        outliers: beyond_fences(&summary.times) as u32,
        algorithm_rate,
        bus_rate: algorithm_rate.map(|rate| rate * summary.cell.collective.bus_factor(summary.cell.world())),
        wire_rate: summary.wire_rate(confidence),
        expected: speed.comparison().map(|comparison| comparison.expected),
        expected_from: speed.comparison().map(|comparison| comparison.from.to_string()),
        slowest_rank: summary.slowest_rank,
    }
}

/// The verdict of a cell of streams: a fair hash is the expectation, and a fault of the spread that concerns the cell
/// fails it.
fn of_streams(analysis: &RunAnalysis<'_>, cell: u32) -> Verdict {
    match analysis.ecmp.fault_of(cell) {
        Some(fault) => Verdict::Fail(fault.to_string()),
        None if analysis.ecmp.doubt_about(cell).is_some() => {
            let why = analysis.ecmp.doubt_about(cell).unwrap_or_default();
            Verdict::Inconclusive(why.to_string())
        }
        None if analysis.ecmp.judges(cell) => Verdict::Pass,
        None => Verdict::Inconclusive(
            "how its streams are spread cannot be judged: their paths are not known, and no counters were \
             read"
                .into(),
        ),
    }
}

/// The verdict of a cell that sends to a rank beside others, by what its sender gets; none of another one.
fn share_of(analysis: &RunAnalysis<'_>, place: usize) -> Option<Verdict> {
    let summary = analysis.summaries.get(place).filter(|summary| summary.done)?;
    let budget = analysis.run().rule.budget_of(Question::Fairness);
    Some(match analysis.fairness.says(summary.cell, budget)? {
        Shared::Fairly => Verdict::Pass,
        Shared::Unfairly(why) => Verdict::Fail(why),
        Shared::Unclear(why) => Verdict::Inconclusive(why),
    })
}

/// The verdict of a cell of a test that loads rails, where its speed does not say it: what was seen under load on its rail, and of a load without an
/// expectation nothing else; none where speed decides.
fn under_load(analysis: &RunAnalysis<'_>, place: usize) -> Option<Verdict> {
    let (summary, speed) = (&analysis.summaries[place], &analysis.speeds[place]);
    let test = analysis.run().test_of(summary.cell)?;
    if !summary.done || !test.kind.loads_rails() {
        return None;
    }
    let has_expectation = !test.references.is_empty() || !test.missing_references.is_empty();
    match (analysis.under_load().says(summary.cell), speed) {
        (Some(said @ Verdict::Fail(_)), _) => Some(said),
        (Some(said), Speed::Good(_)) => Some(said),
        (Some(said), Speed::Unclear(_)) if !has_expectation => Some(said),
        (None, Speed::Unclear(_)) if !has_expectation => Some(match analysis.under_load().sees(summary.cell) {
            true => Verdict::Pass,
            false => Verdict::Inconclusive(
                "what happens under load cannot be judged: no counters of pauses, marks or losses were read, and no other rail was loaded".into(),
            ),
        }),
        _ => None,
    }
}

/// The verdict of a cell of probes: no part that they crossed may lose or hold up packets beyond chance, and all flows must have been sent.
fn of_probes(analysis: &RunAnalysis<'_>, place: usize) -> Verdict {
    let both = [(&analysis.packet_loss, "lost"), (&analysis.stalls, "late")];
    let fault = both.iter().find_map(|(losses, what)| {
        let mut causes = losses.confirmed();
        causes.find(|cause| cause.places.contains(&place)).map(|_| *what)
    });
    let unsent = probes_not_sent(analysis, analysis.summaries[place].cell.id);
    match fault {
        Some(what) => Verdict::Fail(format!("packets over a part that is named were {what}")),
        None if both.iter().any(|(losses, _)| losses.suspected.contains(&place)) => {
            Verdict::Inconclusive("packets were lost or late, and it is open why".into())
        }
        None => match unsent {
            None => Verdict::Inconclusive("what became of its probes was not recorded".into()),
            Some(0) => Verdict::Pass,
            Some(flows) => Verdict::Inconclusive(format!(
                "{} could not be sent at all",
                text::counted(flows, "flow of probes")
            )),
        },
    }
}

/// Flows of a cell of which no probe could be sent; none where nothing is recorded of its probes.
fn probes_not_sent(analysis: &RunAnalysis<'_>, cell: u32) -> Option<usize> {
    let events = analysis.recorded.events.iter().rev();
    let mut rounds = events.filter_map(|event| match event {
        Event::CellDone(done) if done.cell == cell => Some(&done.probes),
        _ => None,
    });
    let last = rounds.next().filter(|probes| !probes.is_empty())?;
    Some(last.iter().filter(|counts| counts.packets() == 0).count())
}

/// Whether chance is what is expected: of how streams are spread, what becomes of probes, and what happens under load where no rate is expected.
fn needs_no_reference(test: &TestRecord) -> bool {
    let is_of_chance = matches!(
        test.kind,
        TestKind::Ecmp | TestKind::Fairness | TestKind::Permutation | TestKind::Probe
    );
    is_of_chance || test.kind.loads_rails() && test.missing_references.is_empty()
}

/// The verdict of every test, in suite order.
pub(super) fn of_tests(analysis: &RunAnalysis<'_>, cells: &[CellVerdict]) -> Vec<TestVerdict> {
    let run = analysis.run();
    run.tests
        .iter()
        .map(|test| {
            let places: Vec<usize> = (0..cells.len())
                .filter(|place| cells[*place].cell.test == test.name)
                .collect();
            let measured = places
                .iter()
                .filter(|place| analysis.summaries[**place].done)
                .count();
            let count = |wanted: fn(&Verdict) -> bool| {
                places
                    .iter()
                    .filter(|place| wanted(&cells[**place].verdict))
                    .count()
            };
            let failed = count(|verdict| matches!(verdict, Verdict::Fail(_)));
            let passed = count(|verdict| matches!(verdict, Verdict::Pass));
            let unsettled =
                places
                    .iter()
                    .find_map(|place| match (&cells[*place].verdict, &analysis.speeds[*place]) {
                        (_, Speed::OutOfReach(_)) => None,
                        (Verdict::Inconclusive(why) | Verdict::NotRun(why), _) => Some((*place, why)),
                        _ => None,
                    });
            let verdict = if failed > 0 {
                Verdict::Fail(format!("{failed} of {} cells failed", places.len()))
            } else if places.is_empty() {
                Verdict::NotRun(why_unplanned(run, &test.name))
            } else if measured == 0 {
                Verdict::NotRun(analysis.summaries[places[0]].why_not_measured(analysis.recorded))
            } else if test.references.is_empty() && !needs_no_reference(test) {
                Verdict::Inconclusive(match test.missing_references.is_empty() {
                    true => "no expectation: the suite states none for this test".into(),
                    false => format!("no expectation: {}", test.missing_references.join("; ")),
                })
            } else if let Some((place, why)) = unsettled {
                Verdict::Inconclusive(format!(
                    "{} of {} cells passed; {}: {why}",
                    passed,
                    places.len(),
                    cells[place].cell.describe()
                ))
            } else if passed == 0 {
                Verdict::Inconclusive("no cell is of a size and algorithm that its spec applies to".into())
            } else {
                Verdict::Pass
            };
            TestVerdict {
                name: test.name.clone(),
                verdict,
                planned: places.len() as u32,
                measured: measured as u32,
            }
        })
        .collect()
}

/// Why a test has no cells: the plan's reason for the whole test, if it gives one.
fn why_unplanned(run: &Run, test: &str) -> String {
    let whole = format!("test `{test}`");
    match run.untested.iter().find(|gap| gap.what == whole) {
        Some(gap) => gap.why.clone(),
        None => "the plan has no cell for it".to_string(),
    }
}

/// The verdict of a run.
pub(super) struct RunVerdict {
    pub(super) verdict: Verdict,
    pub(super) exit_code: u8,
    pub(super) summary: String,
}

/// The verdict of the run as a whole.
pub(super) fn of_run(analysis: &RunAnalysis<'_>, findings: &[Finding], tests: &[TestVerdict]) -> RunVerdict {
    let open = [&analysis.packet_loss, &analysis.stalls];
    let of_losses = open.into_iter().filter_map(|open| open.open(analysis.run()));
    let unsettled: Vec<String> = tests
        .iter()
        .filter_map(|test| match &test.verdict {
            Verdict::Inconclusive(why) | Verdict::NotRun(why) => Some(format!("{}: {why}", test.name)),
            Verdict::Pass | Verdict::Fail(_) => None,
        })
        .chain(of_losses)
        .collect();
    let passed = tests.iter().filter(|test| test.verdict == Verdict::Pass).count();
    let is_unsettled = !unsettled.is_empty() || tests.is_empty() || analysis.summaries.is_empty();
    let accuses = findings
        .iter()
        .find(|finding| finding.kind.exit_code() != exit_code::INCONCLUSIVE);
    let score = format!("{passed} of {} tests passed", tests.len());
    let verdict = if let Some(finding) = accuses {
        Verdict::Fail(finding.sentence.clone())
    } else if let Some(finding) = findings.first() {
        Verdict::Inconclusive(finding.sentence.clone())
    } else if let Some(why) = unsettled.first() {
        Verdict::Inconclusive(why.clone())
    } else if is_unsettled {
        Verdict::Inconclusive("nothing was planned".into())
    } else {
        Verdict::Pass
    };
    let mut summary = match &verdict {
        Verdict::Pass => {
            format!(
                "PASS: {score}, {} cells measured and as expected",
                analysis.summaries.len()
            )
        }
        Verdict::Fail(why) => {
            let more = match findings.len().saturating_sub(1) {
                0 => String::new(),
                more => format!(" (and {})", text::counted(more, "more finding")),
            };
            let open = match unsettled.as_slice() {
                [] => String::new(),
                [first, ..] => format!(
                    "; {} not settled: {first}",
                    text::counted(unsettled.len(), "test")
                ),
            };
            format!("FAIL: {why}{more}{open}")
        }
        Verdict::Inconclusive(why) | Verdict::NotRun(why) => format!("INCONCLUSIVE: {score}; {why}"),
    };
    if !analysis.run().injected.is_empty() {
        let count = analysis.run().injected.len();
        summary.push_str(&format!(
            " [negative control: {count} fault{} injected on purpose]",
            text::plural(count)
        ));
    }
    let of_findings = findings.iter().map(|finding| finding.kind.exit_code());
    let exit_code = exit_code::worst(of_findings.chain(is_unsettled.then_some(exit_code::INCONCLUSIVE)));
    RunVerdict {
        verdict,
        exit_code,
        summary,
    }
}
