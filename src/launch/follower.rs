//! A rank other than 0 in a process of its own: it joins rank 0, serves, and leaves with it. With --rejoin it waits for the run
//! to take it back, or for the next run.

use std::net::IpAddr;
use std::time::Duration;

use super::mpi::Mpi;
use crate::error::CliError;
use crate::signals::exit_after_signal;
use crate::terminal;
use engine::collective::gpu::ProcessGpus;
use engine::launch::{JoinConfig, Member, join, local_rank, rejoin};
use engine::measure::{ProcessContext, QuitReason, serve};
use engine::transport::shm::Hub;
use record::units::Nanos;

/// The exit code of a rank that lost the run, or was left out of it.
const LOST: u8 = record::exit_code::LOST;

/// A rank other than 0.
pub struct Follower {
    /// Rank, world and where to join.
    pub address: JoinConfig,
    /// This host's management address, if it was named.
    pub management: Option<IpAddr>,
    /// How long joining may take.
    pub deadline: Duration,
    /// How long to try to rejoin after a loss; none when a loss is the end.
    pub rejoin: Option<Duration>,
    /// MPI, if it started the processes.
    pub mpi: Option<Mpi>,
}

impl Follower {
    /// Joins, serves until the run is over, and returns the exit code.
    pub fn take_part(mut self) -> Result<u8, CliError> {
        let mpi = self.mpi.take();
        exit_after_signal()?;
        let mut member = match self.rejoin {
            // This process may be a replacement that starts before the run has noticed the loss of its predecessor.
            Some(patience) => rejoin(&self.address, self.deadline.max(patience))?,
            None => join(&self.address, self.deadline)?,
        };
        loop {
            let quit = self.serve(member);
            if let Some(mpi) = mpi {
                mpi.leave(quit == Some(QuitReason::Complete));
                return Ok(exit_code_of(quit));
            }
            let Some(patience) = self.rejoin.filter(|_| exit_code_of(quit) == LOST) else {
                return Ok(exit_code_of(quit));
            };
            let (rank, place) = (self.address.rank, &self.address.rendezvous);
            let at_most = Nanos::from(patience);
            terminal::warn(format_args!(
                "rank {rank} tries to rejoin at {place} for up to {at_most}"
            ));
            member = match rejoin(&self.address, patience) {
                Ok(member) => member,
                Err(error) => {
                    terminal::warn(error);
                    return Ok(LOST);
                }
            };
        }
    }

    /// Serves one leader from the beginning to the end. How it ended; none when rank 0 was lost.
    fn serve(&self, member: Member) -> Option<QuitReason> {
        let shared = ProcessContext {
            token: self.address.token,
            hub: Hub::new(),
            process_gpus: ProcessGpus::new(),
            local_rank: local_rank(),
            management: self.management.or_else(|| member.management_address()),
        };
        let (rank, place) = (self.address.rank, &self.address.rendezvous);
        match serve(member, &shared) {
            Ok(QuitReason::Excluded) => {
                terminal::warn(format_args!(
                    "rank {rank} was left out by rank 0 at {place}: its heartbeat was late, or its host or rails changed"
                ));
                Some(QuitReason::Excluded)
            }
            Ok(quit) => Some(quit),
            Err(error) => {
                terminal::warn(format_args!("rank {rank} lost rank 0 at {place}: {error}"));
                None
            }
        }
    }
}

/// The exit code of a rank whose run ended like this.
pub fn exit_code_of(quit: Option<QuitReason>) -> u8 {
    match quit {
        Some(QuitReason::Complete | QuitReason::WithLosses) => 0,
        Some(QuitReason::Excluded) | None => LOST,
    }
}
