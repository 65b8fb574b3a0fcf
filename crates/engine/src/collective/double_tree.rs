//! Double-tree all-reduce: two complementary binary trees, half the payload on each.
//!
//! A leaf of a tree sends and receives its half once; an interior rank does so up to three times. No rank is interior in
//! both trees, so the work evens out and ports run at full rate in both directions, at a tree's logarithmic latency. With
//! 6 ranks:
//!
//! ```text
//!     first half: odd ranks inside      second half: even ranks inside
//!
//!             3                                 2
//!           /   \                             /   \
//!         1       5                         4       0
//!        / \     /                         / \     /
//!       0   2   4                         5   3   1
//! ```
//!
//! Every edge of a tree carries half the payload up and half down; an edge that both trees have carries both.
//!
//! The four phases have the same order on every rank: up the first tree, up the second, down the first, down the second.
//! Two ranks may be neighbours in both trees, and one order everywhere is what keeps their messages matched.

use super::Scheme;
use super::schedule::{Action, LinkLoad, Schedule, Shape, Step, near_equal};
use super::tree::{both_ways, broadcast_down, reduce_up};
use record::binary_tree::BinaryTree;
use record::{Algorithm, Collective};

/// All-reduce over two complementary binary trees.
pub struct DoubleTree;

impl Scheme for DoubleTree {
    fn collective(&self) -> Collective {
        Collective::AllReduce
    }

    fn algorithm(&self) -> Algorithm {
        Algorithm::DoubleTree
    }

    fn schedule(&self, shape: Shape) -> Schedule {
        let halves = near_equal(shape.elements, 2);
        if shape.ranks == 1 {
            return Schedule::new(
                halves,
                [0, 1].map(|half| Step::new(Action::Keep, 0, half)),
                [0, 1],
            );
        }
        let trees = trees(shape.ranks);
        let ups = (0..2).flat_map(|half| reduce_up(&trees[half], shape.rank, half));
        let downs = (0..2).flat_map(|half| broadcast_down(&trees[half], shape.rank, half));
        Schedule::new(halves, ups.chain(downs), [0, 1])
    }

    fn link_elements(&self, ranks: usize, elements: usize, _root: usize) -> Vec<LinkLoad> {
        let [first, second] = trees(ranks);
        let (longer, shorter) = (elements.div_ceil(2), elements / 2);
        LinkLoad::per_link(both_ways(&first, longer).chain(both_ways(&second, shorter)))
    }
}

fn trees(ranks: usize) -> [BinaryTree; 2] {
    [BinaryTree::in_order(ranks), BinaryTree::complement(ranks)]
}
