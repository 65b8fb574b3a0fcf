//! A rank's clock as the coordinator sees it, with an injected fault: it drifts, or jumps. Without one it is the host's clock.
//!
//! Only what the rank tells and is told is translated, so everything on the rank itself works as always.

use crate::transport::Fault;
use record::units::Nanos;

/// The clock that a rank shows to the coordinator.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct FaultyClock {
    /// When the fault began, on the host's clock.
    since: Nanos,
    /// How fast it runs ahead of the host's clock, as a ratio.
    drift: f64,
    /// By how much it jumps, and when on the host's clock.
    jump: Option<(i64, Nanos)>,
}

impl FaultyClock {
    /// What `faults` do to the clock of `rank` from `since` on.
    pub fn new(faults: &[Fault], rank: u32, since: Nanos) -> FaultyClock {
        let fault = faults.iter().find_map(|fault| match fault {
            Fault::Clock {
                rank: at,
                drift_ppm,
                jump_ns,
                after,
            } if *at == rank => Some(FaultyClock {
                since,
                drift: drift_ppm / 1e6,
                jump: (*jump_ns != 0).then_some((*jump_ns, since + *after)),
            }),
            _ => None,
        });
        fault.unwrap_or_default()
    }

    /// Whether it is the host's clock.
    pub fn is_right(&self) -> bool {
        self.drift == 0.0 && self.jump.is_none()
    }

    /// A jump that is still to come comes at the host's instant `host`.
    #[cfg(test)]
    pub fn jump_now(&mut self, host: Nanos) {
        if let Some((_, at)) = &mut self.jump {
            *at = (*at).min(host);
        }
    }

    /// What it shows at the host's instant `host`.
    pub fn reading(&self, host: Nanos) -> Nanos {
        let ahead = (host.since(self.since).0 as f64 * self.drift).round() as i64;
        let jumped = self.jump.filter(|(_, at)| host >= *at).map_or(0, |(by, _)| by);
        Nanos(host.0.saturating_add_signed(ahead.saturating_add(jumped)))
    }

    /// The host's instant at which it shows `reading`; the later one where a jump makes it show that twice.
    pub fn host_instant(&self, reading: Nanos) -> Nanos {
        let drifted = |reading: Nanos| {
            let passed = (reading.since(self.since).0 as f64 / (1.0 + self.drift)).round() as u64;
            match reading > self.since {
                true => self.since + Nanos(passed),
                false => reading,
            }
        };
        match self.jump {
            Some((by, at)) => {
                let later = drifted(Nanos(reading.0.saturating_add_signed(by.saturating_neg())));
                if later >= at {
                    later
                } else {
                    drifted(reading).min(at)
                }
            }
            None => drifted(reading),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn a_faulty_clock_shows_the_coordinator_another_time_and_is_told_by_it_when_to_start() {
        let faults = ["clock:rank=1,drift=50ppm,jump=-2ms,after=3s".parse().unwrap()];
        let since = Nanos(9 * SECOND);
        let right = FaultyClock::new(&faults, 0, since);
        assert!(right.is_right());
        assert_eq!(right.reading(Nanos(77)), Nanos(77));
        assert_eq!(right.host_instant(Nanos(77)), Nanos(77));
        let faulty = FaultyClock::new(&faults, 1, since);
        assert!(!faulty.is_right());
        assert_eq!(faulty.reading(Nanos(11 * SECOND)), Nanos(11 * SECOND + 100_000));
        assert_eq!(
            faulty.reading(Nanos(13 * SECOND)),
            Nanos(13 * SECOND + 200_000 - 2_000_000)
        );
        for host in [3, 10, 11, 13, 500] {
            let host = Nanos(host * SECOND);
            let shown = faulty.host_instant(faulty.reading(host));
            assert!(shown.0.abs_diff(host.0) <= 1, "{host:?} {shown:?}");
        }
    }
}
