//! Which link of which transport, rail and flow.

use super::tcp::Connection;
use record::VerbsTerms;

/// The rail and identity of a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// Rail by name; none for transports without rails.
    pub rail: Option<String>,
    pub(super) key: LinkKey,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum LinkKey {
    Shm { peer: u32 },
    Tcp(Connection),
    Verbs(Connection, Pinned, bool, VerbsTerms),
}

/// The UDP source port of this rank's packets, when the plan pins it.
pub(super) type Pinned = Option<u16>;
