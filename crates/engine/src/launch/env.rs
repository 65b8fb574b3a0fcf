//! Who this process is in a run that somebody else starts: rank, world and meeting place from flags and variables.
//!
//! What was typed is strongest, then railgauge's own variables; they win in silence. Of the schedulers' variables (torchrun,
//! Slurm, Open MPI, PMI) all that are there must agree: two launchers that count differently are how one world falls apart
//! into several without anybody noticing. A source that is half there or unreadable is an error that names the variable.
//!
//! Everything here is a pure function of the flags and of a lookup.

use super::hosts::{Here, HostsFile};
use super::meeting::{DEFAULT_PORT, Halves, Meeting};
use super::{MOST_RANKS, variables};
use topology::nodelist;

/// First port of the range that Slurm's job and step numbers are mapped into.
pub const SLURM_FIRST_PORT: u16 = 24_000;
/// Ports in that range, which ends below the kernel's own (32768).
pub const SLURM_PORTS: u64 = 8_000;

/// Looks a variable up.
pub type Look<'a> = &'a dyn Fn(&str) -> Option<String>;

/// What was typed.
#[derive(Debug, Clone, Default)]
pub struct Typed {
    /// `--rank`.
    pub rank: Option<u32>,
    /// `--world`.
    pub world: Option<u32>,
    /// `--rendezvous`, as typed.
    pub rendezvous: Option<String>,
    /// `--hosts`, read.
    pub hosts: Option<HostsFile>,
}

/// One process's place in a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// This process's rank.
    pub rank: u32,
    /// Ranks in the run.
    pub world: u32,
    /// Where ranks meet.
    pub rendezvous: Meeting,
    /// The host of every rank, where it is known.
    pub hosts: Option<Vec<String>>,
    /// Whose variables said so, in words.
    pub source: String,
}

/// A process cannot know its place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlaceError {
    /// A variable or flag is unreadable.
    #[error("{variable} is malformed: {problem}")]
    Malformed {
        /// Which.
        variable: String,
        /// What is wrong with it.
        problem: String,
    },
    /// One of a pair is missing.
    #[error("{present} is set but {missing} is not: a rank needs both")]
    Half {
        /// What is there.
        present: String,
        /// What is not.
        missing: String,
    },
    /// The rank is not one of the world.
    #[error("{source_words} say rank {rank} of {world}: ranks are counted from 0")]
    Outside {
        /// Who said so.
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
    /// Nobody says where to meet.
    #[error(
        "{source_words} do not say where ranks meet: set RAILGAUGE_RENDEZVOUS=HOST:PORT or --rendezvous HOST:PORT, HOST \
being the machine of rank 0{}",
        if cfg!(feature = "mpi") { "; or use --launch mpi" } else { "" }
    )]
    NoRendezvous {
        /// Who said rank and world.
        source_words: String,
    },
    /// Nothing says who this process is.
    #[error(
        "--launch env needs to know who this process is: set RAILGAUGE_RANK, RAILGAUGE_WORLD and RAILGAUGE_RENDEZVOUS (or \
--rank, --world and --rendezvous, or --hosts), or start it with srun, torchrun or mpirun"
    )]
    Nobody,
}

/// Rank and world as one source says them.
#[derive(Debug, Clone)]
struct Said {
    rank: u32,
    world: u32,
    source: &'static str,
    /// The variables with their values.
    evidence: String,
}

/// This process's place; none when nothing says that there is more than this process.
pub fn place(typed: &Typed, here: &Here, look: Look<'_>) -> Result<Option<Place>, PlaceError> {
    let own = own(typed, here, look)?;
    let said = match own {
        Some(own) => own,
        None => match schedulers(look)? {
            // A scheduler that starts one process says nothing about ranks.
            Some(said) if said.world > 1 => said,
            _ => return Ok(None),
        },
    };
    if said.rank >= said.world || said.world > MOST_RANKS {
        return Err(PlaceError::Outside {
            source_words: said.source.to_string(),
            rank: said.rank,
            world: said.world,
        });
    }
    let hosts = match &typed.hosts {
        Some(file) => Some(file.by_rank()),
        None => slurm_hosts(look)?,
    };
    Ok(Some(Place {
        rank: said.rank,
        world: said.world,
        rendezvous: rendezvous(typed, look, said.source)?,
        hosts: hosts.filter(|hosts| hosts.len() == said.world as usize),
        source: said.source.to_string(),
    }))
}

/// What the operator said: flags, the hosts file, railgauge's own variables.
fn own(typed: &Typed, here: &Here, look: Look<'_>) -> Result<Option<Said>, PlaceError> {
    let rank_var = number(look, variables::RANK)?;
    let world_var = number(look, variables::WORLD)?;
    let file_world = typed.hosts.as_ref().map(HostsFile::world);
    let world = typed.world.or(file_world).or(world_var);
    let mut rank = typed.rank.or(rank_var);
    if let (Some(file), None) = (&typed.hosts, rank) {
        let found = file.rank_of(here);
        rank = Some(found.map_err(|problem| malformed("--hosts", problem))?);
    }
    if let (Some(world), Some(counted)) = (typed.world, file_world)
        && world != counted
    {
        let problem = format!("--world says {world}, the hosts file has {counted} slots");
        return Err(malformed("--hosts", problem));
    }
    let by_flag = typed.rank.is_some() || typed.world.is_some();
    match (rank, world) {
        (None, None) => Ok(None),
        (Some(rank), Some(world)) => Ok(Some(Said {
            rank,
            world,
            source: match (&typed.hosts, by_flag) {
                (Some(_), _) => "the hosts file",
                (None, true) => "--rank and --world",
                (None, false) => "railgauge's variables",
            },
            evidence: String::new(),
        })),
        (Some(_), None) => Err(half(
            if typed.rank.is_some() {
                "--rank"
            } else {
                variables::RANK
            },
            "RAILGAUGE_WORLD (or --world)",
        )),
        (None, Some(_)) => Err(half(
            if typed.world.is_some() {
                "--world"
            } else {
                variables::WORLD
            },
            "RAILGAUGE_RANK (or --rank)",
        )),
    }
}

/// What the schedulers' variables say, if they agree.
fn schedulers(look: Look<'_>) -> Result<Option<Said>, PlaceError> {
    let torchrun = pair(look, "torchrun's variables", "RANK", &["WORLD_SIZE"])?;
    let slurm = match look("SLURM_PROCID") {
        // SLURM_NTASKS alone is set in every shell of an allocation.
        Some(_) => pair(
            look,
            "Slurm variables",
            "SLURM_PROCID",
            &["SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"],
        )?,
        None => None,
    };
    let open_mpi = pair(
        look,
        "Open MPI's variables",
        "OMPI_COMM_WORLD_RANK",
        &["OMPI_COMM_WORLD_SIZE"],
    )?;
    let pmi = pair(look, "PMI variables", "PMI_RANK", &["PMI_SIZE"])?;
    let slurm = match (&torchrun, slurm) {
        // srun started torchrun, which started this: Slurm's tasks are torchrun's agents.
        (Some(_), Some(slurm)) if number(look, "GROUP_WORLD_SIZE")? == Some(slurm.world) => None,
        (_, slurm) => slurm,
    };
    let mut all = [torchrun, slurm, open_mpi, pmi].into_iter().flatten();
    let Some(first) = all.next() else { return Ok(None) };
    match all.find(|other| (other.rank, other.world) != (first.rank, first.world)) {
        Some(other) => Err(PlaceError::Disagree {
            first: format!("{} ({})", first.source, first.evidence),
            second: format!("{} ({})", other.source, other.evidence),
        }),
        None => Ok(Some(first)),
    }
}

/// How many ranks the schedulers' variables speak of at most, and which says so; whatever else is wrong with them.
pub fn most_ranks_said(look: Look<'_>) -> Option<(u32, String)> {
    let names = [
        "OMPI_COMM_WORLD_SIZE",
        "PMI_SIZE",
        "SLURM_STEP_NUM_TASKS",
        "WORLD_SIZE",
    ];
    let said = names.iter().filter_map(|name| {
        let world: u32 = look(name)?.trim().parse().ok()?;
        Some((world, format!("{name}={world}")))
    });
    said.max_by_key(|(world, _)| *world)
}

fn rendezvous(typed: &Typed, look: Look<'_>, source: &str) -> Result<Meeting, PlaceError> {
    let read = |name: &str, text: Option<String>| match text {
        Some(text) => Halves::parse(&text).map_err(|bad| malformed(name, bad.to_string())),
        None => Ok(Halves::default()),
    };
    let flag = read("--rendezvous", typed.rendezvous.clone())?;
    let variable = read(variables::RENDEZVOUS, look(variables::RENDEZVOUS))?;
    let file = Halves {
        host: typed.hosts.as_ref().map(|file| file.first().to_string()),
        port: None,
    };
    let mut halves = flag.or(variable).or(file);
    if halves.host.is_none() {
        halves = halves.or(match torchrun_meeting(look)? {
            Some(meeting) => meeting,
            None => slurm_meeting(look)?,
        });
    }
    match halves.host {
        Some(host) => Ok(Meeting {
            host,
            port: halves.port.unwrap_or(DEFAULT_PORT),
        }),
        None => Err(PlaceError::NoRendezvous {
            source_words: source.to_string(),
        }),
    }
}

fn torchrun_meeting(look: Look<'_>) -> Result<Option<Halves>, PlaceError> {
    let Some(host) = look("MASTER_ADDR") else {
        return Ok(None);
    };
    topology::nodelist::check_host(&host).map_err(|problem| malformed("MASTER_ADDR", problem.to_string()))?;
    let port = number(look, "MASTER_PORT")?.ok_or_else(|| half("MASTER_ADDR", "MASTER_PORT"))?;
    // torchrun's own agent listens on MASTER_PORT.
    let taken = look("TORCHELASTIC_USE_AGENT_STORE").is_some_and(|value| value.eq_ignore_ascii_case("true"));
    let port = u16::try_from(port)
        .ok()
        .and_then(|port| port.checked_add(u16::from(taken)));
    let port = port.filter(|port| *port > 0);
    let problem = || malformed("MASTER_PORT", "it is no port that is free to use".to_string());
    Ok(Some(Halves {
        host: Some(host),
        port: Some(port.ok_or_else(problem)?),
    }))
}

fn slurm_nodelist(look: Look<'_>) -> Result<Option<Vec<String>>, PlaceError> {
    let name = ["SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST"]
        .into_iter()
        .find(|name| look(name).is_some());
    let Some((name, text)) = name.and_then(|name| Some((name, look(name)?))) else {
        return Ok(None);
    };
    let hosts = nodelist::hosts(&text).map_err(|problem| malformed(name, problem))?;
    Ok(Some(hosts))
}

fn slurm_meeting(look: Look<'_>) -> Result<Halves, PlaceError> {
    if look("SLURM_PROCID").is_none() {
        return Ok(Halves::default());
    }
    let host = slurm_nodelist(look)?.and_then(|hosts| hosts.into_iter().next());
    let job = number(look, "SLURM_JOB_ID")?;
    let step = number(look, "SLURM_STEP_ID")?.unwrap_or(0);
    let port = job.map(|job| slurm_port(job, step));
    Ok(Halves { host, port })
}

/// The port of a Slurm step: 24000 + (8 x job + step) mod 8000, so that the steps and jobs of one host rarely meet.
pub fn slurm_port(job: u32, step: u32) -> u16 {
    let offset = (u64::from(job) * 8 + u64::from(step)) % SLURM_PORTS;
    SLURM_FIRST_PORT + offset as u16
}

/// The host of every rank of a Slurm step, as long as ranks are laid out host by host.
fn slurm_hosts(look: Look<'_>) -> Result<Option<Vec<String>>, PlaceError> {
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

/// Rank and world of one scheduler: both or neither. Of several names for the world the first that is set counts.
fn pair(
    look: Look<'_>,
    source: &'static str,
    rank: &str,
    worlds: &[&str],
) -> Result<Option<Said>, PlaceError> {
    let world = worlds.iter().copied().find(|name| look(name).is_some());
    let world_name = world.unwrap_or(worlds[worlds.len() - 1]);
    match (number(look, rank)?, number(look, world_name)?) {
        (None, None) => Ok(None),
        (Some(_), None) => Err(half(rank, world_name)),
        (None, Some(_)) => Err(half(world_name, rank)),
        (Some(this), Some(world)) => Ok(Some(Said {
            rank: this,
            world,
            source,
            evidence: format!("{rank}={this}, {world_name}={world}"),
        })),
    }
}

fn number(look: Look<'_>, name: &str) -> Result<Option<u32>, PlaceError> {
    let Some(text) = look(name) else { return Ok(None) };
    let text = text.trim();
    let shown: String = text.chars().take(40).collect();
    let only_digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match text.parse() {
        Ok(number) if only_digits => Ok(Some(number)),
        _ => Err(malformed(name, format!("`{shown}` is not a whole number"))),
    }
}

fn malformed(variable: &str, problem: String) -> PlaceError {
    PlaceError::Malformed {
        variable: variable.to_string(),
        problem,
    }
}

fn half(present: &str, missing: &str) -> PlaceError {
    PlaceError::Half {
        present: present.to_string(),
        missing: missing.to_string(),
    }
}

#[cfg(test)]
#[path = "env_tests.rs"]
mod tests;
