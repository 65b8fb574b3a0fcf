//! Faults injected on purpose, to prove that they would be found: the negative controls.
//!
//! A detector that has never fired proves nothing. `--inject` breaks one thing in one known way while everything else runs
//! as always; a run with an injected fault says so in its record and in every report.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use serde::{Deserialize, Serialize};

use record::units::{Nanos, Rate};

/// The default flip: a bit that no type's arithmetic rounds away. The lowest mantissa bits of a float could be rounded away, and a
/// negative control must not depend on the numbers it hits.
const FLIPPED_BYTE: u64 = 3;
const FLIPPED_BIT: u64 = 6;

/// One thing to break.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fault {
    /// Flip one bit of what `rank` receives in timed iteration `iteration` of the first cell it takes part in.
    Flip {
        /// Receiving rank.
        rank: u32,
        /// Timed iteration.
        iteration: u32,
        /// Byte within what one peer sends in that iteration.
        byte: u64,
        /// Bit within the byte.
        bit: u8,
    },
    /// Limit what every rank sends on a rail.
    ThrottleRail {
        /// Rail by name.
        rail: String,
        /// At most this fast, per connection.
        rate: Rate,
    },
    /// Limit what one rank sends to another.
    ThrottlePair {
        /// Sending rank.
        from: u32,
        /// Receiving rank.
        to: u32,
        /// At most this fast, per connection.
        rate: Rate,
    },
    /// Make a rank's arithmetic take longer.
    SlowRank {
        /// The rank.
        rank: u32,
        /// How many times as long.
        factor: f64,
    },
    /// Kill a rank's process in the middle of timed iteration `iteration`.
    Kill {
        /// The rank.
        rank: u32,
        /// Timed iteration.
        iteration: u32,
    },
    /// Let a rank stop doing anything from timed iteration `iteration` on.
    Freeze {
        /// The rank.
        rank: u32,
        /// Timed iteration.
        iteration: u32,
    },
    /// Let the clock that a rank shows to the coordinator drift or jump, as on a host whose clock does.
    Clock {
        /// The rank.
        rank: u32,
        /// How fast it runs ahead, in millionths.
        drift_ppm: f64,
        /// By how much it jumps; 0 when it does not.
        jump_ns: i64,
        /// When, after the setup.
        after: Nanos,
    },
}

/// A text that does not describe a fault.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}`: {problem}; faults are flip:rank=R[,iteration=I][,byte=B][,bit=0-7], throttle:rail=NAME,rate=200MB/s, \
     throttle:pair=A:B,rate=200MB/s, slow-rank:rank=R,factor=3, kill:rank=R[,iteration=I], freeze:rank=R[,iteration=I], \
     clock:rank=R,drift=50ppm, clock:rank=R,jump=2ms[,after=1s]"
)]
pub struct BadFault {
    text: String,
    problem: String,
}

impl FromStr for Fault {
    type Err = BadFault;

    fn from_str(text: &str) -> Result<Fault, BadFault> {
        let bad = |problem: String| BadFault {
            text: text.to_string(),
            problem,
        };
        let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
        let mut fields = Vec::new();
        for field in rest.split(',').filter(|field| !field.is_empty()) {
            fields.push(
                field
                    .split_once('=')
                    .ok_or_else(|| bad(format!("`{field}` is not key=value")))?,
            );
        }
        let known: &[&str] = match kind {
            "flip" => &["rank", "iteration", "byte", "bit"],
            "throttle" => &["rail", "pair", "rate"],
            "slow-rank" => &["rank", "factor"],
            "kill" | "freeze" => &["rank", "iteration"],
            "clock" => &["rank", "drift", "jump", "after"],
            _ => return Err(bad(format!("unknown fault `{kind}`"))),
        };
        if let Some((key, _)) = fields.iter().find(|(key, _)| !known.contains(key)) {
            return Err(bad(format!("`{key}` does not belong to {kind}")));
        }
        let find = |key: &str| {
            fields
                .iter()
                .find(|(name, _)| *name == key)
                .map(|(_, value)| *value)
        };
        let need = |key: &str| find(key).ok_or_else(|| bad(format!("{key} is missing")));
        let number = |key: &str, text: &str| {
            text.parse::<u64>()
                .map_err(|_| bad(format!("{key} is not a number")))
        };
        let rank = || number("rank", need("rank")?).map(|rank| rank as u32);
        let or = |key: &str, default: u64| find(key).map_or(Ok(default), |text| number(key, text));
        let iteration = || or("iteration", 1).map(|iteration| iteration as u32);
        Ok(match kind {
            "flip" => Fault::Flip {
                rank: rank()?,
                iteration: iteration()?,
                byte: or("byte", FLIPPED_BYTE)?,
                bit: or("bit", FLIPPED_BIT)?.min(7) as u8,
            },
            "throttle" => {
                let rate: Rate = need("rate")?.parse().map_err(|error| bad(format!("{error}")))?;
                match (find("rail"), find("pair").and_then(|pair| pair.split_once(':'))) {
                    (Some(rail), None) => Fault::ThrottleRail {
                        rail: rail.to_string(),
                        rate,
                    },
                    (None, Some((from, to))) => Fault::ThrottlePair {
                        from: number("pair", from)? as u32,
                        to: number("pair", to)? as u32,
                        rate,
                    },
                    _ => return Err(bad("either rail=NAME or pair=A:B is needed".to_string())),
                }
            }
            "slow-rank" => {
                let factor: f64 = need("factor")?
                    .parse()
                    .map_err(|_| bad("factor is not a number".to_string()))?;
                if !(1.0..=1000.0).contains(&factor) {
                    return Err(bad("factor must lie between 1 and 1000".to_string()));
                }
                Fault::SlowRank {
                    rank: rank()?,
                    factor,
                }
            }
            "kill" => Fault::Kill {
                rank: rank()?,
                iteration: iteration()?,
            },
            "clock" => {
                let drift = find("drift").map(|text| text.strip_suffix("ppm").unwrap_or(text).parse::<f64>());
                let drift = drift
                    .transpose()
                    .map_err(|_| bad("drift is not a number of ppm".into()))?;
                if drift.is_some_and(|drift| !(-1000.0..=1000.0).contains(&drift)) {
                    return Err(bad("drift must lie between -1000ppm and 1000ppm".to_string()));
                }
                let span = |text: &str| text.parse::<Nanos>().map_err(|error| bad(format!("{error}")));
                let jump = find("jump").map(|text| match text.strip_prefix('-') {
                    Some(back) => span(back).map(|by| -(by.0 as i64)),
                    None => span(text).map(|by| by.0 as i64),
                });
                if drift.is_none() && jump.is_none() {
                    return Err(bad("drift=PPM or jump=TIME is needed".to_string()));
                }
                Fault::Clock {
                    rank: rank()?,
                    drift_ppm: drift.unwrap_or(0.0),
                    jump_ns: jump.transpose()?.unwrap_or(0),
                    after: span(find("after").unwrap_or("1s"))?,
                }
            }
            _ => Fault::Freeze {
                rank: rank()?,
                iteration: iteration()?,
            },
        })
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Flip {
                rank,
                iteration,
                byte,
                bit,
            } => {
                write!(
                    f,
                    "flip bit {bit} of byte {byte} received by rank {rank} in iteration {iteration}"
                )
            }
            Fault::ThrottleRail { rail, rate } => write!(f, "throttle rail {rail} to {rate}"),
            Fault::ThrottlePair { from, to, rate } => {
                write!(f, "throttle rank {from} -> rank {to} to {rate}")
            }
            Fault::SlowRank { rank, factor } => write!(f, "slow rank {rank}'s arithmetic by {factor}"),
            Fault::Kill { rank, iteration } => write!(f, "kill rank {rank} in iteration {iteration}"),
            Fault::Freeze { rank, iteration } => write!(f, "freeze rank {rank} in iteration {iteration}"),
            Fault::Clock {
                rank,
                drift_ppm,
                jump_ns,
                after,
            } => {
                write!(f, "clock of rank {rank}")?;
                if *drift_ppm != 0.0 {
                    write!(f, " drifts by {drift_ppm} ppm")?;
                }
                if *jump_ns != 0 {
                    let sign = if *jump_ns < 0 { "-" } else { "" };
                    write!(
                        f,
                        " jumps by {sign}{} after {after}",
                        Nanos(jump_ns.unsigned_abs())
                    )?;
                }
                Ok(())
            }
        }
    }
}

/// A bit flip that happens once.
#[derive(Debug, Clone)]
pub struct Flip {
    pub(super) iteration: u32,
    pub(super) byte: u64,
    pub(super) mask: u8,
    pub(super) armed: Arc<AtomicBool>,
}

impl Flip {
    /// The flip that `faults` ask for at `rank`, armed.
    pub fn for_rank(faults: &[Fault], rank: u32) -> Option<Flip> {
        faults.iter().find_map(|fault| match fault {
            Fault::Flip {
                rank: at,
                iteration,
                byte,
                bit,
            } if *at == rank => Some(Flip {
                iteration: *iteration,
                byte: *byte,
                mask: 1 << bit,
                armed: Arc::new(AtomicBool::new(true)),
            }),
            _ => None,
        })
    }

    /// The bit, as a byte in which nothing else is set.
    pub fn mask(&self) -> u8 {
        self.mask
    }

    /// The position within a chunk of `len` bytes starting at `offset` that is to be flipped now; disarms.
    pub fn trigger(&self, iteration: Option<u32>, offset: u64, len: usize) -> Option<usize> {
        let here = iteration == Some(self.iteration) && (offset..offset + len as u64).contains(&self.byte);
        (here && self.armed.swap(false, Ordering::Relaxed)).then(|| (self.byte - offset) as usize)
    }
}

/// Lets chunks pass no faster than a rate.
#[derive(Debug, Clone)]
pub(super) struct Pacer {
    rate: Rate,
    passed_until: Instant,
    next: Option<Instant>,
}

impl Pacer {
    /// The pacer that `faults` ask for on this path, if any.
    pub fn for_path(faults: &[Fault], from: u32, to: u32, rail: Option<&str>) -> Option<Pacer> {
        faults
            .iter()
            .find_map(|fault| match fault {
                Fault::ThrottleRail { rail: name, rate } if Some(name.as_str()) == rail => Some(*rate),
                Fault::ThrottlePair { from: a, to: b, rate } if (*a, *b) == (from, to) => Some(*rate),
                _ => None,
            })
            .map(|rate| Pacer {
                rate,
                passed_until: Instant::now(),
                next: None,
            })
    }

    /// Whether a chunk of `bytes` may pass at `now`.
    pub fn lets_pass(&mut self, bytes: usize, now: Instant) -> bool {
        let rate = self.rate.0.max(1.0);
        let next = *self.next.get_or_insert_with(|| {
            let took = std::time::Duration::try_from_secs_f64(bytes as f64 / rate).unwrap_or_default();
            self.passed_until.max(now) + took
        });
        if now < next {
            return false;
        }
        self.passed_until = next;
        self.next = None;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn every_kind_of_fault_can_be_asked_for() {
        let cases = [
            (
                "flip:rank=1,byte=5,bit=3",
                Fault::Flip {
                    rank: 1,
                    iteration: 1,
                    byte: 5,
                    bit: 3,
                },
            ),
            (
                "flip:rank=0",
                Fault::Flip {
                    rank: 0,
                    iteration: 1,
                    byte: 3,
                    bit: 6,
                },
            ),
            (
                "throttle:rail=loop1,rate=2MB/s",
                Fault::ThrottleRail {
                    rail: "loop1".into(),
                    rate: Rate(2e6),
                },
            ),
            (
                "throttle:pair=0:1,rate=2MB/s",
                Fault::ThrottlePair {
                    from: 0,
                    to: 1,
                    rate: Rate(2e6),
                },
            ),
            (
                "slow-rank:rank=0,factor=2.5",
                Fault::SlowRank { rank: 0, factor: 2.5 },
            ),
            (
                "clock:rank=1,drift=-20ppm",
                Fault::Clock {
                    rank: 1,
                    drift_ppm: -20.0,
                    jump_ns: 0,
                    after: Nanos::from_secs(1),
                },
            ),
            (
                "clock:rank=1,jump=-2ms,after=300ms",
                Fault::Clock {
                    rank: 1,
                    drift_ppm: 0.0,
                    jump_ns: -2_000_000,
                    after: Nanos(300_000_000),
                },
            ),
            (
                "kill:rank=2,iteration=4",
                Fault::Kill {
                    rank: 2,
                    iteration: 4,
                },
            ),
            (
                "freeze:rank=2",
                Fault::Freeze {
                    rank: 2,
                    iteration: 1,
                },
            ),
        ];
        for (text, fault) in cases {
            assert_eq!(text.parse(), Ok(fault), "{text}");
        }
    }

    #[test]
    fn a_mistyped_fault_is_refused_with_the_list() {
        for text in [
            "",
            "flop:rank=1",
            "flip",
            "flip:rank=x",
            "kill:rank=1,when=3",
            "throttle:rate=1MB/s",
        ] {
            let error = text.parse::<Fault>().unwrap_err().to_string();
            assert!(error.contains("freeze:rank=R"), "{text}: {error}");
        }
    }

    #[test]
    fn a_flip_strikes_once_and_only_in_its_iteration() {
        let flip = Flip::for_rank(
            &[Fault::Flip {
                rank: 1,
                iteration: 2,
                byte: 10,
                bit: 0,
            }],
            1,
        )
        .unwrap();
        assert_eq!(flip.trigger(Some(1), 8, 8), None);
        assert_eq!(flip.trigger(None, 8, 8), None);
        assert_eq!(flip.trigger(Some(2), 8, 8), Some(2));
        assert_eq!(flip.trigger(Some(2), 8, 8), None);
    }

    #[test]
    fn a_pacer_holds_the_asked_rate() {
        let start = Instant::now();
        let mut pacer = Pacer {
            rate: Rate(1000.0),
            passed_until: start,
            next: None,
        };
        assert!(!pacer.lets_pass(100, start));
        assert!(!pacer.lets_pass(100, start + Duration::from_millis(99)));
        assert!(pacer.lets_pass(100, start + Duration::from_millis(100)));
        assert!(!pacer.lets_pass(100, start + Duration::from_millis(101)));
        assert!(pacer.lets_pass(100, start + Duration::from_millis(201)));
    }
}
