//! Nights of a fleet that never was, with known incidents: what the history is proved on.
//!
//! Every host has two ends of every rail, one reading each per night: the best of a few flows, whose noise is what healthy runs of
//! the lab were recorded to have. Parts differ by a little for good, nights differ by a little for all, and now and then a reading
//! is outliers for no reason. Hosts and cables may wander: what they are tonight is much of what they were last night. The same seed
//! gives the same nights, and the same incidents and readings whatever wanders.

mod wander;

pub use wander::Wander;

use std::collections::BTreeMap;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use rayon::prelude::*;

use super::Noise;
use record::stats::normal_score;
use record::{EndReason, Night, PartKind, PartReading, Quantity, Readings, SCHEMA};

/// What a healthy end of a rail carries, bytes per second.
const HEALTHY: f64 = 48e9;
/// How much parts differ for good.
const PARTS_DIFFER: f64 = 0.005;
/// How much nights differ, for all parts alike.
const NIGHTS_DIFFER: f64 = 0.003;
/// The start of the first night: 2026-09-01 at three in the morning.
const FIRST: i64 = 1_788_231_600;
const DAY: i64 = 86_400;
/// Readings of a cable: in and out.
const WAYS: usize = 2;
/// Streams of random numbers, one for what wanders of each kind.
const HOSTS: u64 = 1;
const CABLES: u64 = 2;

/// What is drawn for every reading.
#[derive(Debug, Clone, PartialEq)]
pub enum ReadingNoise {
    /// The best of three flows, with the noise between cells of recorded runs.
    Recorded(Box<Noise>),
    /// Normal, with this standard deviation.
    Normal(f64),
    /// Student's t with three degrees of freedom, whose middle half is as wide as that of a normal curve with this standard deviation:
    /// one reading in a hundred is far out.
    HeavyTailed(f64),
}

/// Something that happens to a part, or to all of them.
#[derive(Debug, Clone, PartialEq)]
pub enum Incident {
    /// From that night on the part reaches less by this share.
    Step {
        /// The part, as its reading is called.
        part: String,
        /// First night.
        from: usize,
        /// By how much (0.05 = 5 %).
        share: f64,
    },
    /// From that night on it reaches less and less, until it is this share after so many nights, and stays there.
    Slope {
        /// The part.
        part: String,
        /// First night.
        from: usize,
        /// Nights until all of it is there.
        over: usize,
        /// By how much in the end.
        share: f64,
    },
    /// One night only.
    Blip {
        /// The part.
        part: String,
        /// Which night.
        at: usize,
        /// By how much.
        share: f64,
    },
    /// The part is another one from that night on, which reaches less by this share for good.
    Replaced {
        /// The part.
        part: String,
        /// First night.
        from: usize,
        /// By how much.
        share: f64,
    },
    /// All parts reach less in one night.
    Dip {
        /// Which night.
        at: usize,
        /// By how much.
        share: f64,
    },
}

/// A fleet and its nights.
#[derive(Debug, Clone, PartialEq)]
pub struct Nights {
    /// Hosts.
    pub hosts: usize,
    /// Rails of each.
    pub rails: usize,
    /// Nights.
    pub count: usize,
    /// How readings differ.
    pub noise_model: ReadingNoise,
    /// What all readings of a host have in common, and how long it lasts.
    pub host_wander: Wander,
    /// The same of a cable: both ways of one rail of a host.
    pub cable_wander: Wander,
    /// Share of readings that are outliers for no reason.
    pub outliers: f64,
    /// What happens.
    pub incidents: Vec<Incident>,
    /// Of everything that is drawn.
    pub seed: u64,
}

impl Nights {
    /// Healthy nights of the fleet that the aims of the history are stated for: 128 hosts with 8 rails, noise as recorded.
    pub fn healthy(seed: u64) -> Nights {
        Nights {
            hosts: 128,
            rails: 8,
            count: 60,
            noise_model: ReadingNoise::Recorded(Box::new(Noise::recorded())),
            host_wander: Wander::default(),
            cable_wander: Wander::default(),
            outliers: 0.002,
            incidents: Vec::new(),
            seed,
        }
    }

    /// Names of the ends of rails, in order.
    pub fn parts(&self) -> Vec<String> {
        let mut parts = Vec::new();
        for host in 0..self.hosts {
            for rail in 0..self.rails {
                parts.extend(["in", "out"].map(|way| format!("node{host:03}/rail{rail} {way}")));
            }
        }
        parts
    }

    /// The nights, the oldest first.
    pub fn nights(&self) -> Vec<Night> {
        let parts = self.parts();
        let mut random = ChaCha8Rng::seed_from_u64(self.seed);
        let levels: Vec<f64> = parts.iter().map(|_| PARTS_DIFFER * normal(&mut random)).collect();
        let common: Vec<f64> = (0..self.count)
            .map(|_| NIGHTS_DIFFER * normal(&mut random))
            .collect();
        let hosts = self.courses(self.host_wander, self.hosts, HOSTS);
        let cables = self.courses(self.cable_wander, self.hosts * self.rails, CABLES);
        let mut of_part: BTreeMap<&str, Vec<&Incident>> = BTreeMap::new();
        for incident in &self.incidents {
            of_part
                .entry(part_of(incident).unwrap_or_default())
                .or_default()
                .push(incident);
        }
        let night = |number: usize| {
            let mut random = ChaCha8Rng::seed_from_u64(self.seed ^ ((number as u64 + 1) << 32));
            let mut readings: Vec<PartReading> = Vec::with_capacity(parts.len());
            for (at, (part, level)) in parts.iter().zip(&levels).enumerate() {
                let cable = at / WAYS;
                let wander = hosts[cable / self.rails][number] + cables[cable][number];
                let mut log = level + common[number] + wander + self.noise(&mut random);
                if uniform(&mut random) < self.outliers {
                    log -= 0.05 + 0.15 * uniform(&mut random);
                }
                let mut serial = "A";
                for incident in ["", part].iter().filter_map(|name| of_part.get(*name)).flatten() {
                    log += (1.0 - lost(incident, number)).ln();
                    if matches!(incident, Incident::Replaced { from, .. } if number >= *from) {
                        serial = "B";
                    }
                }
                let value = HEALTHY * log.exp();
                readings.push(PartReading {
                    kind: PartKind::RailEnd,
                    part: part.clone(),
                    quantity: Quantity::Bandwidth,
                    value,
                    lower: 0.99 * value,
                    upper: 1.01 * value,
                    expected: None,
                    identity: Some(format!("nic {serial}-{part}")),
                    cells: 3,
                });
            }
            named(number, readings)
        };
        (0..self.count).into_par_iter().map(night).collect()
    }

    /// How each of so many parts wanders, night by night; `stream` keeps their draws apart from all others.
    fn courses(&self, wander: Wander, parts: usize, stream: u64) -> Vec<Vec<f64>> {
        let mut random = ChaCha8Rng::seed_from_u64(self.seed);
        random.set_stream(stream);
        (0..parts)
            .map(|_| wander.course(self.count, &mut random))
            .collect()
    }

    fn noise(&self, random: &mut ChaCha8Rng) -> f64 {
        match &self.noise_model {
            ReadingNoise::Recorded(noise) => {
                let flow = |_| -noise.between(random).ln();
                (0..3).map(flow).fold(f64::NEG_INFINITY, f64::max)
            }
            ReadingNoise::Normal(deviation) => deviation * normal(random),
            ReadingNoise::HeavyTailed(deviation) => {
                let square = |_| normal(random).powi(2);
                let spread = (0..3).map(square).sum::<f64>() / 3.0;
                // The quartiles of t with three degrees of freedom are 0.7649, those of a normal curve 0.6745.
                deviation * 0.6745 / 0.7649 * normal(random) / spread.sqrt()
            }
        }
    }
}

fn part_of(incident: &Incident) -> Option<&str> {
    match incident {
        Incident::Step { part, .. }
        | Incident::Slope { part, .. }
        | Incident::Blip { part, .. }
        | Incident::Replaced { part, .. } => Some(part),
        Incident::Dip { .. } => None,
    }
}

/// The share that an incident takes away in a night.
fn lost(incident: &Incident, night: usize) -> f64 {
    match incident {
        Incident::Step { from, share, .. } | Incident::Replaced { from, share, .. } if night >= *from => {
            *share
        }
        Incident::Slope {
            from, over, share, ..
        } if night >= *from => share * ((night - from + 1) as f64 / (*over).max(1) as f64).min(1.0),
        Incident::Blip { at, share, .. } | Incident::Dip { at, share } if night == *at => *share,
        _ => 0.0,
    }
}

fn named(number: usize, parts: Vec<PartReading>) -> Night {
    let at = FIRST + DAY * number as i64;
    let started = jiff::Timestamp::from_second(at).map(|at| at.to_string());
    Night {
        name: format!("night-{number:02}"),
        at,
        took: None,
        readings: Readings {
            schema: SCHEMA,
            suite: "nightly".to_string(),
            started: started.unwrap_or_default(),
            ended: Some(EndReason::Finished),
            exit_code: 0,
            parts,
            findings: Vec::new(),
            loads: Vec::new(),
            counters: Vec::new(),
            untested: Vec::new(),
            probes: None,
            iterations: 1,
            verified: 1,
            injected: Vec::new(),
        },
    }
}

fn uniform(random: &mut ChaCha8Rng) -> f64 {
    ((random.next_u64() >> 11) as f64 + 0.5) / (1u64 << 53) as f64
}

fn normal(random: &mut ChaCha8Rng) -> f64 {
    normal_score(uniform(random))
}

#[cfg(test)]
mod tests;
