//! Checking whether a rank is alive, at its own listeners.

use std::io::ErrorKind;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::mesh::Mesh;
use super::tcp::{Connection, DialError, PROBE, dial};

/// The result of a liveness check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Liveness {
    /// Its process answers.
    Answered {
        /// Over this rail.
        rail: String,
    },
    /// Its host accepts the connection, but the process does not answer.
    Mute {
        /// Over this rail.
        rail: String,
    },
    /// Its host refuses the connection: the process has ended.
    Ended {
        /// Over this rail.
        rail: String,
    },
    /// Its host does not answer on any rail.
    Unreachable,
    /// It could not be checked.
    Unknown,
}

/// Timeout per listener.
const PROBE_TIMEOUT: Duration = Duration::from_millis(600);

impl Mesh {
    /// Whether `peer` is alive, probed over one rail after the other.
    pub fn check_liveness(&self, peer: u32, patience: Duration) -> Liveness {
        let until = Instant::now() + patience;
        let endpoint = self.peers.iter().find(|endpoint| endpoint.rank == peer);
        let mut outcome = Liveness::Unknown;
        for (rail, listener) in (0u16..).zip(endpoint.map_or(&[][..], |endpoint| &endpoint.listeners)) {
            let Some((name, local)) = self.rails.get(usize::from(rail)) else {
                break;
            };
            let connection = Connection {
                from: self.me,
                to: peer,
                rail,
                to_rail: rail,
                flow: PROBE,
                source_port: 0,
            };
            let rail = name.clone();
            // A dead rail is weaker evidence than a live one.
            match dial(
                &connection,
                local,
                *listener,
                &self.token,
                until.min(Instant::now() + PROBE_TIMEOUT),
            ) {
                Ok(_) => return Liveness::Answered { rail },
                Err(DialError::Refused { .. }) => return Liveness::Mute { rail },
                Err(DialError::Connect { source, .. }) if source.kind() == ErrorKind::ConnectionRefused => {
                    return Liveness::Ended { rail };
                }
                Err(_) => outcome = Liveness::Unreachable,
            }
            if Instant::now() >= until {
                break;
            }
        }
        outcome
    }
}
