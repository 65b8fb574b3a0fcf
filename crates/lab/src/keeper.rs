//! Processes of this program that keep up a fault: they outlive the command that started them, inside the network namespace of the part
//! that is at fault.
//!
//! They end when the fault is healed, with the lab, or by themselves when the lab's state no longer lists the fault. They are no processes
//! of a host: faults that stop or kill those leave them alone.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Stdio};

use nix::unistd::Pid;

use super::state::NAMESPACES;
use super::{Lab, LabError, Node, disturb, flap, processes, stall};

/// The hidden subcommands that they run.
const SUBCOMMANDS: [&str; 3] = [flap::SUBCOMMAND, stall::SUBCOMMAND, disturb::SUBCOMMAND];

/// Starts a process that keeps up a fault of `target`.
pub(super) fn start(lab: &Lab, subcommand: &str, target: &str) -> Result<(), LabError> {
    spawn(lab, subcommand, target, Stdio::null()).map(drop)
}

/// The same; what it writes goes to `output`.
pub(super) fn spawn(lab: &Lab, subcommand: &str, target: &str, output: Stdio) -> Result<Child, LabError> {
    let program = std::env::current_exe().map_err(LabError::system("cannot find this program"))?;
    let started = std::process::Command::new(program)
        .args(["lab", subcommand, lab.name.as_str(), target])
        .current_dir("/")
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(output)
        .stderr(Stdio::null())
        .spawn();
    started.map_err(LabError::system(format!(
        "cannot start the {subcommand} of {target}"
    )))
}

/// Ends the process that keeps up a fault of `target`, in the namespace of `node`.
pub(super) fn end(lab: &Lab, subcommand: &str, node: Node, target: &str) -> Result<(), LabError> {
    let namespace = [Path::new(NAMESPACES).join(lab.name.namespace(node))];
    let keepers = || -> Vec<Pid> {
        let keeps_it = |pid: &Pid| {
            let words = words(*pid);
            words.iter().any(|word| word == subcommand) && words.iter().any(|word| word == target)
        };
        let inside = processes::in_namespaces(&namespace).into_iter();
        inside.filter(keeps_it).collect()
    };
    match processes::kill_all(keepers) {
        true => Ok(()),
        false => Err(LabError::Busy(lab.name.to_string())),
    }
}

/// Whether a process keeps up a fault.
pub(super) fn is_keeper(pid: Pid) -> bool {
    is_of_keeper(&words(pid))
}

fn is_of_keeper(words: &[String]) -> bool {
    let is_lab = words.get(1).is_some_and(|word| word == "lab");
    is_lab
        && words
            .get(2)
            .is_some_and(|word| SUBCOMMANDS.contains(&word.as_str()))
}

/// The command line of a process.
fn words(pid: Pid) -> Vec<String> {
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    line.split(|byte| *byte == 0)
        .map(|word| String::from_utf8_lossy(word).into_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_keeps_up_a_fault_is_told_from_what_runs_on_a_host() {
        let is_keeper = |line: &str| {
            let words: Vec<String> = line.split(' ').map(str::to_string).collect();
            is_of_keeper(&words)
        };
        assert!(is_keeper("/usr/bin/railgauge lab stall lab h1/rail0"));
        assert!(is_keeper("railgauge lab disturb lab h1/rail0"));
        assert!(!is_keeper("railgauge run stall"));
        assert!(!is_keeper("railgauge lab run -- run probe"));
        assert!(!is_keeper("sleep 60"));
    }
}
