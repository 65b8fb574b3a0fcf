//! Links over TCP, bound to a rail's own address.
//!
//! `listen` opens a rank's door on every rail and lets in only peers that present the run's token; `dial` connects from
//! the rail's address, optionally from a pinned source port; `link` moves chunks over the connection.

mod backlog;
mod dial;
mod greeting;
mod link;
mod listen;
mod local;

pub use dial::{DialError, bind, dial, introduce};
pub use greeting::{Connection, INTRODUCES, KNOCK, LINE, STREAMS};
pub use link::TcpLink;
pub use listen::{Doors, Mailbox};
pub use local::Local;
