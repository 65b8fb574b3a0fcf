//! Streams that repeat others from source ports of their own, before anything is accused of how those were spread.
//!
//! A hash gives the same ports the same path every time: measured again as they are, streams would show once more what chance
//! did to them. From fresh ports, it must do the same to other streams at another time.

use std::collections::BTreeMap;

use record::{Cell, Collective};

/// Divides the cells of a new round into those that are measured again as they are, and cells that replace streams: the same
/// senders, receivers and numbers of streams, from ports that no stream of the run had. `recorded` are all cells of the run.
///
/// Where there are not enough ports left, streams keep theirs.
pub fn with_fresh_ports(again: Vec<Cell>, recorded: &[Cell], round: u16) -> (Vec<Cell>, Vec<Cell>) {
    let is_streams = |cell: &Cell| cell.collective == Collective::Streams && cell.streams.is_some();
    let (streams, as_they_are): (Vec<Cell>, Vec<Cell>) = again.into_iter().partition(is_streams);
    let further = ports_had(recorded.iter().filter(|cell| is_streams(cell)));
    let sets = sets_had(recorded);
    let mut next_id = next(recorded.iter().map(|cell| cell.id));
    let mut next_slot = next(recorded.iter().map(|cell| cell.slot));
    let mut slots: BTreeMap<u32, u32> = BTreeMap::new();
    let fresh = streams.into_iter().map(|mut cell| {
        cell.slot = *slots.entry(cell.slot).or_insert_with(|| take(&mut next_slot));
        cell.id = take(&mut next_id);
        cell.source_port = cell.source_port.map(|port| port + further);
        let had = sets.get(cell.test.as_str()).copied().unwrap_or(0);
        if let Some(terms) = &mut cell.streams {
            terms.set = terms.set.saturating_add(had);
            terms.round = round;
            terms.ways.clear();
        }
        cell
    });
    let fresh = fresh.collect();
    (as_they_are, fresh)
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

fn next(numbers: impl Iterator<Item = u32>) -> u32 {
    numbers.max().map_or(0, |last| last + 1)
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
            let (others, fresh) = with_fresh_ports(planned.clone(), &recorded, round);
            assert!(others.is_empty());
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
        let (_, fresh) = with_fresh_ports(planned.clone(), &planned, 1);
        assert_eq!(tuples(&fresh), tuples(&planned));
        assert!(fresh.iter().all(|cell| cell.id >= planned.len() as u32));
    }
}
