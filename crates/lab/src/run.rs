//! `lab run`: one railgauge command on every lab host.
//!
//! With `env` each rank is started here, with its rank in its environment; with `mpi` mpirun starts them, from inside h0.
//! Every process carries a mark in its environment, by which whatever is left at the end is found and ended.

use std::ffi::OsString;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;

use super::rank_processes::{RankProcess, RankProcesses};
use super::wiring::management_address;
use super::{Lab, LabError, Node, apply, mpi, tools};

/// The variables of `--launch env`.
const RANK: &str = "RAILGAUGE_RANK";
const WORLD: &str = "RAILGAUGE_WORLD";
const RENDEZVOUS: &str = "RAILGAUGE_RENDEZVOUS";
const TOKEN: &str = "RAILGAUGE_TOKEN";
/// What a measuring command is told besides.
const TOPOLOGY: &str = "RAILGAUGE_TOPOLOGY";
const SWITCH_COUNTERS: &str = "RAILGAUGE_SWITCH_COUNTERS";
const SWITCH_INVENTORY: &str = "RAILGAUGE_SWITCH_INVENTORY";
const STARTED_AS: &str = "RAILGAUGE_STARTED_AS";
/// The mark of a run's processes.
const MARK: &str = "RAILGAUGE_LAB_RUN";
/// Most ranks on one host.
const MOST_PER_HOST: u32 = 64;

/// How ranks are started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::Display, strum::EnumString, clap::ValueEnum)]
#[strum(serialize_all = "kebab-case")]
pub enum Launch {
    /// Each with its place in its environment.
    Env,
    /// By mpirun.
    Mpi,
}

/// What to run on the hosts.
#[derive(Debug, Clone)]
pub struct Run {
    /// How ranks are started.
    pub launch: Launch,
    /// Ranks on each host.
    pub per_host: u32,
    /// So long after a process other than the first rank's died, it is started again; never when none.
    pub respawn: Option<Duration>,
    /// Another program than this one, which gets the arguments as they are.
    pub program: Option<PathBuf>,
    /// Arguments of the command.
    pub arguments: Vec<OsString>,
    /// Whether this program was built with MPI, so that mpirun can start it.
    pub built_with_mpi: bool,
}

/// Runs a command on every host of a lab; the code it ended with.
pub fn run(lab: &Lab, run: &Run) -> Result<u8, LabError> {
    tools::be_root()?;
    if !(1..=MOST_PER_HOST).contains(&run.per_host) {
        return Err(LabError::CannotRun(format!(
            "{} ranks per host: use 1 to {MOST_PER_HOST}",
            run.per_host
        )));
    }
    if lab.wiring.shape.guests.is_some() && run.launch == Launch::Mpi {
        return Err(LabError::CannotRun(
            "mpirun on a host with a kernel of its own cannot reach the other hosts; use --launch env"
                .to_string(),
        ));
    }
    if run.respawn.is_some() && run.launch == Launch::Mpi {
        return Err(LabError::CannotRun(
            "mpirun ends all processes when one dies, so none can be started again; use --launch env"
                .to_string(),
        ));
    }
    let this = std::env::current_exe().map_err(LabError::system("cannot find this program"))?;
    let words = command(run, &this);
    let mark = format!("{MARK}={}", random_hex(8)?);
    let processes = match run.launch {
        Launch::Env => start_by_environment(lab, run, &this, &words, &mark)?,
        Launch::Mpi => {
            let mpirun = mpi::command(lab, run, &this, &words)?;
            let mut command = on_host(lab, &this, 0, &mpirun, &mark);
            let child = command
                .envs(surroundings(lab, run))
                .spawn()
                .map_err(LabError::system("cannot start mpirun"))?;
            RankProcesses::new(vec![RankProcess::leader(child)], mark)?
        }
    };
    Ok(processes.wait())
}

/// Program and arguments of every rank: as typed, so that the record holds what can be typed again.
fn command(run: &Run, this: &std::path::Path) -> Vec<OsString> {
    let program = run.program.as_deref().unwrap_or(this);
    [vec![program.as_os_str().to_owned()], run.arguments.clone()].concat()
}

/// Environment variables for every rank: the lab's topology file, the counters and inventory of its switches, and the command that
/// starts the same run again.
fn surroundings(lab: &Lab, run: &Run) -> [(&'static str, OsString); 4] {
    let mut again = format!("railgauge lab run --name {}", lab.name);
    if run.launch != Launch::Env {
        again += &format!(" --launch {}", run.launch);
    }
    if run.per_host != 1 {
        again += &format!(" --per-host {}", run.per_host);
    }
    if let Some(after) = run.respawn {
        again += &match after.subsec_millis() {
            0 => format!(" --respawn {}s", after.as_secs()),
            _ => format!(" --respawn {}ms", after.as_millis()),
        };
    }
    [
        (TOPOLOGY, lab.folder().topology().into_os_string()),
        (SWITCH_COUNTERS, lab.folder().switches().into_os_string()),
        (SWITCH_INVENTORY, lab.folder().switch_inventory().into_os_string()),
        (STARTED_AS, (again + " --").into()),
    ]
}

fn start_by_environment(
    lab: &Lab,
    run: &Run,
    this: &std::path::Path,
    words: &[OsString],
    mark: &str,
) -> Result<RankProcesses, LabError> {
    let hosts = u32::from(lab.wiring.shape.hosts);
    let (world, token) = (hosts * run.per_host, random_hex(32)?);
    let rendezvous = free_address(lab)?;
    let mut processes = RankProcesses::new(Vec::new(), mark.to_string())?;
    for rank in 0..world {
        let host = (rank / run.per_host) as u16;
        let mut command = on_host(lab, this, host, words, mark);
        command
            .envs(surroundings(lab, run))
            .env(RANK, rank.to_string())
            .env(WORLD, world.to_string())
            .env(RENDEZVOUS, rendezvous.to_string())
            .env(TOKEN, &token);
        if rank > 0 {
            command.stdout(Stdio::piped()).stderr(Stdio::piped());
        }
        let child = command
            .spawn()
            .map_err(LabError::system(format!("cannot start rank {rank} on h{host}")))?;
        processes.add(match rank {
            0 => RankProcess::leader(child),
            _ => {
                let member = RankProcess::other(child, &format!("h{host}"));
                match run.respawn {
                    Some(after) => member.with_respawn(command, format!("h{host}"), after),
                    None => member,
                }
            }
        });
    }
    Ok(processes)
}

/// `lab exec` of `words` on a host, in a process group of its own: signals reach it through `RankProcesses` only.
fn on_host(lab: &Lab, this: &std::path::Path, host: u16, words: &[OsString], mark: &str) -> Command {
    use std::os::unix::process::CommandExt;
    let mut command = Command::new(this);
    let node = Node::Host(host).to_string();
    command
        .args([
            "lab",
            "exec",
            "--die-with-parent",
            "--name",
            lab.name.as_str(),
            &node,
            "--",
        ])
        .args(words);
    if let Some((key, value)) = mark.split_once('=') {
        command.env(key, value);
    }
    command.process_group(0).stdin(Stdio::null());
    command
}

/// A free management address of h0.
fn free_address(lab: &Lab) -> Result<SocketAddr, LabError> {
    if lab.wiring.shape.guests.is_some() {
        // A guest's kernel cannot be queried from here; ports below its ephemeral range are free.
        let random =
            getrandom::u32().map_err(|error| LabError::CannotRun(format!("no random numbers: {error}")))?;
        return Ok((management_address(0), 20_000 + (random % 10_000) as u16).into());
    }
    let found = Mutex::new(None);
    apply::in_namespaces(lab, &[Node::Host(0)], |_| {
        let door = TcpListener::bind((management_address(0), 0)).and_then(|door| door.local_addr());
        let address = door.map_err(LabError::system("h0: cannot use its management address"))?;
        *found.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(address);
        Ok(())
    })?;
    let found = found
        .into_inner()
        .unwrap_or_else(|poisoned| poisoned.into_inner());
    found.ok_or_else(|| LabError::CannotRun("h0 has no management address".to_string()))
}

fn random_hex(bytes: usize) -> Result<String, LabError> {
    let mut random = vec![0; bytes];
    getrandom::fill(&mut random)
        .map_err(|error| LabError::CannotRun(format!("no random numbers: {error}")))?;
    Ok(random.iter().map(|byte| format!("{byte:02x}")).collect())
}
