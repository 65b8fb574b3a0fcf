//! `railgauge worker`: one rank of a run, started by railgauge itself with everything it needs in its environment.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use clap::Args;

use crate::error::CliError;
use crate::launch::follower::exit_code_of;
use engine::collective::gpu::ProcessGpus;
use engine::launch::{JoinConfig, join};
use engine::measure::{ProcessContext, serve};
use engine::transport::shm::Hub;

/// How long the coordinator may take to answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// No arguments.
#[derive(Debug, Args)]
pub struct Arguments {}

/// Joins the run and serves one rank until it is over.
pub fn run(_: &Arguments) -> Result<u8, CliError> {
    // A Ctrl-C reaches the whole process group; the coordinator decides what it means.
    let _ = signal_hook::flag::register(signal_hook::consts::SIGINT, Arc::new(AtomicBool::new(false)));
    let address = JoinConfig::from_environment()?;
    let member = join(&address, PATIENCE)?;
    let shared = ProcessContext {
        token: address.token,
        hub: Hub::new(),
        process_gpus: ProcessGpus::new(),
        local_rank: None,
        management: None,
    };
    let quit = serve(member, &shared);
    if let Err(error) = &quit {
        tracing::debug!(%error, "left the run");
    }
    Ok(exit_code_of(quit.ok()))
}
