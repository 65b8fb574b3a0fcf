//! How flows are spread over equal paths: bad luck, a bad hash, a bad member, or a sender that gives the hash nothing to work with.
//!
//! From the streams of a run (`flows`) and the ways they took follows which switch had a choice, among which links, and what it chose
//! (`choosers`). Chance is acted out with the very same flows (`nulls`), and what is beyond it is told apart by its shape
//! (`spread`). What links carried is compared with fair shares of it (`fair`, `model`), which shows slow members (`slow`); links
//! that nothing came over are dead (`dead`). Counters of switches stand beside it (`counters`); where no way is known, what
//! flows delivered must do (`blind`). `accuse` puts it together by precedence, `assemble` and `words` make verdicts of it.
//!
//! Held true: nothing is called a fault that a fair hash does by chance more often than the false-positive budget allows, over
//! all switches and links of the run. Half of the budget is for how flows are spread, half for links.

mod accuse;
mod assemble;
mod blind;
mod choosers;
mod counters;
mod dead;
mod detector;
mod fair;
mod flows;
mod loss;
mod model;
mod nulls;
mod slow;
mod spread;
mod words;

#[cfg(test)]
mod fixture;
#[cfg(test)]
mod proofs;

pub(super) use detector::EcmpImbalance;

use accuse::{Bench, RailView};
use assemble::Bands;
use counters::PortCounters;
use detector::Accusation;
use loss::Advice;
use nulls::NullStore;

use crate::fabric::graph::Graph;
use crate::fabric::topology::Topology;
use crate::record::{Collective, EcmpCause, EcmpVerdict, Recorded, files};

/// The kind of test that streams belong to.
pub(super) const KIND: &str = "ecmp";
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
    accusations: Vec<Accusation>,
    /// How many comparisons the budget was shared between.
    pub(super) comparisons: u32,
}

impl Ecmp {
    /// Judges the streams of a run; empty when it has none.
    pub(super) fn of(recorded: &Recorded) -> Ecmp {
        let is_streams = |cell: &crate::record::Cell| cell.collective == Collective::Streams;
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
        let budget = recorded.run.rule.false_positive_budget / 2.0;
        let spread_tests = (TESTS_PER_SWITCH * choosers).max(1);
        // Every link may be dead or slow, in every test. That one is dead shows plainly: most of the budget is for slow ones.
        let link_tests = (links * tests.len()).max(1);
        let mut bench = Bench {
            counters: &counters,
            store: NullStore::new(recorded.run.seed, budget / spread_tests as f64),
            advice: Advice::default(),
            dead_level: DEAD_SHARE * budget / link_tests as f64,
            slow_level: (1.0 - DEAD_SHARE) * budget / link_tests as f64,
            seed: recorded.run.seed,
        };
        let mut bands = Bands::default();
        let mut ecmp = Ecmp {
            comparisons: (spread_tests + 2 * link_tests) as u32,
            ..Ecmp::default()
        };
        for rail in &rails {
            let view = graph
                .as_ref()
                .filter(|_| !rail.choosers.all.is_empty())
                .map(|graph| RailView::of(rail, graph, &mut bench));
            let is_told = |view: &RailView<'_, '_>| {
                let mut causes = view.causes.iter();
                causes.any(|cause| *cause != EcmpCause::Unjudged) || !view.dead.is_empty()
            };
            match view.filter(is_told) {
                Some(view) => {
                    ecmp.verdicts
                        .extend(assemble::verdicts(&view, &mut bench, &mut bands));
                    ecmp.accusations.extend(detector::accusations(&view));
                }
                None => {
                    let level = budget / rails.len() as f64;
                    let verdict = blind::verdict(rail, graph.as_ref(), level, bench.seed);
                    ecmp.accusations.extend(detector::of_blind(rail, &verdict));
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

    /// What is wrong with a cell: the sentence of the first fault that concerns it.
    pub(super) fn fault_of(&self, cell: u32) -> Option<&str> {
        let concerns = |accusation: &&Accusation| accusation.cells.binary_search(&cell).is_ok();
        let first = self.accusations.iter().find(concerns)?;
        Some(&first.sentence)
    }

    /// Whether a cell's flows were judged at some switch.
    pub(super) fn judges(&self, cell: u32) -> bool {
        self.verdicts
            .iter()
            .any(|verdict| verdict.cause != EcmpCause::Unjudged && verdict.cells.binary_search(&cell).is_ok())
    }
}
