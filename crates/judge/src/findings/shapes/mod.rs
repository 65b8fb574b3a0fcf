//! Shapes over message size, and over iterations: what a single cell's median does not show.
//!
//! - a *dip*: the rate falls as messages grow;
//! - a *latency floor*: the smallest messages of a part take longer than those of its peers;
//! - a *slow ramp*: half of the best rate is reached at much larger messages than by the peers;
//! - *intermittent*: two clusters of times, or single iterations that stall, on one part.
//!
//! As with slow cells, no part is accused on one measurement: the shape must show in every round, in as many rounds
//! as the rule asks for, and be significant after Holm's correction over all shapes that were tested. Only cells
//! between hosts are judged, and only those whose ranks each have a core: on a crowded machine times take any shape.

mod candidate;
mod curve;
mod detector;
mod dip;
mod floor;
mod ramp;
mod stalls;
mod two_speeds;

pub(super) use detector::ShapeFault;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use rayon::prelude::*;

use super::speed::Speed;
use super::straggling_ranks::crowded_hosts;
use super::summary::CellSummary;
use candidate::Candidate;
use curve::Curves;
use record::CurvePoint;
use record::stats::holm;
use record::units::Nanos;
use record::{FindingKind, Interval, Recorded, TransportKind, Untested};

/// The shapes of a run.
#[derive(Debug, Default)]
pub(super) struct Shapes {
    /// Confirmed, with the points of their curves.
    pub(super) confirmed: Vec<(Candidate, Vec<CurvePoint>)>,
    /// Positions of cells that look suspicious and were not measured often enough.
    pub(super) suspected: BTreeSet<usize>,
    /// Positions of slow cells that a shape explains: the large messages of the same part are as fast as expected.
    pub(super) explained: BTreeSet<usize>,
    /// Positions of cells that are neither well nor accused, with what else their shape may be.
    pub(super) doubtful: BTreeMap<usize, String>,
    /// How many shapes were tested.
    pub(super) comparisons: u32,
    /// What could not be judged.
    pub(super) unjudged: Vec<Untested>,
}

impl Shapes {
    /// Tests the shapes of a run.
    pub(super) fn of(recorded: &Recorded, summaries: &[CellSummary<'_>], speeds: &[Speed]) -> Shapes {
        let rule = &recorded.run.rule;
        let (places, unjudged) = judged_places(recorded, summaries);
        let curves = Curves::of(summaries, rule, places.iter().copied());
        let halves = ramp::halves(&curves);
        let splits = two_speeds::Splits::of(&curves);
        let mut candidates: Vec<Candidate> = (0..curves.all.len())
            .into_par_iter()
            .flat_map_iter(|number| {
                let shapes = [
                    floor::of(&curves, number),
                    dip::of(&curves, number),
                    ramp::of(&curves, number, &halves),
                ];
                shapes
                    .into_iter()
                    .flatten()
                    .chain(two_speeds::of(&curves, &splits, number))
            })
            .collect();
        for (_, places) in by_test(summaries, &places) {
            candidates.extend(stalls::of(summaries, rule, &places));
        }
        let p_values: Vec<f64> = candidates.iter().map(|candidate| candidate.p_value).collect();
        let mut shapes = Shapes {
            comparisons: p_values.len() as u32,
            unjudged,
            ..Shapes::default()
        };
        for (mut candidate, p_value) in candidates.into_iter().zip(holm(&p_values)) {
            candidate.p_value = p_value;
            let is_slow = |place: &usize| matches!(speeds[*place], Speed::Slow(_));
            let is_told_otherwise = candidate.unless_slow && candidate.places.iter().any(is_slow);
            if candidate.suspicious && !is_told_otherwise && !slow_as_a_whole(&curves, &candidate, speeds) {
                shapes.settle(&curves, candidate);
            }
        }
        shapes
    }

    /// Confirms a shape, or marks its cells for another measurement.
    fn settle(&mut self, curves: &Curves<'_>, mut candidate: Candidate) {
        if let Some(number) = candidate.curve
            && let Some(point) = curves.all[number].points.first()
        {
            let cell = curves.cell(point);
            (candidate.ranks, candidate.rails) = (cell.ranks.clone(), cell.rails.clone());
        }
        if candidate.is_confirmed(curves.rule) {
            if candidate.kind != FindingKind::Intermittent {
                self.explained.extend(&candidate.places);
            }
            let points = points(curves, &candidate);
            self.confirmed.push((candidate, points));
        } else if let Some(doubt) = candidate.doubt {
            let places = candidate.places.iter();
            self.doubtful.extend(places.map(|place| (*place, doubt.clone())));
        } else if candidate.may_be_confirmed(curves.rule) {
            self.suspected.extend(&candidate.places);
            self.suspected.extend(&candidate.beside);
        }
    }
}

/// Whether the largest messages of the same part are slow too: then the part is slow, and this is not a shape.
fn slow_as_a_whole(curves: &Curves<'_>, candidate: &Candidate, speeds: &[Speed]) -> bool {
    let is_about_time = candidate.kind == FindingKind::Intermittent;
    let points = candidate.curve.map(|number| &curves.all[number].points);
    match points.map(|points| points.as_slice()) {
        Some([_, .., last]) if !is_about_time && !candidate.places.contains(&last.place) => {
            speeds[last.place].looks_slow()
        }
        _ => false,
    }
}

/// The points of the curve that a candidate is about; of a part without one those of its cells.
fn points(curves: &Curves<'_>, candidate: &Candidate) -> Vec<CurvePoint> {
    let number = candidate.curve.or_else(|| {
        let has_it = |curve: &curve::Curve| {
            let mut points = curve.points.iter();
            points.any(|point| candidate.places.contains(&point.place))
        };
        curves.all.iter().position(has_it)
    });
    let Some(number) = number else {
        return Vec::new();
    };
    let points = curves.all[number].points.iter();
    points
        .filter_map(|point| {
            let time = curves.time(point, None)?;
            let rounds = &curves.summaries[point.place].rounds;
            let stalls = rounds
                .iter()
                .map(|round| stalls::stalls_of(&round.times, curves.rule));
            Some(CurvePoint {
                cell: curves.cell(point).id,
                size: point.size,
                time: Interval {
                    median: Nanos(time.median as u64),
                    lower: Nanos(time.lower),
                    upper: Nanos(time.upper),
                },
                rate: curves.rate(point, None)?,
                peers: curves.peers_time(number, point).map(|time| Nanos(time as u64)),
                iterations: curves.summaries[point.place].times.len() as u32,
                stalls: stalls.sum::<u64>() as u32,
            })
        })
        .collect()
}

/// Cells that cross a network between ranks that each have a core; and what that leaves out.
fn judged_places(recorded: &Recorded, summaries: &[CellSummary<'_>]) -> (Vec<usize>, Vec<Untested>) {
    let (crowded, reasons) = crowded_hosts(recorded);
    let host_of: HashMap<u32, &str> = recorded
        .run
        .ranks
        .iter()
        .map(|rank| (rank.rank, rank.host.as_str()))
        .collect();
    let has_core = |rank: &u32| host_of.get(rank).is_some_and(|host| !crowded.contains(host));
    // Ranks of one host reach each other through its memory, whatever the transport is called.
    let on_network = |place: &usize| {
        let cell = summaries[*place].cell;
        let mut hosts = cell.ranks.iter().map(|rank| host_of.get(rank));
        let first = hosts.next();
        let crosses = hosts.any(|host| Some(host) != first);
        // Streams and probes run for a fixed time.
        let is_timed = cell.collective.is_scheduled();
        cell.transport != TransportKind::Shm && crosses && is_timed && summaries[*place].done
    };
    let (judged, left_out): (Vec<usize>, Vec<usize>) = (0..summaries.len())
        .filter(on_network)
        .partition(|place| summaries[*place].cell.ranks.iter().all(has_core));
    let why = reasons.first().filter(|_| !left_out.is_empty());
    let unjudged = why.map(|reason| Untested {
        what: "shapes over message size and intermittent links".into(),
        why: reason.why.clone(),
    });
    (judged, unjudged.into_iter().collect())
}

/// Positions by test and number of ranks: only those are similar enough to count stalls over.
fn by_test<'a>(summaries: &[CellSummary<'a>], places: &[usize]) -> BTreeMap<(&'a str, usize), Vec<usize>> {
    let mut tests: BTreeMap<(&str, usize), Vec<usize>> = BTreeMap::new();
    for place in places {
        let cell = summaries[*place].cell;
        let key = (cell.test.as_str(), cell.ranks.len());
        tests.entry(key).or_default().push(*place);
    }
    tests
}
