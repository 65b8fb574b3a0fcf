//! Bidirectional: ranks 0 and 1 send their payloads to each other at the same time.
//!
//! ```text
//!     0 ---> 1
//!       <---          2, 3, ... idle
//! ```
//!
//! Both directions carry the payload once. Against [point-to-point](super::point_to_point) it shows a link, a port or a
//! memory bus that cannot do both directions at full rate. A single rank has nobody to talk to, and does nothing.

use super::Scheme;
use super::schedule::{Action, LinkLoad, Schedule, Shape, Step, near_equal};
use record::{Algorithm, Collective};

/// Payloads of the first two ranks, exchanged.
pub struct Bidirectional;

impl Scheme for Bidirectional {
    fn collective(&self) -> Collective {
        Collective::Bidirectional
    }

    fn algorithm(&self) -> Algorithm {
        Algorithm::Direct
    }

    fn schedule(&self, shape: Shape) -> Schedule {
        let payload = near_equal(shape.elements, 1);
        if shape.ranks == 1 || shape.rank > 1 {
            return Schedule::new(payload, [], []);
        }
        let other = 1 - shape.rank;
        let steps = [Action::SendInput, Action::RecvCopy].map(|action| Step::new(action, other, 0));
        Schedule::new(payload, steps, [0])
    }

    fn link_elements(&self, ranks: usize, elements: usize, _root: usize) -> Vec<LinkLoad> {
        let both = [(0, 1), (1, 0)].map(|(from, to)| LinkLoad { from, to, elements });
        LinkLoad::per_link(both.into_iter().filter(|_| ranks > 1))
    }

    fn stages_input_in_place(&self) -> bool {
        true
    }
}
