//! A cable that goes down and up: a process of its own, inside the switch's network namespace.
//!
//! It outlives the command that started it and ends when the fault is healed, when the lab is taken down (it runs inside
//! it), or by itself when the lab's state no longer lists it.

use std::time::Duration;

use nix::sched::{CloneFlags, setns};

use super::folder::Folder;
use super::tools::feed;
use super::{Fault, Lab, LabError, LabName, apply, keeper};

/// The name of the hidden subcommand, and how its processes are known.
pub(super) const SUBCOMMAND: &str = "flap";

/// Starts flapping a cable.
pub fn start(lab: &Lab, cable: &str) -> Result<(), LabError> {
    keeper::start(lab, SUBCOMMAND, cable)
}

/// Ends the flapping of a cable; its switch's links and routes are to be stated again.
pub fn stop(lab: &Lab, cable: &str) -> Result<(), LabError> {
    keeper::end(lab, SUBCOMMAND, lab.wiring.cable(cable)?.ends[1].node, cable)
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
