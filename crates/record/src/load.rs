//! Reading a run's folder back, complete or cut off.
//!
//! A line that cannot be read is tolerated only as the very last one (the run was killed while writing it); anywhere else
//! the file is damaged and the reader says where.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

use rayon::prelude::*;

use super::json::utf8;
use super::sample_line::sample_of_line;
use super::{CrossedPath, CrossedSwitch, Event, History, Inventory, Run, SCHEMA, Sample};

/// Names of the files in a run's folder.
pub mod files {
    /// Suite, ranks, versions, seed, command line, cells.
    pub const RUN: &str = "run.json";
    /// Every event as it arrived.
    pub const SAMPLES: &str = "samples.jsonl";
    /// Which cable is where, when the run was told.
    pub const TOPOLOGY: &str = "topology.toml";
    /// What hosts, switches and cables are made of.
    pub const INVENTORY: &str = "inventory.json";
    /// The same of an earlier time, when the run was told to compare with it.
    pub const INVENTORY_BEFORE: &str = "inventory-before.json";
    /// What parts should be, when the run was told.
    pub const GOLDEN: &str = "golden.toml";
    /// What counts as bad among counters, when the run was told other than the usual.
    pub const COUNTER_RULES: &str = "counters.toml";
    /// Verdicts and findings.
    pub const FINDINGS: &str = "findings.json";
    /// What the run says of every part, for histories.
    pub const READINGS: &str = "readings.json";
    /// What changed since earlier runs, when the run was told where they are.
    pub const HISTORY: &str = "history.json";
    /// What could not be told to somebody in that night.
    pub const UNSENT: &str = "unsent.json";
    /// The report as Markdown.
    pub const MARKDOWN: &str = "report.md";
    /// The report as one page for a browser.
    pub const HTML: &str = "report.html";
    /// Verdicts as test cases, for pipelines.
    pub const JUNIT: &str = "junit.xml";
    /// Figures of the run, for monitoring.
    pub const METRICS: &str = "metrics.prom";
    /// The verdict in a few lines of Markdown, for a pipeline's page.
    pub const SUMMARY: &str = "summary.md";
    /// One line per cell, for spreadsheets; written when asked for.
    pub const CSV: &str = "cells.csv";
    /// Wire rate over message size, as a picture.
    pub const BANDWIDTH: &str = "bandwidth.svg";
    /// The load of equal paths, in a run that has a test about them.
    pub const ECMP: &str = "ecmp-load.svg";
}

/// A recorded run that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// A file is missing or unreadable.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A file does not hold what it should.
    #[error("{path}, line {line}: {source}")]
    Parse {
        /// The file.
        path: PathBuf,
        /// Line, counted from 1.
        line: usize,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// The run was recorded by a newer railgauge.
    #[error("{path} has schema {found}; this railgauge reads up to {SCHEMA}: use a newer one")]
    TooNew {
        /// The file.
        path: PathBuf,
        /// Its schema.
        found: u64,
    },
}

/// A recorded run: what was planned and everything that happened.
#[derive(Debug, Clone)]
pub struct Recorded {
    /// `run.json`.
    pub run: Run,
    /// The samples of `samples.jsonl`, in order.
    pub samples: Vec<Sample>,
    /// All its other events, in order.
    pub events: Vec<Event>,
    /// Whether the last line was cut off.
    pub truncated: bool,
    /// `topology.toml` as it is written, when the run has one.
    pub topology: Option<String>,
    /// What the cluster is made of, when that was recorded.
    pub inventory: Option<Inventory>,
    /// What it was made of earlier, when the run was told.
    pub inventory_before: Option<Inventory>,
    /// `golden.toml` as it is written, when the run has one.
    pub golden: Option<String>,
    /// `counters.toml` as it is written, when the run has one.
    pub counter_rules: Option<String>,
    /// What changed since earlier runs, when the run was compared with any.
    pub history: Option<History>,
}

impl Recorded {
    /// A run of which nothing was seen yet.
    pub fn new(run: Run) -> Recorded {
        Recorded {
            run,
            samples: Vec::new(),
            events: Vec::new(),
            truncated: false,
            topology: None,
            inventory: None,
            inventory_before: None,
            golden: None,
            counter_rules: None,
            history: None,
        }
    }

    /// Reads the folder of a run.
    pub fn read(folder: &Path) -> Result<Recorded, LoadError> {
        let run = read_run(&folder.join(files::RUN))?;
        let path = folder.join(files::SAMPLES);
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
            Err(source) => return Err(LoadError::Read { path, source }),
        };
        let mut recorded = parse_events(run, &text, &path)?;
        recorded.topology = text_if_there(folder, files::TOPOLOGY)?;
        recorded.golden = text_if_there(folder, files::GOLDEN)?;
        recorded.counter_rules = text_if_there(folder, files::COUNTER_RULES)?;
        recorded.inventory = json_if_there(folder, files::INVENTORY)?;
        recorded.inventory_before = json_if_there(folder, files::INVENTORY_BEFORE)?;
        recorded.history = json_if_there(folder, files::HISTORY)?;
        Ok(recorded)
    }
}

impl Inventory {
    /// Reads an inventory that was saved, or that of a run's folder.
    pub fn read(path: &Path) -> Result<Inventory, LoadError> {
        let path = match path.is_dir() {
            true => path.join(files::INVENTORY),
            false => path.to_path_buf(),
        };
        let text = fs::read(&path).map_err(|source| LoadError::Read {
            path: path.clone(),
            source,
        })?;
        parse(&text, &path)
    }
}

/// A file that a run's folder may have.
fn text_if_there(folder: &Path, name: &str) -> Result<Option<String>, LoadError> {
    let path = folder.join(name);
    match fs::read_to_string(&path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(LoadError::Read { path, source }),
    }
}

fn json_if_there<T: serde::de::DeserializeOwned>(folder: &Path, name: &str) -> Result<Option<T>, LoadError> {
    match text_if_there(folder, name)? {
        Some(text) => parse(text.as_bytes(), &folder.join(name)).map(Some),
        None => Ok(None),
    }
}

impl Recorded {
    /// Ids of the cells about which everything is said: measured to their end, or known not to be.
    pub fn settled_cells(&self) -> impl Iterator<Item = u32> {
        self.events.iter().filter_map(|event| match event {
            Event::CellDone(done) => Some(done.cell),
            Event::NotRun { cell, .. } => Some(*cell),
            _ => None,
        })
    }
}

impl Recorded {
    /// The switches that were seen within the connections of cells, by cell id. One whose path was another one later is missing.
    pub fn crossed_paths(&self) -> HashMap<u32, Vec<Option<&CrossedSwitch>>> {
        let mut known: HashMap<u32, Vec<Option<&CrossedSwitch>>> = HashMap::new();
        let mut moved: HashSet<u32> = HashSet::new();
        let paths = self.events.iter().flat_map(|event| match event {
            Event::Crossed { paths } => paths.as_slice(),
            _ => &[],
        });
        for CrossedPath { cell, hops } in paths {
            let merged = known.entry(*cell).or_default();
            merged.resize(merged.len().max(hops.len()), None);
            for (known, seen) in merged.iter_mut().zip(hops) {
                match (&known, seen) {
                    (Some(known), Some(seen)) if *known != seen => drop(moved.insert(*cell)),
                    (None, Some(seen)) => *known = Some(seen),
                    _ => {}
                }
            }
        }
        known.retain(|cell, _| !moved.contains(cell));
        known
    }

    /// In how many rounds after the first some cell was measured to its end.
    pub fn rounds_done(&self) -> u16 {
        let rounds = self.events.iter().filter_map(|event| match event {
            Event::CellDone(done) if done.round > 0 => Some(done.round),
            _ => None,
        });
        rounds.collect::<std::collections::BTreeSet<u16>>().len() as u16
    }
}

fn read_run(path: &Path) -> Result<Run, LoadError> {
    let text = fs::read(path).map_err(|source| LoadError::Read {
        path: path.to_path_buf(),
        source,
    })?;
    parse(&text, path)
}

/// A file with a schema number: one that is newer than this program is said to be that, whatever else is wrong with it.
fn parse<T: serde::de::DeserializeOwned>(text: &[u8], path: &Path) -> Result<T, LoadError> {
    let parse_error = |source: serde_json::Error| LoadError::Parse {
        path: path.to_path_buf(),
        line: source.line(),
        source,
    };
    let text = utf8(text).map_err(parse_error)?;
    let value: serde_json::Value = serde_json::from_str(text).map_err(parse_error)?;
    if let Some(found) = value["schema"]
        .as_u64()
        .filter(|schema| *schema > u64::from(SCHEMA))
    {
        return Err(LoadError::TooNew {
            path: path.to_path_buf(),
            found,
        });
    }
    serde_json::from_str(text).map_err(parse_error)
}

/// One stretch of the file, parsed on its own.
struct Stretch {
    samples: Vec<Sample>,
    events: Vec<Event>,
    lines: usize,
    /// The first line that did not parse: its position within the stretch, whether it is the stretch's last, the error.
    bad: Option<(usize, bool, serde_json::Error)>,
}

fn parse_events(run: Run, text: &[u8], path: &Path) -> Result<Recorded, LoadError> {
    let stretches: Vec<Stretch> = cut_at_lines(text, 1 << 20)
        .into_par_iter()
        .map(parse_stretch)
        .collect();
    let mut recorded = Recorded {
        samples: Vec::with_capacity(stretches.iter().map(|s| s.samples.len()).sum()),
        ..Recorded::new(run)
    };
    let (mut lines_before, last) = (0, stretches.len().saturating_sub(1));
    for (index, stretch) in stretches.into_iter().enumerate() {
        if let Some((line, is_last_line, source)) = stretch.bad {
            if !(index == last && is_last_line) {
                return Err(LoadError::Parse {
                    path: path.to_path_buf(),
                    line: lines_before + line + 1,
                    source,
                });
            }
            recorded.truncated = true;
        }
        lines_before += stretch.lines;
        recorded.samples.extend(stretch.samples);
        recorded.events.extend(stretch.events);
    }
    for event in &recorded.events {
        if let Event::Placement { switches } = event {
            recorded.run.placement.clone_from(switches);
        }
        if let Event::Replanned { cells, .. } | Event::Added { cells, .. } = event {
            recorded.run.cells.extend(cells.iter().cloned());
        }
    }
    Ok(recorded)
}

/// Cuts `text` into pieces of about `target` bytes that end at line ends.
fn cut_at_lines(text: &[u8], target: usize) -> Vec<&[u8]> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while rest.len() > target {
        match rest[target..].iter().position(|byte| *byte == b'\n') {
            Some(end) => {
                let (piece, tail) = rest.split_at(target + end + 1);
                pieces.push(piece);
                rest = tail;
            }
            None => break,
        }
    }
    if !rest.is_empty() {
        pieces.push(rest);
    }
    pieces
}

fn parse_stretch(text: &[u8]) -> Stretch {
    let mut stretch = Stretch {
        samples: Vec::new(),
        events: Vec::new(),
        lines: 0,
        bad: None,
    };
    let mut lines = text.split(|byte| *byte == b'\n').peekable();
    while let Some(line) = lines.next() {
        let is_last = lines.peek().is_none();
        if is_last && line.is_empty() {
            break; // what follows the last line end is not a complete line
        }
        if !line.is_empty() {
            let read = match sample_of_line(line) {
                Some(sample) => Ok(Event::Sample(sample)),
                None => Event::from_json(line),
            };
            match read {
                Ok(Event::Sample(sample)) => stretch.samples.push(sample),
                Ok(event) => stretch.events.push(event),
                Err(error) => {
                    stretch.bad = Some((stretch.lines, is_last, error));
                    break;
                }
            }
        }
        stretch.lines += 1;
    }
    stretch
}
