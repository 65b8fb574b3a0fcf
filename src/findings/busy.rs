//! Who keeps the others waiting: how long each rank is busy itself, apart from waiting for a peer or the wire.
//!
//! A rank is a straggler when, in most of the cells where its own work matters (a tenth of the cell's time or more), the
//! interval of its busy time lies above `straggler_factor` times the median of the other ranks' busy times, and a sign
//! test over all those iterations, corrected for the number of ranks, agrees. Only cells that give every rank the same
//! work are judged (a tree's inner ranks have more to do than its leaves), and only ranks of hosts with a core for each
//! of their ranks: others take turns, and who is slow there is chance.

use std::collections::{BTreeMap, HashMap};

use super::summary::{CellSummary, Iterations};
use crate::record::{Algorithm, Cell, Collective, DecisionRule, Recorded, Untested};
use crate::stats::{MedianInterval, holm, interval_of_sorted, median_of_sorted, sign_test};

/// The share of a cell's time from which a rank's own work matters.
const MATTERS: f64 = 0.1;

/// How long one rank of a cell was busy, beside the others.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Busy {
    /// World rank.
    pub(super) rank: u32,
    /// The interval of its median busy time.
    pub(super) own: MedianInterval,
    /// The median of the other ranks' medians.
    pub(super) others: f64,
    /// Iterations in which it was busy longer than the factor times the others' median.
    above: u64,
    /// Iterations looked at.
    of: u64,
}

impl Busy {
    /// How much longer than the others it was busy.
    pub(super) fn excess(&self) -> f64 {
        self.own.median - self.others
    }
}

/// A rank that keeps the others waiting.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Straggling {
    /// World rank.
    pub(super) rank: u32,
    /// Positions of the cells in which it does.
    pub(super) cells: Vec<usize>,
    /// In how many cells it was judged.
    pub(super) judged: usize,
    /// The cell in which it is worst.
    pub(super) worst: usize,
    /// Its busy time there.
    pub(super) busy: Busy,
    /// Chance of data like this from a rank like the others, corrected.
    pub(super) p_value: f64,
    /// Ranks judged.
    pub(super) comparisons: u32,
}

/// Busy times per rank of one cell; empty when they cannot be compared.
pub(super) fn busy_of(iterations: &Iterations, rule: &DecisionRule) -> Vec<Busy> {
    let ranks = iterations.ranks.len();
    if ranks < 2 {
        return Vec::new();
    }
    let mut busy: Vec<Vec<u64>> = vec![Vec::new(); ranks];
    let mut above = vec![0u64; ranks];
    let mut sorted = Vec::with_capacity(ranks);
    for samples in iterations.iter() {
        sorted.clear();
        sorted.extend(
            samples
                .iter()
                .map(|sample| sample.ns.saturating_sub(sample.wait_ns)),
        );
        for (rank, own) in sorted.iter().enumerate() {
            busy[rank].push(*own);
        }
        sorted.sort_unstable();
        for (rank, times) in busy.iter().enumerate() {
            let own = times.last().copied().unwrap_or(0);
            above[rank] += u64::from(own as f64 > rule.straggler_factor * median_without(&sorted, own));
        }
    }
    busy.iter_mut().for_each(|times| times.sort_unstable());
    let intervals: Option<Vec<MedianInterval>> = busy
        .iter()
        .map(|times| interval_of_sorted(times, rule.confidence))
        .collect();
    let Some(intervals) = intervals else {
        return Vec::new();
    };
    let mut medians: Vec<u64> = intervals.iter().map(|interval| interval.median as u64).collect();
    medians.sort_unstable();
    let summary = |place: usize| Busy {
        rank: iterations.ranks[place],
        own: intervals[place],
        others: median_without(&medians, intervals[place].median as u64),
        above: above[place],
        of: busy[place].len() as u64,
    };
    (0..ranks).map(summary).collect()
}

/// The median of ascending values, one occurrence of `value` left out.
fn median_without(sorted: &[u64], value: u64) -> f64 {
    let skipped = sorted.partition_point(|other| *other < value);
    let at = |position: usize| {
        sorted[if position < skipped {
            position
        } else {
            position + 1
        }] as f64
    };
    match sorted.len() - 1 {
        0 => 0.0,
        left if left % 2 == 1 => at(left / 2),
        left => (at(left / 2 - 1) + at(left / 2)) / 2.0,
    }
}

/// Whether the schedule gives every rank the same work.
fn is_even(cell: &Cell) -> bool {
    match cell.algorithm {
        Algorithm::Ring => true,
        Algorithm::Direct => cell.collective != Collective::PointToPoint,
        Algorithm::Tree | Algorithm::DoubleTree => false,
    }
}

/// Ranks that keep the others waiting, and what could not be judged.
pub(super) fn stragglers(
    recorded: &Recorded,
    summaries: &[CellSummary<'_>],
) -> (Vec<Straggling>, Vec<Untested>) {
    let (crowded, mut unjudged) = crowded_hosts(recorded);
    let host_of: HashMap<u32, &str> = recorded
        .run
        .ranks
        .iter()
        .map(|rank| (rank.rank, rank.host.as_str()))
        .collect();
    let mut by_rank: BTreeMap<u32, Vec<(usize, &Busy)>> = BTreeMap::new();
    for (place, summary) in summaries
        .iter()
        .enumerate()
        .filter(|(_, summary)| is_even(summary.cell))
    {
        let Some(time) = median_of_sorted(&summary.times) else {
            continue;
        };
        for busy in &summary.busy {
            let has_core = host_of
                .get(&busy.rank)
                .is_some_and(|host| !crowded.contains_key(host));
            if has_core && busy.own.median >= MATTERS * time {
                by_rank.entry(busy.rank).or_default().push((place, busy));
            }
        }
    }
    let judged_at_all = !by_rank.is_empty() || summaries.iter().all(|summary| summary.busy.is_empty());
    if crowded.is_empty() && !judged_at_all {
        unjudged.push(Untested {
            what: "straggling ranks".into(),
            why: "no measured cell gives every rank the same work and enough of it".into(),
        });
    }
    (accuse(&by_rank, summaries, &recorded.run.rule), unjudged)
}

fn accuse(
    by_rank: &BTreeMap<u32, Vec<(usize, &Busy)>>,
    summaries: &[CellSummary<'_>],
    rule: &DecisionRule,
) -> Vec<Straggling> {
    let p_values: Vec<f64> = by_rank
        .values()
        .map(|cells| {
            sign_test(
                cells.iter().map(|(_, b)| b.above).sum(),
                cells.iter().map(|(_, b)| b.of).sum(),
            )
        })
        .collect();
    let adjusted = holm(&p_values);
    let mut found = Vec::new();
    for ((rank, cells), p_value) in by_rank.iter().zip(adjusted) {
        let keeps_waiting = |(place, busy): &&(usize, &Busy)| {
            let time = median_of_sorted(&summaries[*place].times).unwrap_or(0.0);
            busy.own.lower as f64 > rule.straggler_factor * busy.others && busy.excess() >= MATTERS * time
        };
        let slow: Vec<&(usize, &Busy)> = cells.iter().filter(keeps_waiting).collect();
        let worst = slow.iter().max_by(|a, b| a.1.excess().total_cmp(&b.1.excess()));
        let is_most = slow.len() * 2 > cells.len();
        if let Some((place, busy)) = worst.filter(|_| is_most && p_value < rule.false_positive_budget) {
            found.push(Straggling {
                rank: *rank,
                cells: slow.iter().map(|(place, _)| *place).collect(),
                judged: cells.len(),
                worst: *place,
                busy: (*busy).clone(),
                p_value,
                comparisons: by_rank.len() as u32,
            });
        }
    }
    found
}

/// Hosts with more ranks than cores, and what that leaves unjudged.
fn crowded_hosts(recorded: &Recorded) -> (BTreeMap<&str, u32>, Vec<Untested>) {
    let mut ranks_on: BTreeMap<&str, u32> = BTreeMap::new();
    for rank in &recorded.run.ranks {
        *ranks_on.entry(&rank.host).or_default() += 1;
    }
    let mut unjudged = Vec::new();
    let mut crowded = BTreeMap::new();
    for (name, ranks) in ranks_on {
        let cores = recorded
            .run
            .hosts
            .iter()
            .find(|host| host.name == name)
            .map(|host| host.cores);
        let why = match cores {
            Some(cores) if ranks <= cores => continue,
            Some(cores) => format!("{ranks} ranks share {cores} cores there, so who is slow is chance"),
            None => "its number of cores is not recorded".to_string(),
        };
        unjudged.push(Untested {
            what: format!("straggling ranks on {name}"),
            why,
        });
        crowded.insert(name, ranks);
    }
    (crowded, unjudged)
}

#[cfg(test)]
mod tests {
    use super::median_without;

    #[test]
    fn a_rank_is_compared_with_the_others_not_with_itself() {
        assert_eq!(median_without(&[1, 9], 9), 1.0);
        assert_eq!(median_without(&[1, 9], 1), 9.0);
        assert_eq!(median_without(&[1, 2, 3, 9], 9), 2.0);
        assert_eq!(median_without(&[2, 2, 2], 2), 2.0);
        assert_eq!(median_without(&[1, 2, 3, 4, 9], 3), 3.0);
        assert_eq!(median_without(&[7], 7), 0.0);
    }
}
