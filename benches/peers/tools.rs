//! Finding the peers, and saying what machine this is.

use std::process::{Command, Stdio};

/// Whether a program can be started.
fn exists(program: &str) -> bool {
    let started = Command::new(program)
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    started.is_ok()
}

/// Installs Debian packages when a program is missing and that is possible.
pub fn install(programs: &[&str], packages: &[&str]) {
    if programs.iter().all(|program| exists(program)) {
        return;
    }
    println!("installing {} with apt", packages.join(", "));
    let apt = |arguments: &[&str]| {
        let mut apt = Command::new("apt-get");
        apt.env("DEBIAN_FRONTEND", "noninteractive")
            .args(arguments)
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        apt.status().is_ok_and(|status| status.success())
    };
    let install: Vec<&str> = ["install", "-y", "--no-install-recommends"]
        .iter()
        .chain(packages)
        .copied()
        .collect();
    if !(apt(&["update"]) && apt(&install)) {
        println!("that failed; what needs them is left out");
    }
}

/// The first line a program prints.
pub fn first_line(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    Some(
        String::from_utf8_lossy(&output.stdout)
            .lines()
            .next()?
            .to_string(),
    )
}

/// Processor, cores and kernel.
pub fn machine() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info
        .lines()
        .find_map(|line| line.strip_prefix("model name"))
        .unwrap_or("");
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!(
        "{}, {cores} cores, Linux {}",
        model.trim_start_matches([' ', '\t', ':']),
        kernel.trim()
    )
}
