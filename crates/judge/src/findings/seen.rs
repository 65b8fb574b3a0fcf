//! Everything the detectors look at, computed once.

use std::collections::{BTreeSet, HashMap};
use std::sync::OnceLock;

use super::blame::{Blame, is_of_a_straggler};
use super::busy::{Stragglers, stragglers};
use super::counters::breach::Rules;
use super::counters::tally::{self, Ends, Question};
use super::drift;
use super::ecmp::Ecmp;
use super::engines;
use super::localise::Localisation;
use super::shapes::Shapes;
use super::silence::{SilentRail, silent_rails};
use super::speed::{Speed, speeds};
use super::summary::{CellSummary, summarise};
use record::{Cell, Drift, Event, Recorded, Run};

/// A recorded run with what was computed from it. Lists of cells run parallel to the plan.
pub struct Seen<'a> {
    /// The record.
    pub(super) recorded: &'a Recorded,
    /// One summary per planned cell.
    pub(super) summaries: Vec<CellSummary<'a>>,
    /// The speed of every cell.
    pub(super) speeds: Vec<Speed>,
    /// Comparisons that the correction of p-values covers.
    pub(super) comparisons: u32,
    /// Ranks that keep others waiting, and what the record does not allow to judge of that.
    pub(super) stragglers: Stragglers,
    /// Shapes over message size and over iterations.
    pub(super) shapes: Shapes,
    /// Whom the slow cells are laid at the door of.
    pub(super) blame: Blame,
    /// What flows tell about the parts they crossed; none without flows between hosts.
    pub(super) localisation: Option<Localisation>,
    /// How streams are spread over equal paths.
    pub(super) ecmp: Ecmp,
    /// The rules that counters are judged by.
    pub(super) counter_rules: Rules,
    /// Rails that went silent.
    pub(super) silent_rails: Vec<SilentRail>,
    /// Ids of cells that delivered wrong data.
    pub(super) corrupt: BTreeSet<u32>,
    /// For every cell the place of the same cell by the other engine.
    pub(super) counterparts: Vec<Option<usize>>,
    by_id: HashMap<u32, usize>,
    /// What the inventory says, worked out when it is first asked for: whoever only looks for suspects never does.
    drift: OnceLock<Option<Drift>>,
    /// The same of what counters did over the whole run.
    ends: OnceLock<Ends<'a>>,
}

impl<'a> Seen<'a> {
    /// Summarises and compares a recorded run.
    pub fn of(recorded: &'a Recorded) -> Seen<'a> {
        let summaries = summarise(recorded);
        let (mut speeds, comparisons) = speeds(recorded, &summaries);
        let stragglers = stragglers(recorded, &summaries);
        let counterparts = engines::counterparts(&summaries);
        let of_straggler =
            |place: usize| is_of_a_straggler(&stragglers.accused, &summaries[place], &speeds[place]);
        let mut localisation = Localisation::of(recorded, &summaries, &speeds, of_straggler);
        if let Some(localisation) = &mut localisation {
            localisation.settle(recorded, &summaries, &mut speeds);
        }
        let shapes = Shapes::of(recorded, &summaries, &speeds);
        let blame = Blame::of(
            &recorded.run,
            &summaries,
            &speeds,
            &counterparts,
            &stragglers.accused,
            localisation.as_ref(),
            &shapes.explained,
        );
        let corrupt = recorded.events.iter().filter_map(|event| match event {
            Event::Corruption(corruption) => Some(corruption.cell),
            _ => None,
        });
        let mut by_id = HashMap::with_capacity(summaries.len());
        for (place, summary) in summaries.iter().enumerate() {
            by_id.entry(summary.cell.id).or_insert(place);
        }
        Seen {
            corrupt: corrupt.collect(),
            ecmp: Ecmp::of(recorded),
            counter_rules: Rules::of(recorded),
            silent_rails: silent_rails(recorded),
            recorded,
            summaries,
            speeds,
            comparisons,
            stragglers,
            shapes,
            blame,
            localisation,
            counterparts,
            by_id,
            drift: OnceLock::new(),
            ends: OnceLock::new(),
        }
    }

    /// What the inventory of the run says; none without one.
    pub(super) fn drift(&self) -> Option<&Drift> {
        self.drift.get_or_init(|| drift::of_run(self)).as_ref()
    }

    /// What was run.
    pub(super) fn run(&self) -> &'a Run {
        &self.recorded.run
    }

    /// What the counters of all ends of rails did over the whole run.
    pub(super) fn ends(&self) -> &Ends<'a> {
        self.ends.get_or_init(|| tally::ends(self, &Question::ALL))
    }

    /// The planned cell with this id.
    pub(super) fn cell(&self, id: u32) -> Option<&'a Cell> {
        self.by_id.get(&id).map(|place| self.summaries[*place].cell)
    }

    /// The place of the planned cell with this id.
    pub(super) fn place(&self, id: u32) -> Option<usize> {
        self.by_id.get(&id).copied()
    }

    /// Ids of the cells at these places.
    pub(super) fn ids(&self, places: &[usize]) -> Vec<u32> {
        places
            .iter()
            .map(|place| self.summaries[*place].cell.id)
            .collect()
    }

    /// The host of a rank.
    pub(super) fn host(&self, rank: u32) -> Option<&'a str> {
        self.run()
            .ranks
            .iter()
            .find(|record| record.rank == rank)
            .map(|record| record.host.as_str())
    }

    /// The hosts of some ranks, each once, in order.
    pub(super) fn hosts(&self, ranks: &[u32]) -> Vec<String> {
        let hosts: BTreeSet<&str> = ranks.iter().filter_map(|rank| self.host(*rank)).collect();
        hosts.into_iter().map(str::to_string).collect()
    }
}
