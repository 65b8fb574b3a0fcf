//! Streams that repeat others from source ports of their own, before anything is accused of how those were spread.
//!
//! A hash gives the same ports the same path every time: measured again as they are, streams would show once more what chance
//! did to them. From fresh ports, it must do the same to other streams at another time.
//!
//! Where switches answer so seldom that many paths stay unknown, links cannot be judged by what all streams deliver. Those whose paths are
//! known are then sent once more, alone.

use std::collections::BTreeMap;

use record::{Cell, Collective, MOST_UNKNOWN_PATHS};

/// Fewer known paths of a pair would not fill its cables.
const FEWEST_KNOWN: usize = 4;

/// The cells of a new round.
#[derive(Debug, Default)]
pub struct NextRound {
    /// Cells that are measured again as they are.
    pub as_they_are: Vec<Cell>,
    /// Cells that replace streams: the same senders, receivers and numbers of streams, from ports that no stream of the run had.
    pub fresh: Vec<Cell>,
    /// Streams that were chosen for their paths, once more.
    pub chosen: Vec<Cell>,
}

/// Replaces the streams among the cells of a new round. `recorded` are all cells of the run.
///
/// Where there are not enough ports left, streams keep theirs.
pub fn with_fresh_ports(again: Vec<Cell>, recorded: &[Cell], round: u16) -> NextRound {
    let mut next = NextRound::default();
    let further = ports_had(recorded.iter().filter(|cell| is_streams(cell)));
    let sets = sets_had(recorded);
    let mut numbers = Numbers::after(recorded);
    for mut cell in again {
        let Some(terms) = cell
            .streams
            .as_mut()
            .filter(|terms| cell.collective == Collective::Streams && terms.pattern.is_none())
        else {
            next.as_they_are.push(cell);
            continue;
        };
        terms.round = round;
        let is_chosen = terms.is_chosen();
        if !is_chosen {
            let had = sets.get(cell.test.as_str()).copied().unwrap_or(0);
            terms.set = terms.set.saturating_add(had);
            terms.ways.clear();
            cell.source_port = cell.source_port.map(|port| port + further);
        }
        if is_chosen {
            let halves = [0, 1].map(|half| numbers.given(half_of(&cell, half), half));
            next.chosen.extend(halves);
        } else {
            next.fresh.push(numbers.given(cell, 0));
        }
    }
    next.chosen.sort_by_key(|cell| cell.slot);
    next
}

/// Every other stream of a cell: what a link carries must not depend on which flows ask. All of them where they are few.
fn half_of(cell: &Cell, half: usize) -> Cell {
    match usize::from(cell.flows) >= 2 * FEWEST_KNOWN {
        true => only(cell, (0..cell.flows).skip(half).step_by(2)),
        false => cell.clone(),
    }
}

/// A cell with some of its streams, from the ports that they have.
fn only(cell: &Cell, streams: impl Iterator<Item = u16>) -> Cell {
    let mut of_cell = cell.clone();
    if let Some(terms) = &mut of_cell.streams {
        let (mut ports, mut ways) = (Vec::new(), Vec::new());
        for stream in streams {
            ports.extend(cell.port_of(cell.ranks[0], stream));
            ways.extend(terms.ways.get(usize::from(stream)).cloned());
        }
        of_cell.flows = ports.len() as u16;
        (terms.ports, terms.ways) = (ports, ways);
    }
    of_cell
}

/// The streams of the plan whose paths are known, as cells of their own: in slots where many others are not, nothing can be said of what links
/// carry. None where paths are known well enough, or hardly at all.
pub fn with_known_paths(recorded: &[Cell]) -> Vec<Cell> {
    let planned = |cell: &&Cell| {
        let terms = cell.streams.as_ref().filter(|_| is_streams(cell));
        terms.is_some_and(|terms| terms.round == 0 && !terms.is_chosen() && !terms.one_port)
    };
    let mut slots: BTreeMap<u32, Vec<&Cell>> = BTreeMap::new();
    for cell in recorded.iter().filter(planned) {
        slots.entry(cell.slot).or_default().push(cell);
    }
    let mut numbers = Numbers::after(recorded);
    let mut chosen = Vec::new();
    for cells in slots.into_values() {
        let streams: usize = cells.iter().map(|cell| usize::from(cell.flows)).sum();
        let known: usize = cells.iter().map(|cell| known_paths(cell).count()).sum();
        if (streams - known) as f64 <= MOST_UNKNOWN_PATHS * known as f64 {
            continue;
        }
        let enough = cells
            .iter()
            .filter(|cell| known_paths(cell).count() >= FEWEST_KNOWN);
        chosen.extend(enough.map(|cell| numbers.given(only(cell, known_paths(cell)), 0)));
    }
    chosen
}

/// The streams of a cell whose paths are known from end to end, and not known to change.
fn known_paths(cell: &Cell) -> impl Iterator<Item = u16> {
    let ways = cell.streams.iter().flat_map(|terms| &terms.ways);
    let known = (0..cell.flows)
        .zip(ways)
        .filter(|(_, way)| way.whole && way.steady != Some(false));
    known.map(|(stream, _)| stream)
}

fn is_streams(cell: &Cell) -> bool {
    let terms = cell
        .streams
        .as_ref()
        .filter(|_| cell.collective == Collective::Streams);
    // What a pattern delivers is asked from the ports that it has.
    terms.is_some_and(|terms| terms.pattern.is_none())
}

/// Ids and slots that no cell had.
struct Numbers {
    next_id: u32,
    next_slot: u32,
    /// New slots, by those of the cells that they repeat, and which half of them.
    slots: BTreeMap<(u32, usize), u32>,
}

impl Numbers {
    fn after(recorded: &[Cell]) -> Numbers {
        let next = |numbers: &mut dyn Iterator<Item = u32>| numbers.max().map_or(0, |last| last + 1);
        Numbers {
            next_id: next(&mut recorded.iter().map(|cell| cell.id)),
            next_slot: next(&mut recorded.iter().map(|cell| cell.slot)),
            slots: BTreeMap::new(),
        }
    }

    /// A cell with a new id. Those of one slot share a new one.
    fn given(&mut self, cell: Cell, half: usize) -> Cell {
        let next_slot = &mut self.next_slot;
        let new_slot = self.slots.entry((cell.slot, half));
        Cell {
            slot: *new_slot.or_insert_with(|| take(next_slot)),
            id: take(&mut self.next_id),
            ..cell
        }
    }
}

/// How far ports must be moved to be none of those that streams had; 0 where that leaves the range of ports.
fn ports_had<'c>(streams: impl Iterator<Item = &'c Cell>) -> u16 {
    let ranges = streams.filter_map(|cell| {
        let first = u32::from(cell.source_port?);
        Some((first, first + u32::from(cell.flows)))
    });
    let (first, end) = ranges.fold((u32::MAX, 0), |(first, end), range| {
        (first.min(range.0), end.max(range.1))
    });
    let span = end.saturating_sub(first);
    match end + span <= 1 << 16 {
        true => u16::try_from(span).unwrap_or(0),
        false => 0,
    }
}

/// How many sets of ports every test had so far.
fn sets_had(recorded: &[Cell]) -> BTreeMap<&str, u16> {
    let mut sets: BTreeMap<&str, u16> = BTreeMap::new();
    for cell in recorded {
        if let Some(terms) = &cell.streams {
            let had = sets.entry(&cell.test).or_default();
            *had = (*had).max(terms.set.saturating_add(1));
        }
    }
    sets
}

fn take(next: &mut u32) -> u32 {
    let taken = *next;
    *next += 1;
    taken
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::twin::ecmp::{StreamFabric, first_round};

    fn tuples(cells: &[Cell]) -> HashSet<(Vec<u32>, u16)> {
        let of_cell = |cell: &Cell| -> Vec<(Vec<u32>, u16)> {
            let port = |flow| cell.port_of(cell.ranks[0], flow).unwrap();
            (0..cell.flows)
                .map(|flow| (cell.ranks.clone(), port(flow)))
                .collect()
        };
        cells.iter().flat_map(of_cell).collect()
    }

    #[test]
    fn streams_are_repeated_between_the_same_ranks_from_ports_that_none_of_them_had() {
        let mut recorded = first_round(&StreamFabric::new(4, 2, 1, 2), &[], 1).run.cells;
        let planned = recorded.clone();
        for round in 1..=2 {
            let NextRound {
                as_they_are, fresh, ..
            } = with_fresh_ports(planned.clone(), &recorded, round);
            assert!(as_they_are.is_empty());
            assert!(tuples(&fresh).is_disjoint(&tuples(&recorded)));
            for (cell, of_plan) in fresh.iter().zip(&planned) {
                assert_eq!((&cell.ranks, cell.flows), (&of_plan.ranks, of_plan.flows));
                let terms = cell.streams.as_ref().unwrap();
                assert_eq!((terms.round, terms.ways.len()), (round, 0));
            }
            recorded.extend(fresh);
        }
        let ids: HashSet<u32> = recorded.iter().map(|cell| cell.id).collect();
        assert_eq!(ids.len(), recorded.len());
        let slots = |cells: &[Cell]| cells.iter().map(|cell| cell.slot).collect::<HashSet<u32>>();
        assert_eq!(slots(&recorded).len(), 3 * slots(&planned).len());
    }

    #[test]
    fn streams_keep_their_ports_where_none_are_left() {
        let mut planned = first_round(&StreamFabric::new(4, 2, 1, 2), &[], 1).run.cells;
        for cell in &mut planned {
            cell.source_port = cell.source_port.map(|port| port - 16_000 + 65_300);
        }
        let fresh = with_fresh_ports(planned.clone(), &planned, 1).fresh;
        assert_eq!(tuples(&fresh), tuples(&planned));
        assert!(fresh.iter().all(|cell| cell.id >= planned.len() as u32));
    }

    #[test]
    fn streams_whose_paths_are_known_are_sent_alone_where_too_many_others_are_not() {
        let fabric = StreamFabric {
            flows: vec![32],
            ..StreamFabric::new(4, 2, 1, 2)
        };
        let mut planned = first_round(&fabric, &[], 1).run.cells;
        assert!(with_known_paths(&planned).is_empty(), "all paths are known");
        for cell in &mut planned {
            let ways = &mut cell.streams.as_mut().unwrap().ways;
            ways.iter_mut()
                .skip(1)
                .step_by(2)
                .for_each(|way| way.whole = false);
            ways[2].steady = Some(false);
        }
        let chosen = with_known_paths(&planned);
        assert_eq!(chosen.len(), planned.len());
        for (cell, of_plan) in chosen.iter().zip(&planned) {
            let port = |flow| of_plan.port_of(of_plan.ranks[0], flow).unwrap();
            let wanted: Vec<u16> = (0..of_plan.flows)
                .step_by(2)
                .filter(|flow| *flow != 2)
                .map(port)
                .collect();
            let ports: Vec<u16> = (0..cell.flows)
                .filter_map(|flow| cell.port_of(cell.ranks[0], flow))
                .collect();
            assert_eq!(ports, wanted);
            let terms = cell.streams.as_ref().unwrap();
            assert!(
                terms.is_chosen()
                    && terms.ways.len() == ports.len()
                    && terms.ways.iter().all(|way| way.whole)
            );
            assert!(cell.id >= planned.len() as u32 && cell.slot != of_plan.slot);
        }
        // To confirm what they show, half of them are sent at a time.
        let recorded = [planned, chosen.clone()].concat();
        let again = with_fresh_ports(chosen.clone(), &recorded, 1);
        assert!(again.fresh.is_empty() && again.as_they_are.is_empty());
        assert_eq!(tuples(&again.chosen), tuples(&chosen));
        assert_eq!(again.chosen.len(), 2 * chosen.len());
        let streams = |cells: &[Cell]| cells.iter().map(|cell| u32::from(cell.flows)).sum::<u32>();
        let few = chosen
            .iter()
            .filter(|cell| usize::from(cell.flows) < 2 * FEWEST_KNOWN);
        let twice: u32 = few.map(|cell| u32::from(cell.flows)).sum();
        assert_eq!(streams(&again.chosen), streams(&chosen) + twice);
        let mut of_slots = again.chosen.chunk_by(|a, b| a.slot == b.slot);
        assert!(
            of_slots.all(|cells| tuples(cells).len() == streams(cells) as usize),
            "no stream twice in a slot"
        );
        assert!(
            again
                .chosen
                .iter()
                .all(|cell| cell.streams.as_ref().unwrap().round == 1)
        );
        // Nobody knows enough.
        let mut planned = recorded;
        planned
            .iter_mut()
            .for_each(|cell| cell.streams.as_mut().unwrap().ways.clear());
        assert!(with_known_paths(&planned).is_empty());
    }
}
