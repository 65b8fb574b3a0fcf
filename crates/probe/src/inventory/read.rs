//! Reading at one place: whatever is there, it ends, and what the system answers says whether something is gone or cannot be read.

use std::fs::File;
use std::io::{Error, ErrorKind, Read};
use std::path::Path;

use nix::libc;

use record::Fact;

/// Why a driver tells nothing now that it tells at other times.
pub(super) const REFUSED: &str = "its driver refuses to tell";

/// At most `most` bytes of a plain file.
pub(super) fn read(place: &Path, most: u64) -> Result<Vec<u8>, Fact> {
    // Opening anything but a plain file may wait for somebody.
    match std::fs::metadata(place) {
        Ok(metadata) if metadata.is_file() => {}
        Ok(_) => return Err(unreadable("it is no file")),
        Err(error) => return Err(of(place, &error)),
    }
    let mut bytes = Vec::new();
    let file = File::open(place).map_err(|error| of(place, &error))?;
    let read = file.take(most + 1).read_to_end(&mut bytes);
    read.map_err(|error| of(place, &error))?;
    match bytes.len() as u64 > most {
        true => Err(unreadable("it is longer than anything of its kind")),
        false => Ok(bytes),
    }
}

/// What an error of the system says about what should be at a place.
pub(super) fn of(place: &Path, error: &Error) -> Fact {
    match (error.kind(), error.raw_os_error()) {
        (ErrorKind::NotFound, _) if leads_nowhere(place) => unreadable("a link leads nowhere"),
        (ErrorKind::NotFound, _) => Fact::Absent,
        (ErrorKind::NotADirectory, _) => unreadable("a file is where a folder should be"),
        (ErrorKind::PermissionDenied, _) => Fact::Unreadable {
            why: "permission denied".to_string(),
            needs: Some("root".to_string()),
        },
        // What drivers answer that have no such thing.
        (_, Some(libc::EOPNOTSUPP | libc::ENODATA)) => Fact::Absent,
        (_, Some(libc::EINVAL)) => unreadable(REFUSED),
        _ => unreadable(&error.to_string()),
    }
}

/// Whether a link on the way to a place leads nowhere: then something is wrong, and not just absent.
fn leads_nowhere(place: &Path) -> bool {
    let there = place.ancestors().find(|path| path.symlink_metadata().is_ok());
    there.is_some_and(|path| path.metadata().is_err())
}

/// A fact that could not be read.
pub(super) fn unreadable(why: &str) -> Fact {
    Fact::Unreadable {
        why: why.to_string(),
        needs: None,
    }
}
