//! Round trip: rank 0 sends the payload to rank 1, which sends it back.
//!
//! ```text
//!     0 ---> 1
//!     0 <--- 1        2, 3, ... idle
//! ```
//!
//! Its time is taken on rank 0's clock alone, so no clock synchronisation enters it. Both directions carry the payload once. A message of several chunks comes back chunk by chunk. A single rank has
//! nobody to talk to, and does nothing.

use super::Scheme;
use super::schedule::{Action, LinkLoad, Schedule, Shape, Step, near_equal};
use record::{Algorithm, Collective};

/// One payload from the first rank to the second and back.
pub struct RoundTrip;

impl Scheme for RoundTrip {
    fn collective(&self) -> Collective {
        Collective::RoundTrip
    }

    fn algorithm(&self) -> Algorithm {
        Algorithm::Direct
    }

    fn schedule(&self, shape: Shape) -> Schedule {
        let payload = near_equal(shape.elements, 1);
        let there = |peer| Step::new(Action::Send, peer, 0);
        let back = |peer| Step::new(Action::RecvCopy, peer, 0);
        match shape.rank {
            0 if shape.ranks > 1 => Schedule::new(payload, [there(1), back(1)], [0]),
            1 => Schedule::new(payload, [back(0), there(0)], [0]),
            _ => Schedule::new(payload, [], []),
        }
    }

    fn link_elements(&self, ranks: usize, elements: usize, _root: usize) -> Vec<LinkLoad> {
        let both = [(0, 1), (1, 0)].map(|(from, to)| LinkLoad { from, to, elements });
        LinkLoad::per_link(both.into_iter().filter(|_| ranks > 1))
    }
}
