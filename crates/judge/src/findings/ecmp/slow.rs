//! A member that carries less than it should, and what follows for everything else.
//!
//! A slow link makes others look slow: the cable of a host whose flows wait for it, the downlink behind it. So a
//! suspect is tried out: with its rate set to the most it ever carried, do all other links carry what is expected?
//! The link that explains most is slow; links that explain as much are ambiguous with it. A link that carried nearly
//! its rate in any slot is cleared.
//!
//! The probability that a healthy link falls short like that is estimated from the run itself: how often the other
//! links carried as small a share of what was expected as the suspect did at its best, once for every slot with more
//! demand. Real flows do not share quite fairly, and links with few of them carry less than they should in one slot
//! or another; none does so in all of them.

use std::collections::{HashMap, HashSet};

use rayon::prelude::*;

use super::flows::Flow;
use super::model::Model;
use topology::graph::{Graph, LinkId};

/// A link falls short when it carries less than expected by more than this in every iteration of a slot.
pub(super) const MARGIN: f64 = 0.18;
/// It must do so in this many slots.
const FEWEST_SLOTS: usize = 2;
/// And in this fraction of the slots with more demand than it carried.
const ALWAYS: f64 = 0.75;
/// Links that should carry less than this fraction of their rate have too little demand.
const ASKED: f64 = 0.25;
/// Suspects that are tried out.
const TRIED: usize = 12;
/// The most slow links that are looked for.
const MOST: usize = 4;
/// A suspect must explain this fraction of what is odd about the flows of all suspects.
const EXPLAINS: f64 = 0.1;
/// Links that explain this fraction of what the best explains are ambiguous with it.
const ALIKE: f64 = 0.85;

/// A link that is slow.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct SlowMember {
    /// The link.
    pub(super) link: LinkId,
    /// Others that explain as much.
    pub(super) or: Vec<LinkId>,
    /// The most it carried.
    pub(super) carries: f64,
    /// What it should be able to carry.
    pub(super) should: f64,
    /// Slots in which it fell short, and slots with more demand than it carried.
    pub(super) short: usize,
    pub(super) asked: usize,
    /// Carried over expected, the median of the slots with more demand.
    pub(super) ratio: f64,
    /// The same at its best.
    best: f64,
    /// Probability that a healthy link falls short as often.
    pub(super) p_value: f64,
    /// Ids of the cells whose flows crossed it.
    pub(super) cells: Vec<u32>,
}

/// How a link did over all slots.
#[derive(Debug, Clone, Default)]
struct LinkRecord {
    /// Slots in which it fell short in every iteration.
    short: Vec<usize>,
    /// Carried over expected in the slots with more demand than it ever carried.
    asked: Vec<f64>,
    carries: f64,
    cleared: bool,
    /// What it lacked, over what it should be able to carry.
    deficit: f64,
}

/// The slow links of a rail, and the model with their real capacities.
pub(super) fn slow_links(graph: &Graph, flows: &[Flow], model: &mut Model) -> Vec<SlowMember> {
    let mut found: Vec<SlowMember> = Vec::new();
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
            .flat_map(|link| records[link.index()].short.iter().copied())
            .collect();
        slots.sort_unstable();
        slots.dedup();
        let touched: Vec<HashSet<LinkId>> = slots
            .iter()
            .map(|slot| model.slots[*slot].links_with(flows, &suspects))
            .collect();
        let places = || slots.iter().zip(&touched);
        let before: f64 = places()
            .map(|(slot, links)| oddness(model, &model.slots[*slot], links))
            .sum();
        let mut tried: Vec<(f64, LinkId)> = suspects
            .par_iter()
            .map(|link| {
                let carries = records[link.index()].carries;
                let left = places()
                    .map(|(slot, links)| oddness(model, &model.with(*slot, flows, *link, carries), links));
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
            .filter(|(other, _)| before - other >= ALIKE * (before - left))
            .map(|(_, link)| *link)
            .collect();
        let record = &records[link.index()];
        let mut ratios = record.asked.clone();
        ratios.sort_unstable_by(f64::total_cmp);
        let mut slow = SlowMember {
            link,
            or,
            carries: record.carries,
            should: healthy[link.index()],
            short: record.short.len(),
            asked: ratios.len(),
            ratio: ratios[ratios.len() / 2],
            best: ratios[ratios.len() - 1],
            p_value: 1.0,
            cells: cells_over(flows, link),
        };
        model.capacity[link.index()] = record.carries;
        model.expect(flows);
        slow.p_value = p_value_of(graph, model, &healthy, &slow);
        found.push(slow);
    }
    found
}

/// Links that would show: enough slots ask them for enough.
pub(super) fn links_asked(model: &Model) -> HashSet<LinkId> {
    let mut slots: HashMap<LinkId, usize> = HashMap::new();
    for (link, load) in model.slots.iter().flat_map(|slot| &slot.loads) {
        let is_asked = load.expected.is_finite() && load.expected >= ASKED * model.capacity[link.index()];
        *slots.entry(*link).or_default() += usize::from(is_asked);
    }
    let enough = slots.into_iter().filter(|(_, asked)| *asked >= FEWEST_SLOTS);
    enough.map(|(link, _)| link).collect()
}

/// Ids of the cells with a flow over a link.
pub(super) fn cells_over(flows: &[Flow], link: LinkId) -> Vec<u32> {
    let mut cells: Vec<u32> = flows
        .iter()
        .filter(|flow| flow.path.contains(&link))
        .map(|flow| flow.cell)
        .collect();
    cells.dedup();
    cells
}

fn is_suspect(record: &LinkRecord) -> bool {
    let short = record.short.len();
    let asked = record.asked.len();
    !record.cleared && asked >= FEWEST_SLOTS && short >= FEWEST_SLOTS && short as f64 >= ALWAYS * asked as f64
}

/// How every link did, with the expectations of the model as it is.
fn records(graph: &Graph, model: &Model, healthy: &[f64]) -> Vec<LinkRecord> {
    let mut records: Vec<LinkRecord> = vec![LinkRecord::default(); graph.link_count()];
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
                record.short.push(number);
                record.deficit += (load.expected - load.mean()) / healthy[link.index()];
            }
            // What it should carry is more than it ever did.
            if load.expected > record.carries / (1.0 - MARGIN) {
                record.asked.push(load.mean() / load.expected);
            }
        }
    }
    records
}

/// How far what these links carried in a slot is from what they should have.
fn oddness(model: &Model, slot: &super::model::Slot, links: &HashSet<LinkId>) -> f64 {
    let of = |(link, load): (&LinkId, &super::model::SlotLoad)| {
        let capacity = model.capacity[link.index()];
        match capacity.is_finite() && load.expected.is_finite() && capacity > 0.0 {
            true => ((load.mean() - load.expected) / capacity).powi(2),
            false => 0.0,
        }
    };
    let loads = slot.loads.iter().filter(|(link, _)| links.contains(link));
    loads.map(of).sum()
}

/// The probability that a link carries no more than this share of what is expected in every slot with demand, when
/// each share is drawn from what the other links of its kind carried.
fn p_value_of(graph: &Graph, model: &Model, healthy: &[f64], slow: &SlowMember) -> f64 {
    let (mut as_low, mut all) = (0usize, 0usize);
    let is_host = graph.link(slow.link).is_host;
    for slot in &model.slots {
        for (link, load) in &slot.loads {
            let is_other = *link != slow.link && graph.link(*link).is_host == is_host;
            let is_asked = load.expected.is_finite() && load.expected >= ASKED * healthy[link.index()];
            if is_other && is_asked {
                all += 1;
                as_low += usize::from(load.mean() <= slow.best * load.expected);
            }
        }
    }
    let usual = (1 + as_low) as f64 / (1 + all) as f64;
    usual.powi(slow.asked as i32)
}
