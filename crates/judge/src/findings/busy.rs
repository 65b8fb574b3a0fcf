//! Who keeps the others waiting: how long each rank is busy itself, apart from waiting for a peer or the wire.
//!
//! A rank is a straggler when, in most of the cells where its own work matters (a tenth of the cell's time or more), the
//! interval of its busy time lies above `straggler_factor` times the median of the other ranks' busy times in every
//! round those cells were measured in, as often as the rule asks for, and a sign test over all those iterations,
//! corrected for the number of ranks, agrees. Until it was measured again it is a suspect. Only cells that give every rank the same
//! work are judged (a tree's inner ranks have more to do than its leaves), and only ranks of hosts with a core for each
//! of their ranks: others take turns, and who is slow there is chance.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::summary::{CellSummary, Iterations};
use record::stats::{MedianInterval, holm, interval_of_sorted, median_of_sorted, sign_test};
use record::{Algorithm, Cell, Collective, DecisionRule, Engine, Recorded, Sample, Untested};

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
    /// The same, round by round.
    rounds: Vec<BusyRound>,
}

/// How long one rank was busy in one round, beside the others.
#[derive(Debug, Clone, PartialEq)]
struct BusyRound {
    own: MedianInterval,
    others: f64,
}

impl Busy {
    /// How much longer than the others it was busy.
    pub(super) fn excess(&self) -> f64 {
        self.own.median - self.others
    }

    /// Whether it kept the others waiting in every round of a cell whose iterations take `time`.
    fn keeps_waiting(&self, time: f64, rule: &DecisionRule) -> bool {
        let always = self.rounds.iter().all(|round| {
            round.own.lower as f64 > rule.straggler_factor * round.others
                && round.own.median - round.others >= MATTERS * time
        });
        always && !self.rounds.is_empty()
    }
}

/// What is known of straggling ranks.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Stragglers {
    /// Ranks that keep the others waiting, measured as often as the rule asks for.
    pub(super) accused: Vec<Straggling>,
    /// Places of cells in which a rank looks like one and that have not been measured often enough.
    pub(super) suspected: Vec<usize>,
    /// What could not be judged.
    pub(super) unjudged: Vec<Untested>,
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
    if iterations.ranks.len() < 2 {
        return Vec::new();
    }
    let all: Vec<&[Sample]> = iterations.iter().collect();
    let Some(pooled) = beside_the_others(&all, rule) else {
        return Vec::new();
    };
    let above = above_the_others(&all, rule.straggler_factor);
    let round_of = |samples: &[Sample]| samples.first().map(|sample| sample.round);
    let rounds: Vec<Vec<BusyRound>> = all
        .chunk_by(|a, b| round_of(a) == round_of(b))
        .filter_map(|round| beside_the_others(round, rule))
        .collect();
    let busy = pooled.into_iter().enumerate().map(|(place, pooled)| Busy {
        rank: iterations.ranks[place],
        own: pooled.own,
        others: pooled.others,
        above: above[place],
        of: all.len() as u64,
        rounds: rounds.iter().map(|round| round[place].clone()).collect(),
    });
    busy.collect()
}

/// What a rank did itself, without waiting.
fn work(sample: &Sample) -> u64 {
    sample.ns.saturating_sub(sample.wait_ns)
}

/// For every rank the interval of its busy time and the median of the others' medians; none with too few iterations.
fn beside_the_others(iterations: &[&[Sample]], rule: &DecisionRule) -> Option<Vec<BusyRound>> {
    let ranks = iterations.first()?.len();
    let interval_of = |rank: usize| {
        let mut times: Vec<u64> = iterations.iter().map(|samples| work(&samples[rank])).collect();
        times.sort_unstable();
        interval_of_sorted(&times, rule.confidence)
    };
    let intervals: Vec<MedianInterval> = (0..ranks).map(interval_of).collect::<Option<_>>()?;
    let mut medians: Vec<u64> = intervals.iter().map(|interval| interval.median as u64).collect();
    medians.sort_unstable();
    let beside = intervals.into_iter().map(|own| BusyRound {
        own,
        others: median_without(&medians, own.median as u64),
    });
    Some(beside.collect())
}

/// For every rank the iterations in which it was busy longer than `factor` times the others' median.
fn above_the_others(iterations: &[&[Sample]], factor: f64) -> Vec<u64> {
    let mut above = vec![0; iterations.first().map_or(0, |samples| samples.len())];
    let mut sorted = Vec::with_capacity(above.len());
    for samples in iterations {
        sorted.clear();
        sorted.extend(samples.iter().map(work));
        sorted.sort_unstable();
        for (rank, sample) in samples.iter().enumerate() {
            let own = work(sample);
            above[rank] += u64::from(own as f64 > factor * median_without(&sorted, own));
        }
    }
    above
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
    // How long NCCL's ranks wait for each other is not known; streams have a sender and a receiver.
    if cell.engine == Engine::Nccl || cell.collective == Collective::Streams {
        return false;
    }
    match cell.algorithm {
        Algorithm::Ring => true,
        Algorithm::Direct | Algorithm::CopyEngine => cell.collective != Collective::PointToPoint,
        Algorithm::Tree | Algorithm::DoubleTree => false,
    }
}

/// Ranks that keep the others waiting, those that seem to, and what could not be judged.
pub(super) fn stragglers(recorded: &Recorded, summaries: &[CellSummary<'_>]) -> Stragglers {
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
                .is_some_and(|host| !crowded.contains(host));
            if has_core && busy.own.median >= MATTERS * time {
                by_rank.entry(busy.rank).or_default().push((place, busy));
            }
        }
    }
    let judged_at_all = !by_rank.is_empty() || summaries.iter().all(|summary| summary.busy.is_empty());
    let has_work = recorded
        .run
        .cells
        .iter()
        .any(|cell| cell.collective.is_scheduled());
    if has_work && crowded.is_empty() && !judged_at_all {
        unjudged.push(Untested {
            what: "straggling ranks".into(),
            why: "no measured cell gives every rank the same work and enough of it".into(),
        });
    }
    let rule = &recorded.run.rule;
    let wanted = usize::from(rule.remeasure) + 1;
    let often_enough = |place: &usize| summaries[*place].rounds.len() >= wanted;
    let mut stragglers = Stragglers::default();
    for straggling in suspect(&by_rank, summaries, rule) {
        if straggling.cells.iter().all(often_enough) {
            stragglers.accused.push(straggling);
        } else {
            unjudged.push(Untested {
                what: format!("whether {} straggles", recorded.run.rank_name(straggling.rank)),
                why: "it seemed to, and was not measured again".to_string(),
            });
            stragglers.suspected.extend(straggling.cells);
        }
    }
    stragglers.unjudged = unjudged;
    stragglers
}

/// Ranks that keep the others waiting in all rounds there are so far.
fn suspect(
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
            busy.keeps_waiting(time, rule)
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

/// Hosts on machines with more ranks than cores, and what that leaves unjudged.
pub(super) fn crowded_hosts(recorded: &Recorded) -> (BTreeSet<&str>, Vec<Untested>) {
    let host = |name: &str| recorded.run.hosts.iter().find(|host| host.name == name);
    let machine = |name: &str| {
        host(name)
            .and_then(|host| host.machine.clone())
            .unwrap_or(name.to_string())
    };
    let mut ranks_on: BTreeMap<String, u32> = BTreeMap::new();
    for rank in &recorded.run.ranks {
        *ranks_on.entry(machine(&rank.host)).or_default() += 1;
    }
    let names: BTreeSet<&str> = recorded.run.ranks.iter().map(|rank| rank.host.as_str()).collect();
    // Streams give ranks no work to be slow at.
    let has_work = recorded
        .run
        .cells
        .iter()
        .any(|cell| cell.collective.is_scheduled());
    let mut unjudged = Vec::new();
    let mut crowded = BTreeSet::new();
    for name in names {
        let ranks = ranks_on.get(&machine(name)).copied().unwrap_or(0);
        let why = match host(name).map(|host| host.cores) {
            Some(cores) if ranks <= cores => continue,
            Some(cores) => format!("{ranks} ranks share {cores} cores there, so who is slow is chance"),
            None => "its number of cores is not recorded".to_string(),
        };
        if has_work {
            unjudged.push(Untested {
                what: format!("straggling ranks on {name}"),
                why,
            });
        }
        crowded.insert(name);
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
