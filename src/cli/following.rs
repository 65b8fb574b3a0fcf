//! A process that follows: it joins the first rank's, serves as one rank, and leaves with it; or, if it was told to, waits for
//! the run to take it back, or for the next one.

use std::net::IpAddr;
use std::time::Duration;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::launching::Mpi;
use super::{CliError, say};
use engine::collective::gpu::ProcessGpus;
use engine::launch::{JoinConfig, Member, join, local_rank, rejoin};
use engine::measure::{ProcessContext, QuitReason, serve};
use engine::transport::shm::Hub;
use record::units::Nanos;

/// How long a follower that was told to end waits for the leader to end the run for everybody.
const PARTING: Duration = Duration::from_secs(2);
/// The code of a rank that lost the run, or was left out of it.
const LOST: u8 = 21;

/// Another rank than the first.
pub struct Follow {
    /// Whom to join as what.
    pub address: JoinConfig,
    /// This host's management address, if it was named.
    pub management: Option<IpAddr>,
    /// How long joining may take.
    pub deadline: Duration,
    /// How long to call again after a loss; none when a loss is the end.
    pub rejoin: Option<Duration>,
    /// MPI, if it brought the processes together.
    pub mpi: Option<Mpi>,
}

impl Follow {
    /// Joins, serves until the run is over, and says how that ended.
    pub fn take_part(mut self) -> Result<u8, CliError> {
        let mpi = self.mpi.take();
        leave_when_told()?;
        let mut member = match self.rejoin {
            // It may be one that was started again before the run has noticed that the one before it is lost.
            Some(patience) => rejoin(&self.address, self.deadline.max(patience))?,
            None => join(&self.address, self.deadline)?,
        };
        loop {
            let parting = self.serve(member);
            if let Some(mpi) = mpi {
                mpi.leave(parting == Some(QuitReason::Complete));
                return Ok(code_of(parting));
            }
            let Some(patience) = self.rejoin.filter(|_| code_of(parting) == LOST) else {
                return Ok(code_of(parting));
            };
            let (rank, place) = (self.address.rank, &self.address.rendezvous);
            let how_long = Nanos::from(patience);
            say::complain(format_args!(
                "rank {rank} calls again at {place} for up to {how_long}"
            ));
            member = match rejoin(&self.address, patience) {
                Ok(member) => member,
                Err(error) => {
                    say::complain(error);
                    return Ok(LOST);
                }
            };
        }
    }

    /// Serves one leader from the beginning to the end. Who was there at the end; none when the first rank was lost.
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
            Ok(QuitReason::LeftOut) => {
                say::complain(format_args!(
                    "rank {rank} was left out by rank 0 at {place}: it had not been heard in time, or its host or rails are not \
                     what they were"
                ));
                Some(QuitReason::LeftOut)
            }
            Ok(parting) => Some(parting),
            Err(gone) => {
                say::complain(format_args!("rank {rank} lost rank 0 at {place}: {gone}"));
                None
            }
        }
    }
}

/// The exit code of a rank whose run ended like this.
pub fn code_of(parting: Option<QuitReason>) -> u8 {
    match parting {
        Some(QuitReason::Complete | QuitReason::WithLosses) => 0,
        Some(QuitReason::LeftOut) | None => LOST,
    }
}

/// TERM and Ctrl-C often reach all processes of a job: the first rank then ends the run for everybody in an orderly way, and
/// this one only leaves by itself when that does not happen.
fn leave_when_told() -> Result<(), CliError> {
    let signals = Signals::new([SIGINT, SIGTERM]);
    let mut signals = signals.map_err(CliError::system("cannot listen for signals"))?;
    let watching = std::thread::Builder::new()
        .name("signals".to_string())
        .spawn(move || {
            if let Some(signal) = signals.forever().next() {
                std::thread::sleep(PARTING);
                std::process::exit(128 + signal);
            }
        });
    watching.map_err(CliError::system("cannot listen for signals"))?;
    Ok(())
}
