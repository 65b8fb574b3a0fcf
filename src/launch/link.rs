//! The link between the coordinator and each rank: a channel for threads of one process, a socket otherwise.

use std::io;
use std::net::TcpStream;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::frame;

/// What reaches the coordinator from a rank.
#[derive(Debug)]
pub enum Incoming {
    /// A message.
    Message(Vec<u8>),
    /// The link broke; nothing more will come.
    Gone(String),
}

/// The other end is no longer there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Gone(pub String);

/// The sending half of a link.
#[derive(Clone)]
pub(super) enum Post {
    Channel(Sender<Vec<u8>>),
    Socket(Arc<Mutex<TcpStream>>),
}

impl Post {
    fn send(&self, message: Vec<u8>) -> Result<(), Gone> {
        match self {
            Post::Channel(channel) => channel
                .send(message)
                .map_err(|_| Gone("the rank's thread has ended".to_string())),
            Post::Socket(socket) => send_framed(socket, &message),
        }
    }
}

fn send_framed(socket: &Mutex<TcpStream>, message: &[u8]) -> Result<(), Gone> {
    let mut socket = socket.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    frame::write(&mut *socket, message).map_err(|error| Gone(error.to_string()))
}

/// The side that gives orders.
pub struct Coordinator {
    pub(super) posts: Vec<Post>,
    pub(super) inbox: Receiver<(u32, Incoming)>,
}

impl Coordinator {
    /// Ranks in the run.
    pub fn world(&self) -> u32 {
        self.posts.len() as u32
    }

    /// Sends `message` to one rank.
    pub fn send(&self, rank: u32, message: Vec<u8>) -> Result<(), Gone> {
        match self.posts.get(rank as usize) {
            Some(post) => post.send(message),
            None => Err(Gone(format!("there is no rank {rank}"))),
        }
    }

    /// The next thing that arrives from any rank; none when the deadline passes first.
    pub fn receive(&self, deadline: Instant) -> Option<(u32, Incoming)> {
        let left = deadline.saturating_duration_since(Instant::now());
        self.inbox.recv_timeout(left).ok()
    }
}

impl Drop for Coordinator {
    /// Ranks that still listen learn that nothing more will come.
    fn drop(&mut self) {
        for post in &self.posts {
            if let Post::Socket(socket) = post {
                let socket = socket.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
                // A socket that is closed already is what is wanted.
                let _ = socket.shutdown(std::net::Shutdown::Both);
            }
        }
    }
}

/// Where a member's orders come from.
pub(super) enum Orders {
    Channel(Receiver<Vec<u8>>),
    Socket(TcpStream),
}

/// Where a member's answers go.
#[derive(Clone)]
pub(super) enum Answers {
    Channel(Sender<(u32, Incoming)>),
    Socket(Arc<Mutex<TcpStream>>),
}

/// One rank's side of the link.
pub struct Member {
    pub(super) rank: u32,
    pub(super) world: u32,
    pub(super) orders: Orders,
    pub(super) answers: Answers,
}

/// Sends a rank's answers; cheap to clone, one per thread that has something to say.
#[derive(Clone)]
pub struct Answering {
    rank: u32,
    answers: Answers,
}

impl Member {
    /// This rank.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// Ranks in the run.
    pub fn world(&self) -> u32 {
        self.world
    }

    /// A handle for answering.
    pub fn answering(&self) -> Answering {
        Answering {
            rank: self.rank,
            answers: self.answers.clone(),
        }
    }

    /// The next order; an error when the coordinator is gone or says nothing for `patience`.
    pub fn receive(&mut self, patience: Duration) -> Result<Vec<u8>, Gone> {
        let silent = || {
            Gone(format!(
                "no order from the coordinator for {} s",
                patience.as_secs()
            ))
        };
        match &mut self.orders {
            Orders::Channel(channel) => channel.recv_timeout(patience).map_err(|error| match error {
                RecvTimeoutError::Timeout => silent(),
                RecvTimeoutError::Disconnected => Gone("the coordinator has ended".to_string()),
            }),
            Orders::Socket(socket) => {
                socket
                    .set_read_timeout(Some(patience))
                    .map_err(|error| Gone(error.to_string()))?;
                frame::read(socket).map_err(|error| match error.kind() {
                    io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => silent(),
                    io::ErrorKind::UnexpectedEof => Gone("the coordinator closed the link".to_string()),
                    _ => Gone(error.to_string()),
                })
            }
        }
    }
}

impl Answering {
    /// Sends `message` to the coordinator.
    pub fn send(&self, message: Vec<u8>) -> Result<(), Gone> {
        match &self.answers {
            Answers::Channel(channel) => channel
                .send((self.rank, Incoming::Message(message)))
                .map_err(|_| Gone("the coordinator has ended".to_string())),
            Answers::Socket(socket) => send_framed(socket, &message),
        }
    }

    /// Says that this rank ends here, so that nobody waits for it. Sockets say so by closing.
    pub fn leave(&self, reason: &str) {
        if let Answers::Channel(channel) = &self.answers {
            // The coordinator may have ended first, which is fine.
            let _ = channel.send((self.rank, Incoming::Gone(reason.to_string())));
        }
    }
}
