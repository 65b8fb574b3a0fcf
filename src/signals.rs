//! What SIGINT and SIGTERM do to a run.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::error::CliError;

/// How long a follower that received a signal waits for rank 0 to end the run.
const GRACE: Duration = Duration::from_secs(2);

/// A flag that the first SIGINT or SIGTERM sets, so that the run ends in order; the second one ends the process at once.
pub fn interrupt_flag() -> Result<Arc<AtomicBool>, CliError> {
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        let at_once = signal_hook::flag::register_conditional_shutdown(signal, 20, Arc::clone(&interrupted));
        let orderly = signal_hook::flag::register(signal, Arc::clone(&interrupted));
        at_once
            .and(orderly)
            .map_err(CliError::system("cannot listen for signals"))?;
    }
    Ok(interrupted)
}

/// Has a follower exit some time after a signal. Schedulers often signal all processes of a job: rank 0 then ends the run for all
/// of them, and a follower exits by itself only when that does not happen.
pub fn exit_after_signal() -> Result<(), CliError> {
    let signals = Signals::new([SIGINT, SIGTERM]);
    let mut signals = signals.map_err(CliError::system("cannot listen for signals"))?;
    let thread = std::thread::Builder::new()
        .name("signals".to_string())
        .spawn(move || {
            if let Some(signal) = signals.forever().next() {
                std::thread::sleep(GRACE);
                std::process::exit(128 + signal);
            }
        });
    thread.map_err(CliError::system("cannot listen for signals"))?;
    Ok(())
}
