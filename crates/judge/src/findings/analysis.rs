//! Everything the detectors look at, computed once.

use std::collections::BTreeSet;
use std::sync::OnceLock;

use super::blame::{Blame, is_of_a_straggler};
use super::counters::breach::CounterRules;
use super::counters::tally::{self, CounterQuery, CountersByEnd};
use super::ecmp::Ecmp;
use super::fairness::Fairness;
use super::localise::Localisation;
use super::packet_loss::PacketLoss;
use super::peers::engine_counterparts;
use super::run_index::RunIndex;
use super::shapes::Shapes;
use super::silence::{SilentEnd, silent_rails};
use super::speed::{Speed, speeds};
use super::straggling_ranks::{Stragglers, stragglers};
use super::summary::{CellSummary, summarise};
use super::traffic::Traffic;
use super::under_load::UnderLoads;
use record::{Cell, Drift, Event, Recorded, Run};

/// A recorded run with what was computed from it. Lists of cells run parallel to the plan.
pub struct RunAnalysis<'a> {
    /// The record.
    pub(super) recorded: &'a Recorded,
    /// Its cells and hosts by id.
    pub(super) index: RunIndex<'a>,
    /// One summary per planned cell.
    pub(super) summaries: Vec<CellSummary<'a>>,
    /// The speed of every cell.
    pub(super) speeds: Vec<Speed>,
    /// Comparisons that the correction of p-values covers.
    pub(super) comparisons: u32,
    /// Ranks that keep others waiting, and what could not be judged about that.
    pub(super) stragglers: Stragglers,
    /// Shapes over message size and over iterations.
    pub(super) shapes: Shapes,
    /// Which part explains each slow cell.
    pub(super) blame: Blame,
    /// What flows say about the parts they crossed; none without flows between hosts.
    pub(super) localisation: Option<Localisation>,
    /// Which parts lose packets.
    pub(super) packet_loss: PacketLoss,
    /// Which parts hold packets up.
    pub(super) stalls: PacketLoss,
    /// How streams are spread over equal paths.
    pub(super) ecmp: Ecmp,
    /// What senders get where many send to one.
    pub(super) fairness: Fairness<'a>,
    /// What patterns of traffic delivered.
    pub(super) traffic: Traffic,
    /// What loss prevention and congestion control did under load, computed when first needed.
    under_load: OnceLock<UnderLoads>,
    /// The rules that counters are judged by.
    pub(super) counter_rules: CounterRules,
    /// Rails that went silent.
    pub(super) silent_rails: Vec<SilentEnd>,
    /// Ids of cells that delivered wrong data.
    pub(super) corrupt: BTreeSet<u32>,
    /// For every cell the position of the same cell by the other engine.
    pub(super) counterparts: Vec<Option<usize>>,
    /// What the inventory says. Filled in by `drift` when first needed: a search for suspects never needs it.
    pub(super) drift: OnceLock<Option<Drift>>,
    /// What the counters of all rail ends did over the whole run, computed when first needed.
    ends: OnceLock<CountersByEnd<'a>>,
}

impl<'a> RunAnalysis<'a> {
    /// Summarises and compares a recorded run.
    pub fn of(recorded: &'a Recorded) -> RunAnalysis<'a> {
        let summaries = summarise(recorded);
        let (mut speeds, comparisons) = speeds(recorded, &summaries);
        let stragglers = stragglers(recorded, &summaries);
        let counterparts = engine_counterparts(&summaries);
        let of_straggler =
            |place: usize| is_of_a_straggler(&stragglers.confirmed, &summaries[place], &speeds[place]);
        let mut localisation = Localisation::of(recorded, &summaries, &speeds, of_straggler);
        if let Some(localisation) = &mut localisation {
            localisation.correct_speeds(recorded, &summaries, &mut speeds);
        }
        let shapes = Shapes::of(recorded, &summaries, &speeds);
        let blame = Blame::of(
            &recorded.run,
            &summaries,
            &speeds,
            &counterparts,
            &stragglers.confirmed,
            localisation.as_ref(),
            &shapes.explained,
        );
        let corrupt = recorded.events.iter().filter_map(|event| match event {
            Event::Corruption(corruption) => Some(corruption.cell),
            _ => None,
        });
        let [packet_loss, stalls] = PacketLoss::both(recorded, &summaries);
        RunAnalysis {
            corrupt: corrupt.collect(),
            packet_loss,
            stalls,
            ecmp: Ecmp::of(recorded),
            fairness: Fairness::of(recorded),
            traffic: Traffic::of(recorded),
            counter_rules: CounterRules::of(recorded),
            silent_rails: silent_rails(recorded),
            recorded,
            index: RunIndex::of(recorded),
            summaries,
            speeds,
            comparisons,
            stragglers,
            shapes,
            blame,
            localisation,
            counterparts,
            drift: OnceLock::new(),
            under_load: OnceLock::new(),
            ends: OnceLock::new(),
        }
    }

    /// What was run.
    pub(super) fn run(&self) -> &'a Run {
        &self.recorded.run
    }

    /// What the counters of all rail ends did over the whole run.
    pub(super) fn ends(&self) -> &CountersByEnd<'a> {
        self.ends
            .get_or_init(|| tally::ends(&self.index, &CounterQuery::ALL))
    }

    /// What loss prevention and congestion control did under load.
    pub(super) fn under_load(&self) -> &UnderLoads {
        self.under_load.get_or_init(|| UnderLoads::of(self))
    }

    /// The planned cell with this id.
    pub(super) fn cell(&self, id: u32) -> Option<&'a Cell> {
        self.index.cell(id)
    }

    /// The position in the plan of the cell with this id.
    pub(super) fn place(&self, id: u32) -> Option<usize> {
        self.index.place(id)
    }

    /// Ids of the cells at these positions.
    pub(super) fn ids(&self, places: &[usize]) -> Vec<u32> {
        places
            .iter()
            .map(|place| self.summaries[*place].cell.id)
            .collect()
    }

    /// The host of a rank.
    pub(super) fn host(&self, rank: u32) -> Option<&'a str> {
        self.index.host(rank)
    }

    /// The hosts of some ranks, each once, in order.
    pub(super) fn hosts(&self, ranks: &[u32]) -> Vec<String> {
        self.index.hosts(ranks)
    }
}
