//! The files of a machine, or of one that was recorded: every read of a collector goes through here.
//!
//! Whatever is there, reading ends: only plain files are opened, and no more is read than anything of its kind has. What is gone
//! is told from what cannot be read. A recorded tree is read as it lies there: links that lead out of it are not followed, and what
//! could not be read where it was recorded says so here, too.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use nix::libc;

use super::super::sysfs::is_name;
use super::read::{of, read, unreadable};
use record::Fact;

/// No attribute is longer: more is not one.
const LONGEST: u64 = 4096;
/// No folder has more in it, and none more that is wanted.
const MOST_NAMES: usize = 65_536;
const MOST_WANTED: usize = 4096;
/// Where recorded trees say what could not be read.
pub(super) const UNREADABLE: &str = "railgauge/unreadable.json";
/// Longest of our own files in a recorded tree.
pub(super) const LONGEST_OWN: u64 = 16 << 20;

/// What collectors looked at, to be copied.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// Files that were read and links that were followed.
    pub(super) read: BTreeSet<PathBuf>,
    /// Whatever was only seen to be there.
    pub(super) there: BTreeSet<PathBuf>,
    /// What could not be read.
    pub(super) unreadable: BTreeMap<String, Fact>,
}

/// All files below a root.
pub(super) struct Tree {
    root: PathBuf,
    /// Whether this is the machine itself.
    is_live: bool,
    /// What could not be read where it was recorded, by path.
    unreadable: BTreeMap<String, Fact>,
    /// Why that is not known.
    trouble: Option<Fact>,
    seen: Option<Mutex<Seen>>,
    /// Folders of a recorded tree, and whether they are in it.
    folders: Mutex<HashMap<PathBuf, Result<(), Fact>>>,
}

impl Tree {
    /// The tree at a root: of this machine when that is `/`.
    pub(super) fn open(root: &Path) -> Tree {
        let root = root.canonicalize().unwrap_or_else(|_| root.to_path_buf());
        let mut tree = Tree {
            is_live: root == Path::new("/"),
            root,
            unreadable: BTreeMap::new(),
            trouble: None,
            seen: None,
            folders: Mutex::default(),
        };
        if !tree.is_live {
            match tree.own(UNREADABLE) {
                Ok(unreadable) => tree.unreadable = unreadable,
                Err(Fact::Absent) => {}
                Err(fact) => tree.trouble = Some(fact),
            }
        }
        tree
    }

    /// The same, and it keeps in mind what is looked at.
    pub(super) fn watched(root: &Path) -> Tree {
        Tree {
            seen: Some(Mutex::default()),
            ..Tree::open(root)
        }
    }

    /// What was looked at.
    pub(super) fn seen(self) -> Seen {
        let seen = self
            .seen
            .map(|seen| seen.into_inner().unwrap_or_else(|held| held.into_inner()));
        seen.unwrap_or_default()
    }

    /// Whether it is this machine and no recorded tree.
    pub(super) fn is_live(&self) -> bool {
        self.is_live
    }

    /// Where it is.
    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// Why it is not known what could not be read where it was recorded.
    pub(super) fn trouble(&self) -> Option<&Fact> {
        self.trouble.as_ref()
    }

    /// The text of a small file, without the white space around it.
    pub(super) fn fact(&self, path: impl AsRef<Path>) -> Fact {
        self.text(path, LONGEST).map_or_else(|fact| fact, Fact::Value)
    }

    /// The same of a file that has nothing in it when there is nothing to say.
    pub(super) fn fact_or_nothing(&self, path: impl AsRef<Path>) -> Fact {
        match self.bytes(&path, LONGEST) {
            Ok(bytes) if bytes.is_empty() => Fact::Absent,
            _ => self.fact(path),
        }
    }

    /// The text of a file of at most so many bytes, without the white space around it.
    pub(super) fn text(&self, path: impl AsRef<Path>, most: u64) -> Result<String, Fact> {
        let bytes = self.bytes(path, most)?;
        if bytes.is_empty() {
            return Err(unreadable("it is empty"));
        }
        let text = String::from_utf8(bytes).map_err(|_| unreadable("it is not text"))?;
        match text.trim() {
            "" => Err(Fact::Absent),
            text => Ok(text.to_string()),
        }
    }

    /// At most `most` bytes of a file; the fact that it is absent or unreadable otherwise.
    pub(super) fn bytes(&self, path: impl AsRef<Path>, most: u64) -> Result<Vec<u8>, Fact> {
        self.watch(path.as_ref(), |place| read(place, most))
    }

    /// One of our own files in a recorded tree.
    pub(super) fn own<T: serde::de::DeserializeOwned>(&self, path: impl AsRef<Path>) -> Result<T, Fact> {
        let bytes = self
            .place(path.as_ref())
            .and_then(|place| read(&place, LONGEST_OWN))?;
        serde_json::from_slice(&bytes)
            .map_err(|error| unreadable(&format!("{}: {error}", path.as_ref().display())))
    }

    /// The name of what a link leads to: drivers, devices and the like are told that way.
    pub(super) fn link_name(&self, path: impl AsRef<Path>) -> Fact {
        let name = self.watch(path.as_ref(), |place| {
            let target = std::fs::read_link(place).map_err(|error| match error.raw_os_error() {
                Some(libc::EINVAL) => unreadable("it is no link"),
                _ => of(place, &error),
            })?;
            let name = target.file_name().and_then(|name| name.to_str());
            name.map(str::to_string)
                .ok_or_else(|| unreadable("it leads nowhere"))
        });
        name.map_or_else(|fact| fact, Fact::Value)
    }

    /// The names in a folder that are wanted, in order. A folder that is not there has none.
    pub(super) fn names(
        &self,
        path: impl AsRef<Path>,
        wanted: impl Fn(&str) -> bool,
    ) -> Result<Vec<String>, Fact> {
        let path = path.as_ref();
        let names = self.watch(path, |place| {
            let folder = std::fs::read_dir(place).map_err(|error| of(place, &error))?;
            let name = |entry: std::io::Result<std::fs::DirEntry>| {
                entry.map(|entry| entry.file_name().to_string_lossy().into_owned())
            };
            let names: std::io::Result<Vec<String>> = folder.take(MOST_NAMES + 1).map(name).collect();
            let names = names.map_err(|error| of(place, &error))?;
            match names.len() > MOST_NAMES {
                true => Err(unreadable("there is more in it than in anything of its kind")),
                false => Ok(names),
            }
        });
        let mut names = match names {
            Err(Fact::Absent) => Vec::new(),
            names => names?,
        };
        names.retain(|name| is_name(name) && wanted(name));
        if names.len() > MOST_WANTED {
            return Err(unreadable("there is more in it than in anything of its kind"));
        }
        names.sort();
        for name in &names {
            self.note(&path.join(name));
        }
        Ok(names)
    }

    /// Whether something of that name is there, whatever it is.
    pub(super) fn has(&self, path: impl AsRef<Path>) -> bool {
        self.note(path.as_ref());
        let place = self.place(path.as_ref());
        place.is_ok_and(|place| place.symlink_metadata().is_ok())
    }

    /// Where something really is, below the root; none when links lead nowhere or out of the tree.
    pub(super) fn real(&self, path: impl AsRef<Path>) -> Option<PathBuf> {
        self.note(path.as_ref());
        let real = self.root.join(path).canonicalize().ok()?;
        real.strip_prefix(&self.root).ok().map(Path::to_path_buf)
    }

    /// Looks at a place and keeps in mind that it did.
    fn watch<T>(&self, path: &Path, look: impl Fn(&Path) -> Result<T, Fact>) -> Result<T, Fact> {
        let known = path.to_str().and_then(|path| self.unreadable.get(path));
        let found = match known {
            Some(fact) => Err(fact.clone()),
            None => self.place(path).and_then(|place| look(&place)),
        };
        if let Some(Ok(mut seen)) = self.seen.as_ref().map(Mutex::lock) {
            match &found {
                Ok(_) => {
                    seen.read.insert(path.to_path_buf());
                }
                Err(fact @ Fact::Unreadable { .. }) => {
                    seen.unreadable
                        .insert(path.to_string_lossy().into_owned(), fact.clone());
                    seen.there.insert(path.to_path_buf());
                }
                // A file may be there whose driver has nothing to say: then it is not in the copy.
                Err(_) => {}
            }
        }
        found
    }

    /// Keeps in mind that something is there.
    fn note(&self, path: &Path) {
        if let Some(Ok(mut seen)) = self.seen.as_ref().map(Mutex::lock) {
            seen.there.insert(path.to_path_buf());
        }
    }

    /// The place to look at; links of a recorded tree that lead out of it are not followed.
    fn place(&self, path: &Path) -> Result<PathBuf, Fact> {
        let place = self.root.join(path);
        if self.is_live {
            return Ok(place);
        }
        self.inside(place.parent().unwrap_or(&place))?;
        // The last step may be a link that is only read, and may lead nowhere. What is no link is where its folder is.
        match place.symlink_metadata() {
            Ok(found) if found.is_symlink() => match place.canonicalize() {
                Ok(real) if !real.starts_with(&self.root) => Err(unreadable("it leads out of the tree")),
                _ => Ok(place),
            },
            _ => Ok(place),
        }
    }

    /// Whether a folder of a recorded tree is in it; what is found out is kept, since many files are in one folder.
    fn inside(&self, folder: &Path) -> Result<(), Fact> {
        let known = self
            .folders
            .lock()
            .ok()
            .and_then(|folders| folders.get(folder).cloned());
        if let Some(known) = known {
            return known;
        }
        let outside = || Err(unreadable("it leads out of the tree"));
        let found = match folder.canonicalize() {
            Ok(real) if real.starts_with(&self.root) => Ok(()),
            Ok(_) => outside(),
            Err(error) => {
                // Of a folder that is not there, what is there of the way to it tells where it would be.
                let there = folder
                    .ancestors()
                    .skip(1)
                    .find_map(|folder| folder.canonicalize().ok());
                match there.is_some_and(|there| !there.starts_with(&self.root)) {
                    true => outside(),
                    false => Err(of(folder, &error)),
                }
            }
        };
        if let Ok(mut folders) = self.folders.lock() {
            folders.insert(folder.to_path_buf(), found.clone());
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn why(fact: Fact) -> String {
        match fact {
            Fact::Unreadable { why, .. } => why,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_is_there_is_told_from_what_is_not_and_from_what_cannot_be_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        std::fs::write(path("fw_ver"), "28.39.1002\n").unwrap();
        std::fs::write(path("blank"), "\n").unwrap();
        std::fs::write(path("empty"), "").unwrap();
        std::fs::write(path("binary"), [0xff, 0xfe, 0x00]).unwrap();
        std::fs::write(path("huge"), vec![b'x'; 5000]).unwrap();
        std::fs::create_dir(path("folder")).unwrap();
        symlink("round", path("round")).unwrap();
        symlink("nowhere", path("dangling")).unwrap();
        nix::unistd::mkfifo(&path("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        let tree = Tree::open(folder.path());
        assert_eq!(tree.fact("fw_ver"), Fact::Value("28.39.1002".to_string()));
        assert_eq!(tree.fact("blank"), Fact::Absent);
        assert_eq!(tree.fact("nowhere"), Fact::Absent);
        assert_eq!(tree.fact_or_nothing("empty"), Fact::Absent);
        for name in ["empty", "binary", "huge", "folder", "round", "pipe", "dangling"] {
            assert!(!why(tree.fact(name)).is_empty(), "{name}");
        }
        for name in ["fw_ver/below", "dangling/below", "round/below"] {
            assert!(!why(tree.fact(name)).is_empty(), "{name}");
        }
    }

    #[test]
    fn a_folder_that_cannot_be_listed_is_not_an_empty_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        std::fs::create_dir_all(path("net/eth0")).unwrap();
        std::fs::write(path("file"), "").unwrap();
        symlink("round", path("round")).unwrap();
        let tree = Tree::open(folder.path());
        assert_eq!(tree.names("net", |_| true), Ok(vec!["eth0".to_string()]));
        assert_eq!(tree.names("nowhere", |_| true), Ok(Vec::new()));
        assert!(tree.names("file", |_| true).is_err());
        assert!(tree.names("round", |_| true).is_err());
    }

    #[test]
    fn a_recorded_tree_does_not_lead_to_files_of_this_machine() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        symlink("/etc/passwd", path("fw_ver")).unwrap();
        symlink("/proc", path("proc")).unwrap();
        let tree = Tree::open(folder.path());
        assert_eq!(why(tree.fact("fw_ver")), "it leads out of the tree");
        assert_eq!(why(tree.fact("proc/cmdline")), "it leads out of the tree");
        assert!(tree.names("proc", |_| true).is_err());
        assert_eq!(tree.real("proc/cmdline"), None);
    }

    #[test]
    fn what_could_not_be_read_where_it_was_recorded_cannot_be_read_here() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("railgauge")).unwrap();
        let hidden = r#"{"serial": {"unreadable": {"why": "permission denied", "needs": "root"}}}"#;
        std::fs::write(folder.path().join(UNREADABLE), hidden).unwrap();
        let tree = Tree::open(folder.path());
        assert_eq!(why(tree.fact("serial")), "permission denied");
        assert_eq!(tree.fact("other"), Fact::Absent);
        std::fs::write(folder.path().join(UNREADABLE), "{").unwrap();
        assert!(Tree::open(folder.path()).trouble().is_some());
    }
}
