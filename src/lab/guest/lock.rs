//! The mark that a host runs: a lock that its keeper takes and its kernel inherits, so that it lasts as long as either.
//!
//! Looking at it never takes it: one who looks at the wrong moment would send a keeper away that found it taken.

use std::fs::File;
use std::io;
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::libc;

/// Holds the lock until it and every process that inherited it are gone.
pub struct Held(#[allow(dead_code, reason = "held, not read")] File);

/// Takes the lock for this process and those it starts; none when somebody has it.
pub fn take(path: &Path) -> io::Result<Option<Held>> {
    let file = open(path)?;
    match fcntl(&file, FcntlArg::F_OFD_SETLK(&whole_file())) {
        Ok(_) => {}
        Err(Errno::EAGAIN | Errno::EACCES) => return Ok(None),
        Err(error) => return Err(error.into()),
    }
    fcntl(&file, FcntlArg::F_SETFD(FdFlag::empty()))?;
    Ok(Some(Held(file)))
}

/// Whether somebody has the lock.
pub fn is_taken(path: &Path) -> io::Result<bool> {
    let mut asked = whole_file();
    fcntl(&open(path)?, FcntlArg::F_OFD_GETLK(&mut asked))?;
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
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn one_who_looks_never_stands_in_the_way_of_one_who_takes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kernel.lock");
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    is_taken(&path).unwrap();
                }
            });
            let sent_away = (0..20_000).filter(|_| take(&path).unwrap().is_none()).count();
            done.store(true, Ordering::Relaxed);
            assert_eq!(sent_away, 0);
        });
    }

    #[test]
    fn a_lock_is_seen_and_not_given_twice_while_it_is_held() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kernel.lock");
        assert!(!is_taken(&path).unwrap());
        let held = take(&path).unwrap();
        assert!(held.is_some());
        assert!(is_taken(&path).unwrap());
        assert!(take(&path).unwrap().is_none());
        drop(held);
        assert!(!is_taken(&path).unwrap());
    }
}
