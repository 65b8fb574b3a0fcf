//! Many streams across leaves: which ranks send to which, from which source ports.
//!
//! All hosts of every leaf send at the same time, so that uplinks are full and what one of them lacks shows. Every set of
//! ports sends further round the leaves than the one before: were it always the same two leaves, an uplink and the downlink
//! behind it would carry the same streams in every measurement, and would stay ambiguous.

use std::collections::BTreeMap;

use super::PlanError;
use super::layout::{Slot, TestLayout};
use super::verbs::ROCE_PORTS;
use record::units::{Bytes, Nanos, Rate};
use record::{Cell, Collective, Load, StreamTerms, TransportKind};
use topology::graph::{Graph, LinkId};
use topology::suite::SourcePorts;

/// Source ports of TCP streams start here when the suite does not say: below what systems hand out by themselves.
pub(super) const FIRST_PORT: u16 = 16_000;
/// A stream's bytes are counted message by message: this many in a window tell its share to a percent.
const MESSAGES_PER_WINDOW: f64 = 100.0;
const SMALLEST_MESSAGE: u64 = 4 << 10;
const LARGEST_MESSAGE: u64 = 1 << 20;

impl TestLayout<'_> {
    /// A slot for every rail, number of streams and set of ports.
    pub(super) fn streams(&mut self) -> Result<Vec<Slot>, PlanError> {
        if self.has_no_links() {
            return Ok(Vec::new());
        }
        let settings = &self.test.ecmp;
        let first = self.test.source_port.unwrap_or(match self.transport {
            TransportKind::Verbs => *ROCE_PORTS.start(),
            _ => FIRST_PORT,
        });
        let most: usize = settings.flows.iter().map(|flows| usize::from(*flows)).sum();
        let ports = most * usize::from(settings.sets);
        if usize::from(first) + ports > 1 << 16 {
            return Err(PlanError::TooManyStreams {
                test: self.test.name.clone(),
                first,
                ports,
            });
        }
        let graph = self.known.graph_or_inferred(&self.fabric.ranks);
        let graph = graph.as_ref();
        let world = self.world();
        let mut slots = Vec::new();
        for rail in self.rails {
            let leaves = leaves(graph, &world, rail);
            if leaves.len() < 2 {
                let why = "all hosts are behind one leaf: there is one path only";
                self.leave_out(&format!("rail {rail}"), why);
                continue;
            }
            let mut port = first;
            for set in 0..settings.sets {
                let pairs = pairs(&leaves, set);
                self.check_count(pairs.len())?;
                for &flows in &settings.flows {
                    let terms = StreamTerms {
                        set,
                        window: settings.window,
                        one_port: settings.source_ports == SourcePorts::One,
                        into_one: false,
                        pattern: None,
                        ports: Vec::new(),
                        round: 0,
                        ways: Vec::new(),
                    };
                    let rate = self.known.slowest().unwrap_or(super::estimate::RATE);
                    let load = if pairs.len() > 1 {
                        Load::Together
                    } else {
                        Load::Alone
                    };
                    let work = self.work(2)?[0];
                    let cells = pairs.iter().map(|(from, to)| Cell {
                        collective: Collective::Streams,
                        flows,
                        source_port: Some(port),
                        size: message(rate, settings.window, flows),
                        streams: Some(terms.clone()),
                        ..self.cell(work, vec![*from, *to], vec![rail.clone()], load)
                    });
                    slots.push(cells.collect());
                    port = port.wrapping_add(flows);
                }
            }
            for rank in never_sending(&leaves, settings.sets) {
                let what = format!("streams of {} on {rail}", self.fabric.rank_name(rank));
                self.leave_out(
                    &what,
                    "leaves have different numbers of hosts; more sets reach more of them",
                );
            }
        }
        Ok(slots)
    }
}

/// The leaves of a rail in order, each with one rank per cable: ranks that share a cable would only share it.
pub(super) fn leaves(graph: &Graph, world: &[u32], rail: &str) -> Vec<Vec<u32>> {
    let mut seen: Vec<LinkId> = Vec::new();
    let mut leaves: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    for &rank in world {
        let Some(cable) = graph.up(rank, rail).filter(|cable| !seen.contains(cable)) else {
            continue;
        };
        seen.push(cable);
        let leaf = match graph.is_inferred() {
            // Which hosts share a leaf is not known: each may have its own.
            true => Some(graph.link(cable).from.node.clone()),
            false => graph.leaf_of(rank, rail).map(str::to_string),
        };
        if let Some(leaf) = leaf {
            leaves.entry(leaf).or_default().push(rank);
        }
    }
    leaves.into_values().collect()
}

/// The senders and receivers of one set: every leaf to the one `set` further on, every rank sends and receives once at most.
fn pairs(leaves: &[Vec<u32>], set: u16) -> Vec<(u32, u32)> {
    let (count, set) = (leaves.len(), usize::from(set));
    let shift = 1 + set % (count - 1);
    let mut pairs = Vec::new();
    for (number, senders) in leaves.iter().enumerate() {
        let receivers = &leaves[(number + shift) % count];
        for place in 0..senders.len().min(receivers.len()) {
            // Where not all can take part, others do in the next set; and partners change once the leaves were all had.
            let sender = senders[(place + set) % senders.len()];
            let receiver = receivers[(place + set + set / (count - 1)) % receivers.len()];
            pairs.push((sender, receiver));
        }
    }
    pairs
}

/// Ranks that send in no set.
fn never_sending(leaves: &[Vec<u32>], sets: u16) -> Vec<u32> {
    let mut silent: Vec<u32> = leaves.iter().flatten().copied().collect();
    for set in 0..sets {
        let senders: Vec<u32> = pairs(leaves, set).into_iter().map(|(from, _)| from).collect();
        silent.retain(|rank| !senders.contains(rank));
    }
    silent
}

/// The message that streams repeat: small enough that counting them tells shares, large enough that sending them costs little.
pub(super) fn message(rate: Rate, window: Nanos, flows: u16) -> Bytes {
    let in_window = rate.0 * window.0 as f64 / 1e9 / f64::from(flows.max(1));
    let wanted = (in_window / MESSAGES_PER_WINDOW) as u64;
    let wanted = wanted.clamp(SMALLEST_MESSAGE, LARGEST_MESSAGE);
    Bytes(1 << wanted.ilog2())
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_host_sends_and_receives_once_across_leaves_and_sets_change_the_leaf() {
        let leaves = [vec![0, 1], vec![2, 3], vec![4, 5], vec![6, 7]];
        let leaf_of = |rank: u32| rank / 2;
        let mut met = HashSet::new();
        for set in 0..6 {
            let pairs = pairs(&leaves, set);
            assert_eq!(pairs.len(), 8);
            let senders: HashSet<u32> = pairs.iter().map(|(from, _)| *from).collect();
            let receivers: HashSet<u32> = pairs.iter().map(|(_, to)| *to).collect();
            assert_eq!((senders.len(), receivers.len()), (8, 8));
            for (from, to) in pairs {
                assert_ne!(leaf_of(from), leaf_of(to));
                met.insert((leaf_of(from), leaf_of(to)));
            }
        }
        assert_eq!(met.len(), 12, "every leaf sends to every other");
        assert!(never_sending(&leaves, 1).is_empty());
    }

    #[test]
    fn leaves_of_different_sizes_take_turns() {
        let leaves = [vec![0, 1, 2], vec![3]];
        assert_eq!(pairs(&leaves, 0).len(), 2);
        assert_eq!(never_sending(&leaves, 1), [1, 2]);
        assert!(never_sending(&leaves, 3).is_empty());
    }

    #[test]
    fn messages_are_small_on_slow_links_and_bounded_on_fast_ones() {
        let window = Nanos(400_000_000);
        assert_eq!(message(Rate(25e6), window, 32), Bytes(4 << 10));
        assert_eq!(message(Rate(1.25e9), window, 32), Bytes(128 << 10));
        assert_eq!(message(Rate(50e9), window, 32), Bytes(1 << 20));
    }
}
