//! One rank's connections to all others, made when a cell first needs them and kept for the next.
//!
//! Of two ranks the lower one dials, the higher one accepts; both name the connection alike, so neither needs to ask. A
//! connection stays open between cells: a pinned source port could not be used again at once, and a fabric should not be
//! measured on connections that are still warming up.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::Link;
use super::channel::{Channel, Lane};
use super::gpu_end::GpuEnd;
use super::inject::{Fault, Flip, Pacer};
use super::shm::Hub;
use super::tcp::{Connection, DialError, Doors, INTRODUCES, KNOCK, LINE, Local, TcpLink, dial};
use super::verbs::{Introduction, Meeting, Nics, Pending};
use crate::device::cuda::Direct;
use crate::launch::Token;
use crate::record::{Cell, MemoryPath, TransportKind, VerbsTerms};

/// Where a rank can be reached: one door per rail, in the run's order of rails.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Endpoint {
    /// World rank.
    pub rank: u32,
    /// Doors, rail by rail.
    pub doors: Vec<SocketAddr>,
    /// Its memory on a GPU, when that is where its data lies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<GpuEnd>,
    /// Whether the NICs of all its rails read and write that memory themselves; why not, in words. None when nobody asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpudirect: Option<Result<(), String>>,
}

/// A connection by which two ranks agree on queue pairs of their own.
pub struct Line<'a> {
    /// The connection.
    pub stream: TcpStream,
    /// This rank's end of the rail.
    pub local: &'a Local,
    /// Its devices.
    pub nics: &'a mut Nics,
}

/// What came of knocking at a rank's doors.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Knock {
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

/// Which way a link goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// Rail by name; none for transports without rails.
    pub rail: Option<String>,
    key: LinkKey,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum LinkKey {
    Shm { peer: u32 },
    Tcp(Connection),
    Verbs(Connection, Pinned, bool, VerbsTerms),
}

/// The UDP source port of this side's packets, when the plan pins it.
type Pinned = Option<u16>;

/// A link that is being made, with whom and which way.
struct Making {
    peer: u32,
    route: Route,
    half: Half,
}

/// How far a link is.
enum Half {
    Done(Box<dyn Link>),
    Begun(Pending),
    Met(Meeting),
}

impl Half {
    /// The link, of one that has come to its end.
    fn link(self) -> Box<dyn Link> {
        match self {
            Half::Done(link) => link,
            Half::Begun(_) | Half::Met(_) => {
                unreachable!("links that were begun are brought to their end first")
            }
        }
    }
}

/// What a cell wants between two ranks.
#[derive(Clone, Copy)]
pub struct Wanted<'a> {
    /// Transport, rails, flows and source ports.
    pub cell: &'a Cell,
    /// Whether everything that is received over RDMA can be written to where it belongs at once.
    pub placed: bool,
    /// When to give up.
    pub deadline: Instant,
    /// Asked now and then whether to give up earlier.
    pub give_up: &'a dyn Fn() -> bool,
}

/// A peer cannot be reached as the cell wants it.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The cell names a rail this rank does not have.
    #[error("this rank has no rail `{0}`")]
    NoSuchRail(String),
    /// The peer is not known.
    #[error("rank {0} has not told where it can be reached")]
    UnknownPeer(u32),
    /// Two cells of one slot want the same link.
    #[error("two cells of one slot want the same link to rank {0}")]
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

/// Queue pairs hold memory that the NIC has pinned, so with more peers than this they are made anew for every cell. All ranks
/// know how many they are, so both ends do the same.
const FEW_PEERS: usize = 64;

/// How long one door is knocked at.
const EACH_DOOR: Duration = Duration::from_millis(600);

/// One rank's connections.
pub struct Mesh {
    me: u32,
    token: Token,
    hub: Arc<Hub>,
    rails: Vec<(String, Local)>,
    doors: Doors,
    nics: Nics,
    gpu: Option<GpuEnd>,
    gpudirect: Option<Result<(), String>>,
    peers: Vec<Endpoint>,
    kept: HashMap<LinkKey, Option<Box<dyn Link>>>,
    faults: Vec<Fault>,
    flip: Option<Flip>,
    /// How often everything was given up.
    generation: u16,
}

impl ConnectError {
    /// The rail that does not get through, when it is one.
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
    /// Opens rank `me`'s doors on its rails.
    pub fn open(
        me: u32,
        rails: Vec<(String, Local)>,
        token: Token,
        hub: Arc<Hub>,
        faults: Vec<Fault>,
    ) -> std::io::Result<Mesh> {
        let ends: Vec<Local> = rails.iter().map(|(_, local)| local.clone()).collect();
        let doors = Doors::open(me, &ends, token)?;
        let flip = Flip::for_rank(&faults, me);
        Ok(Mesh {
            me,
            token,
            hub,
            rails,
            doors,
            nics: Nics::default(),
            gpu: None,
            gpudirect: None,
            peers: Vec::new(),
            kept: HashMap::new(),
            faults,
            flip,
            generation: 0,
        })
    }

    /// Where this rank can be reached.
    pub fn endpoint(&self) -> Endpoint {
        Endpoint {
            rank: self.me,
            doors: self.doors.addresses().to_vec(),
            gpu: self.gpu.clone(),
            gpudirect: self.gpudirect.clone(),
        }
    }

    /// Says to the others, as part of the endpoint, that this rank's data lies on a GPU.
    pub fn lies_on(&mut self, gpu: GpuEnd) {
        self.gpu = Some(gpu);
    }

    /// Says to the others, as part of the endpoint, whether the NICs of all rails take memory of the rank's GPU. `memory` is
    /// some of it, or why NICs cannot be told of it.
    pub fn offer_direct(&mut self, memory: Result<Arc<Direct>, String>) {
        let asked = memory.and_then(|memory| self.nics.take_direct(&self.rails, &memory));
        self.gpudirect = Some(asked);
    }

    /// The others, as they introduced themselves.
    pub fn peers(&self) -> &[Endpoint] {
        &self.peers
    }

    /// Learns where the others can be reached.
    pub fn meet(&mut self, peers: Vec<Endpoint>) {
        self.peers = peers;
    }

    /// Strangers turned away since the last call.
    pub fn strangers(&self) -> Vec<String> {
        self.doors.strangers()
    }

    /// Faults to be injected.
    pub fn faults(&self) -> &[Fault] {
        &self.faults
    }

    /// The bit that is to be flipped in what this rank receives, if one is.
    pub fn flip(&self) -> Option<&Flip> {
        self.flip.as_ref()
    }

    /// Channels to `peers` as the cell wants them; the peer that cannot be reached, and why, when there is one.
    ///
    /// All are begun before any is waited for: ranks that wait for each other in a circle would never meet.
    pub fn connect(
        &mut self,
        peers: &[u32],
        wanted: &Wanted<'_>,
    ) -> Result<Vec<Channel>, (u32, ConnectError)> {
        let mut makings = Vec::new();
        for &peer in peers {
            let failed = |error| (peer, error);
            for route in self.routes(peer, wanted).map_err(failed)? {
                let half = match self.kept.get_mut(&route.key) {
                    Some(kept) => Half::Done(kept.take().ok_or(ConnectError::Taken(peer)).map_err(failed)?),
                    None => {
                        let half = self.make(peer, &route, wanted).map_err(failed)?;
                        self.kept.insert(route.key, None);
                        half
                    }
                };
                makings.push(Making { peer, route, half });
            }
        }
        let mut channels: Vec<(u32, Vec<Lane>)> = peers.iter().map(|peer| (*peer, Vec::new())).collect();
        for Making { peer, route, half } in self.finish(makings, wanted.deadline)? {
            let link = half.link();
            let pacer = Pacer::for_way(&self.faults, self.me, peer, route.rail.as_deref());
            let lanes = channels.iter_mut().find(|(of, _)| *of == peer);
            lanes.expect("every link is to one of the peers").1.push(Lane {
                moved_before: link.moved(),
                left_before: 0,
                route,
                link,
                pacer,
            });
        }
        let channel = |(peer, lanes)| Channel::new(peer, lanes, self.flip.clone());
        Ok(channels.into_iter().map(channel).collect())
    }

    /// Brings links that were begun to their end, step by step with all peers.
    fn finish(
        &mut self,
        mut makings: Vec<Making>,
        deadline: Instant,
    ) -> Result<Vec<Making>, (u32, ConnectError)> {
        for _step in ["meet", "finish"] {
            let mut further = Vec::with_capacity(makings.len());
            for Making { peer, route, half } in makings {
                let half = match half {
                    Half::Done(link) => Ok(Half::Done(link)),
                    Half::Begun(pending) => pending.meet(deadline).map(Half::Met),
                    Half::Met(meeting) => meeting.finish(deadline).map(Half::Done),
                };
                let half = half.map_err(|source| {
                    let rail = route.rail.clone().unwrap_or_default();
                    (peer, ConnectError::Setup { peer, rail, source })
                });
                further.push(Making {
                    peer,
                    half: half?,
                    route,
                });
            }
            makings = further;
        }
        Ok(makings)
    }

    /// Keeps the links of a channel for the next cell.
    pub fn release(&mut self, channel: Channel) {
        let few = self.peers.len() <= FEW_PEERS;
        for lane in channel.into_lanes() {
            match lane.route.key {
                LinkKey::Verbs(..) if !few => drop(self.kept.remove(&lane.route.key)),
                key => drop(self.kept.insert(key, Some(lane.link))),
            }
        }
    }

    /// Whether somebody answers at the doors of `peer`, asked from here over one rail after the other.
    pub fn knock(&self, peer: u32, patience: Duration) -> Knock {
        let until = Instant::now() + patience;
        let doors = self.peers.iter().find(|endpoint| endpoint.rank == peer);
        let mut outcome = Knock::Unknown;
        for (rail, door) in (0u16..).zip(doors.map_or(&[][..], |endpoint| &endpoint.doors)) {
            let Some((name, local)) = self.rails.get(usize::from(rail)) else {
                break;
            };
            let connection = Connection {
                from: self.me,
                to: peer,
                rail,
                flow: KNOCK,
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
                Ok(_) => return Knock::Answered { rail },
                Err(DialError::Refused { .. }) => return Knock::Mute { rail },
                Err(DialError::Connect { source, .. }) if source.kind() == ErrorKind::ConnectionRefused => {
                    return Knock::Ended { rail };
                }
                Err(_) => outcome = Knock::Unreachable,
            }
            if Instant::now() >= until {
                break;
            }
        }
        outcome
    }

    /// Gives up every connection, in use or kept: after a loss, all that go on start with new ones.
    pub fn reset(&mut self) {
        for mut link in self.kept.drain().filter_map(|(_, link)| link) {
            link.abandon();
        }
        self.doors.forget();
        // A device that was lost may be back as another.
        self.nics = Nics::default();
        self.generation = self.generation.wrapping_add(1);
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
                            TransportKind::Verbs => introduction_key(self.me, peer, rail, flow, wanted),
                            _ => LinkKey::Tcp(connection(self.me, peer, rail, flow, cell)),
                        };
                        routes.push(Route {
                            rail: Some(name.clone()),
                            key,
                        });
                    }
                }
                Ok(routes)
            }
            // Kernels use each other's memory: there is nothing to connect.
            TransportKind::Peer => Ok(Vec::new()),
        }
    }

    fn make(&mut self, peer: u32, route: &Route, wanted: &Wanted<'_>) -> Result<Half, ConnectError> {
        let connection = match route.key {
            LinkKey::Shm { peer } => {
                let link = self.hub.link(self.me, peer, self.generation);
                return Ok(Half::Done(Box::new(link)));
            }
            LinkKey::Tcp(connection) | LinkKey::Verbs(connection, ..) => connection,
        };
        let stream = self.stream(peer, &connection, wanted.deadline, wanted.give_up)?;
        let (rail, local) = &self.rails[usize::from(connection.rail)];
        let rail = rail.clone();
        let half = match route.key {
            LinkKey::Verbs(_, source_port, placed, terms) => {
                let wanted = Introduction {
                    me: self.me,
                    peer,
                    rail: rail.clone(),
                    flow: connection.flow & !INTRODUCES,
                    flows: wanted.cell.flows,
                    source_port,
                    placed,
                    terms,
                };
                self.nics.begin(stream, local, wanted).map(Half::Begun)
            }
            _ => TcpLink::new(stream).map(|link| Half::Done(Box::new(link))),
        };
        half.map_err(|source| ConnectError::Setup { peer, rail, source })
    }

    /// A greeted connection to `peer`: of two ranks the lower one dials, the higher one waits for it.
    fn stream(
        &self,
        peer: u32,
        connection: &Connection,
        deadline: Instant,
        give_up: &dyn Fn() -> bool,
    ) -> Result<TcpStream, ConnectError> {
        let (rail, local) = &self.rails[usize::from(connection.rail)];
        if connection.from != self.me {
            let taken = self.doors.take(connection, deadline, give_up);
            return taken.ok_or_else(|| ConnectError::NotDialled {
                peer,
                rail: rail.clone(),
            });
        }
        let door = self
            .peers
            .iter()
            .find(|endpoint| endpoint.rank == peer)
            .and_then(|endpoint| endpoint.doors.get(usize::from(connection.rail)))
            .ok_or(ConnectError::UnknownPeer(peer))?;
        dial(connection, local, *door, &self.token, deadline).map_err(|source| ConnectError::Dial {
            peer,
            rail: rail.clone(),
            source,
        })
    }

    /// A connection to `peer` on a rail by which two ranks agree on queue pairs of their own, apart from those of cells, and
    /// this rank's end of the rail.
    pub fn line(
        &mut self,
        peer: u32,
        rail: &str,
        deadline: Instant,
        give_up: &dyn Fn() -> bool,
    ) -> Result<Line<'_>, ConnectError> {
        let number = self.rails.iter().position(|(name, _)| name == rail);
        let number = number.ok_or_else(|| ConnectError::NoSuchRail(rail.to_string()))?;
        let connection = Connection {
            from: self.me.min(peer),
            to: self.me.max(peer),
            rail: number as u16,
            flow: LINE,
            source_port: 0,
        };
        let stream = self.stream(peer, &connection, deadline, give_up)?;
        Ok(Line {
            stream,
            local: &self.rails[number].1,
            nics: &mut self.nics,
        })
    }
}

/// The name of the connection over which two queue pairs introduce themselves, and what sets them apart from others between
/// the same two. Every sender has ports of its own.
fn introduction_key(me: u32, peer: u32, rail: u16, flow: u16, wanted: &Wanted<'_>) -> LinkKey {
    let cell = wanted.cell;
    let introduces = Connection {
        from: me.min(peer),
        to: me.max(peer),
        rail,
        flow: flow | INTRODUCES,
        source_port: 0,
    };
    let pinned = cell.source_port.map(|base| {
        let sender = u16::try_from(me).unwrap_or(u16::MAX);
        base.wrapping_add(sender.wrapping_mul(cell.flows.max(1)))
            .wrapping_add(flow)
    });
    let terms = cell.verbs.unwrap_or_default();
    let placed = terms.memory == MemoryPath::GpuDirect || wanted.placed;
    LinkKey::Verbs(introduces, pinned, placed, terms)
}

/// The name of a connection, the same at both ends.
fn connection(me: u32, peer: u32, rail: u16, flow: u16, cell: &Cell) -> Connection {
    let (from, to) = (me.min(peer), me.max(peer));
    let source_port = cell.source_port.map_or(0, |base| {
        let dialler = u16::try_from(from).unwrap_or(u16::MAX);
        base.wrapping_add(dialler.wrapping_mul(cell.flows.max(1)))
            .wrapping_add(flow)
    });
    Connection {
        from,
        to,
        rail,
        flow,
        source_port,
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;
    use crate::record::{Algorithm, Collective, DType, DeviceKind, Engine, Load, Placement, ReduceOp};
    use crate::units::Bytes;

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
        }
    }

    #[test]
    fn both_ends_name_a_connection_alike_and_every_flow_has_its_own_port() {
        let cell = cell(2, Some(47_000));
        assert_eq!(connection(1, 2, 0, 1, &cell), connection(2, 1, 0, 1, &cell));
        let port = |from, flow| connection(from, 9, 0, flow, &cell).source_port;
        let ports = [port(0, 0), port(0, 1), port(1, 0), port(1, 1)];
        assert_eq!(ports, [47_000, 47_001, 47_002, 47_003]);
    }

    #[test]
    fn pinned_source_ports_are_those_on_the_wire() {
        let rails = || vec![("rail0".to_string(), IpAddr::from([127, 0, 1, 1]).into())];
        let token = Token::generate().unwrap();
        let open = |rank| Mesh::open(rank, rails(), token, Hub::new(), Vec::new()).unwrap();
        let (mut low, mut high) = (open(0), open(1));
        let endpoints = vec![low.endpoint(), high.endpoint()];
        low.meet(endpoints.clone());
        high.meet(endpoints);
        // Any two ports that are free now; the door of `high` is another one.
        let base = 40_000 + (std::process::id() % 20_000) as u16;
        let cell = cell(2, Some(base));
        let deadline = Instant::now() + std::time::Duration::from_secs(10);
        let wanted = Wanted {
            cell: &cell,
            placed: false,
            deadline,
            give_up: &|| false,
        };
        let door = high.endpoint().doors[0];
        let _channel = low.connect(&[1], &wanted).unwrap();
        let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
        for port in [base, base + 1] {
            // Addresses stand there as little-endian hexadecimal words.
            let way = format!("0101007F:{port:04X} 0101007F:{:04X} 01", door.port());
            assert!(table.contains(&way), "no connection {way} in\n{table}");
        }
    }
}
