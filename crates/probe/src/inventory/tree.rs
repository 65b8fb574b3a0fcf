//! The files of a machine, or of one that was recorded: every read of a collector goes through here.
//!
//! Reading always ends: only plain files are opened, with a limit on their length. An absent file is distinguished from an
//! unreadable one. In a recorded tree links that lead out of it are not followed, and what could not be read where it was recorded
//! is unreadable here, too.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use nix::libc;

use super::super::sysfs::is_name;
use super::read::{of, read, unreadable};
use record::Fact;

/// The longest attribute.
const LONGEST: u64 = 4096;
/// The most names in a folder, and the most of them that are wanted.
const MOST_NAMES: usize = 65_536;
const MOST_WANTED: usize = 4096;
/// Where recorded trees say what could not be read.
pub(super) const UNREADABLE: &str = "railgauge/unreadable.json";
/// The longest of our own files in a recorded tree.
pub(super) const LONGEST_OWN: u64 = 16 << 20;

/// The paths that collectors accessed, to be copied.
#[derive(Debug, Default)]
pub(super) struct AccessLog {
    /// Files that were read and links that were followed.
    pub(super) read: BTreeSet<PathBuf>,
    /// Paths whose existence alone matters.
    pub(super) present: BTreeSet<PathBuf>,
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
    recording_error: Option<Fact>,
    log: Option<Mutex<AccessLog>>,
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
            recording_error: None,
            log: None,
            folders: Mutex::default(),
        };
        if !tree.is_live {
            match tree.own_file(UNREADABLE) {
                Ok(unreadable) => tree.unreadable = unreadable,
                Err(Fact::Absent) => {}
                Err(fact) => tree.recording_error = Some(fact),
            }
        }
        tree
    }

    /// The same, with a log of all accesses.
    pub(super) fn logged(root: &Path) -> Tree {
        Tree {
            log: Some(Mutex::default()),
            ..Tree::open(root)
        }
    }

    /// The log of accesses.
    pub(super) fn log(self) -> AccessLog {
        let log = self
            .log
            .map(|log| log.into_inner().unwrap_or_else(|held| held.into_inner()));
        log.unwrap_or_default()
    }

    /// Whether it is this machine, not a recorded tree.
    pub(super) fn is_live(&self) -> bool {
        self.is_live
    }

    /// Where it is.
    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// Why it is not known what could not be read where it was recorded.
    pub(super) fn recording_error(&self) -> Option<&Fact> {
        self.recording_error.as_ref()
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
        self.access(path.as_ref(), |place| read(place, most))
    }

    /// One of our own files in a recorded tree.
    pub(super) fn own_file<T: serde::de::DeserializeOwned>(&self, path: impl AsRef<Path>) -> Result<T, Fact> {
        let bytes = self
            .place(path.as_ref())
            .and_then(|place| read(&place, LONGEST_OWN))?;
        serde_json::from_slice(&bytes)
            .map_err(|error| unreadable(&format!("{}: {error}", path.as_ref().display())))
    }

    /// The file name of a link's target: how sysfs names drivers and devices.
    pub(super) fn link_name(&self, path: impl AsRef<Path>) -> Fact {
        let name = self.access(path.as_ref(), |place| {
            let target = std::fs::read_link(place).map_err(|error| match error.raw_os_error() {
                Some(libc::EINVAL) => unreadable("it is not a link"),
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
        let names = self.access(path, |place| {
            let folder = std::fs::read_dir(place).map_err(|error| of(place, &error))?;
            let name = |entry: std::io::Result<std::fs::DirEntry>| {
                entry.map(|entry| entry.file_name().to_string_lossy().into_owned())
            };
            let names: std::io::Result<Vec<String>> = folder.take(MOST_NAMES + 1).map(name).collect();
            let names = names.map_err(|error| of(place, &error))?;
            match names.len() > MOST_NAMES {
                true => Err(unreadable("too many entries")),
                false => Ok(names),
            }
        });
        let mut names = match names {
            Err(Fact::Absent) => Vec::new(),
            names => names?,
        };
        names.retain(|name| is_name(name) && wanted(name));
        if names.len() > MOST_WANTED {
            return Err(unreadable("too many entries"));
        }
        names.sort();
        for name in &names {
            self.log_presence(&path.join(name));
        }
        Ok(names)
    }

    /// Whether something of that name is there, whatever it is.
    pub(super) fn has(&self, path: impl AsRef<Path>) -> bool {
        self.log_presence(path.as_ref());
        let place = self.place(path.as_ref());
        place.is_ok_and(|place| place.symlink_metadata().is_ok())
    }

    /// Where something really is, below the root; none when links lead nowhere or out of the tree.
    pub(super) fn real(&self, path: impl AsRef<Path>) -> Option<PathBuf> {
        self.log_presence(path.as_ref());
        let real = self.root.join(path).canonicalize().ok()?;
        real.strip_prefix(&self.root).ok().map(Path::to_path_buf)
    }

    /// Accesses a path and logs it.
    fn access<T>(&self, path: &Path, look: impl Fn(&Path) -> Result<T, Fact>) -> Result<T, Fact> {
        let known = path.to_str().and_then(|path| self.unreadable.get(path));
        let found = match known {
            Some(fact) => Err(fact.clone()),
            None => self.place(path).and_then(|place| look(&place)),
        };
        if let Some(Ok(mut log)) = self.log.as_ref().map(Mutex::lock) {
            match &found {
                Ok(_) => {
                    log.read.insert(path.to_path_buf());
                }
                Err(fact @ Fact::Unreadable { .. }) => {
                    log.unreadable
                        .insert(path.to_string_lossy().into_owned(), fact.clone());
                    log.present.insert(path.to_path_buf());
                }
                // A file may exist while its driver has no value: then it is not in the copy.
                Err(_) => {}
            }
        }
        found
    }

    /// Logs that only the existence of a path matters.
    fn log_presence(&self, path: &Path) {
        if let Some(Ok(mut log)) = self.log.as_ref().map(Mutex::lock) {
            log.present.insert(path.to_path_buf());
        }
    }

    /// The place to look at; links of a recorded tree that lead out of it are not followed.
    fn place(&self, path: &Path) -> Result<PathBuf, Fact> {
        let place = self.root.join(path);
        if self.is_live {
            return Ok(place);
        }
        self.check_inside(place.parent().unwrap_or(&place))?;
        // The last component may be a link that is only read, and may dangle.
        match place.symlink_metadata() {
            Ok(found) if found.is_symlink() => match place.canonicalize() {
                Ok(real) if !real.starts_with(&self.root) => Err(unreadable("it leads out of the tree")),
                _ => Ok(place),
            },
            _ => Ok(place),
        }
    }

    /// Whether a folder of a recorded tree is in it; cached, since many files are in one folder.
    fn check_inside(&self, folder: &Path) -> Result<(), Fact> {
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
                // An absent folder is where its nearest existing ancestor is.
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
        assert!(Tree::open(folder.path()).recording_error().is_some());
    }
}
