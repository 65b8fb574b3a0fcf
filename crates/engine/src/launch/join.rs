//! A rank of another process joining the run: it dials the coordinator and presents itself.
//!
//! Processes of one run start in any order and names may become known late, so the name is resolved and dialled again and
//! again until somebody answers or the deadline passes. An answer is final, with two exceptions: whoever is told to call again
//! does, and a rank that comes back after a loss goes on calling while the coordinator still takes the one before it for
//! alive.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::greeting::{self, Answer};
use super::link::{Answers, Member, Orders};
use super::meeting::{Halves, Meeting};
use super::rendezvous::WRITE_PATIENCE;
use super::{Token, variables};

/// One attempt to connect takes no longer: the name may soon stand for another address.
const ATTEMPT: Duration = Duration::from_secs(3);
/// Between attempts, at first and after a while.
const PAUSE: Duration = Duration::from_millis(50);
const LONG_PAUSE: Duration = Duration::from_millis(500);
/// From here on pauses are long.
const A_WHILE: Duration = Duration::from_secs(10);

/// A rank could not join.
#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    /// A variable is missing or malformed.
    #[error("{variable} {problem}")]
    Variable {
        /// Which.
        variable: &'static str,
        /// What is wrong with it.
        problem: String,
    },
    /// The coordinator cannot be reached.
    #[error(
        "rank {rank} did not reach rank 0 at {meeting} within {} s: {problem}. Is rank 0 running, and does a firewall let \
this port through?",
        deadline.as_secs()
    )]
    Unreachable {
        /// This rank.
        rank: u32,
        /// Where it dialled.
        meeting: Meeting,
        /// How long it tried.
        deadline: Duration,
        /// What the last attempt came to.
        problem: String,
    },
    /// The coordinator does not know this run's secret, or this is not its run.
    #[error(
        "rank {rank} was refused at {address}: what listens there is another run, or this process has another token; all \
processes of a run need the same RAILGAUGE_TOKEN"
    )]
    Refused {
        /// This rank.
        rank: u32,
        /// Where it dialled.
        address: SocketAddr,
    },
    /// The run has another number of ranks.
    #[error(
        "rank {rank} was refused at {address}: this run has {theirs} ranks, you say {ours}; these are separate worlds: \
start every process with the same world size"
    )]
    OtherWorld {
        /// This rank.
        rank: u32,
        /// Where it dialled.
        address: SocketAddr,
        /// Ranks there.
        theirs: u32,
        /// Ranks here.
        ours: u32,
    },
    /// Another process is this rank.
    #[error(
        "rank {rank} was refused at {address}: rank {rank} has joined already from {from}; give every process a rank of \
its own"
    )]
    Taken {
        /// This rank.
        rank: u32,
        /// Where it dialled.
        address: SocketAddr,
        /// Where the other one is.
        from: SocketAddr,
    },
}

/// Everything a rank needs to join.
#[derive(Debug, Clone)]
pub struct JoinAddress {
    /// This rank.
    pub rank: u32,
    /// Ranks in the run.
    pub world: u32,
    /// Where the coordinator listens.
    pub rendezvous: Meeting,
    /// The run's secret.
    pub token: Token,
}

impl JoinAddress {
    /// From railgauge's own environment variables.
    pub fn from_environment() -> Result<JoinAddress, JoinError> {
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
        let halves = Halves::parse(&text(variables::RENDEZVOUS)?);
        let halves = halves.map_err(|bad| malformed(variables::RENDEZVOUS)(bad.to_string()))?;
        let (Some(host), Some(port)) = (halves.host, halves.port) else {
            return Err(malformed(variables::RENDEZVOUS)("write HOST:PORT".to_string()));
        };
        Ok(JoinAddress {
            rank: read(variables::RANK)?,
            world: read(variables::WORLD)?,
            rendezvous: Meeting { host, port },
            token: read(variables::TOKEN)?,
        })
    }
}

/// Joins the run at `address`.
pub fn join(address: &JoinAddress, deadline: Duration) -> Result<Member, JoinError> {
    call(address, deadline, false)
}

/// Joins the run at `address` as a rank that was part of it, or of one before it: its seat may be taken until the coordinator
/// notices that it was lost.
pub fn join_again(address: &JoinAddress, deadline: Duration) -> Result<Member, JoinError> {
    call(address, deadline, true)
}

fn call(address: &JoinAddress, deadline: Duration, comes_back: bool) -> Result<Member, JoinError> {
    let rank = address.rank;
    let started = Instant::now();
    let until = started + deadline;
    loop {
        let pause = match started.elapsed() < A_WHILE {
            true => PAUSE,
            false => LONG_PAUSE,
        };
        let is_last = Instant::now() + pause >= until;
        let problem = match attempt(address, until) {
            Ok((Answer::Welcome, at, stream)) => {
                return seat(address, stream).map_err(|error| unreachable(address, deadline, at, error));
            }
            Ok((Answer::Refused, address, _)) => return Err(JoinError::Refused { rank, address }),
            Ok((Answer::OtherWorld(theirs), at, _)) => {
                return Err(JoinError::OtherWorld {
                    rank,
                    address: at,
                    theirs,
                    ours: address.world,
                });
            }
            Ok((Answer::Taken(from), address, _)) if !comes_back || is_last => {
                return Err(JoinError::Taken { rank, address, from });
            }
            Ok((Answer::Taken(from), at, _)) => format!("{at}: rank {rank} has joined already from {from}"),
            Ok((Answer::Later, at, _)) => {
                format!("{at}: the rank {rank} of this run is lost, and nobody is let in for it yet")
            }
            Err(problem) => problem,
        };
        if Instant::now() + pause >= until {
            return Err(JoinError::Unreachable {
                rank,
                meeting: address.rendezvous.clone(),
                deadline,
                problem,
            });
        }
        std::thread::sleep(pause);
    }
}

fn unreachable(address: &JoinAddress, deadline: Duration, at: SocketAddr, error: io::Error) -> JoinError {
    JoinError::Unreachable {
        rank: address.rank,
        meeting: address.rendezvous.clone(),
        deadline,
        problem: format!("{at}: {error}"),
    }
}

/// What the first address that answers has to say; the problem in words when none does.
pub(super) fn attempt(
    address: &JoinAddress,
    until: Instant,
) -> Result<(Answer, SocketAddr, TcpStream), String> {
    let host = &address.rendezvous.host;
    let found = address.rendezvous.resolve();
    let found = found.map_err(|error| format!("the name {host} cannot be resolved: {error}"))?;
    let mut problems = Vec::new();
    for at in found {
        match present(address, at, until) {
            Ok((answer, stream)) => return Ok((answer, at, stream)),
            Err(error) => problems.push(format!("{at}: {error}")),
        }
    }
    Err(problems.join("; "))
}

fn present(address: &JoinAddress, at: SocketAddr, until: Instant) -> io::Result<(Answer, TcpStream)> {
    let left = || {
        until
            .saturating_duration_since(Instant::now())
            .max(Duration::from_millis(1))
    };
    let mut stream = TcpStream::connect_timeout(&at, left().min(ATTEMPT))?;
    stream.set_nodelay(true)?;
    stream.set_write_timeout(Some(WRITE_PATIENCE))?;
    stream.set_read_timeout(Some(left()))?;
    let greeting = greeting::write(address.rank, address.world, &address.token);
    stream.write_all(&greeting)?;
    let mut answer = [0; greeting::ANSWER];
    stream
        .read_exact(&mut answer)
        .map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => {
                io::Error::new(error.kind(), "it closed the connection without an answer")
            }
            io::ErrorKind::WouldBlock => {
                io::Error::new(error.kind(), "it accepts connections but does not answer")
            }
            _ => error,
        })?;
    let answer =
        Answer::from_bytes(&answer).ok_or_else(|| io::Error::other("it answers in another language"))?;
    Ok((answer, stream))
}

fn seat(address: &JoinAddress, stream: TcpStream) -> io::Result<Member> {
    let answers = stream.try_clone()?;
    let answers = Answers::Socket(Arc::new(Mutex::new(answers)));
    Ok(Member::new(
        address.rank,
        address.world,
        Orders::Socket(stream),
        answers,
    ))
}
