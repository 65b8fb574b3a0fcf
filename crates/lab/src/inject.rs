//! Injecting faults and healing them.

use std::path::Path;

use nix::sys::signal::Signal;

use super::state::NAMESPACES;
use super::suggest::suggestion;
use super::{
    Fault, Lab, LabError, LabName, Node, apply, config, flap, inventory, processes, stall, switches, tools,
};

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
                let namespace = [namespace_path(&lab, *host)];
                if !processes::kill_all(|| processes::in_namespaces(&namespace)) {
                    return Err(LabError::Busy(name.to_string()));
                }
            }
            Fault::Freeze { host } => processes::signal(
                &processes::in_namespaces(&[namespace_path(&lab, *host)]),
                Signal::SIGSTOP,
            ),
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
            Fault::Freeze { host } => processes::signal(
                &processes::in_namespaces(&[namespace_path(lab, *host)]),
                Signal::SIGCONT,
            ),
            _ => {}
        }
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
    Ok(())
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
        _ => Ok(()),
    }
}

fn namespace_path(lab: &Lab, node: Node) -> std::path::PathBuf {
    Path::new(NAMESPACES).join(lab.name.namespace(node))
}
