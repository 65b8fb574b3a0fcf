//! Streams from one rank to another, each with its own link, and each failing on its own.
//!
//! A cell of streams finds out which of many paths work, so a dead path is a result and not the end of the cell: the sender dials
//! all at once and continues without those that do not answer; the receiver accepts them as they come.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::connect::{ConnectError, Wanted};
use super::inject::{Flip, Pacer};
use super::link::Link;
use super::mesh::Mesh;
use super::tcp::{AcceptedConnections, Connection, QP_EXCHANGE, STREAMS, TcpLink, dial};
use super::verbs::{ConnectedQueuePair, PendingQueuePair, QueuePairRequest};
use record::{Cell, TransportKind};

/// How long a stream may take to connect. Its SYN may be lost once.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// Queue pairs exchange their info over connections on arbitrary paths: a dead one is replaced by another.
const INFO_TIMEOUT: Duration = Duration::from_millis(700);
/// Streams that are dialled at the same time.
const AT_ONCE: usize = 32;

/// One end of all streams of a cell.
pub struct Streams {
    links: Vec<StreamLink>,
    expected: Option<Expected>,
    pacer: Option<Pacer>,
    flip: Option<Flip>,
}

/// One stream, or why it failed.
pub struct StreamLink {
    /// Its link, while it works.
    pub link: Option<Box<dyn Link>>,
    /// The source port of its packets.
    pub port: Option<u16>,
    /// Why it has no link.
    pub problem: Option<String>,
}

/// Streams that have not come yet.
struct Expected {
    accepted: Arc<AcceptedConnections>,
    connections: Vec<(usize, Connection)>,
}

impl StreamLink {
    fn of(port: Option<u16>, made: Result<Box<dyn Link>, String>) -> StreamLink {
        let (link, problem) = match made {
            Ok(link) => (Some(link), None),
            Err(problem) => (None, Some(problem)),
        };
        StreamLink { link, port, problem }
    }

    /// Drops its link.
    pub fn fail(&mut self, problem: String) {
        self.problem.get_or_insert(problem);
        if let Some(mut link) = self.link.take() {
            link.abandon();
        }
    }
}

impl Streams {
    /// All of them, in order.
    pub fn links(&mut self) -> &mut [StreamLink] {
        &mut self.links
    }

    /// Accepts those that have connected since the last call.
    pub fn admit(&mut self) {
        let Some(expected) = &mut self.expected else {
            return;
        };
        expected.connections.retain(|(number, connection)| {
            let Some(stream) = expected.accepted.take_now(connection) else {
                return true;
            };
            let link = TcpLink::new(stream).map(|link| Box::new(link) as Box<dyn Link>);
            let port = self.links[*number].port;
            self.links[*number] = StreamLink::of(port, link.map_err(|error| error.to_string()));
            false
        });
    }

    /// Whether an injected throttle lets so many bytes pass now.
    pub fn lets_pass(&mut self, bytes: usize) -> bool {
        let pacer = self.pacer.as_mut();
        pacer.is_none_or(|pacer| pacer.lets_pass(bytes, Instant::now()))
    }

    /// The bit flip to inject into what the receiver gets, if any.
    pub fn flip(&self) -> Option<&Flip> {
        self.flip.as_ref()
    }
}

impl Drop for Streams {
    /// Their ports must be free for the next ones at once.
    fn drop(&mut self) {
        self.admit();
        let links = self
            .links
            .iter_mut()
            .filter_map(|stream_link| stream_link.link.as_mut());
        links.for_each(|link| link.abandon());
    }
}

impl Mesh {
    /// This rank's end of the streams of a cell, whose sender is the first of its two ranks.
    pub fn streams(&mut self, wanted: &Wanted<'_>) -> Result<Streams, (u32, ConnectError)> {
        let cell = wanted.cell;
        let peer = cell.ranks.iter().copied().find(|rank| *rank != self.me);
        let peer = peer.ok_or((self.me, ConnectError::UnknownPeer(self.me)))?;
        let failed = |error| (peer, error);
        let name = cell.rails.first().cloned().unwrap_or_default();
        let rail = self.rails.iter().position(|(rail, _)| *rail == name);
        let rail = rail.ok_or_else(|| failed(ConnectError::NoSuchRail(name.clone())))?;
        let names: Vec<Connection> = (0..connections(cell))
            .map(|flow| connection(cell, rail as u16, flow))
            .collect();
        let is_sender = cell.ranks.first() == Some(&self.me);
        let deadline = wanted.deadline.min(Instant::now() + CONNECT_TIMEOUT);
        let mut expected = None;
        let links = match (cell.transport, is_sender) {
            (TransportKind::Verbs, _) => self.queue_pairs(peer, &names, wanted),
            (_, true) => {
                let listener = self.listener(peer, rail).map_err(failed)?;
                self.dial_all(&names, listener, deadline)
            }
            (_, false) => {
                expected = Some(Expected {
                    accepted: self.listeners.accepted(),
                    connections: names.iter().copied().enumerate().collect(),
                });
                let absent = || Err("it never connected".to_string());
                names
                    .iter()
                    .map(|name| StreamLink::of(Some(name.source_port), absent()))
                    .collect()
            }
        };
        let pacer = is_sender.then(|| Pacer::for_path(&self.faults, self.me, peer, Some(&name)));
        Ok(Streams {
            links,
            expected,
            pacer: pacer.flatten(),
            flip: self.flip.clone().filter(|_| !is_sender),
        })
    }

    fn listener(&self, peer: u32, rail: usize) -> Result<SocketAddr, ConnectError> {
        let endpoint = self.peers.iter().find(|endpoint| endpoint.rank == peer);
        let listener = endpoint.and_then(|endpoint| endpoint.listeners.get(rail));
        listener.copied().ok_or(ConnectError::UnknownPeer(peer))
    }

    /// Dials all streams, many at a time.
    fn dial_all(&self, names: &[Connection], listener: SocketAddr, deadline: Instant) -> Vec<StreamLink> {
        let made: Vec<Mutex<Option<StreamLink>>> = names.iter().map(|_| Mutex::new(None)).collect();
        let next = AtomicUsize::new(0);
        let (rails, token) = (&self.rails, &self.token);
        std::thread::scope(|scope| {
            for _ in 0..AT_ONCE.min(names.len()) {
                scope.spawn(|| {
                    while let Some(name) = names.get(next.fetch_add(1, Ordering::Relaxed)) {
                        let local = &rails[usize::from(name.rail)].1;
                        let stream = dial(name, local, listener, token, deadline);
                        let link = stream.map_err(|error| error.to_string()).and_then(|stream| {
                            let link = TcpLink::new(stream).map_err(|error| error.to_string())?;
                            Ok(Box::new(link) as Box<dyn Link>)
                        });
                        let stream_link = StreamLink::of(Some(name.source_port), link);
                        let place = usize::from(name.flow & !STREAMS);
                        *made[place]
                            .lock()
                            .unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(stream_link);
                    }
                });
            }
        });
        let absent = || StreamLink::of(None, Err("it was not dialled".to_string()));
        let stream_link = |stream_link: Mutex<Option<StreamLink>>| {
            stream_link
                .into_inner()
                .unwrap_or_default()
                .unwrap_or_else(absent)
        };
        made.into_iter().map(stream_link).collect()
    }

    /// Connects queue pairs step by step: both ends begin all of them before either waits for one.
    fn queue_pairs(&mut self, peer: u32, names: &[Connection], wanted: &Wanted<'_>) -> Vec<StreamLink> {
        let begun: Vec<io::Result<PendingQueuePair>> = names
            .iter()
            .map(|name| self.begin_queue_pair(peer, name, wanted))
            .collect();
        let met: Vec<io::Result<ConnectedQueuePair>> = begun
            .into_iter()
            .map(|begun| begun?.exchange_info(wanted.deadline))
            .collect();
        let finish = |(name, met): (&Connection, io::Result<ConnectedQueuePair>)| {
            let link = met.and_then(|met| met.finish(wanted.deadline));
            let port = wanted
                .cell
                .port_of(wanted.cell.ranks[0], name.flow & !(STREAMS | QP_EXCHANGE));
            StreamLink::of(port, link.map_err(|error| error.to_string()))
        };
        names.iter().zip(met).map(finish).collect()
    }

    fn begin_queue_pair(
        &mut self,
        peer: u32,
        name: &Connection,
        wanted: &Wanted<'_>,
    ) -> io::Result<PendingQueuePair> {
        let cell = wanted.cell;
        let stream = loop {
            let until = match name.from == self.me {
                true => wanted.deadline.min(Instant::now() + INFO_TIMEOUT),
                false => wanted.deadline,
            };
            match self.stream(peer, name, until, wanted.give_up) {
                Ok(stream) => break stream,
                Err(_) if Instant::now() < wanted.deadline && !(wanted.give_up)() => {}
                Err(error) => return Err(io::Error::other(error.to_string())),
            }
        };
        let (rail, local) = &self.rails[usize::from(name.rail)];
        let flow = name.flow & !(STREAMS | QP_EXCHANGE);
        let request = QueuePairRequest {
            me: self.me,
            peer,
            rail: rail.clone(),
            flow,
            flows: cell.flows,
            // Acknowledgements go back from the receiver's own ports.
            source_port: cell.port_of(self.me, flow),
            placed: false,
            terms: cell.verbs.unwrap_or_default(),
        };
        self.nics.begin(stream, local, request)
    }
}

/// Connections that carry a cell's streams: TCP allows only one from one port to one listener.
fn connections(cell: &Cell) -> u16 {
    let shared =
        cell.transport == TransportKind::Tcp && cell.streams.as_ref().is_some_and(|terms| terms.one_port);
    if shared { 1 } else { cell.flows.max(1) }
}

/// The name of a stream's connection, the same at both ends.
fn connection(cell: &Cell, rail: u16, flow: u16) -> Connection {
    let (from, to) = (cell.ranks[0], cell.ranks[1]);
    let (bits, source_port) = match cell.transport {
        TransportKind::Verbs => (STREAMS | QP_EXCHANGE, 0),
        _ => (STREAMS, cell.port_of(from, flow).unwrap_or(0)),
    };
    Connection {
        from,
        to,
        rail,
        to_rail: rail,
        flow: flow | bits,
        source_port,
    }
}
