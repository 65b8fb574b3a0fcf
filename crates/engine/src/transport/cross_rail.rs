//! Whether one rail reaches another: fabrics with isolated rails have no path between them.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::mesh::Mesh;
use super::tcp::{Connection, LocalRail, PROBE, dial};
use crate::launch::Token;

/// A path from one rail to another.
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

/// Timeout per listener: without a path, nothing answers.
const PROBE_TIMEOUT: Duration = Duration::from_millis(800);
/// Listeners probed at the same time.
const AT_ONCE: usize = 16;

/// One listener to probe, from one end of a rail.
struct ProbeTarget<'m> {
    connection: Connection,
    local: &'m LocalRail,
    listener: SocketAddr,
}

impl Mesh {
    /// For each of these paths why its far end does not answer; none where it does.
    pub fn reach(&self, paths: &[CrossRailPath], until: Instant) -> Vec<Option<String>> {
        let targets: Vec<Result<ProbeTarget<'_>, String>> =
            paths.iter().map(|path| self.target(path)).collect();
        let token = &self.token;
        let mut answers = Vec::with_capacity(paths.len());
        for some in targets.chunks(AT_ONCE) {
            answers.extend(std::thread::scope(|scope| {
                let asked: Vec<_> = some
                    .iter()
                    .map(|target| scope.spawn(move || probe(target.as_ref(), token, until)))
                    .collect();
                let joined = asked.into_iter().map(|one| match one.join() {
                    Ok(answer) => answer,
                    Err(_) => Some("the probe thread failed".to_string()),
                });
                joined.collect::<Vec<_>>()
            }));
        }
        answers
    }

    fn target(&self, path: &CrossRailPath) -> Result<ProbeTarget<'_>, String> {
        let number = |rail: &str| self.rails.iter().position(|(name, _)| name == rail);
        let (Some(rail), Some(to_rail)) = (number(&path.rail), number(&path.to_rail)) else {
            return Err("this rank does not have both rails".to_string());
        };
        let peer = self.peers.iter().find(|endpoint| endpoint.rank == path.to);
        let listener = peer.and_then(|peer| peer.listeners.get(to_rail)).copied();
        Ok(ProbeTarget {
            connection: Connection {
                from: self.me,
                to: path.to,
                rail: rail as u16,
                to_rail: to_rail as u16,
                flow: PROBE,
                source_port: 0,
            },
            local: &self.rails[rail].1,
            listener: listener
                .ok_or_else(|| format!("rank {} has no listener on {}", path.to, path.to_rail))?,
        })
    }
}

/// Why the listener does not answer; none when it does.
fn probe(target: Result<&ProbeTarget<'_>, &String>, token: &Token, until: Instant) -> Option<String> {
    let target = match target {
        Ok(target) => target,
        Err(why) => return Some(why.clone()),
    };
    let until = until.min(Instant::now() + PROBE_TIMEOUT);
    let answer = dial(&target.connection, target.local, target.listener, token, until);
    answer.err().map(|error| error.to_string())
}
