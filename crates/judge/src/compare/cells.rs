//! The cells of one run, found by what they measure and on which hosts, not by their numbers.
//!
//! Cells that measure the very same are merged: a run that searches for a suspect measures some of them several
//! times.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::findings::iterations::Round;
use crate::findings::summary::summarise;
use crate::findings::wire::Wire;
use record::units::Bytes;
use record::{
    Algorithm, Cell, Collective, DType, DeviceKind, Engine, Event, GroupKind, Judgement, Load, Placement,
    Recorded, ReduceOp, TransportKind, VerbsTerms,
};

/// A recorded run with its judgement and its name.
#[derive(Debug, Clone, Copy)]
pub struct Side<'a> {
    /// What to call it.
    pub name: &'a str,
    /// The record.
    pub recorded: &'a Recorded,
    /// What was concluded from it.
    pub judgement: &'a Judgement,
}

/// Cells with more hosts than this are not assigned to single hosts: all of them took part.
const MOST_HOSTS: usize = 8;

/// What makes two cells of two runs the same.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct CellKey<'a> {
    test: &'a str,
    what: (Load, Collective, Algorithm, Option<GroupKind>, Option<u16>),
    ranks: Vec<RankPosition<'a>>,
    root: u32,
    rails: (&'a [String], Option<&'a str>),
    flows: (u16, Option<u16>),
    data: (Bytes, DType, ReduceOp, Placement),
    how: (TransportKind, DeviceKind, Engine, u16, Option<VerbsTerms>),
}

/// A rank by its host and its index there; by its number where the host is not recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum RankPosition<'a> {
    OnHost(&'a str, u32),
    Number(u32),
}

/// What a run measured of one cell.
#[derive(Debug)]
pub(super) struct MeasuredCell<'a> {
    /// The cell, the first of them where there are several.
    pub(super) cell: &'a Cell,
    /// Times of all complete iterations, ascending.
    pub(super) times: Vec<u64>,
    /// Rounds with enough iterations for an interval.
    pub(super) rounds: Vec<Round>,
    /// Bytes on the busiest link, where there is one.
    pub(super) bytes: Option<Bytes>,
    /// Why its times mean nothing, when the record contradicts itself.
    pub(super) contradiction: Option<String>,
    /// Why it was not measured to its end; none when it was.
    pub(super) missing: Option<String>,
    /// Whether the run added it because of earlier results.
    pub(super) added: bool,
    /// What else ran at the same time, as one hash for each time it was measured; empty when it ran alone.
    pub(super) slot_mates: BTreeSet<u64>,
    key: CellKey<'a>,
}

/// All cells of a run.
#[derive(Debug)]
pub(super) struct Cells<'a> {
    /// In the order of the plan.
    pub(super) list: Vec<MeasuredCell<'a>>,
    place_of: HashMap<CellKey<'a>, usize>,
    place_of_id: HashMap<u32, usize>,
    positions: HashMap<u32, RankPosition<'a>>,
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
            positions: positions(recorded),
        };
        for summary in summarise(recorded) {
            let missing = (!summary.done).then(|| summary.why_not_measured(recorded));
            let contradiction = match &summary.wire {
                Wire::Contradiction(text) => Some(text.clone()),
                _ => None,
            };
            let measured = MeasuredCell {
                cell: summary.cell,
                bytes: summary.wire.bytes(),
                contradiction,
                missing,
                added: added.contains(&summary.cell.id),
                slot_mates: BTreeSet::new(),
                key: cells.key(summary.cell),
                times: summary.times,
                rounds: summary.rounds,
            };
            cells.take(measured);
        }
        cells.note_slot_mates(&recorded.run.cells);
        cells
    }

    /// Cells of one slot share it, so the result of one depends on the others.
    fn note_slot_mates(&mut self, all: &'a [Cell]) {
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
                self.list[*place].slot_mates.insert(*sum);
            }
        }
    }

    fn take(&mut self, measured: MeasuredCell<'a>) {
        let (id, place) = (measured.cell.id, self.list.len());
        let place = *self.place_of.entry(measured.key.clone()).or_insert(place);
        self.place_of_id.entry(id).or_insert(place);
        match self.list.get_mut(place) {
            None => self.list.push(measured),
            Some(first) => {
                // A cell that was not measured to its end is used only when there is no other.
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

    fn key(&self, cell: &'a Cell) -> CellKey<'a> {
        let position = |rank: &u32| *self.positions.get(rank).unwrap_or(&RankPosition::Number(*rank));
        let streams = cell.streams.as_ref();
        CellKey {
            test: &cell.test,
            what: (
                cell.load,
                cell.collective,
                cell.algorithm,
                cell.group,
                streams.map(|terms| terms.set),
            ),
            ranks: cell.ranks.iter().map(position).collect(),
            root: cell.root,
            rails: (&cell.rails, cell.to_rail.as_deref()),
            // The ports of streams are the plan's choice, not what is measured.
            flows: (cell.flows, cell.source_port.filter(|_| streams.is_none())),
            data: (cell.size, cell.dtype, cell.op, cell.placement),
            how: (cell.transport, cell.device, cell.engine, cell.batch, cell.verbs),
        }
    }

    /// The same cell of this run, if it has it.
    pub(super) fn same_as(&self, other: &MeasuredCell<'a>) -> Option<&MeasuredCell<'a>> {
        self.place_of.get(&other.key).map(|place| &self.list[*place])
    }

    /// The cell with this number.
    pub(super) fn with_id(&self, id: u32) -> Option<&MeasuredCell<'a>> {
        self.place_of_id.get(&id).map(|place| &self.list[*place])
    }

    /// Hosts of a cell, each once, in the order of its ranks; empty when there are too many, or they are not known.
    pub(super) fn hosts(&self, cell: &Cell) -> Vec<&'a str> {
        let mut seen = BTreeSet::new();
        let mut hosts = Vec::new();
        for rank in &cell.ranks {
            if let Some(RankPosition::OnHost(host, _)) = self.positions.get(rank)
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
fn positions(recorded: &Recorded) -> HashMap<u32, RankPosition<'_>> {
    let mut ranks: Vec<_> = recorded.run.ranks.iter().collect();
    ranks.sort_by_key(|record| record.rank);
    let mut on_host: HashMap<&str, u32> = HashMap::new();
    let mut positions = HashMap::with_capacity(ranks.len());
    for record in ranks {
        let place = on_host.entry(&record.host).or_default();
        positions
            .entry(record.rank)
            .or_insert(RankPosition::OnHost(&record.host, *place));
        *place += 1;
    }
    positions
}
