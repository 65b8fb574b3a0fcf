//! A folder of files about one subnet, as `ibdiagnet` writes it or an operator collects it.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::tables::is_tables;
use super::{Subnet, TableProblem, is_database};
use crate::import::{is_ibnetdiscover, subnet_of_ibnetdiscover};
use crate::{Topology, TopologyError};

/// Largest file that is read.
const LARGEST_FILE: u64 = 256 << 20;
/// A table that is older than the topology by more than this may be of another time.
const OLDER: Duration = Duration::from_secs(3600);

/// A subnet and what is to be said about its files.
#[derive(Debug)]
pub struct ReadSubnet {
    /// The subnet.
    pub subnet: Subnet,
    /// Its topology, with where switches send what.
    pub topology: Topology,
    /// What was read for what, and what was not read.
    pub notes: Vec<String>,
    /// What is wrong with its tables.
    pub problems: Vec<TableProblem>,
}

/// Reads all files of a folder that are about a subnet. One of them has its nodes and cables; any number have tables.
pub fn read_folder(folder: &Path) -> Result<ReadSubnet, TopologyError> {
    let mut files = Files::default();
    let listed = std::fs::read_dir(folder).map_err(|error| failed(folder, &error))?;
    let mut paths: Vec<PathBuf> = Vec::new();
    for entry in listed {
        paths.push(entry.map_err(|error| failed(folder, &error))?.path());
    }
    paths.sort();
    for path in paths.iter().filter(|path| path.is_file()) {
        files.add(path)?;
    }
    files.read(folder)
}

#[derive(Default)]
struct Files {
    databases: Vec<File>,
    discovered: Vec<File>,
    tables: Vec<File>,
    notes: Vec<String>,
}

struct File {
    path: PathBuf,
    text: String,
    written: Option<SystemTime>,
}

impl Files {
    fn add(&mut self, path: &Path) -> Result<(), TopologyError> {
        let about = std::fs::metadata(path).map_err(|error| failed(path, &error))?;
        if about.len() > LARGEST_FILE {
            let message = format!(
                "the file has {} bytes; at most {LARGEST_FILE} are read",
                about.len()
            );
            return Err(whole(path, message));
        }
        let bytes = std::fs::read(path).map_err(|error| failed(path, &error))?;
        // Descriptions are what somebody typed into a switch, in any encoding.
        let file = File {
            path: path.to_path_buf(),
            text: String::from_utf8_lossy(&bytes).into_owned(),
            written: about.modified().ok(),
        };
        if is_database(&file.text) {
            self.databases.push(file);
        } else if is_tables(&file.text) {
            self.tables.push(file);
        } else if is_ibnetdiscover(&file.text) {
            self.discovered.push(file);
        } else {
            self.notes.push(format!(
                "{}: not about nodes, cables or tables, not read",
                path.display()
            ));
        }
        Ok(())
    }

    fn read(mut self, folder: &Path) -> Result<ReadSubnet, TopologyError> {
        let (described, is_described_by_database) = match (
            self.databases.as_slice(),
            self.discovered.as_slice(),
        ) {
            ([database], _) => (database, true),
            ([], [discovered]) => (discovered, false),
            ([], []) => {
                let message = "no file has the nodes and cables of a subnet; copy ibdiagnet2.db_csv or the output of ibnetdiscover here";
                return Err(whole(folder, message.to_string()));
            }
            (several, others) => {
                let files = several
                    .iter()
                    .chain(others)
                    .map(|file| file.path.display().to_string());
                let files: Vec<String> = files.collect();
                return Err(whole(
                    folder,
                    format!(
                        "several files have nodes and cables: {}; keep one",
                        files.join(", ")
                    ),
                ));
            }
        };
        let subnet = match is_described_by_database {
            true => Subnet::of_database(&described.text),
            false => subnet_of_ibnetdiscover(&described.text),
        };
        let mut subnet = subnet.map_err(|error| placed(&described.path, error))?;
        self.notes
            .push(format!("{}: nodes and cables", described.path.display()));
        for file in &self.tables {
            subnet
                .add_tables(&file.text)
                .map_err(|error| placed(&file.path, error))?;
            let age = described
                .written
                .zip(file.written)
                .and_then(|(later, earlier)| later.duration_since(earlier).ok());
            let is_old = age.is_some_and(|age| age > OLDER);
            self.notes.push(match is_old {
                true => format!(
                    "{}: forwarding tables, written {} hours before the cables: they may be of another time",
                    file.path.display(),
                    age.unwrap_or_default().as_secs() / 3600
                ),
                false => format!("{}: forwarding tables", file.path.display()),
            });
        }
        let mut topology = subnet
            .topology()
            .map_err(|error| placed(&described.path, error))?;
        topology.source.origin = folder.display().to_string();
        Ok(ReadSubnet {
            problems: subnet.problems(),
            topology,
            notes: self.notes,
            subnet,
        })
    }
}

fn failed(path: &Path, error: &std::io::Error) -> TopologyError {
    whole(path, error.to_string())
}

fn whole(path: &Path, message: String) -> TopologyError {
    TopologyError {
        origin: path.display().to_string(),
        line: None,
        message,
    }
}

fn placed(path: &Path, error: crate::text_error::TextError) -> TopologyError {
    TopologyError {
        origin: path.display().to_string(),
        line: error.line,
        message: error.message,
    }
}
