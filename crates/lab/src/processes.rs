//! Processes that run inside a lab: found by the network namespace they are in, or by a mark in their environment.

use std::collections::HashSet;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// How long killed processes may take to vanish.
const PATIENCE: Duration = Duration::from_secs(5);

/// The processes, other than this one, in one of these network namespaces.
pub fn in_namespaces<P: AsRef<Path>>(namespaces: &[P]) -> Vec<Pid> {
    let wanted: HashSet<(u64, u64)> = namespaces
        .iter()
        .filter_map(|path| identity(path.as_ref()))
        .collect();
    let is_inside = |pid: &Pid| {
        let namespace = identity(Path::new(&format!("/proc/{pid}/ns/net")));
        namespace.is_some_and(|namespace| wanted.contains(&namespace))
    };
    match wanted.is_empty() {
        true => Vec::new(),
        false => all().filter(is_inside).collect(),
    }
}

/// The processes, other than this one, that were started with `variable` in their environment.
pub fn marked(variable: &str) -> Vec<Pid> {
    let has_mark = |pid: &Pid| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment
            .split(|byte| *byte == 0)
            .any(|entry| entry == variable.as_bytes())
    };
    all().filter(has_mark).collect()
}

/// Sends a signal to each; processes that are already gone are ignored. Processes of a guest are traced by its kernel and stop
/// with it, so they get no signal of their own but SIGKILL.
pub fn signal(processes: &[Pid], signal: Signal) {
    let is_run_by_another = |pid: &&Pid| signal != Signal::SIGKILL && is_traced(**pid);
    for pid in processes.iter().filter(|pid| !is_run_by_another(pid)) {
        let _ = kill(*pid, signal);
    }
}

/// Kills what `list` lists until it lists nothing any more; whether that was reached in time.
pub fn kill_all(list: impl Fn() -> Vec<Pid>) -> bool {
    let until = Instant::now() + PATIENCE;
    loop {
        let processes = list();
        if processes.is_empty() {
            return true;
        }
        signal(&processes, Signal::SIGKILL);
        if Instant::now() > until {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Whether a process is stopped by a signal.
pub fn is_stopped(pid: Pid) -> bool {
    matches!(state_of(pid), Some('T'))
}

/// Whether another process runs it step by step.
fn is_traced(pid: Pid) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let tracer = status.lines().find_map(|line| line.strip_prefix("TracerPid:"));
    tracer.is_some_and(|tracer| tracer.trim() != "0")
}

/// Every process but this one and zombies.
fn all() -> impl Iterator<Item = Pid> {
    let own = Pid::this();
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok().map(Pid::from_raw));
    pids.filter(move |pid| *pid != own && !matches!(state_of(*pid), None | Some('Z' | 'X')))
}

/// The letter the kernel gives for what a process does.
fn state_of(pid: Pid) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    let metadata = std::fs::metadata(path).ok()?;
    Some((metadata.dev(), metadata.ino()))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_marked_process_is_found_killed_and_no_other() {
        let mark = format!("RAILGAUGE_TEST_MARK={}", std::process::id());
        let (key, value) = mark.split_once('=').unwrap();
        let mut ours = Command::new("sleep").arg("60").env(key, value).spawn().unwrap();
        let mut other = Command::new("sleep").arg("60").spawn().unwrap();
        let until = Instant::now() + PATIENCE;
        while marked(&mark).is_empty() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(marked(&mark), [Pid::from_raw(ours.id() as i32)]);
        assert!(kill_all(|| marked(&mark)));
        assert!(!ours.wait().unwrap().success());
        assert!(other.try_wait().unwrap().is_none(), "the unmarked one lives");
        other.kill().unwrap();
        other.wait().unwrap();
    }

    #[test]
    fn without_namespaces_nobody_is_inside() {
        assert!(in_namespaces::<&str>(&[]).is_empty());
        assert!(in_namespaces(&["/nowhere"]).is_empty());
    }
}
