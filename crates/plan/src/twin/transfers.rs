//! What a cell puts between which ranks in one iteration.

use record::units::Bytes;
use record::{Algorithm, Cell, Collective, LinkTraffic};

/// Bytes from one rank to another over one rail.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Transfer {
    pub from: u32,
    pub to: u32,
    pub rail: String,
    pub bytes: Bytes,
}

impl Transfer {
    pub fn moved(&self) -> LinkTraffic {
        LinkTraffic {
            from: self.from,
            to: self.to,
            rail: Some(self.rail.clone()),
            bytes: self.bytes,
        }
    }
}

/// The transfers of a cell, or why the twin cannot run it.
pub(super) fn of(cell: &Cell) -> Result<Vec<Transfer>, String> {
    if cell.rails.is_empty() {
        return Err(format!(
            "the twin has rails only, and {} has none",
            cell.transport
        ));
    }
    if cell.to_rail.is_some() {
        return Err("the twin does not run pairs across rails".to_string());
    }
    let (ranks, size) = (&cell.ranks, cell.size.0);
    let count = ranks.len() as u64;
    if count < 2 {
        return Err("one rank alone moves nothing".to_string());
    }
    let ring = |bytes: u64| {
        let next = ranks.iter().cycle().skip(1);
        ranks
            .iter()
            .zip(next)
            .map(move |(a, b)| (*a, *b, bytes))
            .collect()
    };
    let between: Vec<(u32, u32, u64)> = match (cell.collective, cell.algorithm) {
        (Collective::PointToPoint, _) => vec![(ranks[0], ranks[1], size)],
        (Collective::Bidirectional, _) => vec![(ranks[0], ranks[1], size), (ranks[1], ranks[0], size)],
        (Collective::AllReduce, Algorithm::Ring) => ring(2 * (count - 1) * size / count),
        (Collective::ReduceScatter | Collective::AllGather, Algorithm::Ring) => {
            ring((count - 1) * size / count)
        }
        (Collective::AllToAll, _) => {
            let pairs = ranks.iter().flat_map(|a| ranks.iter().map(move |b| (*a, *b)));
            let apart = pairs.filter(|(a, b)| a != b);
            apart.map(|(a, b)| (a, b, size / count)).collect()
        }
        (collective, algorithm) => {
            return Err(format!(
                "the twin runs pairs, rings and all-to-all, not {algorithm} {collective}"
            ));
        }
    };
    let rails = cell.rails.len() as u64;
    let striped = between.iter().flat_map(|(from, to, bytes)| {
        cell.rails.iter().map(move |rail| Transfer {
            from: *from,
            to: *to,
            rail: rail.clone(),
            bytes: Bytes(bytes / rails),
        })
    });
    Ok(striped.collect())
}
