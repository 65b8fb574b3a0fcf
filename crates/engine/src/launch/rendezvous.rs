//! The rendezvous of ranks of separate processes, over TCP.
//!
//! The coordinator listens on one management address. A rank connects, sends a fixed-size join request (magic, token, rank,
//! world size) and gets a reply; only after that is any length read from the connection. An outsider (wrong magic, wrong
//! token, silence) is dropped and logged and cannot hold up the others, because every handshake runs on its own short-lived
//! thread with its own deadline. The world is complete when every rank of *this* run has joined exactly once.
//!
//! The listener stays open until it is dropped: a process that joins late, twice, or with another world size is told so, and
//! recorded as a conflict: what should be one world is several.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::Token;
use super::connection::{ControlConnection, Delivery, InboxSender};
use super::control::{AnswerSink, Coordinator, Member, OrderSender, OrderSource};
use super::handshake::JoinReply;
use super::join::{JoinConfig, request_join};
use super::listener::{JoinConflict, ListenerState, MemberState, accept_ranks};
use super::rendezvous_address::RendezvousAddress;
use super::rendezvous_error::RendezvousError;

/// How long the process that holds our port may take to reply.
const HOLDER_TIMEOUT: Duration = Duration::from_secs(2);

/// Why the wait for ranks ends before its deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitAbort {
    /// This rank's process has ended.
    ProcessEnded(u32),
    /// The operator asked to stop.
    Interrupted,
}

/// The coordinator's listener for ranks. Dropping it closes it.
pub struct Rendezvous {
    pub(super) state: Arc<ListenerState>,
    pub(super) deliveries: Sender<Delivery>,
    inbox: Mutex<Option<Receiver<Delivery>>>,
    hosts: Option<Vec<String>>,
    accepting: Option<JoinHandle<()>>,
}

impl Rendezvous {
    /// Listens for `world` ranks on `address`, any free port.
    pub fn listen(address: IpAddr, world: u32, token: Token) -> Result<Rendezvous, RendezvousError> {
        Rendezvous::bind(SocketAddr::new(address, 0), world, token)
    }

    /// Listens at an address that must be on this machine; the error says who holds the port if it is taken.
    pub fn listen_at(
        rendezvous: &RendezvousAddress,
        world: u32,
        token: Token,
    ) -> Result<Rendezvous, RendezvousError> {
        let unresolved = |source| RendezvousError::Unresolved {
            host: rendezvous.host.clone(),
            source,
        };
        let mut failure = None;
        for address in rendezvous.resolve().map_err(unresolved)? {
            match Rendezvous::bind(address, world, token) {
                Ok(listening) => return Ok(listening),
                Err(RendezvousError::Listen { source, .. })
                    if source.kind() == io::ErrorKind::AddrNotAvailable =>
                {
                    let (address, host) = (address.ip(), rendezvous.host.clone());
                    failure.get_or_insert(RendezvousError::OtherMachine { address, host });
                }
                Err(RendezvousError::Listen { source, .. }) if source.kind() == io::ErrorKind::AddrInUse => {
                    let holder = identify_holder(address, world, token);
                    return Err(RendezvousError::PortTaken { address, holder });
                }
                Err(error) => return Err(error),
            }
        }
        Err(failure.unwrap_or_else(|| unresolved(io::ErrorKind::NotFound.into())))
    }

    fn bind(address: SocketAddr, world: u32, token: Token) -> Result<Rendezvous, RendezvousError> {
        let failed = |source| RendezvousError::Listen { address, source };
        let listener = TcpListener::bind(address).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let state = ListenerState::new(world, token, listener.local_addr().map_err(failed)?);
        let (deliveries, inbox) = mpsc::channel();
        let shared = Arc::clone(&state);
        let accepting = std::thread::Builder::new()
            .name("rendezvous".to_string())
            .spawn(move || accept_ranks(&listener, &shared))
            .map_err(failed)?;
        Ok(Rendezvous {
            state,
            deliveries,
            inbox: Mutex::new(Some(inbox)),
            hosts: None,
            accepting: Some(accepting),
        })
    }

    /// Names the host of every rank, for messages about missing ones.
    pub fn with_hosts(mut self, hosts: Option<Vec<String>>) -> Rendezvous {
        self.hosts = hosts;
        self
    }

    /// Where ranks must connect.
    pub fn address(&self) -> io::Result<SocketAddr> {
        Ok(self.state.address)
    }

    /// Ranks in the run.
    pub fn world(&self) -> u32 {
        self.state.world
    }

    /// Joins `rank` as a thread of this process; none when there is no such rank or it has joined already.
    pub fn join_local(&self, rank: u32) -> Option<Member> {
        let (sender, orders) = mpsc::channel();
        let mut membership = self.state.lock();
        let member = membership.members.get_mut(rank as usize)?;
        if !matches!(member, MemberState::Missing) {
            return None;
        }
        *member = MemberState::Local(OrderSender::Channel(sender));
        let answers = AnswerSink::Channel(self.inbox_sender(rank, 0));
        Some(Member::new(
            rank,
            self.state.world,
            OrderSource::Channel(orders),
            answers,
        ))
    }

    /// Processes with this run's token that could not join: another world size, or a rank that had joined already.
    pub fn join_conflicts(&self) -> Vec<String> {
        let membership = self.state.lock();
        membership
            .conflicts
            .iter()
            .map(|conflict| conflict.text.clone())
            .collect()
    }

    /// The inbox for a connection of `rank`.
    pub(super) fn inbox_sender(&self, rank: u32, generation: u32) -> InboxSender {
        let to = self.deliveries.clone();
        InboxSender { rank, generation, to }
    }

    /// Waits until every rank has joined. `abort` is polled and may end the wait, for instance because a child process has
    /// died.
    pub fn wait_for_ranks(
        &self,
        deadline: Duration,
        mut abort: impl FnMut() -> Option<WaitAbort>,
    ) -> Result<Coordinator, RendezvousError> {
        let until = Instant::now() + deadline;
        let mut membership = self.state.lock();
        loop {
            let members = (0..).zip(&membership.members);
            let missing = members.filter(|(_, member)| matches!(member, MemberState::Missing));
            let missing: Vec<u32> = missing.map(|(rank, _)| rank).collect();
            if missing.is_empty() {
                return Ok(self.connect_all(&mut membership.members));
            }
            match abort() {
                Some(WaitAbort::Interrupted) => return Err(RendezvousError::Interrupted),
                Some(WaitAbort::ProcessEnded(rank)) if missing.contains(&rank) => {
                    return Err(self.missing(&[rank], deadline, &membership.conflicts));
                }
                _ if Instant::now() >= until => {
                    return Err(self.missing(&missing, deadline, &membership.conflicts));
                }
                _ => {}
            }
            let poll = Duration::from_millis(50);
            membership = match self.state.changed.wait_timeout(membership, poll) {
                Ok((guard, _)) => guard,
                Err(poisoned) => poisoned.into_inner().0,
            };
        }
    }

    fn missing(&self, ranks: &[u32], deadline: Duration, conflicts: &[JoinConflict]) -> RendezvousError {
        let host = |rank: u32| self.hosts.as_ref().and_then(|hosts| hosts.get(rank as usize));
        let name = |rank: &u32| match host(*rank) {
            Some(host) => format!("{rank} ({host})"),
            None => rank.to_string(),
        };
        let (missing, world) = (ranks.iter().map(name).collect(), self.state.world);
        match conflicts {
            [] => RendezvousError::Missing {
                missing,
                world,
                deadline,
            },
            conflicts => RendezvousError::SeparateWorlds {
                missing,
                world,
                deadline,
                conflicts: conflicts.iter().map(|conflict| conflict.text.clone()).collect(),
            },
        }
    }

    /// Hands every joined rank to the coordinator.
    fn connect_all(&self, members: &mut [MemberState]) -> Coordinator {
        let mut senders = Vec::with_capacity(members.len());
        for (rank, member) in (0..).zip(members) {
            match std::mem::replace(member, MemberState::Missing) {
                MemberState::Local(sender) => {
                    *member = MemberState::Connected(self.state.address, None);
                    senders.push(sender);
                }
                MemberState::Joined(stream, from) => {
                    let connection = ControlConnection::open(stream, self.inbox_sender(rank, 0));
                    *member = MemberState::Connected(from, Some(Arc::clone(&connection)));
                    senders.push(OrderSender::Connection(connection));
                }
                // Called once, when no rank is missing.
                other => *member = other,
            }
        }
        let inbox = self
            .inbox
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
            .take();
        let inbox = inbox.unwrap_or_else(|| mpsc::channel().1);
        Coordinator::new(senders, self.deliveries.clone(), inbox)
    }
}

impl Drop for Rendezvous {
    fn drop(&mut self) {
        self.state.closing.store(true, Ordering::Relaxed);
        if let Some(accepting) = self.accepting.take() {
            // It polls the flag many times a second; a panic in it concerned only processes that could not join.
            let _ = accepting.join();
        }
    }
}

/// Who listens where rank 0 wants to listen, found out by a join request. The holder then knows of us, too.
fn identify_holder(address: SocketAddr, world: u32, token: Token) -> String {
    let me = JoinConfig {
        rank: 0,
        world,
        rendezvous: RendezvousAddress::from(address),
        token,
    };
    match request_join(&me, Instant::now() + HOLDER_TIMEOUT) {
        Ok((JoinReply::RankTaken(_) | JoinReply::Accepted | JoinReply::RetryLater, ..)) => {
            "another rank 0 of this run listens there already; give every process a rank of its own"
                .to_string()
        }
        Ok((JoinReply::WorldMismatch(theirs), ..)) => format!(
            "another rank 0 with world size {theirs} listens there already, this process has world size {world}: these are separate worlds; start every process with the same world size"
        ),
        Ok((JoinReply::Refused, ..)) => "another run listens there already; choose another port".to_string(),
        Err(_) => "another program, or a run that has just ended, holds it; choose another port".to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{Ipv4Addr, TcpStream};

    use super::super::{Incoming, JoinConfig, JoinError, Member, frame, handshake, join};
    use super::*;

    /// Longer than anything here takes on a busy machine.
    const LIMIT: Duration = Duration::from_secs(60);
    const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    fn open(world: u32) -> (Rendezvous, JoinConfig) {
        let token = Token::generate().unwrap();
        let rendezvous = Rendezvous::listen(LOOPBACK, world, token).unwrap();
        let address = JoinConfig {
            rank: 0,
            world,
            rendezvous: rendezvous.address().unwrap().into(),
            token,
        };
        (rendezvous, address)
    }

    #[test]
    fn ranks_join_although_outsiders_connect() {
        let (rendezvous, address) = open(2);
        let at = rendezvous.address().unwrap();
        let mut garbage = TcpStream::connect(at).unwrap();
        garbage.write_all(&[0xff; 4096]).unwrap();
        let _silent = TcpStream::connect(at).unwrap();
        let waiting = std::thread::spawn(move || {
            rendezvous
                .wait_for_ranks(Duration::from_secs(10), || None)
                .unwrap()
        });
        let wrong = JoinConfig {
            token: Token::generate().unwrap(),
            ..address.clone()
        };
        assert!(matches!(join(&wrong, LIMIT), Err(JoinError::Refused { .. })));
        let other_world = JoinConfig {
            world: 3,
            ..address.clone()
        };
        assert!(matches!(
            join(&other_world, LIMIT),
            Err(JoinError::WorldMismatch {
                theirs: 2,
                ours: 3,
                ..
            })
        ));

        let joining: Vec<_> = (0..2)
            .map(|rank| JoinConfig {
                rank,
                ..address.clone()
            })
            .map(|address| std::thread::spawn(move || join(&address, LIMIT).unwrap()))
            .collect();
        let mut members: Vec<Member> = joining.into_iter().map(|thread| thread.join().unwrap()).collect();
        let coordinator = waiting.join().unwrap();
        coordinator.send(1, b"hello".to_vec()).unwrap();
        assert_eq!(members[1].receive().unwrap(), b"hello");

        drop(members);
        let (_, incoming) = coordinator.receive(Instant::now() + LIMIT).unwrap();
        assert!(matches!(incoming, Incoming::Disconnected(reason) if reason.contains("ended")));
    }

    #[test]
    fn a_rank_that_ends_before_it_has_read_its_orders_is_said_to_have_ended() {
        let (rendezvous, config) = open(1);
        let address = rendezvous.address().unwrap();
        let waiting = std::thread::spawn(move || rendezvous.wait_for_ranks(LIMIT, || None).unwrap());
        let mut rank = TcpStream::connect(address).unwrap();
        rank.write_all(&handshake::encode_request(0, 1, &config.token))
            .unwrap();
        let mut reply = [0; handshake::REPLY_LEN];
        rank.read_exact(&mut reply).unwrap();
        let coordinator = waiting.join().unwrap();
        coordinator.send(0, b"hello".to_vec()).unwrap();
        rank.peek(&mut [0]).unwrap();
        drop(rank);
        let (_, incoming) = coordinator.receive(Instant::now() + LIMIT).unwrap();
        assert!(matches!(incoming, Incoming::Disconnected(reason) if reason.contains("has ended")));
    }

    #[test]
    fn a_rank_that_does_not_join_is_named() {
        let (rendezvous, address) = open(3);
        let joining = std::thread::spawn(move || {
            join(&JoinConfig { rank: 1, ..address }, LIMIT).map(|member| member.rank())
        });
        let error = rendezvous
            .wait_for_ranks(Duration::from_millis(400), || None)
            .map(|_| ())
            .unwrap_err()
            .to_string();
        assert!(error.contains("rank 0, 2 of 3"), "{error}");
        assert_eq!(joining.join().unwrap().unwrap(), 1);
    }

    #[test]
    fn a_child_that_died_before_joining_ends_the_wait_at_once() {
        let (rendezvous, _) = open(2);
        let started = Instant::now();
        let error = rendezvous
            .wait_for_ranks(2 * LIMIT, || Some(WaitAbort::ProcessEnded(1)))
            .map(|_| ())
            .unwrap_err()
            .to_string();
        assert!(error.contains("rank 1 of 2"), "{error}");
        assert!(started.elapsed() < LIMIT);
    }

    #[test]
    fn a_rank_that_waits_for_others_gets_heartbeats() {
        let (rendezvous, config) = open(2);
        let mut early = TcpStream::connect(rendezvous.address().unwrap()).unwrap();
        early
            .write_all(&handshake::encode_request(1, 2, &config.token))
            .unwrap();
        early.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let mut reply = [0; handshake::REPLY_LEN];
        early.read_exact(&mut reply).unwrap();
        assert_eq!(JoinReply::from_bytes(&reply), Some(JoinReply::Accepted));
        assert_eq!(frame::read(&mut early).unwrap(), b"");
        assert_eq!(frame::read(&mut early).unwrap(), b"");
    }
}
