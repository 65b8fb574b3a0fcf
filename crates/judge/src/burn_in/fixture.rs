//! Parts and cycles for tests: four hosts with two rails, each rail with two leaves of two hosts and two spines.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use super::catalog::{CatalogLink, PartCatalog};
use record::units::Nanos;
use record::{
    BurnIn, Criteria, EndReason, FindingKind, FindingSummary, Journal, JournalLine, LinkLoad, Night,
    PartKind, PartReading, Place, Quantity, Readings,
};

/// Seeded noise.
pub struct Noise(ChaCha8Rng);

impl Noise {
    /// Noise from a seed.
    pub fn new(seed: u64) -> Noise {
        Noise(ChaCha8Rng::seed_from_u64(seed))
    }

    /// From 0 to 1.
    pub fn uniform(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// With mean 0 and deviation 1.
    pub fn normal(&mut self) -> f64 {
        let (radius, angle) = (self.uniform().max(1e-300), self.uniform());
        (-2.0 * radius.ln()).sqrt() * (2.0 * std::f64::consts::PI * angle).cos()
    }
}

/// Both directions of a cable: `low` is the host or the leaf.
fn cable(links: &mut Vec<CatalogLink>, name: &str, low: &str, high: &str, rail: &str, host: Option<&str>) {
    for away in [true, false] {
        let (from, to) = if away { (low, high) } else { (high, low) };
        links.push(CatalogLink {
            name: format!("{from}->{to}"),
            cable: name.to_string(),
            rail: Some(rail.to_string()),
            host: host.map(str::to_string),
            away,
        });
    }
}

/// Hosts h0 to h3; rail r has the leaves 2r (h0, h1) and 2r + 1 (h2, h3), named `leaf0` to `leaf3`, and spines of its own.
pub fn clos() -> PartCatalog {
    let mut known = PartCatalog {
        hosts: (0..4).map(|host| format!("h{host}")).collect(),
        ..PartCatalog::default()
    };
    for rail in 0..2 {
        let rail_name = format!("rail{rail}");
        for host in 0..4 {
            let (name, leaf) = (format!("h{host}"), 2 * rail + host / 2);
            let (low, high) = (format!("{name}/{rail_name}"), format!("leaf{leaf}/p{}", host % 2));
            let cable_name = format!("{name}-{rail_name}");
            cable(
                &mut known.links,
                &cable_name,
                &low,
                &high,
                &rail_name,
                Some(&name),
            );
        }
        for leaf in [2 * rail, 2 * rail + 1] {
            for spine in [2 * rail, 2 * rail + 1] {
                let (low, high) = (format!("leaf{leaf}/u{spine}"), format!("spine{spine}/d{leaf}"));
                cable(
                    &mut known.links,
                    &format!("leaf{leaf}-spine{spine}"),
                    &low,
                    &high,
                    &rail_name,
                    None,
                );
            }
        }
        // Neighbours on a leaf, and everybody across both spines.
        for from in 0..4usize {
            for to in (0..4usize).filter(|to| *to != from) {
                let (up, down) = (2 * rail + from / 2, 2 * rail + to / 2);
                let ends = [
                    format!("h{from}/{rail_name}->leaf{up}/p{}", from % 2),
                    format!("leaf{down}/p{}->h{to}/{rail_name}", to % 2),
                ];
                if up == down {
                    known.flows.push(ends.to_vec());
                    continue;
                }
                for spine in [2 * rail, 2 * rail + 1] {
                    let over = [
                        format!("leaf{up}/u{spine}->spine{spine}/d{up}"),
                        format!("spine{spine}/d{down}->leaf{down}/u{spine}"),
                    ];
                    let [first, last] = ends.clone();
                    let [second, third] = over;
                    known.flows.push(vec![first, second, third, last]);
                }
            }
        }
    }
    known
}

/// A finding.
pub fn found(kind: FindingKind, part: &str, place: Place) -> FindingSummary {
    FindingSummary {
        kind,
        part: part.to_string(),
        sentence: format!("{kind} at {part}"),
        place,
        both_directions: false,
        measured: None,
        expected: None,
        not_told_apart_from: Vec::new(),
        next_step: "look at it".to_string(),
        repeat: None,
    }
}

/// A cycle of a minute that says nothing.
pub fn night(number: u32) -> Night {
    Night {
        name: format!("cycle {number}"),
        at: 1_800_000_000 + i64::from(number) * 60,
        took: Some(Nanos::from_secs(60)),
        readings: Readings {
            schema: 1,
            suite: "burn-in".to_string(),
            started: format!("2026-11-03T04:{:02}:00Z", number % 60),
            ended: Some(EndReason::Finished),
            exit_code: 0,
            parts: Vec::new(),
            findings: Vec::new(),
            loads: Vec::new(),
            counters: Vec::new(),
            untested: Vec::new(),
            probes: None,
            iterations: 1000,
            verified: 250,
            injected: Vec::new(),
        },
    }
}

/// One figure.
pub fn reading(kind: PartKind, part: &str, quantity: Quantity, value: f64) -> PartReading {
    PartReading {
        kind,
        part: part.to_string(),
        quantity,
        value,
        lower: value,
        upper: value,
        expected: None,
        identity: None,
        cells: 4,
    }
}

/// A cycle in which every flow runs at what its slowest link carries, as `rate` says; links and ends are read from their best flow.
pub fn cycle(known: &PartCatalog, number: u32, mut rate: impl FnMut(&str) -> f64) -> Night {
    let mut night = night(number);
    let mut best: std::collections::BTreeMap<&str, f64> = std::collections::BTreeMap::new();
    let rates: std::collections::BTreeMap<&str, f64> = known
        .links
        .iter()
        .map(|link| (link.name.as_str(), rate(&link.name)))
        .collect();
    for flow in &known.flows {
        let slowest = flow
            .iter()
            .map(|link| rates[link.as_str()])
            .fold(f64::INFINITY, f64::min);
        for link in flow {
            let best = best.entry(link).or_insert(0.0);
            *best = best.max(slowest);
        }
    }
    for link in &known.links {
        let value = best[link.name.as_str()];
        let parts = &mut night.readings.parts;
        parts.push(reading(PartKind::Link, &link.name, Quantity::Bandwidth, value));
        if let Some(end) = link.end() {
            parts.push(reading(PartKind::RailEnd, &end, Quantity::Bandwidth, value));
        }
        night.readings.loads.push(LinkLoad {
            link: link.name.clone(),
            cable: link.cable.clone(),
            share: Some(value / 25e6),
            why: None,
        });
    }
    night
}

/// A line of the journal, so many seconds under load.
pub fn line(load: u64, what: Journal) -> JournalLine {
    JournalLine {
        at: format!("2026-11-03T04:{:02}:{:02}Z", load / 60 % 60, load % 60),
        load_ns: Nanos::from_secs(load),
        what,
    }
}

/// What was asked: ten minutes and five cycles are enough.
pub fn asked() -> BurnIn {
    let mut criteria = Criteria::default();
    criteria.least_load.value = Nanos::from_secs(600);
    BurnIn {
        schema: 1,
        version: "0.1.0".to_string(),
        suite: "burn-in".to_string(),
        description: "a test".to_string(),
        started: "2026-11-03T04:00:00Z".to_string(),
        seed: 1,
        command: vec!["railgauge".to_string()],
        wanted_ns: Nanos::from_secs(1800),
        criteria,
    }
}
