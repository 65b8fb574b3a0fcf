//! What one run says of every part, in few words.
//!
//! A part is at least as good as the best that crossed it alone: a flow is as slow as the slowest part on its way, so of many
//! flows over one part the best says most about that part. What shared the part with others of its slot says nothing.
//!
//! Held true: the same record gives the same readings in the same order; nothing is read of a part that nothing measured; no
//! figure is zero, negative or not a number.

mod flows;
mod identity;
mod nodes;
mod whole;

use std::collections::BTreeMap;

use crate::findings::probe_readings;
use identity::Identities;
use record::{
    FindingKind, FindingSummary, Interval, Judgement, LinkLoad, PartKind, PartReading, ProbeReadings,
    Quantity, Readings, Recorded, SCHEMA, Suspect,
};

/// Everything that a judged run says about parts.
pub fn readings(recorded: &Recorded, judgement: &Judgement) -> Readings {
    let identities = Identities::of(recorded, judgement);
    let mut kept = ReadingSet::default();
    flows::read(recorded, judgement, &identities, &mut kept);
    whole::read(recorded, judgement, &mut kept);
    let nodes = nodes::of(recorded, &kept, &identities);
    nodes.into_iter().for_each(|node| kept.add(node));
    Readings {
        schema: SCHEMA,
        suite: judgement.suite.clone(),
        started: judgement.started.clone(),
        ended: judgement.ended,
        exit_code: judgement.exit_code,
        parts: kept.0.into_values().collect(),
        findings: found(judgement),
        loads: loads(judgement),
        counters: judgement
            .counters
            .as_ref()
            .map_or_else(Vec::new, |report| report.moved.clone()),
        untested: [
            &judgement.coverage.untested[..],
            &judgement.coverage.not_measured[..],
        ]
        .concat(),
        probes: probes(recorded),
        iterations: judgement
            .cells
            .iter()
            .map(|cell| u64::from(cell.iterations))
            .sum(),
        verified: judgement.cells.iter().map(|cell| u64::from(cell.verified)).sum(),
        injected: judgement.injected.clone(),
    }
}

/// What became of probes, flow by flow: a burn-in adds up its cycles. A run by itself says all that in its findings.
fn probes(recorded: &Recorded) -> Option<ProbeReadings> {
    recorded.run.pattern_seed?;
    probe_readings(recorded)
}

/// Readings so far, the best of each part and quantity.
#[derive(Default)]
struct ReadingSet(BTreeMap<(PartKind, String, Quantity), PartReading>);

impl ReadingSet {
    /// Adds one more reading: the better one is kept, and cells add up.
    fn add(&mut self, reading: PartReading) {
        let is_figure = |value: f64| value.is_finite() && value > 0.0;
        if ![reading.value, reading.lower, reading.upper]
            .into_iter()
            .all(is_figure)
        {
            return;
        }
        let key = (reading.kind, reading.part.clone(), reading.quantity);
        let Some(known) = self.0.get_mut(&key) else {
            self.0.insert(key, reading);
            return;
        };
        let cells = known.cells.saturating_add(reading.cells);
        let is_better = match reading.quantity.is_better_when_higher() {
            true => reading.value > known.value,
            false => reading.value < known.value,
        };
        if is_better {
            *known = reading;
        }
        known.cells = cells;
    }
}

/// One cell's figure of a part.
fn reading(kind: PartKind, part: String, quantity: Quantity, figure: Interval<f64>) -> PartReading {
    PartReading {
        kind,
        part,
        quantity,
        value: figure.median,
        lower: figure.lower,
        upper: figure.upper,
        expected: None,
        identity: None,
        cells: 1,
    }
}

/// What was found, but for what only says that something is not known.
fn found(judgement: &Judgement) -> Vec<FindingSummary> {
    let findings = judgement.findings.iter();
    let told = findings.filter(|finding| finding.kind != FindingKind::IncompleteCoverage);
    told.map(|finding| FindingSummary {
        kind: finding.kind,
        part: finding.part(),
        sentence: finding.sentence.clone(),
        place: finding.place.clone(),
        both_directions: finding.suspects.first().is_some_and(Suspect::is_both_directions),
        measured: finding.measured,
        expected: finding.expected,
        not_told_apart_from: finding.not_told_apart_from.clone(),
        next_step: finding.next_step.clone(),
        repeat: finding.repeat.clone(),
    })
    .collect()
}

fn loads(judgement: &Judgement) -> Vec<LinkLoad> {
    let links = judgement.coverage.links.iter();
    links
        .map(|link| LinkLoad {
            link: link.link.clone(),
            cable: link.cable.clone(),
            share: link.share,
            why: link.why.clone(),
        })
        .collect()
}

#[cfg(test)]
mod tests;
