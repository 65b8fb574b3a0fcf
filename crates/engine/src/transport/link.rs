//! A link: one in-order, full-duplex path to one peer.

use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use crate::device::cuda::GpuDirectMemory;
use crate::device::{ReadLease, WriteLease};
use record::FlowRecord;
use record::units::Nanos;

/// A link broke. The caller knows the peer.
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
    /// Through a function that gets the whole chunk once, for instance to reduce it.
    With(&'a mut dyn FnMut(&[u8])),
}

/// Progress of a receive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Received {
    /// The whole chunk has arrived.
    Chunk,
    /// Some bytes arrived, not all.
    Some,
    /// Nothing new.
    Nothing,
}

/// What a link has sent and the peer's host has not acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backlog {
    /// Bytes.
    pub bytes: u64,
    /// How often the oldest of them was sent again without an answer.
    pub retransmits: u32,
}

/// What TCP counted of what this end of a connection sent, since it was made. The counts begin again at zero after 2^32.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TcpCounts {
    /// Segments with data, retransmitted ones included.
    pub segments: u32,
    /// Retransmitted segments.
    pub retransmitted: u32,
    /// Retransmitted segments that the receiver had already.
    pub spurious: u32,
    /// How often packets were seen to overtake each other.
    pub reordered: u32,
    /// The smoothed round-trip time.
    pub rtt: Nanos,
    /// The shortest one.
    pub min_rtt: Option<Nanos>,
}

/// One in-order path to one peer.
pub trait Link: Send {
    /// Takes a chunk for sending; returns it when the link cannot take it now.
    fn offer(&mut self, chunk: ReadLease) -> Result<Option<ReadLease>, LinkError>;

    /// Pushes taken chunks on; whether anything moved.
    fn advance(&mut self) -> Result<bool, LinkError>;

    /// Whether every taken chunk has left, so that its memory is free again.
    fn flushed(&self) -> bool;

    /// Receives the next chunk of `len` bytes. Until it returns `Chunk`, call it again with the same sink.
    fn receive(&mut self, len: usize, sink: Sink<'_>) -> Result<Received, LinkError>;

    /// Whether a chunk arrives in pieces that must be assembled, rather than as a whole.
    fn arrives_in_pieces(&self) -> bool;

    /// Payload bytes that have left through this end since it was made.
    fn moved(&self) -> u64;

    /// Abandons the link with whatever is in flight: none of it may disturb a new link between the same ranks.
    fn abandon(&mut self) {}

    /// What has been sent and not acknowledged, where the transport knows it.
    fn backlog(&self) -> Option<Backlog> {
        None
    }

    /// What TCP counted of what this end sent; none for other transports.
    fn tcp_counts(&self) -> Option<TcpCounts> {
        None
    }

    /// The ports that packets of this end come from and go to; none where they have none, or others say so (`flow`).
    fn ports(&self) -> Option<(u16, u16)> {
        None
    }

    /// Its interface for announced destinations; none for links that hand chunks over.
    fn direct(&mut self) -> Option<&mut dyn DirectLink> {
        None
    }

    /// How it appears on the wire, where that is recorded.
    fn flow(&self) -> Option<&FlowRecord> {
        None
    }

    /// What to wait on when nothing moves; none when only polling helps.
    fn waitable(&self) -> Option<Waitable<'_>>;
}

/// A range of GPU memory that a NIC reads or writes directly.
pub struct GpuRange {
    /// The memory.
    pub memory: Arc<GpuDirectMemory>,
    /// The range within it.
    pub range: Range<usize>,
}

/// A chunk that has arrived at its destination.
pub struct ArrivedChunk {
    /// Its length.
    pub len: usize,
    /// Its memory, when that belongs to this process.
    pub memory: Option<WriteLease>,
}

/// A link that writes chunks to destinations which the receiver announces before they are sent.
pub trait DirectLink {
    /// Takes a chunk of GPU memory for sending; false when the queue is full or the peer has not announced a destination.
    fn offer(&mut self, place: &GpuRange) -> Result<bool, LinkError>;

    /// Chunks that have left since the link was made.
    fn left(&self) -> u64;

    /// Announces the destination of the next unannounced chunk; false when the queue is full.
    fn expect(&mut self, place: &GpuRange) -> Result<bool, LinkError>;

    /// As `expect`, for memory of this process, which is held until the chunk has arrived; returned when the queue is full.
    fn expect_into(&mut self, memory: WriteLease) -> Result<Option<WriteLease>, LinkError>;

    /// The next chunk that has arrived at its destination, if any.
    fn arrived(&mut self) -> Result<Option<ArrivedChunk>, LinkError>;
}

/// What to wait for on a file descriptor: always readable, and writable if bytes are queued for sending.
pub struct Waitable<'a> {
    /// The descriptor.
    pub fd: BorrowedFd<'a>,
    /// Whether bytes are queued for sending.
    pub wants_to_send: bool,
    /// Whether sleeping on it beats polling.
    pub sleeps: bool,
}
