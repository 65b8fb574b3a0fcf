//! Bounded reads of one path; the error says whether it is absent or unreadable.

use std::fs::File;
use std::io::{Error, ErrorKind, Read};
use std::path::Path;

use nix::libc;

use record::Fact;

/// The reason when a driver refuses to read an attribute now.
pub(super) const REFUSED: &str = "its driver refuses to tell";

/// At most `most` bytes of a plain file.
pub(super) fn read(place: &Path, most: u64) -> Result<Vec<u8>, Fact> {
    // Opening anything but a plain file may block.
    match std::fs::metadata(place) {
        Ok(metadata) if metadata.is_file() => {}
        Ok(_) => return Err(unreadable("it is not a plain file")),
        Err(error) => return Err(of(place, &error)),
    }
    let mut bytes = Vec::new();
    let file = File::open(place).map_err(|error| of(place, &error))?;
    let read = file.take(most + 1).read_to_end(&mut bytes);
    read.map_err(|error| of(place, &error))?;
    match bytes.len() as u64 > most {
        true => Err(unreadable(&format!("longer than {most} bytes"))),
        false => Ok(bytes),
    }
}

/// The fact that a system error stands for.
pub(super) fn of(place: &Path, error: &Error) -> Fact {
    match (error.kind(), error.raw_os_error()) {
        (ErrorKind::NotFound, _) if leads_nowhere(place) => unreadable("a link leads nowhere"),
        (ErrorKind::NotFound, _) => Fact::Absent,
        (ErrorKind::NotADirectory, _) => unreadable("a file is where a folder should be"),
        (ErrorKind::PermissionDenied, _) => Fact::Unreadable {
            why: "permission denied".to_string(),
            needs: Some("root".to_string()),
        },
        // The errors of drivers without such an attribute.
        (_, Some(libc::EOPNOTSUPP | libc::ENODATA)) => Fact::Absent,
        (_, Some(libc::EINVAL)) => unreadable(REFUSED),
        _ => unreadable(&error.to_string()),
    }
}

/// Whether a link of the path dangles: then something is wrong, not just absent.
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
