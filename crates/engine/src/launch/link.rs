//! The link between the coordinator and each rank: a channel for threads of one process, a socket otherwise.

use std::io;
use std::net::{IpAddr, TcpStream};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::frame;
use super::pulse::Pulse;
use super::wire::{Arrival, Inlet, Wire};

/// A rank whose coordinator has agreed on nothing shorter concludes after this long that it is gone.
const LONGEST_SILENCE: Duration = Duration::from_secs(180);

/// What reaches the coordinator from a rank.
#[derive(Debug)]
pub enum Incoming {
    /// A message.
    Message(Vec<u8>),
    /// Nothing was heard from it for so long, not even a sign of life; its link is not known to be broken.
    Silent(Duration),
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
    Wire(Arc<Wire>),
}

impl Post {
    fn send(&self, message: Vec<u8>) -> Result<(), Gone> {
        match self {
            Post::Channel(channel) => channel
                .send(message)
                .map_err(|_| Gone("the rank's thread has ended".to_string())),
            Post::Wire(wire) => wire.send(&message),
        }
    }

    /// Which of its rank's links it is: a thread has only one.
    fn turn(&self) -> u32 {
        match self {
            Post::Channel(_) => 0,
            Post::Wire(wire) => wire.turn(),
        }
    }
}

pub(super) fn send_framed(socket: &Mutex<TcpStream>, message: &[u8]) -> Result<(), Gone> {
    let mut socket = socket.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    frame::write(&mut *socket, message).map_err(|error| Gone(error.to_string()))
}

/// The side that gives orders.
pub struct Coordinator {
    posts: Vec<Post>,
    inbox: Receiver<Arrival>,
    /// Kept so that an inbox to which nobody writes any more is waited at, not closed.
    _open: Sender<Arrival>,
    pulse: Option<Pulse>,
}

impl Coordinator {
    /// Of ranks that have joined: where each is reached, and where everything they say arrives.
    pub(super) fn new(posts: Vec<Post>, arrivals: Sender<Arrival>, inbox: Receiver<Arrival>) -> Coordinator {
        Coordinator {
            posts,
            inbox,
            _open: arrivals,
            pulse: None,
        }
    }

    /// Starts giving signs of life to ranks of other processes, and reports those not heard for `patience` as silent.
    pub fn keep_alive(&mut self, patience: Duration) {
        let wires = self.posts.iter().filter_map(|post| match post {
            Post::Wire(wire) => Some(Arc::clone(wire)),
            Post::Channel(_) => None,
        });
        let wires: Vec<_> = wires.collect();
        wires.iter().for_each(|wire| wire.note());
        self.pulse = Some(Pulse::of_coordinator(wires, patience));
    }

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

    /// The next thing that arrives from any rank; none when the deadline passes first. What comes late over a link that
    /// was replaced is not heard.
    pub fn receive(&self, deadline: Instant) -> Option<(u32, Incoming)> {
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let Arrival { rank, turn, what } = self.inbox.recv_timeout(left).ok()?;
            let post = self.posts.get(rank as usize);
            if post.is_some_and(|post| post.turn() == turn) {
                return Some((rank, what));
            }
        }
    }

    /// Closes the link to `rank`: its process, if there is one, learns that the run goes on without it.
    pub fn dismiss(&self, rank: u32) {
        if let Some(Post::Wire(wire)) = self.posts.get(rank as usize) {
            wire.close();
        }
    }

    /// From now on this is the link of its rank; what the one before still has to say is not heard.
    pub(super) fn replace(&mut self, wire: Arc<Wire>) {
        self.dismiss(wire.rank());
        if let Some(pulse) = &self.pulse {
            pulse.watch(Arc::clone(&wire));
        }
        if let Some(post) = self.posts.get_mut(wire.rank() as usize) {
            *post = Post::Wire(wire);
        }
    }
}

impl Drop for Coordinator {
    /// Ranks that still listen learn that nothing more will come.
    fn drop(&mut self) {
        for rank in 0..self.world() {
            self.dismiss(rank);
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
    Channel(Inlet),
    Socket(Arc<Mutex<TcpStream>>),
}

/// One rank's side of the link.
pub struct Member {
    rank: u32,
    world: u32,
    orders: Orders,
    answers: Answers,
    patience: Duration,
    pulse: Option<Pulse>,
}

/// Sends a rank's answers; cheap to clone, one per thread that has something to say.
#[derive(Clone)]
pub struct Answering {
    answers: Answers,
}

impl Member {
    pub(super) fn new(rank: u32, world: u32, orders: Orders, answers: Answers) -> Member {
        Member {
            rank,
            world,
            orders,
            answers,
            patience: LONGEST_SILENCE,
            pulse: None,
        }
    }

    /// Starts giving signs of life, often enough for a coordinator that misses them after `silence`, and expects the
    /// coordinator's: without any for `patience` it counts as gone. A rank that is a thread of the coordinator's process lives and dies with it and needs none.
    pub fn keep_alive(&mut self, silence: Duration, patience: Duration) {
        if let Answers::Socket(socket) = &self.answers {
            self.pulse = Some(Pulse::of_member(Arc::clone(socket), silence));
            self.patience = patience;
        }
    }

    /// Ends its signs of life.
    #[cfg(test)]
    pub(super) fn fall_silent(&mut self) {
        self.pulse = None;
    }

    /// This rank.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// Ranks in the run.
    pub fn world(&self) -> u32 {
        self.world
    }

    /// This host's address on the management network, where there is one.
    pub fn management_address(&self) -> Option<IpAddr> {
        match &self.orders {
            Orders::Socket(stream) => stream
                .local_addr()
                .ok()
                .map(|address| address.ip().to_canonical()),
            Orders::Channel(_) => None,
        }
    }

    /// A handle for answering.
    pub fn answering(&self) -> Answering {
        Answering {
            answers: self.answers.clone(),
        }
    }

    /// The next order; an error when the coordinator is gone, or has not been heard for longer than agreed.
    pub fn receive(&mut self) -> Result<Vec<u8>, Gone> {
        let patience = self.patience;
        let silent = || {
            Gone(format!(
                "nothing heard from the coordinator for {:.1} s",
                patience.as_secs_f64()
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
                loop {
                    let message = frame::read(socket).map_err(|error| match error.kind() {
                        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => silent(),
                        io::ErrorKind::UnexpectedEof => Gone("the coordinator closed the link".to_string()),
                        _ => Gone(error.to_string()),
                    })?;
                    // An empty frame is a sign of life and nothing else.
                    if !message.is_empty() {
                        return Ok(message);
                    }
                }
            }
        }
    }
}

impl Answering {
    /// Sends `message` to the coordinator.
    pub fn send(&self, message: Vec<u8>) -> Result<(), Gone> {
        match &self.answers {
            Answers::Channel(inlet) => match inlet.deliver(Incoming::Message(message)) {
                true => Ok(()),
                false => Err(Gone("the coordinator has ended".to_string())),
            },
            Answers::Socket(socket) => send_framed(socket, &message),
        }
    }

    /// Says that this rank ends here, so that nobody waits for it. Sockets say so by closing.
    pub fn leave(&self, reason: &str) {
        if let Answers::Channel(inlet) = &self.answers {
            // The coordinator may have ended first, which is fine.
            inlet.deliver(Incoming::Gone(reason.to_string()));
        }
    }
}
