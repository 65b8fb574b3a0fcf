//! The references that apply to a cell: rows of specs, a recorded run, its peers.

use super::Speed;
use super::comparison::{Comparison, Expectation, MeasuredCell};
use crate::findings::peers::{PeerGroups, peer_noun};
use crate::findings::summary::CellSummary;
use crate::findings::wire::Wire;
use record::stats::samples_needed;
use record::text;
use record::units::Rate;
use record::{Algorithm, Load, Recorded, Reference, SpecRow, TransportKind};

/// What flows must reach, of the rate of links with room to spare, where they fill links over which packets are sprayed: those of a healthy
/// leaf reached 0.82 to 1.1 of it (a lab, 2026-11-18).
const FILLED_SHARE: f64 = 0.8;

/// How much of what a link lacks shows in flows that fill it and its equals: 7 % less where one of four carried 88 % (a lab, 2026-11-18). The margin is about
/// links.
const SHOWN: f64 = 0.5;

/// The references that apply to a cell, and why others do not.
pub(super) struct Applied {
    /// Pairs of ranks that the cell's data goes between: each of them may be disturbed.
    pub(super) pairs: usize,
    pub(super) comparisons: Vec<Comparison>,
    pub(super) reasons: Vec<String>,
    pub(super) is_out_of_reach: bool,
}

/// Compares a cell with every reference of its test; an error is what can be said without.
pub(super) fn compare(
    recorded: &Recorded,
    summaries: &[CellSummary<'_>],
    peers: &PeerGroups,
    place: usize,
) -> Result<Applied, Speed> {
    let summary = &summaries[place];
    // Streams and probes run for a fixed time: they are judged by how they are spread, and by what became of them.
    if !summary.cell.collective.is_scheduled() {
        return Err(match summary.done {
            true => Speed::Unclear(format!("{} have no speed of their own", summary.cell.collective)),
            false => Speed::NotRun(summary.why_not_measured(recorded)),
        });
    }
    let measured = measurable(recorded, summary)?;
    let test = recorded.run.test_of(summary.cell);
    let references = test.map_or(&[][..], |test| &test.references);
    let is_congested = test.is_some_and(|test| test.kind.loads_rails())
        && (summary.cell.load != Load::Alone || !summary.cell.collective.is_pairwise());
    let mut applied = Applied {
        pairs: match summary.cell.ranks.len() {
            0..=2 => 1,
            ranks => ranks,
        },
        comparisons: Vec::new(),
        reasons: Vec::new(),
        is_out_of_reach: false,
    };
    for reference in references {
        let comparison = match reference {
            Reference::Spec(row) if is_congested => {
                Err(format!("spec {} applies to links without other load", row.id))
            }
            Reference::Spec(row) => against_spec(&measured, row, &mut applied.is_out_of_reach),
            Reference::Baseline { run, margin, rates } => {
                match rates.binary_search_by_key(&summary.cell.id, |known| known.cell) {
                    Ok(at) => against_baseline(&measured, run, *margin, rates[at].rate),
                    Err(_) => Err(format!("baseline {run} has no such cell")),
                }
            }
            Reference::Peers { margin } => {
                let share = if summary.cell.load.is_filling() {
                    SHOWN
                } else {
                    1.0
                };
                against_peers(&measured, summaries, peers, place, margin * share)
            }
        };
        match comparison {
            Ok(comparison) => applied.comparisons.push(comparison),
            Err(reason) => applied.reasons.push(reason),
        }
    }
    applied.reasons.extend(
        test.into_iter()
            .flat_map(|test| test.missing_references.iter().cloned()),
    );
    if applied.reasons.is_empty() {
        applied.reasons.push("the suite states none for this test".into());
    }
    Ok(applied)
}

/// A cell that can be judged; otherwise why it cannot.
fn measurable<'c, 'r>(
    recorded: &'c Recorded,
    summary: &'c CellSummary<'r>,
) -> Result<MeasuredCell<'c, 'r>, Speed> {
    let rule = &recorded.run.rule;
    let confidence = rule.confidence;
    let iterations = summary.times.len();
    if let Wire::Contradiction(text) = &summary.wire {
        return Err(Speed::Unclear(text.clone()));
    }
    if iterations == 0 {
        return Err(Speed::NotRun(summary.why_not_measured(recorded)));
    }
    if !summary.done {
        return Err(Speed::Unclear(summary.why_not_measured(recorded)));
    }
    let needed = samples_needed(confidence);
    if needed.is_none_or(|needed| iterations < needed) {
        let needed = needed.map_or("more".into(), |needed| needed.to_string());
        return Err(Speed::Unclear(format!(
            "{iterations} complete iterations; an interval needs {needed}"
        )));
    }
    let bytes = summary
        .wire
        .bytes()
        .ok_or_else(|| Speed::Unclear("nothing crosses a link".into()))?;
    match summary.wire_rate(confidence) {
        Some(rate) => Ok(MeasuredCell {
            summary,
            bytes,
            rate,
            rule,
        }),
        None => Err(Speed::Unclear("recorded times of zero give no rate".into())),
    }
}

fn against_spec(
    measured: &MeasuredCell<'_, '_>,
    row: &SpecRow,
    is_out_of_reach: &mut bool,
) -> Result<Comparison, String> {
    let cell = measured.summary.cell;
    if cell.transport == TransportKind::Shm {
        return Err(format!(
            "spec {} applies to links, and shared memory is not a link",
            row.id
        ));
    }
    if let Some(algorithm) = row.algorithm.filter(|algorithm| *algorithm != cell.algorithm) {
        return Err(format!(
            "spec {} applies to {algorithm}, not {}",
            row.id, cell.algorithm
        ));
    }
    if row.algorithm.is_none() && matches!(cell.algorithm, Algorithm::Tree | Algorithm::DoubleTree) {
        *is_out_of_reach = true;
        return Err(format!(
            "spec {} is what a link carries, and a {} waits between its levels: it fills none all the time",
            row.id, cell.algorithm
        ));
    }
    if let Some(mbit) = row.line_mbit
        && cell.line_mbit != Some(mbit)
    {
        return Err(format!("spec {} applies to links of {mbit} Mbit/s", row.id));
    }
    if cell.size < row.from_size {
        *is_out_of_reach = true;
        return Err(format!("spec {} applies to {} and above", row.id, row.from_size));
    }
    let (rate, share) = match cell.load.is_filling() {
        true => (
            row.rate * FILLED_SHARE,
            format!("{} of ", text::percent(FILLED_SHARE)),
        ),
        false => (row.rate, String::new()),
    };
    let threshold = checked_threshold(rate, row.tolerance, &format!("spec {}", row.id))?;
    let from = format!(
        "{share}spec {}, tolerance {}",
        row.id,
        text::percent(row.tolerance)
    );
    Ok(against_figure(measured, rate, threshold, from))
}

fn against_baseline(
    measured: &MeasuredCell<'_, '_>,
    run: &str,
    margin: f64,
    then: Rate,
) -> Result<Comparison, String> {
    let threshold = checked_threshold(then, margin, &format!("baseline {run}"))?;
    let from = format!("baseline {run}, margin {}", text::percent(margin));
    Ok(against_figure(measured, then, threshold, from))
}

/// Against a figure that is the same in every round.
fn against_figure(measured: &MeasuredCell<'_, '_>, rate: Rate, threshold: Rate, from: String) -> Comparison {
    let expectation = Expectation {
        rate,
        threshold,
        peers: None,
        from,
    };
    measured.against(expectation, |_| None)
}

fn against_peers(
    measured: &MeasuredCell<'_, '_>,
    summaries: &[CellSummary<'_>],
    peers: &PeerGroups,
    place: usize,
    margin: f64,
) -> Result<Comparison, String> {
    let reference = peers
        .reference(place)
        .ok_or_else(|| "no measured peer to compare with".to_string())?;
    let (rate, count) = (reference.rate, reference.count);
    let threshold = checked_threshold(rate, margin, "the peers' median")?;
    let noun = peer_noun(
        measured.summary.cell,
        peers.others(place).map(|peer| summaries[peer.place].cell),
    );
    let from = format!(
        "median of {} peer {noun}{}, margin {}",
        count,
        text::plural(count),
        text::percent(margin)
    );
    let of_round = |number: u16| Some(peers.rate_in_round(summaries, place, number)? * (1.0 - margin));
    let expectation = Expectation {
        rate,
        threshold,
        peers: Some(count),
        from,
    };
    Ok(measured.against(expectation, of_round))
}

/// The rate that must be reached; an error text when the reference is unusable.
fn checked_threshold(expected: Rate, slack: f64, what: &str) -> Result<Rate, String> {
    let threshold = expected * (1.0 - slack);
    let makes_sense = threshold.0.is_finite() && threshold.0 > 0.0 && slack >= 0.0;
    makes_sense
        .then_some(threshold)
        .ok_or_else(|| format!("{what} gives no usable threshold"))
}
