//! Starting the ranks of a run: as threads or processes of this machine, or by waiting for those that a launcher starts.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use super::mpi::Mpi;
use super::role::{Leader, Role};
use crate::error::CliError;
use crate::terminal;
use engine::collective::gpu::ProcessGpus;
use engine::launch::{
    Coordinator, Member, RankProcesses, Rendezvous, Token, WaitAbort, in_process, local_rank, spawn,
};
use engine::measure::{ExitLookup, ProcessContext, serve};
use engine::transport::shm::Hub;
use topology::suite::RunSettings;

/// Ranks that have joined.
pub struct StartedRanks {
    /// The connection to all of them.
    pub coordinator: Coordinator,
    /// How a rank's process ended; owns the processes.
    pub exit_lookup: ExitLookup,
    /// How they were started.
    pub launch: LaunchKind,
    /// The ranks of this process; dropped when the run is over.
    pub threads: RankThreads,
    /// Where lost ranks rejoin and latecomers are refused.
    pub rendezvous: Option<Rendezvous>,
    /// MPI, if it started the processes.
    pub mpi: Option<Mpi>,
}

/// How ranks were started.
pub enum LaunchKind {
    /// Threads of this process.
    Threads(u32),
    /// Child processes of this one.
    Children(u32),
    /// Processes that a launcher started, and which one.
    Processes(u32, String),
}

/// The threads that serve ranks in this process. Dropping it waits for them to end.
pub struct RankThreads(Vec<JoinHandle<()>>);

impl LaunchKind {
    /// A description for a run on `hosts` hosts.
    pub fn describe(&self, hosts: usize) -> String {
        let plural = if hosts == 1 { "" } else { "s" };
        match self {
            LaunchKind::Threads(ranks) => format!("{ranks} threads of one process"),
            LaunchKind::Children(ranks) => format!("{ranks} processes of one machine"),
            LaunchKind::Processes(ranks, source) => {
                format!("{ranks} processes on {hosts} host{plural} ({source})")
            }
        }
    }
}

/// Starts the ranks that `settings` ask for, or waits for those that a launcher starts.
pub fn start_ranks(
    role: Role,
    settings: &RunSettings,
    interrupted: &Arc<AtomicBool>,
) -> Result<StartedRanks, CliError> {
    let ranks = settings.ranks();
    match role {
        Role::Leader(leader) => join_as_leader(*leader, settings, interrupted),
        Role::Local | Role::Follower(_) => {
            let token = Token::generate().map_err(CliError::system("cannot generate the run's token"))?;
            match settings.procs() {
                true => start_processes(ranks, token, settings),
                false => start_threads(ranks, token),
            }
        }
    }
}

fn start_threads(ranks: u32, token: Token) -> Result<StartedRanks, CliError> {
    let shared = ProcessContext {
        token,
        hub: Hub::new(),
        process_gpus: ProcessGpus::new(),
        local_rank: None,
        management: None,
    };
    let (coordinator, members) = in_process(ranks);
    let serving: Result<Vec<_>, CliError> = members
        .into_iter()
        .map(|member| spawn_rank(member, &shared))
        .collect();
    Ok(StartedRanks {
        coordinator,
        exit_lookup: Box::new(|_| None),
        launch: LaunchKind::Threads(ranks),
        threads: RankThreads(serving?),
        rendezvous: None,
        mpi: None,
    })
}

/// Starts a thread that serves one rank.
fn spawn_rank(member: Member, shared: &ProcessContext) -> Result<JoinHandle<()>, CliError> {
    let shared = shared.clone();
    let name = format!("rank {}", member.rank());
    let thread = std::thread::Builder::new().name(name).spawn(move || {
        if let Err(error) = serve(member, &shared) {
            tracing::debug!(%error, "a rank's thread ended early");
        }
    });
    thread.map_err(CliError::system("cannot start a rank's thread"))
}

fn start_processes(ranks: u32, token: Token, settings: &RunSettings) -> Result<StartedRanks, CliError> {
    let rendezvous = Rendezvous::listen(IpAddr::V4(Ipv4Addr::LOCALHOST), ranks, token)?;
    let address = rendezvous
        .address()
        .map_err(CliError::system("the rendezvous has no address"))?;
    let children =
        spawn(ranks, address, &token, &["worker"]).map_err(CliError::system("cannot start a rank"))?;
    let children = Arc::new(Mutex::new(children));
    let watched = Arc::clone(&children);
    let coordinator = rendezvous.wait_for_ranks(Duration::from(settings.deadline()), || {
        lock(&watched).first_exited().map(WaitAbort::ProcessEnded)
    })?;
    Ok(StartedRanks {
        coordinator,
        exit_lookup: Box::new(move |rank| lock(&children).exit_of(rank)),
        launch: LaunchKind::Children(ranks),
        threads: RankThreads(Vec::new()),
        rendezvous: None,
        mpi: None,
    })
}

/// Serves rank 0 in this process and waits for the others.
fn join_as_leader(
    leader: Leader,
    settings: &RunSettings,
    interrupted: &AtomicBool,
) -> Result<StartedRanks, CliError> {
    let shared = ProcessContext {
        token: leader.token,
        hub: Hub::new(),
        process_gpus: ProcessGpus::new(),
        local_rank: local_rank(),
        management: Some(leader.management),
    };
    let own = spawn_rank(leader.member, &shared)?;
    let coordinator = leader
        .rendezvous
        .wait_for_ranks(settings.join_deadline().into(), || {
            interrupted
                .load(Ordering::Relaxed)
                .then_some(WaitAbort::Interrupted)
        })?;
    Ok(StartedRanks {
        coordinator,
        exit_lookup: Box::new(|_| None),
        launch: LaunchKind::Processes(leader.rendezvous.world(), leader.source),
        threads: RankThreads(vec![own]),
        rendezvous: Some(leader.rendezvous),
        mpi: leader.mpi,
    })
}

fn lock(children: &Mutex<RankProcesses>) -> std::sync::MutexGuard<'_, RankProcesses> {
    children.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Drop for RankThreads {
    fn drop(&mut self) {
        for thread in self.0.drain(..) {
            // A rank's panic was reported when it happened.
            let _ = thread.join();
        }
    }
}

/// Warns about callers that prove that another world used the same token. The exit code: 3 when there were any, else 0.
pub fn warn_of_separate_worlds(callers: &[String]) -> u8 {
    for caller in callers {
        terminal::warn(format_args!("separate worlds: {caller}"));
    }
    if callers.is_empty() { 0 } else { 3 }
}
