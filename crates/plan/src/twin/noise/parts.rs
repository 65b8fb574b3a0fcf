//! What else differs where nothing is wrong, part by part: what NICs, hosts and leaves have for good, what hits several measurements at once, two
//! speeds, drift, and the traffic of others. Every one is off unless a file or a model (`models`) says otherwise.
//!
//! All factors are of times: 1.03 is three percent slower. What is drawn for a part depends on the seed, the part and the time alone, so flows that
//! share a part share what is drawn for it.

use std::hash::Hash;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use serde::{Deserialize, Serialize};

use crate::twin::hash;
use record::units::Nanos;

/// Slots that make a minute: what is correlated in time is alike for so many.
const MINUTE: u32 = 4;
/// Drift is given for so many slots.
const DRIFT_SLOTS: f64 = 100.0;

/// Noise that is not drawn for every measurement by itself.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct NoiseParts {
    /// What parts have for good.
    #[serde(skip_serializing_if = "is_none")]
    pub levels: Spreads,
    /// What hits all measurements over a part within the same minute.
    #[serde(skip_serializing_if = "is_none")]
    pub minutes: Spreads,
    /// Deviation of the logarithm of a measurement's time, with tails.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tails: Option<Tails>,
    /// A share of all measurements runs at another speed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measurements_at: Option<SecondSpeed>,
    /// A share of all iterations runs at another speed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iterations_at: Option<SecondSpeed>,
    /// A share of all hosts has other NICs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hosts_at: Option<SecondSpeed>,
    /// How much slower everything is after a hundred slots, as a share.
    #[serde(skip_serializing_if = "is_zero")]
    pub drift: f64,
    /// In a share of all slots, others take a share of a cable between switches.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub neighbours: Option<Neighbours>,
    /// Operating systems hold hosts up now and then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub os_jitter: Option<OsJitter>,
    /// Hosts' clocks are known to so many microseconds only, and wrong by up to as much: they start apart.
    #[serde(skip_serializing_if = "is_zero")]
    pub clocks_us: f64,
}

/// Deviations of logarithms of times.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Spreads {
    /// Between NICs: hosts' ends of a rail.
    pub nic: f64,
    /// Between hosts.
    pub host: f64,
    /// Between leaves.
    pub leaf: f64,
    /// Of all together, from one minute to another.
    pub all: f64,
}

/// Student's curve: the fewer degrees of freedom, the heavier its tails.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tails {
    /// Scale of the logarithm.
    pub scale: f64,
    /// Degrees of freedom, 1 to 100.
    pub freedom: u32,
}

/// A second speed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SecondSpeed {
    /// The share that has it.
    pub share: f64,
    /// The factor of its times.
    pub factor: f64,
}

/// The traffic of others.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Neighbours {
    /// The share of slots in which a cable between switches has some.
    pub often: f64,
    /// The share of its rate that it takes.
    pub take: f64,
}

/// What an operating system does: an interrupt, another process, a page that is not there.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OsJitter {
    /// The share of its iterations in which a host is held up.
    pub often: f64,
    /// For how long on average, in milliseconds; longer delays are exponentially rarer.
    pub ms: f64,
}

fn is_none(spreads: &Spreads) -> bool {
    *spreads == Spreads::default()
}

fn is_zero(number: &f64) -> bool {
    *number == 0.0
}

/// The ends of a flow, and when it runs.
#[derive(Debug, Clone, Copy)]
pub(in crate::twin) struct FlowEnds<'a> {
    /// Sending and receiving host.
    pub(in crate::twin) hosts: [&'a str; 2],
    /// Their leaves.
    pub(in crate::twin) leaves: [&'a str; 2],
    pub(in crate::twin) rail: &'a str,
    pub(in crate::twin) slot: u32,
    pub(in crate::twin) round: u16,
}

impl NoiseParts {
    /// Why these numbers are no noise.
    pub(super) fn why_not(&self) -> Option<&'static str> {
        let spreads = [self.levels, self.minutes];
        let mut deviations: Vec<f64> = spreads
            .iter()
            .flat_map(|spread| [spread.nic, spread.host, spread.leaf, spread.all])
            .collect();
        deviations.extend(self.tails.map(|tails| tails.scale));
        if !deviations.iter().all(|deviation| (0.0..=1.0).contains(deviation)) {
            return Some("deviations are of logarithms, 0 to 1");
        }
        if self
            .tails
            .is_some_and(|tails| !(1..=100).contains(&tails.freedom))
        {
            return Some("tails have 1 to 100 degrees of freedom");
        }
        let speeds = [self.measurements_at, self.iterations_at, self.hosts_at];
        let is_speed = |speed: &SecondSpeed| {
            (0.0..=1.0).contains(&speed.share) && (0.01..=100.0).contains(&speed.factor)
        };
        if !speeds.iter().flatten().all(is_speed) {
            return Some("a second speed has a share of 0 to 1 and a factor of 0.01 to 100");
        }
        let neighbours = self.neighbours;
        let is_possible = |neighbours: &Neighbours| {
            (0.0..=1.0).contains(&neighbours.often) && (0.0..1.0).contains(&neighbours.take)
        };
        if !neighbours.iter().all(is_possible) {
            return Some("neighbours come in a share of 0 to 1 of the slots and take less than all");
        }
        let is_delay = |os_jitter: &OsJitter| {
            (0.0..=1.0).contains(&os_jitter.often) && (0.0..=10_000.0).contains(&os_jitter.ms)
        };
        if !self.os_jitter.iter().all(is_delay) {
            return Some("hosts are held up in a share of 0 to 1 of the iterations, for 0 to 10,000 ms");
        }
        if !(0.0..=1e6).contains(&self.clocks_us) {
            return Some("clocks are wrong by 0 to 1,000,000 us");
        }
        (!(-0.9..=10.0).contains(&self.drift)).then_some("drift is above -0.9 and at most 10")
    }

    /// The factor of a measurement's time.
    pub(in crate::twin) fn of_measurement(&self, seed: u64, cell: u32, round: u16, slot: u32) -> f64 {
        let mut factor = 1.0 + self.drift * f64::from(slot) / DRIFT_SLOTS;
        if let Some(tails) = self.tails {
            let mut random = random((seed, "tails", cell, round));
            factor *= (tails.scale * student(tails.freedom, &mut random)).exp();
        }
        factor *= self
            .measurements_at
            .map_or(1.0, |speed| speed.drawn((seed, "measurement", cell, round)));
        let minute = slot / MINUTE;
        factor * spread(self.minutes.all, (seed, "minute", minute, round))
    }

    /// The factor of an iteration's time.
    pub(in crate::twin) fn of_iteration(&self, random: &mut impl Rng) -> f64 {
        let is_other = |speed: &SecondSpeed| uniform(random) < speed.share;
        let other = self.iterations_at.filter(is_other);
        other.map_or(1.0, |speed| speed.factor)
    }

    /// What an iteration between so many hosts takes longer, in nanoseconds: all wait for the one that is held up longest.
    pub(in crate::twin) fn delay(&self, hosts: usize, random: &mut impl Rng) -> f64 {
        let Some(os_jitter) = self.os_jitter else {
            return 0.0;
        };
        let mut longest: f64 = 0.0;
        for _ in 0..hosts {
            if uniform(random) < os_jitter.often {
                longest = longest.max(-(1.0 - uniform(random)).ln() * os_jitter.ms * 1e6);
            }
        }
        longest
    }

    /// How far the first and the last of these hosts start apart, in nanoseconds.
    pub(in crate::twin) fn skew<'a>(&self, seed: u64, hosts: impl Iterator<Item = &'a str>) -> f64 {
        if self.clocks_us == 0.0 {
            return 0.0;
        }
        let offset = |host: &str| (2.0 * uniform(&mut random((seed, "clock", host))) - 1.0) * self.clocks_us;
        let ends = hosts.map(offset).fold(None, |ends: Option<(f64, f64)>, offset| {
            let (first, last) = ends.unwrap_or((offset, offset));
            Some((first.min(offset), last.max(offset)))
        });
        ends.map_or(0.0, |(first, last)| (last - first) * 1e3)
    }

    /// What a run says it does not know of the starts of ranks on several hosts: twice what is not known of a clock.
    pub(in crate::twin) fn unseen_skew(&self) -> Option<Nanos> {
        (self.clocks_us > 0.0).then_some(Nanos((2e3 * self.clocks_us) as u64))
    }

    /// The factor of a flow's time: what its ends have for good, and what hits them now.
    pub(in crate::twin) fn of_flow(&self, seed: u64, ends: FlowEnds<'_>) -> f64 {
        let minute = (ends.slot / MINUTE, ends.round);
        let of_end = |(end, direction): (usize, &str)| {
            let (host, leaf) = (ends.hosts[end], ends.leaves[end]);
            let mut factor = self.level(seed, (host, leaf), ends.rail, direction);
            factor *= spread(self.minutes.nic, (seed, "nic", host, ends.rail, minute));
            factor *= spread(self.minutes.host, (seed, "host", host, minute));
            factor * spread(self.minutes.leaf, (seed, "leaf", leaf, minute))
        };
        // A flow runs at the speed of the slower of its ends.
        let kind = ends.hosts.map(|host| self.kind(seed, host));
        [(0, "out"), (1, "in")].into_iter().map(of_end).product::<f64>() * kind[0].max(kind[1])
    }

    /// The factor that a host's end of a rail has for good in one direction, `out` or `in`.
    pub(in crate::twin) fn for_good(&self, seed: u64, at: (&str, &str), rail: &str, direction: &str) -> f64 {
        self.level(seed, at, rail, direction) * self.kind(seed, at.0)
    }

    /// The level of the end of that host and leaf.
    fn level(&self, seed: u64, (host, leaf): (&str, &str), rail: &str, direction: &str) -> f64 {
        spread(self.levels.nic, (seed, "nic", host, rail, direction))
            * spread(self.levels.host, (seed, "host", host))
            * spread(self.levels.leaf, (seed, "leaf", leaf))
    }

    /// What NICs of its kind have for good.
    fn kind(&self, seed: u64, host: &str) -> f64 {
        self.hosts_at
            .map_or(1.0, |speed| speed.drawn((seed, "kind", host)))
    }

    /// What others leave of a cable between switches in a slot.
    pub(in crate::twin) fn left_by_neighbours(&self, seed: u64, link: usize, slot: u32, round: u16) -> f64 {
        let Some(neighbours) = self.neighbours else {
            return 1.0;
        };
        let is_busy = uniform(&mut random((seed, "neighbours", link, slot, round))) < neighbours.often;
        if is_busy { 1.0 - neighbours.take } else { 1.0 }
    }
}

impl SecondSpeed {
    fn drawn(&self, what: impl Hash) -> f64 {
        let is_other = uniform(&mut random(what)) < self.share;
        if is_other { self.factor } else { 1.0 }
    }
}

fn random(what: impl Hash) -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(hash(what))
}

fn uniform(random: &mut impl Rng) -> f64 {
    (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

/// A standard normal value, by Box and Muller.
fn normal(random: &mut impl Rng) -> f64 {
    let radius = (-2.0 * (1.0 - uniform(random)).ln()).sqrt();
    radius * (2.0 * std::f64::consts::PI * uniform(random)).cos()
}

/// A value of Student's curve.
fn student(freedom: u32, random: &mut impl Rng) -> f64 {
    let value = normal(random);
    let square: f64 = (0..freedom).map(|_| normal(random).powi(2)).sum();
    value / (square / f64::from(freedom)).sqrt()
}

/// A factor whose logarithm has this deviation.
fn spread(deviation: f64, what: impl Hash) -> f64 {
    if deviation == 0.0 {
        return 1.0;
    }
    (deviation * normal(&mut random(what))).exp()
}
