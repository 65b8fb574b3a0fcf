//! Rows of nights made to order, for tests.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use record::stats::normal_score;
use record::{
    EndReason, FindingKind, FindingSummary, Night, PartKind, PartReading, Place, Quantity, Readings, SCHEMA,
};

/// A reading without interval and identity.
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
        cells: 1,
    }
}

/// A night with these readings.
pub fn night(number: usize, parts: Vec<PartReading>) -> Night {
    let at = 1_790_000_000 + 86_400 * number as i64;
    Night {
        name: format!("night{number:02}"),
        at,
        took: None,
        readings: Readings {
            schema: SCHEMA,
            suite: "nightly".into(),
            started: jiff::Timestamp::from_second(at).unwrap().to_string(),
            ended: Some(EndReason::Finished),
            exit_code: 0,
            parts,
            findings: Vec::new(),
            loads: Vec::new(),
            counters: Vec::new(),
            untested: Vec::new(),
            probes: None,
            iterations: 1000,
            verified: 1000,
            injected: Vec::new(),
        },
    }
}

/// Nights of `hosts` hosts with two rails each, both ends read: 48 GB/s with one percent of noise, times what `factor` says of a
/// night and part.
pub fn nights(hosts: usize, count: usize, factor: impl Fn(usize, &str) -> f64) -> Vec<Night> {
    let mut random = ChaCha8Rng::seed_from_u64(11);
    let mut noise = || {
        let uniform = ((random.next_u64() >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
        (0.01 * normal_score(uniform)).exp()
    };
    let ends: Vec<String> = (0..hosts)
        .flat_map(|host| {
            (0..2).flat_map(move |rail| ["out", "in"].map(|way| format!("h{host}/rail{rail} {way}")))
        })
        .collect();
    let one = |number: usize, noise: &mut dyn FnMut() -> f64| {
        let read = |part: &String| {
            let value = 48e9 * noise() * factor(number, part);
            reading(PartKind::RailEnd, part, Quantity::Bandwidth, value)
        };
        night(number, ends.iter().map(read).collect())
    };
    (0..count).map(|number| one(number, &mut noise)).collect()
}

/// A finding about a host's end of a rail.
pub fn found(kind: FindingKind, host: &str, rail: &str) -> FindingSummary {
    FindingSummary {
        kind,
        part: format!("{host} on {rail}"),
        sentence: format!("{rail} of {host} is not well"),
        place: Place {
            hosts: vec![host.to_string()],
            rail: Some(rail.to_string()),
            ..Place::default()
        },
        both_directions: false,
        measured: None,
        expected: None,
        not_told_apart_from: Vec::new(),
        next_step: "look at it".into(),
        repeat: None,
    }
}
