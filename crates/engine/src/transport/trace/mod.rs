//! Which switches a flow goes through, asked from the flow's own end.
//!
//! A packet with the addresses and ports of the flow, and so with its path, is sent with room for one hop, for two, and so
//! on; the switch at which it ends says so, by the address at which the packet came in. No privilege is needed: the answers
//! are read from the error queue of an ordinary socket. Over TCP the packet is the first of a connection (`syn`), over RDMA
//! a datagram that no device takes for one of its own (`datagram`). Switches may be silent, and a silent one is no error.

mod answer;
mod datagram;
mod syn;

use std::cmp::Reverse;
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use self::datagram::Datagrams;
use super::mesh::Mesh;
use super::tcp::{Connection, KNOCK, Local};
use super::verbs::entropy::ROCE_PORT;
use crate::launch::Token;
use record::TransportKind;

/// Flows that are followed at the same time.
const AT_ONCE: usize = 32;
/// No path is longer.
const MOST_HOPS: u8 = 16;
/// So many silent switches in a row, and nothing more is expected.
const MOST_SILENCE: usize = 3;
/// The same where the receiver never answers.
const SILENCE_AT_THE_END: usize = 2;
/// How long a switch may take to answer.
const PATIENCE: Duration = Duration::from_millis(200);
/// The same when a path is asked for again, because others are known and it is not: the machine may just have been busy.
const MORE_PATIENCE: Duration = Duration::from_millis(600);

/// A flow whose path is asked for.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TraceWanted {
    /// The rank that sends.
    pub from: u32,
    /// The rank that receives.
    pub to: u32,
    /// Over this rail.
    pub rail: String,
    /// The source port on the wire: TCP's, or that of RoCE's datagrams.
    pub port: u16,
    /// What carries the flow. Only TCP and RDMA have paths.
    pub transport: TransportKind,
}

/// What is known of a flow's path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Traced {
    /// The flow.
    pub flow: TraceWanted,
    /// The address that answered for every hop, none where nobody did. Only switches: the receiver is not among them. Empty
    /// when nobody answered at all. Over RDMA, silent switches before the receiver are missing at the end.
    pub hops: Vec<Option<IpAddr>>,
}

/// Who answered along a path.
type Hops = Vec<Option<IpAddr>>;

/// What was seen of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Seen {
    hops: Hops,
    /// Whether its end was seen, too.
    whole: bool,
}

/// The paths this rank has seen: a flow whose connection is open cannot be followed again.
pub(super) type Known = HashMap<TraceWanted, Hops>;

/// What came of one packet.
#[derive(Debug)]
enum Echo {
    /// A switch says that it ended there.
    Switch(IpAddr),
    /// A switch says that it goes nowhere from there.
    End(IpAddr),
    /// It arrived.
    Arrived,
    /// Nobody said anything.
    Silence,
    /// It could not be sent: the connection it would be part of is there already.
    Taken,
}

impl Mesh {
    /// The paths of `wanted`, flows that this rank sends, in their order; those that are not known when `until` has come are
    /// empty.
    pub fn trace(&mut self, wanted: &[TraceWanted], until: Instant) -> Vec<Traced> {
        let ways: Vec<Option<Way<'_>>> = wanted.iter().map(|flow| self.way(flow)).collect();
        let mut seen: Vec<Option<Seen>> = vec![None; ways.len()];
        for patience in [PATIENCE, MORE_PATIENCE] {
            let places = gaps(wanted, &seen);
            // A switch that knew no way on may know one in a moment.
            if !places.is_empty() && patience == MORE_PATIENCE {
                std::thread::sleep(PATIENCE);
            }
            let found = ask(&ways, &places, patience, until);
            for (place, found) in places.into_iter().zip(found) {
                // Of two that know as much, the shorter one has waited for less that was not there.
                let known = |seen: &Seen| {
                    (
                        seen.hops.iter().flatten().count(),
                        seen.whole,
                        Reverse(seen.hops.len()),
                    )
                };
                if seen[place].as_ref().map(known) < found.as_ref().map(known) {
                    seen[place] = found;
                }
            }
            // Where nobody answers, more patience does not help.
            if seen
                .iter()
                .flatten()
                .all(|seen| seen.hops.iter().all(Option::is_none))
            {
                break;
            }
        }
        let traced = wanted.iter().zip(seen).map(|(flow, seen)| {
            // The path of a connection that is open is the one it had when it was made.
            let hops = match seen {
                Some(Seen { hops, .. }) => self.known.entry(flow.clone()).insert_entry(hops).get().clone(),
                None => self.known.get(flow).cloned().unwrap_or_default(),
            };
            Traced {
                flow: flow.clone(),
                hops,
            }
        });
        traced.collect()
    }

    /// Where the packets of a flow leave and arrive; none for one that cannot exist.
    fn way(&self, flow: &TraceWanted) -> Option<Way<'_>> {
        let number = self.rails.iter().position(|(name, _)| *name == flow.rail)?;
        let peer = self.peers.iter().find(|endpoint| endpoint.rank == flow.to)?;
        Some(Way {
            transport: flow.transport,
            connection: Connection {
                from: self.me,
                to: flow.to,
                rail: number as u16,
                to_rail: number as u16,
                flow: KNOCK,
                source_port: flow.port,
            },
            local: &self.rails[number].1,
            door: *peer.doors.get(number)?,
            token: &self.token,
        })
    }
}

/// The places of flows that are not known from end to end: none was asked for yet, a switch was silent, the receiver was not
/// reached, or another flow to the same receiver met more switches.
fn gaps(wanted: &[TraceWanted], seen: &[Option<Seen>]) -> Vec<usize> {
    let mut longest: HashMap<(u32, &str), usize> = HashMap::new();
    for (flow, seen) in wanted.iter().zip(seen) {
        let most = longest.entry((flow.to, &flow.rail)).or_default();
        *most = seen.as_ref().map_or(0, |seen| seen.hops.len()).max(*most);
    }
    let has_gap = |(flow, seen): (&TraceWanted, &Option<Seen>)| {
        let most = longest[&(flow.to, flow.rail.as_str())];
        // Receivers do not answer datagrams.
        let must_end = flow.transport == TransportKind::Tcp;
        seen.as_ref().is_none_or(|seen| {
            seen.hops.len() < most || seen.hops.contains(&None) || (must_end && !seen.whole)
        })
    };
    let places = wanted.iter().zip(seen).enumerate();
    places
        .filter(|(_, one)| has_gap(*one))
        .map(|(place, _)| place)
        .collect()
}

/// Follows the ways at `places`, many at a time; none for those that cannot be followed, or not before `until`.
fn ask(ways: &[Option<Way<'_>>], places: &[usize], patience: Duration, until: Instant) -> Vec<Option<Seen>> {
    let found: Vec<OnceLock<Option<Seen>>> = places.iter().map(|_| OnceLock::new()).collect();
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE.min(places.len()) {
            scope.spawn(|| {
                while Instant::now() < until {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(place) = places.get(number) else { break };
                    // Every place is one thread's alone.
                    let _ = found[number].set(ways[*place].as_ref().and_then(|way| way.hops(patience)));
                }
            });
        }
    });
    found
        .into_iter()
        .map(|found| found.into_inner().flatten())
        .collect()
}

/// Where the packets of a flow leave and arrive.
struct Way<'m> {
    transport: TransportKind,
    connection: Connection,
    local: &'m Local,
    door: SocketAddr,
    token: &'m Token,
}

impl Way<'_> {
    /// Who answers along it; none when it cannot be followed.
    fn hops(&self, patience: Duration) -> Option<Seen> {
        match self.transport {
            TransportKind::Tcp => {
                let probe = |room| {
                    syn::probe(
                        &self.connection,
                        self.local,
                        self.door,
                        self.token,
                        room,
                        patience,
                    )
                };
                follow(probe, MOST_SILENCE)
            }
            TransportKind::Verbs => {
                let source = SocketAddr::new(self.local.address, self.connection.source_port);
                let target = SocketAddr::new(self.door.ip(), ROCE_PORT);
                match Datagrams::new(source, self.local, target) {
                    Ok(datagrams) => follow(|room| datagrams.probe(room, patience), SILENCE_AT_THE_END),
                    Err(error) => {
                        tracing::debug!(%source, %target, %error, "a path cannot be asked for");
                        None
                    }
                }
            }
            TransportKind::Shm | TransportKind::Peer => None,
        }
    }
}

/// Follows a path with `probe`, which sends one packet that may go so many hops, until it arrives or `most_silence` switches
/// in a row say nothing; none when nothing can be sent.
fn follow(mut probe: impl FnMut(u8) -> Echo, most_silence: usize) -> Option<Seen> {
    let mut hops = Hops::new();
    for room in 1..=MOST_HOPS {
        let mut echo = probe(room);
        // Where others have answered, silence may be a lost packet.
        if matches!(echo, Echo::Silence) && hops.iter().any(Option::is_some) {
            echo = probe(room);
        }
        match echo {
            Echo::Switch(address) => hops.push(Some(address)),
            Echo::End(address) => {
                hops.push(Some(address));
                return Some(Seen { hops, whole: false });
            }
            Echo::Arrived => return Some(Seen { hops, whole: true }),
            Echo::Silence => hops.push(None),
            Echo::Taken => return None,
        }
        if hops.iter().rev().take_while(|hop| hop.is_none()).count() >= most_silence {
            break;
        }
    }
    // Its end was not seen: what is known reaches up to the last answer.
    while hops.last().is_some_and(Option::is_none) {
        hops.pop();
    }
    Some(Seen { hops, whole: false })
}

#[cfg(test)]
mod tests;
