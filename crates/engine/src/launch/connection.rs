//! The coordinator's end of the control connection to a rank of another process.
//!
//! A rank that was lost and rejoins has a new connection. A late message of the old one must not be taken for one of the new
//! one, so every connection of a rank has a generation number, which every delivery carries.

use std::io;
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, TryLockError};
use std::time::{Duration, Instant};

use super::frame;

/// What reaches the coordinator from a rank.
#[derive(Debug)]
pub enum Incoming {
    /// A message.
    Message(Vec<u8>),
    /// No message and no heartbeat for this long; the connection itself is not known to be broken.
    Silent(Duration),
    /// The connection broke; nothing more will come.
    Disconnected(String),
}

/// The other end of a control connection is gone; the text says why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Disconnected(pub String);

/// One item of the coordinator's inbox.
pub(super) struct Delivery {
    pub rank: u32,
    /// Which of the rank's connections it came over.
    pub generation: u32,
    pub what: Incoming,
}

/// Puts what comes over one connection into the coordinator's inbox.
#[derive(Clone)]
pub(super) struct InboxSender {
    pub rank: u32,
    pub generation: u32,
    pub to: Sender<Delivery>,
}

impl InboxSender {
    /// Delivers; false when the coordinator has ended.
    pub fn deliver(&self, what: Incoming) -> bool {
        let delivery = Delivery {
            rank: self.rank,
            generation: self.generation,
            what,
        };
        self.to.send(delivery).is_ok()
    }
}

/// Writes one framed message to a shared socket.
pub(super) fn send_framed(socket: &Mutex<TcpStream>, message: &[u8]) -> Result<(), Disconnected> {
    let mut socket = socket.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    frame::write(&mut *socket, message).map_err(|error| Disconnected(error.to_string()))
}

/// Sends one heartbeat; false when the connection is broken. A socket in use needs none: its traffic is a sign of life.
pub(super) fn send_heartbeat(socket: &Mutex<TcpStream>) -> bool {
    match socket.try_lock() {
        Ok(mut socket) => frame::write(&mut *socket, &[]).is_ok(),
        Err(TryLockError::WouldBlock) => true,
        Err(TryLockError::Poisoned(_)) => false,
    }
}

/// The coordinator's control connection to one rank of another process.
pub(super) struct ControlConnection {
    inbox: InboxSender,
    stream: Mutex<TcpStream>,
    opened: Instant,
    /// When the rank was last heard, in milliseconds after `opened`.
    last_heard_ms: AtomicU64,
    lost: AtomicBool,
}

impl ControlConnection {
    /// Starts reading what the rank at the other end of `stream` sends.
    pub fn open(stream: TcpStream, inbox: InboxSender) -> Arc<ControlConnection> {
        let reading = stream.try_clone().and_then(|clone| {
            clone.set_read_timeout(None)?;
            Ok(clone)
        });
        let connection = Arc::new(ControlConnection {
            inbox,
            stream: Mutex::new(stream),
            opened: Instant::now(),
            last_heard_ms: AtomicU64::new(0),
            lost: AtomicBool::new(false),
        });
        let reader = reading.and_then(|reading| {
            let connection = Arc::clone(&connection);
            let thread = std::thread::Builder::new().name(format!("rank {} control", connection.inbox.rank));
            thread.spawn(move || connection.read(reading))
        });
        if let Err(error) = reader {
            connection.mark_lost(Incoming::Disconnected(error.to_string()));
        }
        connection
    }

    /// The rank at the other end.
    pub fn rank(&self) -> u32 {
        self.inbox.rank
    }

    /// Which of that rank's connections it is.
    pub fn generation(&self) -> u32 {
        self.inbox.generation
    }

    /// Sends one message.
    pub fn send(&self, message: &[u8]) -> Result<(), Disconnected> {
        send_framed(&self.stream, message)
    }

    /// Sends a heartbeat; false when the connection is broken.
    pub fn send_heartbeat(&self) -> bool {
        send_heartbeat(&self.stream)
    }

    /// Notes that the rank was heard just now.
    pub fn mark_heard(&self) {
        let now = self.opened.elapsed().as_millis() as u64;
        self.last_heard_ms.store(now, Ordering::Relaxed);
    }

    /// How long the rank has not been heard.
    pub fn silence(&self) -> Duration {
        let at = Duration::from_millis(self.last_heard_ms.load(Ordering::Relaxed));
        self.opened.elapsed().saturating_sub(at)
    }

    /// Tells the coordinator that the rank is lost, and why.
    pub fn mark_lost(&self, why: Incoming) {
        self.lost.store(true, Ordering::Relaxed);
        // The session may have ended, which is fine.
        self.inbox.deliver(why);
    }

    /// Whether the rank is known to be lost.
    pub fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Relaxed)
    }

    /// Closes the connection; the rank, if it still listens, sees that.
    pub fn close(&self) {
        self.lost.store(true, Ordering::Relaxed);
        let stream = self
            .stream
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        // It may be closed already.
        let _ = stream.shutdown(Shutdown::Both);
    }

    /// Forwards messages until the connection breaks.
    fn read(&self, mut stream: TcpStream) {
        loop {
            let read = frame::read(&mut stream);
            self.mark_heard();
            let reason = match read {
                // An empty frame is a heartbeat.
                Ok(message) if message.is_empty() => continue,
                Ok(message) => match self.inbox.deliver(Incoming::Message(message)) {
                    true => continue,
                    false => return,
                },
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    "its control connection closed: the process has ended".to_string()
                }
                // That is how it closes when the process ends before it has read everything.
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {
                    "its control connection was reset: the process has ended".to_string()
                }
                Err(error) => format!("its control connection broke: {error}"),
            };
            return self.mark_lost(Incoming::Disconnected(reason));
        }
    }
}
