//! Which role this process has in a run: all of it, rank 0 of several processes, or another rank.
//!
//! Rank 0's process holds the coordinator and is the only one that prints or writes. All others join it, serve one rank, and
//! leave with it.

use std::net::IpAddr;

use super::follower::Follower;
use super::mpi::Mpi;
use crate::error::CliError;
use engine::launch::{Member, Rendezvous, Token};
use topology::suite::RunSettings;

/// The role of this process.
pub enum Role {
    /// The only process; it starts all ranks itself.
    Local,
    /// Rank 0 of several processes.
    Leader(Box<Leader>),
    /// Another rank.
    Follower(Box<Follower>),
}

/// Rank 0 of several processes.
pub struct Leader {
    /// Where the others join.
    pub rendezvous: Rendezvous,
    /// This process's own rank.
    pub member: Member,
    /// The run's secret.
    pub token: Token,
    /// This host's management address.
    pub management: IpAddr,
    /// What rank and world size were taken from, for the record.
    pub source: String,
    /// MPI, if it started the processes.
    pub mpi: Option<Mpi>,
}

impl Role {
    /// Number of ranks, where a launcher decided it.
    pub fn world(&self) -> Option<u32> {
        match self {
            Role::Leader(leader) => Some(leader.rendezvous.world()),
            Role::Local | Role::Follower(_) => None,
        }
    }

    /// Adapts a run's settings to the ranks that a launcher started.
    pub fn apply_to(&self, settings: &mut RunSettings, are_rails_typed: bool) {
        let Role::Leader(leader) = self else {
            return;
        };
        settings.ranks = Some(leader.rendezvous.world());
        settings.procs = Some(true);
        let is_loopback = |rails: &Vec<String>| rails.iter().all(|rail| rail.contains("=127."));
        if !are_rails_typed && !leader.management.is_loopback() {
            // A suite's loopback rails are for a single machine; other hosts cannot be reached there.
            settings.rails = settings.rails.take().filter(|rails| !is_loopback(rails));
        }
    }
}

impl Leader {
    /// Takes rank 0 at an open rendezvous.
    pub fn new(
        rendezvous: Rendezvous,
        token: Token,
        management: Option<IpAddr>,
        source: String,
    ) -> Result<Leader, CliError> {
        let address = rendezvous
            .address()
            .map_err(CliError::system("the rendezvous has no address"))?;
        let member = rendezvous.join_local(0);
        let member = member.ok_or_else(|| CliError::Environment("rank 0 is taken".to_string()))?;
        Ok(Leader {
            rendezvous,
            member,
            token,
            management: management.unwrap_or(address.ip()),
            source,
            mpi: None,
        })
    }
}
