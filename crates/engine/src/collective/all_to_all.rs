//! Pairwise all-to-all: block `j` of rank `i`'s input becomes block `i` of rank `j`'s output.
//!
//! In round `k` every rank sends to the one `k` ahead and receives from the one `k` behind, so each round is a permutation
//! and no receiver is hit twice. With 4 ranks, block and receiver:
//!
//! ```text
//! round      1         2         3
//! rank 0   b1 > 1    b2 > 2    b3 > 3
//! rank 1   b2 > 2    b3 > 3    b0 > 0
//! rank 2   b3 > 3    b0 > 0    b1 > 1
//! rank 3   b0 > 0    b1 > 1    b2 > 2
//! ```
//!
//! Every ordered pair of ranks carries one block: `1/n` of the payload. A block of one rank takes the place of another
//! block on another, so all blocks have the same length; elements past `n` equal blocks are not part of the collective.

use std::ops::Range;

use super::Scheme;
use super::schedule::{Action, LinkLoad, Schedule, Shape, Step};
use record::{Algorithm, Collective};

/// All-to-all, every pair directly.
pub struct PairwiseAllToAll;

impl Scheme for PairwiseAllToAll {
    fn collective(&self) -> Collective {
        Collective::AllToAll
    }

    fn algorithm(&self) -> Algorithm {
        Algorithm::Direct
    }

    fn schedule(&self, shape: Shape) -> Schedule {
        let own = Step::new(Action::Keep, shape.rank, shape.rank);
        let rounds = (1..shape.ranks).flat_map(|round| {
            let (to, from) = (shape.ahead(round), shape.behind(round));
            [
                Step::new(Action::SendInput, to, to),
                Step::new(Action::RecvCopy, from, from),
            ]
        });
        let steps = [own].into_iter().chain(rounds);
        Schedule::new(equal(shape.elements, shape.ranks), steps, 0..shape.ranks)
    }

    fn link_elements(&self, ranks: usize, elements: usize, _root: usize) -> Vec<LinkLoad> {
        let senders = (0..ranks).flat_map(|from| (0..ranks).map(move |to| (from, to)));
        let pairs = senders.filter(|(from, to)| from != to);
        LinkLoad::per_link(pairs.map(|(from, to)| LinkLoad {
            from,
            to,
            elements: elements / ranks,
        }))
    }

    fn stages_input_in_place(&self) -> bool {
        true
    }
}

/// As many equal blocks as ranks; what does not divide is left over at the end.
fn equal(elements: usize, ranks: usize) -> Vec<Range<usize>> {
    let length = elements / ranks;
    (0..ranks)
        .map(|block| block * length..(block + 1) * length)
        .collect()
}
