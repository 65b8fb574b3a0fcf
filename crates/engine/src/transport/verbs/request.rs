//! A request for a queue pair between two ranks.

use record::VerbsTerms;

/// A requested queue pair, as seen from one of its ends.
#[derive(Debug, Clone)]
pub struct QueuePairRequest {
    /// This rank.
    pub me: u32,
    /// The other.
    pub peer: u32,
    /// Rail by name.
    pub rail: String,
    /// Which of the flows between them.
    pub flow: u16,
    /// How many there are.
    pub flows: u16,
    /// UDP source port of this side's packets, when the plan pins it.
    pub source_port: Option<u16>,
    /// Whether RDMA writes go to announced destinations, rather than into receive slots.
    pub placed: bool,
    /// Terms of the cell.
    pub terms: VerbsTerms,
}
