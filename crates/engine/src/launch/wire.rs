//! The coordinator's end of the link to a rank of another process: what is sent to it, what it says, when it was last heard.
//!
//! A rank that was lost and comes back has another link. What the old one still has to say must not be taken for the new
//! one's, so every link of a rank has a number, its turn, which travels with everything that arrives over it.

use std::io;
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::link::{Gone, Incoming, send_framed};
use super::{frame, pulse};

/// Something that reached the coordinator, over the link of this rank that was the `turn`-th.
pub(super) struct Arrival {
    pub rank: u32,
    pub turn: u32,
    pub what: Incoming,
}

/// Where what comes over one link arrives.
#[derive(Clone)]
pub(super) struct Inlet {
    pub rank: u32,
    pub turn: u32,
    pub to: Sender<Arrival>,
}

impl Inlet {
    /// Delivers; whether anybody still listens.
    pub fn deliver(&self, what: Incoming) -> bool {
        let arrival = Arrival {
            rank: self.rank,
            turn: self.turn,
            what,
        };
        self.to.send(arrival).is_ok()
    }
}

/// One link to a rank of another process.
pub(super) struct Wire {
    inlet: Inlet,
    stream: Mutex<TcpStream>,
    since: Instant,
    /// Milliseconds after `since`.
    heard: AtomicU64,
    lost: AtomicBool,
}

impl Wire {
    /// Starts listening to the rank at the other end of `stream`.
    pub fn open(stream: TcpStream, inlet: Inlet) -> Arc<Wire> {
        let reading = stream.try_clone().and_then(|clone| {
            clone.set_read_timeout(None)?;
            Ok(clone)
        });
        let wire = Arc::new(Wire {
            inlet,
            stream: Mutex::new(stream),
            since: Instant::now(),
            heard: AtomicU64::new(0),
            lost: AtomicBool::new(false),
        });
        let listening = reading.and_then(|reading| {
            let wire = Arc::clone(&wire);
            let listener = std::thread::Builder::new().name(format!("link to rank {}", wire.inlet.rank));
            listener.spawn(move || wire.listen(reading))
        });
        if let Err(error) = listening {
            wire.lose(Incoming::Gone(error.to_string()));
        }
        wire
    }

    /// Whose link it is.
    pub fn rank(&self) -> u32 {
        self.inlet.rank
    }

    /// Which of that rank's links it is.
    pub fn turn(&self) -> u32 {
        self.inlet.turn
    }

    /// Sends one message.
    pub fn send(&self, message: &[u8]) -> Result<(), Gone> {
        send_framed(&self.stream, message)
    }

    /// Sends a sign of life; whether the link still works.
    pub fn beat(&self) -> bool {
        pulse::send_beat(&self.stream)
    }

    /// Something came.
    pub fn note(&self) {
        let now = self.since.elapsed().as_millis() as u64;
        self.heard.store(now, Ordering::Relaxed);
    }

    /// How long nothing was heard.
    pub fn silence(&self) -> Duration {
        let at = Duration::from_millis(self.heard.load(Ordering::Relaxed));
        self.since.elapsed().saturating_sub(at)
    }

    /// Says that the rank is lost, and why.
    pub fn lose(&self, why: Incoming) {
        self.lost.store(true, Ordering::Relaxed);
        // The session may have ended, which is fine.
        self.inlet.deliver(why);
    }

    /// Whether the rank at its other end is known to be lost.
    pub fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Relaxed)
    }

    /// Closes it: the rank, if it still listens, learns that nothing more will come.
    pub fn close(&self) {
        self.lost.store(true, Ordering::Relaxed);
        let stream = self
            .stream
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        // A socket that is closed already is what is wanted.
        let _ = stream.shutdown(Shutdown::Both);
    }

    /// Forwards what the rank says until the link breaks.
    fn listen(&self, mut stream: TcpStream) {
        loop {
            let read = frame::read(&mut stream);
            self.note();
            let gone = match read {
                // A sign of life and nothing else.
                Ok(message) if message.is_empty() => continue,
                Ok(message) => match self.inlet.deliver(Incoming::Message(message)) {
                    true => continue,
                    false => return,
                },
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    "its link to the coordinator closed: the process has ended".to_string()
                }
                Err(error) => format!("its link to the coordinator broke: {error}"),
            };
            return self.lose(Incoming::Gone(gone));
        }
    }
}
