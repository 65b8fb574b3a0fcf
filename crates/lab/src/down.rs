//! `lab down`: nothing of a lab is left, however it ended. Works from the name alone and may be repeated.

use std::path::PathBuf;

use nix::mount::{MntFlags, umount2};

use super::folder::Folder;
use super::state::namespaces;
use super::{LabError, LabName, processes, tools};

/// Removes a lab; whether there was anything to remove.
pub fn down(name: &LabName) -> Result<bool, LabError> {
    tools::be_root()?;
    let lock = Folder::of(name).lock()?;
    let was_there = name.is_somewhere();
    remove(name)?;
    lock.remove();
    Ok(was_there)
}

/// Removes all labs of this machine; their names.
pub fn down_all() -> Result<Vec<LabName>, LabError> {
    tools::be_root()?;
    let mut names = Folder::all();
    names.extend(namespaces().into_iter().map(|(lab, _, _)| lab));
    names.sort();
    names.dedup();
    names.iter().try_for_each(|name| down(name).map(drop))?;
    Ok(names)
}

/// Kills, unmounts, removes. The caller holds the lab's lock.
pub(super) fn remove(name: &LabName) -> Result<(), LabError> {
    let ours = namespaces().into_iter().filter(|(lab, _, _)| lab == name);
    let ours: Vec<PathBuf> = ours.map(|(_, _, path)| path).collect();
    let gone = processes::kill_all(|| processes::in_namespaces(&ours));
    let folder = Folder::of(name);
    // Innermost first; a mount that is busy is taken out of sight and ends with its last user.
    for place in mounts_below(folder.path()).into_iter().rev() {
        let _ = umount2(&place, MntFlags::MNT_DETACH);
    }
    for path in ours {
        let _ = umount2(&path, MntFlags::MNT_DETACH);
        std::fs::remove_file(&path).map_err(LabError::system(format!("cannot remove {}", path.display())))?;
    }
    match std::fs::remove_dir_all(folder.path()) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        done => done.map_err(LabError::system(format!(
            "cannot remove {}",
            folder.path().display()
        )))?,
    }
    match gone {
        true => Ok(()),
        false => Err(LabError::Busy(name.to_string())),
    }
}

/// Where something is mounted below `folder`, in the order of mounting.
fn mounts_below(folder: &std::path::Path) -> Vec<PathBuf> {
    let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let places = table
        .lines()
        .filter_map(|line| line.split(' ').nth(4))
        .map(PathBuf::from);
    places.filter(|place| place.starts_with(folder)).collect()
}
