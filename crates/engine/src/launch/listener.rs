//! The rendezvous listener: reads join requests, replies, and keeps track of which rank has joined.
//!
//! A request has a fixed size and is read on a thread of its own with a deadline; nothing an outsider sends makes the
//! coordinator allocate or wait. A process that has the token but does not fit is told why, and recorded as a conflict.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use super::connection::ControlConnection;
use super::control::OrderSender;
use super::handshake::{self, JoinReply, JoinRequest, WRITE_TIMEOUT};
use super::{Token, frame};

/// How long a connection may take to send its join request.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);
/// Handshakes in progress at the same time; more connections are dropped at once and try again.
const MAX_HANDSHAKES: usize = 256;
/// Interval of heartbeats to ranks that have joined and wait for others.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(1);
/// Conflicts that are kept and reported.
const MAX_CONFLICTS: usize = 8;

/// What is known of one rank.
pub(super) enum MemberState {
    /// Not joined yet, or lost and allowed to rejoin.
    Missing,
    /// Its process has joined and waits.
    Joined(TcpStream, SocketAddr),
    /// It is a thread of the coordinator's own process.
    Local(OrderSender),
    /// Handed to the coordinator; no connection for a thread of its own process.
    Connected(SocketAddr, Option<Arc<ControlConnection>>),
}

/// A process that had the token but could not join.
pub(super) struct JoinConflict {
    /// The rank that had joined already; none where the world size differs.
    pub duplicate: Option<u32>,
    pub text: String,
}

/// Shared by the accepting thread and the thread that waits for ranks.
pub(super) struct ListenerState {
    pub membership: Mutex<Membership>,
    pub changed: Condvar,
    pub closing: AtomicBool,
    pub handshakes: AtomicUsize,
    pub token: Token,
    pub world: u32,
    pub address: SocketAddr,
}

/// Which ranks have joined, and which processes could not.
pub(super) struct Membership {
    pub members: Vec<MemberState>,
    pub conflicts: Vec<JoinConflict>,
    /// How often a rank has rejoined.
    pub rejoins: u32,
}

impl ListenerState {
    /// For a listener at `address` that waits for `world` ranks.
    pub fn new(world: u32, token: Token, address: SocketAddr) -> Arc<ListenerState> {
        Arc::new(ListenerState {
            membership: Mutex::new(Membership {
                members: (0..world).map(|_| MemberState::Missing).collect(),
                conflicts: Vec::new(),
                rejoins: 0,
            }),
            changed: Condvar::new(),
            closing: AtomicBool::new(false),
            handshakes: AtomicUsize::new(0),
            token,
            world,
            address,
        })
    }

    pub fn lock(&self) -> MutexGuard<'_, Membership> {
        self.membership
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// Accepts connections until told to close; each handshake runs on its own thread.
pub(super) fn accept_ranks(listener: &TcpListener, state: &Arc<ListenerState>) {
    let mut last_heartbeat = Instant::now();
    while !state.closing.load(Ordering::Relaxed) {
        if last_heartbeat.elapsed() >= HEARTBEAT_INTERVAL {
            last_heartbeat = Instant::now();
            state.lock().send_heartbeats();
        }
        let Ok((stream, from)) = listener.accept() else {
            std::thread::sleep(Duration::from_millis(2));
            continue;
        };
        if state.handshakes.load(Ordering::Relaxed) >= MAX_HANDSHAKES {
            tracing::warn!(%from, limit = MAX_HANDSHAKES, "dropped a connection: too many handshakes in progress");
            continue;
        }
        state.handshakes.fetch_add(1, Ordering::Relaxed);
        let shared = Arc::clone(state);
        let thread = std::thread::Builder::new().spawn(move || {
            if let Err(problem) = run_handshake(stream, from, &shared) {
                tracing::warn!(%from, %problem, "refused a process that is not part of this run");
            }
            shared.handshakes.fetch_sub(1, Ordering::Relaxed);
        });
        if thread.is_err() {
            state.handshakes.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// Reads a join request, replies, and admits the rank if it belongs to this run.
fn run_handshake(mut stream: TcpStream, from: SocketAddr, state: &ListenerState) -> Result<(), String> {
    let text = |error: io::Error| error.to_string();
    stream.set_nonblocking(false).map_err(text)?;
    stream.set_read_timeout(Some(HANDSHAKE_TIMEOUT)).map_err(text)?;
    stream.set_write_timeout(Some(WRITE_TIMEOUT)).map_err(text)?;
    stream.set_nodelay(true).map_err(text)?;
    let mut bytes = [0; handshake::REQUEST_LEN];
    stream
        .read_exact(&mut bytes)
        .map_err(|error| format!("no join request: {error}"))?;
    let request = match handshake::decode_request(&bytes, &state.token) {
        Ok(request) => request,
        Err(problem) => {
            // It may not wait for a reply.
            let _ = stream.write_all(&JoinReply::Refused.to_bytes());
            return Err(problem.to_string());
        }
    };
    let mut membership = state.lock();
    let reply = membership.reply_to(request, state.world, state.address);
    stream.write_all(&reply.to_bytes()).map_err(text)?;
    let JoinRequest { rank, world } = request;
    if reply == JoinReply::Accepted {
        membership.members[rank as usize] = MemberState::Joined(stream, from);
        state.changed.notify_all();
        return Ok(());
    }
    let problem = match reply {
        // It was restarted before the coordinator was done with the loss: not a conflict.
        JoinReply::RetryLater => return Ok(()),
        JoinReply::RankTaken(first) => format!(
            "a second process tried to join as rank {rank} from {}, the first is at {first}",
            from.ip()
        ),
        _ => format!(
            "{} tried to join as rank {rank} of {world}, this run has {} ranks",
            from.ip(),
            state.world
        ),
    };
    // A process that retries is reported once.
    if membership.conflicts.iter().any(|known| known.text == problem) {
        return Ok(());
    }
    if membership.conflicts.len() < MAX_CONFLICTS {
        membership.conflicts.push(JoinConflict {
            duplicate: matches!(reply, JoinReply::RankTaken(_)).then_some(rank),
            text: problem.clone(),
        });
    }
    Err(problem)
}

impl Membership {
    fn reply_to(&mut self, request: JoinRequest, world: u32, here: SocketAddr) -> JoinReply {
        if request.world != world {
            return JoinReply::WorldMismatch(world);
        }
        match self.members.get(request.rank as usize) {
            None => JoinReply::WorldMismatch(world),
            Some(MemberState::Missing) => JoinReply::Accepted,
            // It joined, ended, and was restarted before the others joined.
            Some(MemberState::Joined(stream, _)) if has_closed(stream) => JoinReply::Accepted,
            Some(MemberState::Connected(_, Some(connection))) if connection.is_lost() => {
                JoinReply::RetryLater
            }
            Some(MemberState::Joined(_, from) | MemberState::Connected(from, _)) => {
                JoinReply::RankTaken(*from)
            }
            Some(MemberState::Local(_)) => JoinReply::RankTaken(here),
        }
    }

    /// Sends heartbeats to ranks that wait; one that is gone is noticed when its state is next checked.
    fn send_heartbeats(&mut self) {
        for member in &mut self.members {
            if let MemberState::Joined(stream, _) = member {
                let _ = frame::write(stream, &[]);
            }
        }
    }
}

/// Whether the other side has closed a connection on which nothing was sent yet.
pub(super) fn has_closed(stream: &TcpStream) -> bool {
    let peeked = stream.set_nonblocking(true).and_then(|()| stream.peek(&mut [0]));
    let ended = match peeked {
        Ok(bytes) => bytes == 0,
        Err(error) => error.kind() != io::ErrorKind::WouldBlock,
    };
    stream.set_nonblocking(false).is_err() || ended
}
