//! A rank of another process joining the run: it connects to the coordinator and sends a join request.
//!
//! Processes of one run start in any order and names may become resolvable late, so the name is resolved and dialled again
//! until the coordinator replies or the deadline passes. A reply is final, with two exceptions: a rank that is told to retry
//! does, and a rank that rejoins after a loss retries while the coordinator still takes its old process for alive.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::control::{AnswerSink, Member, OrderSource};
use super::handshake::{self, JoinReply, WRITE_TIMEOUT};
use super::rendezvous_address::{PartialAddress, RendezvousAddress};
use super::{Token, variables};

/// The longest one connection attempt may take: the name may soon resolve to another address.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(3);
/// Between attempts, at first and later.
const PAUSE: Duration = Duration::from_millis(50);
const LONG_PAUSE: Duration = Duration::from_millis(500);
/// From here on pauses are long.
const LONG_PAUSES_AFTER: Duration = Duration::from_secs(10);

/// A rank could not join.
#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    /// A variable is missing or malformed.
    #[error("{variable} {problem}")]
    Variable {
        /// Its name.
        variable: &'static str,
        /// What is wrong with it.
        problem: String,
    },
    /// The coordinator cannot be reached.
    #[error(
        "rank {rank} did not reach rank 0 at {rendezvous} within {} s: {problem}. Is rank 0 running, and does a firewall let \
this port through?",
        deadline.as_secs()
    )]
    Unreachable {
        /// This rank.
        rank: u32,
        /// Where it connected.
        rendezvous: RendezvousAddress,
        /// How long it tried.
        deadline: Duration,
        /// How the last attempt failed.
        problem: String,
    },
    /// The token is wrong, or another run listens there.
    #[error(
        "rank {rank} was refused at {address}: another run listens there, or this process has another token; give all \
processes of a run the same RAILGAUGE_TOKEN"
    )]
    Refused {
        /// This rank.
        rank: u32,
        /// Where it dialled.
        address: SocketAddr,
    },
    /// The run has another number of ranks.
    #[error(
        "rank {rank} was refused at {address}: this run has {theirs} ranks, this process was started with \
world size {ours}; these are separate worlds: start every process with the same world size"
    )]
    WorldMismatch {
        /// This rank.
        rank: u32,
        /// Where it dialled.
        address: SocketAddr,
        /// Ranks there.
        theirs: u32,
        /// Ranks here.
        ours: u32,
    },
    /// Another process has joined as this rank.
    #[error(
        "rank {rank} was refused at {address}: rank {rank} has joined already from {from}; give every process a rank of \
its own"
    )]
    RankTaken {
        /// This rank.
        rank: u32,
        /// Where it dialled.
        address: SocketAddr,
        /// Where the other process is.
        from: SocketAddr,
    },
}

/// Everything a rank needs to join.
#[derive(Debug, Clone)]
pub struct JoinConfig {
    /// This rank.
    pub rank: u32,
    /// Ranks in the run.
    pub world: u32,
    /// Where the coordinator listens.
    pub rendezvous: RendezvousAddress,
    /// The run's token.
    pub token: Token,
}

impl JoinConfig {
    /// From railgauge's own environment variables.
    pub fn from_environment() -> Result<JoinConfig, JoinError> {
        fn text(variable: &'static str) -> Result<String, JoinError> {
            let problem = "is not set".to_string();
            std::env::var(variable).map_err(|_| JoinError::Variable { variable, problem })
        }
        fn malformed(variable: &'static str) -> impl FnOnce(String) -> JoinError {
            move |error| JoinError::Variable {
                variable,
                problem: format!("is malformed: {error}"),
            }
        }
        fn read<T: std::str::FromStr>(variable: &'static str) -> Result<T, JoinError>
        where
            T::Err: std::fmt::Display,
        {
            let parsed = text(variable)?.parse();
            parsed.map_err(|error: T::Err| malformed(variable)(error.to_string()))
        }
        let address = PartialAddress::parse(&text(variables::RENDEZVOUS)?);
        let address = address.map_err(|bad| malformed(variables::RENDEZVOUS)(bad.to_string()))?;
        let (Some(host), Some(port)) = (address.host, address.port) else {
            return Err(malformed(variables::RENDEZVOUS)("write HOST:PORT".to_string()));
        };
        Ok(JoinConfig {
            rank: read(variables::RANK)?,
            world: read(variables::WORLD)?,
            rendezvous: RendezvousAddress { host, port },
            token: read(variables::TOKEN)?,
        })
    }
}

/// Joins the run.
pub fn join(config: &JoinConfig, deadline: Duration) -> Result<Member, JoinError> {
    join_within(config, deadline, false)
}

/// Joins the run as a rank that was part of it before: it may count as joined until the coordinator notices that its old
/// process is lost.
pub fn rejoin(config: &JoinConfig, deadline: Duration) -> Result<Member, JoinError> {
    join_within(config, deadline, true)
}

fn join_within(config: &JoinConfig, deadline: Duration, rejoins: bool) -> Result<Member, JoinError> {
    let rank = config.rank;
    let started = Instant::now();
    let until = started + deadline;
    loop {
        let pause = match started.elapsed() < LONG_PAUSES_AFTER {
            true => PAUSE,
            false => LONG_PAUSE,
        };
        let is_last = Instant::now() + pause >= until;
        let problem = match request_join(config, until) {
            Ok((JoinReply::Accepted, at, stream)) => {
                return member(config, stream)
                    .map_err(|error| unreachable(config, deadline, format!("{at}: {error}")));
            }
            Ok((JoinReply::Refused, address, _)) => return Err(JoinError::Refused { rank, address }),
            Ok((JoinReply::WorldMismatch(theirs), at, _)) => {
                return Err(JoinError::WorldMismatch {
                    rank,
                    address: at,
                    theirs,
                    ours: config.world,
                });
            }
            Ok((JoinReply::RankTaken(from), address, _)) if !rejoins || is_last => {
                return Err(JoinError::RankTaken { rank, address, from });
            }
            Ok((JoinReply::RankTaken(from), at, _)) => {
                format!("{at}: rank {rank} has joined already from {from}")
            }
            Ok((JoinReply::RetryLater, at, _)) => {
                format!("{at}: rank {rank} of this run is lost and may not rejoin yet")
            }
            Err(problem) => problem,
        };
        if Instant::now() + pause >= until {
            return Err(unreachable(config, deadline, problem));
        }
        std::thread::sleep(pause);
    }
}

fn unreachable(config: &JoinConfig, deadline: Duration, problem: String) -> JoinError {
    JoinError::Unreachable {
        rank: config.rank,
        rendezvous: config.rendezvous.clone(),
        deadline,
        problem,
    }
}

/// The reply of the first address that replies; the problem when none does.
pub(super) fn request_join(
    config: &JoinConfig,
    until: Instant,
) -> Result<(JoinReply, SocketAddr, TcpStream), String> {
    let host = &config.rendezvous.host;
    let found = config.rendezvous.resolve();
    let found = found.map_err(|error| format!("the host name {host} cannot be resolved: {error}"))?;
    let mut problems = Vec::new();
    for at in found {
        match handshake_with(config, at, until) {
            Ok((reply, stream)) => return Ok((reply, at, stream)),
            Err(error) => problems.push(format!("{at}: {error}")),
        }
    }
    Err(problems.join("; "))
}

fn handshake_with(config: &JoinConfig, at: SocketAddr, until: Instant) -> io::Result<(JoinReply, TcpStream)> {
    let left = || {
        until
            .saturating_duration_since(Instant::now())
            .max(Duration::from_millis(1))
    };
    let mut stream = TcpStream::connect_timeout(&at, left().min(ATTEMPT_TIMEOUT))?;
    stream.set_nodelay(true)?;
    stream.set_write_timeout(Some(WRITE_TIMEOUT))?;
    stream.set_read_timeout(Some(left()))?;
    let request = handshake::encode_request(config.rank, config.world, &config.token);
    stream.write_all(&request)?;
    let mut reply = [0; handshake::REPLY_LEN];
    stream
        .read_exact(&mut reply)
        .map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => {
                io::Error::new(error.kind(), "it closed the connection without a reply")
            }
            io::ErrorKind::WouldBlock => {
                io::Error::new(error.kind(), "it accepts connections but does not reply")
            }
            _ => error,
        })?;
    let reply = JoinReply::from_bytes(&reply)
        .ok_or_else(|| io::Error::other("it is not a railgauge coordinator: unknown reply"))?;
    Ok((reply, stream))
}

fn member(config: &JoinConfig, stream: TcpStream) -> io::Result<Member> {
    let answers = stream.try_clone()?;
    let answers = AnswerSink::Socket(Arc::new(Mutex::new(answers)));
    Ok(Member::new(
        config.rank,
        config.world,
        OrderSource::Socket(stream),
        answers,
    ))
}
