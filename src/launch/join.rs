//! A rank of another process joining the run: it dials the coordinator and presents itself.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::link::{Answers, Member, Orders};
use super::rendezvous::WRITE_PATIENCE;
use super::{Token, greeting, variables};

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
    #[error("rank {rank} cannot reach the coordinator at {address}: {source}")]
    Unreachable {
        /// This rank.
        rank: u32,
        /// Where it dialled.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// The coordinator does not want this rank.
    #[error(
        "the coordinator at {address} refused rank {rank}: wrong token, wrong world size, or the rank has joined already"
    )]
    Refused {
        /// This rank.
        rank: u32,
        /// Where it dialled.
        address: SocketAddr,
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
    pub rendezvous: SocketAddr,
    /// The run's secret.
    pub token: Token,
}

impl JoinAddress {
    /// From railgauge's own environment variables.
    pub fn from_environment() -> Result<JoinAddress, JoinError> {
        fn read<T: std::str::FromStr>(variable: &'static str) -> Result<T, JoinError>
        where
            T::Err: std::fmt::Display,
        {
            let problem = |problem: String| JoinError::Variable { variable, problem };
            let text = std::env::var(variable).map_err(|_| problem("is not set".to_string()))?;
            text.parse()
                .map_err(|error| problem(format!("is malformed: {error}")))
        }
        Ok(JoinAddress {
            rank: read(variables::RANK)?,
            world: read(variables::WORLD)?,
            rendezvous: read(variables::RENDEZVOUS)?,
            token: read(variables::TOKEN)?,
        })
    }
}

/// Joins the run at `address`.
pub fn join(address: &JoinAddress, deadline: Duration) -> Result<Member, JoinError> {
    let (rank, at) = (address.rank, address.rendezvous);
    let unreachable = |source| JoinError::Unreachable {
        rank,
        address: at,
        source,
    };
    let mut stream = dial(at, deadline).map_err(unreachable)?;
    stream.set_nodelay(true).map_err(unreachable)?;
    stream
        .set_write_timeout(Some(WRITE_PATIENCE))
        .map_err(unreachable)?;
    stream.set_read_timeout(Some(deadline)).map_err(unreachable)?;
    let greeting = greeting::write(rank, address.world, &address.token);
    stream.write_all(&greeting).map_err(unreachable)?;
    let mut answer = [0];
    match stream.read_exact(&mut answer) {
        Ok(()) if answer[0] == greeting::WELCOME => {}
        _ => return Err(JoinError::Refused { rank, address: at }),
    }
    let answers = stream.try_clone().map_err(unreachable)?;
    let answers = Answers::Socket(Arc::new(Mutex::new(answers)));
    Ok(Member::new(rank, address.world, Orders::Socket(stream), answers))
}

/// Dials until somebody answers or the deadline passes: the coordinator may start later than its ranks.
fn dial(address: SocketAddr, deadline: Duration) -> io::Result<TcpStream> {
    let until = Instant::now() + deadline;
    loop {
        let left = until
            .saturating_duration_since(Instant::now())
            .max(Duration::from_millis(1));
        match TcpStream::connect_timeout(&address, left) {
            Ok(stream) => return Ok(stream),
            Err(error) if Instant::now() >= until => return Err(error),
            Err(_) => std::thread::sleep(Duration::from_millis(20)),
        }
    }
}
