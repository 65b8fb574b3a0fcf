//! Asking whether a rank is still there, at its own doors.

use std::io::ErrorKind;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::mesh::Mesh;
use super::tcp::{Connection, DialError, PROBE, dial};

/// What came of knocking at a rank's doors.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Liveness {
    /// Its process answers.
    Answered {
        /// Over this rail.
        rail: String,
    },
    /// Its machine takes the connection, but the process does not answer.
    Mute {
        /// Over this rail.
        rail: String,
    },
    /// Its machine answers that nobody listens there any more.
    Ended {
        /// Over this rail.
        rail: String,
    },
    /// Not even its machine answers, on any rail.
    Unreachable,
    /// There was no way to ask.
    Unknown,
}

/// How long one door is knocked at.
const EACH_DOOR: Duration = Duration::from_millis(600);

impl Mesh {
    /// Whether somebody answers at the doors of `peer`, asked from here over one rail after the other.
    pub fn check_liveness(&self, peer: u32, patience: Duration) -> Liveness {
        let until = Instant::now() + patience;
        let doors = self.peers.iter().find(|endpoint| endpoint.rank == peer);
        let mut outcome = Liveness::Unknown;
        for (rail, door) in (0u16..).zip(doors.map_or(&[][..], |endpoint| &endpoint.listeners)) {
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
            // A rail that is dead says less than one that is alive.
            match dial(
                &connection,
                local,
                *door,
                &self.token,
                until.min(Instant::now() + EACH_DOOR),
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
