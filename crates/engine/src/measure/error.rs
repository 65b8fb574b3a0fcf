//! Why a run cannot continue although the fabric is not at fault.

use super::sink::SinkError;

/// The run cannot continue, for a reason outside the fabric.
#[derive(Debug, thiserror::Error)]
pub enum MeasureError {
    /// A rank cannot take part.
    #[error("rank {rank} cannot take part: {reason}")]
    CannotTakePart {
        /// The rank.
        rank: u32,
        /// Its reason.
        reason: String,
    },
    /// A rank was lost before anything was measured.
    #[error("rank {rank} was lost during setup, before anything was measured: {reason}")]
    LostEarly {
        /// The rank.
        rank: u32,
        /// What was noticed.
        reason: String,
    },
    /// Hosts do not have the same rails.
    #[error("{}", .0.join("\n"))]
    RailsDiffer(Vec<String>),
    /// The operator asked to stop before anything was measured.
    #[error("interrupted during setup, before anything was measured")]
    InterruptedEarly,
    /// The time budget was spent before anything was measured.
    #[error("the run's time budget was spent during setup, before anything was measured; raise --budget")]
    BudgetEarly,
    /// The run cannot be written.
    #[error(transparent)]
    Sink(#[from] SinkError),
    /// A control message cannot be encoded or is missing.
    #[error("control protocol failure with rank {rank}: {problem}")]
    Protocol {
        /// The rank.
        rank: u32,
        /// What was wrong.
        problem: String,
    },
}
