//! What an uneven spread costs, and how many flows would make it cost half.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::flows::{Flow, RailFlows};
use record::stats::Null;
use record::stats::hashing::{goodput_share, throw};
use topology::graph::{Graph, LinkId};

/// Trials of a spread whose cost is asked for.
const TRIALS: usize = 200;
/// More flows than this are not useful advice.
const MOST_FLOWS: u32 = 1 << 14;
/// What counts as half: trials differ a little.
const HALF: f64 = 0.55;
/// A cost below this is not worth halving.
const LITTLE: f64 = 0.005;

/// Goodput of some slots, in bytes per second, summed over them.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Goodput {
    /// What arrived.
    pub(super) measured: f64,
    /// What would with an even spread.
    pub(super) even: f64,
    /// What the members together can carry.
    pub(super) members: f64,
}

impl Goodput {
    /// The share of an even spread's goodput that was lost; none when that is not known.
    pub(super) fn lost(&self) -> Option<f64> {
        (self.even > 0.0 && self.even.is_finite()).then(|| (1.0 - self.measured / self.even).clamp(0.0, 1.0))
    }

    /// The same as a share of what the members can carry.
    pub(super) fn of_bisection(&self) -> Option<f64> {
        let share = (self.even - self.measured) / self.members;
        (share.is_finite() && self.members > 0.0).then(|| share.clamp(0.0, 1.0))
    }

    /// Both together.
    pub(super) fn and(self, other: Goodput) -> Goodput {
        Goodput {
            measured: self.measured + other.measured,
            even: self.even + other.even,
            members: self.members + other.members,
        }
    }
}

/// The goodput of the flows for which a switch had the first choice.
pub(super) fn goodput(
    graph: &Graph,
    rail: &RailFlows<'_>,
    number: usize,
    shared: &HostCableSharing,
    efficiency: f64,
) -> Goodput {
    let members: f64 = rail.choosers.all[number]
        .members()
        .iter()
        .map(|link| graph.link(*link).rate.0)
        .sum();
    let mut slots: BTreeMap<u32, (f64, BTreeSet<(u32, u32)>)> = BTreeMap::new();
    for flow in rail.of_chooser(number) {
        if flow
            .choices
            .first()
            .is_some_and(|choice| choice.chooser == number)
        {
            let slot = slots.entry(flow.slot).or_default();
            slot.0 += flow.rate();
            slot.1.insert(flow.ranks);
        }
    }
    let mut sum = Goodput::default();
    for (slot, (measured, pairs)) in slots {
        let wanted: f64 = pairs
            .iter()
            .map(|ranks| shared.limit(graph, rail.rail, slot, *ranks))
            .sum();
        let even = if members > 0.0 {
            wanted.min(members)
        } else {
            wanted
        };
        sum = sum.and(Goodput {
            measured,
            even: even * efficiency,
            members: members * efficiency,
        });
    }
    sum
}

/// How many pairs share the cables of hosts, slot by slot.
pub(super) struct HostCableSharing(HashMap<(u32, LinkId), u32>);

impl HostCableSharing {
    /// Counted over all flows of a rail.
    pub(super) fn of(graph: &Graph, rail: &str, flows: &[Flow]) -> HostCableSharing {
        let mut pairs: Vec<(u32, (u32, u32))> = flows.iter().map(|flow| (flow.slot, flow.ranks)).collect();
        pairs.sort_unstable();
        pairs.dedup();
        let mut shared = HashMap::new();
        for (slot, (from, to)) in pairs {
            for cable in [graph.up(from, rail), graph.down(to, rail)].into_iter().flatten() {
                *shared.entry((slot, cable)).or_default() += 1;
            }
        }
        HostCableSharing(shared)
    }

    /// What the cables at its ends leave for a pair.
    fn limit(&self, graph: &Graph, rail: &str, slot: u32, (from, to): (u32, u32)) -> f64 {
        let cables = [graph.up(from, rail), graph.down(to, rail)];
        let share = |cable: LinkId| {
            let pairs = self.0.get(&(slot, cable)).copied().unwrap_or(1).max(1);
            match graph.link(cable).rate.0 {
                rate if rate > 0.0 => rate / f64::from(pairs),
                _ => f64::INFINITY,
            }
        };
        cables
            .into_iter()
            .flatten()
            .map(share)
            .fold(f64::INFINITY, f64::min)
    }
}

/// Answers to "how many flows would halve it", cached.
#[derive(Default)]
pub(super) struct FlowCountAdvice(HashMap<(u32, u32, u32), Option<u32>>);

impl FlowCountAdvice {
    /// The factor by which flows must grow so that collisions of `flows` flows, which together demand `demand` times
    /// what a path carries, cost half as much; none when they cost almost nothing, or no number does.
    pub(super) fn factor(&mut self, flows: u32, paths: u32, demand: f64) -> Option<u32> {
        let demand = (demand * 20.0).round() / 20.0;
        let key = (flows, paths, (demand * 20.0) as u32);
        *self.0.entry(key).or_insert_with(|| {
            let cost = |flows: u32| {
                let null = Null::simulate(TRIALS, 11, |random| {
                    let mut counts = vec![0; paths as usize];
                    throw(flows, &mut counts, random);
                    1.0 - goodput_share(&counts, demand / f64::from(flows))
                });
                null.mean()
            };
            if flows == 0 || paths < 2 || demand <= 0.0 {
                return None;
            }
            let now = cost(flows);
            if now < LITTLE {
                return None;
            }
            let factors = (1..).map(|power| 1u32 << power);
            factors
                .take_while(|factor| flows.saturating_mul(*factor) <= MOST_FLOWS)
                .find(|factor| cost(flows * factor) <= now * HALF)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_times_the_flows_halve_what_collisions_cost() {
        // What chance adds to the busiest path falls with the square root of the flows.
        let mut advice = FlowCountAdvice::default();
        assert_eq!(advice.factor(64, 8, 8.0), Some(4));
        assert_eq!(advice.factor(64, 8, 1.0), None, "nobody is in anybody's way");
        assert_eq!(advice.factor(0, 8, 1.0), None);
    }
}
