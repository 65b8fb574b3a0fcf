//! Rank, world size and rendezvous of a process that a scheduler or an operator started, from flags and variables.
//!
//! Flags win over railgauge's own variables, and both win over the schedulers' (torchrun, Slurm, Open MPI, PMI). All schedulers'
//! variables that are set must agree: two launchers that count differently would split one world into several unnoticed. A
//! source that is incomplete or malformed is an error that names the variable.
//!
//! Everything but [`local_rank`] is a pure function of the flags and of a lookup.

use super::hosts::{HostsFile, LocalHost};
use super::rendezvous_address::{DEFAULT_PORT, PartialAddress, RendezvousAddress};
use super::{MOST_RANKS, variables};
use topology::nodelist;

/// First port of the range that Slurm's job and step numbers are mapped into.
pub const SLURM_FIRST_PORT: u16 = 24_000;
/// Ports in that range, which ends below the kernel's own (32768).
pub const SLURM_PORTS: u64 = 8_000;

/// Looks up an environment variable.
pub type EnvLookup<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Flags that say which rank this process is.
#[derive(Debug, Clone, Default)]
pub struct RankFlags {
    /// `--rank`.
    pub rank: Option<u32>,
    /// `--world`.
    pub world: Option<u32>,
    /// `--rendezvous`, as given.
    pub rendezvous: Option<String>,
    /// The file of `--hosts`.
    pub hosts: Option<HostsFile>,
}

/// Which rank of which world a process is, and where ranks meet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RankAssignment {
    /// This process's rank.
    pub rank: u32,
    /// Ranks in the run.
    pub world: u32,
    /// Where ranks join.
    pub rendezvous: RendezvousAddress,
    /// The host of every rank, where it is known.
    pub hosts: Option<Vec<String>>,
    /// Where rank and world came from, for messages.
    pub source: String,
}

/// The rank of this process cannot be determined.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RankAssignmentError {
    /// A variable or flag is malformed.
    #[error("{variable} is malformed: {problem}")]
    Malformed {
        /// Which.
        variable: String,
        /// What is wrong with it.
        problem: String,
    },
    /// One of a pair is missing.
    #[error("{present} is set but {missing} is not: a rank needs both")]
    Incomplete {
        /// The one that is set.
        present: String,
        /// The one that is not.
        missing: String,
    },
    /// The rank or the world size is out of range.
    #[error(
        "{source_words} say rank {rank} of {world}: ranks go from 0 to world size - 1, and a world has at most {MOST_RANKS}"
    )]
    OutOfRange {
        /// Where they come from.
        source_words: String,
        /// Rank.
        rank: u32,
        /// World.
        world: u32,
    },
    /// Two launchers count differently.
    #[error(
        "{first} and {second} disagree: this may be several separate worlds instead of one. Start it with one launcher \
only, or say which counts with RAILGAUGE_RANK and RAILGAUGE_WORLD (or --rank and --world)"
    )]
    Disagree {
        /// `torchrun (RANK=1, WORLD_SIZE=4)`.
        first: String,
        /// The other.
        second: String,
    },
    /// Nothing says where ranks join.
    #[error(
        "{source_words} do not say where rank 0 listens: set RAILGAUGE_RENDEZVOUS=HOST:PORT or --rendezvous HOST:PORT, HOST \
being the machine of rank 0{}",
        if cfg!(feature = "mpi") { "; or use --launch mpi" } else { "" }
    )]
    NoRendezvous {
        /// Where rank and world come from.
        source_words: String,
    },
    /// Nothing says which rank this process is.
    #[error(
        "--launch env needs the rank of this process: set RAILGAUGE_RANK, RAILGAUGE_WORLD and RAILGAUGE_RENDEZVOUS (or \
--rank, --world and --rendezvous, or --hosts), or start it with srun, torchrun or mpirun"
    )]
    Unknown,
}

/// Rank and world according to one source.
#[derive(Debug, Clone)]
struct RankClaim {
    rank: u32,
    world: u32,
    source: &'static str,
    /// The variables with their values.
    evidence: String,
}

/// This process's rank and world; none when nothing says that there is more than this process.
pub fn rank_assignment(
    flags: &RankFlags,
    here: &LocalHost,
    look: EnvLookup<'_>,
) -> Result<Option<RankAssignment>, RankAssignmentError> {
    let claim = match operator_claim(flags, here, look)? {
        Some(claim) => claim,
        None => match scheduler_claim(look)? {
            // A scheduler that starts one process says nothing about ranks.
            Some(claim) if claim.world > 1 => claim,
            _ => return Ok(None),
        },
    };
    if claim.rank >= claim.world || claim.world > MOST_RANKS {
        return Err(RankAssignmentError::OutOfRange {
            source_words: claim.source.to_string(),
            rank: claim.rank,
            world: claim.world,
        });
    }
    let hosts = match &flags.hosts {
        Some(file) => Some(file.by_rank()),
        None => slurm_hosts(look)?,
    };
    Ok(Some(RankAssignment {
        rank: claim.rank,
        world: claim.world,
        rendezvous: rendezvous(flags, look, claim.source)?,
        hosts: hosts.filter(|hosts| hosts.len() == claim.world as usize),
        source: claim.source.to_string(),
    }))
}

/// From flags, the hosts file and railgauge's own variables.
fn operator_claim(
    flags: &RankFlags,
    here: &LocalHost,
    look: EnvLookup<'_>,
) -> Result<Option<RankClaim>, RankAssignmentError> {
    let rank_var = number(look, variables::RANK)?;
    let world_var = number(look, variables::WORLD)?;
    let file_world = flags.hosts.as_ref().map(HostsFile::world);
    let world = flags.world.or(file_world).or(world_var);
    let mut rank = flags.rank.or(rank_var);
    if let (Some(file), None) = (&flags.hosts, rank) {
        let found = file.rank_of(here);
        rank = Some(found.map_err(|problem| malformed("--hosts", problem))?);
    }
    if let (Some(world), Some(counted)) = (flags.world, file_world)
        && world != counted
    {
        let problem = format!("--world says {world}, the hosts file has {counted} slots");
        return Err(malformed("--hosts", problem));
    }
    let by_flag = flags.rank.is_some() || flags.world.is_some();
    match (rank, world) {
        (None, None) => Ok(None),
        (Some(rank), Some(world)) => Ok(Some(RankClaim {
            rank,
            world,
            source: match (&flags.hosts, by_flag) {
                (Some(_), _) => "the hosts file",
                (None, true) => "--rank and --world",
                (None, false) => "railgauge's variables",
            },
            evidence: String::new(),
        })),
        (Some(_), None) => Err(incomplete(
            if flags.rank.is_some() {
                "--rank"
            } else {
                variables::RANK
            },
            "RAILGAUGE_WORLD (or --world)",
        )),
        (None, Some(_)) => Err(incomplete(
            if flags.world.is_some() {
                "--world"
            } else {
                variables::WORLD
            },
            "RAILGAUGE_RANK (or --rank)",
        )),
    }
}

/// From the schedulers' variables, which must agree.
fn scheduler_claim(look: EnvLookup<'_>) -> Result<Option<RankClaim>, RankAssignmentError> {
    let torchrun = claim_of(look, "torchrun's variables", "RANK", &["WORLD_SIZE"])?;
    let slurm = match look("SLURM_PROCID") {
        // SLURM_NTASKS alone is set in every shell of an allocation.
        Some(_) => claim_of(
            look,
            "Slurm variables",
            "SLURM_PROCID",
            &["SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"],
        )?,
        None => None,
    };
    let open_mpi = claim_of(
        look,
        "Open MPI's variables",
        "OMPI_COMM_WORLD_RANK",
        &["OMPI_COMM_WORLD_SIZE"],
    )?;
    let pmi = claim_of(look, "PMI variables", "PMI_RANK", &["PMI_SIZE"])?;
    let slurm = match (&torchrun, slurm) {
        // srun started torchrun, which started this: Slurm's tasks are torchrun's agents.
        (Some(_), Some(slurm)) if number(look, "GROUP_WORLD_SIZE")? == Some(slurm.world) => None,
        (_, slurm) => slurm,
    };
    let mut all = [torchrun, slurm, open_mpi, pmi].into_iter().flatten();
    let Some(first) = all.next() else { return Ok(None) };
    match all.find(|other| (other.rank, other.world) != (first.rank, first.world)) {
        Some(other) => Err(RankAssignmentError::Disagree {
            first: format!("{} ({})", first.source, first.evidence),
            second: format!("{} ({})", other.source, other.evidence),
        }),
        None => Ok(Some(first)),
    }
}

/// The largest world size among the schedulers' variables, with the variable; whatever else is wrong with them.
pub fn largest_scheduler_world(look: EnvLookup<'_>) -> Option<(u32, String)> {
    let names = [
        "OMPI_COMM_WORLD_SIZE",
        "PMI_SIZE",
        "SLURM_STEP_NUM_TASKS",
        "WORLD_SIZE",
    ];
    let worlds = names.iter().filter_map(|name| {
        let world: u32 = look(name)?.trim().parse().ok()?;
        Some((world, format!("{name}={world}")))
    });
    worlds.max_by_key(|(world, _)| *world)
}

fn rendezvous(
    flags: &RankFlags,
    look: EnvLookup<'_>,
    source: &str,
) -> Result<RendezvousAddress, RankAssignmentError> {
    let read = |name: &str, text: Option<String>| match text {
        Some(text) => PartialAddress::parse(&text).map_err(|bad| malformed(name, bad.to_string())),
        None => Ok(PartialAddress::default()),
    };
    let flag = read("--rendezvous", flags.rendezvous.clone())?;
    let variable = read(variables::RENDEZVOUS, look(variables::RENDEZVOUS))?;
    let file = PartialAddress {
        host: flags.hosts.as_ref().map(|file| file.first().to_string()),
        port: None,
    };
    let mut address = flag.or(variable).or(file);
    if address.host.is_none() {
        address = address.or(match torchrun_rendezvous(look)? {
            Some(address) => address,
            None => slurm_rendezvous(look)?,
        });
    }
    match address.host {
        Some(host) => Ok(RendezvousAddress {
            host,
            port: address.port.unwrap_or(DEFAULT_PORT),
        }),
        None => Err(RankAssignmentError::NoRendezvous {
            source_words: source.to_string(),
        }),
    }
}

fn torchrun_rendezvous(look: EnvLookup<'_>) -> Result<Option<PartialAddress>, RankAssignmentError> {
    let Some(host) = look("MASTER_ADDR") else {
        return Ok(None);
    };
    topology::nodelist::check_host(&host).map_err(|problem| malformed("MASTER_ADDR", problem.to_string()))?;
    let port = number(look, "MASTER_PORT")?.ok_or_else(|| incomplete("MASTER_ADDR", "MASTER_PORT"))?;
    // torchrun's own agent listens on MASTER_PORT.
    let taken = look("TORCHELASTIC_USE_AGENT_STORE").is_some_and(|value| value.eq_ignore_ascii_case("true"));
    let port = u16::try_from(port)
        .ok()
        .and_then(|port| port.checked_add(u16::from(taken)));
    let port = port.filter(|port| *port > 0);
    let problem = || malformed("MASTER_PORT", "not a free port from 1 to 65535".to_string());
    Ok(Some(PartialAddress {
        host: Some(host),
        port: Some(port.ok_or_else(problem)?),
    }))
}

fn slurm_nodelist(look: EnvLookup<'_>) -> Result<Option<Vec<String>>, RankAssignmentError> {
    let name = ["SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST"]
        .into_iter()
        .find(|name| look(name).is_some());
    let Some((name, text)) = name.and_then(|name| Some((name, look(name)?))) else {
        return Ok(None);
    };
    let hosts = nodelist::hosts(&text).map_err(|problem| malformed(name, problem))?;
    Ok(Some(hosts))
}

fn slurm_rendezvous(look: EnvLookup<'_>) -> Result<PartialAddress, RankAssignmentError> {
    if look("SLURM_PROCID").is_none() {
        return Ok(PartialAddress::default());
    }
    let host = slurm_nodelist(look)?.and_then(|hosts| hosts.into_iter().next());
    let job = number(look, "SLURM_JOB_ID")?;
    let step = number(look, "SLURM_STEP_ID")?.unwrap_or(0);
    let port = job.map(|job| slurm_port(job, step));
    Ok(PartialAddress { host, port })
}

/// The port of a Slurm step: 24000 + (8 x job + step) mod 8000, so that steps and jobs on one host rarely share a port.
pub fn slurm_port(job: u32, step: u32) -> u16 {
    let offset = (u64::from(job) * 8 + u64::from(step)) % SLURM_PORTS;
    SLURM_FIRST_PORT + offset as u16
}

/// The host of every rank of a Slurm step, as long as ranks are laid out host by host.
fn slurm_hosts(look: EnvLookup<'_>) -> Result<Option<Vec<String>>, RankAssignmentError> {
    let names = ["SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"];
    let counts = names.into_iter().find_map(|name| Some((name, look(name)?)));
    let in_blocks = look("SLURM_DISTRIBUTION").is_none_or(|way| way.starts_with("block"));
    let (Some((name, text)), true, true) = (counts, in_blocks, look("SLURM_PROCID").is_some()) else {
        return Ok(None);
    };
    let Some(hosts) = slurm_nodelist(look)? else {
        return Ok(None);
    };
    let counts = nodelist::counts(&text).map_err(|problem| malformed(name, problem))?;
    if counts.len() != hosts.len()
        || counts.iter().map(|count| u64::from(*count)).sum::<u64>() > MOST_RANKS.into()
    {
        return Ok(None);
    }
    let of_host = hosts.into_iter().zip(counts);
    Ok(Some(
        of_host
            .flat_map(|(host, count)| std::iter::repeat_n(host, count as usize))
            .collect(),
    ))
}

/// Rank and world of one scheduler: both or neither. Of several variables for the world the first that is set counts.
fn claim_of(
    look: EnvLookup<'_>,
    source: &'static str,
    rank: &str,
    worlds: &[&str],
) -> Result<Option<RankClaim>, RankAssignmentError> {
    let world = worlds.iter().copied().find(|name| look(name).is_some());
    let world_name = world.unwrap_or(worlds[worlds.len() - 1]);
    match (number(look, rank)?, number(look, world_name)?) {
        (None, None) => Ok(None),
        (Some(_), None) => Err(incomplete(rank, world_name)),
        (None, Some(_)) => Err(incomplete(world_name, rank)),
        (Some(this), Some(world)) => Ok(Some(RankClaim {
            rank: this,
            world,
            source,
            evidence: format!("{rank}={this}, {world_name}={world}"),
        })),
    }
}

fn number(look: EnvLookup<'_>, name: &str) -> Result<Option<u32>, RankAssignmentError> {
    let Some(text) = look(name) else { return Ok(None) };
    let text = text.trim();
    let shown: String = text.chars().take(40).collect();
    let only_digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match text.parse() {
        Ok(number) if only_digits => Ok(Some(number)),
        _ => Err(malformed(name, format!("`{shown}` is not a whole number"))),
    }
}

fn malformed(variable: &str, problem: String) -> RankAssignmentError {
    RankAssignmentError::Malformed {
        variable: variable.to_string(),
        problem,
    }
}

fn incomplete(present: &str, missing: &str) -> RankAssignmentError {
    RankAssignmentError::Incomplete {
        present: present.to_string(),
        missing: missing.to_string(),
    }
}

/// Variables that hold a local rank: Open MPI, MPICH and Intel MPI, Slurm, torchrun.
const LOCAL_RANK_VARIABLES: [&str; 5] = [
    "OMPI_COMM_WORLD_LOCAL_RANK",
    "MPI_LOCALRANKID",
    "PMI_LOCAL_RANK",
    "SLURM_LOCALID",
    "LOCAL_RANK",
];

/// This process's rank among those of its host, where its launcher says so.
pub fn local_rank() -> Option<u32> {
    first_local_rank(|name| std::env::var(name).ok())
}

fn first_local_rank(look: impl Fn(&str) -> Option<String>) -> Option<u32> {
    LOCAL_RANK_VARIABLES
        .iter()
        .find_map(|name| look(name)?.trim().parse().ok())
}

#[cfg(test)]
#[path = "env_tests.rs"]
mod tests;
