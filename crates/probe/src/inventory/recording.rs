//! Copying the sources of a machine's inventory so that it can be read anywhere: the files that collectors access, the answers of
//! drivers, and what could not be read.

use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::symlink;
use std::path::{Component, Path, PathBuf};

use serde::Serialize;

use super::driver_answers::{DEVLINK, DriverAnswers, ETHTOOL};
use super::tree::{LONGEST_OWN, Tree, UNREADABLE};
use super::{GPUS, collect};
use record::{InventoryPart, NodeInventory, PartClass};

/// As many links are followed as the kernel follows.
const MOST_LINKS: usize = 40;

/// Records the tree at `root` (`/`: this machine) in a folder, together with its GPUs, which the caller knows. Returns the inventory that
/// the folder now holds.
pub fn record_tree(
    root: &Path,
    into: &Path,
    name: &str,
    gpus: &[InventoryPart],
) -> io::Result<NodeInventory> {
    let tree = Tree::logged(root);
    let (mut node, answers) = collect(&tree, name);
    let root = tree.root().to_path_buf();
    let log = tree.log();
    fs::create_dir_all(into)?;
    for path in &log.read {
        copy(&root, into, path, true)?;
    }
    for path in &log.present {
        copy(&root, into, path, false)?;
    }
    write_answers(into, &answers)?;
    write(into, UNREADABLE, &log.unreadable)?;
    let mut all: Vec<InventoryPart> = node.parts.iter().filter(|part| is_gpu(part)).cloned().collect();
    all.extend_from_slice(gpus);
    if !all.is_empty() {
        write(into, GPUS, &all)?;
    }
    node.parts.extend_from_slice(gpus);
    Ok(node)
}

fn is_gpu(part: &InventoryPart) -> bool {
    part.class == PartClass::Gpu
}

fn write_answers(into: &Path, answers: &DriverAnswers) -> io::Result<()> {
    write(into, DEVLINK, &answers.devices)?;
    for (name, answers) in &answers.interfaces {
        write(into, &format!("{ETHTOOL}/{name}.json"), answers)?;
    }
    Ok(())
}

fn write(into: &Path, path: &str, content: &impl Serialize) -> io::Result<()> {
    let path = into.join(path);
    fs::create_dir_all(path.parent().unwrap_or(into))?;
    fs::write(path, serde_json::to_string_pretty(content)? + "\n")
}

/// Copies one path: every link on the way as a link, and what is at its end, with what is in it or just that it is there.
fn copy(root: &Path, into: &Path, path: &Path, whole: bool) -> io::Result<()> {
    let mut at = PathBuf::new();
    let mut ahead: Vec<PathBuf> = steps(path);
    let mut links = 0;
    while let Some(step) = ahead.pop() {
        if step == Path::new("..") {
            at.pop();
            continue;
        }
        at.push(step);
        let from = root.join(&at);
        let to = into.join(&at);
        match from.symlink_metadata() {
            Err(_) => return Ok(()), // gone, or never there: so it is in the copy
            Ok(found) if found.is_symlink() => {
                links += 1;
                let target = fs::read_link(&from)?;
                let inner = target.strip_prefix(root).ok().filter(|_| target.is_absolute());
                let target = match inner {
                    // Below the root it must lead to the same path wherever the copy is.
                    Some(inner) => at
                        .components()
                        .skip(1)
                        .map(|_| Path::new(".."))
                        .collect::<PathBuf>()
                        .join(inner),
                    None => target,
                };
                if to.symlink_metadata().is_err() {
                    symlink(&target, &to)?;
                }
                if links > MOST_LINKS || target.is_absolute() {
                    return Ok(());
                }
                at.pop();
                ahead.extend(steps(&target));
            }
            Ok(found) if found.is_dir() => fs::create_dir_all(&to)?,
            Ok(found) if found.is_file() => return copy_file(&from, &to, whole),
            Ok(_) => return Ok(()), // not to be read anywhere
        }
    }
    Ok(())
}

/// The steps of a path, the first one last.
fn steps(path: &Path) -> Vec<PathBuf> {
    let steps = path
        .components()
        .filter(|step| !matches!(step, Component::RootDir | Component::CurDir));
    let mut steps: Vec<PathBuf> = steps.map(|step| PathBuf::from(step.as_os_str())).collect();
    steps.reverse();
    steps
}

/// A plain file, and what is in it when that is wanted. One that is there already stays as it is.
fn copy_file(from: &Path, to: &Path, whole: bool) -> io::Result<()> {
    let mut content = Vec::new();
    match (whole, to.exists()) {
        (_, true) => return Ok(()),
        (true, false) => fs::File::open(from)?
            .take(LONGEST_OWN)
            .read_to_end(&mut content)?,
        (false, false) => 0,
    };
    fs::write(to, content)
}
