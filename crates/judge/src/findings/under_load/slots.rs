//! What the counters of a rail's ends did in each slot of the tests that load it.

use std::collections::{BTreeMap, BTreeSet};

use crate::findings::analysis::RunAnalysis;
use crate::findings::interference::congestion_tests;
use record::counters::{CounterKind, named};
use record::units::Nanos;
use record::{Cell, Collective, Event, PathPlacement, TransportKind};

/// Packets that a host got; a port and its driver may both count them.
const ARRIVED: [&str; 4] = ["rx_packets_phy", "port_rcv_packets", "rcvd_pkts", "rx_packets"];
/// Marks that arrived, and what the receiver said about them; either may be missing.
const MARKED: [&str; 2] = ["np_ecn_marked_roce_packets", "np_cnp_sent"];
/// Packets that a receiver missed or threw away. Where packets are sprayed they overtake each other: then the first says nothing.
const MISSED: [&str; 2] = ["out_of_sequence", "rx_prio*_discards"];
/// Packets that a sender was told to send again, or that nobody told it of.
const SENT_AGAIN: [&str; 3] = ["packet_seq_err", "implied_nak_seq_err", "local_ack_timeout_err"];
const PAUSED: [&str; 2] = ["rx_prio*_pause_duration", "rx_global_pause_duration"];
const PAUSES: [&str; 2] = ["tx_prio*_pause_duration", "tx_global_pause_duration"];
const HANDLED: [&str; 1] = ["rp_cnp_handled"];

/// What a host's end of the rail counted in a slot.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct EndSeen {
    arrived: u64,
    pub(super) marked: u64,
    pub(super) handled: u64,
    missed: u64,
    sent_again: u64,
    paused: Nanos,
    pauses: Nanos,
    watched: Nanos,
    /// Bits were wrong on the wire: packets were lost for another reason.
    is_damaged: bool,
}

/// A rail in one slot and round.
#[derive(Debug, Default)]
pub(super) struct SlotSeen<'a> {
    /// The load; none where nothing loaded this rail.
    pub(super) load: Option<&'a Cell>,
    /// Its cells.
    pub(super) cells: BTreeSet<u32>,
    /// Ranks to which bulk data went.
    pub(super) receivers: BTreeSet<u32>,
    /// By host.
    pub(super) ends: BTreeMap<&'a str, EndSeen>,
}

/// The slots of a rail.
#[derive(Debug, Default)]
pub(super) struct RailSeen<'a> {
    pub(super) slots: Vec<SlotSeen<'a>>,
    /// Its loads go over RDMA: marks and losses that NICs count are theirs. What TCP does about either is the kernel's.
    pub(super) is_rdma: bool,
    pub(super) knows_pauses: bool,
    pub(super) knows_marks: bool,
    pub(super) knows_losses: bool,
}

impl SlotSeen<'_> {
    /// Packets that were lost, unless wrong bits explain it, and packets that arrived.
    pub(super) fn losses(&self) -> (u64, u64) {
        let sum = |of: fn(&EndSeen) -> u64| self.ends.values().map(of).sum::<u64>();
        let arrived = sum(|end| end.arrived);
        match self.ends.values().any(|end| end.is_damaged) {
            true => (0, arrived),
            false => (sum(|end| end.missed).max(sum(|end| end.sent_again)), arrived),
        }
    }

    /// Packets that arrived marked, as a share.
    pub(super) fn marked(&self) -> f64 {
        let marked = self
            .ends
            .values()
            .map(|end| end.marked.max(end.handled))
            .sum::<u64>();
        let arrived = self.ends.values().map(|end| end.arrived).sum::<u64>();
        marked as f64 / arrived.max(1) as f64
    }

    /// The longest that an end was paused, as a share of the time.
    pub(super) fn paused(&self) -> f64 {
        let shares = self.ends.values().map(|end| share(end.paused, end.watched));
        shares.fold(0.0, f64::max)
    }

    /// How long the end of a host paused others, as a share of the time.
    pub(super) fn pauses(&self, host: &str) -> f64 {
        let end = self.ends.get(host);
        end.map_or(0.0, |end| share(end.pauses, end.watched))
    }

    /// Hosts whose ends were paused, or paused others.
    pub(super) fn with_pauses(&self) -> Vec<&str> {
        let ends = self
            .ends
            .iter()
            .filter(|(_, end)| end.paused.0 > 0 || end.pauses.0 > 0);
        ends.map(|(host, _)| *host).collect()
    }

    /// The rank that all send to, in an incast.
    pub(super) fn root(&self) -> Option<u32> {
        let load = self.load.filter(|load| load.collective == Collective::Incast)?;
        load.ranks.get(load.root as usize).copied()
    }
}

fn share(time: Nanos, of: Nanos) -> f64 {
    match of.0 {
        0 => 0.0,
        of => (time.0 as f64 / of as f64).min(1.0),
    }
}

/// A rail by name, a slot and a round.
type SlotName<'a> = (&'a str, u32, u16);

/// What was read at an end around a slot: of several ranks of a host, which read the same counters, the largest movement.
#[derive(Debug, Default)]
struct EndRead<'a> {
    watched: Nanos,
    moved: BTreeMap<&'a str, u64>,
}

/// All rails that tests of congestion used, by name.
pub(super) fn rails<'a>(analysis: &RunAnalysis<'a>) -> BTreeMap<&'a str, RailSeen<'a>> {
    let tests = congestion_tests(analysis);
    let mut rails: BTreeMap<&str, RailSeen<'a>> = BTreeMap::new();
    if tests.is_empty() {
        return rails;
    }
    let is_sprayed = {
        let mut known = analysis.run().placement.iter();
        known.any(|switch| switch.placement == PathPlacement::Sprayed)
    };
    let mut read = counters_read(analysis, &tests);
    for (name, mut slot) in slots_run(analysis, &tests) {
        let ends = read.remove(&name).unwrap_or_default();
        let ends = ends.into_iter().map(|(host, end)| (host, end.seen(is_sprayed)));
        slot.ends.extend(ends);
        let rail = rails.entry(name.0).or_default();
        rail.is_rdma |= slot
            .load
            .is_some_and(|load| load.transport == TransportKind::Verbs);
        rail.slots.push(slot);
    }
    for ((rail, _), end) in analysis.ends() {
        if let Some(rail) = rails.get_mut(rail) {
            let knows = |names: &[&str]| end.known.iter().any(|name| is_one_of(name, names));
            rail.knows_pauses |= knows(&PAUSED) || knows(&PAUSES);
            rail.knows_marks |= knows(&MARKED) || knows(&HANDLED);
            rail.knows_losses |= knows(&MISSED[usize::from(is_sprayed)..]) || knows(&SENT_AGAIN);
        }
    }
    rails
}

/// What the ends of rails counted around cells of these tests, by slot and host.
fn counters_read<'a>(
    analysis: &RunAnalysis<'a>,
    tests: &BTreeSet<&str>,
) -> BTreeMap<SlotName<'a>, BTreeMap<&'a str, EndRead<'a>>> {
    let mut read: BTreeMap<SlotName<'a>, BTreeMap<&'a str, EndRead<'a>>> = BTreeMap::new();
    for event in &analysis.recorded.events {
        let Event::Counter(delta) = event else { continue };
        let cell = analysis.cell(delta.cell);
        let Some(cell) = cell.filter(|cell| tests.contains(cell.test.as_str())) else {
            continue;
        };
        let (Some(host), true) = (analysis.host(delta.rank), cell.rails.contains(&delta.rail)) else {
            continue;
        };
        let slot = (delta.rail.as_str(), cell.slot, delta.round);
        let end = read.entry(slot).or_default().entry(host).or_default();
        end.watched = delta.ns.unwrap_or_default().max(end.watched);
        let most = end.moved.entry(delta.name.as_str()).or_default();
        *most = delta.moved().unwrap_or(0).max(*most);
    }
    read
}

/// The slots of these tests that were measured, without what their ends counted.
fn slots_run<'a>(analysis: &RunAnalysis<'a>, tests: &BTreeSet<&str>) -> BTreeMap<SlotName<'a>, SlotSeen<'a>> {
    let mut slots: BTreeMap<SlotName<'a>, SlotSeen<'a>> = BTreeMap::new();
    for event in &analysis.recorded.events {
        let Event::CellDone(done) = event else { continue };
        let cell = analysis.cell(done.cell);
        let Some(cell) = cell.filter(|cell| tests.contains(cell.test.as_str())) else {
            continue;
        };
        for rail in &cell.rails {
            let slot = slots.entry((rail.as_str(), cell.slot, done.round)).or_default();
            slot.cells.insert(cell.id);
            match cell.collective {
                Collective::Incast => slot.receivers.extend(cell.ranks.get(cell.root as usize)),
                Collective::AllToAll => slot.receivers.extend(&cell.ranks),
                Collective::PointToPoint => slot.receivers.extend(cell.ranks.get(1)),
                _ => {}
            }
            if cell.collective.is_load() {
                slot.load = Some(cell);
            }
        }
    }
    slots
}

fn is_one_of(name: &str, names: &[&str]) -> bool {
    named(name).is_some_and(|counter| names.contains(&counter.name))
}

impl EndRead<'_> {
    fn seen(&self, is_sprayed: bool) -> EndSeen {
        let of = |names: &[&str]| -> Vec<u64> {
            let moved = self.moved.iter().filter(|(name, _)| is_one_of(name, names));
            moved.map(|(_, by)| *by).collect()
        };
        let most = |names: &[&str]| of(names).into_iter().max().unwrap_or(0);
        let sum = |names: &[&str]| of(names).into_iter().fold(0u64, u64::saturating_add);
        let micros = |names: &[&str]| Nanos(sum(names).saturating_mul(1000));
        let is_physical =
            |name: &str| named(name).is_some_and(|counter| counter.kind == CounterKind::Physical);
        EndSeen {
            arrived: most(&ARRIVED),
            marked: most(&MARKED),
            handled: most(&HANDLED),
            missed: sum(&MISSED[usize::from(is_sprayed)..]),
            sent_again: sum(&SENT_AGAIN),
            paused: micros(&PAUSED),
            pauses: micros(&PAUSES),
            watched: self.watched,
            is_damaged: self.moved.iter().any(|(name, by)| *by > 0 && is_physical(name)),
        }
    }
}
