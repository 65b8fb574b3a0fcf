//! Noise by name: one model for each way in which healthy fabrics differ, at strengths that no recording here had.
//!
//! They are made to embarrass detectors, not to look like a certain fabric. What was tuned on them and what was counted: docs/detection.md.

use super::Noise;
use super::parts::{Neighbours, NoiseParts, OsJitter, SecondSpeed, Spreads, Tails};

/// Every model, with what it is.
pub const MODELS: [(&str, &str); 15] = [
    ("recorded", "as recorded in healthy runs of the lab"),
    ("quiet", "a tenth of what was recorded"),
    ("nics", "NICs differ by 2 % for good"),
    ("hosts", "hosts differ by 2 % for good, leaves by 1 %"),
    ("cells", "measurements differ by 6 %"),
    (
        "minutes",
        "hosts differ by 3 % and leaves by 2 % from one minute to another",
    ),
    ("tails", "measurements differ by 2 % with heavy tails"),
    ("two-speed", "a fifth of all measurements takes a quarter longer"),
    ("iterations", "a third of all iterations takes half as long again"),
    ("drift", "everything slows down by 10 % in a hundred slots"),
    (
        "neighbours",
        "others take 30 % of a cable between switches in a tenth of all slots",
    ),
    ("mixed", "a third of all hosts has NICs that are 3 % slower"),
    (
        "os-jitter",
        "operating systems hold a host up in 2 % of its iterations, for 3 ms on average",
    ),
    (
        "clocks",
        "hosts' clocks are wrong by up to 30 us, and known as well",
    ),
    ("all", "a little of each of them, but for the last two"),
];

/// The model of this name.
pub(super) fn named(name: &str) -> Option<Noise> {
    let recorded = Noise::recorded();
    let (_, what) = MODELS.iter().find(|(known, _)| *known == name)?;
    let with = |parts: NoiseParts| Noise {
        source: format!("model {name}: {what}"),
        parts,
        ..recorded.clone()
    };
    let none = NoiseParts::default;
    let speed = |share: f64, factor: f64| Some(SecondSpeed { share, factor });
    Some(match name {
        "recorded" => recorded,
        "quiet" => {
            let tenth = |ratios: &[f64]| -> Vec<f64> {
                ratios.iter().map(|ratio| 1.0 + (ratio - 1.0) / 10.0).collect()
            };
            Noise {
                within: tenth(&recorded.within),
                between: tenth(&recorded.between),
                ..with(none())
            }
        }
        "nics" => with(NoiseParts {
            levels: Spreads {
                nic: 0.02,
                ..Spreads::default()
            },
            ..none()
        }),
        "hosts" => with(NoiseParts {
            levels: Spreads {
                host: 0.02,
                leaf: 0.01,
                ..Spreads::default()
            },
            ..none()
        }),
        "cells" => with(NoiseParts {
            tails: Some(Tails {
                scale: 0.06,
                freedom: 100,
            }),
            ..none()
        }),
        "minutes" => with(NoiseParts {
            minutes: Spreads {
                host: 0.03,
                leaf: 0.02,
                ..Spreads::default()
            },
            ..none()
        }),
        "tails" => with(NoiseParts {
            tails: Some(Tails {
                scale: 0.02,
                freedom: 3,
            }),
            ..none()
        }),
        "two-speed" => with(NoiseParts {
            measurements_at: speed(0.2, 1.25),
            ..none()
        }),
        "iterations" => with(NoiseParts {
            iterations_at: speed(0.33, 1.5),
            ..none()
        }),
        "drift" => with(NoiseParts { drift: 0.1, ..none() }),
        "neighbours" => with(NoiseParts {
            neighbours: Some(Neighbours {
                often: 0.1,
                take: 0.3,
            }),
            ..none()
        }),
        "mixed" => with(NoiseParts {
            hosts_at: speed(0.33, 1.03),
            ..none()
        }),
        "os-jitter" => with(NoiseParts {
            os_jitter: Some(OsJitter { often: 0.02, ms: 3.0 }),
            ..none()
        }),
        "clocks" => with(NoiseParts {
            clocks_us: 30.0,
            ..none()
        }),
        _ => with(NoiseParts {
            levels: Spreads {
                nic: 0.005,
                host: 0.01,
                leaf: 0.005,
                all: 0.0,
            },
            minutes: Spreads {
                nic: 0.005,
                host: 0.01,
                leaf: 0.01,
                all: 0.01,
            },
            tails: Some(Tails {
                scale: 0.01,
                freedom: 4,
            }),
            measurements_at: speed(0.03, 1.2),
            iterations_at: speed(0.1, 1.3),
            hosts_at: speed(0.2, 1.015),
            drift: 0.02,
            neighbours: Some(Neighbours {
                often: 0.03,
                take: 0.2,
            }),
            ..none()
        }),
    })
}
