//! The cells of one run, found by what they measure and on which hosts, not by their numbers.
//!
//! Cells that measure the very same are taken together: a run that looks for a suspect measures some of them several times.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::findings::coverage::why_not_measured;
use crate::findings::summary::{Round, summarise};
use crate::findings::wire::Wire;
use record::units::Bytes;
use record::{
    Algorithm, Cell, Collective, DType, DeviceKind, Engine, Event, GroupKind, Load, Placement, Recorded,
    ReduceOp, TransportKind, VerbsTerms,
};

/// More hosts than this in one cell are not told apart: all of them took part, so none of them is special.
const MOST_HOSTS: usize = 8;

/// What makes two cells of two runs the same.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Key<'a> {
    test: &'a str,
    what: (Load, Collective, Algorithm, Option<GroupKind>, Option<u16>),
    ranks: Vec<Seat<'a>>,
    root: u32,
    rails: (&'a [String], Option<&'a str>),
    flows: (u16, Option<u16>),
    data: (Bytes, DType, ReduceOp, Placement),
    how: (TransportKind, DeviceKind, Engine, u16, Option<VerbsTerms>),
}

/// A rank by its host and its place there; by its number where the host is not recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Seat<'a> {
    On(&'a str, u32),
    Number(u32),
}

/// What a run measured of one cell.
#[derive(Debug)]
pub(super) struct Measured<'a> {
    /// The cell, the first of them where there are several.
    pub(super) cell: &'a Cell,
    /// Times of all complete iterations, ascending.
    pub(super) times: Vec<u64>,
    /// Rounds with enough iterations for an interval.
    pub(super) rounds: Vec<Round>,
    /// Bytes on the busiest link, where there is one.
    pub(super) bytes: Option<Bytes>,
    /// Why no time of it means anything, when the record contradicts itself.
    pub(super) contradiction: Option<String>,
    /// Why it was not measured to its end; none when it was.
    pub(super) missing: Option<String>,
    /// Whether the run decided on it only because of what it had seen.
    pub(super) added: bool,
    /// What else ran at the same time, as one number for each time that it was measured; empty when it ran alone.
    pub(super) company: BTreeSet<u64>,
    key: Key<'a>,
}

/// All cells of a run.
#[derive(Debug)]
pub(super) struct Cells<'a> {
    /// In the order of the plan.
    pub(super) list: Vec<Measured<'a>>,
    place_of: HashMap<Key<'a>, usize>,
    place_of_id: HashMap<u32, usize>,
    seats: HashMap<u32, Seat<'a>>,
}

impl<'a> Cells<'a> {
    /// Summarises a recorded run.
    pub(super) fn of(recorded: &'a Recorded) -> Cells<'a> {
        let added: HashSet<u32> = recorded
            .events
            .iter()
            .flat_map(|event| match event {
                Event::Added { cells, .. } => cells.as_slice(),
                _ => &[],
            })
            .map(|cell| cell.id)
            .collect();
        let mut cells = Cells {
            list: Vec::with_capacity(recorded.run.cells.len()),
            place_of: HashMap::with_capacity(recorded.run.cells.len()),
            place_of_id: HashMap::with_capacity(recorded.run.cells.len()),
            seats: seats(recorded),
        };
        for summary in summarise(recorded) {
            let missing = (!summary.done).then(|| why_not_measured(recorded, &summary));
            let contradiction = match &summary.wire {
                Wire::Contradiction(text) => Some(text.clone()),
                _ => None,
            };
            let measured = Measured {
                cell: summary.cell,
                bytes: summary.wire.bytes(),
                contradiction,
                missing,
                added: added.contains(&summary.cell.id),
                company: BTreeSet::new(),
                key: cells.key(summary.cell),
                times: summary.times,
                rounds: summary.rounds,
            };
            cells.take(measured);
        }
        cells.note_company(&recorded.run.cells);
        cells
    }

    /// Cells of one slot share it, so what one of them gets depends on which the others are.
    fn note_company(&mut self, all: &'a [Cell]) {
        let is_shared = |cell: &&Cell| cell.load == Load::Together;
        let mut slots: HashMap<u32, u64> = HashMap::new();
        for cell in all.iter().filter(is_shared) {
            let mut hasher = DefaultHasher::new();
            self.key(cell).hash(&mut hasher);
            // A sum, because the order within a slot means nothing.
            let sum = slots.entry(cell.slot).or_default();
            *sum = sum.wrapping_add(hasher.finish());
        }
        for cell in all.iter().filter(is_shared) {
            if let (Some(place), Some(sum)) = (self.place_of_id.get(&cell.id), slots.get(&cell.slot)) {
                self.list[*place].company.insert(*sum);
            }
        }
    }

    fn take(&mut self, measured: Measured<'a>) {
        let (id, place) = (measured.cell.id, self.list.len());
        let place = *self.place_of.entry(measured.key.clone()).or_insert(place);
        self.place_of_id.entry(id).or_insert(place);
        match self.list.get_mut(place) {
            None => self.list.push(measured),
            Some(first) => {
                // Of a cell that was not measured to its end nothing is taken over, unless there is nothing else.
                match (first.missing.is_some(), measured.missing.is_some()) {
                    (true, false) => {
                        (first.times, first.rounds) = (measured.times, measured.rounds);
                        (first.bytes, first.missing) = (measured.bytes, None);
                    }
                    (false, false) => {
                        first.times.extend(measured.times);
                        first.times.sort_unstable();
                        first.rounds.extend(measured.rounds);
                        first.bytes = first.bytes.max(measured.bytes);
                    }
                    (_, true) => {}
                }
                first.contradiction = first.contradiction.take().or(measured.contradiction);
                first.added &= measured.added;
            }
        }
    }

    fn key(&self, cell: &'a Cell) -> Key<'a> {
        let seat = |rank: &u32| *self.seats.get(rank).unwrap_or(&Seat::Number(*rank));
        let streams = cell.streams.as_ref();
        Key {
            test: &cell.test,
            what: (
                cell.load,
                cell.collective,
                cell.algorithm,
                cell.group,
                streams.map(|terms| terms.set),
            ),
            ranks: cell.ranks.iter().map(seat).collect(),
            root: cell.root,
            rails: (&cell.rails, cell.to_rail.as_deref()),
            // The ports of streams are the plan's choice, not what is measured.
            flows: (cell.flows, cell.source_port.filter(|_| streams.is_none())),
            data: (cell.size, cell.dtype, cell.op, cell.placement),
            how: (cell.transport, cell.device, cell.engine, cell.batch, cell.verbs),
        }
    }

    /// The same cell of this run, if it has it.
    pub(super) fn same_as(&self, other: &Measured<'a>) -> Option<&Measured<'a>> {
        self.place_of.get(&other.key).map(|place| &self.list[*place])
    }

    /// The cell with this number.
    pub(super) fn with_id(&self, id: u32) -> Option<&Measured<'a>> {
        self.place_of_id.get(&id).map(|place| &self.list[*place])
    }

    /// Hosts of a cell, each once, in the order of its ranks; none when they are too many to be told apart, or not known.
    pub(super) fn hosts(&self, cell: &Cell) -> Vec<&'a str> {
        let mut seen = BTreeSet::new();
        let mut hosts = Vec::new();
        for rank in &cell.ranks {
            if let Some(Seat::On(host, _)) = self.seats.get(rank)
                && seen.insert(*host)
            {
                hosts.push(*host);
            }
            if hosts.len() > MOST_HOSTS {
                return Vec::new();
            }
        }
        hosts
    }

    /// A cell in words, with hosts in place of ranks where it is between two of them.
    pub(super) fn describe(&self, cell: &Cell) -> String {
        let words = cell.describe();
        match (cell.ranks.as_slice(), self.hosts(cell).as_slice()) {
            ([a, b], [from, to]) => words.replacen(&format!("ranks {a}:{b}"), &format!("{from} to {to}"), 1),
            _ => words,
        }
    }
}

/// Every rank by host and place there.
fn seats(recorded: &Recorded) -> HashMap<u32, Seat<'_>> {
    let mut ranks: Vec<_> = recorded.run.ranks.iter().collect();
    ranks.sort_by_key(|record| record.rank);
    let mut on_host: HashMap<&str, u32> = HashMap::new();
    let mut seats = HashMap::with_capacity(ranks.len());
    for record in ranks {
        let place = on_host.entry(&record.host).or_default();
        seats.entry(record.rank).or_insert(Seat::On(&record.host, *place));
        *place += 1;
    }
    seats
}
