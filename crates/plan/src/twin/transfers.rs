//! What a cell puts between which ranks in one iteration.

use record::binary_tree::BinaryTree;
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
    // What every edge of a tree carries towards the root, and away from it.
    let tree = |tree: BinaryTree, up: u64, down: u64| {
        let edges: Vec<(u32, u32, u64)> = tree
            .edges()
            .flat_map(|(child, parent)| {
                let (child, parent) = (ranks[child], ranks[parent]);
                [(child, parent, up), (parent, child, down)]
            })
            .filter(|(_, _, bytes)| *bytes > 0)
            .collect();
        edges
    };
    let number = ranks.len();
    let root = cell.root as usize % number;
    let between: Vec<(u32, u32, u64)> = match (cell.collective, cell.algorithm) {
        (Collective::PointToPoint, _) => vec![(ranks[0], ranks[1], size)],
        // One after the other; both at once take as long where bytes are few.
        (Collective::Bidirectional | Collective::RoundTrip, _) => {
            vec![(ranks[0], ranks[1], size), (ranks[1], ranks[0], size)]
        }
        (Collective::AllReduce, Algorithm::Ring) => ring(2 * (count - 1) * size / count),
        (Collective::ReduceScatter | Collective::AllGather, Algorithm::Ring) => {
            ring((count - 1) * size / count)
        }
        (Collective::AllReduce, Algorithm::Tree) => tree(BinaryTree::in_order(number), size, size),
        (Collective::AllReduce, Algorithm::DoubleTree) => {
            let mut first = tree(BinaryTree::in_order(number), size.div_ceil(2), size.div_ceil(2));
            first.extend(tree(BinaryTree::complement(number), size / 2, size / 2));
            first
        }
        (Collective::Broadcast, _) => tree(BinaryTree::rooted_at(number, root), 0, size),
        (Collective::Incast, _) => {
            let senders = ranks.iter().filter(|from| **from != ranks[root]);
            senders.map(|from| (*from, ranks[root], size / count)).collect()
        }
        (Collective::AllToAll, _) => {
            let pairs = ranks.iter().flat_map(|a| ranks.iter().map(move |b| (*a, *b)));
            let apart = pairs.filter(|(a, b)| a != b);
            apart.map(|(a, b)| (a, b, size / count)).collect()
        }
        (collective, algorithm) => {
            return Err(format!("the twin does not run {algorithm} {collective}"));
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

#[cfg(test)]
mod tests {
    use super::*;
    use judge::findings::fixture::Fixture;

    fn cell(collective: Collective, algorithm: Algorithm, root: u32) -> Cell {
        Cell {
            collective,
            algorithm,
            root,
            ranks: vec![4, 5, 6, 7, 8, 9],
            rails: vec!["rail0".to_string(), "rail1".to_string()],
            to_rail: None,
            size: Bytes(1200),
            ..Fixture::pairs(2).run.cells[0].clone()
        }
    }

    fn between(transfers: &[Transfer], from: u32, to: u32) -> u64 {
        let of_pair = transfers.iter().filter(|one| one.from == from && one.to == to);
        of_pair.map(|one| one.bytes.0).sum()
    }

    #[test]
    fn trees_carry_the_payload_up_and_down_every_edge() {
        let moved = of(&cell(Collective::AllReduce, Algorithm::Tree, 0)).unwrap();
        // Five edges, both ways, over two rails; the root is the fourth of six.
        assert_eq!(moved.len(), 20);
        assert_eq!((between(&moved, 7, 5), between(&moved, 5, 7)), (1200, 1200));
        assert_eq!(between(&moved, 4, 7), 0);
        let halves = of(&cell(Collective::AllReduce, Algorithm::DoubleTree, 0)).unwrap();
        let all: u64 = halves.iter().map(|one| one.bytes.0).sum();
        assert_eq!(all, 2 * 5 * 1200, "half of it over each of two trees");
    }

    #[test]
    fn what_has_a_root_goes_to_it_or_comes_from_it() {
        let away = of(&cell(Collective::Broadcast, Algorithm::Tree, 2)).unwrap();
        assert!(away.iter().all(|one| one.to != 6) && away.len() == 10, "{away:?}");
        let towards = of(&cell(Collective::Incast, Algorithm::Direct, 2)).unwrap();
        assert!(towards.iter().all(|one| one.to == 6), "{towards:?}");
        assert_eq!(between(&towards, 4, 6), 200);
    }

    #[test]
    fn what_no_model_has_is_refused_by_name() {
        let refused = of(&cell(Collective::Streams, Algorithm::Direct, 0)).unwrap_err();
        assert_eq!(refused, "the twin does not run direct streams");
    }
}
