//! Whether one end of a rail reaches an end of another rail: fabrics whose rails are apart have no way between them.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::mesh::Mesh;
use super::tcp::{Connection, LocalRail, PROBE, dial};
use crate::launch::Token;

/// A way from one rail to another.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CrossRailPath {
    /// Sender.
    pub from: u32,
    /// Receiver.
    pub to: u32,
    /// The sender's rail.
    pub rail: String,
    /// The receiver's rail.
    pub to_rail: String,
}

/// How long one door is knocked at: where there is no way, nothing answers.
const EACH_DOOR: Duration = Duration::from_millis(800);
/// Doors that are knocked at at the same time.
const AT_ONCE: usize = 16;

/// One door to knock at, from one end of a rail.
struct Call<'m> {
    connection: Connection,
    local: &'m LocalRail,
    door: SocketAddr,
}

impl Mesh {
    /// For each of these ways from here why nobody answers at its end; none where somebody does.
    pub fn reach(&self, ways: &[CrossRailPath], until: Instant) -> Vec<Option<String>> {
        let calls: Vec<Result<Call<'_>, String>> = ways.iter().map(|way| self.call(way)).collect();
        let token = &self.token;
        let mut answers = Vec::with_capacity(ways.len());
        for some in calls.chunks(AT_ONCE) {
            answers.extend(std::thread::scope(|scope| {
                let asked: Vec<_> = some
                    .iter()
                    .map(|call| scope.spawn(move || probe(call.as_ref(), token, until)))
                    .collect();
                let joined = asked.into_iter().map(|one| match one.join() {
                    Ok(answer) => answer,
                    Err(_) => Some("asking failed".to_string()),
                });
                joined.collect::<Vec<_>>()
            }));
        }
        answers
    }

    fn call(&self, way: &CrossRailPath) -> Result<Call<'_>, String> {
        let number = |rail: &str| self.rails.iter().position(|(name, _)| name == rail);
        let (Some(rail), Some(to_rail)) = (number(&way.rail), number(&way.to_rail)) else {
            return Err("this rank does not have both rails".to_string());
        };
        let peer = self.peers.iter().find(|endpoint| endpoint.rank == way.to);
        let door = peer.and_then(|peer| peer.listeners.get(to_rail)).copied();
        Ok(Call {
            connection: Connection {
                from: self.me,
                to: way.to,
                rail: rail as u16,
                to_rail: to_rail as u16,
                flow: PROBE,
                source_port: 0,
            },
            local: &self.rails[rail].1,
            door: door.ok_or_else(|| format!("rank {} has no door on {}", way.to, way.to_rail))?,
        })
    }
}

/// Why nobody answers; none where somebody does.
fn probe(call: Result<&Call<'_>, &String>, token: &Token, until: Instant) -> Option<String> {
    let call = match call {
        Ok(call) => call,
        Err(why) => return Some(why.clone()),
    };
    let until = until.min(Instant::now() + EACH_DOOR);
    let answer = dial(&call.connection, call.local, call.door, token, until);
    answer.err().map(|error| error.to_string())
}
