//! MPI, where this binary was built with it.

/// MPI while it runs.
#[cfg(feature = "mpi")]
pub type Mpi = engine::launch::mpi::World;

/// This build has no MPI.
#[cfg(not(feature = "mpi"))]
pub enum Mpi {}

#[cfg(not(feature = "mpi"))]
impl Mpi {
    /// Never called.
    pub fn leave(self, _clean: bool) {
        match self {}
    }
}

/// The error of a binary without MPI.
#[cfg(not(feature = "mpi"))]
pub const NO_MPI: &str = "this binary was built without MPI. Install an MPI and libclang (Debian: libopenmpi-dev openmpi-bin \
libclang-dev) and build with: cargo build --release --features mpi. Or use --launch env, which needs no MPI";

/// Ends the process when MPI does not start all ranks in time: a wait inside MPI has no deadline of its own.
#[cfg(feature = "mpi")]
pub struct Watchdog {
    /// Dropping it stops the thread.
    _alive: std::sync::mpsc::Sender<()>,
}

#[cfg(feature = "mpi")]
impl Watchdog {
    /// Starts the watchdog.
    pub fn start(deadline: std::time::Duration) -> Watchdog {
        let (alive, dropped) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            if dropped.recv_timeout(deadline) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
                let seconds = deadline.as_secs();
                eprintln!(
                    "railgauge: MPI did not start all ranks within {seconds} s; see the output of the other ranks"
                );
                std::process::exit(21);
            }
        });
        Watchdog { _alive: alive }
    }
}
