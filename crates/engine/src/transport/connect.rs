//! Making the connections a cell wants, with all its peers at once.
//!
//! Of two ranks the lower one dials and the higher one accepts; both derive the same connection name, so neither needs to ask.
//! Where data goes one way from a pinned source port, its sender dials: only then does its path follow the port. All connections
//! are begun before any is waited for: ranks that wait for each other in a cycle would deadlock.

use std::net::TcpStream;
use std::time::Instant;

use super::channel::{Channel, ChannelLink};
use super::inject::Pacer;
use super::link::Link;
use super::mesh::Mesh;
use super::route::{LinkKey, Route};
use super::tcp::{Connection, DialError, OUT_OF_BAND, QP_EXCHANGE, TcpLink, TcpTally, dial};
use super::verbs::{ConnectedQueuePair, OutOfBand, PendingQueuePair, QueuePairRequest};
use record::{Cell, Collective, TransportKind};

/// A link that is being set up.
struct LinkSetup {
    peer: u32,
    route: Route,
    state: SetupState,
}

/// How far the setup of a link is.
enum SetupState {
    Done(Box<dyn Link>),
    Begun(PendingQueuePair),
    Met(ConnectedQueuePair),
}

impl SetupState {
    /// The link, once its setup is complete.
    fn link(self) -> Box<dyn Link> {
        match self {
            SetupState::Done(link) => link,
            SetupState::Begun(_) | SetupState::Met(_) => {
                unreachable!("every setup is completed before its link is used")
            }
        }
    }
}

/// What a cell wants between two ranks.
#[derive(Clone, Copy)]
pub struct Wanted<'a> {
    /// Transport, rails, flows and source ports.
    pub cell: &'a Cell,
    /// Whether RDMA writes go straight to their destination.
    pub placed: bool,
    /// When to give up.
    pub deadline: Instant,
    /// Asked regularly whether to give up earlier.
    pub give_up: &'a dyn Fn() -> bool,
}

/// A peer cannot be reached as the cell wants it.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The cell names a rail this rank does not have.
    #[error("this rank has no rail `{0}`")]
    NoSuchRail(String),
    /// The peer is not known.
    #[error("rank {0} has not announced its listen addresses")]
    UnknownPeer(u32),
    /// Two cells of one slot want the same link.
    #[error("two cells of one slot need the same link to rank {0}")]
    Taken(u32),
    /// Dialling failed.
    #[error("rank {peer} on {rail}: {source}")]
    Dial {
        /// The peer.
        peer: u32,
        /// Rail by name.
        rail: String,
        /// What went wrong.
        source: DialError,
    },
    /// The peer did not dial in time.
    #[error("rank {peer} did not connect on {rail} in time")]
    NotDialled {
        /// The peer.
        peer: u32,
        /// Rail by name.
        rail: String,
    },
    /// The connection cannot be set up.
    #[error("rank {peer} on {rail}: {source}")]
    Setup {
        /// The peer.
        peer: u32,
        /// Rail by name.
        rail: String,
        /// What the system said.
        source: std::io::Error,
    },
}

impl ConnectError {
    /// The rail that failed, if it was a rail.
    pub fn rail(&self) -> Option<&str> {
        match self {
            ConnectError::Dial { rail, .. }
            | ConnectError::NotDialled { rail, .. }
            | ConnectError::Setup { rail, .. } => Some(rail),
            _ => None,
        }
    }
}

impl Mesh {
    /// Channels to `peers` as the cell wants them; an error names the peer that cannot be reached.
    ///
    /// All are begun before any is waited for: ranks that wait for each other in a cycle would deadlock.
    pub fn connect(
        &mut self,
        peers: &[u32],
        wanted: &Wanted<'_>,
    ) -> Result<Vec<Channel>, (u32, ConnectError)> {
        let mut setups = Vec::new();
        for &peer in peers {
            let failed = |error| (peer, error);
            for route in self.routes(peer, wanted).map_err(failed)? {
                let state = match self.kept.get_mut(&route.key) {
                    Some(kept) => {
                        SetupState::Done(kept.take().ok_or(ConnectError::Taken(peer)).map_err(failed)?)
                    }
                    None => {
                        let state = self.make(peer, &route, wanted).map_err(failed)?;
                        self.kept.insert(route.key, None);
                        state
                    }
                };
                setups.push(LinkSetup { peer, route, state });
            }
        }
        let mut channels: Vec<(u32, Vec<ChannelLink>)> =
            peers.iter().map(|peer| (*peer, Vec::new())).collect();
        for LinkSetup { peer, route, state } in self.finish(setups, wanted.deadline)? {
            let link = state.link();
            let pacer = Pacer::for_path(&self.faults, self.me, peer, route.rail.as_deref());
            let links = channels.iter_mut().find(|(of, _)| *of == peer);
            links
                .expect("every link leads to one of the peers")
                .1
                .push(ChannelLink {
                    moved_before: link.moved(),
                    left_before: 0,
                    tcp: link.tcp_counts().map(TcpTally::from),
                    route,
                    link,
                    pacer,
                });
        }
        let channel = |(peer, links)| Channel::new(peer, links, self.flip.clone());
        Ok(channels.into_iter().map(channel).collect())
    }

    /// Completes the setups, step by step with all peers.
    fn finish(
        &mut self,
        mut setups: Vec<LinkSetup>,
        deadline: Instant,
    ) -> Result<Vec<LinkSetup>, (u32, ConnectError)> {
        for _step in ["meet", "finish"] {
            let mut further = Vec::with_capacity(setups.len());
            for LinkSetup { peer, route, state } in setups {
                let state = match state {
                    SetupState::Done(link) => Ok(SetupState::Done(link)),
                    SetupState::Begun(pending) => pending.exchange_info(deadline).map(SetupState::Met),
                    SetupState::Met(meeting) => meeting.finish(deadline).map(SetupState::Done),
                };
                let state = state.map_err(|source| {
                    let rail = route.rail.clone().unwrap_or_default();
                    (peer, ConnectError::Setup { peer, rail, source })
                });
                further.push(LinkSetup {
                    peer,
                    state: state?,
                    route,
                });
            }
            setups = further;
        }
        Ok(setups)
    }

    fn routes(&self, peer: u32, wanted: &Wanted<'_>) -> Result<Vec<Route>, ConnectError> {
        let cell = wanted.cell;
        match cell.transport {
            TransportKind::Shm => Ok(vec![Route {
                rail: None,
                key: LinkKey::Shm { peer },
            }]),
            TransportKind::Tcp | TransportKind::Verbs => {
                let mut routes = Vec::new();
                for flow in 0..cell.flows.max(1) {
                    for name in &cell.rails {
                        let rail = self.rails.iter().position(|(rail, _)| rail == name);
                        let rail = rail.ok_or_else(|| ConnectError::NoSuchRail(name.clone()))? as u16;
                        let key = match cell.transport {
                            TransportKind::Verbs => queue_pair_key(self.me, peer, rail, flow, wanted),
                            _ => {
                                let to_rail = self.far_rail(cell, rail)?;
                                LinkKey::Tcp(connection(self.me, peer, (rail, to_rail), flow, cell))
                            }
                        };
                        routes.push(Route {
                            rail: Some(name.clone()),
                            key,
                        });
                    }
                }
                Ok(routes)
            }
            // Kernels access each other's memory directly: there is nothing to connect.
            TransportKind::Peer => Ok(Vec::new()),
            // Probes have no connections.
            TransportKind::Udp => Ok(Vec::new()),
        }
    }

    /// The rail at the far end of a path that begins on `rail`.
    fn far_rail(&self, cell: &Cell, rail: u16) -> Result<u16, ConnectError> {
        let Some(name) = &cell.to_rail else {
            return Ok(rail);
        };
        let number = self.rails.iter().position(|(known, _)| known == name);
        let number = number.ok_or_else(|| ConnectError::NoSuchRail(name.clone()))?;
        Ok(number as u16)
    }

    fn make(&mut self, peer: u32, route: &Route, wanted: &Wanted<'_>) -> Result<SetupState, ConnectError> {
        let connection = match route.key {
            LinkKey::Shm { peer } => {
                let link = self.hub.link(self.me, peer, self.generation);
                return Ok(SetupState::Done(Box::new(link)));
            }
            LinkKey::Tcp(connection) | LinkKey::Verbs(connection, ..) => connection,
        };
        let stream = self.stream(peer, &connection, wanted.deadline, wanted.give_up)?;
        let (rail, local) = &self.rails[usize::from(connection.rail)];
        let rail = rail.clone();
        let state = match route.key {
            LinkKey::Verbs(_, source_port, placed, terms) => {
                let wanted = QueuePairRequest {
                    me: self.me,
                    peer,
                    rail: rail.clone(),
                    flow: connection.flow & !QP_EXCHANGE,
                    flows: wanted.cell.flows,
                    source_port,
                    placed,
                    terms,
                };
                self.nics.begin(stream, local, wanted).map(SetupState::Begun)
            }
            _ => TcpLink::new(stream).map(|link| SetupState::Done(Box::new(link))),
        };
        state.map_err(|source| ConnectError::Setup { peer, rail, source })
    }

    /// A connection to `peer` after its handshake: its first rank dials, the other waits.
    pub(super) fn stream(
        &self,
        peer: u32,
        connection: &Connection,
        deadline: Instant,
        give_up: &dyn Fn() -> bool,
    ) -> Result<TcpStream, ConnectError> {
        let (rail, local) = &self.rails[usize::from(connection.rail)];
        if connection.from != self.me {
            let taken = self.listeners.take(connection, deadline, give_up);
            return taken.ok_or_else(|| ConnectError::NotDialled {
                peer,
                rail: rail.clone(),
            });
        }
        let listener = self
            .peers
            .iter()
            .find(|endpoint| endpoint.rank == peer)
            .and_then(|endpoint| endpoint.listeners.get(usize::from(connection.to_rail)))
            .ok_or(ConnectError::UnknownPeer(peer))?;
        dial(connection, local, *listener, &self.token, deadline).map_err(|source| ConnectError::Dial {
            peer,
            rail: rail.clone(),
            source,
        })
    }

    /// An out-of-band connection to `peer` on a rail, for queue pairs apart from those of cells, with this rank's end of the rail.
    pub fn out_of_band(
        &mut self,
        peer: u32,
        rail: &str,
        deadline: Instant,
        give_up: &dyn Fn() -> bool,
    ) -> Result<OutOfBand<'_>, ConnectError> {
        let number = self.rails.iter().position(|(name, _)| name == rail);
        let number = number.ok_or_else(|| ConnectError::NoSuchRail(rail.to_string()))?;
        let connection = Connection {
            from: self.me.min(peer),
            to: self.me.max(peer),
            rail: number as u16,
            to_rail: number as u16,
            flow: OUT_OF_BAND,
            source_port: 0,
        };
        let stream = self.stream(peer, &connection, deadline, give_up)?;
        Ok(OutOfBand {
            stream,
            local: &self.rails[number].1,
            nics: &mut self.nics,
        })
    }
}

/// The key of a queue pair: the connection on which its two ends exchange their info, and what distinguishes it from others
/// between the same ranks. Every sender has its own source ports.
fn queue_pair_key(me: u32, peer: u32, rail: u16, flow: u16, wanted: &Wanted<'_>) -> LinkKey {
    let cell = wanted.cell;
    let introduces = Connection {
        from: me.min(peer),
        to: me.max(peer),
        rail,
        to_rail: rail,
        flow: flow | QP_EXCHANGE,
        source_port: 0,
    };
    let pinned = cell.port_of(me, flow);
    let terms = cell.verbs.unwrap_or_default();
    let placed = cell.is_gpudirect() || wanted.placed;
    LinkKey::Verbs(introduces, pinned, placed, terms)
}

/// The name of a connection, the same at both ends.
fn connection(me: u32, peer: u32, (rail, to_rail): (u16, u16), flow: u16, cell: &Cell) -> Connection {
    let is_pinned_flow = cell.collective == Collective::PointToPoint && cell.source_port.is_some();
    // Across rails, the first rank of the cell dials.
    let is_the_first_ranks = is_pinned_flow || cell.to_rail.is_some();
    let (from, to) = match is_the_first_ranks && cell.ranks.first() == Some(&me.max(peer)) {
        true => (me.max(peer), me.min(peer)),
        false => (me.min(peer), me.max(peer)),
    };
    let source_port = cell.port_of(from, flow).unwrap_or(0);
    Connection {
        from,
        to,
        rail,
        to_rail,
        flow,
        source_port,
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::super::shm::Hub;
    use super::*;
    use crate::launch::Token;
    use record::units::Bytes;
    use record::{Algorithm, DType, DeviceKind, Engine, Load, Placement, ReduceOp};

    fn cell(flows: u16, source_port: Option<u16>) -> Cell {
        Cell {
            id: 0,
            test: "test".to_string(),
            slot: 0,
            load: Load::Alone,
            collective: Collective::AllReduce,
            algorithm: Algorithm::Ring,
            ranks: vec![0, 1, 2],
            root: 0,
            rails: vec!["rail0".to_string()],
            flows,
            source_port,
            transport: TransportKind::Tcp,
            device: DeviceKind::Host,
            size: Bytes(64),
            dtype: DType::F32,
            op: ReduceOp::Sum,
            placement: Placement::InPlace,
            engine: Engine::Ours,
            batch: 1,
            verbs: None,
            path: Vec::new(),
            to_rail: None,
            group: None,
            streams: None,
            probes: None,
            line_mbit: None,
        }
    }

    #[test]
    fn of_two_rails_the_first_ranks_is_dialled_from_whoever_asks() {
        for ranks in [[1, 2], [2, 1]] {
            let cross = Cell {
                collective: Collective::PointToPoint,
                ranks: ranks.to_vec(),
                to_rail: Some("b".to_string()),
                ..cell(1, None)
            };
            let named = connection(1, 2, (0, 1), 0, &cross);
            assert_eq!(named, connection(2, 1, (0, 1), 0, &cross));
            assert_eq!([named.from, named.to], ranks);
            assert_eq!((named.rail, named.to_rail), (0, 1));
        }
    }

    #[test]
    fn both_ends_name_a_connection_alike_and_every_flow_has_its_own_port() {
        let cell = cell(2, Some(47_000));
        assert_eq!(
            connection(1, 2, (0, 0), 1, &cell),
            connection(2, 1, (0, 0), 1, &cell)
        );
        let port = |from, flow| connection(from, 9, (0, 0), flow, &cell).source_port;
        let ports = [port(0, 0), port(0, 1), port(1, 0), port(1, 1)];
        assert_eq!(ports, [47_000, 47_001, 47_002, 47_003]);
    }

    #[test]
    fn data_that_goes_one_way_leaves_from_the_pinned_port_of_its_sender_whoever_is_the_lower_rank() {
        let flow = |ranks: [u32; 2], source_port| Cell {
            collective: Collective::PointToPoint,
            ranks: ranks.to_vec(),
            ..cell(1, source_port)
        };
        for ranks in [[1, 2], [2, 1]] {
            let pinned = flow(ranks, Some(47_000));
            let named = connection(1, 2, (0, 0), 0, &pinned);
            assert_eq!(
                named,
                connection(2, 1, (0, 0), 0, &pinned),
                "both ends name it alike"
            );
            assert_eq!([named.from, named.to], ranks);
            assert_eq!(u32::from(named.source_port), 47_000 + ranks[0]);
            let any = connection(1, 2, (0, 0), 0, &flow(ranks, None));
            assert_eq!(
                (any.from, any.source_port),
                (1, 0),
                "one connection for both ways"
            );
        }
    }

    #[test]
    fn pinned_source_ports_are_those_on_the_wire() {
        let rails = || vec![("rail0".to_string(), IpAddr::from([127, 0, 1, 1]).into())];
        let token = Token::generate().unwrap();
        let open = |rank| Mesh::open(rank, rails(), token, Hub::new(), Vec::new()).unwrap();
        let (mut low, mut high) = (open(0), open(1));
        let endpoints = vec![low.endpoint(), high.endpoint()];
        low.set_peers(endpoints.clone());
        high.set_peers(endpoints);
        // Any two ports that are free now; `high` listens on another one.
        let base = 40_000 + (std::process::id() % 20_000) as u16;
        let cell = cell(2, Some(base));
        let deadline = Instant::now() + std::time::Duration::from_secs(10);
        let wanted = Wanted {
            cell: &cell,
            placed: false,
            deadline,
            give_up: &|| false,
        };
        let listener = high.endpoint().listeners[0];
        let _channel = low.connect(&[1], &wanted).unwrap();
        let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
        for port in [base, base + 1] {
            // Addresses stand there as little-endian hexadecimal words.
            let way = format!("0101007F:{port:04X} 0101007F:{:04X} 01", listener.port());
            assert!(table.contains(&way), "no connection {way} in\n{table}");
        }
    }
}
