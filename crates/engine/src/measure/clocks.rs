//! The clocks of all ranks, as the coordinator knows them: which ranks share one, what each is known to be, and when it
//! must be compared again (docs/method.md, "Clocks").
//!
//! Processes of one kernel and time namespace read the same clock. Such ranks share an estimate, those with the coordinator's
//! clock need none, and one comparison per host is enough. A rank that says so but contradicts it gets a clock of its own.

use std::time::Duration;

use crate::launch::clock::{Comparison, Offset};
use crate::launch::clock_estimate::ClockEstimate;
use record::units::Nanos;
use record::{ClockComparison, ClockRecord};

/// Comparing clocks takes at most this share of the run's time, and [`AT_FIRST`]; only a clock whose drift is not known at all is compared in any
/// case.
const SHARE: f64 = 0.01;
/// At first, drifts are hardly known and clocks must be compared often.
const AT_FIRST: Duration = Duration::from_millis(250);
/// The clock of the coordinator itself.
const OURS: Offset = Offset {
    nanos: 0,
    uncertainty: 0,
};

/// The clocks of all ranks.
#[derive(Debug, Default)]
pub(super) struct Clocks {
    known: Vec<KnownClock>,
    /// By rank.
    ranks: Vec<RankClock>,
    /// When the first one was compared.
    since: Option<Nanos>,
    /// Time spent on comparing again.
    spent: Duration,
    /// Comparisons that are not written yet.
    unwritten: Vec<ClockComparison>,
}

/// A clock that is not the coordinator's.
#[derive(Debug)]
struct KnownClock {
    /// As its ranks call it.
    name: Option<String>,
    estimate: ClockEstimate,
}

/// Which clock a rank has, and how far away it is.
#[derive(Debug, Clone, Copy)]
struct RankClock {
    /// None for the coordinator's.
    clock: Option<usize>,
    /// Half the shortest round trip.
    half_trip: u64,
}

impl Clocks {
    /// Sets the clock of `rank` after its first comparison, or the first since it has rejoined. `name` is what its host calls it,
    /// `ours` what the coordinator's host calls the coordinator's.
    pub fn set(&mut self, rank: u32, name: Option<&str>, ours: Option<&str>, comparison: Comparison) {
        self.since.get_or_insert(comparison.at);
        let clock = RankClock {
            clock: self.clock_named(name, ours, comparison),
            half_trip: comparison.offset.uncertainty,
        };
        let place = rank as usize;
        match self.ranks.get_mut(place) {
            Some(known) => *known = clock,
            None => self.ranks.push(clock),
        }
    }

    /// The clock of that name, if the comparison agrees with what is known of it; else a new one.
    fn clock_named(
        &mut self,
        name: Option<&str>,
        ours: Option<&str>,
        comparison: Comparison,
    ) -> Option<usize> {
        let is_close = comparison.offset.nanos.unsigned_abs() <= comparison.offset.uncertainty;
        if name.is_some() && name == ours && is_close {
            return None;
        }
        let named = self
            .known
            .iter()
            .position(|known| known.name.is_some() && known.name.as_deref() == name);
        if let Some(place) = named {
            let mut with_this = self.known[place].estimate.clone();
            if with_this.add(comparison).is_none() {
                self.known[place].estimate = with_this;
                return Some(place);
            }
        }
        self.known.push(KnownClock {
            name: name.filter(|_| named.is_none()).map(str::to_string),
            estimate: ClockEstimate::new(comparison),
        });
        Some(self.known.len() - 1)
    }

    /// The offset of a rank's clock at the coordinator's instant `at`.
    pub fn offset(&self, rank: u32, at: Nanos) -> Offset {
        self.estimate(rank).map_or(OURS, |estimate| estimate.at(at))
    }

    /// Half the shortest round trip to a rank.
    pub fn half_trip(&self, rank: u32) -> u64 {
        self.ranks.get(rank as usize).map_or(0, |known| known.half_trip)
    }

    /// By how much `ranks` may start further apart at `at` than the coordinator can see: what is not known of their clocks.
    pub fn unseen_skew(&self, ranks: &[u32], at: Nanos) -> Nanos {
        let clock_of = |rank: &u32| self.ranks.get(*rank as usize).and_then(|known| known.clock);
        let mut clocks: Vec<usize> = ranks.iter().filter_map(clock_of).collect();
        let all_have_ours = clocks.len() < ranks.len();
        clocks.sort_unstable();
        clocks.dedup();
        if clocks.len() + usize::from(all_have_ours) < 2 {
            // One clock for all of them: they start at the same reading of it.
            return Nanos(0);
        }
        let mut unknown: Vec<u64> = clocks
            .iter()
            .map(|clock| self.known[*clock].estimate.at(at).uncertainty)
            .collect();
        unknown.sort_unstable_by_key(|uncertainty| std::cmp::Reverse(*uncertainty));
        Nanos(
            unknown
                .iter()
                .take(2)
                .fold(0, |sum, next| sum.saturating_add(*next)),
        )
    }

    /// The ranks among `ranks` to compare with at `now`, one per clock, least known first: all clocks for which `is_wanted`, as far as the time
    /// for comparing allows.
    pub fn due(&self, ranks: &[u32], now: Nanos, is_wanted: impl Fn(&ClockEstimate) -> bool) -> Vec<u32> {
        let mut seen = vec![false; self.known.len()];
        let mut due: Vec<(u64, u32)> = Vec::new();
        for &rank in ranks {
            let Some(clock) = self.ranks.get(rank as usize).and_then(|known| known.clock) else {
                continue;
            };
            let estimate = &self.known[clock].estimate;
            if std::mem::replace(&mut seen[clock], true) || !is_wanted(estimate) {
                continue;
            }
            due.push((estimate.at(now).uncertainty, rank));
        }
        due.sort_unstable_by_key(|(uncertainty, rank)| (std::cmp::Reverse(*uncertainty), *rank));
        due.into_iter().map(|(_, rank)| rank).collect()
    }

    /// Whether there is time to compare the clock of `rank` again.
    pub fn may_compare(&self, rank: u32, now: Nanos) -> bool {
        let is_new = self.estimate(rank).is_some_and(ClockEstimate::is_new);
        let passed = self.since.map_or(0, |since| now.since(since).0);
        is_new || self.spent <= AT_FIRST + Duration::from_nanos(passed).mul_f64(SHARE)
    }

    /// Adds a comparison with the clock of `rank` that took so long. Returns by how much the clock jumped, if it did.
    pub fn add(&mut self, rank: u32, comparison: Comparison, took: Duration) -> Option<i64> {
        self.spent += took;
        let known = self.ranks.get_mut(rank as usize)?;
        known.half_trip = known.half_trip.min(comparison.offset.uncertainty);
        let clock = known.clock?;
        let estimate = &mut self.known[clock].estimate;
        let jump = estimate.add(comparison);
        let parts_per_billion = |ratio: f64| (ratio * 1e9).round() as i64;
        let (drift, uncertainty) = estimate.drift();
        let ranks = (0..)
            .zip(&self.ranks)
            .filter(|(_, known)| known.clock == Some(clock));
        self.unwritten.push(ClockComparison {
            ranks: ranks.map(|(rank, _)| rank).collect(),
            at_ns: comparison.at,
            offset_ns: comparison.offset.nanos,
            uncertainty_ns: comparison.offset.uncertainty,
            took_ns: took.into(),
            drift_ppb: parts_per_billion(drift),
            drift_uncertainty_ppb: parts_per_billion(uncertainty).unsigned_abs(),
            jump_ns: jump,
        });
        jump
    }

    /// Whether two ranks have the same clock.
    pub fn is_shared(&self, rank: u32, other: u32) -> bool {
        let clock = |rank: u32| self.ranks.get(rank as usize).map(|known| known.clock);
        clock(rank) == clock(other)
    }

    /// The comparisons since the last call.
    pub fn take_unwritten(&mut self) -> Vec<ClockComparison> {
        std::mem::take(&mut self.unwritten)
    }

    /// Offset and uncertainty of every rank's clock at `at`.
    pub fn records(&self, at: Nanos) -> Vec<ClockRecord> {
        let ranks = 0..self.ranks.len() as u32;
        let record = |rank: u32| {
            let offset = self.offset(rank, at);
            ClockRecord {
                rank,
                offset_ns: offset.nanos,
                uncertainty_ns: offset.uncertainty,
            }
        };
        ranks.map(record).collect()
    }

    fn estimate(&self, rank: u32) -> Option<&ClockEstimate> {
        let clock = self.ranks.get(rank as usize)?.clock?;
        Some(&self.known[clock].estimate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn compared(at: u64, nanos: i64) -> Comparison {
        Comparison {
            at: Nanos(at),
            offset: Offset {
                nanos,
                uncertainty: 20_000,
            },
        }
    }

    /// Ranks 0 and 1 with the coordinator, 2 and 3 on another host, 4 on a third.
    fn three_hosts() -> Clocks {
        let mut clocks = Clocks::default();
        let (here, there) = (Some("boot1"), Some("boot2"));
        clocks.set(0, here, here, compared(0, 3_000));
        clocks.set(1, here, here, compared(100_000, -5_000));
        clocks.set(2, there, here, compared(200_000, 7_000_000));
        clocks.set(3, there, here, compared(300_000, 7_010_000));
        clocks.set(4, None, here, compared(400_000, -9_000_000));
        clocks
    }

    #[test]
    fn ranks_of_one_host_share_a_clock_and_start_at_the_same_reading_of_it() {
        let clocks = three_hosts();
        let at = Nanos(500_000);
        assert_eq!(clocks.offset(0, at), OURS);
        assert_eq!(clocks.unseen_skew(&[0, 1], at), Nanos(0));
        assert_eq!(clocks.offset(2, at), clocks.offset(3, at));
        assert_eq!(clocks.unseen_skew(&[2, 3], at), Nanos(0));
        let uncertainty = |rank: u32| clocks.offset(rank, at).uncertainty;
        assert!(uncertainty(2) < 20_000, "two comparisons say more than one");
        assert_eq!(clocks.unseen_skew(&[0, 2], at), Nanos(uncertainty(2)));
        let all = clocks.unseen_skew(&[0, 1, 2, 3, 4], at);
        assert_eq!(all, Nanos(uncertainty(2) + uncertainty(4)));
        assert_eq!(clocks.half_trip(0), 20_000, "orders still take their time");
    }

    #[test]
    fn a_rank_whose_clock_is_not_what_its_host_says_has_its_own() {
        let mut clocks = three_hosts();
        let here = Some("boot1");
        clocks.set(5, here, here, compared(500_000, 4_000_000));
        clocks.set(6, Some("boot2"), here, compared(600_000, 90_000_000));
        let at = Nanos(700_000);
        assert!(clocks.offset(5, at).nanos.abs_diff(4_000_000) < 20_000);
        assert!(clocks.offset(6, at).nanos.abs_diff(90_000_000) < 20_000);
        assert!(clocks.offset(2, at).nanos.abs_diff(7_005_000) < 20_000);
        clocks.set(5, here, here, compared(800_000, 0));
        assert_eq!(clocks.offset(5, at), OURS, "it has rejoined with the right one");
    }

    #[test]
    fn one_rank_per_clock_is_compared_and_comparing_takes_a_small_share_of_the_run() {
        let mut clocks = three_hosts();
        let everyone = [0, 1, 2, 3, 4];
        let at = |now: u64| Nanos(now);
        let is_due = |now: Nanos| move |estimate: &ClockEstimate| estimate.is_due(now);
        assert!(
            clocks
                .due(&everyone, at(SECOND / 100), is_due(at(SECOND / 100)))
                .is_empty()
        );
        let later = at(SECOND);
        assert_eq!(
            clocks.due(&everyone, later, is_due(later)),
            [4, 2],
            "least known first"
        );
        assert_eq!(
            clocks.due(&[0, 1, 3], later, is_due(later)),
            [3],
            "only those asked for"
        );
        let took = Duration::from_millis(140);
        for rank in [4, 2] {
            assert!(clocks.may_compare(rank, later), "its drift is not known");
            let offset = if rank == 4 { -9_000_000 } else { 7_000_000 };
            assert_eq!(clocks.add(rank, compared(SECOND, offset), took), None);
        }
        assert!(
            !clocks.may_compare(2, at(2 * SECOND)),
            "280 ms, and 270 ms are allowed"
        );
        assert!(clocks.may_compare(2, at(4 * SECOND)));
        let jump = clocks.add(2, compared(4 * SECOND, 8_000_000), took);
        assert!(
            jump.is_some_and(|jump| jump.abs_diff(1_000_000) < 50_000),
            "{jump:?}"
        );
        let written = clocks.take_unwritten();
        let ranks: Vec<&[u32]> = written
            .iter()
            .map(|comparison| comparison.ranks.as_slice())
            .collect();
        assert_eq!(ranks, [&[4][..], &[2, 3], &[2, 3]]);
        assert_eq!(written[2].jump_ns, jump);
        assert!(clocks.take_unwritten().is_empty());
    }
}
