//! The CPU shim: a CUDA driver whose GPU is the CPU, with the kernels' real source in it.
//!
//! A driver is found when the process starts to look for it, so a test that needs the shim runs itself once more, in a
//! process that finds the shim first.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Set in a process that was started to run one test.
const INSIDE: &str = "RAILGAUGE_TEST_INSIDE";

/// The folder with the shim's `libcuda.so.1`, built if need be.
pub fn folder() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let has_kernels = |folder: &&Path| folder.join("kernels/shim/build").exists();
        let root = here
            .ancestors()
            .find(has_kernels)
            .expect("the repository has kernels/");
        let folder = root.join("target/shim");
        let built = Command::new(root.join("kernels/shim/build"))
            .arg(&folder)
            .output();
        let built = built.expect("kernels/shim/build needs bash and g++");
        let said = String::from_utf8_lossy(&built.stderr);
        assert!(built.status.success(), "the shim does not build:\n{said}");
        folder
    })
}

/// Runs test `name` of this binary in a process of its own, with these variables, and the shim as the CUDA driver unless
/// `LD_LIBRARY_PATH` is among them. True in that process: then the test does its work, and returns otherwise.
pub fn inside(name: &str, variables: &[(&str, &str)]) -> bool {
    if std::env::var_os(INSIDE).is_some() {
        return true;
    }
    let mut command = Command::new(std::env::current_exe().expect("a test knows its own path"));
    command.args(["--exact", name, "--nocapture"]).env(INSIDE, "1");
    if !variables.iter().any(|(name, _)| *name == "LD_LIBRARY_PATH") {
        command.env("LD_LIBRARY_PATH", folder());
    }
    let done = command
        .envs(variables.iter().copied())
        .output()
        .expect("a test can be started");
    let said = format!(
        "{}{}",
        String::from_utf8_lossy(&done.stdout),
        String::from_utf8_lossy(&done.stderr)
    );
    assert!(done.status.success(), "{name} failed in its own process:\n{said}");
    assert!(
        said.contains("1 passed"),
        "{name} is not the name of this test:\n{said}"
    );
    false
}
