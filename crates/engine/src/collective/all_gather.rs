//! Ring all-gather: rank `r` brings block `r`, everyone ends with all blocks.
//!
//! Every block travels the ring once, starting at its owner. With 4 ranks, what rank `r` sends to its right neighbour:
//!
//! ```text
//! round      0      1      2
//! rank 0   b0>    b3>    b2>
//! rank 1   b1>    b0>    b3>
//! rank 2   b2>    b1>    b0>
//! rank 3   b3>    b2>    b1>
//! ```
//!
//! Link `r -> r+1` carries every block but `b(r+1)`, which is its receiver's own: `(n-1)/n` of the payload.

use super::Scheme;
use super::schedule::{Action, LinkLoad, Schedule, Shape, Step, near_equal};
use record::{Algorithm, Collective};

/// All-gather around one ring.
pub struct RingAllGather;

impl Scheme for RingAllGather {
    fn collective(&self) -> Collective {
        Collective::AllGather
    }

    fn algorithm(&self) -> Algorithm {
        Algorithm::Ring
    }

    fn schedule(&self, shape: Shape) -> Schedule {
        let (left, right) = (shape.behind(1), shape.ahead(1));
        let own = Step::new(Action::Keep, shape.rank, shape.rank);
        let rounds = (0..shape.ranks - 1).flat_map(|round| {
            [
                Step::new(Action::Send, right, shape.behind(round)),
                Step::new(Action::RecvCopy, left, shape.behind(round + 1)),
            ]
        });
        let steps = [own].into_iter().chain(rounds);
        Schedule::new(near_equal(shape.elements, shape.ranks), steps, 0..shape.ranks)
    }

    fn link_elements(&self, ranks: usize, elements: usize, _root: usize) -> Vec<LinkLoad> {
        if ranks == 1 {
            return Vec::new();
        }
        let blocks = near_equal(elements, ranks);
        LinkLoad::per_link((0..ranks).map(|from| {
            let to = (from + 1) % ranks;
            LinkLoad {
                from,
                to,
                elements: elements - blocks[to].len(),
            }
        }))
    }
}
