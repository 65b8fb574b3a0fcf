//! Starting the ranks of a run: as threads or processes of this machine, or by waiting for those that others start.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use super::CliError;
use super::launching::{Lead, Mpi, Role};
use engine::collective::gpu::ProcessGpus;
use engine::launch::{
    Coordinator, Member, RankProcesses, Rendezvous, Token, WaitAbort, in_process, local_rank, spawn,
};
use engine::measure::{ExitLookup, ProcessContext, serve};
use engine::transport::shm::Hub;
use topology::suite::RunSettings;

/// Ranks that have joined.
pub struct World {
    /// The link to all of them.
    pub coordinator: Coordinator,
    /// How a rank's process ended; owns the processes.
    pub end_of: ExitLookup,
    /// How they were started.
    pub launch: Launched,
    /// The ranks themselves; dropped when the run is over.
    pub crew: Crew,
    /// Where latecomers are told that they are late.
    pub door: Option<Rendezvous>,
    /// MPI, if it brought the processes together.
    pub mpi: Option<Mpi>,
}

/// How ranks were started.
pub enum Launched {
    /// Threads of this process.
    Threads(u32),
    /// Child processes of this one.
    Children(u32),
    /// Processes that somebody else started, and whose word it is.
    Processes(u32, String),
}

/// The threads that run the ranks, if threads do. Dropping it waits for them to end.
pub struct Crew(Vec<JoinHandle<()>>);

impl Launched {
    /// In words, for a run on `hosts` hosts.
    pub fn describe(&self, hosts: usize) -> String {
        let plural = if hosts == 1 { "" } else { "s" };
        match self {
            Launched::Threads(ranks) => format!("{ranks} threads of one process"),
            Launched::Children(ranks) => format!("{ranks} processes of one machine"),
            Launched::Processes(ranks, source) => {
                format!("{ranks} processes on {hosts} host{plural} ({source})")
            }
        }
    }
}

/// Starts the ranks that `settings` ask for, or waits for those that others start.
pub fn start(role: Role, settings: &RunSettings, interrupted: &Arc<AtomicBool>) -> Result<World, CliError> {
    let ranks = settings.ranks();
    match role {
        Role::Leads(lead) => as_leader(*lead, settings, interrupted),
        Role::Alone | Role::Follows(_) => {
            let token = Token::generate().map_err(CliError::system("cannot make the run's token"))?;
            match settings.procs() {
                true => as_processes(ranks, token, settings),
                false => as_threads(ranks, token),
            }
        }
    }
}

fn as_threads(ranks: u32, token: Token) -> Result<World, CliError> {
    let shared = ProcessContext {
        token,
        hub: Hub::new(),
        process_gpus: ProcessGpus::new(),
        local_rank: None,
        management: None,
    };
    let (coordinator, members) = in_process(ranks);
    let crew: Result<Vec<_>, CliError> = members.into_iter().map(|member| man(member, &shared)).collect();
    Ok(World {
        coordinator,
        end_of: Box::new(|_| None),
        launch: Launched::Threads(ranks),
        crew: Crew(crew?),
        door: None,
        mpi: None,
    })
}

/// A thread that serves as one rank.
fn man(member: Member, shared: &ProcessContext) -> Result<JoinHandle<()>, CliError> {
    let shared = shared.clone();
    let name = format!("rank {}", member.rank());
    let thread = std::thread::Builder::new().name(name).spawn(move || {
        if let Err(gone) = serve(member, &shared) {
            tracing::debug!(%gone, "a rank's thread ended early");
        }
    });
    thread.map_err(CliError::system("cannot start a rank's thread"))
}

fn as_processes(ranks: u32, token: Token, settings: &RunSettings) -> Result<World, CliError> {
    let door = Rendezvous::listen(IpAddr::V4(Ipv4Addr::LOCALHOST), ranks, token)?;
    let address = door
        .address()
        .map_err(CliError::system("the rendezvous has no address"))?;
    let children =
        spawn(ranks, address, &token, &["worker"]).map_err(CliError::system("cannot start a rank"))?;
    let children = Arc::new(Mutex::new(children));
    let watched = Arc::clone(&children);
    let coordinator = door.wait_for_ranks(Duration::from(settings.deadline()), || {
        lock(&watched).first_exited().map(WaitAbort::ProcessEnded)
    })?;
    Ok(World {
        coordinator,
        end_of: Box::new(move |rank| lock(&children).exit_of(rank)),
        launch: Launched::Children(ranks),
        crew: Crew(Vec::new()),
        door: None,
        mpi: None,
    })
}

/// This process is rank 0; the others come by themselves.
fn as_leader(lead: Lead, settings: &RunSettings, interrupted: &AtomicBool) -> Result<World, CliError> {
    let shared = ProcessContext {
        token: lead.token,
        hub: Hub::new(),
        process_gpus: ProcessGpus::new(),
        local_rank: local_rank(),
        management: Some(lead.management),
    };
    let own = man(lead.member, &shared)?;
    let coordinator = lead.door.wait_for_ranks(settings.join_deadline().into(), || {
        interrupted
            .load(Ordering::Relaxed)
            .then_some(WaitAbort::Interrupted)
    })?;
    Ok(World {
        coordinator,
        end_of: Box::new(|_| None),
        launch: Launched::Processes(lead.door.world(), lead.source),
        crew: Crew(vec![own]),
        door: Some(lead.door),
        mpi: lead.mpi,
    })
}

fn lock(children: &Mutex<RankProcesses>) -> std::sync::MutexGuard<'_, RankProcesses> {
    children.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Drop for Crew {
    fn drop(&mut self) {
        for thread in self.0.drain(..) {
            // A rank's panic was reported when it happened.
            let _ = thread.join();
        }
    }
}
