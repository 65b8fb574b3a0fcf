//! Traceroute for a flow: which switches it crosses, traced from its sender.
//!
//! A packet with the addresses and ports of the flow, and so on its path, is sent with a TTL of one, two, and so on; the switch at
//! which it expires answers with the address at which the packet came in. No privilege is needed: the ICMP errors are read from the
//! error queue of an ordinary socket. Over TCP the packet is a SYN (`syn`), over RDMA a datagram that no device accepts
//! (`datagram`). Connections that are open are traced from within (`open`). Switches may be silent; that is not an error.

mod datagram;
pub(super) mod flow;
mod icmp;
mod open;
pub(super) mod rationing;
mod syn;

pub use flow::{PathQuestion, TraceWanted, TracedBurst, TracedFlow};

use std::cmp::Reverse;
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use self::datagram::Datagrams;
use self::flow::{Hops, PartialPath, ProbeReply};
use super::mesh::Mesh;
use super::tcp::{Connection, LocalRail, PROBE};
use super::verbs::entropy::ROCE_PORT;
use crate::launch::Token;
use record::TransportKind;

/// Flows traced at the same time.
const AT_ONCE: usize = 32;
/// The longest path.
const MOST_HOPS: u8 = 16;
/// After so many silent switches in a row the trace ends: with two tiers of them, the receiver has been asked.
const MOST_SILENCE: usize = 4;
/// The same where the receiver never answers.
const SILENCE_AT_THE_END: usize = 2;
/// Packets of a burst with each TTL: all of them on one of two paths by chance once in 128.
const BURST: usize = 8;
/// How long a switch may take to answer.
const PATIENCE: Duration = Duration::from_millis(200);
/// The same for a second attempt, when other paths are known and this one is not: the host may just have been busy.
const RETRY_PATIENCE: Duration = Duration::from_millis(600);

impl Mesh {
    /// The paths of `wanted`, flows that this rank sends, in their order; those unknown at `until` are empty. Where answers are rationed it may spare them: it
    /// asks nobody twice, and not the sender's own switch.
    pub fn trace(&mut self, wanted: &[TraceWanted], may_spare: bool, until: Instant) -> Vec<TracedFlow> {
        let paths: Vec<Option<ProbePath<'_>>> = wanted.iter().map(|flow| self.way(flow)).collect();
        let mut seen: Vec<Option<PartialPath>> = vec![None; paths.len()];
        let mut answers = self.answers.clone();
        for patience in [PATIENCE, RETRY_PATIENCE] {
            let places = gaps(wanted, &seen);
            // A switch without a route may have one in a moment.
            if !places.is_empty() && patience == RETRY_PATIENCE {
                std::thread::sleep(PATIENCE);
            }
            let found = ask(
                &paths,
                &places,
                (patience, may_spare && answers.are_rationed()),
                until,
            );
            answers.note(
                places
                    .iter()
                    .map(|place| wanted[*place].rail.as_str())
                    .zip(&found),
            );
            for (place, found) in places.into_iter().zip(found) {
                // Of two equally complete paths, the shorter one has fewer silent hops at its end.
                let known = |seen: &PartialPath| {
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
            // If no switch answers, or only so often, more patience does not help.
            let is_silent = |seen: &PartialPath| seen.hops.iter().all(Option::is_none);
            if may_spare && answers.are_rationed() || seen.iter().flatten().all(is_silent) {
                break;
            }
        }
        self.answers = answers;
        for (flow, seen) in wanted.iter().zip(seen) {
            // An open connection keeps the path it was traced on.
            if let Some(seen) = seen {
                self.known.insert(flow.clone(), seen);
            }
        }
        self.traced(wanted)
    }

    /// Asks some of the switches of these flows, each once: they may answer only so many questions a second. Only what they say now is
    /// returned: an answer of before must not pass for one of today.
    pub fn ask_switches(&self, questions: &[PathQuestion], until: Instant) -> Vec<TracedFlow> {
        let paths: Vec<Option<ProbePath<'_>>> = questions
            .iter()
            .map(|question| self.way(&question.flow))
            .collect();
        let found = in_parallel(questions.len(), until, |number| {
            paths[number].as_ref()?.ask(&questions[number].ttls, PATIENCE)
        });
        let traced = questions.iter().zip(found).map(|(question, hops)| TracedFlow {
            flow: question.flow.clone(),
            hops: hops.unwrap_or_default(),
            arrived: false,
        });
        traced.collect()
    }

    /// What is known of these flows.
    fn traced(&self, wanted: &[TraceWanted]) -> Vec<TracedFlow> {
        let traced = wanted.iter().map(|flow| {
            let PartialPath { mut hops, whole } = self.known.get(flow).cloned().unwrap_or_default();
            if hops.iter().all(Option::is_none) {
                hops.clear();
            }
            TracedFlow {
                flow: flow.clone(),
                hops,
                arrived: whole,
            }
        });
        traced.collect()
    }

    /// Traces several packets of one connection for each of these flows: whether they take one path. They are datagrams whatever carries
    /// the flow; those not traced at `until` are empty.
    pub fn trace_bursts(&self, wanted: &[TraceWanted], until: Instant) -> Vec<TracedBurst> {
        let traced = wanted.iter().map(|flow| TracedBurst {
            flow: flow.clone(),
            hops: match self.way(flow) {
                Some(way) if Instant::now() < until => way.burst(PATIENCE),
                _ => Vec::new(),
            },
        });
        traced.collect()
    }

    /// Source and destination of a flow; none for a flow that cannot exist.
    fn way(&self, flow: &TraceWanted) -> Option<ProbePath<'_>> {
        let number = self.rails.iter().position(|(name, _)| *name == flow.rail)?;
        let peer = self.peers.iter().find(|endpoint| endpoint.rank == flow.to)?;
        Some(ProbePath {
            transport: flow.transport,
            connection: Connection {
                from: self.me,
                to: flow.to,
                rail: number as u16,
                to_rail: number as u16,
                flow: PROBE,
                source_port: flow.port,
            },
            local: &self.rails[number].1,
            listener: *peer.listeners.get(number)?,
            token: &self.token,
        })
    }
}

/// The indices of flows whose paths are incomplete: not traced yet, a switch was silent, the receiver was not reached, or another
/// flow to the same receiver crossed more switches.
fn gaps(wanted: &[TraceWanted], seen: &[Option<PartialPath>]) -> Vec<usize> {
    let mut longest: HashMap<(u32, &str), usize> = HashMap::new();
    for (flow, seen) in wanted.iter().zip(seen) {
        let most = longest.entry((flow.to, &flow.rail)).or_default();
        *most = seen.as_ref().map_or(0, |seen| seen.hops.len()).max(*most);
    }
    let has_gap = |(flow, seen): (&TraceWanted, &Option<PartialPath>)| {
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

/// Traces the paths at `places`, many at a time, with this patience, and sparingly where answers are rationed; none for those that cannot be traced, or not
/// before `until`.
fn ask(
    paths: &[Option<ProbePath<'_>>],
    places: &[usize],
    (patience, is_sparing): (Duration, bool),
    until: Instant,
) -> Vec<Option<PartialPath>> {
    in_parallel(places.len(), until, |number| {
        let way = paths[places[number]].as_ref();
        way.and_then(|way| way.hops(patience, is_sparing))
    })
}

/// Does `count` things, many at a time; none for those not begun before `until`.
fn in_parallel<T: Send + Sync>(
    count: usize,
    until: Instant,
    work: impl Fn(usize) -> Option<T> + Sync,
) -> Vec<Option<T>> {
    let found: Vec<OnceLock<Option<T>>> = (0..count).map(|_| OnceLock::new()).collect();
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE.min(count) {
            scope.spawn(|| {
                while Instant::now() < until {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(place) = found.get(number) else { break };
                    // Every index belongs to one thread.
                    let _ = place.set(work(number));
                }
            });
        }
    });
    found
        .into_iter()
        .map(|found| found.into_inner().flatten())
        .collect()
}

/// Source and destination of a flow.
struct ProbePath<'m> {
    transport: TransportKind,
    connection: Connection,
    local: &'m LocalRail,
    listener: SocketAddr,
    token: &'m Token,
}

impl ProbePath<'_> {
    /// The switches that answer along it; none when it cannot be traced.
    fn hops(&self, patience: Duration, is_sparing: bool) -> Option<PartialPath> {
        match self.transport {
            TransportKind::Tcp => follow(|ttl| self.syn(ttl, patience), MOST_SILENCE, is_sparing),
            TransportKind::Verbs | TransportKind::Udp => {
                let datagrams = self.datagrams()?;
                follow(
                    |ttl| datagrams.probe(ttl, patience),
                    SILENCE_AT_THE_END,
                    is_sparing,
                )
            }
            TransportKind::Shm | TransportKind::Peer => None,
        }
    }

    /// Some hops of a path, each asked once; none when it cannot be traced.
    fn ask(&self, ttls: &[u8], patience: Duration) -> Option<Hops> {
        let mut hops = Hops::new();
        let datagrams = match self.transport {
            TransportKind::Verbs | TransportKind::Udp => Some(self.datagrams()?),
            _ => None,
        };
        for ttl in ttls.iter().copied().filter(|ttl| (1..=MOST_HOPS).contains(ttl)) {
            let reply = match (&datagrams, self.transport) {
                (Some(datagrams), _) => datagrams.probe(ttl, patience),
                (None, TransportKind::Tcp) => self.syn(ttl, patience),
                (None, _) => return None,
            };
            match reply {
                ProbeReply::Expired(address) | ProbeReply::Unreachable(address) => {
                    hops.resize(hops.len().max(usize::from(ttl)), None);
                    hops[usize::from(ttl) - 1] = Some(address);
                }
                ProbeReply::Arrived | ProbeReply::Silence => {}
                ProbeReply::Taken => return None,
            }
        }
        Some(hops)
    }

    fn syn(&self, ttl: u8, patience: Duration) -> ProbeReply {
        syn::probe(
            &self.connection,
            self.local,
            self.listener,
            self.token,
            ttl,
            patience,
        )
    }

    /// Who answers several packets with each TTL, until one arrives or nobody answers.
    fn burst(&self, patience: Duration) -> Vec<Vec<IpAddr>> {
        let mut hops = Vec::new();
        let Some(datagrams) = self.datagrams() else {
            return hops;
        };
        for ttl in 1..=MOST_HOPS {
            let (answers, arrived) = datagrams.burst(ttl, BURST, patience);
            if arrived || answers.is_empty() {
                break;
            }
            hops.push(answers);
        }
        hops
    }

    /// A socket for datagrams with the addresses and ports of the flow.
    fn datagrams(&self) -> Option<Datagrams> {
        let source = SocketAddr::new(self.local.address, self.connection.source_port);
        let port = match self.transport {
            TransportKind::Verbs => ROCE_PORT,
            _ => self.listener.port(),
        };
        let target = SocketAddr::new(self.listener.ip(), port);
        let opened = Datagrams::new(source, self.local, target);
        opened
            .inspect_err(|error| tracing::debug!(%source, %target, %error, "a path cannot be traced"))
            .ok()
    }
}

/// Traces a path with `probe`, which sends one packet with a TTL, until it arrives or `most_silence` switches in a row are silent;
/// none when nothing can be sent. Sparingly: the sender's own switch, which is the same for all its flows, is not asked, and nobody is asked twice.
fn follow(
    mut probe: impl FnMut(u8) -> ProbeReply,
    most_silence: usize,
    is_sparing: bool,
) -> Option<PartialPath> {
    let mut hops = Hops::new();
    hops.extend(is_sparing.then_some(None));
    for ttl in hops.len() as u8 + 1..=MOST_HOPS {
        let mut reply = probe(ttl);
        // If others have answered, silence may be a lost packet.
        if matches!(reply, ProbeReply::Silence) && !is_sparing && hops.iter().any(Option::is_some) {
            reply = probe(ttl);
        }
        match reply {
            ProbeReply::Expired(address) => hops.push(Some(address)),
            ProbeReply::Unreachable(address) => {
                hops.push(Some(address));
                return Some(PartialPath { hops, whole: false });
            }
            ProbeReply::Arrived => return Some(PartialPath { hops, whole: true }),
            ProbeReply::Silence => hops.push(None),
            ProbeReply::Taken => return None,
        }
        if hops.iter().rev().take_while(|hop| hop.is_none()).count() >= most_silence {
            break;
        }
    }
    // The receiver was not reached: the path is known up to the last answer.
    while hops.last().is_some_and(Option::is_none) {
        hops.pop();
    }
    Some(PartialPath { hops, whole: false })
}

#[cfg(test)]
mod tests;
