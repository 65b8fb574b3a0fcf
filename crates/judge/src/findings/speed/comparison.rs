//! One cell against one reference: whether it looks slow, in which rounds, and how improbable that is where nothing is wrong.

use std::num::NonZeroU16;

use crate::findings::held_up;
use crate::findings::iterations::Round;
use crate::findings::start_skew::without_skew;
use crate::findings::summary::{CellSummary, rate_interval};
use record::stats::median_of_sorted;
use record::text;
use record::units::{Bytes, Rate};
use record::{DecisionRule, Interval, Question};

/// One cell against one reference.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::findings) struct Comparison {
    /// The cell's wire rate.
    pub(in crate::findings) measured: Interval<Rate>,
    /// The reference itself.
    pub(in crate::findings) expected: Rate,
    /// What the rate must reach.
    pub(in crate::findings) threshold: Rate,
    /// Where the reference comes from, in words, with its margin.
    pub(in crate::findings) from: Box<str>,
    /// Whether it is an absolute figure, not the peers'.
    pub(in crate::findings) is_spec: bool,
    /// What else is known of it.
    details: Box<Details>,
    /// Rounds measured, and how many of them are below the threshold.
    pub(in crate::findings) rounds: (u16, u16),
    /// P-value corrected for all comparisons of the run.
    pub(in crate::findings) p_value: f64,
    /// How many rounds that are all as slow would settle it; none where no number would.
    pub(super) enough_rounds: Option<NonZeroU16>,
    /// Whether the interval over all rounds is below the threshold.
    pub(super) looks_slow: bool,
    /// Why it may only look slow: its ranks may have started so far apart, or its hosts hold up so many iterations, that nothing else is wrong.
    pub(super) doubt: Option<Box<str>>,
}

/// What few ask of a comparison.
#[derive(Debug, Clone, PartialEq)]
struct Details {
    /// What the cell would have to fall below to look slow, against the strictest of its references.
    noticed: Noticed,
    /// Without its slowest round, without its two slowest and so on: how probable it is that the others are the slow end of what varies.
    without_slowest: Vec<f64>,
}

/// From where on a cell looks slow.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::findings) struct Noticed {
    /// Rates below this look slow.
    pub(in crate::findings) below: Rate,
    /// What healthy measurements reach, by the reference that says so.
    pub(in crate::findings) healthy: Rate,
}

impl Comparison {
    /// How far the threshold is missed: measured over threshold, smaller is worse.
    pub(in crate::findings) fn ratio(&self) -> f64 {
        self.measured.median.0 / self.threshold.0
    }

    /// What the cell would have to fall below to look slow, against the strictest of its references.
    pub(in crate::findings) fn noticed(&self) -> Noticed {
        self.details.noticed
    }

    /// Holds it against that of a stricter reference.
    pub(super) fn notice(&mut self, strictest: Noticed) {
        self.details.noticed = strictest;
    }

    /// The share of what is expected that was measured.
    pub(super) fn reached(&self) -> f64 {
        self.measured.median.0 / self.expected.0
    }

    /// `0.61 GB/s [0.60, 0.62] of 1.02 expected (median of 1 peer rail, margin 25 %)`.
    pub(in crate::findings) fn in_words(&self) -> String {
        let (measured, expected) = (self.measured.to_string(), self.expected.to_string());
        // The unit is not repeated.
        let expected = match expected.split_once(' ') {
            Some((number, unit)) if measured.contains(unit) => number,
            _ => &expected,
        };
        format!("{measured} of {expected} expected ({})", self.from)
    }

    /// The rule that a slow cell broke, with its numbers.
    pub(in crate::findings) fn rule_in_words(&self, rule: &DecisionRule) -> String {
        format!(
            "slow: the median is below {} in each of {} rounds (at least {}), and the corrected probability that healthy \
             measurements are that slow or that disturbed is below {}",
            self.threshold,
            self.rounds.0,
            u32::from(rule.remeasure) + 1,
            rule.budget_of(Question::Cells)
        )
    }

    /// The probability that the hosts of a group make it as slow by what they hold up, if they do it as often as in the pairs of this run.
    pub(super) fn waits_for_hosts(&self, summaries: &[CellSummary<'_>], group: &CellSummary<'_>) -> f64 {
        let (bytes, median) = (group.wire.bytes(), median_of_sorted(&group.times));
        let late = bytes
            .zip(median)
            .map(|(bytes, median)| median - bytes.0 as f64 * 1e9 / self.threshold.0);
        late.map_or(0.0, |late| held_up::makes_slow(summaries, group, late))
    }

    /// The probability that a healthy cell is as slow, if `more` rounds that are as slow as all of it were measured: at the slow end of what varies, or
    /// disturbed in each slow round, or disturbed in some of them and at the slow end in the others. `disturbed` says how probable it is that of so many
    /// rounds so many are.
    pub(super) fn is_chance(&self, more: u16, disturbed: impl Fn((u16, u16)) -> f64) -> f64 {
        let (measured, slow) = self.rounds;
        let of_so_many = |slow: u16| disturbed((measured + more, slow + more));
        let mixed = (1..).zip(&self.details.without_slowest);
        mixed
            .map(|(taken, others)| others * of_so_many(taken))
            .fold(self.p_value.max(of_so_many(slow)), f64::max)
    }

    /// It only may look slow, and why.
    pub(super) fn excuse(&mut self, why: &str) {
        self.looks_slow = false;
        self.p_value = 1.0;
        self.doubt = Some(format!("below {}, but {why}", self.threshold).into());
    }

    pub(super) fn is_confirmed(&self, rule: &DecisionRule) -> bool {
        let (measured, slow) = self.rounds;
        self.looks_slow
            && slow == measured
            && measured > rule.remeasure
            && self.p_value < rule.budget_of(Question::Cells)
    }
}

/// What is expected of a cell.
pub(super) struct Expectation {
    /// The reference itself.
    pub(super) rate: Rate,
    /// What must be reached.
    pub(super) threshold: Rate,
    /// How many peers the reference comes from; none where it is an absolute figure.
    pub(super) peers: Option<usize>,
    /// Where it comes from, in words, with its margin.
    pub(super) from: String,
}

/// A cell whose speed can be judged.
pub(super) struct MeasuredCell<'c, 'r> {
    pub(super) summary: &'c CellSummary<'r>,
    /// What the busiest link carries in one iteration.
    pub(super) bytes: Bytes,
    /// The wire rate.
    pub(super) rate: Interval<Rate>,
    pub(super) rule: &'c DecisionRule,
}

impl MeasuredCell<'_, '_> {
    /// Compares it with what is expected. `of_round` is the threshold of one round, where rounds have one of their own.
    pub(super) fn against(
        &self,
        expectation: Expectation,
        of_round: impl Fn(u16) -> Option<Rate>,
    ) -> Comparison {
        let MeasuredCell {
            summary, bytes, rule, ..
        } = *self;
        let Expectation {
            rate: expected,
            threshold,
            peers,
            from,
        } = expectation;
        let variation = &summary.variation;
        let p_of = |own: Interval<Rate>| {
            let p_of_cell = variation.p_of_rate(&own, expected, peers, rule.confidence);
            // Where all of them miss an absolute figure, none is unusual.
            match peers {
                Some(_) => p_of_cell,
                None => (2.0 * p_of_cell.min(variation.p_of_crowd(&own, threshold))).min(1.0),
            }
        };
        let seen = summary.seen_rate(rule.confidence);
        let below = seen.filter(|seen| seen.median < threshold);
        let is_unusual = below.is_some_and(|seen| variation.is_unusual(p_of(seen)));
        let doubt = start_doubt(summary, bytes, threshold).filter(|_| is_unusual);
        let looks_slow = is_unusual && doubt.is_none();
        let p_value = match doubt {
            None => below
                .and_then(|_| summary.own_rate(rule.confidence))
                .map_or(1.0, p_of),
            Some(_) => 1.0,
        };
        let is_slow_round = |round: &Round| {
            let Some(own) = rate_interval(&round.times, bytes, rule.confidence) else {
                return false;
            };
            match looks_slow {
                // Rounds are compared with their own peers only for suspects: a healthy tournament has thousands of peers.
                true => own.median < of_round(round.number).unwrap_or(threshold),
                false => {
                    let p_value = variation.p_of_rate(&own, expected, peers, rule.confidence);
                    own.median < threshold && variation.is_unusual(p_value)
                }
            }
        };
        let slow_rounds = match looks_slow || summary.rounds.len() > 1 {
            true => summary.rounds.iter().filter(|round| is_slow_round(round)).count(),
            false => 0,
        };
        let of_others = |taken: usize| {
            let times = without_slowest(&summary.rounds, taken);
            rate_interval(&times, bytes, rule.confidence).map_or(1.0, p_of)
        };
        let without_slowest = match looks_slow {
            true => (1..summary.rounds.len()).map(of_others).collect(),
            false => Vec::new(),
        };
        let own = summary.own_rate(rule.confidence).unwrap_or(self.rate);
        let unusual = variation.unusual_below(&own, expected, peers, rule.confidence);
        let count = |rounds: usize| u16::try_from(rounds).unwrap_or(u16::MAX);
        Comparison {
            details: Box::new(Details {
                noticed: Noticed {
                    below: Rate(unusual.0.min(threshold.0)),
                    healthy: variation.healthy(expected, peers.is_none()),
                },
                without_slowest,
            }),
            measured: self.rate,
            expected,
            threshold,
            from: from.into(),
            is_spec: peers.is_none(),
            rounds: (count(summary.rounds.len()), count(slow_rounds)),
            p_value,
            enough_rounds: None,
            looks_slow,
            doubt,
        }
    }
}

/// The times of all rounds but so many of the slowest, ascending.
fn without_slowest(rounds: &[Round], taken: usize) -> Vec<u64> {
    let mut rounds: Vec<&Round> = rounds.iter().collect();
    let slowness = |round: &&Round| median_of_sorted(&round.times).unwrap_or(f64::INFINITY);
    rounds.sort_by(|a, b| slowness(b).total_cmp(&slowness(a)));
    let mut times: Vec<u64> = rounds
        .iter()
        .skip(taken)
        .flat_map(|round| round.times.iter().copied())
        .collect();
    times.sort_unstable();
    times
}

/// What is less than this share of a time is no reason to doubt it: a cell so close to its threshold is measured again like any other.
const LEAST_SKEW: f64 = 0.01;

/// Why a cell below `threshold` may only look slow: without what is not known of its ranks' starts, its time would do.
fn start_doubt(summary: &CellSummary<'_>, bytes: Bytes, threshold: Rate) -> Option<Box<str>> {
    let (skew, median) = (summary.unseen_skew, median_of_sorted(&summary.times)?);
    let would_reach = Rate(bytes.0 as f64 * 1e9 / without_skew(median, skew));
    if (skew.0 as f64) < LEAST_SKEW * median || would_reach < threshold {
        return None;
    }
    let why = format!(
        "below {threshold}, but its ranks may have started {skew} apart ({} of its time): their clocks are not known better, \
         and that alone explains it",
        text::percent(skew.0 as f64 / median)
    );
    Some(why.into())
}
