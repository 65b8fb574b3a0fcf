//! What is left to measure once parts of the fabric are lost.
//!
//! Cells that do not concern the lost parts stay as they are. A group that loses members is measured without them, as a
//! new cell; a pair that loses one cannot be measured. A cell that was interrupted is measured anew, also as a new cell,
//! so that its samples never mix with those of the first try. Nothing disappears: every cell that is not measured as it
//! was planned is in `not_run` with the reason.

use std::collections::BTreeSet;
use std::fmt;

use record::units::Bytes;
use record::{Cell, RankRecord};

/// Parts that are lost.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LostParts {
    /// Hosts.
    pub hosts: BTreeSet<String>,
    /// Hosts with a rail of theirs that is silent.
    pub rails: BTreeSet<(String, String)>,
}

impl LostParts {
    /// The ranks on lost hosts.
    pub fn ranks(&self, ranks: &[RankRecord]) -> Vec<u32> {
        let lost = ranks.iter().filter(|record| self.hosts.contains(&record.host));
        lost.map(|record| record.rank).collect()
    }

    /// Why `record` cannot take part in `cell`, when it cannot.
    fn hinders(&self, record: &RankRecord, cell: &Cell) -> Option<String> {
        if self.hosts.contains(&record.host) {
            return Some(format!("{} was lost", record.host));
        }
        let rail = cell.rails.iter().find(|rail| self.includes(record, rail))?;
        Some(format!("{rail} at {} went silent", record.host))
    }

    /// Whether a rank's end of a rail is lost, by itself or with its host.
    pub fn includes(&self, record: &RankRecord, rail: &str) -> bool {
        let end = (record.host.clone(), rail.to_string());
        self.hosts.contains(&record.host) || self.rails.contains(&end)
    }
}

impl fmt::Display for LostParts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hosts = self.hosts.iter().cloned();
        let rails = self.rails.iter().map(|(host, rail)| format!("{rail} at {host}"));
        f.write_str(&hosts.chain(rails).collect::<Vec<_>>().join(", "))
    }
}

/// What is left.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Rest {
    /// The cells to measure, in order: those that stay and those that are new.
    pub cells: Vec<Cell>,
    /// The new ones among them.
    pub new: Vec<Cell>,
    /// Ids of the cells that will not be measured, or not as planned, and why.
    pub not_run: Vec<(u32, String)>,
}

/// What is left of `cells`, none of which was measured to its end, without the `lost` parts. New cells are numbered from
/// `next_id`; `begun` says which cells have samples already and are measured anew, and why.
pub fn without(
    cells: &[Cell],
    ranks: &[RankRecord],
    lost: &LostParts,
    next_id: u32,
    begun: impl Fn(u32) -> Option<String>,
) -> Rest {
    let mut rest = Rest::default();
    for cell in cells {
        let hindrance = |rank: &u32| {
            let record = ranks.iter().find(|record| record.rank == *rank)?;
            lost.hinders(record, cell)
        };
        let reason = cell.ranks.iter().find_map(hindrance);
        let left: Vec<u32> = cell
            .ranks
            .iter()
            .copied()
            .filter(|rank| hindrance(rank).is_none())
            .collect();
        let is_group = cell.ranks.len() > 2;
        let Some(reason) = reason.or_else(|| begun(cell.id)) else {
            rest.cells.push(cell.clone());
            continue;
        };
        if left.len() == cell.ranks.len() || is_group && left.len() >= 2 {
            let new = shrunk(cell, left, next_id + rest.new.len() as u32);
            rest.not_run
                .push((cell.id, format!("{reason}; measured as cell {} instead", new.id)));
            rest.cells.push(new.clone());
            rest.new.push(new);
        } else {
            rest.not_run.push((cell.id, reason));
        }
    }
    rest
}

/// `cell` for fewer ranks: blocks stay equal and hold whole elements, and the root is one that is left.
fn shrunk(cell: &Cell, ranks: Vec<u32>, id: u32) -> Cell {
    let size = match cell.collective.is_blocked() {
        true => {
            let unit = (ranks.len() * cell.dtype.size()) as u64;
            Bytes((cell.size.0 / unit).max(1) * unit)
        }
        false => cell.size,
    };
    // The root is a position: the same rank where it is left, else the first.
    let root = cell.ranks.get(cell.root as usize);
    let root = ranks.iter().position(|rank| Some(rank) == root).unwrap_or(0) as u32;
    let mut probes = cell.probes.clone();
    if let Some(terms) = &mut probes {
        terms
            .flows
            .retain(|flow| ranks.contains(&flow.from) && ranks.contains(&flow.to));
    }
    Cell {
        id,
        size,
        root,
        ranks,
        probes,
        ..cell.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Choices, Plan};
    use probe::rails;
    use record::DeviceKind;
    use topology::Fabric;
    use topology::suite::Suite;

    /// Four hosts with one rank each, and the plan of the rails suite on them.
    fn planned() -> (Vec<RankRecord>, Vec<Cell>) {
        let suite = Suite::load("rails").unwrap();
        let mut fabric = Fabric::local(
            record::HostRecord::named("node"),
            4,
            DeviceKind::Host,
            rails::loopback().unwrap(),
        );
        for record in &mut fabric.ranks {
            record.host = format!("h{}", record.rank);
        }
        let plan = Plan::new(&suite, &fabric, &Choices::default()).unwrap();
        (fabric.ranks, plan.cells)
    }

    fn lost_host(host: &str) -> LostParts {
        LostParts {
            hosts: [host.to_string()].into(),
            ..LostParts::default()
        }
    }

    #[test]
    fn groups_shrink_pairs_with_the_lost_end_and_the_rest_stays() {
        let (ranks, cells) = planned();
        let rest = without(&cells, &ranks, &lost_host("h2"), 1000, |_| None);
        assert!(rest.cells.iter().all(|cell| !cell.ranks.contains(&2)));
        let groups = cells.iter().filter(|cell| cell.ranks.len() == 4).count();
        assert_eq!(rest.new.len(), groups);
        assert!(
            rest.new
                .iter()
                .all(|cell| cell.ranks == [0, 1, 3] && cell.id >= 1000)
        );
        let with_two = cells.iter().filter(|cell| cell.ranks.contains(&2)).count();
        assert_eq!(rest.not_run.len(), with_two);
        assert!(
            rest.not_run
                .iter()
                .all(|(_, reason)| reason.starts_with("h2 was lost"))
        );
        assert_eq!(rest.cells.len() + with_two - groups, cells.len());
        let mut ids: Vec<u32> = rest.cells.iter().map(|cell| cell.id).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), rest.cells.len());
    }

    #[test]
    fn a_silent_rail_leaves_the_host_its_other_rails() {
        let (ranks, cells) = planned();
        let rail = cells[0].rails[0].clone();
        let lost = LostParts {
            rails: [("h1".to_string(), rail.clone())].into(),
            ..LostParts::default()
        };
        let rest = without(&cells, &ranks, &lost, 1000, |_| None);
        let uses = |cell: &Cell| cell.ranks.contains(&1) && cell.rails.contains(&rail);
        assert!(!rest.cells.iter().any(uses));
        assert!(rest.cells.iter().any(|cell| cell.ranks.contains(&1)));
        // What runs at the same time stays together.
        let slots = |cells: &[Cell]| cells.chunk_by(|a, b| a.slot == b.slot).count();
        let kept: BTreeSet<u32> = rest.cells.iter().map(|cell| cell.slot).collect();
        assert_eq!(slots(&rest.cells), kept.len());
    }

    #[test]
    fn an_end_of_a_rail_is_lost_with_its_host_or_by_itself() {
        let (ranks, _) = planned();
        let silent = LostParts {
            rails: [("h1".to_string(), "a".to_string())].into(),
            ..lost_host("h2")
        };
        let is_lost = |rank: usize| ["a", "b"].map(|rail| silent.includes(&ranks[rank], rail));
        assert_eq!(
            [0, 1, 2].map(is_lost),
            [[false, false], [true, false], [true, true]]
        );
    }

    #[test]
    fn an_interrupted_cell_is_measured_anew_under_a_new_number() {
        let (ranks, cells) = planned();
        let rest = without(&cells, &ranks, &LostParts::default(), 1000, |id| {
            (id == cells[3].id).then(|| "it was cut off".to_string())
        });
        assert_eq!(rest.new.len(), 1);
        assert_eq!((rest.new[0].id, &rest.new[0].ranks), (1000, &cells[3].ranks));
        assert_eq!(rest.not_run[0].0, cells[3].id);
        assert!(rest.not_run[0].1.contains("cell 1000"), "{}", rest.not_run[0].1);
    }
}
