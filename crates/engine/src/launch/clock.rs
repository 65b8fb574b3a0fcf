//! The clock that samples are taken with, its own cost, and how far another rank's clock is off.
//!
//! `CLOCK_MONOTONIC` in nanoseconds: it never jumps, reads without a system call, and is the same for all processes of a
//! host. Between hosts it starts anywhere, so the coordinator measures each rank's offset by round trips: of several, the
//! shortest bounds the error best (its half is the uncertainty that is recorded). How it drifts: `clock_estimate`.

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

use record::units::Nanos;

/// The last stretch before an agreed instant is spent looking at the clock.
const SPIN: Nanos = Nanos(100_000);

/// Now, on this host's monotonic clock.
pub fn now() -> Nanos {
    match clock_gettime(ClockId::CLOCK_MONOTONIC) {
        Ok(time) => Nanos(time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64),
        Err(_) => unreachable!("CLOCK_MONOTONIC exists on every Linux"),
    }
}

/// What reading the clock costs: the median distance of consecutive readings.
pub fn cost() -> Nanos {
    const READINGS: usize = 1001;
    let mut distances: Vec<u64> = (0..READINGS)
        .map(|_| {
            let (first, second) = (now(), now());
            second.since(first).0
        })
        .collect();
    distances.sort_unstable();
    Nanos(distances[READINGS / 2])
}

/// Returns at `at`, as exactly as the host allows; at once when that has passed. On a `crowded` host, the last stretch
/// is left to others.
pub fn wait_until(at: Nanos, crowded: bool) {
    loop {
        let left = at.since(now());
        if left == Nanos(0) {
            return;
        }
        if left > SPIN {
            std::thread::sleep(Duration::from(left - SPIN));
        } else if crowded {
            std::thread::yield_now();
        } else {
            std::hint::spin_loop();
        }
    }
}

/// One round trip to another clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoundTrip {
    /// Our clock when the question left.
    pub sent: Nanos,
    /// The other clock when it answered.
    pub remote: Nanos,
    /// Our clock when the answer arrived.
    pub received: Nanos,
}

/// Another clock against ours, at one instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offset {
    /// The other clock minus ours.
    pub nanos: i64,
    /// It is off by this much at most.
    pub uncertainty: u64,
}

/// A comparison of another clock with ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Comparison {
    /// When, on our clock.
    pub at: Nanos,
    /// What it gave; half a round trip is its uncertainty.
    pub offset: Offset,
}

impl Comparison {
    /// From several round trips, by the shortest; none without any.
    pub fn from_round_trips(trips: &[RoundTrip]) -> Option<Comparison> {
        let best = trips.iter().min_by_key(|trip| trip.received.since(trip.sent))?;
        let trip = best.received.since(best.sent).0;
        let at = best.sent.0 + trip / 2;
        Some(Comparison {
            at: Nanos(at),
            offset: Offset {
                nanos: (best.remote.0 as i64).saturating_sub(at as i64),
                uncertainty: trip.div_ceil(2),
            },
        })
    }
}

impl Offset {
    /// The other clock's reading at our instant `ours`.
    pub fn to_remote(self, ours: Nanos) -> Nanos {
        Nanos(ours.0.saturating_add_signed(self.nanos))
    }

    /// Our clock's reading at the other clock's instant `remote`.
    pub fn to_ours(self, remote: Nanos) -> Nanos {
        Nanos(remote.0.saturating_add_signed(self.nanos.saturating_neg()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shortest_round_trip_decides_the_offset() {
        let trips = [
            RoundTrip {
                sent: Nanos(0),
                remote: Nanos(5_900),
                received: Nanos(2_000),
            },
            RoundTrip {
                sent: Nanos(10_000),
                remote: Nanos(15_050),
                received: Nanos(10_100),
            },
        ];
        let Comparison { at, offset } = Comparison::from_round_trips(&trips).unwrap();
        assert_eq!(at, Nanos(10_050));
        assert_eq!(
            offset,
            Offset {
                nanos: 5_000,
                uncertainty: 50
            }
        );
        assert_eq!(offset.to_remote(Nanos(100)), Nanos(5_100));
        assert_eq!(offset.to_ours(Nanos(5_100)), Nanos(100));
        assert_eq!(Comparison::from_round_trips(&[]), None);
    }

    #[test]
    fn the_clock_moves_forward_and_costs_little() {
        let first = now();
        assert!(now() >= first);
        assert!(cost() < Nanos(1_000_000));
    }
}
