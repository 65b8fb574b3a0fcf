//! Tree all-reduce: reduce up one binary tree, broadcast down the same tree.
//!
//! The payload is one block; the executor cuts it into chunks, and chunk after chunk climbs the tree while earlier ones
//! already come down, so a large payload keeps every link busy in both directions:
//!
//! ```text
//!          3                 3*
//!        ^   ^             v   v
//!       1     5           1*    5*       * reduced over all ranks
//!      ^ ^   ^           v v   v
//!     0   2 4           0*  2* 4*
//! ```
//!
//! Every edge carries the payload once up and once down; a rank with two children receives the payload up to three
//! times, which is why one tree cannot use the full rate of a port. Latency: twice the depth, `2 log2 n` at most.

use super::Scheme;
use super::schedule::{Action, LinkLoad, Schedule, Shape, Step, near_equal};
use record::binary_tree::BinaryTree;
use record::{Algorithm, Collective};

/// All-reduce over one binary tree.
pub struct Tree;

impl Scheme for Tree {
    fn collective(&self) -> Collective {
        Collective::AllReduce
    }

    fn algorithm(&self) -> Algorithm {
        Algorithm::Tree
    }

    fn schedule(&self, shape: Shape) -> Schedule {
        let blocks = near_equal(shape.elements, 1);
        if shape.ranks == 1 {
            return Schedule::new(blocks, [Step::new(Action::Keep, 0, 0)], [0]);
        }
        let tree = BinaryTree::in_order(shape.ranks);
        let steps = [
            reduce_up(&tree, shape.rank, 0),
            broadcast_down(&tree, shape.rank, 0),
        ]
        .concat();
        Schedule::new(blocks, steps, [0])
    }

    fn link_elements(&self, ranks: usize, elements: usize, _root: usize) -> Vec<LinkLoad> {
        LinkLoad::per_link(both_ways(&BinaryTree::in_order(ranks), elements))
    }
}

/// Combines what the children send with the rank's own value, and passes it to the parent.
pub(super) fn reduce_up(tree: &BinaryTree, rank: usize, block: usize) -> Vec<Step> {
    let parent = tree.parent(rank);
    let children: Vec<usize> = tree.children(rank).collect();
    let receives = children.iter().enumerate().map(|(i, &child)| {
        let last = parent.is_none() && i + 1 == children.len();
        Step::new(
            if last {
                Action::RecvReduceLast
            } else {
                Action::RecvReduce
            },
            child,
            block,
        )
    });
    let send = parent.map(|parent| Step::new(Action::Send, parent, block));
    receives.chain(send).collect()
}

/// Takes the value from the parent, and passes it to the children.
pub(super) fn broadcast_down(tree: &BinaryTree, rank: usize, block: usize) -> Vec<Step> {
    let receive = tree
        .parent(rank)
        .map(|parent| Step::new(Action::RecvCopy, parent, block));
    let sends = tree
        .children(rank)
        .map(|child| Step::new(Action::Send, child, block));
    receive.into_iter().chain(sends).collect()
}

/// The same load on every edge of a tree, up and down.
pub(super) fn both_ways(tree: &BinaryTree, elements: usize) -> impl Iterator<Item = LinkLoad> {
    tree.edges().flat_map(move |(child, parent)| {
        [
            LinkLoad {
                from: child,
                to: parent,
                elements,
            },
            LinkLoad {
                from: parent,
                to: child,
                elements,
            },
        ]
    })
}
