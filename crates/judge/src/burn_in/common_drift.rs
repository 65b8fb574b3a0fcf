//! What all parts of a kind did together, where that is worse than is accepted.
//!
//! What parts have in common is taken out before they are compared with each other, and accuses none of them. It is not healthy for that: a fabric all
//! of whose cables lose 6 % in a day has something in common that does, and is not accepted where 5 % is the limit.

use super::absent_hosts::MissingHosts;
use super::degradations::{DegradedSeries, Shape, degraded};
use super::describe::when;
use super::series::Common;
use super::timeline::Timeline;
use record::text::percent;
use record::{FindingKind, Incident, PartKind, Quantity};

/// Fewer cycles since a step say nothing about what all parts have in common.
const LASTING: usize = 5;

/// One incident for every figure that all parts of a kind lost more of than is accepted.
pub(super) fn incidents(common: &[Common], timeline: &Timeline<'_>, limit: f64) -> Vec<Incident> {
    let mut worst: Vec<(&Common, DegradedSeries)> = Vec::new();
    for one in common {
        let key = (one.kind, name(one.kind), one.quantity, MissingHosts::new());
        let Some(fell) = degraded(&key, &one.series, timeline, limit) else {
            continue;
        };
        // A busy hour of the machine or the fabric passes.
        if fell.cycles < LASTING.max(one.series.count() / 5) {
            continue;
        }
        // Directed links and the ends of rails are two views of the same cables: the one that fell most is told.
        match worst.iter_mut().find(|(_, other)| other.part == fell.part) {
            Some(other) if fell.effect < other.1.effect => *other = (one, fell),
            Some(_) => {}
            None => worst.push((one, fell)),
        }
    }
    worst
        .iter()
        .map(|(one, fell)| incident(one, fell, timeline, limit))
        .collect()
}

fn name(kind: PartKind) -> String {
    match kind {
        PartKind::Gpu => "all GPUs".to_string(),
        _ => "all cables".to_string(),
    }
}

fn incident(one: &Common, fell: &DegradedSeries, timeline: &Timeline<'_>, limit: f64) -> Incident {
    let cycles: Vec<u32> = timeline
        .cycles
        .iter()
        .map(|cycle| cycle.number())
        .filter(|number| *number >= fell.since)
        .collect();
    let first = timeline.moment(fell.since);
    let last = timeline.moment(cycles.last().copied().unwrap_or(fell.since));
    let how = match fell.shape {
        Shape::Step => format!("at once, in {}", when(&first)),
        Shape::Slope(by, ..) => format!("a little all the time ({} an hour)", percent(by.abs())),
    };
    Incident {
        kind: match fell.quantity {
            Quantity::Clock => FindingKind::Throttled,
            _ => FindingKind::SlowRail,
        },
        part_kind: None,
        part: fell.part.clone(),
        sentence: format!(
            "{} together: {} fell by {} {how}; {} is accepted",
            fell.part,
            fell.quantity,
            percent(-fell.effect),
            percent(limit)
        ),
        first,
        last,
        of_cycles: u32::try_from(cycles.len()).unwrap_or(u32::MAX),
        cycles,
        is_still_there: true,
        counts: true,
        evidence: vec![format!(
            "the median of {} figures in every cycle, each compared with its own usual one",
            one.parts
        )],
        next_step: "look for what all of them share: temperature of the room, power, firmware or settings that changed meanwhile, \
                    another load on the fabric"
            .to_string(),
        repeat: None,
    }
}
