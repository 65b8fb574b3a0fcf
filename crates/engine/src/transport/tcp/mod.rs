//! Links over TCP, bound to a rail's own address.
//!
//! `listen` opens a rank's listener on every rail and accepts only peers that present the run's token; `dial` connects from the
//! rail's address, optionally from a pinned source port; `link` moves chunks over the connection.

mod backlog;
mod counts;
mod dial;
mod handshake;
mod link;
mod listen;
mod local_rail;
mod tally;

pub use dial::{DialError, bind, dial, send_handshake};
pub use handshake::{Connection, OUT_OF_BAND, PROBE, QP_EXCHANGE, STREAMS};
pub use link::TcpLink;
pub use listen::{AcceptedConnections, Listeners};
pub use local_rail::LocalRail;
pub use tally::TcpTally;
