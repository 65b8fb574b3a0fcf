//! Ranks of separate processes meeting over TCP.
//!
//! The coordinator listens on one management address. A rank dials, presents a fixed-size greeting (magic, token, rank,
//! world) and is answered; only after that is any length read from the connection. A stranger (wrong magic, wrong token,
//! silence) is dropped and logged and cannot hold up the others, because every greeting is read on its own short-lived
//! thread with its own deadline. The world is complete when every rank of *this* run has joined exactly once.
//!
//! The door stays open until it is dropped: whoever comes late, twice, or from another world is told so, and is remembered
//! as evidence that what should be one world is several.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::Token;
use super::door::{Evidence, Seat, Seats, State, answer_door};
use super::greeting::Answer;
use super::join::{JoinAddress, attempt};
use super::link::{Answers, Coordinator, Member, Orders, Post};
use super::meet_error::MeetError;
use super::meeting::Meeting;
use super::wire::{Arrival, Inlet, Wire};

/// How long a message may take to be accepted by the other side before the link counts as broken.
pub(super) const WRITE_PATIENCE: Duration = Duration::from_secs(30);
/// How long whoever holds our port may take to say who it is.
const HOLDER_PATIENCE: Duration = Duration::from_secs(2);
/// Why the wait for ranks ends before its deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GiveUp {
    /// This rank's process has ended.
    Dead(u32),
    /// The operator asked to stop.
    Interrupted,
}

/// The coordinator's open door. Dropping it closes it.
pub struct Rendezvous {
    pub(super) state: Arc<State>,
    pub(super) arrived: Sender<Arrival>,
    inbox: Mutex<Option<Receiver<Arrival>>>,
    hosts: Option<Vec<String>>,
    porter: Option<JoinHandle<()>>,
}

impl Rendezvous {
    /// Opens the door for `world` ranks on `address`, any free port.
    pub fn open(address: IpAddr, world: u32, token: Token) -> Result<Rendezvous, MeetError> {
        Rendezvous::listen(SocketAddr::new(address, 0), world, token)
    }

    /// Opens the door at a meeting place that must be on this machine; says who is there when somebody else is.
    pub fn open_at(meeting: &Meeting, world: u32, token: Token) -> Result<Rendezvous, MeetError> {
        let unresolved = |source| MeetError::Unresolved {
            host: meeting.host.clone(),
            source,
        };
        let mut failure = None;
        for address in meeting.resolve().map_err(unresolved)? {
            match Rendezvous::listen(address, world, token) {
                Ok(door) => return Ok(door),
                Err(MeetError::Listen { source, .. }) if source.kind() == io::ErrorKind::AddrNotAvailable => {
                    let (address, host) = (address.ip(), meeting.host.clone());
                    failure.get_or_insert(MeetError::Elsewhere { address, host });
                }
                Err(MeetError::Listen { source, .. }) if source.kind() == io::ErrorKind::AddrInUse => {
                    let holder = who_holds(address, world, token);
                    return Err(MeetError::PortTaken { address, holder });
                }
                Err(error) => return Err(error),
            }
        }
        Err(failure.unwrap_or_else(|| unresolved(io::ErrorKind::NotFound.into())))
    }

    fn listen(address: SocketAddr, world: u32, token: Token) -> Result<Rendezvous, MeetError> {
        let failed = |source| MeetError::Listen { address, source };
        let listener = TcpListener::bind(address).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let state = State::new(world, token, listener.local_addr().map_err(failed)?);
        let (arrived, inbox) = mpsc::channel();
        let at_door = Arc::clone(&state);
        let porter = std::thread::Builder::new()
            .name("rendezvous".to_string())
            .spawn(move || answer_door(&listener, &at_door))
            .map_err(failed)?;
        Ok(Rendezvous {
            state,
            arrived,
            inbox: Mutex::new(Some(inbox)),
            hosts: None,
            porter: Some(porter),
        })
    }

    /// The same door, which knows the host of every rank and names it when one is missing.
    pub fn expecting(mut self, hosts: Option<Vec<String>>) -> Rendezvous {
        self.hosts = hosts;
        self
    }

    /// Where ranks must dial.
    pub fn address(&self) -> io::Result<SocketAddr> {
        Ok(self.state.address)
    }

    /// Ranks in the run.
    pub fn world(&self) -> u32 {
        self.state.world
    }

    /// Takes the seat of `rank` for a thread of this process; none when there is no such seat or it is taken.
    pub fn sit(&self, rank: u32) -> Option<Member> {
        let (post, orders) = mpsc::channel();
        let mut seats = self.state.lock();
        let seat = seats.seats.get_mut(rank as usize)?;
        if !matches!(seat, Seat::Free) {
            return None;
        }
        *seat = Seat::Own(Post::Channel(post));
        let answers = Answers::Channel(self.inlet(rank, 0));
        Some(Member::new(
            rank,
            self.state.world,
            Orders::Channel(orders),
            answers,
        ))
    }

    /// Callers with this run's token who did not belong: another world size, or a rank that had joined.
    pub fn evidence_of_separate_worlds(&self) -> Vec<String> {
        let seats = self.state.lock();
        seats.evidence.iter().map(|one| one.text.clone()).collect()
    }

    /// Where what comes over the `turn`-th link of `rank` arrives.
    pub(super) fn inlet(&self, rank: u32, turn: u32) -> Inlet {
        let to = self.arrived.clone();
        Inlet { rank, turn, to }
    }

    /// Waits until every rank has joined. `give_up` is asked now and then and may end the wait with a reason, for
    /// instance because a child process has died.
    pub fn meet(
        &self,
        deadline: Duration,
        mut give_up: impl FnMut() -> Option<GiveUp>,
    ) -> Result<Coordinator, MeetError> {
        let until = Instant::now() + deadline;
        let mut seats = self.state.lock();
        loop {
            let free = |seats: &Seats| -> Vec<u32> {
                let free = (0..)
                    .zip(&seats.seats)
                    .filter(|(_, seat)| matches!(seat, Seat::Free));
                free.map(|(rank, _)| rank).collect()
            };
            let missing = free(&seats);
            if missing.is_empty() {
                return Ok(self.seat_all(&mut seats.seats));
            }
            match give_up() {
                Some(GiveUp::Interrupted) => return Err(MeetError::Interrupted),
                Some(GiveUp::Dead(rank)) if missing.contains(&rank) => {
                    return Err(self.missing(&[rank], deadline, &seats.evidence));
                }
                _ if Instant::now() >= until => {
                    return Err(self.missing(&missing, deadline, &seats.evidence));
                }
                _ => {}
            }
            let glance = Duration::from_millis(50);
            seats = match self.state.changed.wait_timeout(seats, glance) {
                Ok((guard, _)) => guard,
                Err(poisoned) => poisoned.into_inner().0,
            };
        }
    }

    fn missing(&self, ranks: &[u32], deadline: Duration, evidence: &[Evidence]) -> MeetError {
        let host = |rank: u32| self.hosts.as_ref().and_then(|hosts| hosts.get(rank as usize));
        let name = |rank: &u32| match host(*rank) {
            Some(host) => format!("{rank} ({host})"),
            None => rank.to_string(),
        };
        let (missing, world) = (ranks.iter().map(name).collect(), self.state.world);
        match evidence {
            [] => MeetError::Missing {
                missing,
                world,
                deadline,
            },
            evidence => MeetError::Separate {
                missing,
                world,
                deadline,
                evidence: evidence.iter().map(|one| one.text.clone()).collect(),
            },
        }
    }

    /// Starts listening to every joined rank.
    fn seat_all(&self, seats: &mut [Seat]) -> Coordinator {
        let mut posts = Vec::with_capacity(seats.len());
        for (rank, seat) in (0..).zip(seats) {
            match std::mem::replace(seat, Seat::Free) {
                Seat::Own(post) => {
                    *seat = Seat::Given(self.state.address, None);
                    posts.push(post);
                }
                Seat::Remote(stream, from) => {
                    let wire = Wire::open(stream, self.inlet(rank, 0));
                    *seat = Seat::Given(from, Some(Arc::clone(&wire)));
                    posts.push(Post::Wire(wire));
                }
                // Nobody meets twice at one door, and a free seat ends the wait before this.
                other => *seat = other,
            }
        }
        let inbox = self
            .inbox
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
            .take();
        let inbox = inbox.unwrap_or_else(|| mpsc::channel().1);
        Coordinator::new(posts, self.arrived.clone(), inbox)
    }
}

impl Drop for Rendezvous {
    fn drop(&mut self) {
        self.state.closing.store(true, Ordering::Relaxed);
        if let Some(porter) = self.porter.take() {
            // The porter looks at the flag many times a second; a panic in it would only have turned strangers away.
            let _ = porter.join();
        }
    }
}

/// Who listens where rank 0 wants to listen, found out by presenting ourselves there. The holder then knows of us, too.
fn who_holds(address: SocketAddr, world: u32, token: Token) -> String {
    let me = JoinAddress {
        rank: 0,
        world,
        rendezvous: Meeting::from(address),
        token,
    };
    match attempt(&me, Instant::now() + HOLDER_PATIENCE) {
        Ok((Answer::Taken(_) | Answer::Welcome | Answer::Later, ..)) => {
            "another rank 0 of this run is already here; give every process a rank of its own".to_string()
        }
        Ok((Answer::OtherWorld(theirs), ..)) => format!(
            "another rank 0 is already here with {theirs} ranks, you say {world}: these are separate worlds"
        ),
        Ok((Answer::Refused, ..)) => "another run is already here; choose another port".to_string(),
        Err(_) => {
            "another program, or a run that has just ended, is already here; choose another port".to_string()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{Ipv4Addr, TcpStream};

    use super::super::{Incoming, JoinAddress, JoinError, Member, join};
    use super::*;

    const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    fn open(world: u32) -> (Rendezvous, JoinAddress) {
        let token = Token::generate().unwrap();
        let door = Rendezvous::open(LOOPBACK, world, token).unwrap();
        let address = JoinAddress {
            rank: 0,
            world,
            rendezvous: door.address().unwrap().into(),
            token,
        };
        (door, address)
    }

    #[test]
    fn ranks_meet_although_strangers_knock() {
        let (door, address) = open(2);
        let at = door.address().unwrap();
        let mut garbage = TcpStream::connect(at).unwrap();
        garbage.write_all(&[0xff; 4096]).unwrap();
        let _silent = TcpStream::connect(at).unwrap();
        let meeting = std::thread::spawn(move || door.meet(Duration::from_secs(10), || None).unwrap());
        let wrong = JoinAddress {
            token: Token::generate().unwrap(),
            ..address.clone()
        };
        assert!(matches!(
            join(&wrong, Duration::from_secs(5)),
            Err(JoinError::Refused { .. })
        ));
        let other_world = JoinAddress {
            world: 3,
            ..address.clone()
        };
        assert!(matches!(
            join(&other_world, Duration::from_secs(5)),
            Err(JoinError::OtherWorld {
                theirs: 2,
                ours: 3,
                ..
            })
        ));

        let joining: Vec<_> = (0..2)
            .map(|rank| JoinAddress {
                rank,
                ..address.clone()
            })
            .map(|address| std::thread::spawn(move || join(&address, Duration::from_secs(5)).unwrap()))
            .collect();
        let mut members: Vec<Member> = joining.into_iter().map(|thread| thread.join().unwrap()).collect();
        let coordinator = meeting.join().unwrap();
        coordinator.send(1, b"hello".to_vec()).unwrap();
        assert_eq!(members[1].receive().unwrap(), b"hello");

        drop(members);
        let (_, gone) = coordinator
            .receive(Instant::now() + Duration::from_secs(5))
            .unwrap();
        assert!(matches!(gone, Incoming::Gone(reason) if reason.contains("ended")));
    }

    #[test]
    fn a_rank_that_does_not_arrive_is_named() {
        let (door, address) = open(3);
        let joining = std::thread::spawn(move || {
            join(&JoinAddress { rank: 1, ..address }, Duration::from_secs(5)).map(|member| member.rank())
        });
        let error = door
            .meet(Duration::from_millis(400), || None)
            .map(|_| ())
            .unwrap_err()
            .to_string();
        assert!(error.contains("rank 0, 2 of 3"), "{error}");
        assert_eq!(joining.join().unwrap().unwrap(), 1);
    }

    #[test]
    fn a_child_that_died_before_joining_ends_the_wait_at_once() {
        let (door, _) = open(2);
        let started = Instant::now();
        let error = door
            .meet(Duration::from_secs(60), || Some(GiveUp::Dead(1)))
            .map(|_| ())
            .unwrap_err()
            .to_string();
        assert!(error.contains("rank 1 of 2"), "{error}");
        assert!(started.elapsed() < Duration::from_secs(30));
    }
}
