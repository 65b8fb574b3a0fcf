//! The files of a lab, and the lock that lets one command at a time change it.
//!
//! The lock lies beside the lab's folder and is inherited by the programs that `lab up` starts: after a killed `up`,
//! `lab down` waits for them, so nothing appears behind its back.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, FdFlag, Flock, FlockArg, fcntl};

use super::{LabError, LabName, Node};

/// Where all labs are.
pub const ROOT: &str = "/run/railgauge";
/// How long a command waits for another one on the same lab.
const PATIENCE: Duration = Duration::from_secs(20);

/// The folder of a lab.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Folder {
    name: LabName,
    path: PathBuf,
}

impl Folder {
    /// The folder of a lab, there or not.
    pub fn of(name: &LabName) -> Folder {
        Folder {
            name: name.clone(),
            path: Path::new(ROOT).join("labs").join(name.as_str()),
        }
    }

    /// The labs that have a folder.
    pub fn all() -> Vec<LabName> {
        let entries = std::fs::read_dir(Path::new(ROOT).join("labs"));
        let names = entries
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|entry| entry.file_name().into_string().ok());
        let mut names: Vec<LabName> = names.filter_map(|name| name.parse().ok()).collect();
        names.sort();
        names
    }

    /// The folder itself.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Shape and faults.
    pub fn state(&self) -> PathBuf {
        self.path.join("state.json")
    }

    /// The topology file.
    pub fn topology(&self) -> PathBuf {
        self.path.join("topology.toml")
    }

    /// The inventory of the switches.
    pub fn switch_inventory(&self) -> PathBuf {
        self.path.join("switches.toml")
    }

    /// The names of all hosts, shown to processes as `/etc/hosts`.
    pub fn hosts_file(&self) -> PathBuf {
        self.path.join("hosts.txt")
    }

    /// What belongs to the switches, in a folder for each.
    pub fn switches(&self) -> PathBuf {
        self.path.join("switches")
    }

    /// What belongs to one node.
    pub fn of_node(&self, node: Node) -> PathBuf {
        let kind = match node.is_switch() {
            true => self.switches(),
            false => self.path.join("hosts"),
        };
        kind.join(node.to_string())
    }

    /// A node's folder for temporary files.
    pub fn temporary(&self, node: Node) -> PathBuf {
        self.of_node(node).join("tmp")
    }

    /// The live sysfs of a switch.
    pub fn sysfs(&self, switch: Node) -> PathBuf {
        self.of_node(switch).join("sys")
    }

    /// The fake NICs of a host.
    pub fn nics(&self, host: Node) -> PathBuf {
        self.of_node(host).join("infiniband")
    }

    /// Makes a folder below the lab's.
    pub fn make(&self, path: &Path) -> Result<(), LabError> {
        std::fs::create_dir_all(path).map_err(LabError::system(format!("cannot make {}", path.display())))
    }

    /// Writes a file below the lab's folder, whole or not at all.
    pub fn write(&self, path: &Path, text: &str) -> Result<(), LabError> {
        let new = path.with_extension("new");
        let written = std::fs::write(&new, text).and_then(|()| std::fs::rename(&new, path));
        written.map_err(LabError::system(format!("cannot write {}", path.display())))
    }

    /// Waits for the lab to be free and keeps others out until the lock is dropped.
    pub fn lock(&self) -> Result<Lock, LabError> {
        let folder = Path::new(ROOT).join("locks");
        self.make(&folder)?;
        let path = folder.join(self.name.as_str());
        let until = Instant::now() + PATIENCE;
        loop {
            let file = File::options().create(true).append(true).open(&path);
            let file = file.map_err(LabError::system(format!("cannot open {}", path.display())))?;
            match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
                // The file may have been removed by its last holder between opening and locking.
                Ok(held) if is_at(&held, &path).unwrap_or(false) => return Ok(Lock { held, path }),
                Ok(_) => {}
                Err(_) if Instant::now() > until => return Err(LabError::Busy(self.name.to_string())),
                Err(_) => std::thread::sleep(Duration::from_millis(5)),
            }
        }
    }
}

/// The right to change a lab.
#[derive(Debug)]
pub struct Lock {
    held: Flock<File>,
    path: PathBuf,
}

impl Lock {
    /// Programs started from now on hold the lock too, until they end.
    pub fn pass_on(&self) -> Result<(), LabError> {
        let done = fcntl(&*self.held, FcntlArg::F_SETFD(FdFlag::empty()));
        done.map(drop)
            .map_err(LabError::system("cannot pass on the lab's lock"))
    }

    /// Drops the lock and its file.
    pub fn remove(self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let (held, there) = (file.metadata()?, std::fs::metadata(path)?);
    Ok(held.ino() == there.ino() && held.dev() == there.dev())
}
