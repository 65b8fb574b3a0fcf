//! Judging a rail whose paths are not known, by what flows deliver.
//!
//! With a topology the number of paths is known, and so is what flows deliver together under a fair hash. Much less
//! than that is an imbalance, whatever the reason. Without a topology the number of paths is unknown too, and only
//! the obvious is reported: flows that deliver nothing.

use std::collections::BTreeMap;

use rand_chacha::ChaCha8Rng;

use super::fair;
use super::flows::{Flow, RailFlows};
use super::model::capacities;
use record::stats::Null;
use record::stats::hashing::pick;
use record::text;
use record::text::{p_value, percent};
use record::{EcmpCause, EcmpVerdict};
use topology::graph::{Graph, LinkId};

/// Trials of the null.
const TRIALS: usize = 1000;
/// More flows than this are not simulated: trials would take too long.
const MOST_FLOWS: usize = 2048;
/// Goodput must fall short of the null median by this fraction to be called an imbalance.
const MATTERS: f64 = 0.1;
/// Flows that deliver nothing: this many are a fault, and this fraction.
const DEAD: (usize, f64) = (2, 0.02);

/// The verdict on a rail whose paths are not known.
pub(super) fn verdict(rail: &RailFlows<'_>, graph: Option<&Graph>, level: f64, seed: u64) -> EcmpVerdict {
    let flows = &rail.flows;
    let dead = flows.iter().filter(|flow| flow.dead).count();
    let fresh = flows.iter().filter(|flow| flow.fresh).count() as u32;
    let mut hosts: Vec<String> = rail.low_entropy.iter().map(|cell| cell.host.clone()).collect();
    hosts.sort();
    hosts.dedup();
    let mut verdict = EcmpVerdict {
        test: rail.test.to_string(),
        rail: rail.rail.to_string(),
        switch: None,
        tier: 1,
        cause: EcmpCause::Unjudged,
        part: None,
        sentence: String::new(),
        flows: fresh,
        paths: rail
            .choosers
            .all
            .iter()
            .flat_map(|chooser| chooser.sets.iter().map(|set| set.len() as u32))
            .max()
            .unwrap_or(0),
        paths_used: paths_used(flows),
        statistic: "none".to_string(),
        value: 0.0,
        null_median: 0.0,
        p_value: 1.0,
        lost: None,
        max_over_mean: 1.0,
        counted_p_value: None,
        members: Vec::new(),
        pairs: Vec::new(),
        cells: rail.cells.clone(),
        advice: "give a topology file (--topology), let switches answer packets whose TTL expires there, \
                 or read their counters (--switch-counters)"
            .to_string(),
    };
    let name = rail.rail;
    if !hosts.is_empty() {
        let streams: u32 = rail.low_entropy.iter().map(|cell| cell.streams).sum();
        let ports: u32 = rail.low_entropy.iter().map(|cell| cell.ports).sum();
        verdict.cause = EcmpCause::NoEntropy;
        verdict.part = hosts.first().cloned();
        (verdict.statistic, verdict.value) = ("source ports".to_string(), f64::from(ports));
        verdict.null_median = f64::from(streams);
        verdict.p_value = (1.0f64 / 16_384.0).powf(f64::from(streams.saturating_sub(ports).min(60)));
        verdict.sentence = format!(
            "{name}: {} send {streams} streams from {ports} source ports: no switch can distinguish them",
            text::list(&hosts)
        );
        verdict.advice =
            "vary the source port: more connections or queue pairs, each from a port of its own".to_string();
        return verdict;
    }
    if dead >= DEAD.0 && dead as f64 >= DEAD.1 * flows.len() as f64 {
        verdict.cause = EcmpCause::DeadMember;
        (verdict.statistic, verdict.value) = ("flows that delivered nothing".to_string(), dead as f64);
        verdict.p_value = 0.0;
        verdict.sentence = format!(
            "{name}: {dead} of {} flows delivered nothing while others between the same hosts did: a path \
             is dead; which one is unknown, as the paths of flows are not known",
            flows.len()
        );
        return verdict;
    }
    let thrown = graph.and_then(|graph| goodput_against_chance(graph, rail, seed));
    let Some((measured, null)) = thrown else {
        verdict.sentence = format!(
            "{name}: neither the paths of flows nor the number of paths is known: {fresh} flows, which \
             delivered what at least {} paths carry",
            verdict.paths_used
        );
        return verdict;
    };
    verdict.statistic = "goodput of all flows over the host cables' rate".to_string();
    (verdict.value, verdict.null_median) = (measured, null.median());
    verdict.p_value = null.p_lower(measured);
    verdict.lost = Some((1.0 - measured).clamp(0.0, 1.0));
    let against = format!(
        "goodput {} of what the hosts' cables carry, median under a fair hash {} ({})",
        percent(measured),
        percent(null.median()),
        p_value(verdict.p_value)
    );
    if verdict.p_value <= level.max(1.0 / (TRIALS as f64)) && measured < (1.0 - MATTERS) * null.median() {
        verdict.cause = EcmpCause::Unexplained;
        verdict.sentence = format!(
            "{name}: flows are spread worse than by a fair hash; at which switch is unknown, as their \
             paths are not known: {against}"
        );
    } else {
        verdict.sentence = format!("{name}: the paths of flows are not known; {against}");
    }
    verdict
}

/// At least so many paths were in use: what all flows of a slot delivered over the most that one of them did.
fn paths_used(flows: &[Flow]) -> u32 {
    let mut slots: BTreeMap<u32, (f64, f64)> = BTreeMap::new();
    for flow in flows {
        let slot = slots.entry(flow.slot).or_default();
        slot.0 += flow.rate();
        slot.1 = slot.1.max(flow.rate());
    }
    let most = slots.values().map(|(_, most)| *most).fold(0.0, f64::max);
    let all = slots.values().map(|(all, _)| *all).fold(0.0, f64::max);
    match most > 0.0 {
        true => (all / most - 1e-6).ceil() as u32,
        false => 0,
    }
}

/// The goodput of all flows over what the hosts' cables carry, and its null distribution; none without rates.
fn goodput_against_chance(graph: &Graph, rail: &RailFlows<'_>, seed: u64) -> Option<(f64, Null)> {
    let flows = &rail.flows;
    if flows.is_empty() || flows.len() > MOST_FLOWS {
        return None;
    }
    let capacity = capacities(graph);
    let mut slots: BTreeMap<u32, Vec<&Flow>> = BTreeMap::new();
    for flow in flows {
        slots.entry(flow.slot).or_default().push(flow);
    }
    // The best host shows what a cable carries in practice.
    let (mut hosts, mut efficiency, mut measured) = (0.0, 0.0f64, 0.0);
    for flows in slots.values() {
        let mut sent: BTreeMap<LinkId, f64> = BTreeMap::new();
        for flow in flows {
            *sent.entry(graph.up(flow.ranks.0, rail.rail)?).or_default() += flow.rate();
        }
        for (cable, rate) in sent {
            let carries = capacity[cable.index()];
            if !carries.is_finite() {
                return None;
            }
            hosts += carries;
            measured += rate;
            efficiency = efficiency.max(rate / carries);
        }
    }
    if hosts <= 0.0 || efficiency <= 0.0 {
        return None;
    }
    let null = Null::simulate(TRIALS, seed, |random| {
        let total: f64 = slots
            .values()
            .map(|flows| {
                let paths: Vec<Vec<LinkId>> = flows
                    .iter()
                    .map(|flow| throw(graph, rail.rail, flow, random))
                    .collect();
                let paths: Vec<&[LinkId]> = paths.iter().map(Vec::as_slice).collect();
                let rates = fair::rates(&paths, &capacity);
                rates.into_iter().filter(|rate| rate.is_finite()).sum::<f64>()
            })
            .sum();
        total / hosts
    });
    Some((measured / efficiency.min(1.0) / hosts, null))
}

/// A path that fair hashes may give a flow.
fn throw(graph: &Graph, rail: &str, flow: &Flow, random: &mut ChaCha8Rng) -> Vec<LinkId> {
    let path = graph.route(flow.ranks.0, flow.ranks.1, rail, |_, nearer| {
        pick(nearer.len(), random)
    });
    path.unwrap_or_default()
}
