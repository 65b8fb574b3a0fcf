//! Hosts that are machines: a kernel of their own, user-mode Linux with Soft-RoCE, in the place of a namespace's processes.
//!
//! What holds true: the kernel runs as an ordinary program inside the host's network namespace and owns its interfaces
//! through raw sockets, so whatever a guest sends crosses the same shaped cables and routers as before, and every fault of a
//! cable or switch works unchanged. The guest's files are the machine's own. A host is started by the first command that
//! needs it and stays until it is killed or the lab goes.
//!
//! Outside: `supervisor` starts a kernel and tells it when a cable loses its signal, `client` runs a command in it.
//! Inside: `init` is process 1, `agent` runs what clients ask for. They talk over a cable of their own (`network`).

mod agent;
mod client;
mod init;
mod lock;
mod message;
mod network;
mod supervisor;

pub use agent::serve;
pub use client::exec;
pub use init::init;
pub use network::{control_cable, control_links};
pub use supervisor::{kernel, supervise};
