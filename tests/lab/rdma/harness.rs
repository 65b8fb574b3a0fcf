//! A lab whose hosts have kernels of their own, for one test, and what its runs recorded.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

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

/// Brings up a lab whose hosts have kernels; none when that cannot be done here.
pub fn guests(arguments: &[&str]) -> Option<TestLab> {
    let kernel = kernel()?.to_str()?;
    Some(TestLab::up(&[arguments, &["--guests", kernel]].concat()))
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
