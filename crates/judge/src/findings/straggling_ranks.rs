//! Which ranks keep the others waiting.
//!
//! A rank is a straggler when, in most of the cells where its own work matters (a tenth of the cell's time or more), the
//! interval of its busy time lies above `straggler_factor` times the median of the other ranks' busy times. That must hold in every
//! round of those cells, in as many rounds as the rule asks for, and a sign test over all those iterations, corrected for the number
//! of ranks, must agree. Until it was measured again it is a suspect.
//!
//! Only cells that give every rank the same work are judged (a tree's inner ranks do more than its leaves), and only ranks
//! of hosts with a core for each of their ranks: where ranks share a core, which one is slow is random.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::busy::{Busy, MATTERS};
use super::summary::CellSummary;
use record::stats::{holm, median_of_sorted, sign_test};
use record::{Algorithm, Cell, Collective, DecisionRule, Engine, Question, Recorded, Untested};

/// What is known of straggling ranks.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Stragglers {
    /// Ranks that keep the others waiting, measured as often as the rule asks for.
    pub(super) confirmed: Vec<StragglingRank>,
    /// Positions of cells in which a rank looks like one and that were not measured often enough.
    pub(super) suspected: Vec<usize>,
    /// What could not be judged.
    pub(super) unjudged: Vec<Untested>,
}

/// A rank that keeps the others waiting.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct StragglingRank {
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
    /// P-value of its busy times against those of the other ranks, corrected.
    pub(super) p_value: f64,
    /// Ranks judged.
    pub(super) comparisons: u32,
}

/// Whether the schedule gives every rank the same work.
fn is_even(cell: &Cell) -> bool {
    // How long NCCL's ranks wait for each other is not known; streams have a sender and a receiver.
    if cell.engine == Engine::Nccl || !cell.collective.is_scheduled() {
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
            stragglers.confirmed.push(straggling);
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
) -> Vec<StragglingRank> {
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
        if let Some((place, busy)) =
            worst.filter(|_| is_most && p_value < rule.budget_of(Question::Stragglers))
        {
            found.push(StragglingRank {
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
    // Streams give ranks no work of their own.
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
            Some(cores) => format!(
                "{ranks} ranks share {cores} cores there, so which rank is slow is \
                 random"
            ),
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
