//! The peak rate, from the times at which requests were posted and completed.
//!
//! As in perftest: the highest rate over any interval from a post to a completion. The marks are thinned out as they grow in
//! number, so that a long run takes no more memory and time than a short one.

use record::units::Nanos;

/// Marks of each kind that are kept.
const MOST: usize = 2048;

/// So many messages had been posted, or completed, at this time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Mark {
    messages: u64,
    at: Nanos,
}

/// Marks of one kind.
#[derive(Debug, Default)]
struct MarkList {
    peak_rate: Vec<Mark>,
    /// Of the marks offered, one of two to the power of this is kept.
    thinning: u32,
    offered: u64,
}

impl MarkList {
    fn note(&mut self, messages: u64, at: Nanos) {
        let is_kept = self.offered.trailing_zeros() >= self.thinning || self.offered == 0;
        self.offered += 1;
        if !is_kept {
            return;
        }
        self.peak_rate.push(Mark { messages, at });
        if self.peak_rate.len() >= MOST {
            let mut number = 0;
            self.peak_rate.retain(|_| {
                number += 1;
                number % 2 == 1
            });
            self.thinning += 1;
        }
    }
}

/// When messages were posted and completed.
#[derive(Debug, Default)]
pub struct PeakRate {
    posted: MarkList,
    completed: MarkList,
}

impl PeakRate {
    /// From now on message number `messages` (from 0) and those behind it are posted.
    pub fn posting(&mut self, messages: u64, at: Nanos) {
        self.posted.note(messages, at);
    }

    /// So many messages have completed.
    pub fn completed(&mut self, messages: u64, at: Nanos) {
        self.completed.note(messages, at);
    }

    /// Messages per second over the fastest interval.
    pub fn peak(&self) -> Option<f64> {
        let mut best = None;
        for end in &self.completed.peak_rate {
            for start in &self.posted.peak_rate {
                if start.messages >= end.messages || start.at >= end.at {
                    break;
                }
                let rate = (end.messages - start.messages) as f64 / end.at.since(start.at).as_secs_f64();
                best = Some(best.map_or(rate, |best: f64| best.max(rate)));
            }
        }
        best
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_is_the_fastest_stretch_and_not_the_average() {
        let mut peak_rate = PeakRate::default();
        // Ten messages in ten seconds, but four of them within one.
        for (message, second) in [(0u64, 0u64), (1, 3), (2, 5), (3, 5), (4, 5), (5, 5)] {
            peak_rate.posting(message, Nanos::from_secs(second));
        }
        for (messages, second) in [(1u64, 2u64), (2, 4), (6, 6), (10, 10)] {
            peak_rate.completed(messages, Nanos::from_secs(second));
        }
        assert_eq!(peak_rate.peak(), Some(4.0));
    }

    #[test]
    fn without_a_completion_there_is_no_peak() {
        let mut peak_rate = PeakRate::default();
        peak_rate.posting(0, Nanos(0));
        assert_eq!(peak_rate.peak(), None);
    }

    #[test]
    fn a_long_run_keeps_few_marks_and_its_rate() {
        let mut peak_rate = PeakRate::default();
        for message in 0..1_000_000u64 {
            peak_rate.posting(message, Nanos(message * 1000));
            peak_rate.completed(message + 1, Nanos(message * 1000 + 1000));
        }
        assert!(peak_rate.posted.peak_rate.len() < MOST && peak_rate.completed.peak_rate.len() < MOST);
        let peak = peak_rate.peak().unwrap();
        assert!((peak / 1e6 - 1.0).abs() < 0.01, "{peak}");
    }
}
