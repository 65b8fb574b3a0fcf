//! How ranks on several hosts are started, and which role this process has among them.

pub mod follower;
pub mod mpi;
pub mod ranks;
pub mod role;

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use self::follower::Follower;
use self::role::{Leader, Role};
use crate::error::CliError;
use engine::launch::env::{self, RankAssignment, RankAssignmentError, RankFlags};
use engine::launch::hosts::{HostsFile, LocalHost};
use engine::launch::{JoinConfig, MOST_RANKS, Rendezvous, token_source, variables};
use probe::host;
use probe::rails;
use record::units::Nanos;

/// How ranks are started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum LaunchChoice {
    /// MPI or env when a launcher started this process as one of several, else local.
    #[default]
    Auto,
    /// By this process, on this machine.
    Local,
    /// By mpirun or srun; ranks exchange the rendezvous through MPI.
    Mpi,
    /// By anything that sets rank, world size and rendezvous.
    Env,
}

/// The flags about ranks on several hosts.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Several hosts")]
pub struct LaunchFlags {
    /// How ranks are started
    #[arg(long, value_enum, default_value_t)]
    pub launch: LaunchChoice,
    /// Rank of this process [env: RAILGAUGE_RANK]
    #[arg(long, value_name = "N")]
    pub rank: Option<u32>,
    /// Ranks in the run [env: RAILGAUGE_WORLD]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_RANKS)))]
    pub world: Option<u32>,
    /// Rendezvous: an address of rank 0's host and a free port [env: RAILGAUGE_RENDEZVOUS]
    #[arg(long, value_name = "HOST:PORT")]
    pub rendezvous: Option<String>,
    /// Hosts file: one host per line, `slots=N` ranks each; gives rank, world and rendezvous
    #[arg(long, value_name = "FILE")]
    pub hosts: Option<PathBuf>,
    /// File with the run's token, readable by its owner only [env: RAILGAUGE_TOKEN, RAILGAUGE_TOKEN_FILE]
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Deadline for all ranks to join [default: 60s]
    #[arg(long, value_name = "DUR")]
    pub join_deadline: Option<Nanos>,
    /// How long a rank that lost rank 0, or was left out, tries to rejoin this run or join the next one [default: it exits]
    #[arg(long, value_name = "DUR")]
    pub rejoin: Option<Nanos>,
    /// The management network on this host: interface, address or subnet [env: RAILGAUGE_MANAGEMENT]
    #[arg(long, value_name = "WHICH")]
    pub management: Option<String>,
    /// Rank r listens for data on port BASE + r of every rail [default: any free port]
    #[arg(long, value_name = "BASE", value_parser = clap::value_parser!(u16).range(1..))]
    pub data_port: Option<u16>,
}

impl LaunchFlags {
    /// Finds the role of this process; rank 0 opens the rendezvous.
    pub fn role(&self) -> Result<Role, CliError> {
        match self.launch {
            LaunchChoice::Local => self.refuse_place().map(|()| Role::Local),
            LaunchChoice::Mpi => self.refuse_rejoin().and_then(|()| self.through_mpi()),
            LaunchChoice::Env => match self.place()? {
                Some(place) => self.role_at(place),
                None if env::largest_scheduler_world(&variable).is_some() => Ok(Role::Local),
                None => Err(RankAssignmentError::Unknown.into()),
            },
            LaunchChoice::Auto if cfg!(feature = "mpi") && self.is_started_by_mpi() => {
                self.refuse_rejoin().and_then(|()| self.through_mpi())
            }
            LaunchChoice::Auto => match self.place()? {
                Some(place) => self.role_at(place),
                None => Ok(Role::Local),
            },
        }
    }

    /// Whether an MPI launcher started this process as one of several, and no flag or variable says otherwise.
    fn is_started_by_mpi(&self) -> bool {
        let own = [variables::RANK, variables::WORLD, variables::RENDEZVOUS];
        let is_said = self.refuse_place().is_err() || own.iter().any(|name| variable(name).is_some());
        let sizes = ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE"];
        let several = |name: &&str| variable(name).is_some_and(|size| size != "1");
        !is_said && (sizes.iter().any(several) || variable("PMIX_RANK").is_some())
    }

    #[cfg(not(feature = "mpi"))]
    fn through_mpi(&self) -> Result<Role, CliError> {
        Err(CliError::Environment(mpi::NO_MPI.to_string()))
    }

    /// Rank 0 opens a rendezvous and sends its address and token to the others through MPI.
    #[cfg(feature = "mpi")]
    fn through_mpi(&self) -> Result<Role, CliError> {
        use engine::launch::Token;
        use engine::launch::mpi::{RendezvousInfo, World};
        use probe::management::management_here;

        let failed = |problem: String| CliError::Environment(problem);
        let waiting = mpi::Watchdog::start(self.join_deadline());
        let world = World::start(&variable).map_err(|error| failed(error.to_string()))?;
        let size = world.size();
        if size == 1 {
            world.leave(true);
            return Ok(Role::Local);
        }
        let identity = host::identity();
        let hosts = world.gather(&host::here().name);
        let places = world.gather(&format!("{} {}", identity.machine, identity.network));
        let named = self.management();
        if world.rank() != 0 {
            let invitation = world.broadcast_rendezvous(None);
            drop(waiting);
            let invitation =
                invitation.ok_or_else(|| failed("rank 0 could not open the rendezvous".to_string()))?;
            return Ok(Role::Follower(Box::new(Follower {
                address: JoinConfig {
                    rank: world.rank(),
                    world: size,
                    rendezvous: invitation.address.into(),
                    token: invitation.token,
                },
                management: named?,
                deadline: self.join_deadline(),
                rejoin: None,
                mpi: Some(world),
            })));
        }
        let is_one_host = places.iter().all(|place| *place == places[0]);
        let open = || -> Result<(Leader, RendezvousInfo), CliError> {
            let token = Token::generate().map_err(CliError::system("cannot generate the run's token"))?;
            let named = named?;
            let address = match (named, is_one_host) {
                (Some(named), _) => named,
                (None, true) => IpAddr::V4(std::net::Ipv4Addr::LOCALHOST),
                (None, false) => management_here().map_err(|error| failed(error.to_string()))?,
            };
            let rendezvous = Rendezvous::listen(address, size, token)?.with_hosts(Some(hosts));
            let address = rendezvous
                .address()
                .map_err(CliError::system("the rendezvous has no address"))?;
            let leader = Leader::new(rendezvous, token, named, World::library())?;
            Ok((leader, RendezvousInfo { address, token }))
        };
        // The others wait for an invitation even if there is none.
        let opened = open();
        world.broadcast_rendezvous(opened.as_ref().ok().map(|(_, invitation)| invitation));
        drop(waiting);
        let (mut leader, _) = opened?;
        leader.mpi = Some(world);
        Ok(Role::Leader(Box::new(leader)))
    }

    /// An MPI launcher ends all processes when one is lost, so there is no run to rejoin.
    fn refuse_rejoin(&self) -> Result<(), CliError> {
        match self.rejoin {
            Some(_) => Err(CliError::Usage(
                "--rejoin does not work with MPI: MPI passes the rendezvous and the token once, at start, and its launcher ends all \
                 processes when one is lost; use --launch env with a rendezvous and a token that stay the same"
                    .to_string(),
            )),
            None => Ok(()),
        }
    }

    /// Flags about ranks in other processes do not go with ranks that this process starts.
    fn refuse_place(&self) -> Result<(), CliError> {
        let typed = [
            ("--rank", self.rank.is_some()),
            ("--world", self.world.is_some()),
            ("--rendezvous", self.rendezvous.is_some()),
            ("--hosts", self.hosts.is_some()),
        ];
        match typed.iter().find(|(_, is_typed)| *is_typed) {
            Some((flag, _)) => Err(CliError::Usage(format!(
                "{flag} is about ranks in several processes; --launch local starts all ranks in this one"
            ))),
            None => Ok(()),
        }
    }

    fn place(&self) -> Result<Option<RankAssignment>, CliError> {
        let file = self.hosts.as_deref().map(HostsFile::read).transpose();
        let typed = RankFlags {
            rank: self.rank,
            world: self.world,
            rendezvous: self.rendezvous.clone(),
            hosts: file.map_err(CliError::Usage)?,
        };
        let entries = rails::addresses_here().unwrap_or_default();
        let here = LocalHost {
            name: host::here().name,
            addresses: entries.into_iter().filter_map(|entry| entry.address).collect(),
        };
        let place = env::rank_assignment(&typed, &here, &variable)?;
        if place.is_none() && self.rendezvous.is_some() {
            return Err(RankAssignmentError::Unknown.into());
        }
        Ok(place)
    }

    fn role_at(&self, place: RankAssignment) -> Result<Role, CliError> {
        let token = token_source::find(self.token_file.as_deref(), &variable)?;
        let management = self.management()?;
        if place.rank != 0 {
            return Ok(Role::Follower(Box::new(Follower {
                address: JoinConfig {
                    rank: place.rank,
                    world: place.world,
                    rendezvous: place.rendezvous,
                    token,
                },
                management,
                deadline: self.join_deadline(),
                rejoin: self.rejoin.map(Duration::from),
                mpi: None,
            })));
        }
        let rendezvous =
            Rendezvous::listen_at(&place.rendezvous, place.world, token)?.with_hosts(place.hosts);
        let leader = Leader::new(rendezvous, token, management, place.source)?;
        Ok(Role::Leader(Box::new(leader)))
    }

    fn join_deadline(&self) -> Duration {
        self.join_deadline.unwrap_or(Nanos::from_secs(60)).into()
    }

    /// The management address, if it was named.
    fn management(&self) -> Result<Option<IpAddr>, CliError> {
        let named = self
            .management
            .clone()
            .or_else(|| variable(variables::MANAGEMENT));
        let address = named.map(|named| rails::address_here(&named)).transpose();
        address.map_err(|error| CliError::Environment(format!("--management: {error}")))
    }
}

fn variable(name: &str) -> Option<String> {
    // Shells and job files often set a variable to nothing instead of unsetting it.
    std::env::var(name).ok().filter(|value| !value.trim().is_empty())
}
