//! A burn-in's folder on disk: what was asked, the journal, the folders of cycles.
//!
//! Held true: whatever was written before a kill is there afterwards; a line of the journal is whole or not there.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::catalog::PartCatalog;
use record::units::Nanos;
use record::{BurnIn, JournalLine, Night, Readings, burn_in_files, cut_after_last_line, files, replace};

/// A burn-in's folder that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// The system refuses.
    #[error("cannot use {path}: {source}")]
    System {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file does not hold what it should.
    #[error("{path}: {problem}")]
    Content {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
}

/// The folder of one burn-in.
#[derive(Debug, Clone)]
pub struct BurnInFolder {
    path: PathBuf,
}

impl BurnInFolder {
    /// Makes the folder of a new burn-in of `suite`, the text of its file. One that holds a burn-in already is refused.
    pub fn create(path: &Path, asked: &BurnIn, suite: &str) -> Result<BurnInFolder, FolderError> {
        let file = path.join(burn_in_files::BURN_IN);
        if file.exists() {
            let problem = format!(
                "there is a burn-in already; go on with it by --resume {}",
                path.display()
            );
            return Err(FolderError::Content { path: file, problem });
        }
        fs::create_dir_all(path.join(burn_in_files::CYCLES)).map_err(system(path))?;
        let folder = BurnInFolder {
            path: path.to_path_buf(),
        };
        // Last comes what makes it a burn-in: killed before that, there is none.
        folder.put(burn_in_files::SUITE, suite.as_bytes())?;
        let text = serde_json::to_vec_pretty(asked).map_err(io::Error::other);
        folder.put(burn_in_files::BURN_IN, &text.map_err(system(&file))?)?;
        Ok(folder)
    }

    /// Takes the folder of a burn-in that was begun earlier, and what was asked of it.
    pub fn open(path: &Path) -> Result<(BurnInFolder, BurnIn), FolderError> {
        let asked = parse(&path.join(burn_in_files::BURN_IN), |text| {
            serde_json::from_slice(text)
        })?;
        let folder = BurnInFolder {
            path: path.to_path_buf(),
        };
        Ok((folder, asked))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The folder of a cycle.
    pub fn cycle(&self, number: u32) -> PathBuf {
        self.path.join(burn_in_files::CYCLES).join(format!("{number:06}"))
    }

    /// Opens the journal to go on after its last whole line.
    pub fn journal(&self) -> Result<JournalFile, FolderError> {
        let path = self.path.join(burn_in_files::JOURNAL);
        cut_after_last_line(&path).map_err(system(&path))?;
        let file = OpenOptions::new().create(true).append(true).open(&path);
        Ok(JournalFile {
            file: file.map_err(system(&path))?,
            path,
        })
    }

    /// Everything in the journal. A line cut off at its end is not there yet.
    pub fn read_journal(&self) -> Result<Vec<JournalLine>, FolderError> {
        let path = self.path.join(burn_in_files::JOURNAL);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(source) => return Err(FolderError::System { path, source }),
        };
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        let lines = (1..).zip(whole.lines()).filter(|(_, line)| !line.is_empty());
        let parsed = lines.map(|(number, line)| {
            JournalLine::from_json(line.as_bytes()).map_err(|error| FolderError::Content {
                path: path.clone(),
                problem: format!("line {number}: {error}"),
            })
        });
        parsed.collect()
    }

    /// What a finished cycle says; how long it took is told by the journal.
    pub fn night(&self, number: u32, took: Nanos) -> Result<Night, FolderError> {
        let path = self.cycle(number).join(files::READINGS);
        let readings = parse(&path, Readings::from_json)?;
        let at: Result<jiff::Timestamp, _> = readings.started.parse();
        let at = at.map_err(|error| FolderError::Content {
            path,
            problem: format!("`{}` is not a time: {error}", readings.started),
        })?;
        Ok(Night {
            name: format!("cycle {number}"),
            at: at.as_second(),
            took: Some(took),
            readings,
        })
    }

    /// The parts that there are to decide on; none before the first cycle is complete.
    pub fn known(&self) -> Result<PartCatalog, FolderError> {
        let path = self.path.join(burn_in_files::KNOWN);
        match path.exists() {
            true => parse(&path, |text| serde_json::from_slice(text)),
            false => Ok(PartCatalog::default()),
        }
    }

    /// Keeps what there is to decide on, unless more is known already: a cycle that was cut short knows less.
    pub fn keep_known(&self, known: &PartCatalog) -> Result<(), FolderError> {
        let path = self.path.join(burn_in_files::KNOWN);
        let before = self.known()?;
        if (known.hosts.len(), known.links.len()) < (before.hosts.len(), before.links.len()) {
            return Ok(());
        }
        let text = serde_json::to_vec(known).map_err(io::Error::other);
        self.put(burn_in_files::KNOWN, &text.map_err(system(&path))?)
    }

    /// Puts a file into the folder: the old one or the new one is there at any moment.
    pub fn put(&self, name: &str, content: &[u8]) -> Result<(), FolderError> {
        let path = self.path.join(name);
        replace(&path, content).map_err(system(&path))
    }
}

/// The journal, open at its end.
#[derive(Debug)]
pub struct JournalFile {
    path: PathBuf,
    file: File,
}

impl JournalFile {
    /// Adds a line and hands it to the disk.
    pub fn write(&mut self, line: &JournalLine) -> Result<(), FolderError> {
        let text = line.to_json().map_err(io::Error::other);
        let written = text.and_then(|text| {
            self.file.write_all(format!("{text}\n").as_bytes())?;
            self.file.sync_data()
        });
        written.map_err(system(&self.path))
    }
}

fn system(path: &Path) -> impl FnOnce(io::Error) -> FolderError + '_ {
    move |source| FolderError::System {
        path: path.to_path_buf(),
        source,
    }
}

fn parse<T>(path: &Path, read: fn(&[u8]) -> serde_json::Result<T>) -> Result<T, FolderError> {
    let text = fs::read(path).map_err(system(path))?;
    read(&text).map_err(|error| FolderError::Content {
        path: path.to_path_buf(),
        problem: error.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::{EndReason, Journal};

    fn line(load: u64) -> JournalLine {
        JournalLine {
            at: "2026-11-16T05:00:00Z".to_string(),
            load_ns: Nanos(load),
            what: Journal::Ended {
                reason: EndReason::Finished,
            },
        }
    }

    #[test]
    fn a_journal_cut_off_at_any_byte_is_read_and_gone_on_with() {
        let parent = tempfile::tempdir().unwrap();
        let folder = BurnInFolder {
            path: parent.path().to_path_buf(),
        };
        let mut journal = folder.journal().unwrap();
        journal.write(&line(1)).unwrap();
        journal.write(&line(2)).unwrap();
        let path = parent.path().join(burn_in_files::JOURNAL);
        let whole = fs::read(&path).unwrap();
        for length in 0..=whole.len() {
            fs::write(&path, &whole[..length]).unwrap();
            let before = folder.read_journal().unwrap();
            let lines = whole[..length].iter().filter(|byte| **byte == b'\n').count();
            assert_eq!(before.len(), lines, "{length} bytes");
            folder.journal().unwrap().write(&line(3)).unwrap();
            let after = folder.read_journal().unwrap();
            assert_eq!(after.len(), lines + 1, "{length} bytes");
            assert_eq!(after.last(), Some(&line(3)));
        }
    }
}
