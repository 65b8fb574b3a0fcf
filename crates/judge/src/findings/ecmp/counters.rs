//! What switches counted at the ports of their members, beside the flows that were sent over them.
//!
//! A counter counts bytes, and flows deliver different amounts. So the null is the same as for flows, with each of
//! them weighted by what it delivered.

use std::collections::{BTreeMap, HashMap};

use super::flows::{Flow, RailFlows};
use record::stats::hashing::pick;
use record::stats::{Null, busiest_bound};
use record::{EcmpCause, Event, Recorded};
use topology::graph::{Graph, LinkId};

/// Trials of the null.
const TRIALS: usize = 2000;
/// A p-value below this after those trials is worth many more.
const ODD: f64 = 0.02;
const MOST_TRIALS: usize = 100_000;
/// A member that sent less than this fraction of the mean sent acknowledgements at most.
const IDLE: f64 = 0.05;
/// Members are not full while their flows deliver less than this fraction of what they carry together.
const ROOM: f64 = 0.6;
/// More flows than this are not simulated one by one.
const MOST_FLOWS: usize = 4096;

/// Bytes sent from every port in every slot.
#[derive(Debug, Default)]
pub(super) struct PortCounters(HashMap<String, BTreeMap<u32, u64>>);

impl PortCounters {
    /// What was counted in a run. A counter that went back was reset: that slot is left out.
    pub(super) fn of(recorded: &Recorded) -> PortCounters {
        let mut ports: HashMap<String, BTreeMap<u32, u64>> = HashMap::new();
        for event in &recorded.events {
            let Event::Port(delta) = event else {
                continue;
            };
            let sent = match (delta.name.as_str(), delta.before, delta.after) {
                ("tx_bytes", Some(before), Some(after)) => after.checked_sub(before),
                _ => None,
            };
            if let Some(sent) = sent {
                let slots = ports.entry(delta.port.clone()).or_default();
                let sum = slots.entry(delta.slot).or_default();
                *sum = sum.saturating_add(sent);
            }
        }
        PortCounters(ports)
    }

    /// What a link carried in the slots of a rail; none when its port was not read.
    pub(super) fn of_link(&self, graph: &Graph, link: LinkId, slots: &[u32]) -> Option<u64> {
        let counted = self.0.get(&graph.link(link).from.to_string())?;
        let known: Vec<u64> = slots
            .iter()
            .filter_map(|slot| counted.get(slot).copied())
            .collect();
        (!known.is_empty()).then(|| known.iter().fold(0u64, |sum, bytes| sum.saturating_add(*bytes)))
    }
}

/// How uneven the bytes that a switch counted are.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct CountedSpread {
    /// Bytes per member, in the order of the chooser's members.
    pub(super) bytes: Vec<u64>,
    /// Probability of such unevenness, or more, under a fair hash.
    pub(super) p_value: f64,
    /// Probability of such evenness, or more, under a fair hash.
    pub(super) p_even: f64,
    /// The busiest over the mean.
    pub(super) max_over_mean: f64,
    /// Its median under the null.
    pub(super) null_median: f64,
    /// Whether it may be improbable enough to be a fault, and nothing shows it.
    pub(super) is_open: bool,
    /// Whether it is the same member in nearly every slot.
    same_always: bool,
    /// Whether members had spare capacity: full ones carry the same, however flows are spread.
    has_room: bool,
}

/// The bytes of a chooser's members against the null; none when not all members were read, or it has several sets.
pub(super) fn counted(
    graph: &Graph,
    counters: &PortCounters,
    number: usize,
    rail: &RailFlows<'_>,
    level: f64,
    seed: u64,
) -> Option<CountedSpread> {
    let [members] = rail.choosers.all[number].sets.as_slice() else {
        return None;
    };
    let own: Vec<&Flow> = rail.of_chooser(number).collect();
    let mut slots: Vec<u32> = own.iter().map(|flow| flow.slot).collect();
    slots.sort_unstable();
    slots.dedup();
    let bytes: Option<Vec<u64>> = members
        .iter()
        .map(|link| counters.of_link(graph, *link, &slots))
        .collect();
    let bytes = bytes?;
    // The same five-tuple takes the same path in every slot.
    let mut tuples: HashMap<(usize, Option<u16>), f64> = HashMap::new();
    let mut weights: Vec<f64> = Vec::new();
    for flow in &own {
        match flow.port {
            Some(_) => *tuples.entry((flow.pair, flow.port)).or_default() += flow.rate(),
            None => weights.push(flow.rate()),
        }
    }
    let mut tuples: Vec<((usize, Option<u16>), f64)> = tuples.into_iter().collect();
    tuples.sort_by_key(|(tuple, _)| *tuple);
    weights.extend(tuples.into_iter().map(|(_, weight)| weight));
    weights.retain(|weight| *weight > 0.0);
    if weights.is_empty() || weights.len() > MOST_FLOWS || bytes.iter().all(|sent| *sent == 0) {
        return None;
    }
    let values: Vec<f64> = bytes.iter().map(|sent| *sent as f64).collect();
    let paths = members.len();
    let nulls = |trials: usize| -> [Null; 2] {
        Null::simulate_together(
            trials,
            seed,
            || vec![0.0; paths],
            |sums, random| {
                sums.fill(0.0);
                for weight in &weights {
                    sums[pick(paths, random)] += weight;
                }
                [unevenness(sums), max_over_mean(sums)]
            },
        )
    };
    let mut drawn = nulls(TRIALS);
    let p = |null: &Null| {
        null.p_upper(unevenness(&values))
            .min(null.p_lower(unevenness(&values)))
    };
    if p(&drawn[0]) < ODD {
        drawn = nulls(((4.0 / level.max(1e-9)) as usize).clamp(TRIALS, MOST_TRIALS));
    }
    let [squares, busiest] = drawn;
    let by_trials = squares.p_upper(unevenness(&values));
    let least = 1.0 / (1 + squares.trials()) as f64;
    // Where no trial is as uneven, the busiest member alone may say how improbable it is.
    let busiest_share = values.iter().copied().fold(0.0, f64::max) / values.iter().sum::<f64>();
    let p_value = match by_trials < 1.5 * least {
        true => by_trials.min(busiest_bound(
            &weights,
            paths,
            busiest_share * weights.iter().sum::<f64>(),
        )),
        false => by_trials,
    };
    let by_slot = slots.iter().map(|slot| {
        let of_member = |link: &LinkId| counters.of_link(graph, *link, &[*slot]).unwrap_or(0);
        members.iter().map(of_member).collect::<Vec<u64>>()
    });
    Some(CountedSpread {
        is_open: p_value > level && least > level && by_trials < 1.5 * least,
        p_value,
        p_even: squares.p_lower(unevenness(&values)),
        max_over_mean: max_over_mean(&values),
        null_median: busiest.median(),
        same_always: same_busiest(&bytes, by_slot),
        has_room: has_room(graph, members, &own),
        bytes,
    })
}

impl CountedSpread {
    /// Positions of members at which next to nothing was counted.
    pub(super) fn idle(&self) -> impl Iterator<Item = usize> + '_ {
        let all: f64 = self.bytes.iter().map(|sent| *sent as f64).sum();
        let mean = all / self.bytes.len().max(1) as f64;
        (0..self.bytes.len()).filter(move |place| (self.bytes[*place] as f64) < IDLE * mean)
    }

    /// The cause by counters alone.
    pub(super) fn cause(&self, level: f64) -> EcmpCause {
        let idle = self.idle().next().is_some();
        if self.p_value > level && (!self.has_room || self.is_open) {
            EcmpCause::Unjudged
        } else if self.p_even <= level {
            EcmpCause::AdaptiveRouting
        } else if self.p_value > level {
            EcmpCause::ExpectedCollision
        } else if idle && self.bytes.len() > 2 {
            EcmpCause::DeadMember
        } else if idle {
            // One of two: a dead member and a hash that prefers the other look the same.
            EcmpCause::Unexplained
        } else if self.same_always {
            EcmpCause::UnequalWeights
        } else {
            EcmpCause::Polarised
        }
    }
}

/// Whether the flows together demanded less than the members carry.
fn has_room(graph: &Graph, members: &[LinkId], own: &[&Flow]) -> bool {
    let carry: f64 = members.iter().map(|link| graph.link(*link).rate.0).sum();
    let mut slots: BTreeMap<u32, f64> = BTreeMap::new();
    for flow in own {
        *slots.entry(flow.slot).or_default() += flow.rate();
    }
    slots.values().all(|asked| *asked < ROOM * carry)
}

/// Whether the member that is busiest over all is so in nearly every slot.
fn same_busiest(bytes: &[u64], slots: impl Iterator<Item = Vec<u64>>) -> bool {
    let busiest = |values: &[u64]| (0..values.len()).max_by_key(|at| values[*at]);
    let overall = busiest(bytes);
    let (mut same, mut all) = (0, 0);
    for slot in slots.filter(|slot| slot.iter().any(|sent| *sent > 0)) {
        all += 1;
        same += usize::from(busiest(&slot) == overall);
    }
    all > 1 && 5 * same >= 4 * all
}

/// The sum of squared shares: 1 over the number of members when even, 1 when one has all.
fn unevenness(values: &[f64]) -> f64 {
    let all: f64 = values.iter().sum();
    values.iter().map(|value| (value / all).powi(2)).sum()
}

fn max_over_mean(values: &[f64]) -> f64 {
    let all: f64 = values.iter().sum();
    values.iter().copied().fold(0.0, f64::max) * values.len() as f64 / all
}
