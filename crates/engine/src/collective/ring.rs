//! Ring all-reduce: reduce-scatter, then all-gather, around one ring.
//!
//! The payload is cut into `n` blocks. For `n - 1` rounds every rank passes a partial sum to its right neighbour; each
//! block travels the ring collecting every rank's share and is complete at the rank before the one it started from. For
//! `n - 1` more rounds the finished blocks travel on, and every rank keeps a copy. With 4 ranks, what rank `r` sends:
//!
//! ```text
//! round      0      1      2   |   3      4      5
//! rank 0   b0>    b3>    b2>   |  b1*>   b0*>   b3*>      > to the right neighbour
//! rank 1   b1>    b0>    b3>   |  b2*>   b1*>   b0*>      * reduced over all ranks
//! rank 2   b2>    b1>    b0>   |  b3*>   b2*>   b1*>
//! rank 3   b3>    b2>    b1>   |  b0*>   b3*>   b2*>
//! ```
//!
//! Link `r -> r+1` carries every block twice, except that `b(r+1)` and `b(r+2)` pass it once: `2 (n-1)/n` of the payload,
//! the least any all-reduce can send per rank. All links are busy all the time; the price is `2 (n-1)` latencies.

use super::Scheme;
use super::schedule::{Action, LinkLoad, Schedule, Shape, Step, near_equal};
use record::{Algorithm, Collective};

/// All-reduce around one ring.
pub struct Ring;

impl Scheme for Ring {
    fn collective(&self) -> Collective {
        Collective::AllReduce
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
        let reduce = (0..n - 1).flat_map(|round| {
            let last = round == n - 2;
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
        let gather = (0..n - 1).flat_map(|round| {
            [
                Step::new(Action::Send, right, shape.behind(round + n - 1)),
                Step::new(Action::RecvCopy, left, shape.behind(round)),
            ]
        });
        Schedule::new(blocks, reduce.chain(gather), 0..n)
    }

    fn link_elements(&self, ranks: usize, elements: usize, _root: usize) -> Vec<LinkLoad> {
        if ranks == 1 {
            return Vec::new();
        }
        let blocks = near_equal(elements, ranks);
        LinkLoad::per_link((0..ranks).map(|from| {
            let (to, after) = ((from + 1) % ranks, (from + 2) % ranks);
            LinkLoad {
                from,
                to,
                elements: 2 * elements - blocks[to].len() - blocks[after].len(),
            }
        }))
    }
}
