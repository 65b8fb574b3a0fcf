//! Open MPI's MPI_Allreduce, from a small C program that is compiled here.

use std::path::PathBuf;
use std::process::Command;

use super::ours::Wire;
use super::tools;

/// The compiled peer.
pub struct Peer {
    program: PathBuf,
}

impl Peer {
    /// Compiles it; none without Open MPI.
    pub fn build() -> Option<Peer> {
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/peers/all_reduce.c");
        let program = std::env::temp_dir().join(format!("railgauge-bench-{}", std::process::id()));
        let built = Command::new("mpicc")
            .args(["-O3", "-o"])
            .arg(&program)
            .arg(source)
            .status();
        built
            .is_ok_and(|status| status.success())
            .then_some(Peer { program })
    }

    /// Its version.
    pub fn version(&self) -> String {
        tools::first_line("mpirun", &["--version"]).unwrap_or_default()
    }

    /// Median seconds for each size; shorter when it failed.
    pub fn all_reduce(&self, wire: Wire, sizes: &[usize]) -> Vec<f64> {
        let mut mpirun = Command::new("mpirun");
        mpirun.args(["--allow-run-as-root", "-np", "2"]);
        if wire == Wire::Tcp {
            mpirun.args(["--mca", "btl", "self,tcp", "--mca", "btl_tcp_if_include", "lo"]);
        }
        mpirun.arg(&self.program).args(sizes.iter().map(usize::to_string));
        let Ok(output) = mpirun.output() else {
            return Vec::new();
        };
        if !output.status.success() {
            println!(
                "  mpirun failed: {}",
                String::from_utf8_lossy(&output.stderr).trim()
            );
        }
        let text = String::from_utf8_lossy(&output.stdout);
        text.lines()
            .filter_map(|line| line.split_once(' ')?.1.parse().ok())
            .collect()
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.program);
    }
}
