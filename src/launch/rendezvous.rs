//! Ranks of separate processes meeting over TCP.
//!
//! The coordinator listens on one management address. A rank dials, presents a fixed-size greeting (magic, token, rank,
//! world) and is answered; only after that is any length read from the connection. A stranger (wrong magic, wrong token,
//! silence) is dropped and logged and cannot hold up the others, because every greeting is read on its own short-lived
//! thread with its own deadline. The world is complete when every rank of *this* run has joined exactly once.

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::link::{Coordinator, Incoming, Post};
use super::pulse::Heard;
use super::{Token, frame, greeting};

/// How long a caller may take to say who it is.
const GREETING_PATIENCE: Duration = Duration::from_secs(5);
/// Callers whose greeting is awaited at the same time; more are turned away at once.
const MAX_UNGREETED: usize = 256;
/// How long a message may take to be accepted by the other side before the link counts as broken.
pub(super) const WRITE_PATIENCE: Duration = Duration::from_secs(30);

/// Ranks did not meet.
#[derive(Debug, thiserror::Error)]
pub enum MeetError {
    /// The management address cannot be used.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: IpAddr,
        /// What the system said.
        source: io::Error,
    },
    /// Some ranks did not arrive in time.
    #[error("rank {} of {world} did not join within {} s", list(missing), deadline.as_secs())]
    Missing {
        /// Who is missing.
        missing: Vec<u32>,
        /// Ranks in the run.
        world: u32,
        /// The deadline that passed.
        deadline: Duration,
    },
}

fn list(ranks: &[u32]) -> String {
    ranks.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")
}

/// The coordinator's open door.
pub struct Rendezvous {
    listener: TcpListener,
    token: Token,
    world: u32,
}

impl Rendezvous {
    /// Opens the door for `world` ranks on `address`, any free port.
    pub fn open(address: IpAddr, world: u32, token: Token) -> Result<Rendezvous, MeetError> {
        let listener =
            TcpListener::bind((address, 0)).map_err(|source| MeetError::Listen { address, source })?;
        Ok(Rendezvous {
            listener,
            token,
            world,
        })
    }

    /// Where ranks must dial.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Waits until every rank has joined. `still_hopeful` is asked now and then and may end the wait with a reason, for
    /// instance because a child process has died.
    pub fn meet(
        self,
        deadline: Duration,
        mut still_hopeful: impl FnMut() -> Option<u32>,
    ) -> Result<Coordinator, MeetError> {
        let until = Instant::now() + deadline;
        let (joined, joining) = mpsc::channel();
        let door = self.listener.try_clone().and_then(|listener| {
            listener.set_nonblocking(true)?;
            Ok(listener)
        });
        let door = door.map_err(|source| MeetError::Listen {
            address: IpAddr::from([0, 0, 0, 0]),
            source,
        })?;
        let closing = Arc::new(AtomicUsize::new(0));
        let (token, world, closed) = (self.token, self.world, Arc::clone(&closing));
        let porter = std::thread::spawn(move || answer_door(&door, token, world, &joined, &closed));

        let mut seats: Vec<Option<TcpStream>> = (0..world).map(|_| None).collect();
        let missing = |seats: &[Option<TcpStream>]| -> Vec<u32> {
            (0..world)
                .filter(|rank| seats[*rank as usize].is_none())
                .collect()
        };
        let mut given_up = None;
        while given_up.is_none() && seats.iter().any(Option::is_none) {
            match joining.recv_timeout(Duration::from_millis(50)) {
                Ok((rank, stream)) => take_seat(&mut seats, rank, stream),
                Err(RecvTimeoutError::Timeout) => {
                    if let Some(rank) = still_hopeful().filter(|rank| seats[*rank as usize].is_none()) {
                        given_up = Some(vec![rank]);
                    } else if Instant::now() >= until {
                        given_up = Some(missing(&seats));
                    }
                }
                Err(RecvTimeoutError::Disconnected) => given_up = Some(missing(&seats)),
            }
        }
        closing.store(1, Ordering::Relaxed);
        // The porter looks at the flag many times a second; a panic in it would only have turned strangers away.
        let _ = porter.join();
        if let Some(missing) = given_up {
            return Err(MeetError::Missing {
                missing,
                world,
                deadline,
            });
        }
        Ok(seat_all(seats.into_iter().flatten().collect()))
    }
}

/// Accepts callers until told to close; greets each on its own thread.
fn answer_door(
    door: &TcpListener,
    token: Token,
    world: u32,
    joined: &Sender<(u32, TcpStream)>,
    closing: &AtomicUsize,
) {
    let ungreeted = Arc::new(AtomicUsize::new(0));
    while closing.load(Ordering::Relaxed) == 0 {
        let Ok((stream, caller)) = door.accept() else {
            std::thread::sleep(Duration::from_millis(2));
            continue;
        };
        if ungreeted.load(Ordering::Relaxed) >= MAX_UNGREETED {
            tracing::warn!(%caller, "turned away: too many callers that have not said who they are");
            continue;
        }
        ungreeted.fetch_add(1, Ordering::Relaxed);
        let (joined, ungreeted) = (joined.clone(), Arc::clone(&ungreeted));
        std::thread::spawn(move || {
            match greet(stream, token, world) {
                // The receiver is gone when the world is complete; a late caller is simply dropped.
                Ok(seat) => drop(joined.send(seat)),
                Err(problem) => {
                    tracing::warn!(%caller, %problem, "dropped a caller that is not part of this run")
                }
            }
            ungreeted.fetch_sub(1, Ordering::Relaxed);
        });
    }
}

/// Reads a caller's greeting; its rank if it belongs here.
fn greet(mut stream: TcpStream, token: Token, world: u32) -> Result<(u32, TcpStream), String> {
    let text = |error: io::Error| error.to_string();
    stream.set_nonblocking(false).map_err(text)?;
    stream.set_read_timeout(Some(GREETING_PATIENCE)).map_err(text)?;
    stream.set_write_timeout(Some(WRITE_PATIENCE)).map_err(text)?;
    stream.set_nodelay(true).map_err(text)?;
    let mut greeting = [0; greeting::GREETING];
    stream
        .read_exact(&mut greeting)
        .map_err(|error| format!("no greeting: {error}"))?;
    let rank = greeting::read(&greeting, world, &token)?;
    Ok((rank, stream))
}

fn take_seat(seats: &mut [Option<TcpStream>], rank: u32, mut stream: TcpStream) {
    let seat = &mut seats[rank as usize];
    if seat.is_some() {
        tracing::warn!(rank, "a second process claims this rank; dropped");
    } else if let Err(error) = stream.write_all(&[greeting::WELCOME]) {
        tracing::warn!(rank, %error, "a rank left while joining");
    } else {
        *seat = Some(stream);
    }
}

/// Starts listening to every joined rank.
fn seat_all(streams: Vec<TcpStream>) -> Coordinator {
    let (arrived, inbox) = mpsc::channel();
    let heard = Heard::all_now(streams.len());
    let mut posts = Vec::with_capacity(streams.len());
    for (rank, stream) in (0..).zip(streams) {
        let listening = stream.try_clone().and_then(|clone| {
            clone.set_read_timeout(None)?;
            Ok(clone)
        });
        match listening {
            Ok(clone) => listen(rank, clone, arrived.clone(), Arc::clone(&heard)),
            Err(error) => drop(arrived.send((rank, Incoming::Gone(error.to_string())))),
        }
        posts.push(Post::Socket(Arc::new(Mutex::new(stream))));
    }
    Coordinator::new(posts, arrived, inbox, heard)
}

/// Forwards what a rank says until its link breaks.
fn listen(rank: u32, mut stream: TcpStream, arrived: Sender<(u32, Incoming)>, heard: Arc<Heard>) {
    std::thread::spawn(move || {
        loop {
            let read = frame::read(&mut stream);
            heard.note(rank);
            let incoming = match read {
                // A sign of life and nothing else.
                Ok(message) if message.is_empty() => continue,
                Ok(message) => Incoming::Message(message),
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    Incoming::Gone("its link to the coordinator closed: the process has ended".to_string())
                }
                Err(error) => Incoming::Gone(format!("its link to the coordinator broke: {error}")),
            };
            let last = matches!(incoming, Incoming::Gone(_));
            if arrived.send((rank, incoming)).is_err() || last {
                return;
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::super::{JoinAddress, JoinError, Member, join};
    use super::*;

    const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    fn open(world: u32) -> (Rendezvous, JoinAddress) {
        let token = Token::generate().unwrap();
        let door = Rendezvous::open(LOOPBACK, world, token).unwrap();
        let address = JoinAddress {
            rank: 0,
            world,
            rendezvous: door.address().unwrap(),
            token,
        };
        (door, address)
    }

    #[test]
    fn ranks_meet_although_strangers_knock() {
        let (door, address) = open(2);
        let at = address.rendezvous;
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
            Err(JoinError::Refused { .. })
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
            .meet(Duration::from_secs(60), || Some(1))
            .map(|_| ())
            .unwrap_err()
            .to_string();
        assert!(error.contains("rank 1 of 2"), "{error}");
        assert!(started.elapsed() < Duration::from_secs(30));
    }
}
