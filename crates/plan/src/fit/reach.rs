//! What every slot reaches, and how often the slots that are kept reach it.
//!
//! A part is a host, one direction of a rank's end of a rail, or a directed link that a flow is known to cross. A measurement is what cells
//! share that are each other's peers; a part that one measurement reaches is not reached by another.

use std::collections::HashMap;
use std::hash::Hash;

use super::FEWEST_PEERS;
use crate::Plan;
use record::{Cell, Collective, EndDirection, TestRecord};
use topology::Fabric;

/// What a measurement can be about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum ReachedPart<'a> {
    Host(&'a str),
    /// A rank's end of a rail; whether data leaves it or arrives.
    End(u32, &'a str, EndDirection),
    Link(&'a str),
}

/// Numbers things in the order in which they are first seen.
struct Numbers<T>(HashMap<T, u32>);

impl<T: Hash + Eq> Numbers<T> {
    fn of(&mut self, thing: T) -> u32 {
        let next = self.0.len() as u32;
        *self.0.entry(thing).or_insert(next)
    }
}

/// What one slot reaches.
#[derive(Default)]
struct SlotReach {
    /// Its parts by number, each once.
    parts: Vec<u32>,
    /// Its parts within each of its measurements, each once.
    reached: Vec<u32>,
    /// Its measurements, and how many of its cells are of them.
    measurements: Vec<(u32, u32)>,
}

/// What all slots reach.
pub(super) struct Reaches<'a> {
    slots: Vec<SlotReach>,
    parts: Vec<ReachedPart<'a>>,
    /// Kept slots that reach each part.
    of_part: Vec<u32>,
    /// Kept slots that reach each part by each measurement.
    of_reached: Vec<u32>,
    /// Kept cells of each measurement, and the fewest it may have.
    of_measurement: Vec<(u32, u32)>,
}

impl<'a> Reaches<'a> {
    pub(super) fn of(plan: &'a Plan, fabric: &'a Fabric, by_peers: impl Fn(&TestRecord) -> bool) -> Self {
        let hosts: HashMap<u32, &str> = fabric
            .ranks
            .iter()
            .map(|record| (record.rank, record.host.as_str()))
            .collect();
        let judged: HashMap<&str, bool> = plan
            .tests
            .iter()
            .map(|test| (test.name.as_str(), by_peers(test)))
            .collect();
        let mut parts = Numbers(HashMap::new());
        let mut reached = Numbers(HashMap::new());
        let mut measurements = Numbers(HashMap::new());
        let mut of_measurement: Vec<(u32, bool)> = Vec::new();
        let mut slots = Vec::new();
        for slot in plan.slots() {
            let mut reach = SlotReach::default();
            for cell in slot {
                let measurement = measurements.of(cell.peer_key());
                if measurement as usize == of_measurement.len() {
                    let by_peers = judged.get(cell.test.as_str()).copied().unwrap_or(false);
                    of_measurement.push((0, by_peers));
                }
                of_measurement[measurement as usize].0 += 1;
                match reach
                    .measurements
                    .iter_mut()
                    .find(|(known, _)| *known == measurement)
                {
                    Some((_, cells)) => *cells += 1,
                    None => reach.measurements.push((measurement, 1)),
                }
                for part in parts_of(cell, &hosts) {
                    let part = parts.of(part);
                    reach.parts.push(part);
                    reach.reached.push(reached.of((measurement, part)));
                }
            }
            for list in [&mut reach.parts, &mut reach.reached] {
                list.sort_unstable();
                list.dedup();
            }
            slots.push(reach);
        }
        let count = |many: usize, list: fn(&SlotReach) -> &Vec<u32>| {
            let mut counts = vec![0; many];
            for number in slots.iter().flat_map(list) {
                counts[*number as usize] += 1;
            }
            counts
        };
        let mut named: Vec<(ReachedPart<'a>, u32)> = parts.0.into_iter().collect();
        named.sort_unstable_by_key(|(_, number)| *number);
        let fewest = |(cells, by_peers): (u32, bool)| match by_peers {
            true => (cells, cells.min(1 + FEWEST_PEERS)),
            false => (cells, 0),
        };
        Reaches {
            of_part: count(named.len(), |slot| &slot.parts),
            of_reached: count(reached.0.len(), |slot| &slot.reached),
            of_measurement: of_measurement.into_iter().map(fewest).collect(),
            parts: named.into_iter().map(|(part, _)| part).collect(),
            slots,
        }
    }

    /// The slot is kept no longer.
    pub(super) fn forget(&mut self, slot: usize) {
        let reach = &self.slots[slot];
        for part in &reach.parts {
            self.of_part[*part as usize] -= 1;
        }
        for reached in &reach.reached {
            self.of_reached[*reached as usize] -= 1;
        }
        for (measurement, cells) in &reach.measurements {
            self.of_measurement[*measurement as usize].0 -= cells;
        }
    }

    /// Whether other slots of the same measurements reach all that this one does, and no cell lacks a peer without it.
    pub(super) fn can_spare(&self, slot: usize) -> bool {
        let reach = &self.slots[slot];
        let is_left = |(measurement, cells): &(u32, u32)| {
            let (kept, fewest) = self.of_measurement[*measurement as usize];
            kept - cells >= fewest
        };
        let is_reached = |reached: &u32| self.of_reached[*reached as usize] > 1;
        reach.reached.iter().all(is_reached) && reach.measurements.iter().all(is_left)
    }

    /// Whether kept slots besides these reach all that these do.
    pub(super) fn others_reach_all_of(&self, slots: &[usize]) -> bool {
        let mut own: HashMap<u32, u32> = HashMap::new();
        for part in slots.iter().flat_map(|slot| &self.slots[*slot].parts) {
            *own.entry(*part).or_default() += 1;
        }
        own.iter().all(|(part, own)| self.of_part[*part as usize] > *own)
    }

    /// The measurement of a slot's first cell, numbered as they come in the plan.
    pub(super) fn first_measurement_of(&self, slot: usize) -> u32 {
        let first = self.slots[slot].measurements.first();
        first.map_or(0, |(measurement, _)| *measurement)
    }

    /// Whether some cell of the slot has fewer peers left than it must have.
    pub(super) fn lacks_peers(&self, slot: usize) -> bool {
        let lacks = |(measurement, _): &(u32, u32)| {
            let (kept, fewest) = self.of_measurement[*measurement as usize];
            kept < fewest
        };
        self.slots[slot].measurements.iter().any(lacks)
    }

    /// The parts that no kept slot reaches, and how many parts there are.
    pub(super) fn lost(&self) -> (Vec<ReachedPart<'a>>, usize) {
        let parts = self.parts.iter().zip(&self.of_part);
        let mut lost: Vec<ReachedPart<'a>> = parts
            .filter(|(_, kept)| **kept == 0)
            .map(|(part, _)| *part)
            .collect();
        lost.sort_unstable();
        (lost, self.parts.len())
    }
}

/// What cells have in common that differ in size only: they are one sweep.
pub(super) fn sweep_of(cell: &Cell) -> impl Ord + '_ {
    (
        (&cell.test, cell.load, cell.collective, cell.algorithm),
        (
            cell.ranks.len(),
            cell.rails.len(),
            cell.to_rail.is_some(),
            cell.flows,
        ),
        (
            cell.group,
            cell.streams.as_ref().map(|terms| terms.set),
            cell.transport,
        ),
        (cell.dtype, cell.op, cell.placement),
        (cell.engine, cell.batch, cell.verbs),
    )
}

/// What a cell reaches.
fn parts_of<'a>(cell: &'a Cell, hosts: &HashMap<u32, &'a str>) -> Vec<ReachedPart<'a>> {
    let one_way = matches!(cell.collective, Collective::PointToPoint | Collective::Streams);
    let mut parts = Vec::new();
    for (position, rank) in cell.ranks.iter().enumerate() {
        parts.extend(hosts.get(rank).map(|host| ReachedPart::Host(host)));
        let directions: &[EndDirection] = match (one_way, position) {
            (true, 0) => &[EndDirection::Out],
            (true, _) => &[EndDirection::In],
            (false, _) => &[EndDirection::Out, EndDirection::In],
        };
        let rails: Vec<&String> = match (&cell.to_rail, position) {
            (Some(other), 1..) => vec![other],
            _ => cell.rails.iter().collect(),
        };
        for rail in rails {
            parts.extend(
                directions
                    .iter()
                    .map(|direction| ReachedPart::End(*rank, rail, *direction)),
            );
        }
    }
    parts.extend(cell.path.iter().map(|link| ReachedPart::Link(link)));
    let of_streams = cell.streams.iter().flat_map(|terms| &terms.ways);
    let of_probes = cell.probes.iter().flat_map(|terms| &terms.flows);
    let paths = of_streams.chain(of_probes.filter_map(|flow| flow.way.as_ref()));
    parts.extend(
        paths
            .flat_map(|path| &path.links)
            .map(|link| ReachedPart::Link(link)),
    );
    parts
}
