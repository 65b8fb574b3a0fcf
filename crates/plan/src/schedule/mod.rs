//! Which pairs meet, and which of them at the same time. Schedules are pure: the same ranks, fabric and seed give the same rounds.
//!
//! - [`tournament`]: every pair once;
//! - [`random`]: a few rounds of seeded random pairs;
//! - [`by_topology`]: pairs on one leaf, pairs across leaves, every spine; no cable is asked for more than it carries.
//!
//! The adaptive schedule is a conversation with the measurements and has a [place](super::adaptive) of its own.

pub mod by_topology;
pub mod random;
pub mod tournament;

use record::Cell;
use topology::graph::{Graph, LinkId};

/// For every link whether cells cross it for sure: their path is known, or all their possible paths share it.
pub fn crossed<'c>(graph: &Graph, cells: impl Iterator<Item = &'c Cell>) -> Vec<bool> {
    let mut crossed = vec![false; graph.link_count()];
    for cell in cells {
        for link in sure(graph, cell) {
            crossed[link.index()] = true;
        }
    }
    crossed
}

/// The links that a cell crosses on every possible path.
fn sure(graph: &Graph, cell: &Cell) -> Vec<LinkId> {
    if !cell.path.is_empty() {
        return cell.path.iter().filter_map(|name| graph.named(name)).collect();
    }
    let ([from, to], [rail]) = (cell.ranks.as_slice(), cell.rails.as_slice()) else {
        return Vec::new();
    };
    let ends = |from: u32, to: u32| [graph.up(from, rail), graph.down(to, rail)];
    let mut links: Vec<LinkId> = ends(*from, *to).into_iter().flatten().collect();
    if cell.collective != record::Collective::PointToPoint {
        links.extend(ends(*to, *from).into_iter().flatten());
    }
    links
}
