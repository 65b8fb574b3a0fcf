//! A cable that goes down and up: a process of its own, inside the switch's network namespace.
//!
//! It outlives the command that started it and ends when the fault is healed, when the lab is taken down (it runs inside
//! it), or by itself when the lab's state no longer lists it.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use std::os::unix::process::CommandExt;

use nix::sched::{CloneFlags, setns};
use nix::unistd::Pid;

use super::folder::Folder;
use super::state::NAMESPACES;
use super::tools::feed;
use super::{Fault, Lab, LabError, LabName, Node, apply, processes};

/// The name of the hidden subcommand, and how its processes are known.
const SUBCOMMAND: &str = "flap";

/// Starts flapping a cable.
pub fn start(lab: &Lab, cable: &str) -> Result<(), LabError> {
    spawn(lab, SUBCOMMAND, cable)
}

/// Starts a process of this program that keeps up a fault of `target`.
pub(super) fn spawn(lab: &Lab, subcommand: &str, target: &str) -> Result<(), LabError> {
    let program = std::env::current_exe().map_err(LabError::system("cannot find this program"))?;
    let started = std::process::Command::new(program)
        .args(["lab", subcommand, lab.name.as_str(), target])
        .current_dir("/")
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    started.map(drop).map_err(LabError::system(format!(
        "cannot start the {subcommand} of {target}"
    )))
}

/// Ends the flapping of a cable; its switch's links and routes are to be stated again.
pub fn stop(lab: &Lab, cable: &str) -> Result<(), LabError> {
    end(lab, SUBCOMMAND, lab.wiring.cable(cable)?.ends[1].node, cable)
}

/// Ends the process that keeps up a fault of `target`, in the namespace of `node`.
pub(super) fn end(lab: &Lab, subcommand: &str, node: Node, target: &str) -> Result<(), LabError> {
    let namespace = [Path::new(NAMESPACES).join(lab.name.namespace(node))];
    let keepers = || -> Vec<Pid> {
        let is_keeper = |pid: &Pid| {
            let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let words: Vec<&[u8]> = words.split(|byte| *byte == 0).collect();
            words.contains(&subcommand.as_bytes()) && words.contains(&target.as_bytes())
        };
        processes::in_namespaces(&namespace)
            .into_iter()
            .filter(is_keeper)
            .collect()
    };
    match processes::kill_all(keepers) {
        true => Ok(()),
        false => Err(LabError::Busy(lab.name.to_string())),
    }
}

/// Flaps until the fault is no longer in force. The process that runs this does nothing else.
pub fn flap(name: &LabName, cable: &str) -> Result<(), LabError> {
    let lab = Lab::open(name)?;
    let port = lab.wiring.cable(cable)?.ends[1].clone();
    let namespace = lab.namespace(port.node)?;
    setns(namespace, CloneFlags::CLONE_NEWNET)
        .map_err(LabError::system(format!("cannot enter {}", port.node)))?;
    loop {
        let Some((_, up, down)) = current(name, cable) else {
            return Ok(());
        };
        {
            let _lock = Folder::of(name).lock()?;
            if current(name, cable).is_none() {
                return Ok(());
            }
            let line = format!("link set dev {} down", port.interface);
            feed("ip", &["-batch", "-"], &[line], &port.node.to_string())?;
        }
        std::thread::sleep(down);
        {
            let _lock = Folder::of(name).lock()?;
            let Some((lab, _, _)) = current(name, cable) else {
                return Ok(());
            };
            // Routes through the cable went with it.
            apply::restate(&lab, port.node)?;
        }
        std::thread::sleep(up);
    }
}

/// The lab and how long the cable is up and down, while the fault is in force.
fn current(name: &LabName, cable: &str) -> Option<(Lab, Duration, Duration)> {
    let lab = Lab::open(name).ok()?;
    let (up, down) = lab.faults.iter().find_map(|fault| match fault {
        Fault::Flap {
            cable: flapping,
            period,
            duty,
        } if flapping == cable => {
            let period = Duration::from(*period);
            let up = period.mul_f64(duty / 100.0);
            Some((up, period - up))
        }
        _ => None,
    })?;
    Some((lab, up, down))
}
