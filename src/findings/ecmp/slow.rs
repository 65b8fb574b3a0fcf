//! A member that carries less than it should, and what follows from it for everything else.
//!
//! A slow link makes others look slow: the cable of a host whose flows wait for it, the downlink behind it. So a suspect is tried
//! out: with its rate set to the most it ever carried, does what all other links carried come out as expected? Whoever explains
//! most is the one; whoever explains as much cannot be told apart from it. A link that carried nearly its rate in any slot is cleared.
//!
//! The chance that a healthy link falls short as often is taken from the run itself: how often the other links did, once the
//! suspect is accounted for.

use rayon::prelude::*;

use super::flows::Flow;
use super::model::Model;
use crate::fabric::graph::{Graph, LinkId};

/// A link falls short when it carries less than expected by more than this in every iteration of a slot.
pub(super) const MARGIN: f64 = 0.18;
/// It must do so in this many slots.
const FEWEST_SLOTS: usize = 2;
/// And in this share of the slots that ask for more than it gives.
const ALWAYS: f64 = 0.75;
/// Links that should carry less than this share of their rate are not asked for anything.
const ASKED: f64 = 0.25;
/// Suspects that are tried out.
const TRIED: usize = 12;
/// The most slow links that are looked for.
const MOST: usize = 4;
/// A suspect must explain this share of what is odd in the slots it crossed.
const EXPLAINS: f64 = 0.3;
/// Whoever leaves no more than this times as much unexplained as the best cannot be told apart from it.
const ALIKE: f64 = 1.15;

/// A link that is slow.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct SlowLink {
    /// The link.
    pub(super) link: LinkId,
    /// Others that explain as much.
    pub(super) or: Vec<LinkId>,
    /// The most it carried.
    pub(super) carries: f64,
    /// What it should be able to carry.
    pub(super) should: f64,
    /// Slots in which it fell short, and those that asked for more than it gives.
    pub(super) short: usize,
    pub(super) asked: usize,
    /// Carried over expected, in the middle of the slots in which it fell short.
    pub(super) ratio: f64,
    /// Chance that a healthy link falls short as often.
    pub(super) p_value: f64,
    /// Ids of the cells whose flows crossed it.
    pub(super) cells: Vec<u32>,
}

/// How a link did over all slots.
#[derive(Debug, Clone, Default)]
struct Record {
    /// Slots in which it fell short, with carried over expected.
    short: Vec<(usize, f64)>,
    asked: usize,
    carries: f64,
    cleared: bool,
    deficit: f64,
}

/// The slow links of a rail, and the model with their real capacities.
pub(super) fn slow_links(graph: &Graph, flows: &[Flow], model: &mut Model) -> Vec<SlowLink> {
    let mut found: Vec<SlowLink> = Vec::new();
    let healthy = model.capacity.clone();
    while found.len() < MOST {
        let records = records(graph, model, &healthy);
        let known: Vec<LinkId> = found.iter().map(|slow| slow.link).collect();
        let mut suspects: Vec<LinkId> = (0..records.len())
            .map(|number| LinkId(number as u32))
            .filter(|link| is_suspect(&records[link.index()]) && !known.contains(link))
            .collect();
        suspects.sort_by(|a, b| records[b.index()].deficit.total_cmp(&records[a.index()].deficit));
        suspects.truncate(TRIED);
        if suspects.is_empty() {
            break;
        }
        // All are compared on the same slots, or one that crosses few would have little to explain.
        let mut slots: Vec<usize> = suspects
            .iter()
            .flat_map(|link| records[link.index()].short.iter().map(|(slot, _)| *slot))
            .collect();
        slots.sort_unstable();
        slots.dedup();
        let before: f64 = slots.iter().map(|slot| oddness(model, &model.slots[*slot])).sum();
        let mut tried: Vec<(f64, LinkId)> = suspects
            .par_iter()
            .map(|link| {
                let carries = records[link.index()].carries;
                let left = slots
                    .iter()
                    .map(|slot| oddness(model, &model.with(*slot, flows, *link, carries)));
                (left.sum(), *link)
            })
            .collect();
        tried.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let (left, link) = tried[0];
        if left > (1.0 - EXPLAINS) * before {
            break;
        }
        let or = tried[1..]
            .iter()
            .filter(|(other, _)| *other <= left * ALIKE + 1e-9)
            .map(|(_, link)| *link)
            .collect();
        let record = &records[link.index()];
        let mut ratios: Vec<f64> = record.short.iter().map(|(_, ratio)| *ratio).collect();
        ratios.sort_unstable_by(f64::total_cmp);
        let mut slow = SlowLink {
            link,
            or,
            carries: record.carries,
            should: healthy[link.index()],
            short: record.short.len(),
            asked: record.asked,
            ratio: ratios[ratios.len() / 2],
            p_value: 1.0,
            cells: cells_over(flows, link),
        };
        model.capacity[link.index()] = record.carries;
        model.expect(flows);
        slow.p_value = chance(graph, model, &healthy, &slow);
        found.push(slow);
    }
    found
}

/// Ids of the cells with a flow over a link.
pub(super) fn cells_over(flows: &[Flow], link: LinkId) -> Vec<u32> {
    let mut cells: Vec<u32> = flows
        .iter()
        .filter(|flow| flow.way.contains(&link))
        .map(|flow| flow.cell)
        .collect();
    cells.dedup();
    cells
}

fn is_suspect(record: &Record) -> bool {
    let short = record.short.len();
    !record.cleared && short >= FEWEST_SLOTS && short as f64 >= ALWAYS * record.asked as f64
}

/// How every link did, with the expectations of the model as it is.
fn records(graph: &Graph, model: &Model, healthy: &[f64]) -> Vec<Record> {
    let mut records: Vec<Record> = vec![Record::default(); graph.link_count()];
    for slot in &model.slots {
        for (link, load) in &slot.loads {
            let record = &mut records[link.index()];
            record.carries = record.carries.max(load.mean());
            record.cleared |= load.mean() >= (1.0 - MARGIN) * healthy[link.index()];
        }
    }
    for (number, slot) in model.slots.iter().enumerate() {
        for (link, load) in &slot.loads {
            let record = &mut records[link.index()];
            let is_asked = load.expected.is_finite() && load.expected >= ASKED * healthy[link.index()];
            if !is_asked {
                continue;
            }
            if load.most() < (1.0 - MARGIN) * load.expected {
                record.short.push((number, load.mean() / load.expected));
                record.deficit += load.expected - load.mean();
            }
            // What it should carry is more than it ever did.
            record.asked += usize::from(load.expected > record.carries / (1.0 - MARGIN));
        }
    }
    records
}

/// How far what links carried in a slot is from what they should have.
fn oddness(model: &Model, slot: &super::model::Slot) -> f64 {
    let of = |(link, load): (&LinkId, &super::model::Load)| {
        let capacity = model.capacity[link.index()];
        match capacity.is_finite() && load.expected.is_finite() && capacity > 0.0 {
            true => ((load.mean() - load.expected) / capacity).powi(2),
            false => 0.0,
        }
    };
    slot.loads.iter().map(of).sum()
}

/// The chance that a link falls short in so many of the slots that ask, when each does so as often as the other links did.
fn chance(graph: &Graph, model: &Model, healthy: &[f64], slow: &SlowLink) -> f64 {
    let (mut short, mut asked) = (0usize, 0usize);
    for slot in &model.slots {
        for (link, load) in &slot.loads {
            let is_other = *link != slow.link && !graph.link(*link).is_host && !slow.or.contains(link);
            let is_asked = load.expected.is_finite() && load.expected >= ASKED * healthy[link.index()];
            if is_other && is_asked {
                asked += 1;
                short += usize::from(load.most() < (1.0 - MARGIN) * load.expected);
            }
        }
    }
    let usual = (1 + short) as f64 / (2 + asked) as f64;
    at_least(slow.short, slow.asked.max(slow.short), usual)
}

/// The chance of `k` or more of `n` when each happens with chance `p`.
fn at_least(k: usize, n: usize, p: f64) -> f64 {
    let mut term = (1.0 - p).powi(n as i32);
    let mut below = 0.0;
    for i in 0..k {
        below += term;
        term *= (n - i) as f64 / (i + 1) as f64 * p / (1.0 - p);
    }
    // The upper tail is summed by itself where it is small: 1 - below would be rounding.
    let mut above = 0.0;
    for i in k..=n {
        above += term;
        term *= n.saturating_sub(i) as f64 / (i + 1) as f64 * p / (1.0 - p);
    }
    if above > 0.5 { 1.0 - below } else { above }
}

#[cfg(test)]
mod tests {
    use super::at_least;

    #[test]
    fn chances_of_many_small_ones_are_not_rounded_away() {
        assert!((at_least(1, 2, 0.5) - 0.75).abs() < 1e-12);
        assert!((at_least(0, 5, 0.1) - 1.0).abs() < 1e-12);
        assert!((at_least(8, 8, 0.01) / 1e-16 - 1.0).abs() < 1e-6);
    }
}
