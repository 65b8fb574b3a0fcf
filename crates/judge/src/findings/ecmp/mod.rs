//! How flows are spread over equal paths: bad luck, a bad hash, a bad member, or a sender without entropy.
//!
//! The streams of a run (`flows`) and the paths they took show which switch had a choice, among which links, and what
//! it chose (`choosers`). A fair hash is simulated with the very same flows (`nulls`), and a significant deviation
//! from it is classified by its shape (`spread`). What links carried is compared with their fair shares (`fair`,
//! `model`), which shows slow members (`slow`); links that nothing was delivered over are dead (`dead`). Counters of
//! switches complement this (`counters`). Where no path is known, the goodput of flows must do (`unknown_paths`).
//! `rail_view` combines it by precedence. All of this is done for every round by itself; `rounds` keeps what all of them accuse the
//! same part of (`accusations`, `agreement`, `confirmed_view`), `faults` names it, `assemble` and `wording` make verdicts of it.
//!
//! Invariant: no part is accused by one round.
//!
//! Invariant: nothing is called a fault that a fair hash does more often than the false-positive budget allows, over
//! all switches and links of the run. Half of the budget is for how flows are spread, half for links.

mod accusations;
mod agreement;
mod assemble;
mod choosers;
mod confirmed_view;
mod counters;
mod dead;
mod detector;
mod fair;
mod faults;
mod flows;
mod loss;
mod model;
mod nulls;
mod rail_view;
mod rounds;
mod slow;
mod spread;
mod unknown_paths;
mod wording;

#[cfg(test)]
pub(super) mod fixture;
#[cfg(test)]
mod tests;

pub(super) use detector::EcmpImbalance;

use std::collections::{HashMap, HashSet};

use assemble::Bands;
use counters::PortCounters;
use faults::EcmpFault;
use flows::RailFlows;
use loss::FlowCountAdvice;
use nulls::NullStore;
use rail_view::DecisionContext;

use record::{EcmpCause, EcmpVerdict, Question, Recorded, Untested, files};
use topology::Topology;
use topology::graph::{Graph, LinkId};

/// The part of the budget of links that is for dead ones.
const DEAD_SHARE: f64 = 0.1;
/// Tests of the spread of flows at one switch.
const TESTS_PER_SWITCH: usize = 3;

/// What the streams of a run say about the spread of flows.
#[derive(Debug, Default)]
pub(super) struct Ecmp {
    /// One verdict per test, rail and switch that had a choice.
    pub(super) verdicts: Vec<EcmpVerdict>,
    /// What is wrong.
    faults: Vec<EcmpFault>,
    /// Ids of the cells whose flows could be judged.
    judged: HashSet<u32>,
    /// Ids of cells whose flows cannot be called healthy though nothing is wrong with how they are spread, and why.
    doubted: HashMap<u32, String>,
    /// Ids of the cells to measure again: another round may confirm what looks wrong.
    pub(super) suspected: HashSet<u32>,
    /// Links that nothing is said about.
    pub(super) unjudged: Option<Untested>,
    levels: SignificanceLevels,
}

/// The rounds of every test and rail, in order; those of flows that were chosen for their paths by themselves.
fn rounds_of_rails<'r, 'a>(rails: &'r [RailFlows<'a>]) -> Vec<Vec<&'r RailFlows<'a>>> {
    let mut rounds: Vec<Vec<&RailFlows<'a>>> = Vec::new();
    for rail in rails {
        let kind = |rail: &RailFlows<'a>| (rail.test, rail.rail, rail.chosen);
        let is_same = |known: &&mut Vec<&RailFlows<'a>>| kind(known[0]) == kind(rail);
        match rounds.iter_mut().find(is_same) {
            Some(known) => known.push(rail),
            None => rounds.push(vec![rail]),
        }
    }
    for known in &mut rounds {
        known.sort_by_key(|rail| rail.round);
    }
    rounds
}

/// The links that a switch could choose and of which is not known whether they carry what they should.
fn unjudged_links(graph: &Graph, members: &HashSet<LinkId>, compared: &HashSet<LinkId>) -> Option<Untested> {
    let first = members.difference(compared).min()?;
    Some(Untested {
        what: format!(
            "whether {} of {} links of equal paths carry their rate, such as {}",
            members.difference(compared).count(),
            members.len(),
            graph.name(*first)
        ),
        why: "too few streams of known path ask them for enough".to_string(),
    })
}

/// Significance levels: the false-positive budget, divided.
#[derive(Debug, Clone, Copy, Default)]
struct SignificanceLevels {
    budget: f64,
    spread: f64,
    dead: f64,
    slow: f64,
}

impl SignificanceLevels {
    /// Half of the budget for how flows are spread, half for links.
    fn of(budget: f64, choosers: usize, links: usize) -> SignificanceLevels {
        let half = budget / 2.0;
        SignificanceLevels {
            budget,
            spread: half / (TESTS_PER_SWITCH * choosers).max(1) as f64,
            // A dead link is obvious: most of the budget is for slow ones.
            dead: DEAD_SHARE * half / links.max(1) as f64,
            slow: (1.0 - DEAD_SHARE) * half / links.max(1) as f64,
        }
    }

    /// The number of comparisons that the p-value of a cause is corrected for.
    fn comparisons(&self, cause: EcmpCause) -> u32 {
        let level = match cause {
            EcmpCause::DeadMember => self.dead,
            EcmpCause::SlowMember => self.slow,
            _ => self.spread,
        };
        match level > 0.0 {
            true => (self.budget / level).round() as u32,
            false => 1,
        }
    }
}

impl Ecmp {
    /// Judges the streams of a run; empty when it has none.
    pub(super) fn of(recorded: &Recorded) -> Ecmp {
        let is_spread = |terms: &record::StreamTerms| !terms.into_one && terms.pattern.is_none();
        let is_streams = |cell: &record::Cell| cell.streams.as_ref().is_some_and(is_spread);
        if !recorded.run.cells.iter().any(is_streams) {
            return Ecmp::default();
        }
        let graph = recorded.topology.as_ref().and_then(|text| {
            let topology = Topology::parse(files::TOPOLOGY, text).ok()?;
            Graph::of(&topology, &recorded.run.ranks).ok()
        });
        let rails = flows::by_rail(recorded, graph.as_ref());
        let rails = rounds_of_rails(&rails);
        let counters = PortCounters::of(recorded);
        // Every round is judged at the same levels.
        let by_hash = || rails.iter().filter(|rounds| !rounds[0].chosen);
        let choosers = by_hash().map(|rounds| {
            let of_rounds = rounds.iter().map(|rail| rail.choosers.all.len());
            of_rounds.max().unwrap_or(0)
        });
        let between_switches = |graph: &Graph| graph.links().filter(|(_, link)| !link.is_host).count();
        let links = graph.as_ref().map_or(0, between_switches);
        let tests: HashSet<(&str, bool)> = rails
            .iter()
            .map(|rounds| (rounds[0].test, rounds[0].chosen))
            .collect();
        // Every link may be dead or slow, in every test.
        let levels = SignificanceLevels::of(
            recorded.run.rule.budget_of(Question::Ecmp),
            choosers.sum(),
            links * tests.len(),
        );
        let mut context = DecisionContext {
            counters: &counters,
            store: NullStore::new(recorded.run.seed, levels.spread),
            advice: FlowCountAdvice::default(),
            dead_level: levels.dead,
            slow_level: levels.slow,
            suspicion_level: recorded.run.rule.false_positive_budget / (links * tests.len()).max(1) as f64,
            seed: recorded.run.seed,
        };
        let mut bands = Bands::default();
        let mut ecmp = Ecmp {
            levels,
            ..Ecmp::default()
        };
        let level = levels.budget / 2.0 / by_hash().count().max(1) as f64;
        let wanted = agreement::rounds_wanted(&recorded.run.rule);
        let (mut members, mut compared) = (HashSet::new(), HashSet::new());
        for rounds in &rails {
            let graph = graph.as_ref();
            let conclusion = rounds::conclude(rounds, graph, &mut context, &mut bands, (level, wanted));
            // What chosen flows show of a switch is said instead of how it spreads the others.
            let place = |verdict: &EcmpVerdict| (verdict.rail.clone(), verdict.switch.clone(), verdict.tier);
            let instead =
                |verdict: &EcmpVerdict| conclusion.verdicts.iter().any(|new| place(new) == place(verdict));
            ecmp.verdicts
                .retain(|verdict| !rounds[0].chosen || !instead(verdict));
            ecmp.verdicts.extend(conclusion.verdicts);
            ecmp.faults.extend(conclusion.faults);
            ecmp.judged.extend(conclusion.judged);
            ecmp.doubted.extend(conclusion.doubted);
            ecmp.suspected.extend(conclusion.suspected);
            members.extend(conclusion.members);
            compared.extend(conclusion.compared);
        }
        let graph = graph.as_ref();
        ecmp.unjudged = graph.and_then(|graph| unjudged_links(graph, &members, &compared));
        ecmp
    }

    /// Why the flows of a cell cannot be called healthy.
    pub(super) fn doubt_about(&self, cell: u32) -> Option<&str> {
        self.doubted.get(&cell).map(String::as_str)
    }

    /// What is wrong with a cell: the sentence of the first fault that concerns it.
    pub(super) fn fault_of(&self, cell: u32) -> Option<&str> {
        let concerns = |fault: &&EcmpFault| fault.cells.binary_search(&cell).is_ok();
        let first = self.faults.iter().find(concerns)?;
        Some(&first.sentence)
    }

    /// Whether a cell's flows were judged at some switch.
    pub(super) fn judges(&self, cell: u32) -> bool {
        self.judged.contains(&cell)
    }
}
