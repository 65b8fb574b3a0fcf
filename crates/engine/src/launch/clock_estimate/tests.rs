//! Simulated clocks that drift and wander, compared over round trips with delays of any asymmetry.

use proptest::prelude::*;

use super::*;
use crate::launch::clock::RoundTrip;

const SECOND: u64 = 1_000_000_000;

/// A clock as it really is.
#[derive(Debug, Clone, Copy)]
struct TrueClock {
    offset: i64,
    /// As a ratio.
    drift: f64,
    /// The drift changes by this per nanosecond.
    wander: f64,
}

impl TrueClock {
    fn steady(offset: i64, drift: f64) -> TrueClock {
        TrueClock {
            offset,
            drift,
            wander: 0.0,
        }
    }

    fn reading(&self, ours: u64) -> Nanos {
        let passed = ours as f64;
        let run_ahead = self.drift * passed + self.wander * passed * passed / 2.0;
        Nanos(ours.strict_add_signed(self.offset + run_ahead.round() as i64))
    }

    /// A round trip that leaves at `sent` and takes so long to get there and back.
    fn compared(&self, sent: u64, there: u64, back: u64) -> Comparison {
        let trip = RoundTrip {
            sent: Nanos(sent),
            remote: self.reading(sent + there),
            received: Nanos(sent + there + back),
        };
        Comparison::from_round_trips(&[trip]).unwrap()
    }

    /// How far an estimate is off at `ours`, less what it says it may be off.
    fn excess(&self, estimate: &ClockEstimate, ours: u64) -> i64 {
        let offset = estimate.at(Nanos(ours));
        let error = offset.to_remote(Nanos(ours)).0.abs_diff(self.reading(ours).0);
        error as i64 - offset.uncertainty as i64
    }
}

/// Pauses before comparisons in milliseconds, and delays there and back in nanoseconds.
fn comparisons() -> impl Strategy<Value = Vec<(u64, u64, u64)>> {
    prop::collection::vec((1..60_000u64, 1_000..200_000u64, 1_000..200_000u64), 1..40)
}

proptest! {
    #[test]
    fn no_instant_is_further_off_than_the_estimate_says(
        offset in 0..1_000_000 * SECOND as i64,
        drift in -100e-6..100e-6f64,
        wander in -WANDER..WANDER,
        comparisons in comparisons(),
        later in 0..600 * SECOND,
    ) {
        // A drift that wanders stays what a drift may be.
        let length: u64 = comparisons.iter().map(|(pause, ..)| pause * 1_000_000).sum::<u64>() + later;
        let wander = wander.clamp(-90e-6 / length as f64, 90e-6 / length as f64);
        let clock = TrueClock { offset, drift, wander };
        let mut now = 0;
        let mut estimate: Option<ClockEstimate> = None;
        for (pause, there, back) in comparisons {
            now += pause * 1_000_000;
            let next = clock.compared(now, there, back);
            match &mut estimate {
                None => estimate = Some(ClockEstimate::new(next)),
                Some(estimate) => {
                    prop_assert!(clock.excess(estimate, now) <= 0);
                    prop_assert_eq!(estimate.add(next), None, "no clock was set");
                }
            }
            now += there + back;
        }
        let estimate = estimate.unwrap();
        prop_assert!(clock.excess(&estimate, now) <= 0);
        prop_assert!(clock.excess(&estimate, now + later) <= 0);
        let (drift_now, uncertainty) = (drift + wander * now as f64, estimate.drift().1);
        prop_assert!((estimate.drift().0 - drift_now).abs() <= uncertainty + WANDER * 1e6);
    }

    #[test]
    fn a_clock_that_is_set_is_noticed_and_known_again_at_once(
        drift in -100e-6..100e-6f64,
        before in comparisons(),
        by in prop_oneof![-(SECOND as i64 * 3600)..-1, 1..SECOND as i64 * 3600],
        (there, back) in (1_000..200_000u64, 1_000..200_000u64),
        pause in 1..60 * SECOND,
    ) {
        let clock = TrueClock::steady(7200 * SECOND as i64, drift);
        let mut now = 0;
        let mut estimate: Option<ClockEstimate> = None;
        for (pause, there, back) in before {
            now += pause * 1_000_000;
            let next = clock.compared(now, there, back);
            match &mut estimate {
                None => estimate = Some(ClockEstimate::new(next)),
                Some(estimate) => prop_assert_eq!(estimate.add(next), None),
            }
            now += there + back;
        }
        let mut estimate = estimate.unwrap();
        now += pause;
        let set = TrueClock { offset: clock.offset + by, ..clock };
        let next = set.compared(now, there, back);
        let known_to = estimate.at(next.at).uncertainty + next.offset.uncertainty + 100;
        let noticed = estimate.add(next);
        if by.unsigned_abs() > 2 * known_to {
            let jump = noticed.expect("nothing else explains it");
            prop_assert!(jump.abs_diff(by) <= known_to, "set by {by}, noticed {jump}");
        }
        if noticed.is_some() {
            prop_assert!(estimate.is_new());
            prop_assert!(set.excess(&estimate, now + there + back + SECOND) <= 0);
        }
    }
}

/// A nightly of 14 minutes with a comparison whenever one is due, at most every 50 ms.
fn night(clock: TrueClock) -> (ClockEstimate, u32, u64) {
    let (there, back) = (18_000, 22_000);
    let mut estimate = ClockEstimate::new(clock.compared(0, there, back));
    let (mut comparisons, mut worst) = (1, 0);
    for tick in 1..14 * 60 * 20 {
        let now = tick * (SECOND / 20);
        if estimate.is_due(Nanos(now)) {
            assert_eq!(estimate.add(clock.compared(now, there, back)), None);
            comparisons += 1;
        }
        assert!(clock.excess(&estimate, now + 1_000_000) <= 0);
        if now > 10 * SECOND {
            worst = worst.max(estimate.at(Nanos(now + 1_000_000)).uncertainty);
        }
    }
    (estimate, comparisons, worst)
}

#[test]
fn a_drift_costs_a_nightly_few_comparisons_and_no_start_skew() {
    let drifting = TrueClock::steady(12_345_678_901_234, 0.2e-6);
    let first_only = ClockEstimate::new(drifting.compared(0, 18_000, 22_000));
    let end = 14 * 60 * SECOND;
    let forgotten = first_only.last().offset.to_remote(Nanos(end));
    assert!(
        drifting.reading(end).0.abs_diff(forgotten.0) > 160_000,
        "12 % of 64 MiB at 400 Gbit/s"
    );
    for drift in [0.2e-6, -40e-6, 100e-6] {
        let (estimate, comparisons, worst) = night(TrueClock::steady(12_345_678_901_234, drift));
        assert!(
            worst < 32_000,
            "{drift}: known to {worst} ns, where a comparison gives 20000 ns"
        );
        assert!(comparisons < 150, "{drift}: {comparisons} comparisons");
        let (known, uncertainty) = estimate.drift();
        assert!(
            (known - drift).abs() <= uncertainty && uncertainty < 1e-6,
            "{known} +- {uncertainty}"
        );
    }
}

#[test]
fn a_drift_that_changes_faster_than_quartz_does_is_noticed() {
    let (mut estimate, ..) = night(TrueClock::steady(0, 5e-6));
    let last = estimate.compared_at().0;
    // Slewed by 50 ppm from here on.
    let ahead = (5e-6 * last as f64 - 55e-6 * last as f64) as i64;
    let slewed = TrueClock::steady(ahead, 55e-6);
    let jump = estimate.add(slewed.compared(last + 30 * SECOND, 18_000, 22_000));
    assert!((1_450_000..1_550_000).contains(&jump.unwrap()), "{jump:?}");
}

#[test]
fn readings_without_sense_are_no_panic() {
    for remote in [0, u64::MAX, 1 << 63, (1 << 63) - 1] {
        let trip = |sent: u64, remote: u64| RoundTrip {
            sent: Nanos(sent),
            remote: Nanos(remote),
            received: Nanos(sent + 10),
        };
        let mut estimate = ClockEstimate::new(Comparison::from_round_trips(&[trip(100, remote)]).unwrap());
        estimate.add(Comparison::from_round_trips(&[trip(200, !remote)]).unwrap());
        estimate.add(Comparison::from_round_trips(&[trip(200, remote)]).unwrap());
        estimate.at(Nanos(u64::MAX)).to_ours(Nanos(remote));
    }
}
