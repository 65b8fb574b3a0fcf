//! A lab whose hosts have kernels of their own, for one test, and what its runs recorded.

use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Condvar, Mutex, OnceLock, PoisonError};
use std::thread::available_parallelism;

use crate::skip::skip;

pub use crate::harness::{TestLab, command, labs_can_be_made, until};

/// The kernel that `ci/rdma-kernel` has built; says why there is none.
pub fn kernel() -> Option<&'static Path> {
    static FOUND: OnceLock<Option<PathBuf>> = OnceLock::new();
    let look = || {
        if !labs_can_be_made() {
            return None;
        }
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("ci/rdma-kernel");
        let answer = Command::new(script).arg("--cached").output();
        let path = answer.map(|answer| String::from_utf8_lossy(&answer.stdout).trim().to_string());
        match path {
            Ok(path) if !path.is_empty() => Some(PathBuf::from(path)),
            _ => {
                skip(
                    "rdma-kernel",
                    "there is no kernel for lab hosts; build it with ci/rdma-kernel",
                );
                None
            }
        }
    };
    FOUND.get_or_init(look).as_deref()
}

/// How many labs whose hosts have kernels there are, and a call when one has gone.
static UP: (Mutex<usize>, Condvar) = (Mutex::new(0), Condvar::new());

/// A turn to have such a lab. One for each core: their kernels are busy processes that wait for each other half of the time.
struct Turn;

impl Turn {
    fn wait() -> Turn {
        let most = available_parallelism().map_or(1, usize::from);
        let up = UP.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut up =
            UP.1.wait_while(up, |up| *up >= most)
                .unwrap_or_else(PoisonError::into_inner);
        *up += 1;
        Turn
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        *UP.0.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        UP.1.notify_one();
    }
}

/// A lab whose hosts have kernels.
pub struct GuestLab {
    // In this order: the lab is taken down before the next one may be built.
    lab: TestLab,
    _turn: Turn,
}

impl Deref for GuestLab {
    type Target = TestLab;
    fn deref(&self) -> &TestLab {
        &self.lab
    }
}

/// Brings up a lab whose hosts have kernels; none when that cannot be done here.
pub fn guests(arguments: &[&str]) -> Option<GuestLab> {
    let kernel = kernel()?.to_str()?;
    let turn = Turn::wait();
    Some(GuestLab {
        lab: TestLab::up(&[arguments, &["--guests", kernel]].concat()),
        _turn: turn,
    })
}

/// Everything an ended command said.
pub fn said(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

/// Objects of a kind that programs hold on a host's RDMA devices: `qp`, `mr`, `cq`, `pd`, `ctx`.
///
/// The kernel has some of its own, which are there before and after.
pub fn objects(lab: &TestLab, host: &str, kind: &str) -> usize {
    let listed = lab.on(host, &format!("rdma resource show {kind}"));
    listed.lines().filter(|line| line.contains(" pid ")).count()
}
