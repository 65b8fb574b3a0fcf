//! A path that forwarded nothing for a while and recovered, with no link of a host down: packets were retransmitted
//! until they were acknowledged.
//!
//! Over RDMA the NIC does that and counts it. A fabric that loses packets all the time makes it count too, and delays
//! iteration after iteration by the retransmission timeout. So an interruption needs one iteration with a long
//! standstill and hardly any others with one. Each host that retransmitted did so on its paths to others; the host
//! that most of these paths share is where it was.

use std::collections::{BTreeMap, BTreeSet};

use super::analysis::RunAnalysis;
use record::units::Nanos;
use record::{CounterDelta, Event, PortName};

/// Counters of packets retransmitted for lack of an acknowledgement.
const SENT_AGAIN: &[&str] = &["completer_retry_err", "local_ack_timeout_err"];

/// An iteration this much longer than the cell's median was interrupted.
pub(super) const SHORTEST: Nanos = Nanos(1_000_000_000);

/// An iteration this much longer than the cell's median had to wait for packets that were lost.
const HELD_UP: Nanos = Nanos(250_000_000);

/// More iterations of a rail than this many, and than this share, held up: packets are lost all the time.
const FEW: usize = 2;
const FEW_OF: usize = 20;

/// One rail that was interrupted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Interruption {
    /// Rail by name.
    pub(super) rail: String,
    /// Where: one host, or several that fit equally well.
    pub(super) hosts: Vec<String>,
    /// Ranks there.
    pub(super) ranks: BTreeSet<u32>,
    /// Cells in which it was seen.
    pub(super) cells: BTreeSet<u32>,
    /// The longest standstill.
    pub(super) stood: Nanos,
    /// Which counters moved.
    pub(super) evidence: Vec<String>,
}

/// Every rail that was interrupted, except in cells where a link that flapped explains it (`explained`, by rail and cell).
pub(super) fn all(analysis: &RunAnalysis<'_>, explained: &BTreeSet<(&str, u32)>) -> Vec<Interruption> {
    let mut sent_again: BTreeMap<(&str, u32), Vec<&CounterDelta>> = BTreeMap::new();
    for event in &analysis.recorded.events {
        if let Event::Counter(counter) = event
            && SENT_AGAIN.contains(&counter.name.as_str())
            && counter.moved().is_some_and(|by| by > 0)
        {
            let cell = (counter.rail.as_str(), counter.cell);
            sent_again.entry(cell).or_default().push(counter);
        }
    }
    let mut all: Vec<Interruption> = Vec::new();
    for ((rail, cell), counters) in sent_again {
        let is_rare = |_: &Nanos| !explained.contains(&(rail, cell)) && !loses_always(analysis, rail);
        let stood = standstill(analysis, cell).filter(is_rare);
        let Some(stood) = stood else { continue };
        let hosts = guilty(analysis, rail, cell, &counters);
        let known = all
            .iter_mut()
            .find(|known| known.rail == rail && known.hosts == hosts);
        let evidence = counters.iter().map(|counter| moved(analysis, counter));
        match known {
            Some(known) => {
                known.cells.insert(cell);
                known.stood = known.stood.max(stood);
                known.evidence.extend(evidence);
            }
            None => all.push(Interruption {
                rail: rail.to_string(),
                ranks: ranks_at(analysis, &hosts),
                hosts,
                cells: [cell].into(),
                stood,
                evidence: evidence.collect(),
            }),
        }
    }
    for interruption in &mut all {
        interruption.evidence.sort();
        interruption.evidence.dedup();
    }
    all
}

/// How long the longest iteration of a cell stood still, if it did.
fn standstill(analysis: &RunAnalysis<'_>, cell: u32) -> Option<Nanos> {
    // In ascending order.
    let times = &analysis.summaries[analysis.place(cell)?].times;
    let (longest, median) = (times.last()?, times.get(times.len() / 2)?);
    Some(Nanos(longest.saturating_sub(*median))).filter(|stood| *stood >= SHORTEST)
}

/// Whether iterations over a rail are delayed repeatedly.
fn loses_always(analysis: &RunAnalysis<'_>, rail: &str) -> bool {
    let over_it = analysis.summaries.iter().filter(|summary| {
        let mut rails = summary.cell.rails.iter();
        rails.any(|name| name == rail)
    });
    let (mut all, mut held_up) = (0, 0);
    for times in over_it.map(|summary| &summary.times) {
        let median = times.get(times.len() / 2).copied().unwrap_or(0);
        all += times.len();
        held_up += times
            .iter()
            .filter(|time| **time > median.saturating_add(HELD_UP.0))
            .count();
    }
    held_up > FEW.max(all / FEW_OF)
}

/// The host that most paths of those that retransmitted share, or several that fit equally well.
fn guilty(analysis: &RunAnalysis<'_>, rail: &str, cell: u32, counters: &[&CounterDelta]) -> Vec<String> {
    let senders: BTreeSet<&str> = counters
        .iter()
        .filter_map(|counter| analysis.host(counter.rank))
        .collect();
    let mut others_of: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let done = analysis.recorded.events.iter().filter_map(|event| match event {
        Event::CellDone(done) if done.cell == cell => Some(&done.planned),
        _ => None,
    });
    for way in done.flatten().filter(|way| way.rail.as_deref() == Some(rail)) {
        let ends = analysis.host(way.from).zip(analysis.host(way.to));
        if let Some((from, to)) = ends.filter(|(from, to)| senders.contains(from) && from != to) {
            others_of.entry(from).or_default().insert(to);
            others_of.entry(to).or_default().insert(from);
        }
    }
    let most = others_of.values().map(BTreeSet::len).max();
    let worst = others_of.iter().filter(|(_, others)| Some(others.len()) == most);
    let worst: Vec<String> = worst.map(|(host, _)| host.to_string()).collect();
    match worst.is_empty() {
        true => senders.iter().map(|host| host.to_string()).collect(),
        false => worst,
    }
}

fn ranks_at(analysis: &RunAnalysis<'_>, hosts: &[String]) -> BTreeSet<u32> {
    let there = |host: &str| hosts.iter().any(|guilty| guilty == host);
    let ranks = analysis.run().ranks.iter().filter(|record| there(&record.host));
    ranks.map(|record| record.rank).collect()
}

fn moved(analysis: &RunAnalysis<'_>, counter: &CounterDelta) -> String {
    let by = counter.moved().unwrap_or(0);
    let host = analysis.host(counter.rank).unwrap_or_default();
    let port = PortName {
        node: host,
        port: &counter.rail,
    };
    format!("{} +{by} on {port}", counter.name)
}
