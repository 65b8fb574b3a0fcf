//! Point-to-point: rank 0 sends the payload to rank 1.
//!
//! ```text
//!     0 ---> 1        2, 3, ... idle
//! ```
//!
//! Link `0 -> 1` carries the payload once: what a link gives when nothing else is asked of it. A single rank has nobody to
//! send to, and does nothing.

use super::Scheme;
use super::schedule::{Action, LinkLoad, Schedule, Shape, Step, near_equal};
use record::{Algorithm, Collective};

/// One payload from the first rank to the second.
pub struct PointToPoint;

impl Scheme for PointToPoint {
    fn collective(&self) -> Collective {
        Collective::PointToPoint
    }

    fn algorithm(&self) -> Algorithm {
        Algorithm::Direct
    }

    fn schedule(&self, shape: Shape) -> Schedule {
        let payload = near_equal(shape.elements, 1);
        match shape.rank {
            0 if shape.ranks > 1 => Schedule::new(payload, [Step::new(Action::Send, 1, 0)], []),
            1 => Schedule::new(payload, [Step::new(Action::RecvCopy, 0, 0)], [0]),
            _ => Schedule::new(payload, [], []),
        }
    }

    fn link_elements(&self, ranks: usize, elements: usize, _root: usize) -> Vec<LinkLoad> {
        LinkLoad::per_link((ranks > 1).then_some(LinkLoad {
            from: 0,
            to: 1,
            elements,
        }))
    }
}
