//! The result of a trial, from those of its two ends.

use serde::{Deserialize, Serialize};

use crate::transport::verbs::stream::{CheckResult, Operation, SendResult, Trial, TrialKind};
use record::stats::spread;
use record::units::{Bytes, Nanos, Rate};

/// One row of the table.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LinkRow {
    /// Rail by name.
    pub rail: String,
    /// Rank that sends, or measures the latency.
    pub from: u32,
    /// The other.
    pub to: u32,
    /// What moved the data.
    pub operation: Operation,
    /// What was measured.
    pub question: TrialKind,
    /// Bytes of a message.
    pub size: Bytes,
    /// Queue pairs.
    pub queue_pairs: u16,
    /// Messages that were timed, over all queue pairs and directions.
    pub iterations: u64,
    /// Bandwidth, where it was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bandwidth: Option<Bandwidth>,
    /// Latency, where it was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency: Option<LatencySummary>,
    /// Messages whose data was checked.
    pub checked_messages: u64,
    /// Bytes of them that were wrong.
    pub wrong_bytes: u64,
    /// The first of those, as text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_wrong: Option<String>,
}

/// Bandwidth, both directions together where there are two.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Bandwidth {
    /// Over the fastest stretch.
    pub peak: Rate,
    /// From the first request to the last completion.
    pub average: Rate,
    /// Messages per second.
    pub messages_per_s: f64,
}

/// Latency of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LatencySummary {
    /// Messages that were timed.
    pub count: u64,
    /// Shortest.
    pub min: Nanos,
    /// Longest.
    pub max: Nanos,
    /// Median.
    pub typical: Nanos,
    /// Mean.
    pub average: Nanos,
    /// Standard deviation.
    pub deviation: Nanos,
    /// 99th percentile.
    pub p99: Nanos,
    /// 99.9th percentile.
    pub p999: Nanos,
}

/// The result of a trial at one end.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(in super::super) struct TrialResult {
    /// What it sent or read.
    pub sent: Option<SendResult>,
    /// How long messages took.
    pub latency: Option<LatencySummary>,
    /// Whether what arrived was right.
    pub checked: Option<CheckResult>,
}

impl LatencySummary {
    /// Of every sample in nanoseconds; none without any.
    pub fn of(samples: &[u64]) -> Option<LatencySummary> {
        let spread = spread(samples)?;
        let count = samples.len() as f64;
        let average = samples.iter().map(|sample| *sample as f64).sum::<f64>() / count;
        let squares = samples.iter().map(|sample| (*sample as f64 - average).powi(2));
        let deviation = (squares.sum::<f64>() / count).sqrt();
        Some(LatencySummary {
            count: samples.len() as u64,
            min: Nanos(spread.min),
            max: Nanos(spread.max),
            typical: Nanos(spread.p50),
            average: Nanos(average.round() as u64),
            deviation: Nanos(deviation.round() as u64),
            p99: Nanos(spread.p99),
            p999: Nanos(spread.p999),
        })
    }
}

impl LinkRow {
    /// Of a trial between two ranks, from the results of both.
    pub(super) fn of(
        trial: &Trial,
        rail: &str,
        ranks: (u32, u32),
        queue_pairs: u16,
        results: &[TrialResult],
    ) -> LinkRow {
        let sent = || results.iter().filter_map(|result| result.sent);
        let size = trial.size.0 as f64;
        let rates = sent().filter_map(|sent| {
            let seconds = sent.took.as_secs_f64();
            (seconds > 0.0).then(|| {
                (
                    sent.peak.max(sent.messages as f64 / seconds),
                    sent.messages as f64 / seconds,
                )
            })
        });
        let (peak, average) = rates.fold((0.0, 0.0), |sum, rate| (sum.0 + rate.0, sum.1 + rate.1));
        let latency = results.iter().find_map(|result| result.latency);
        let checked = results.iter().filter_map(|result| result.checked.clone());
        let checked = checked.fold(CheckResult::default(), CheckResult::and);
        LinkRow {
            rail: rail.to_string(),
            from: ranks.0,
            to: ranks.1,
            operation: trial.operation,
            question: trial.question,
            size: trial.size,
            queue_pairs,
            iterations: sent().map(|sent| sent.messages).sum::<u64>()
                + latency.map_or(0, |latency| latency.count),
            bandwidth: sent().next().map(|_| Bandwidth {
                peak: Rate(peak * size),
                average: Rate(average * size),
                messages_per_s: average,
            }),
            latency,
            checked_messages: checked.messages,
            wrong_bytes: checked.wrong,
            first_wrong: checked.first,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::verbs::stream::{Check, Extent};

    fn trial(question: TrialKind) -> Trial {
        Trial {
            operation: Operation::Write,
            question,
            size: Bytes(1000),
            extent: Extent::Iterations(10),
            check: Check::Last,
            seed: 1,
        }
    }

    fn sent(messages: u64, seconds: u64, peak: f64) -> TrialResult {
        TrialResult {
            sent: Some(SendResult {
                messages,
                took: Nanos::from_secs(seconds),
                peak,
            }),
            ..TrialResult::default()
        }
    }

    #[test]
    fn both_directions_add_up_and_wrong_bytes_of_either_end_count() {
        let wrong = TrialResult {
            checked: Some(CheckResult {
                messages: 4,
                wrong: 3,
                first: Some("byte 7".to_string()),
            }),
            ..sent(10, 2, 8.0)
        };
        let results = [sent(10, 1, 12.0), wrong];
        let row = LinkRow::of(&trial(TrialKind::Bidirectional), "rail0", (0, 1), 1, &results);
        let bandwidth = row.bandwidth.unwrap();
        assert_eq!(bandwidth.average, Rate(15_000.0));
        assert_eq!(bandwidth.peak, Rate(20_000.0));
        assert_eq!(bandwidth.messages_per_s, 15.0);
        assert_eq!((row.iterations, row.wrong_bytes), (20, 3));
        assert_eq!(row.first_wrong.as_deref(), Some("byte 7"));
    }

    #[test]
    fn a_peak_is_never_below_the_average() {
        let row = LinkRow::of(
            &trial(TrialKind::Bandwidth),
            "rail0",
            (0, 1),
            1,
            &[sent(10, 1, 0.0)],
        );
        assert_eq!(row.bandwidth.unwrap().peak, Rate(10_000.0));
    }

    #[test]
    fn latency_is_computed_from_every_sample() {
        let samples: Vec<u64> = (1..=1000).map(|number| number * 1000).collect();
        let latency = LatencySummary::of(&samples).unwrap();
        assert_eq!((latency.min, latency.max), (Nanos(1000), Nanos(1_000_000)));
        assert_eq!(latency.average, Nanos(500_500));
        let near = |found: Nanos, wanted: f64| (found.0 as f64 / wanted - 1.0).abs() < 0.002;
        assert!(near(latency.typical, 500_000.0) && near(latency.p99, 990_000.0));
        assert!(near(latency.p999, 999_000.0) && near(latency.deviation, 288_675.0));
        assert_eq!(LatencySummary::of(&[]), None);
    }
}
