//! Fairness: many send to one at the same time, and how much of each arrives is counted.
//!
//! Who gets how much depends on the sender's congestion control, and on how far it is from the receiver and which cables its streams share with
//! others. The last two change with the receiver, so every sender meets several. All senders of a slot are behind other leaves than its receiver, where
//! there are enough of those: they are equally far from it.

use super::PlanError;
use super::ecmp::{FIRST_PORT, message};
use super::layout::{Slot, TestLayout};
use super::verbs::ROCE_PORTS;
use record::{Cell, Collective, Load, StreamTerms, TransportKind};

/// Senders to one receiver, unless the suite says so.
const SENDERS: usize = 32;
/// How often every sender meets a receiver: from other ports again, where there are not so many.
const MEETS: usize = 12;
/// The most times that it meets the same one.
const MOST_TIMES: usize = 4;
/// With fewer senders equally far from a receiver there is nobody to compare one with.
const FEWEST_SENDERS: usize = 3;

impl TestLayout<'_> {
    /// A slot for every rail and receiver.
    pub(super) fn fairness(&mut self) -> Result<Vec<Slot>, PlanError> {
        if self.has_no_links() {
            return Ok(Vec::new());
        }
        let first = self.test.source_port.unwrap_or(match self.transport {
            TransportKind::Verbs => *ROCE_PORTS.start(),
            _ => FIRST_PORT,
        });
        let (world, flows) = (self.world(), self.test.flows);
        let most = self.test.senders.map_or(SENDERS, |senders| senders as usize);
        let window = self.test.ecmp.window;
        let rate = self.known.slowest().unwrap_or(super::estimate::RATE);
        let mut slots = Vec::new();
        for rail in self.rails {
            let ranks = self.one_per_cable(&world, rail);
            if ranks.len() <= FEWEST_SENDERS {
                let why = format!("it takes {} hosts or more", FEWEST_SENDERS + 1);
                self.leave_out(&format!("rail {rail}"), &why);
                continue;
            }
            let groups = groups(&ranks, most);
            let ports = groups.len() * usize::from(flows);
            if usize::from(first) + ports > 1 << 16 {
                return Err(PlanError::TooManyStreams {
                    test: self.test.name.clone(),
                    first,
                    ports,
                });
            }
            self.check_count(groups.iter().map(|group| group.senders.len()).sum())?;
            for (set, group) in groups.into_iter().enumerate() {
                let all = flows.saturating_mul(group.senders.len() as u16);
                let work = self.work(2)?[0];
                let cells = group.senders.iter().map(|sender| Cell {
                    collective: Collective::Streams,
                    source_port: Some(first + set as u16 * flows),
                    size: message(rate, window, all),
                    streams: Some(StreamTerms {
                        set: set as u16,
                        window,
                        one_port: false,
                        into_one: true,
                        pattern: None,
                        ports: Vec::new(),
                        round: 0,
                        ways: Vec::new(),
                    }),
                    ..self.cell(
                        work,
                        vec![*sender, group.receiver],
                        vec![rail.clone()],
                        Load::Together,
                    )
                });
                slots.push(cells.collect());
            }
        }
        Ok(slots)
    }

    /// One rank for every cable of the rail, and its leaf where it is known: ranks that share a cable would only share it.
    fn one_per_cable(&self, world: &[u32], rail: &str) -> Vec<(u32, Option<String>)> {
        let graph = self.known.graph_or_inferred(&self.fabric.ranks);
        let graph = graph.as_ref();
        let mut seen = Vec::new();
        let mut ranks = Vec::new();
        for &rank in world {
            let Some(cable) = graph.up(rank, rail).filter(|cable| !seen.contains(cable)) else {
                continue;
            };
            seen.push(cable);
            let leaf = graph.leaf_of(rank, rail).filter(|_| !graph.is_inferred());
            ranks.push((rank, leaf.map(str::to_string)));
        }
        ranks
    }
}

/// A receiver and who sends to it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Group {
    receiver: u32,
    senders: Vec<u32>,
}

/// Receivers spread over all ranks, each with senders in turn.
fn groups(ranks: &[(u32, Option<String>)], most: usize) -> Vec<Group> {
    let count = ranks.len();
    let most = most.clamp(1, count - 1);
    let receivers = (MEETS * (count - 1)).div_ceil(most).max(MEETS).min(count);
    let mut next = 0;
    let group = |number: usize| {
        let at = number * count / receivers;
        let (receiver, leaf) = &ranks[at];
        let others = |is_far: bool| {
            let others = ranks.iter().filter(move |(rank, _)| rank != receiver);
            let wanted = others.filter(move |(_, other)| !is_far || leaf.is_none() || other != leaf);
            wanted.map(|(rank, _)| *rank).collect::<Vec<u32>>()
        };
        let far = others(true);
        let others = if far.len() < FEWEST_SENDERS {
            others(false)
        } else {
            far
        };
        let taken = most.min(others.len());
        let senders = (0..taken)
            .map(|place| others[(next + place) % others.len()])
            .collect();
        next += taken;
        Group {
            receiver: *receiver,
            senders,
        }
    };
    let once: Vec<Group> = (0..receivers).map(group).collect();
    let each_meets = once.iter().map(|group| group.senders.len()).sum::<usize>() / count;
    let times = MEETS.div_ceil(each_meets.max(1)).min(MOST_TIMES);
    let all = once.len() * times;
    once.into_iter().cycle().take(all).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    fn fabric(hosts: u32, per_leaf: u32) -> Vec<(u32, Option<String>)> {
        (0..hosts)
            .map(|rank| (rank, Some(format!("leaf{}", rank / per_leaf))))
            .collect()
    }

    #[test]
    fn every_sender_meets_several_receivers_and_all_are_equally_far_from_them() {
        for (hosts, per_leaf, most) in [(6, 2, 32), (16, 4, 32), (64, 8, 32), (64, 8, 8), (300, 32, 32)] {
            let ranks = fabric(hosts, per_leaf);
            let mut met: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
            let mut times: BTreeMap<u32, usize> = BTreeMap::new();
            for group in groups(&ranks, most) {
                assert!(group.senders.len() >= FEWEST_SENDERS && group.senders.len() <= most);
                for sender in group.senders {
                    assert_ne!(
                        sender / per_leaf,
                        group.receiver / per_leaf,
                        "behind another leaf"
                    );
                    met.entry(sender).or_default().insert(group.receiver);
                    *times.entry(sender).or_default() += 1;
                }
            }
            assert_eq!(met.len(), hosts as usize, "everybody sends");
            let fewest = met.values().map(BTreeSet::len).min().unwrap();
            assert!(fewest >= 4, "{hosts} hosts: a sender meets {fewest}");
            let fewest = times.values().min().unwrap();
            assert!(*fewest >= 8, "{hosts} hosts: {fewest} times");
        }
    }

    #[test]
    fn behind_one_leaf_everybody_is_equally_far() {
        let groups = groups(&fabric(5, 5), 32);
        assert_eq!(groups.len(), 15, "each of five three times");
        assert!(groups.iter().all(|group| group.senders.len() == 4));
    }
}
