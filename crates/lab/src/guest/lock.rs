//! Whether a host runs: a lock that its supervisor takes and its kernel inherits, so that it lasts as long as either.
//!
//! Looking at it never takes it: one who looks at the wrong moment would send a supervisor away that found it taken.

use std::fs::File;
use std::io;
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::libc;

/// Holds the lock until it and every process that inherited it are gone.
pub struct LockGuard(File);

impl LockGuard {
    /// Lets the processes that are started from now on hold it, too.
    pub fn pass_on(&self) -> io::Result<()> {
        fcntl(&self.0, FcntlArg::F_SETFD(FdFlag::empty()))?;
        Ok(())
    }
}

/// Takes the lock; none when another process holds it.
pub fn take(path: &Path) -> io::Result<Option<LockGuard>> {
    let file = open(path)?;
    match fcntl(&file, FcntlArg::F_OFD_SETLK(&whole_file())) {
        Ok(_) => Ok(Some(LockGuard(file))),
        Err(Errno::EAGAIN | Errno::EACCES) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Whether a process holds the lock.
pub fn is_taken(path: &Path) -> io::Result<bool> {
    look(&open(path)?)
}

fn look(file: &File) -> io::Result<bool> {
    let mut asked = whole_file();
    fcntl(file, FcntlArg::F_OFD_GETLK(&mut asked))?;
    Ok(i32::from(asked.l_type) != libc::F_UNLCK)
}

fn open(path: &Path) -> io::Result<File> {
    File::options().create(true).append(true).open(path)
}

#[allow(
    clippy::cast_possible_truncation,
    reason = "two small constants whose types differ between systems"
)]
fn whole_file() -> libc::flock {
    libc::flock {
        l_type: libc::F_WRLCK as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: 0,
        l_len: 0,
        l_pid: 0,
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn one_who_looks_never_stands_in_the_way_of_one_who_takes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kernel.lock");
        let looking = open(&path).unwrap();
        assert!(!look(&looking).unwrap());
        assert!(take(&path).unwrap().is_some(), "whoever looks has not gone yet");
    }

    #[test]
    fn a_lock_is_seen_and_not_given_twice_while_it_is_held() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kernel.lock");
        let held = take(&path).unwrap();
        assert!(held.is_some());
        assert!(is_taken(&path).unwrap());
        assert!(take(&path).unwrap().is_none());
        drop(held);
        // Another test may just be starting a process, which has all files of this one for a moment.
        let soon = Instant::now() + Duration::from_secs(10);
        while is_taken(&path).unwrap() {
            assert!(Instant::now() < soon, "it is never given back");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn a_process_that_it_was_passed_on_to_holds_it_as_long_as_it_lives() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kernel.lock");
        let held = take(&path).unwrap().unwrap();
        held.pass_on().unwrap();
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        drop(held);
        assert!(is_taken(&path).unwrap());
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
