//! How flows are spread over equal paths: bad luck, a bad hash, a bad member, or a sender without entropy.
//!
//! The streams of a run (`flows`) and the paths they took show which switch had a choice, among which links, and what
//! it chose (`choosers`). A fair hash is simulated with the very same flows (`nulls`), and a significant deviation
//! from it is classified by its shape (`spread`). What links carried is compared with their fair shares (`fair`,
//! `model`), which shows slow members (`slow`); links that nothing was delivered over are dead (`dead`). Counters of
//! switches complement this (`counters`). Where no path is known, the goodput of flows must do (`unknown_paths`).
//! `rail_view` combines it by precedence, `faults` names what is wrong, `assemble` and `wording` make verdicts of it.
//!
//! Invariant: nothing is called a fault that a fair hash does more often than the false-positive budget allows, over
//! all switches and links of the run. Half of the budget is for how flows are spread, half for links.

mod assemble;
mod choosers;
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
mod slow;
mod spread;
mod unknown_paths;
mod wording;

#[cfg(test)]
mod fixture;
#[cfg(test)]
mod tests;

pub(super) use detector::EcmpImbalance;

use std::collections::{HashMap, HashSet};

use assemble::Bands;
use counters::PortCounters;
use faults::EcmpFault;
use loss::FlowCountAdvice;
use nulls::NullStore;
use rail_view::{DecisionContext, RailView};

use record::{Collective, EcmpCause, EcmpVerdict, Question, Recorded, files, text};
use topology::Topology;
use topology::graph::Graph;

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
    levels: SignificanceLevels,
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
        let is_streams = |cell: &record::Cell| cell.collective == Collective::Streams;
        if !recorded.run.cells.iter().any(is_streams) {
            return Ecmp::default();
        }
        let graph = recorded.topology.as_ref().and_then(|text| {
            let topology = Topology::parse(files::TOPOLOGY, text).ok()?;
            Graph::of(&topology, &recorded.run.ranks).ok()
        });
        let rails = flows::by_rail(recorded, graph.as_ref());
        let counters = PortCounters::of(recorded);
        let choosers: usize = rails.iter().map(|rail| rail.choosers.all.len()).sum();
        let between_switches = |graph: &Graph| graph.links().filter(|(_, link)| !link.is_host).count();
        let links = graph.as_ref().map_or(0, between_switches);
        let tests: Vec<&str> = {
            let mut tests: Vec<&str> = rails.iter().map(|rail| rail.test).collect();
            tests.dedup();
            tests
        };
        // Every link may be dead or slow, in every test.
        let levels = SignificanceLevels::of(
            recorded.run.rule.budget_of(Question::Ecmp),
            choosers,
            links * tests.len(),
        );
        let mut context = DecisionContext {
            counters: &counters,
            store: NullStore::new(recorded.run.seed, levels.spread),
            advice: FlowCountAdvice::default(),
            dead_level: levels.dead,
            slow_level: levels.slow,
            seed: recorded.run.seed,
        };
        let mut bands = Bands::default();
        let mut ecmp = Ecmp {
            levels,
            ..Ecmp::default()
        };
        for rail in &rails {
            ecmp.doubt_dead(rail);
            let view = graph
                .as_ref()
                .filter(|_| !rail.choosers.all.is_empty())
                .map(|graph| RailView::of(rail, graph, &mut context));
            let is_judged = |view: &RailView<'_, '_>| {
                let mut causes = view.causes.iter();
                causes.any(|cause| *cause != EcmpCause::Unjudged) || !view.dead.is_empty()
            };
            match view.filter(is_judged) {
                Some(view) => {
                    let judged = rail.flows.iter().filter(|flow| {
                        let mut choices = flow.choices.iter();
                        choices.any(|choice| view.causes[choice.chooser] != EcmpCause::Unjudged)
                    });
                    ecmp.judged.extend(judged.map(|flow| flow.cell));
                    if let Some(why) = view.shortfall() {
                        let cells = rail.cells.iter().map(|cell| (*cell, why.clone()));
                        ecmp.doubted.extend(cells);
                    }
                    ecmp.verdicts
                        .extend(assemble::verdicts(&view, &mut context, &mut bands));
                    ecmp.faults.extend(faults::faults(&view));
                }
                None => {
                    let level = levels.budget / 2.0 / rails.len() as f64;
                    let verdict = unknown_paths::verdict(rail, graph.as_ref(), level, context.seed);
                    if verdict.cause != EcmpCause::Unjudged {
                        ecmp.judged.extend(&rail.cells);
                    }
                    ecmp.faults.extend(faults::of_unknown_paths(rail, &verdict));
                    ecmp.verdicts.push(verdict);
                }
            }
        }
        // Looked up by cell later.
        ecmp.verdicts
            .iter_mut()
            .for_each(|verdict| verdict.cells.sort_unstable());
        ecmp
    }

    /// A flow that could not be connected, or broke, and delivered nothing is never healthy.
    fn doubt_dead(&mut self, rail: &flows::RailFlows<'_>) {
        let mut dead: HashMap<u32, usize> = HashMap::new();
        for flow in rail.flows.iter().filter(|flow| flow.dead) {
            *dead.entry(flow.cell).or_default() += 1;
        }
        let why = |count: usize| format!("{} delivered nothing", text::counted(count, "stream"));
        self.doubted
            .extend(dead.into_iter().map(|(cell, count)| (cell, why(count))));
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
