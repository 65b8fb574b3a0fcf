//! Incast: every rank sends its block to the root, all at the same time.
//!
//! ```text
//!     1 --->
//!     2 --->  0        root 0, 4 ranks
//!     3 --->
//! ```
//!
//! The link into the root carries `(n-1)/n` of the payload, every sender's link `1/n`: this shows how a switch handles
//! oversubscription of an output port. The root ends with all blocks in order of rank.

use super::Scheme;
use super::schedule::{Action, LinkLoad, Schedule, Shape, Step, near_equal};
use record::{Algorithm, Collective};

/// Blocks of all ranks, straight to the root.
pub struct Incast;

impl Scheme for Incast {
    fn collective(&self) -> Collective {
        Collective::Incast
    }

    fn algorithm(&self) -> Algorithm {
        Algorithm::Direct
    }

    fn schedule(&self, shape: Shape) -> Schedule {
        let blocks = near_equal(shape.elements, shape.ranks);
        if shape.rank != shape.root {
            let send = Step::new(Action::Send, shape.root, shape.rank);
            return Schedule::new(blocks, [send], []);
        }
        let own = Step::new(Action::Keep, shape.rank, shape.rank);
        let others = (1..shape.ranks).map(|distance| {
            let from = shape.ahead(distance);
            Step::new(Action::RecvCopy, from, from)
        });
        Schedule::new(blocks, [own].into_iter().chain(others), 0..shape.ranks)
    }

    fn link_elements(&self, ranks: usize, elements: usize, root: usize) -> Vec<LinkLoad> {
        let length = |block: usize| elements / ranks + usize::from(block < elements % ranks);
        let senders = (0..ranks).filter(|from| *from != root);
        LinkLoad::per_link(senders.map(|from| LinkLoad {
            from,
            to: root,
            elements: length(from),
        }))
    }
}
