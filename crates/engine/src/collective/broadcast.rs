//! Tree broadcast: the root's payload down a binary tree.
//!
//! One block, cut into chunks by the executor, so that a chunk moves on while the next arrives. The tree is the in-order
//! one, rotated so that the root is on top; with 6 ranks and root 0:
//!
//! ```text
//!           0
//!         v   v
//!       4       2
//!      v v     v
//!     3   5   1
//! ```
//!
//! Every edge carries the payload once, downwards. A rank with two children sends it twice, so the rate is half a port's
//! at best, and the latency is the depth, `log2 n` at most.

use super::Scheme;
use super::schedule::{Action, LinkLoad, Schedule, Shape, Step, near_equal};
use super::tree::broadcast_down;
use record::binary_tree::BinaryTree;
use record::{Algorithm, Collective};

/// Broadcast over one binary tree.
pub struct TreeBroadcast;

impl Scheme for TreeBroadcast {
    fn collective(&self) -> Collective {
        Collective::Broadcast
    }

    fn algorithm(&self) -> Algorithm {
        Algorithm::Tree
    }

    fn schedule(&self, shape: Shape) -> Schedule {
        let tree = BinaryTree::rooted_at(shape.ranks, shape.root);
        let own = tree
            .parent(shape.rank)
            .is_none()
            .then(|| Step::new(Action::Keep, shape.rank, 0));
        let steps = own.into_iter().chain(broadcast_down(&tree, shape.rank, 0));
        Schedule::new(near_equal(shape.elements, 1), steps, [0])
    }

    fn link_elements(&self, ranks: usize, elements: usize, root: usize) -> Vec<LinkLoad> {
        let edges = BinaryTree::rooted_at(ranks, root);
        LinkLoad::per_link(edges.edges().map(|(child, parent)| LinkLoad {
            from: parent,
            to: child,
            elements,
        }))
    }
}
