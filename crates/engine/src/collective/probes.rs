//! Probes: every rank sends small packets to some of the others, evenly over a while, and notes what arrives and how long it took.
//!
//! An iteration has a fixed length. Whatever has not arrived some time after its last packet was sent is lost. How long a packet waited is
//! how much longer it took than the fastest of its flow in that iteration, so clocks of hosts need not agree.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::engine::{CellEngine, Conditions, Stopped, Took};
use super::oracle::WrongElement;
use crate::launch::clock;
use crate::transport::{Channel, ProbePacket, ProbeSockets};
use record::units::Nanos;
use record::{LinkTraffic, ProbeTerms, Stuck};

/// How often packets are sent and read: receive times are the kernel's, so nothing is lost by reading late.
const TICK: Nanos = Nanos(1_000_000);
/// A packet is not sent any more so long after it was due.
const LATEST: Nanos = Nanos(10_000_000);
const SHORTEST_SLEEP: Nanos = Nanos(100_000);

/// What one end of a flow knows of it, iteration by iteration: the sender `sent`, the receiver the rest.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeReport {
    /// Position of the flow in the cell.
    pub flow: u32,
    /// Packets that the kernel took.
    pub sent: Vec<u32>,
    /// What arrived; none from the sender.
    pub arrived: Option<ProbeArrivals>,
}

/// What a receiver knows of a flow.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeArrivals {
    /// Packets of an iteration.
    pub expected: u32,
    /// Those of an iteration that did not arrive, or were never sent.
    pub missing: Vec<u32>,
    /// Those of them beside which others waited in a queue.
    pub in_queue: Vec<u32>,
    /// Packets that the socket dropped in an iteration, of all flows to it.
    pub dropped: Vec<u32>,
    /// Packets that came twice.
    pub duplicated: u64,
    /// Packets that came after a later one.
    pub reordered: u64,
    /// How much longer than the fastest packet of an iteration the middle one took.
    pub typical_ns: Vec<u64>,
    /// The same of the slowest one.
    pub worst_ns: Vec<u64>,
}

/// One rank's end of a cell of probes.
pub struct ProbeEngine {
    sockets: ProbeSockets,
    window: Nanos,
    span: Nanos,
    queue: Nanos,
    /// Packets of each flow that is sent, in one run.
    sends: Vec<u32>,
    /// Packets of each flow that is received.
    receives: Vec<(u32, u32)>,
    /// How often it ran.
    runs: u32,
    /// Reports, those of flows that are sent first.
    reports: Vec<ProbeReport>,
    /// Arrivals of the current run by flow.
    arrivals: HashMap<u32, Arrivals>,
    /// What sockets had dropped before the current run.
    dropped_before: Vec<u32>,
}

/// Arrivals of one flow in one run.
#[derive(Debug, Clone, Default)]
struct Arrivals {
    /// Per packet how long it took; clocks differ, so only differences mean anything.
    took: Vec<Option<i64>>,
    last: Option<u32>,
    duplicated: u64,
    reordered: u64,
}

/// What the arrivals of one run come to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct RunCounts {
    missing: u32,
    in_queue: u32,
    typical: u64,
    worst: u64,
}

impl Arrivals {
    fn of(packets: u32) -> Arrivals {
        Arrivals {
            took: vec![None; packets as usize],
            ..Arrivals::default()
        }
    }

    fn note(&mut self, number: u32, took: i64) {
        let Some(known) = self.took.get_mut(number as usize) else {
            return;
        };
        if known.is_some() {
            self.duplicated += 1;
            return;
        }
        *known = Some(took);
        match self.last {
            Some(last) if number < last => self.reordered += 1,
            _ => self.last = Some(number),
        }
    }

    /// `queue` is how long a packet waits in a queue that may be full.
    fn counts(&self, queue: Nanos) -> RunCounts {
        let mut waits: Vec<i64> = self.took.iter().flatten().copied().collect();
        waits.sort_unstable();
        let Some(shortest) = waits.first().copied() else {
            return RunCounts {
                missing: self.took.len() as u32,
                ..RunCounts::default()
            };
        };
        let has_waited = |took: &Option<i64>| took.is_some_and(|took| took - shortest > queue.0 as i64);
        let mut counts = RunCounts {
            typical: (waits[waits.len() / 2] - shortest) as u64,
            worst: (waits[waits.len() - 1] - shortest) as u64,
            ..RunCounts::default()
        };
        let mut number = 0;
        while number < self.took.len() {
            if self.took[number].is_some() {
                number += 1;
                continue;
            }
            let from = number;
            while number < self.took.len() && self.took[number].is_none() {
                number += 1;
            }
            let before = from.checked_sub(1).map(|before| &self.took[before]);
            let beside = before.into_iter().chain(self.took.get(number));
            let missing = (number - from) as u32;
            counts.missing += missing;
            counts.in_queue += if beside.into_iter().any(has_waited) {
                missing
            } else {
                0
            };
        }
        counts
    }
}

impl ProbeEngine {
    /// The rank's end, with its sockets open.
    pub fn new(terms: &ProbeTerms, sockets: ProbeSockets) -> ProbeEngine {
        let packets = |flow: u32| terms.flows.get(flow as usize).map_or(0, |flow| flow.packets);
        let receives: Vec<(u32, u32)> = sockets
            .receives()
            .iter()
            .map(|flow| (*flow, packets(*flow)))
            .collect();
        let of_sender = sockets.sends().map(|flow| ProbeReport {
            flow,
            ..ProbeReport::default()
        });
        let of_receiver = receives.iter().map(|(flow, packets)| ProbeReport {
            flow: *flow,
            arrived: Some(ProbeArrivals {
                expected: *packets,
                ..ProbeArrivals::default()
            }),
            ..ProbeReport::default()
        });
        ProbeEngine {
            reports: of_sender.chain(of_receiver).collect(),
            sends: sockets.sends().map(packets).collect(),
            receives,
            sockets,
            window: terms.window,
            span: terms.span(),
            queue: terms.queue,
            runs: 0,
            arrivals: HashMap::new(),
            dropped_before: Vec::new(),
        }
    }

    /// Forgets what came too late for the run before. Others may have begun already.
    fn begin(&mut self) {
        self.runs += 1;
        let flows = self.receives.iter();
        self.arrivals = flows
            .map(|(flow, packets)| (*flow, Arrivals::of(*packets)))
            .collect();
        self.read();
        self.dropped_before = self.sockets.dropped().map(|(_, dropped)| dropped).collect();
    }

    fn read(&mut self) {
        let (runs, arrivals) = (self.runs, &mut self.arrivals);
        self.sockets.receive(|packet: ProbePacket, at| {
            let is_of_now = packet.run == runs;
            if let Some(known) = arrivals.get_mut(&packet.flow).filter(|_| is_of_now) {
                known.note(packet.number, at.0 as i64 - packet.sent.0 as i64);
            }
        });
    }

    /// Writes down what the run came to.
    fn close(&mut self, sent: &[u32]) {
        for (report, sent) in self.reports.iter_mut().zip(sent) {
            report.sent.push(*sent);
        }
        let mut dropped: HashMap<u32, u32> = HashMap::new();
        for ((flows, now), before) in self.sockets.dropped().zip(&self.dropped_before) {
            dropped.extend(flows.iter().map(|flow| (*flow, now.wrapping_sub(*before))));
        }
        for report in &mut self.reports {
            let (Some(arrived), Some(seen)) = (&mut report.arrived, self.arrivals.get(&report.flow)) else {
                continue;
            };
            let counts = seen.counts(self.queue);
            arrived.missing.push(counts.missing);
            arrived.in_queue.push(counts.in_queue);
            arrived
                .dropped
                .push(dropped.get(&report.flow).copied().unwrap_or(0));
            arrived.duplicated += seen.duplicated;
            arrived.reordered += seen.reordered;
            arrived.typical_ns.push(counts.typical);
            arrived.worst_ns.push(counts.worst);
        }
    }
}

impl CellEngine for ProbeEngine {
    fn fill(&mut self, _pattern: u64) -> bool {
        true
    }

    fn run(
        &mut self,
        at: Nanos,
        iteration: Option<u32>,
        _times: u16,
        conditions: &Conditions<'_>,
    ) -> Result<Took, Stopped> {
        self.begin();
        clock::wait_until(at, conditions.crowded);
        let started = clock::now();
        let (last_send, end) = (at + self.window, at + self.span);
        let flows = self.sends.len();
        // Packets of a flow are so far apart, and flows take turns.
        let gaps: Vec<Nanos> = self
            .sends
            .iter()
            .map(|packets| Nanos(self.window.0 / u64::from(*packets).max(1)))
            .collect();
        let turn = |(place, gap): (usize, &Nanos)| at + Nanos(gap.0 * place as u64 / flows.max(1) as u64);
        let mut next: Vec<(Nanos, u32)> = gaps.iter().enumerate().map(|one| (turn(one), 0)).collect();
        let mut sent = vec![0; flows];
        let mut reported = started;
        loop {
            let now = clock::now();
            if now >= end {
                break;
            }
            if conditions.abort.load(Ordering::Relaxed) {
                return Err(aborted(flows));
            }
            if now.since(reported) > Nanos(1_000_000_000) {
                conditions.moving.inspect(|say| say());
                reported = now;
            }
            let mut soonest = end;
            for (place, (due, number)) in next.iter_mut().enumerate() {
                while *due <= now && *number < self.sends[place] && now < last_send {
                    // Whoever was held up does not catch up: a burst would overflow what probes alone never fill.
                    let is_sent = now.since(*due) <= LATEST && self.sockets.send(place, self.runs, *number);
                    sent[place] += u32::from(is_sent);
                    *number += 1;
                    *due = *due + gaps[place];
                }
                if *number < self.sends[place] {
                    soonest = soonest.min(*due);
                }
            }
            self.read();
            let left = soonest.since(clock::now()).min(TICK).max(SHORTEST_SLEEP);
            std::thread::sleep(Duration::from(left));
        }
        self.read();
        if iteration.is_some() {
            self.close(&sent);
        }
        Ok(Took {
            started,
            total: self.window,
            waited: Nanos(0),
        })
    }

    fn check(&mut self, _pattern: u64) -> Option<Result<(), WrongElement>> {
        None
    }

    fn stuck(&self) -> Vec<Stuck> {
        Vec::new()
    }

    fn probes(&mut self) -> Vec<ProbeReport> {
        std::mem::take(&mut self.reports)
    }

    fn finish(self: Box<Self>) -> (Vec<LinkTraffic>, Vec<Channel>) {
        (Vec::new(), Vec::new())
    }
}

fn aborted(flows: usize) -> Stopped {
    Stopped {
        step: format!("sending {flows} flows of probes"),
        waiting_for: None,
        waited: Nanos(0),
        problem: "the run is being ended".to_string(),
        aborted: true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(took: &[Option<i64>]) -> RunCounts {
        let mut arrivals = Arrivals::of(took.len() as u32);
        for (number, took) in took.iter().enumerate() {
            took.inspect(|took| arrivals.note(number as u32, *took));
        }
        arrivals.counts(Nanos(1_000))
    }

    #[test]
    fn packets_are_lost_or_lost_in_a_queue_by_how_long_those_beside_them_waited() {
        let quiet = counts(&[Some(500), None, Some(510), Some(505), None]);
        assert_eq!((quiet.missing, quiet.in_queue), (2, 0));
        assert_eq!((quiet.typical, quiet.worst), (5, 10));
        let full = counts(&[Some(-900), Some(200), None, None, Some(190), Some(-899), None]);
        assert_eq!(
            (full.missing, full.in_queue),
            (3, 2),
            "clocks may differ by anything"
        );
        let none = counts(&[None, None]);
        assert_eq!((none.missing, none.in_queue, none.worst), (2, 0, 0));
    }

    #[test]
    fn packets_that_overtake_each_other_or_come_twice_are_counted_once() {
        let mut arrivals = Arrivals::of(4);
        for number in [0, 2, 1, 1, 3, 9] {
            arrivals.note(number, 5);
        }
        assert_eq!((arrivals.reordered, arrivals.duplicated), (1, 1));
        assert_eq!(arrivals.counts(Nanos(1)).missing, 0);
    }
}
