//! Another clock over the course of a run: its offset and its drift, from comparisons some time apart (docs/method.md, "Clocks").
//!
//! Bounds, not averages. Whatever the delays of a round trip were, the offset lies within half of it; a drift lies within
//! `LARGEST_DRIFT` and changes by at most `WANDER`. From these follows what is possible at any later instant, and a
//! comparison outside of it shows that a clock was set, or that it runs at another rate.

use std::collections::VecDeque;

use super::clock::{Comparison, Offset};
use record::units::Nanos;

/// How fast two clocks may run apart, as a ratio: quartz is specified to 50 ppm or 100 ppm.
const LARGEST_DRIFT: f64 = 200e-6;
/// How much a drift may change: 1 ppb in a second, per nanosecond. Quartz changes with its temperature.
const WANDER: f64 = 1e-9 / 1e9;
/// Comparisons that are kept. What older ones said of the drift stays.
const KEPT: usize = 16;
/// An offset that is known this well is known well enough: 0.4 % of what 64 MiB take at 400 Gbit/s.
const CLOSE: u64 = 5_000;
/// By how much an offset may be known worse than by a usual comparison before clocks are compared again.
const SLACK: f64 = 1.5;

/// Another clock against ours.
#[derive(Debug, Clone, PartialEq)]
pub struct ClockEstimate {
    /// In order of time; at least one.
    comparisons: VecDeque<Comparison>,
    /// The drift at the last of them is possibly this.
    drift: Bounds,
}

/// What a drift (a ratio) or an offset (in nanoseconds) possibly is.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Bounds {
    lower: f64,
    upper: f64,
}

impl Bounds {
    fn around(middle: f64, half: f64) -> Bounds {
        Bounds {
            lower: middle - half,
            upper: middle + half,
        }
    }

    fn widened(self, by: f64) -> Bounds {
        Bounds {
            lower: self.lower - by,
            upper: self.upper + by,
        }
    }

    fn and(self, other: Bounds) -> Bounds {
        Bounds {
            lower: self.lower.max(other.lower),
            upper: self.upper.min(other.upper),
        }
    }

    fn is_possible(self) -> bool {
        self.lower <= self.upper
    }

    fn middle(self) -> f64 {
        (self.lower + self.upper) / 2.0
    }

    fn half(self) -> f64 {
        (self.upper - self.lower) / 2.0
    }
}

const ANY_DRIFT: Bounds = Bounds {
    lower: -LARGEST_DRIFT,
    upper: LARGEST_DRIFT,
};

impl ClockEstimate {
    /// After one comparison.
    pub fn new(first: Comparison) -> ClockEstimate {
        ClockEstimate {
            comparisons: VecDeque::from([first]),
            drift: ANY_DRIFT,
        }
    }

    /// Adds a later comparison. If it contradicts what was known, the estimate begins again with it, and by how much it lies
    /// beside what was expected is returned: the other clock was set, or runs at another rate.
    pub fn add(&mut self, next: Comparison) -> Option<i64> {
        let expected = self.at(next.at);
        let drift = self.drift_with(&next);
        let is_possible = self
            .possible(next.at, expected.nanos)
            .and(seen(&next, expected.nanos));
        if !is_possible.is_possible() || !drift.is_possible() {
            *self = ClockEstimate::new(next);
            return Some(next.offset.nanos.saturating_sub(expected.nanos));
        }
        self.drift = drift;
        self.comparisons.push_back(next);
        if self.comparisons.len() > KEPT {
            self.comparisons.pop_front();
        }
        None
    }

    /// The offset at our instant `ours`, not earlier than the last comparison, and how well it is known.
    pub fn at(&self, ours: Nanos) -> Offset {
        let base = self.last().offset.nanos;
        let possible = self.possible(ours, base);
        Offset {
            nanos: base.saturating_add(possible.middle().round() as i64),
            uncertainty: (possible.half().max(0.0).ceil() as u64).saturating_add(1),
        }
    }

    /// How fast the other clock runs ahead of ours, and how well that is known, as ratios.
    pub fn drift(&self) -> (f64, f64) {
        (self.drift.middle(), self.drift.half())
    }

    /// Whether the offset is known so much worse at `ours` than by a usual comparison that clocks should be compared again.
    pub fn is_due(&self, ours: Nanos) -> bool {
        let mut usual: Vec<u64> = self
            .comparisons
            .iter()
            .map(|known| known.offset.uncertainty)
            .collect();
        usual.sort_unstable();
        let usual = usual[usual.len() / 2] as f64;
        self.at(ours).uncertainty > CLOSE.max((SLACK * usual) as u64)
    }

    /// When clocks were compared last.
    pub fn compared_at(&self) -> Nanos {
        self.last().at
    }

    /// Whether the drift is as unknown as at the beginning: there was one comparison only.
    pub fn is_new(&self) -> bool {
        self.comparisons.len() == 1
    }

    fn last(&self) -> &Comparison {
        &self.comparisons[self.comparisons.len() - 1]
    }

    /// What the offset possibly is at `ours`, less `base`: every comparison bounds it.
    fn possible(&self, ours: Nanos, base: i64) -> Bounds {
        let everything = Bounds::around(0.0, f64::INFINITY);
        let each = self.comparisons.iter().map(|comparison| {
            let passed = ours.since(comparison.at).0 as f64;
            let then = seen(comparison, base);
            // The mean drift since then differs from that at the last comparison by what it wanders in that time.
            let drift = self.drift.widened(WANDER * passed);
            Bounds {
                lower: then.lower + drift.lower * passed,
                upper: then.upper + drift.upper * passed,
            }
        });
        each.fold(everything, Bounds::and)
    }

    /// What the drift possibly is at `next`, by all comparisons.
    fn drift_with(&self, next: &Comparison) -> Bounds {
        let since_last = next.at.since(self.last().at).0 as f64;
        let known = self.drift.widened(WANDER * since_last).and(ANY_DRIFT);
        let each = self.comparisons.iter().filter_map(|earlier| {
            let passed = next.at.since(earlier.at).0 as f64;
            let moved = next.offset.nanos.saturating_sub(earlier.offset.nanos) as f64;
            let unknown = unknown_part(earlier) + unknown_part(next);
            (passed > 0.0).then(|| Bounds::around(moved / passed, unknown / passed + WANDER * passed))
        });
        each.fold(known, Bounds::and)
    }
}

/// What a comparison says about the offset at its time, less `base`.
fn seen(comparison: &Comparison, base: i64) -> Bounds {
    let nanos = comparison.offset.nanos.saturating_sub(base);
    Bounds::around(nanos as f64, unknown_part(comparison))
}

/// The uncertainty of a comparison. The other clock was read at some instant of the round trip, not in the middle of it, and drifted meanwhile.
fn unknown_part(comparison: &Comparison) -> f64 {
    comparison.offset.uncertainty as f64 * (1.0 + LARGEST_DRIFT) + 1.0
}

#[cfg(test)]
mod tests;
