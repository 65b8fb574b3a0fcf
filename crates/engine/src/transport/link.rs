//! A link: one in-order, full-duplex path to one peer.

use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use crate::device::cuda::GpuDirectMemory;
use crate::device::{ReadLease, WriteLease};
use record::FlowRecord;

/// A link broke. Who was at the other end is known to the caller.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LinkError {
    /// The peer closed its end.
    #[error("the peer closed the connection")]
    Closed,
    /// The system reported an error.
    #[error("{0}")]
    Failed(String),
}

/// Where received bytes go.
pub enum Sink<'a> {
    /// Straight into memory.
    Into(&'a mut [u8]),
    /// Through a function that sees the whole chunk once, for instance to reduce it.
    With(&'a mut dyn FnMut(&[u8])),
}

/// How far a receive came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Received {
    /// The whole chunk is there.
    Chunk,
    /// Some bytes arrived, not all.
    Some,
    /// Nothing new.
    Nothing,
}

/// What a link has sent and its peer's machine has not acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backlog {
    /// Bytes.
    pub bytes: u64,
    /// How often the oldest of them was sent again without an answer.
    pub retransmits: u32,
}

/// One in-order path to one peer.
pub trait Link: Send {
    /// Takes a chunk for sending; gives it back when there is no room for it now.
    fn offer(&mut self, chunk: ReadLease) -> Result<Option<ReadLease>, LinkError>;

    /// Pushes taken chunks on; whether anything moved.
    fn advance(&mut self) -> Result<bool, LinkError>;

    /// Whether every taken chunk has left, so that its memory is free again.
    fn flushed(&self) -> bool;

    /// Receives the next chunk, which is `len` bytes. Until it answers `Chunk`, it must be asked again with the same sink.
    fn receive(&mut self, len: usize, sink: Sink<'_>) -> Result<Received, LinkError>;

    /// Whether a chunk arrives piece by piece and must be put together, rather than being there as a whole.
    fn arrives_in_pieces(&self) -> bool;

    /// Payload bytes that have left through this end since it was made.
    fn moved(&self) -> u64;

    /// Gives the link up, with whatever is in flight: nothing of it may disturb a new link between the same two.
    fn abandon(&mut self) {}

    /// What has been sent and not acknowledged, where the transport can tell.
    fn backlog(&self) -> Option<Backlog> {
        None
    }

    /// Its other side, when chunks arrive where the receiver said they belong; none for links where they are handed over.
    fn direct(&mut self) -> Option<&mut dyn DirectLink> {
        None
    }

    /// What its packets are called on the wire, where that is worth recording.
    fn flow(&self) -> Option<&FlowRecord> {
        None
    }

    /// Something to wait on when nothing moves; none when only looking again helps.
    fn waitable(&self) -> Option<Waitable<'_>>;
}

/// A piece of a GPU's memory that a NIC reads or writes by itself.
pub struct GpuRange {
    /// The memory.
    pub memory: Arc<GpuDirectMemory>,
    /// Where the piece is within it.
    pub range: Range<usize>,
}

/// A chunk that has arrived where it belongs.
pub struct ArrivedChunk {
    /// Its length.
    pub len: usize,
    /// The memory it is in, where that is this process's own.
    pub memory: Option<WriteLease>,
}

/// A link whose chunks arrive where the receiver said they belong, so it must say so before they are sent.
pub trait DirectLink {
    /// Takes a chunk of a GPU's memory for sending; false when there is no room for it, or the peer has not said yet where it belongs.
    fn offer(&mut self, place: &GpuRange) -> Result<bool, LinkError>;

    /// Chunks whose memory is free again since the link was made.
    fn left(&self) -> u64;

    /// Says where the next chunk that has no place yet belongs; false when there is no room for saying so now.
    fn expect(&mut self, place: &GpuRange) -> Result<bool, LinkError>;

    /// As `expect`, for memory of this process, which is kept until the chunk is there; given back when there is no room.
    fn expect_into(&mut self, memory: WriteLease) -> Result<Option<WriteLease>, LinkError>;

    /// The next chunk that has arrived where it belongs; none when there is none.
    fn arrived(&mut self) -> Result<Option<ArrivedChunk>, LinkError>;
}

/// What to wait for on a file descriptor: always incoming bytes, and room for outgoing ones if any are queued.
pub struct Waitable<'a> {
    /// The descriptor.
    pub fd: BorrowedFd<'a>,
    /// Whether bytes are queued for sending.
    pub wants_to_send: bool,
    /// Whether it is better to sleep on it soon than to look again and again.
    pub sleeps: bool,
}
