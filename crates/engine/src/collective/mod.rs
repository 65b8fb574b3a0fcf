//! Collectives as pure schedules, and the oracle that says what they must yield.
//!
//! A schedule is data: which blocks of the payload a rank sends to and receives from which peer, in which order. It is a function
//! of rank, rank count, element count and root alone, so tests verify it in memory for every rank count, and the load on every link
//! is known before a counter is read. The oracle knows the collectives but no schedule; only the tests combine the two.

mod all_gather;
mod all_to_all;
mod bidirectional;
mod broadcast;
mod copy_engine;
mod double_tree;
mod engine;
mod execute;
pub mod gpu;
mod host;
mod incast;
mod memory;
pub mod oracle;
mod point_to_point;
mod probes;
mod program;
mod reduce_scatter;
mod ring;
mod round_trip;
pub mod schedule;
mod streams;
mod tree;
mod wait;

#[cfg(test)]
mod schedule_tests;

pub use engine::{CellEngine, Conditions, Stopped, Took};
pub use execute::Execution;
pub use host::HostEngine;
pub use memory::Buffers;
pub use oracle::{Oracle, WrongElement};
pub use probes::{ProbeArrivals, ProbeEngine, ProbeReport};
pub use program::{Program, ProgramError, is_placed, planned_bytes, scheme_of};
pub use schedule::{Action, LinkLoad, Schedule, Shape, Step};
pub use streams::StreamEngine;

use record::{Algorithm, Collective};

/// One algorithm for one collective.
pub trait Scheme: Sync {
    /// What it does.
    fn collective(&self) -> Collective;

    /// How it does it.
    fn algorithm(&self) -> Algorithm;

    /// What one rank does.
    fn schedule(&self, shape: Shape) -> Schedule;

    /// What every directed link carries, in closed form: computed independently of the steps.
    ///
    /// Sorted by sender and receiver; links that carry nothing are left out.
    fn link_elements(&self, ranks: usize, elements: usize, root: usize) -> Vec<LinkLoad>;

    /// Whether a block may be overwritten before its input was sent, so that the input must be staged when in place.
    fn stages_input_in_place(&self) -> bool {
        false
    }
}

/// Every algorithm. The first of a collective is its default.
pub const ALGORITHMS: &[&dyn Scheme] = &[
    &ring::Ring,
    &tree::Tree,
    &double_tree::DoubleTree,
    &reduce_scatter::RingReduceScatter,
    &all_gather::RingAllGather,
    &broadcast::TreeBroadcast,
    &all_to_all::PairwiseAllToAll,
    &point_to_point::PointToPoint,
    &bidirectional::Bidirectional,
    &round_trip::RoundTrip,
    &incast::Incast,
    &copy_engine::POINT_TO_POINT,
    &copy_engine::BIDIRECTIONAL,
];

/// The scheme that does `collective` by `algorithm`, when there is one.
pub fn find(collective: Collective, algorithm: Algorithm) -> Option<&'static dyn Scheme> {
    let wanted = |scheme: &&dyn Scheme| scheme.collective() == collective && scheme.algorithm() == algorithm;
    ALGORITHMS.iter().copied().find(wanted)
}
