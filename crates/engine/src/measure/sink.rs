//! The folder of a run, and its events as they are written.
//!
//! The folder is made, and the disk space of the whole run is checked, before anything is measured: a full disk is an error at
//! the start, not a loss at the end. Every event is one line; lines reach the kernel at the latest when a cell is done, so a
//! killed run loses at most part of the cell in flight; they reach the disk every few seconds, against a power cut.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use record::{Event, Run, cut_after_last_line, files, replace};

/// The longest a line stays in the buffer, where a kill would lose it, while others follow.
const LONGEST_BUFFERED: Duration = Duration::from_millis(200);
/// About the longest that finished cells stay in the page cache, where a power cut would lose them.
const LONGEST_UNSYNCED: Duration = Duration::from_secs(5);
/// Even a run of one cell and its reports take this much.
const SMALLEST_RUN: u64 = 1 << 20;

/// The run cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write the run to {path}: {source}")]
pub struct SinkError {
    /// The file or folder.
    pub path: PathBuf,
    /// The system's error.
    pub source: io::Error,
}

/// The folder of a run, known to be writable and to have room.
pub struct RunFolder {
    path: PathBuf,
}

impl RunFolder {
    /// Makes the folder, or takes an existing one that holds no run yet, and makes sure that it can be written to.
    pub fn create(path: &Path) -> Result<RunFolder, SinkError> {
        fs::create_dir_all(path).map_err(|source| SinkError {
            path: path.to_path_buf(),
            source,
        })?;
        let run = path.join(files::RUN);
        if run.exists() {
            let problem = "the folder holds a recorded run already; choose another --out";
            let source = io::Error::new(io::ErrorKind::AlreadyExists, problem);
            return Err(SinkError { path: run, source });
        }
        let folder = RunFolder {
            path: path.to_path_buf(),
        };
        folder.check_space(SMALLEST_RUN)?;
        Ok(folder)
    }

    /// Checks that `bytes` fit on the disk now.
    pub fn check_space(&self, bytes: u64) -> Result<(), SinkError> {
        let probe = self.path.join(".room");
        let result = File::create(&probe).and_then(|file| reserve(&file, bytes));
        // The probe has served its purpose either way.
        let _ = fs::remove_file(&probe);
        result.map_err(|source| SinkError {
            path: self.path.clone(),
            source,
        })
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a copy of an input file, so that the run can be judged elsewhere.
    pub fn keep(&self, name: &str, text: &str) -> Result<(), SinkError> {
        let path = self.path.join(name);
        fs::write(&path, text).map_err(|source| SinkError { path, source })
    }

    /// The folder of a run that was cut off.
    pub fn existing(path: &Path) -> RunFolder {
        RunFolder {
            path: path.to_path_buf(),
        }
    }

    /// Writes `run.json` and opens `samples.jsonl`.
    pub fn start(&self, run: &Run) -> Result<Sink, SinkError> {
        let path = self.path.join(files::RUN);
        let text = run.to_json().map_err(io::Error::other);
        text.and_then(|text| replace(&path, text.as_bytes()))
            .map_err(|source| SinkError { path, source })?;
        self.open(OpenOptions::new().create_new(true).append(true))
    }

    /// Opens `samples.jsonl` of a run that was cut off, to append after its last complete line.
    pub fn resume(&self) -> Result<Sink, SinkError> {
        let path = self.path.join(files::SAMPLES);
        cut_after_last_line(&path).map_err(|source| SinkError { path, source })?;
        self.open(OpenOptions::new().create(true).append(true))
    }

    fn open(&self, how: &OpenOptions) -> Result<Sink, SinkError> {
        let path = self.path.join(files::SAMPLES);
        let file = how.open(&path).map_err(|source| SinkError {
            path: path.clone(),
            source,
        })?;
        Ok(Sink {
            path,
            file: BufWriter::new(file),
            flushed: Instant::now(),
            synced: Instant::now(),
        })
    }
}

/// Reserves `bytes` on the disk.
fn reserve(file: &File, bytes: u64) -> io::Result<()> {
    use nix::errno::Errno;
    let length = i64::try_from(bytes).map_err(io::Error::other)?;
    match nix::fcntl::posix_fallocate(file, 0, length) {
        // Some file systems cannot reserve: write a block instead.
        Err(Errno::EOPNOTSUPP | Errno::EINVAL | Errno::ENOSYS) => {
            let mut file = file;
            file.write_all(&[0; 4096])?;
            file.sync_data()
        }
        result => result.map_err(io::Error::from),
    }
}

/// Writes events as they arrive.
pub struct Sink {
    path: PathBuf,
    file: BufWriter<File>,
    /// Last flush to the kernel.
    flushed: Instant,
    /// Last flush to the disk.
    synced: Instant,
}

impl Sink {
    /// Appends one event.
    pub fn write(&mut self, event: &Event) -> Result<(), SinkError> {
        let line = event.to_json().map_err(io::Error::from);
        line.and_then(|line| {
            self.file.write_all(line.as_bytes())?;
            self.file.write_all(b"\n")
        })
        .map_err(|source| self.error(source))?;
        match self.flushed.elapsed() > LONGEST_BUFFERED {
            true => self.flush(),
            false => Ok(()),
        }
    }

    /// Flushes to the kernel, and to the disk when the last sync is some seconds ago.
    pub fn flush(&mut self) -> Result<(), SinkError> {
        self.file.flush().map_err(|source| self.error(source))?;
        self.flushed = Instant::now();
        if self.synced.elapsed() > LONGEST_UNSYNCED {
            let synced = self.file.get_ref().sync_data();
            synced.map_err(|source| self.error(source))?;
            self.synced = Instant::now();
        }
        Ok(())
    }

    /// Flushes everything to the disk: the run is over.
    pub fn close(mut self) -> Result<(), SinkError> {
        self.flush()?;
        self.file
            .get_ref()
            .sync_data()
            .map_err(|source| self.error(source))
    }

    fn error(&self, source: io::Error) -> SinkError {
        SinkError {
            path: self.path.clone(),
            source,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_cannot_be_written_or_holds_a_run_is_refused_at_once() {
        let parent = tempfile::tempdir().unwrap();
        let file = parent.path().join("file");
        fs::write(&file, "not a folder").unwrap();
        assert!(RunFolder::create(&file.join("run")).is_err());
        let taken = parent.path().join("taken");
        fs::create_dir(&taken).unwrap();
        fs::write(taken.join(files::RUN), "{}").unwrap();
        let error = RunFolder::create(&taken).err().unwrap().to_string();
        assert!(error.contains("--out"), "{error}");
    }

    #[test]
    fn a_run_larger_than_the_disk_is_refused_before_it_is_measured() {
        let parent = tempfile::tempdir().unwrap();
        let folder = RunFolder::create(&parent.path().join("run")).unwrap();
        assert!(folder.check_space(1 << 20).is_ok());
        assert!(folder.check_space(1 << 60).is_err());
        let left: Vec<_> = fs::read_dir(folder.path()).unwrap().collect();
        assert!(left.is_empty(), "the probe is gone");
    }
}
