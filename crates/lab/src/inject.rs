//! Injecting faults and healing them.

use std::path::Path;

use nix::sys::signal::Signal;
use nix::unistd::Pid;

use super::faults::Faults;
use super::packets::{self, Disturbance};
use super::state::NAMESPACES;
use super::suggest::suggestion;
use super::{
    Fault, Lab, LabError, LabName, Node, Port, apply, config, disturb, flap, inventory, keeper, processes,
    stall, switches, tools,
};

/// Packets that a process takes out of a port's way and puts back, in a second.
const MOST_CARRIED: f64 = 50_000.0;

/// Injects `faults`, all or none; a fault with the same key as one in force replaces it.
pub fn fault(name: &LabName, faults: &[Fault]) -> Result<Lab, LabError> {
    tools::make_sure()?;
    let lock = super::folder::Folder::of(name).lock()?;
    let mut lab = Lab::open(name)?;
    let checked = faults.iter().map(|fault| fault.clone().check(&lab.wiring));
    let checked = checked.collect::<Result<Vec<_>, _>>()?;
    checked
        .iter()
        .try_for_each(|fault| check_supported(fault, &lab))?;
    let mut wanted = lab.faults.clone();
    for fault in checked.iter().filter(|fault| fault.lasts()) {
        wanted.retain(|other| other.key() != fault.key());
        wanted.push(fault.clone());
    }
    transition_to(&mut lab, wanted)?;
    for fault in &checked {
        match fault {
            Fault::Kill { host } => {
                let is_dead = processes::kill_all(|| processes_of(&lab, *host));
                is_dead
                    .then_some(())
                    .ok_or_else(|| LabError::Busy(name.to_string()))?;
            }
            Fault::Freeze { host } => processes::signal(&processes_of(&lab, *host), Signal::SIGSTOP),
            _ => {}
        }
    }
    drop(lock);
    Ok(lab)
}

/// Heals the faults that `texts` name, whole or without their value.
pub fn heal(name: &LabName, texts: &[String]) -> Result<Lab, LabError> {
    tools::make_sure()?;
    let _lock = super::folder::Folder::of(name).lock()?;
    let mut lab = Lab::open(name)?;
    let mut wanted = lab.faults.clone();
    for text in texts {
        let is_meant = |fault: &Fault| {
            let same = text
                .parse::<Fault>()
                .ok()
                .and_then(|given| given.check(&lab.wiring).ok());
            fault.key() == *text
                || fault.to_string() == *text
                || same.is_some_and(|same| same.key() == fault.key())
        };
        let before = wanted.len();
        wanted.retain(|fault| !is_meant(fault));
        if wanted.len() == before {
            let known: Vec<String> = lab.faults.iter().map(Fault::to_string).collect();
            return Err(LabError::Unknown {
                kind: "fault in force",
                given: text.chars().take(80).collect(),
                hint: suggestion(text, &known),
            });
        }
    }
    transition_to(&mut lab, wanted)?;
    Ok(lab)
}

/// Heals everything; what was healed.
pub fn heal_all(name: &LabName) -> Result<Vec<Fault>, LabError> {
    tools::make_sure()?;
    let _lock = super::folder::Folder::of(name).lock()?;
    let mut lab = Lab::open(name)?;
    let healed = lab.faults.clone();
    transition_to(&mut lab, Vec::new())?;
    apply::restate_everything(&lab)?;
    Ok(healed)
}

/// Changes the faults in force to `wanted`, or leaves them as they were.
fn transition_to(lab: &mut Lab, wanted: Vec<Fault>) -> Result<(), LabError> {
    let before = std::mem::replace(&mut lab.faults, wanted);
    let reached = apply_transition(lab, &before);
    if reached.is_err() {
        lab.faults = before;
        // The first error is the one worth reading.
        let _ = lab.save(true).and_then(|()| apply::restate_everything(lab));
    }
    reached
}

/// The state is written first: after a command that was killed half way, healing removes the faults that are listed.
fn apply_transition(lab: &Lab, before: &[Fault]) -> Result<(), LabError> {
    lab.save(true)?;
    let gone = |fault: &&Fault| !lab.faults.contains(fault);
    for fault in before.iter().filter(gone) {
        match fault {
            Fault::Flap { cable, .. } => flap::stop(lab, cable)?,
            Fault::Stall { port, .. } => stall::stop(lab, port)?,
            Fault::Freeze { host } => processes::signal(&processes_of(lab, *host), Signal::SIGCONT),
            _ => {}
        }
    }
    let disturbed = newly_disturbed(lab, before);
    for (port, old, _) in disturbed.iter().filter(|(_, old, _)| !old.is_none()) {
        disturb::stop(lab, port, old.longest().into())?;
    }
    // A cable that is just now down because it flaps would refuse the routes through it.
    for fault in before.iter().chain(&lab.faults) {
        if let Fault::Flap { cable, .. } = fault {
            let settled = Lab {
                name: lab.name.clone(),
                wiring: lab.wiring.clone(),
                faults: before.to_vec(),
            };
            apply::restate(&settled, lab.wiring.cable(cable)?.ends[1].node)?;
        }
    }
    apply::difference(lab, before)?;
    for host in 0..lab.wiring.shape.hosts {
        inventory::write(lab, host)?;
    }
    switches::write(lab)?;
    for fault in lab.faults.iter().filter(|fault| !before.contains(fault)) {
        match fault {
            Fault::Flap { cable, .. } => flap::start(lab, cable)?,
            Fault::Stall { port, .. } => stall::start(lab, port)?,
            _ => {}
        }
    }
    let mut now_disturbed = disturbed.iter().filter(|(_, _, new)| !new.is_none());
    now_disturbed.try_for_each(|(port, _, _)| disturb::start(lab, port))
}

/// Ports whose packets are disturbed in another way than before, or no longer, or on another cable: what was and what is done to them.
fn newly_disturbed(lab: &Lab, before: &[Fault]) -> Vec<(Port, Disturbance, Disturbance)> {
    let (old, new) = (lab.wiring.plugged(before), lab.plugged());
    let cables = lab.wiring.cables.iter().zip(old.cables.iter().zip(&new.cables));
    let mut changed: Vec<(Port, Disturbance, Disturbance)> = Vec::new();
    for (cable, (old, new)) in cables {
        let is_moved = old.ends != new.ends;
        for port in &cable.ends {
            let [was, is] = [Faults(before), lab.in_force()].map(|faults| faults.disturbance(port));
            if was != is || is_moved && !is.is_none() {
                changed.push((port.clone(), was, is));
            }
        }
    }
    changed
}

/// What runs on a host: not what keeps up its faults.
fn processes_of(lab: &Lab, host: Node) -> Vec<Pid> {
    let namespace = Path::new(NAMESPACES).join(lab.name.namespace(host));
    let inside = processes::in_namespaces(&[namespace]).into_iter();
    inside.filter(|pid| !keeper::is_keeper(*pid)).collect()
}

/// Refuses faults that this kernel or lab does not support.
fn check_supported(fault: &Fault, lab: &Lab) -> Result<(), LabError> {
    let has_seed = Path::new("/proc/sys").join(config::HASH_SEED).exists();
    match fault {
        Fault::Polarised if !has_seed => Err(LabError::BadFault {
            given: fault.to_string(),
            why: "this kernel has one hash seed for all namespaces (6.11 and later have one each)"
                .to_string(),
        }),
        Fault::Clock { .. } | Fault::Firmware { .. } if lab.wiring.shape.guests.is_some() => {
            Err(LabError::BadFault {
                given: fault.to_string(),
                why: "hosts with kernels of their own have real devices and the machine's clock".to_string(),
            })
        }
        Fault::Stall { port, .. } if !stall::is_possible(lab, port) => Err(LabError::BadFault {
            given: fault.to_string(),
            why: "hosts with kernels of their own send past the shaper: stall the other end".to_string(),
        }),
        Fault::Corrupt { port, .. }
        | Fault::Duplicate { port, .. }
        | Fault::Reorder { port, .. }
        | Fault::Jitter { port, .. }
            if lab.wiring.shape.guests.is_some() && !lab.wiring.port(port)?.node.is_switch() =>
        {
            Err(LabError::BadFault {
                given: fault.to_string(),
                why: "hosts with kernels of their own send past the packet filter: break the other end"
                    .to_string(),
            })
        }
        Fault::Ecn { .. } if lab.wiring.shape.guests.is_some() => Err(LabError::BadFault {
            given: fault.to_string(),
            why: "hosts with kernels of their own do not ask for marks".to_string(),
        }),
        Fault::Jitter { port, .. } => {
            let port = lab.wiring.port(port)?;
            let of_cable = lab.wiring.ports_of(port.node).find(|(here, _)| *here == port);
            let rate = of_cable.map_or(0.0, |(_, cable)| cable.rate.0);
            let frames = rate / f64::from(lab.wiring.shape.mtu);
            match frames > MOST_CARRIED {
                true => Err(LabError::BadFault {
                    given: fault.to_string(),
                    why: format!(
                        "a process carries every packet of this port, at most {MOST_CARRIED} a second: this is {frames:.0} at full rate; use larger frames or a slower lab"
                    ),
                }),
                false => disturb::check(fault, port, lab),
            }
        }
        Fault::Corrupt { port, .. } | Fault::Reorder { port, .. } => {
            disturb::check(fault, lab.wiring.port(port)?, lab)
        }
        Fault::Duplicate { port, percent } => {
            let port = lab.wiring.port(port)?;
            let rule = packets::copy_rule((percent * 1e4) as u32, &port.interface);
            packets::try_rules(fault, lab, port, rule.as_slice())
        }
        Fault::Ecn {
            port,
            above: Some(above),
        } => {
            let port = match port {
                Some(port) => Some(lab.wiring.port(port)?),
                None => lab.wiring.ports().find(|port| port.node.is_switch()),
            };
            let rule = packets::mark_rule(*above, lab.wiring.shape.rate, lab.wiring.shape.mtu);
            port.map_or(Ok(()), |port| packets::try_rules(fault, lab, port, &[rule]))
        }
        _ => Ok(()),
    }
}
