//! How a fabric places flows, told from traces of the same flows: a path is evidence, not a fact.
//!
//! A flow that is traced twice, in two connections with the same ports, meets the same switches where placement is by ports. Several
//! packets of one connection meet different switches only where packets are sprayed. For every switch that has a choice, this counts both.
//! Assumed: traces are placed as data is. A difference makes its flow's path unknown; several make the switch's placement unsteady, and
//! every path that it chose unknown.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use record::{PathPlacement, SwitchPlacement, TransportKind};
use topology::graph::Graph;

/// So many repeats that all agree are not chance, even between two next hops.
const ENOUGH: u32 = 10;
/// From this share of differing repeats on, and two of them, a switch does not place by ports.
const UNSTEADY: f64 = 0.05;

/// The switches that answered along a path, none for a silent one.
pub type Hops = [Option<IpAddr>];

/// Sender, receiver and rail of a flow.
pub type FlowEnds<'f> = (u32, u32, &'f str);

/// The switch that chose the one that answered at `place`, if it had a choice: that of the sender, whether it answers or not, or the
/// one that answered `before`.
fn chooser<'g>(
    graph: &'g Graph,
    (from, to, rail): FlowEnds<'_>,
    place: usize,
    before: Option<IpAddr>,
) -> Option<&'g str> {
    let switch = match place {
        0 => None,
        1 => graph.leaf_of(from, rail),
        _ => graph.switch_with_address(before?),
    };
    switch.filter(|switch| graph.has_choice(switch, to, rail))
}

/// A flow that carries nothing and is traced again and again: connections that are open cannot be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ControlFlow {
    /// The rank that sends.
    pub from: u32,
    /// The rank that receives.
    pub to: u32,
    /// Over this rail.
    pub rail: String,
    /// From this source port.
    pub port: u16,
    /// What carries the flows of the rail.
    pub transport: TransportKind,
    /// Who answered when it was traced first.
    pub hops: Vec<Option<IpAddr>>,
}

/// What was seen of a switch that has a choice.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Seen {
    /// Flows that were traced again in another connection, and those that agreed.
    repeats: u32,
    agreed: u32,
    /// Flows of which several packets were traced in one connection, and those that were spread.
    bursts: u32,
    spread: u32,
}

/// What traces say about the switches of a fabric.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Placements {
    /// Per switch with a choice.
    seen: BTreeMap<String, Seen>,
    /// How every switch places flows, where that was not traced but is known.
    assumed: BTreeMap<String, PathPlacement>,
}

impl Placements {
    /// Placements that are known without traces, as of a simulated fabric.
    pub fn assumed<'s>(switches: impl Iterator<Item = &'s String>, placement: PathPlacement) -> Placements {
        Placements {
            assumed: switches.map(|switch| (switch.clone(), placement)).collect(),
            ..Placements::default()
        }
    }

    /// Takes note of two traces of the same flow.
    pub fn compare(&mut self, graph: &Graph, ends: FlowEnds<'_>, first: &Hops, again: &Hops) {
        for (place, (chosen, other)) in first.iter().zip(again).enumerate() {
            let (Some(chosen), Some(other)) = (chosen, other) else {
                continue;
            };
            // The switch that chose must be the same in both.
            let before = place.checked_sub(1);
            let before = before.and_then(|before| first[before].filter(|one| again[before] == Some(*one)));
            if let Some(switch) = chooser(graph, ends, place, before) {
                let seen = self.seen.entry(switch.to_string()).or_default();
                seen.repeats += 1;
                seen.agreed += u32::from(chosen == other);
            }
        }
    }

    /// Takes note of who answered several packets of one connection, hop by hop.
    pub fn note_burst(&mut self, graph: &Graph, ends: FlowEnds<'_>, hops: &[Vec<IpAddr>]) {
        for (place, answers) in hops.iter().enumerate().skip(1) {
            // Behind a switch that sprays, the next one sees only some of the packets.
            let before = match hops[place - 1].as_slice() {
                [first, rest @ ..] if rest.iter().all(|other| other == first) => Some(*first),
                _ => None,
            };
            // One answer says nothing.
            if let Some(switch) = chooser(graph, ends, place, before).filter(|_| answers.len() > 1) {
                let seen = self.seen.entry(switch.to_string()).or_default();
                let distinct: BTreeSet<&IpAddr> = answers.iter().collect();
                seen.bursts += 1;
                seen.spread += u32::from(distinct.len() > 1);
            }
        }
    }

    /// How a switch places flows.
    pub fn of(&self, switch: &str) -> PathPlacement {
        match (self.seen.get(switch), self.assumed.get(switch)) {
            (Some(seen), _) => seen.placement(),
            (None, Some(assumed)) => *assumed,
            (None, None) => PathPlacement::Unknown,
        }
    }

    /// Switches that do not place flows by their ports.
    pub fn unsteady(&self) -> impl Iterator<Item = &str> {
        let switches = self.seen.iter();
        switches
            .filter(|(_, seen)| seen.is_unsteady())
            .map(|(switch, _)| switch.as_str())
    }

    /// Switches that place every packet anew.
    pub fn spraying(&self) -> impl Iterator<Item = &str> {
        let switches = self.seen.keys().chain(self.assumed.keys()).map(String::as_str);
        switches.filter(|switch| self.of(switch) == PathPlacement::Sprayed)
    }

    /// Every switch with a choice, for the record.
    pub fn record(&self) -> Vec<SwitchPlacement> {
        let one = |(switch, seen): (&String, Seen)| SwitchPlacement {
            switch: switch.clone(),
            placement: self.of(switch),
            repeats: seen.repeats,
            agreed: seen.agreed,
            bursts: seen.bursts,
            spread: seen.spread,
        };
        let traced = self.seen.iter().map(|(switch, seen)| (switch, *seen));
        let untraced = self
            .assumed
            .keys()
            .filter(|switch| !self.seen.contains_key(*switch));
        let all = traced.chain(untraced.map(|switch| (switch, Seen::default())));
        all.map(one).collect()
    }
}

impl Seen {
    /// Whether too many repeats differ for a placement by ports.
    fn is_unsteady(&self) -> bool {
        let differed = self.repeats - self.agreed;
        differed >= 2 && f64::from(differed) > UNSTEADY * f64::from(self.repeats)
    }

    fn placement(&self) -> PathPlacement {
        // Packets of a burst rarely meet by chance: one that is spread may be a path that changed just then.
        let is_sprayed = self.spread >= 2 && 2 * self.spread >= self.bursts;
        match (self.is_unsteady(), is_sprayed) {
            (_, true) => PathPlacement::Sprayed,
            (true, false) => PathPlacement::PerConnection,
            (false, false) if self.repeats == self.agreed && self.repeats >= ENOUGH => PathPlacement::Steady,
            (false, false) => PathPlacement::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_switch_is_steady_after_ten_repeats_that_agree_and_not_when_several_differ() {
        let placement = |repeats, agreed| {
            let seen = Seen {
                repeats,
                agreed,
                ..Seen::default()
            };
            seen.placement()
        };
        assert_eq!(placement(10, 10), PathPlacement::Steady);
        assert_eq!(placement(9, 9), PathPlacement::Unknown);
        assert_eq!(placement(0, 0), PathPlacement::Unknown);
        // One path moved: its flow is not known any more, the switch may still be steady.
        assert_eq!(placement(100, 99), PathPlacement::Unknown);
        assert_eq!(placement(100, 98), PathPlacement::Unknown);
        assert_eq!(placement(100, 90), PathPlacement::PerConnection);
        assert_eq!(placement(4, 2), PathPlacement::PerConnection);
    }
    #[test]
    fn packets_of_one_connection_that_part_make_a_switch_spray() {
        let seen = |bursts, spread| {
            let seen = Seen {
                repeats: 10,
                agreed: 4,
                bursts,
                spread,
            };
            seen.placement()
        };
        assert_eq!(seen(4, 4), PathPlacement::Sprayed);
        assert_eq!(seen(4, 2), PathPlacement::Sprayed);
        assert_eq!(seen(8, 1), PathPlacement::PerConnection);
        assert_eq!(seen(8, 2), PathPlacement::PerConnection);
        assert_eq!(seen(0, 0), PathPlacement::PerConnection);
    }
}
