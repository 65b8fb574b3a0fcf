//! Recorded trees are broken in a thousand ways, one at a time: reading always ends, and what was broken is told.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::tree::Tree;
use super::{collect, of_tree};
use record::{Fact, NodeInventory, PartClass};

const CORRUPTIONS: usize = 1000;
const SEED: u64 = 8;
/// The small ones: a tree of eight NICs breaks in no other way than one of four.
const TREES: [&str; 5] = ["half-width", "port-down", "roce-bond", "soft-roce", "no-rdma"];

/// A recorded tree of the tests' own_file, or this machine's for `/`.
pub(super) fn tree_of(name: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        .join("tests/data/inventory")
        .join(name) // an absolute name stays what it is
}

/// What may happen to a file, folder or link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Corruption {
    Removed,
    Renamed,
    Empty,
    Truncated,
    Binary,
    Huge,
    Endless,
    Escapes,
    NotPermitted,
    Folder,
    Deep,
    Pipe,
    Dangling,
    Loop,
    Outside,
}

use Corruption::*;

const OF_FILES: [Corruption; 15] = [
    Removed,
    Renamed,
    Empty,
    Truncated,
    Binary,
    Huge,
    Endless,
    Escapes,
    NotPermitted,
    Folder,
    Deep,
    Pipe,
    Dangling,
    Loop,
    Outside,
];
const OF_OTHERS: [Corruption; 10] = [
    Removed,
    Renamed,
    Binary,
    Escapes,
    NotPermitted,
    Folder,
    Pipe,
    Dangling,
    Loop,
    Outside,
];
const EVIL_NAME: &str = "\u{1b}]0;x\u{7}<b>$(id)`";
const EVIL_TEXT: &str = "\u{1b}[31m<script>alert(1)</script>$(reboot)\n";

/// One broken thing, mended when it goes.
struct Broken {
    place: PathBuf,
    aside: PathBuf,
    renamed: Option<PathBuf>,
}

impl Broken {
    fn new(place: &Path, aside: &Path, corruption: Corruption, random: &mut ChaCha8Rng) -> Broken {
        let before = fs::read(place).unwrap_or_default();
        fs::rename(place, aside).unwrap();
        let mut renamed = None;
        match corruption {
            Removed => {}
            Renamed => {
                let name = place.with_file_name(EVIL_NAME);
                let copied = fs::symlink_metadata(aside).unwrap();
                match copied.is_symlink() {
                    true => symlink(fs::read_link(aside).unwrap(), &name).unwrap(),
                    false if copied.is_file() => fs::write(&name, before).unwrap(),
                    false => fs::create_dir(&name).unwrap(),
                }
                renamed = Some(name);
            }
            Empty => fs::write(place, "").unwrap(),
            Truncated => fs::write(place, &before[..before.len() / 2]).unwrap(),
            Binary => {
                let bytes: Vec<u8> = (0..300).map(|_| random.random_range(0x80..=0xff)).collect();
                fs::write(place, bytes).unwrap();
            }
            Huge => fs::write(place, vec![b'7'; 100_000]).unwrap(),
            Endless => {
                let file = fs::File::create(place).unwrap();
                file.set_len(1 << 40).unwrap();
            }
            Escapes => fs::write(place, EVIL_TEXT).unwrap(),
            NotPermitted => {
                fs::write(place, "hidden").unwrap();
                fs::set_permissions(place, fs::Permissions::from_mode(0o000)).unwrap();
            }
            Folder => fs::create_dir(place).unwrap(),
            Deep => {
                let deep: PathBuf = (0..100).fold(place.to_path_buf(), |path, _| path.join("deeper"));
                fs::create_dir_all(deep).unwrap();
            }
            Pipe => nix::unistd::mkfifo(place, nix::sys::stat::Mode::S_IRWXU).unwrap(),
            Dangling => symlink("no/such/place", place).unwrap(),
            Loop => symlink(place.file_name().unwrap(), place).unwrap(),
            Outside => symlink("/etc", place).unwrap(),
        }
        Broken {
            place: place.to_path_buf(),
            aside: aside.to_path_buf(),
            renamed,
        }
    }
}

impl Drop for Broken {
    fn drop(&mut self) {
        for place in [Some(&self.place), self.renamed.as_ref()].into_iter().flatten() {
            match fs::symlink_metadata(place) {
                Ok(found) if found.is_dir() => fs::remove_dir_all(place).unwrap(),
                Ok(_) => fs::remove_file(place).unwrap(),
                Err(_) => {}
            }
        }
        fs::rename(&self.aside, &self.place).unwrap();
    }
}

/// Everything in a tree, folders and links included.
fn everything(root: &Path, found: &mut Vec<PathBuf>) {
    let mut entries: Vec<PathBuf> = fs::read_dir(root)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    entries.sort();
    for path in entries {
        if fs::symlink_metadata(&path).unwrap().is_dir() {
            everything(&path, found);
        }
        found.push(path);
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        match entry.file_type().unwrap() {
            kind if kind.is_symlink() => symlink(fs::read_link(from).unwrap(), to).unwrap(),
            kind if kind.is_dir() => copy(&from, &to),
            _ => drop(fs::copy(from, to).unwrap()),
        }
    }
}

/// The files whose content makes a difference, where they really are.
fn read_by_collectors(root: &Path) -> BTreeSet<PathBuf> {
    let tree = Tree::logged(root);
    collect(&tree, "node");
    let mut read: BTreeSet<PathBuf> = tree.log().read.iter().map(|path| root.join(path)).collect();
    let own_file = |path: &PathBuf| path.starts_with(root.join("railgauge"));
    let mut all = Vec::new();
    everything(root, &mut all);
    read.extend(all.into_iter().filter(own_file));
    let files = read.iter().filter(|path| path.is_file());
    files.map(|path| path.canonicalize().unwrap()).collect()
}

type Facts = BTreeMap<(PartClass, String, String), Fact>;

fn facts(node: &NodeInventory) -> Facts {
    let one = |part: &record::InventoryPart| {
        let (class, name) = (part.class, part.name.clone());
        let facts = part.facts.clone().into_iter();
        facts
            .map(move |(fact, value)| ((class, name.clone(), fact), value))
            .collect::<Vec<_>>()
    };
    node.parts.iter().flat_map(one).collect()
}

/// Whether a reader of the inventory sees that something is different: another value, or a reason why there is none.
fn is_told(before: &Facts, after: &Facts) -> bool {
    after
        .iter()
        .any(|(name, fact)| *fact != Fact::Absent && before.get(name) != Some(fact))
}

/// Whether something that was known is now gone without a reason.
fn is_lost(before: &Facts, after: &Facts) -> bool {
    let is_gone = |name: &(PartClass, String, String)| matches!(after.get(name), None | Some(Fact::Absent));
    before
        .iter()
        .any(|(name, fact)| fact.value().is_some() && is_gone(name))
}

/// Whether breaking a file that way need not show: what is read of it may be what is left of it, or nothing in it a value as well.
fn may_pass(place: &Path, corruption: Corruption) -> bool {
    let ends = |name: &str| place.ends_with(name);
    let is_short = |place: &Path| fs::read(place).is_ok_and(|content| content.trim_ascii().len() < 2);
    match corruption {
        Removed | Renamed => true,
        // A digit is left of a digit and the end of its line.
        Truncated if is_short(place) => true,
        // Root reads it all the same, and then it is another value.
        Truncated if ends("config") => true,
        Empty | Truncated if ends("bonding/slaves") || ends("bonding/active_slave") => true,
        // Nothing on this machine has a place on a bus to tell of.
        _ if ends("soft-roce/railgauge/devlink.json") => true,
        _ => false,
    }
}

#[test]
fn a_thousand_broken_trees_are_read_to_the_end_and_say_what_is_broken() {
    let mut random = ChaCha8Rng::seed_from_u64(SEED);
    let folder = tempfile::tempdir().unwrap();
    let aside = folder.path().join("aside");
    let trees: Vec<(PathBuf, Vec<PathBuf>, BTreeSet<PathBuf>, Facts)> = TREES
        .iter()
        .map(|name| {
            let root = folder.path().join(name);
            copy(&tree_of(name), &root);
            let root = root.canonicalize().unwrap();
            let mut all = Vec::new();
            everything(&root, &mut all);
            let read = read_by_collectors(&root);
            let before = facts(&of_tree(&root, "node"));
            (root, all, read, before)
        })
        .collect();
    let mut told = 0;
    let mut failures = Vec::new();
    for _ in 0..CORRUPTIONS {
        let (root, all, read, before) = trees.choose(&mut random).unwrap();
        let place = all.choose(&mut random).unwrap();
        let is_file = fs::symlink_metadata(place).unwrap().is_file();
        let kinds: &[Corruption] = if is_file { &OF_FILES } else { &OF_OTHERS };
        let corruption = *kinds.choose(&mut random).unwrap();
        let broken = Broken::new(place, &aside, corruption, &mut random);
        let after = facts(&of_tree(root, "node"));
        drop(broken);
        let what = format!(
            "{} {corruption:?}",
            place.strip_prefix(folder.path()).unwrap_or(place).display()
        );
        let is_told = is_told(before, &after);
        told += usize::from(is_told);
        if may_pass(place, corruption) {
            continue;
        }
        if read.contains(place) && !is_told {
            failures.push(format!("{what}: not reported"));
        }
        // A folder in the place of another is one whose content was removed.
        let is_removed = corruption == Folder && !is_file;
        if is_lost(before, &after) && !is_removed && !is_told {
            failures.push(format!("{what}: it vanished"));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(told > CORRUPTIONS / 3, "only {told} showed");
    for (root, _, _, before) in &trees {
        assert_eq!(facts(&of_tree(root, "node")), *before, "trees are as they were");
    }
}
