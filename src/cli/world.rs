//! Starting the ranks of a run on this machine, as threads or as processes.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use super::CliError;
use crate::launch::{Children, Coordinator, Rendezvous, Token, spawn, threads};
use crate::measure::{EndOf, Shared, serve};
use crate::suite::RunSettings;
use crate::transport::shm::Hub;

/// Ranks that have joined.
pub struct World {
    /// The link to all of them.
    pub coordinator: Coordinator,
    /// How a rank's process ended; owns the processes.
    pub end_of: EndOf,
    /// How they were started, in words.
    pub launch: String,
    /// The ranks themselves; dropped when the run is over.
    pub crew: Crew,
}

/// The threads that run the ranks, if threads do. Dropping it waits for them to end.
pub struct Crew(Vec<JoinHandle<()>>);

/// Starts the ranks that `settings` ask for.
pub fn start(settings: &RunSettings) -> Result<World, CliError> {
    let token = Token::generate().map_err(CliError::system("cannot make the run's token"))?;
    let ranks = settings.ranks();
    if settings.procs() {
        as_processes(ranks, token, settings)
    } else {
        as_threads(ranks, token)
    }
}

fn as_threads(ranks: u32, token: Token) -> Result<World, CliError> {
    let shared = Shared {
        token,
        hub: Hub::new(),
    };
    let (coordinator, members) = threads(ranks);
    let mut crew = Vec::with_capacity(members.len());
    for member in members {
        let shared = shared.clone();
        let name = format!("rank {}", member.rank());
        let thread = std::thread::Builder::new().name(name).spawn(move || {
            if let Err(gone) = serve(member, &shared) {
                tracing::debug!(%gone, "a rank's thread ended early");
            }
        });
        crew.push(thread.map_err(CliError::system("cannot start a rank's thread"))?);
    }
    Ok(World {
        coordinator,
        end_of: Box::new(|_| None),
        launch: format!("{ranks} threads of one process"),
        crew: Crew(crew),
    })
}

fn as_processes(ranks: u32, token: Token, settings: &RunSettings) -> Result<World, CliError> {
    let door = Rendezvous::open(IpAddr::V4(Ipv4Addr::LOCALHOST), ranks, token)?;
    let address = door
        .address()
        .map_err(CliError::system("the rendezvous has no address"))?;
    let children =
        spawn(ranks, address, &token, &["worker"]).map_err(CliError::system("cannot start a rank"))?;
    let children = Arc::new(Mutex::new(children));
    let watched = Arc::clone(&children);
    let coordinator = door.meet(Duration::from(settings.deadline()), || {
        lock(&watched).first_ended()
    })?;
    Ok(World {
        coordinator,
        end_of: Box::new(move |rank| lock(&children).end_of(rank)),
        launch: format!("{ranks} processes of one machine"),
        crew: Crew(Vec::new()),
    })
}

fn lock(children: &Mutex<Children>) -> std::sync::MutexGuard<'_, Children> {
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
