//! What this process is in a run: everything by itself, the one that leads, or one of those that follow.
//!
//! The first rank's process holds the coordinator and is the only one that prints or writes. All others join it, serve, and
//! leave with it.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::CliError;
use super::following::Follow;
use super::shared::Shared;
use engine::launch::env::{self, RankAssignment, RankAssignmentError, RankFlags};
use engine::launch::hosts::{HostsFile, LocalHost};
use engine::launch::{JoinConfig, MOST_RANKS, Member, Rendezvous, Token, token_source, variables};
use probe::host;
#[cfg(feature = "mpi")]
use probe::management::management_here;
use probe::rails;
use record::units::Nanos;
use topology::suite::Suite;

/// How ranks are started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum LaunchChoice {
    /// MPI or env when a launcher started this process as one of several, else local.
    #[default]
    Auto,
    /// By this process, on this machine.
    Local,
    /// By mpirun or srun; ranks find each other through MPI.
    Mpi,
    /// By anything that says rank, world size and where to meet.
    Env,
}

/// The flags about ranks on several hosts.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Many hosts")]
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
    /// Where ranks meet: an address of rank 0's machine and a free port [env: RAILGAUGE_RENDEZVOUS]
    #[arg(long, value_name = "HOST:PORT")]
    pub rendezvous: Option<String>,
    /// One host per line, `slots=N` ranks each; says rank, world and where to meet
    #[arg(long, value_name = "FILE")]
    pub hosts: Option<PathBuf>,
    /// File with the run's token, readable by its owner only [env: RAILGAUGE_TOKEN, RAILGAUGE_TOKEN_FILE]
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Longest ranks may take to join [default: 60s]
    #[arg(long, value_name = "DUR")]
    pub join_deadline: Option<Nanos>,
    /// A rank that loses rank 0, or is left out by it, calls again for so long, for the run to take it back or the next one to take it on [default: it ends]
    #[arg(long, value_name = "DUR")]
    pub rejoin: Option<Nanos>,
    /// The management network on this host: interface, address or subnet [env: RAILGAUGE_MANAGEMENT]
    #[arg(long, value_name = "WHICH")]
    pub management: Option<String>,
    /// Rank r listens for data on port BASE + r of every rail [default: any free port]
    #[arg(long, value_name = "BASE", value_parser = clap::value_parser!(u16).range(1..))]
    pub data_port: Option<u16>,
}

/// What this process is.
pub enum Role {
    /// The only process; starts ranks itself.
    Alone,
    /// Rank 0 of several processes.
    Leads(Box<Lead>),
    /// Another rank.
    Follows(Box<Follow>),
}

/// Rank 0 of several processes.
pub struct Lead {
    /// Where the others join.
    pub door: Rendezvous,
    /// This process's own rank.
    pub member: Member,
    /// The run's secret.
    pub token: Token,
    /// This host's management address.
    pub management: IpAddr,
    /// Whose word rank and world are, in words.
    pub source: String,
    /// MPI, if it brought the processes together.
    pub mpi: Option<Mpi>,
}

/// MPI while it runs.
#[cfg(feature = "mpi")]
pub type Mpi = engine::launch::mpi::World;

/// There is none in this build.
#[cfg(not(feature = "mpi"))]
pub enum Mpi {}

#[cfg(not(feature = "mpi"))]
impl Mpi {
    /// Never called.
    pub fn leave(self, _clean: bool) {
        match self {}
    }
}

impl Role {
    /// Ranks of the world, where others have decided that.
    pub fn world(&self) -> Option<u32> {
        match self {
            Role::Leads(lead) => Some(lead.door.world()),
            Role::Alone | Role::Follows(_) => None,
        }
    }

    /// Makes the suite's settings those of this world.
    pub fn settle(&self, suite: &mut Suite, flags: &Shared) -> Result<(), CliError> {
        match self {
            Role::Leads(lead) => lead.settle(suite, flags),
            Role::Alone | Role::Follows(_) => Ok(()),
        }
    }
}

impl LaunchFlags {
    /// Finds out what this process is; the first rank opens the door.
    pub fn role(&self) -> Result<Role, CliError> {
        match self.launch {
            LaunchChoice::Local => self.refuse_place().map(|()| Role::Alone),
            LaunchChoice::Mpi => self.refuse_rejoin().and_then(|()| self.through_mpi()),
            LaunchChoice::Env => match self.place()? {
                Some(place) => self.take(place),
                None if env::largest_scheduler_world(&variable).is_some() => Ok(Role::Alone),
                None => Err(RankAssignmentError::Unknown.into()),
            },
            LaunchChoice::Auto if cfg!(feature = "mpi") && self.is_up_to_mpi() => {
                self.refuse_rejoin().and_then(|()| self.through_mpi())
            }
            LaunchChoice::Auto => match self.place()? {
                Some(place) => self.take(place),
                None => Ok(Role::Alone),
            },
        }
    }

    /// Whether an MPI launcher started this process as one of several and nobody said otherwise.
    fn is_up_to_mpi(&self) -> bool {
        let own = [variables::RANK, variables::WORLD, variables::RENDEZVOUS];
        let is_said = self.refuse_place().is_err() || own.iter().any(|name| variable(name).is_some());
        let sizes = ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE"];
        let several = |name: &&str| variable(name).is_some_and(|size| size != "1");
        !is_said && (sizes.iter().any(several) || variable("PMIX_RANK").is_some())
    }

    #[cfg(not(feature = "mpi"))]
    fn through_mpi(&self) -> Result<Role, CliError> {
        Err(CliError::Environment(NO_MPI.to_string()))
    }

    /// Lets the processes that MPI knows of tell each other where to meet.
    #[cfg(feature = "mpi")]
    fn through_mpi(&self) -> Result<Role, CliError> {
        use engine::launch::mpi::{RendezvousInfo, World};

        let failed = |problem: String| CliError::Environment(problem);
        let waiting = Watchdog::start(self.join_deadline());
        let world = World::start(&variable).map_err(|error| failed(error.to_string()))?;
        let size = world.size();
        if size == 1 {
            world.leave(true);
            return Ok(Role::Alone);
        }
        let identity = host::identity();
        let hosts = world.gather(&host::here().name);
        let places = world.gather(&format!("{} {}", identity.machine, identity.network));
        let named = self.management();
        if world.rank() != 0 {
            let invitation = world.broadcast_rendezvous(None);
            drop(waiting);
            let invitation =
                invitation.ok_or_else(|| failed("rank 0 cannot open a place to meet".to_string()))?;
            return Ok(Role::Follows(Box::new(Follow {
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
        let open = || -> Result<(Lead, RendezvousInfo), CliError> {
            let token = Token::generate().map_err(CliError::system("cannot make the run's token"))?;
            let named = named?;
            let address = match (named, is_one_host) {
                (Some(named), _) => named,
                (None, true) => IpAddr::V4(std::net::Ipv4Addr::LOCALHOST),
                (None, false) => management_here().map_err(|error| failed(error.to_string()))?,
            };
            let door = Rendezvous::listen(address, size, token)?.with_hosts(Some(hosts));
            let address = door
                .address()
                .map_err(CliError::system("the rendezvous has no address"))?;
            let lead = Lead::open(door, token, named, World::library())?;
            Ok((lead, RendezvousInfo { address, token }))
        };
        // The others wait for an answer, whatever it is.
        let opened = open();
        world.broadcast_rendezvous(opened.as_ref().ok().map(|(_, invitation)| invitation));
        drop(waiting);
        let (mut lead, _) = opened?;
        lead.mpi = Some(world);
        Ok(Role::Leads(Box::new(lead)))
    }

    /// With MPI nobody comes back.
    fn refuse_rejoin(&self) -> Result<(), CliError> {
        match self.rejoin {
            Some(_) => Err(CliError::Usage(
                "--rejoin has no meaning with MPI: where to meet and the token are told once, when MPI starts, and an MPI launcher \
                 ends all processes when one is lost; use --launch env, with a meeting place and a token that stay the same"
                    .to_string(),
            )),
            None => Ok(()),
        }
    }

    /// What was said about ranks elsewhere has no meaning for ranks of this machine.
    fn refuse_place(&self) -> Result<(), CliError> {
        let typed = [
            ("--rank", self.rank.is_some()),
            ("--world", self.world.is_some()),
            ("--rendezvous", self.rendezvous.is_some()),
            ("--hosts", self.hosts.is_some()),
        ];
        match typed.iter().find(|(_, is_typed)| *is_typed) {
            Some((flag, _)) => Err(CliError::Usage(format!(
                "{flag} says where this process stands among others; --launch local has no others"
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
        let held = rails::addresses_here().unwrap_or_default();
        let here = LocalHost {
            name: host::here().name,
            addresses: held.into_iter().filter_map(|entry| entry.address).collect(),
        };
        let place = env::rank_assignment(&typed, &here, &variable)?;
        if place.is_none() && self.rendezvous.is_some() {
            return Err(RankAssignmentError::Unknown.into());
        }
        Ok(place)
    }

    fn take(&self, place: RankAssignment) -> Result<Role, CliError> {
        let token = token_source::find(self.token_file.as_deref(), &variable)?;
        let management = self.management()?;
        if place.rank != 0 {
            return Ok(Role::Follows(Box::new(Follow {
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
        let door = Rendezvous::listen_at(&place.rendezvous, place.world, token)?.with_hosts(place.hosts);
        let source = place.source;
        Lead::open(door, token, management, source).map(|lead| Role::Leads(Box::new(lead)))
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

/// Ends the process when MPI does not bring its ranks together in time: a wait inside MPI has no deadline of its own.
#[cfg(feature = "mpi")]
struct Watchdog {
    /// Dropping it tells the thread that all is well.
    _alive: std::sync::mpsc::Sender<()>,
}

#[cfg(feature = "mpi")]
impl Watchdog {
    fn start(patience: Duration) -> Watchdog {
        let (alive, dropped) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            if dropped.recv_timeout(patience) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
                let seconds = patience.as_secs();
                eprintln!(
                    "railgauge: MPI did not bring the ranks together within {seconds} s; see what the others say"
                );
                std::process::exit(21);
            }
        });
        Watchdog { _alive: alive }
    }
}

impl Lead {
    fn open(
        door: Rendezvous,
        token: Token,
        management: Option<IpAddr>,
        source: String,
    ) -> Result<Lead, CliError> {
        let address = door
            .address()
            .map_err(CliError::system("the rendezvous has no address"))?;
        let member = door.join_local(0);
        let member = member.ok_or_else(|| CliError::Environment("rank 0 is taken".to_string()))?;
        Ok(Lead {
            door,
            member,
            token,
            management: management.unwrap_or(address.ip()),
            source,
            mpi: None,
        })
    }

    fn settle(&self, suite: &mut Suite, flags: &Shared) -> Result<(), CliError> {
        let world = self.door.world();
        for (flag, is_typed) in [("--ranks", flags.ranks.is_some()), ("--procs", flags.procs)] {
            if is_typed {
                return Err(CliError::Usage(format!(
                    "{flag} starts ranks on this machine; here every process is one of {world} ranks already"
                )));
            }
        }
        suite.run.ranks = Some(world);
        suite.run.procs = Some(true);
        let stands_in = |rails: &Vec<String>| rails.iter().all(|rail| rail.contains("=127."));
        if flags.rails.is_none() && !self.management.is_loopback() {
            // A suite's loopback rails stand in for real ones on a single machine; other hosts cannot be reached there.
            suite.run.rails = suite.run.rails.take().filter(|rails| !stands_in(rails));
        }
        Ok(())
    }
}

fn variable(name: &str) -> Option<String> {
    // An empty variable is how shells and job files say "not set".
    std::env::var(name).ok().filter(|value| !value.trim().is_empty())
}

/// What is said where the binary has no MPI.
#[cfg(not(feature = "mpi"))]
const NO_MPI: &str = "this binary was built without MPI. Install an MPI and libclang (Debian: libopenmpi-dev openmpi-bin \
libclang-dev) and build with: cargo build --release --features mpi. Or use --launch env, which needs no MPI";
