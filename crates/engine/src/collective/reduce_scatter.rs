//! Ring reduce-scatter: rank `r` ends with block `r` of the reduction.
//!
//! Every block travels the ring once, collecting every rank's share, and starts one past its owner so that it ends there.
//! With 4 ranks, what rank `r` sends to its right neighbour:
//!
//! ```text
//! round      0      1      2
//! rank 0   b3>    b2>    b1>
//! rank 1   b0>    b3>    b2>
//! rank 2   b1>    b0>    b3>
//! rank 3   b2>    b1>    b0>
//! ```
//!
//! Link `r -> r+1` carries every block but `b(r)`: `(n-1)/n` of the payload. Blocks a rank only passes on are built up in
//! its output too, which is therefore as large as the payload.

use super::Scheme;
use super::schedule::{Action, LinkLoad, Schedule, Shape, Step, near_equal};
use record::{Algorithm, Collective};

/// Reduce-scatter around one ring.
pub struct RingReduceScatter;

impl Scheme for RingReduceScatter {
    fn collective(&self) -> Collective {
        Collective::ReduceScatter
    }

    fn algorithm(&self) -> Algorithm {
        Algorithm::Ring
    }

    fn schedule(&self, shape: Shape) -> Schedule {
        let n = shape.ranks;
        let blocks = near_equal(shape.elements, n);
        if n == 1 {
            return Schedule::new(blocks, [Step::new(Action::Keep, 0, 0)], [0]);
        }
        let (left, right) = (shape.behind(1), shape.ahead(1));
        let steps = (1..n).flat_map(|round| {
            let last = round == n - 1;
            let receive = if last {
                Action::RecvReduceLast
            } else {
                Action::RecvReduce
            };
            [
                Step::new(Action::Send, right, shape.behind(round)),
                Step::new(receive, left, shape.behind(round + 1)),
            ]
        });
        Schedule::new(blocks, steps, [shape.rank])
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
                elements: elements - blocks[from].len(),
            }
        }))
    }
}
