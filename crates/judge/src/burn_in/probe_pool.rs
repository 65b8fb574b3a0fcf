//! What became of probes in all cycles so far, added up flow by flow (docs/loss.md, "Over many cycles").
//!
//! Held true: memory depends on the number of different flows and of windows (a few per decade of cycles), not on the number of cycles; which windows
//! there are depends on the number of cycles alone, never on what was lost.

use std::collections::HashMap;

use crate::findings::Outcome;
use record::{ProbeReading, ProbeReadings};

/// No more different flows are kept.
const MOST_FLOWS: usize = 100_000;
/// A window is dropped when the next longer one is not so many times as long as the next shorter one.
const APART: u32 = 4;

/// A flow, the same in every cycle. Names and links are numbers of texts.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct FlowKey {
    pub(super) test: u32,
    pub(super) slot: (u32, u16),
    pub(super) from: u32,
    pub(super) to: u32,
    pub(super) rail: u32,
    /// Its source port, where its path is not known.
    pub(super) port: Option<u16>,
    pub(super) links: Box<[u32]>,
    possible: Box<[(u32, u64)]>,
    shares: Box<[(u32, u64)]>,
}

impl FlowKey {
    /// Links that it may have crossed, with the probability that it did.
    pub(super) fn possible(&self) -> impl Iterator<Item = (u32, f64)> + '_ {
        self.possible
            .iter()
            .map(|(link, bits)| (*link, f64::from_bits(*bits)))
    }

    /// Links that only a share of its packets crossed.
    pub(super) fn shares(&self) -> impl Iterator<Item = (u32, f64)> + '_ {
        self.shares
            .iter()
            .map(|(link, bits)| (*link, f64::from_bits(*bits)))
    }
}

/// How a flow fared in the cycles of a window.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Fared {
    pub(super) outcomes: Vec<Outcome>,
    /// The first and the last cycle in which packets of it were lost.
    pub(super) lossy_cycles: Option<(u32, u32)>,
}

/// Cycles from one on.
#[derive(Debug, Clone, Default)]
pub(super) struct Window {
    /// How many.
    pub(super) cycles: u32,
    /// In how many of them every slot was measured.
    pub(super) slots: HashMap<(u32, u16), u32>,
    /// By flow, in the order of the pool's.
    pub(super) fared: Vec<Fared>,
}

/// Everything that is kept of probes.
#[derive(Debug, Clone, Default)]
pub(super) struct ProbePool {
    pub(super) flows: Vec<FlowKey>,
    numbers: HashMap<FlowKey, usize>,
    /// From the longest to the shortest.
    pub(super) windows: Vec<Window>,
    /// Flows of cycles that were too many to keep.
    pub(super) left_out: u64,
}

impl ProbePool {
    /// Adds these flows of a cycle; `place` gives the number of a text.
    pub(super) fn add(
        &mut self,
        cycle: u32,
        probes: &ProbeReadings,
        flows: &[ProbeReading],
        mut place: impl FnMut(&str) -> u32,
    ) {
        let mut all = |texts: &[String]| -> Vec<u32> { texts.iter().map(|text| place(text)).collect() };
        let texts = Texts {
            hosts: all(&probes.hosts),
            rails: all(&probes.rails),
            links: all(&probes.links),
            tests: all(&probes.tests),
        };
        let mut counted: Vec<(usize, &ProbeReading)> = Vec::new();
        for reading in flows.iter().filter(|reading| reading.seconds > 0) {
            // A record that points nowhere says nothing.
            let Some(key) = texts.key(reading) else { continue };
            match self.number(key) {
                Some(flow) => counted.push((flow, reading)),
                None => self.left_out += 1,
            }
        }
        self.windows.push(Window::default());
        for window in &mut self.windows {
            window.add(cycle, &counted);
        }
        self.thin_out();
    }

    fn number(&mut self, key: FlowKey) -> Option<usize> {
        if let Some(known) = self.numbers.get(&key) {
            return Some(*known);
        }
        let fresh = self.flows.len();
        (fresh < MOST_FLOWS).then(|| {
            self.flows.push(key.clone());
            self.numbers.insert(key, fresh);
            fresh
        })
    }

    /// Drops windows that are nearly as long as others. The longest and the shortest stay.
    fn thin_out(&mut self) {
        let mut number = 1;
        while number + 1 < self.windows.len() {
            let (longer, shorter) = (self.windows[number - 1].cycles, self.windows[number + 1].cycles);
            match longer <= APART.saturating_mul(shorter) {
                true => _ = self.windows.remove(number),
                false => number += 1,
            }
        }
    }
}

impl Window {
    fn add(&mut self, cycle: u32, counted: &[(usize, &ProbeReading)]) {
        self.cycles += 1;
        let mut slots: Vec<(u32, u16)> = counted
            .iter()
            .map(|(_, reading)| (reading.slot, reading.round))
            .collect();
        slots.sort_unstable();
        slots.dedup();
        for slot in slots {
            *self.slots.entry(slot).or_default() += 1;
        }
        for (flow, reading) in counted {
            if self.fared.len() <= *flow {
                self.fared.resize(flow + 1, Fared::default());
            }
            self.fared[*flow].add(cycle, reading);
        }
    }
}

impl Fared {
    fn add(&mut self, cycle: u32, reading: &ProbeReading) {
        let lossy = reading.lossy.min(reading.seconds);
        if lossy > 0 {
            let (first, last) = self.lossy_cycles.unwrap_or((cycle, cycle));
            self.lossy_cycles = Some((first.min(cycle), last.max(cycle)));
        }
        let is_alike = |outcome: &&mut Outcome| outcome.seconds == reading.seconds && outcome.lossy == lossy;
        let row = match self.outcomes.iter_mut().find(is_alike) {
            Some(known) => known,
            None => {
                self.outcomes.push(Outcome {
                    seconds: reading.seconds,
                    lossy,
                    ..Outcome::default()
                });
                let last = self.outcomes.len() - 1;
                &mut self.outcomes[last]
            }
        };
        row.cycles += 1;
        row.sent = row.sent.saturating_add(reading.sent);
        row.lost = row.lost.saturating_add(reading.lost.min(reading.sent));
    }
}

/// The texts of one cycle's readings, by their numbers.
struct Texts {
    hosts: Vec<u32>,
    rails: Vec<u32>,
    links: Vec<u32>,
    tests: Vec<u32>,
}

impl Texts {
    fn key(&self, reading: &ProbeReading) -> Option<FlowKey> {
        let link = |link: &u32| self.links.get(*link as usize).copied();
        let valued = |all: &[(u32, f64)]| -> Option<Box<[(u32, u64)]>> {
            let sound = |value: f64| value.is_finite() && (0.0..=1.0).contains(&value);
            let all = all.iter().map(|(number, value)| {
                sound(*value).then_some(())?;
                Some((link(number)?, value.to_bits()))
            });
            all.collect()
        };
        Some(FlowKey {
            test: *self.tests.get(reading.test as usize)?,
            slot: (reading.slot, reading.round),
            from: *self.hosts.get(reading.from as usize)?,
            to: *self.hosts.get(reading.to as usize)?,
            rail: *self.rails.get(reading.rail as usize)?,
            port: (!reading.possible.is_empty()).then_some(reading.port),
            links: reading.links.iter().map(link).collect::<Option<_>>()?,
            possible: valued(&reading.possible)?,
            shares: valued(&reading.shares)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn reading(port: u16, lossy: u32) -> ProbeReading {
        ProbeReading {
            from: 0,
            to: 1,
            port,
            links: vec![0, 1],
            seconds: 2,
            lossy,
            sent: 300,
            lost: u64::from(lossy),
            ..ProbeReading::default()
        }
    }

    fn cycle(flows: Vec<ProbeReading>) -> ProbeReadings {
        let names = |names: &[&str]| names.iter().map(ToString::to_string).collect();
        ProbeReadings {
            hosts: names(&["h0", "h1"]),
            rails: names(&["rail0"]),
            links: names(&["h0/rail0->leaf0/p0", "leaf0/p1->h1/rail0"]),
            tests: names(&["probes 32 B"]),
            flows,
        }
    }

    fn add(pool: &mut ProbePool, number: u32, flows: Vec<ProbeReading>) {
        let probes = cycle(flows);
        pool.add(number, &probes, &probes.flows, place);
    }

    /// Numbers of texts: enough for these.
    fn place(text: &str) -> u32 {
        text.bytes().map(u32::from).sum()
    }

    #[test]
    fn a_day_of_cycles_takes_as_many_flows_as_one_and_a_few_windows() {
        let mut pool = ProbePool::default();
        for number in 1..=1440 {
            let lossy = u32::from(number % 100 == 0);
            add(&mut pool, number, vec![reading(number as u16, lossy)]);
        }
        assert_eq!(
            pool.flows.len(),
            1,
            "another port over the same path is the same flow"
        );
        let lengths: Vec<u32> = pool.windows.iter().map(|window| window.cycles).collect();
        assert!((3..=14).contains(&lengths.len()), "{lengths:?}");
        assert_eq!((lengths.first(), lengths.last()), (Some(&1440), Some(&1)));
        let all = &pool.windows[0].fared[0];
        assert_eq!(all.lossy_cycles, Some((100, 1400)));
        let cycles: u32 = all.outcomes.iter().map(|outcome| outcome.cycles).sum();
        let lost: u64 = all.outcomes.iter().map(|outcome| outcome.lost).sum();
        assert_eq!((all.outcomes.len(), cycles, lost), (2, 1440, 14));
        assert_eq!(pool.windows[0].slots[&(0, 0)], 1440);
    }

    #[test]
    fn where_the_path_is_unknown_every_port_is_a_flow_and_too_many_are_counted() {
        let mut pool = ProbePool::default();
        let unknown = |port: u16| ProbeReading {
            links: vec![0],
            possible: vec![(1, 0.5)],
            ..reading(port, 0)
        };
        add(&mut pool, 1, (0..1000).map(unknown).collect());
        assert_eq!((pool.flows.len(), pool.left_out), (1000, 0));
        for slot in 0..110 {
            let flows = (0..1000).map(|port| ProbeReading {
                slot,
                ..unknown(port)
            });
            add(&mut pool, 2 + slot, flows.collect());
        }
        assert_eq!(pool.flows.len(), MOST_FLOWS);
        assert_eq!(pool.left_out, 10_000);
    }

    proptest! {
        #[test]
        fn readings_that_point_nowhere_are_left_out_and_do_no_harm(
            host in 0u32..4, link in 0u32..4, probability in prop::num::f64::ANY, seconds in 0u32..3, lossy in 0u32..9, lost in any::<u64>()
        ) {
            let wild = ProbeReading {
                from: host, links: vec![link], possible: vec![(link, probability)], seconds, lossy, lost, ..reading(1, 0)
            };
            let mut pool = ProbePool::default();
            add(&mut pool, 1, vec![wild.clone(), wild]);
            let is_sound = host < 2 && link < 2 && (0.0..=1.0).contains(&probability) && seconds > 0;
            prop_assert_eq!(pool.flows.len(), usize::from(is_sound));
            for outcome in pool.windows[0].fared.iter().flat_map(|fared| &fared.outcomes) {
                prop_assert!(outcome.lossy <= outcome.seconds && outcome.lost <= outcome.sent);
            }
        }
    }
}
