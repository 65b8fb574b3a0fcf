//! What a plan can find before anything is measured: for every kind of part the smallest loss of rate that is found with probability 0.9.
//!
//! Counted by how many slots send a flow of known path over each part. What healthy measurements are like is assumed, or taken from a recorded run.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use strum::Display;

use crate::Plan;
use crate::flow::Flow;
use judge::findings::power::{FURTHER, HealthyNoise};
use record::{Reference, TestRecord};
use topology::graph::{DirectedLink, Graph};

/// A kind of part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Display)]
#[serde(rename_all = "kebab-case")]
pub enum PartKind {
    /// A cable at a host, in one direction.
    #[strum(to_string = "cable at a host, one direction")]
    HostCable,
    /// A cable between switches, in one direction.
    #[strum(to_string = "cable between switches, one direction")]
    FabricCable,
    /// A host on all its rails.
    #[strum(to_string = "host, all its cables")]
    Host,
    /// A switch.
    #[strum(to_string = "switch, all its cables")]
    Switch,
    /// A rail.
    #[strum(to_string = "rail, all its cables")]
    Rail,
    /// Every cable there is.
    #[strum(to_string = "the whole fabric")]
    Fabric,
}

/// What can be found on parts of one kind.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PartPower {
    /// The kind.
    pub part: PartKind,
    /// How many there are.
    pub parts: usize,
    /// The smallest loss (0.2 = 20 %) that is found with probability 0.9: on half of them, and on all of them but those below.
    pub smallest_loss: Option<(f64, f64)>,
    /// Parts of which nothing can be said: no flow of known path crosses them, or too few.
    pub unknown: usize,
    /// The fewest and the most slots in which one of them is crossed.
    pub slots: (usize, usize),
}

/// Flows of one test and size over a part.
#[derive(Default)]
struct Crossing {
    slots: BTreeSet<u32>,
    flows: usize,
}

/// By test and size.
type Crossings = BTreeMap<(usize, u64), Crossing>;

/// A part that is crossed in more slots is taken to be crossed in as many: more of them say hardly more.
const MOST_SLOTS: usize = 256;

/// What a plan can find on a fabric, kind by kind; empty without flows that are compared with anything.
pub fn of(plan: &Plan, graph: &Graph, noise: &HealthyNoise) -> Vec<PartPower> {
    let tolerances: Vec<Option<f64>> = plan.tests.iter().map(|test| tolerance(test, false)).collect();
    let absolute_tolerances: Vec<Option<f64>> = plan.tests.iter().map(|test| tolerance(test, true)).collect();
    let mut parts: BTreeMap<(PartKind, String), Crossings> = BTreeMap::new();
    for (_, link) in graph.links() {
        for part in parts_of(link) {
            parts.entry(part).or_default();
        }
    }
    let mut measured: BTreeMap<(usize, u64), usize> = BTreeMap::new();
    for cell in &plan.cells {
        let test = plan.tests.iter().position(|test| test.name == cell.test);
        let (Some(test), Some(flow)) = (test, Flow::of(cell, graph)) else {
            continue;
        };
        if tolerances[test].is_none() {
            continue;
        }
        let kind = (test, cell.size.0);
        *measured.entry(kind).or_default() += 1;
        let crossed = flow.path.iter().flat_map(|link| parts_of(graph.link(*link)));
        for part in crossed.collect::<BTreeSet<_>>() {
            let crossing = parts.entry(part).or_default().entry(kind).or_default();
            crossing.slots.insert(cell.slot);
            crossing.flows += 1;
        }
    }
    if measured.is_empty() {
        return Vec::new();
    }
    let family = parts.values().filter(|crossings| !crossings.is_empty()).count();
    let mut known: BTreeMap<(usize, u64, usize, bool), Option<f64>> = BTreeMap::new();
    let mut smallest_loss = |crossings: &Crossings| {
        let of_kinds = crossings.iter().filter_map(|((test, size), crossing)| {
            let measurements = measured[&(*test, *size)];
            // What half of all flows cross or more is as slow as what they are compared with.
            let is_typical = 2 * crossing.flows >= measurements;
            let tolerance = match is_typical {
                true => absolute_tolerances[*test]?,
                false => tolerances[*test]?,
            };
            let slots = crossing.slots.len().min(MOST_SLOTS);
            *known.entry((*test, *size, slots, is_typical)).or_insert_with(|| {
                let further = if plan.tests[*test].adaptive { FURTHER } else { 0 };
                let model = noise.detectability(measurements, family, tolerance, &plan.rule);
                model.smallest_loss(slots, further)
            })
        });
        of_kinds.min_by(f64::total_cmp)
    };
    let kinds: BTreeSet<PartKind> = parts.keys().map(|(kind, _)| *kind).collect();
    let of_kind = |kind: PartKind| {
        let crossings: Vec<&Crossings> = parts
            .iter()
            .filter(|((other, _), _)| *other == kind)
            .map(|(_, crossings)| crossings)
            .collect();
        let mut losses: Vec<f64> = crossings.iter().filter_map(|one| smallest_loss(one)).collect();
        losses.sort_by(f64::total_cmp);
        let slots = crossings
            .iter()
            .map(|one| one.values().map(|crossing| crossing.slots.len()).sum());
        let slots: Vec<usize> = slots.collect();
        PartPower {
            part: kind,
            parts: crossings.len(),
            smallest_loss: losses.get(losses.len() / 2).copied().zip(losses.last().copied()),
            unknown: crossings.len() - losses.len(),
            slots: (
                slots.iter().min().copied().unwrap_or(0),
                slots.iter().max().copied().unwrap_or(0),
            ),
        }
    };
    kinds.into_iter().map(of_kind).collect()
}

/// What a test tolerates below its reference, the strictest; none where it has none. Peers are none where only absolute figures are asked for.
fn tolerance(test: &TestRecord, is_absolute: bool) -> Option<f64> {
    let tolerances = test.references.iter().filter_map(|reference| match reference {
        Reference::Spec(row) => Some(row.tolerance),
        Reference::Baseline { margin, .. } => Some(*margin),
        Reference::Peers { margin } => (!is_absolute).then_some(*margin),
    });
    tolerances.min_by(f64::total_cmp)
}

/// The parts that a link belongs to: the cable, the host or switch at either end, its rail and the fabric.
fn parts_of(link: &DirectedLink) -> Vec<(PartKind, String)> {
    let cable = match link.is_host {
        true => PartKind::HostCable,
        false => PartKind::FabricCable,
    };
    let mut parts = vec![(cable, format!("{}->{}", link.from, link.to))];
    for node in [&link.from.node, &link.to.node] {
        let kind = match link.is_host && link.lower_node() == node {
            true => PartKind::Host,
            false => PartKind::Switch,
        };
        parts.push((kind, node.clone()));
    }
    parts.extend(link.rail.clone().map(|rail| (PartKind::Rail, rail)));
    parts.push((PartKind::Fabric, String::new()));
    parts
}
