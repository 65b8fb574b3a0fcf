//! The door ranks come in by: reads greetings, answers them, gives out seats.
//!
//! A greeting has a fixed size and is read on a thread of its own with a deadline; nothing a stranger says makes anybody
//! allocate or wait. Whoever has the token but does not belong is told why and remembered.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use super::greeting::{self, Answer, Caller};
use super::link::Post;
use super::rendezvous::WRITE_PATIENCE;
use super::wire::Wire;
use super::{Token, frame};

/// How long a caller may take to say who it is.
const GREETING_PATIENCE: Duration = Duration::from_secs(5);
/// Callers whose greeting is awaited at the same time; more are turned away at once and try again.
const MAX_UNGREETED: usize = 256;
/// How often those who wait inside are given a sign of life: others may take long to come.
const BEAT: Duration = Duration::from_secs(1);
/// Evidence kept, and how much of it is said.
const MOST_EVIDENCE: usize = 8;

/// A rank's seat.
pub(super) enum Seat {
    /// Of nobody yet, or of a rank that was lost and may come back.
    Free,
    /// Of a process that has joined and waits.
    Remote(TcpStream, SocketAddr),
    /// A thread of the coordinator's own process.
    Own(Post),
    /// Handed to the coordinator; the link is none for a thread of its own process.
    Given(SocketAddr, Option<Arc<Wire>>),
}

/// Somebody who has the token and did not belong.
pub(super) struct Evidence {
    /// The rank whose seat was taken; none where the world was another.
    pub taken: Option<u32>,
    /// In words.
    pub text: String,
}

/// What the door and whoever waits for ranks both know.
pub(super) struct State {
    pub seats: Mutex<Seats>,
    pub changed: Condvar,
    pub closing: AtomicBool,
    pub ungreeted: AtomicUsize,
    pub token: Token,
    pub world: u32,
    pub address: SocketAddr,
}

/// Who sits where, and who should not have come.
pub(super) struct Seats {
    pub seats: Vec<Seat>,
    pub evidence: Vec<Evidence>,
    /// How many ranks have come back.
    pub returns: u32,
}

impl State {
    /// For `world` ranks behind a door at `address`; all seats are free.
    pub fn new(world: u32, token: Token, address: SocketAddr) -> Arc<State> {
        Arc::new(State {
            seats: Mutex::new(Seats {
                seats: (0..world).map(|_| Seat::Free).collect(),
                evidence: Vec::new(),
                returns: 0,
            }),
            changed: Condvar::new(),
            closing: AtomicBool::new(false),
            ungreeted: AtomicUsize::new(0),
            token,
            world,
            address,
        })
    }

    /// The seats.
    pub fn lock(&self) -> MutexGuard<'_, Seats> {
        self.seats.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// Accepts callers until told to close; greets each on its own thread.
pub(super) fn answer_door(door: &TcpListener, state: &Arc<State>) {
    let mut beaten = Instant::now();
    while !state.closing.load(Ordering::Relaxed) {
        if beaten.elapsed() >= BEAT {
            beaten = Instant::now();
            state.lock().beat();
        }
        let Ok((stream, caller)) = door.accept() else {
            std::thread::sleep(Duration::from_millis(2));
            continue;
        };
        if state.ungreeted.load(Ordering::Relaxed) >= MAX_UNGREETED {
            tracing::warn!(%caller, "turned away: too many callers that have not said who they are");
            continue;
        }
        state.ungreeted.fetch_add(1, Ordering::Relaxed);
        let at_door = Arc::clone(state);
        let greeting = std::thread::Builder::new().spawn(move || {
            if let Err(problem) = greet(stream, caller, &at_door) {
                tracing::warn!(%caller, %problem, "dropped a caller that is not part of this run");
            }
            at_door.ungreeted.fetch_sub(1, Ordering::Relaxed);
        });
        if greeting.is_err() {
            state.ungreeted.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// Reads a caller's greeting, answers it, and gives it its seat if it belongs here.
fn greet(mut stream: TcpStream, from: SocketAddr, state: &State) -> Result<(), String> {
    let text = |error: io::Error| error.to_string();
    stream.set_nonblocking(false).map_err(text)?;
    stream.set_read_timeout(Some(GREETING_PATIENCE)).map_err(text)?;
    stream.set_write_timeout(Some(WRITE_PATIENCE)).map_err(text)?;
    stream.set_nodelay(true).map_err(text)?;
    let mut greeting = [0; greeting::GREETING];
    stream
        .read_exact(&mut greeting)
        .map_err(|error| format!("no greeting: {error}"))?;
    let caller = match greeting::read(&greeting, &state.token) {
        Ok(caller) => caller,
        Err(problem) => {
            // It may not wait for an answer.
            let _ = stream.write_all(&Answer::Refused.to_bytes());
            return Err(problem.to_string());
        }
    };
    let mut seats = state.lock();
    let answer = seats.answer_to(caller, state.world, state.address);
    stream.write_all(&answer.to_bytes()).map_err(text)?;
    let Caller { rank, world } = caller;
    if answer == Answer::Welcome {
        seats.seats[rank as usize] = Seat::Remote(stream, from);
        state.changed.notify_all();
        return Ok(());
    }
    let problem = match answer {
        // It was started again before the coordinator was through with the loss: no sign of another world.
        Answer::Later => return Ok(()),
        Answer::Taken(first) => format!(
            "a second rank {rank} called from {}, the first from {first}",
            from.ip()
        ),
        _ => format!(
            "{} calls itself rank {rank} of {world}, this run has {} ranks",
            from.ip(),
            state.world
        ),
    };
    // One that calls again and again is said and remembered once.
    if seats.evidence.iter().any(|known| known.text == problem) {
        return Ok(());
    }
    if seats.evidence.len() < MOST_EVIDENCE {
        seats.evidence.push(Evidence {
            taken: matches!(answer, Answer::Taken(_)).then_some(rank),
            text: problem.clone(),
        });
    }
    Err(problem)
}

impl Seats {
    fn answer_to(&mut self, caller: Caller, world: u32, here: SocketAddr) -> Answer {
        if caller.world != world {
            return Answer::OtherWorld(world);
        }
        match self.seats.get(caller.rank as usize) {
            None => Answer::OtherWorld(world),
            Some(Seat::Free) => Answer::Welcome,
            // It joined, ended, and was started again before the others came.
            Some(Seat::Remote(stream, _)) if has_ended(stream) => Answer::Welcome,
            Some(Seat::Given(_, Some(wire))) if wire.is_lost() => Answer::Later,
            Some(Seat::Remote(_, from) | Seat::Given(from, _)) => Answer::Taken(*from),
            Some(Seat::Own(_)) => Answer::Taken(here),
        }
    }

    /// Gives those who wait a sign of life; whoever has gone is noticed when its seat is looked at.
    fn beat(&mut self) {
        for seat in &mut self.seats {
            if let Seat::Remote(stream, _) = seat {
                let _ = frame::write(stream, &[]);
            }
        }
    }
}

/// Whether the other side of a link that has nothing to say yet has closed it.
pub(super) fn has_ended(stream: &TcpStream) -> bool {
    let peeked = stream.set_nonblocking(true).and_then(|()| stream.peek(&mut [0]));
    let ended = match peeked {
        Ok(bytes) => bytes == 0,
        Err(error) => error.kind() != io::ErrorKind::WouldBlock,
    };
    stream.set_nonblocking(false).is_err() || ended
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use super::super::Rendezvous;
    use super::*;

    #[test]
    fn whoever_waits_for_others_gets_signs_of_life() {
        let token = Token::generate().unwrap();
        let door = Rendezvous::open(IpAddr::V4(Ipv4Addr::LOCALHOST), 2, token).unwrap();
        let mut early = TcpStream::connect(door.address().unwrap()).unwrap();
        early.write_all(&greeting::write(1, 2, &token)).unwrap();
        early.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let mut answer = [0; greeting::ANSWER];
        early.read_exact(&mut answer).unwrap();
        assert_eq!(Answer::from_bytes(&answer), Some(Answer::Welcome));
        assert_eq!(frame::read(&mut early).unwrap(), b"");
        assert_eq!(frame::read(&mut early).unwrap(), b"");
    }
}
