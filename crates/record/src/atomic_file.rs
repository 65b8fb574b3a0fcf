//! Writing files so that a kill at any moment leaves them whole.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

/// Puts `content` at `path`: written beside it first, then moved over it.
pub fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let beside = path.with_file_name(format!(".{name}.{}.part", std::process::id()));
    let written = File::create(&beside).and_then(|mut file| {
        file.write_all(content)?;
        file.sync_all()
    });
    let moved = written.and_then(|()| fs::rename(&beside, path));
    if moved.is_err() {
        // The error that matters is the first one; a leftover is only untidy.
        _ = fs::remove_file(&beside);
    }
    moved.map_err(|error| io::Error::new(error.kind(), format!("cannot write {}: {error}", path.display())))
}

/// Takes off what follows the last line end of a file of lines: its writer was killed in the middle of a line. A file that
/// is not there is left alone.
pub fn cut_after_last_line(path: &Path) -> io::Result<()> {
    let mut file = match OpenOptions::new().read(true).write(true).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    let length = file.metadata()?.len();
    let mut end = length;
    let mut piece = [0; 4096];
    while end > 0 {
        let start = end.saturating_sub(piece.len() as u64);
        let piece = &mut piece[..(end - start) as usize];
        file.seek(SeekFrom::Start(start))?;
        file.read_exact(piece)?;
        if let Some(position) = piece.iter().rposition(|byte| *byte == b'\n') {
            end = start + position as u64 + 1;
            break;
        }
        end = start;
    }
    match end < length {
        true => file.set_len(end),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_follows_the_last_line_end_is_taken_off() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lines");
        cut_after_last_line(&path).unwrap();
        assert!(!path.exists());
        let long = "x".repeat(10_000);
        for (before, after) in [
            ("", ""),
            ("one\n", "one\n"),
            ("one\ntw", "one\n"),
            ("no end", ""),
            (&format!("one\n{long}"), "one\n"),
            (&format!("{long}\n{long}\nx"), &format!("{long}\n{long}\n")),
        ] {
            fs::write(&path, before).unwrap();
            cut_after_last_line(&path).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), after);
        }
    }
}
