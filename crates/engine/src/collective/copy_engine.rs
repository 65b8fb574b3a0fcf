//! Point-to-point and bidirectional by a GPU's copy engine: the same data on the same links as [direct](super::point_to_point),
//! moved by the driver's copy instead of a kernel of ours.
//!
//! A difference between the two points at the copy engine or at our kernel, not at the link.

use super::Scheme;
use super::bidirectional::Bidirectional;
use super::point_to_point::PointToPoint;
use super::schedule::{LinkLoad, Schedule, Shape};
use record::{Algorithm, Collective};

/// A scheme whose blocks a copy engine moves.
pub struct ByCopyEngine<S>(pub S);

/// One payload from the first rank to the second.
pub const POINT_TO_POINT: ByCopyEngine<PointToPoint> = ByCopyEngine(PointToPoint);
/// Payloads of the first two ranks, exchanged.
pub const BIDIRECTIONAL: ByCopyEngine<Bidirectional> = ByCopyEngine(Bidirectional);

impl<S: Scheme> Scheme for ByCopyEngine<S> {
    fn collective(&self) -> Collective {
        self.0.collective()
    }

    fn algorithm(&self) -> Algorithm {
        Algorithm::CopyEngine
    }

    fn schedule(&self, shape: Shape) -> Schedule {
        self.0.schedule(shape)
    }

    fn link_elements(&self, ranks: usize, elements: usize, root: usize) -> Vec<LinkLoad> {
        self.0.link_elements(ranks, elements, root)
    }

    fn stages_input_in_place(&self) -> bool {
        self.0.stages_input_in_place()
    }
}
