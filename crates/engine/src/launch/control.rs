//! The control connection between the coordinator and each rank: a channel for threads of one process, a socket otherwise.

use std::io;
use std::net::{IpAddr, TcpStream};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::connection::{ControlConnection, Delivery, Disconnected, InboxSender, Incoming, send_framed};
use super::frame;
use super::heartbeat::Heartbeat;

/// A rank takes the coordinator for gone after this silence, unless they agreed on a shorter one.
const LONGEST_SILENCE: Duration = Duration::from_secs(180);

/// Where the orders of one rank are sent.
#[derive(Clone)]
pub(super) enum OrderSender {
    Channel(Sender<Vec<u8>>),
    Connection(Arc<ControlConnection>),
}

impl OrderSender {
    fn send(&self, message: Vec<u8>) -> Result<(), Disconnected> {
        match self {
            OrderSender::Channel(channel) => channel
                .send(message)
                .map_err(|_| Disconnected("the rank's thread has ended".to_string())),
            OrderSender::Connection(connection) => connection.send(&message),
        }
    }

    /// Which of its rank's connections it is: a thread has only one.
    fn generation(&self) -> u32 {
        match self {
            OrderSender::Channel(_) => 0,
            OrderSender::Connection(connection) => connection.generation(),
        }
    }
}

/// The side that gives orders, connected to every rank.
pub struct Coordinator {
    senders: Vec<OrderSender>,
    inbox: Receiver<Delivery>,
    /// Keeps the inbox open when all ranks are gone.
    _open: Sender<Delivery>,
    heartbeat: Option<Heartbeat>,
}

impl Coordinator {
    /// Of ranks that have joined.
    pub(super) fn new(
        senders: Vec<OrderSender>,
        deliveries: Sender<Delivery>,
        inbox: Receiver<Delivery>,
    ) -> Coordinator {
        Coordinator {
            senders,
            inbox,
            _open: deliveries,
            heartbeat: None,
        }
    }

    /// Starts the heartbeat to ranks of other processes, and reports those not heard for `timeout` as silent.
    pub fn start_heartbeat(&mut self, timeout: Duration) {
        let connections = self.senders.iter().filter_map(|sender| match sender {
            OrderSender::Connection(connection) => Some(Arc::clone(connection)),
            OrderSender::Channel(_) => None,
        });
        let connections: Vec<_> = connections.collect();
        connections.iter().for_each(|connection| connection.mark_heard());
        self.heartbeat = Some(Heartbeat::of_coordinator(connections, timeout));
    }

    /// Ranks in the run.
    pub fn world(&self) -> u32 {
        self.senders.len() as u32
    }

    /// Sends `message` to one rank.
    pub fn send(&self, rank: u32, message: Vec<u8>) -> Result<(), Disconnected> {
        match self.senders.get(rank as usize) {
            Some(sender) => sender.send(message),
            None => Err(Disconnected(format!("there is no rank {rank}"))),
        }
    }

    /// The next thing that arrives from any rank; none when the deadline passes first. What comes late over a connection
    /// that was replaced is dropped.
    pub fn receive(&self, deadline: Instant) -> Option<(u32, Incoming)> {
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let Delivery {
                rank,
                generation,
                what,
            } = self.inbox.recv_timeout(left).ok()?;
            let sender = self.senders.get(rank as usize);
            if sender.is_some_and(|sender| sender.generation() == generation) {
                return Some((rank, what));
            }
        }
    }

    /// Closes the connection to `rank`: its process, if there is one, sees that the run continues without it.
    pub fn disconnect(&self, rank: u32) {
        if let Some(OrderSender::Connection(connection)) = self.senders.get(rank as usize) {
            connection.close();
        }
    }

    /// Makes this the connection of its rank; what still comes over the one before is dropped.
    pub(super) fn replace_connection(&mut self, connection: Arc<ControlConnection>) {
        self.disconnect(connection.rank());
        if let Some(heartbeat) = &self.heartbeat {
            heartbeat.watch(Arc::clone(&connection));
        }
        if let Some(sender) = self.senders.get_mut(connection.rank() as usize) {
            *sender = OrderSender::Connection(connection);
        }
    }
}

impl Drop for Coordinator {
    /// Ranks that still listen see their connections close.
    fn drop(&mut self) {
        for rank in 0..self.world() {
            self.disconnect(rank);
        }
    }
}

/// Where a member's orders come from.
pub(super) enum OrderSource {
    Channel(Receiver<Vec<u8>>),
    Socket(TcpStream),
}

/// Where a member's answers go.
#[derive(Clone)]
pub(super) enum AnswerSink {
    Channel(InboxSender),
    Socket(Arc<Mutex<TcpStream>>),
}

/// One rank's side of its control connection.
pub struct Member {
    rank: u32,
    world: u32,
    orders: OrderSource,
    answers: AnswerSink,
    timeout: Duration,
    heartbeat: Option<Heartbeat>,
}

/// Sends a rank's messages to the coordinator; cheap to clone, one per thread.
#[derive(Clone)]
pub struct MessageSender {
    answers: AnswerSink,
}

impl Member {
    pub(super) fn new(rank: u32, world: u32, orders: OrderSource, answers: AnswerSink) -> Member {
        Member {
            rank,
            world,
            orders,
            answers,
            timeout: LONGEST_SILENCE,
            heartbeat: None,
        }
    }

    /// Starts the heartbeat, often enough for a coordinator that reports silence after `timeout`, and expects the
    /// coordinator's: without one for `own_timeout` the coordinator counts as gone. A rank that is a thread of the
    /// coordinator's process needs neither.
    pub fn start_heartbeat(&mut self, timeout: Duration, own_timeout: Duration) {
        if let AnswerSink::Socket(socket) = &self.answers {
            self.heartbeat = Some(Heartbeat::of_member(Arc::clone(socket), timeout));
            self.timeout = own_timeout;
        }
    }

    /// Ends its heartbeat.
    #[cfg(test)]
    pub(super) fn fall_silent(&mut self) {
        self.heartbeat = None;
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
            OrderSource::Socket(stream) => stream
                .local_addr()
                .ok()
                .map(|address| address.ip().to_canonical()),
            OrderSource::Channel(_) => None,
        }
    }

    /// A handle for sending messages.
    pub fn sender(&self) -> MessageSender {
        MessageSender {
            answers: self.answers.clone(),
        }
    }

    /// The next order; an error when the coordinator is gone, or silent for longer than agreed.
    pub fn receive(&mut self) -> Result<Vec<u8>, Disconnected> {
        let timeout = self.timeout;
        let silent = || {
            Disconnected(format!(
                "the coordinator was silent for {:.1} s",
                timeout.as_secs_f64()
            ))
        };
        match &mut self.orders {
            OrderSource::Channel(channel) => channel.recv_timeout(timeout).map_err(|error| match error {
                RecvTimeoutError::Timeout => silent(),
                RecvTimeoutError::Disconnected => Disconnected("the coordinator has ended".to_string()),
            }),
            OrderSource::Socket(socket) => {
                socket
                    .set_read_timeout(Some(timeout))
                    .map_err(|error| Disconnected(error.to_string()))?;
                loop {
                    let message = frame::read(socket).map_err(|error| match error.kind() {
                        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => silent(),
                        io::ErrorKind::UnexpectedEof => {
                            Disconnected("the coordinator closed the control connection".to_string())
                        }
                        _ => Disconnected(error.to_string()),
                    })?;
                    // An empty frame is a heartbeat.
                    if !message.is_empty() {
                        return Ok(message);
                    }
                }
            }
        }
    }
}

impl MessageSender {
    /// Sends `message` to the coordinator.
    pub fn send(&self, message: Vec<u8>) -> Result<(), Disconnected> {
        match &self.answers {
            AnswerSink::Channel(inbox) => match inbox.deliver(Incoming::Message(message)) {
                true => Ok(()),
                false => Err(Disconnected("the coordinator has ended".to_string())),
            },
            AnswerSink::Socket(socket) => send_framed(socket, &message),
        }
    }

    /// Tells the coordinator that this rank has left. Sockets do so by closing.
    pub fn leave(&self, reason: &str) {
        if let AnswerSink::Channel(inbox) = &self.answers {
            // The coordinator may have ended first, which is fine.
            inbox.deliver(Incoming::Disconnected(reason.to_string()));
        }
    }
}
