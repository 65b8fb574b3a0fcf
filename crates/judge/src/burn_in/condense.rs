//! Making room: the samples of cells that are not suspected become histograms; everything about suspects stays as it is.
//!
//! A condensed cycle keeps its `readings.json`; `histograms.jsonl` has one line per cell and round with the times of its
//! iterations (the longest over ranks) to three digits, as pairs of time and count. Killed in the middle, the samples are still
//! there: they are removed last.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::io::{self, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

use record::stats;
use record::units::{Bytes, Nanos};
use record::{Event, Recorded, burn_in_files, files, replace};

/// Files of a healthy cycle that say nothing beyond its readings and histograms.
const OF_HEALTHY: &[&str] = &[
    files::RUN,
    files::FINDINGS,
    files::INVENTORY,
    files::INVENTORY_BEFORE,
    files::TOPOLOGY,
    files::GOLDEN,
    files::COUNTER_RULES,
];

/// One line of `histograms.jsonl`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CellHistogram {
    /// The cell.
    pub cell: u32,
    /// What it was, in words.
    pub what: String,
    /// Measurement round.
    pub round: u16,
    /// Times to three digits, ascending, and how many iterations took that long.
    pub counts: Vec<(Nanos, u64)>,
}

/// What became of a cycle's samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Condensed {
    /// Samples that became histograms.
    pub samples: u64,
    /// Size of the cycle's folder before.
    pub before: Bytes,
    /// And after.
    pub after: Bytes,
}

/// Condenses the cycle in `folder`, all but the cells in `suspects`. With none, nothing else of the cycle is kept but its readings.
pub fn condense(folder: &Path, recorded: &Recorded, suspects: &BTreeSet<u32>) -> io::Result<Condensed> {
    let before = size_of(folder)?;
    let lines = histograms(recorded, suspects);
    let mut text = Vec::new();
    for line in &lines {
        serde_json::to_writer(&mut text, line)?;
        text.write_all(b"\n")?;
    }
    replace(&folder.join(burn_in_files::HISTOGRAMS), &text)?;
    if suspects.is_empty() {
        for name in OF_HEALTHY {
            remove(&folder.join(name))?;
        }
        remove(&folder.join(files::SAMPLES))?;
    } else {
        let kept = only(&folder.join(files::SAMPLES), suspects)?;
        replace(&folder.join(files::SAMPLES), &kept)?;
    }
    let samples = recorded.samples.iter();
    Ok(Condensed {
        samples: samples.filter(|sample| !suspects.contains(&sample.cell)).count() as u64,
        before,
        after: size_of(folder)?,
    })
}

/// One histogram per cell and round that is not suspected.
fn histograms(recorded: &Recorded, suspects: &BTreeSet<u32>) -> Vec<CellHistogram> {
    let mut longest: BTreeMap<(u32, u16), HashMap<u32, u64>> = BTreeMap::new();
    for sample in recorded
        .samples
        .iter()
        .filter(|sample| !suspects.contains(&sample.cell))
    {
        let iterations = longest.entry((sample.cell, sample.round)).or_default();
        let time = iterations.entry(sample.iter).or_insert(0);
        *time = (*time).max(sample.ns);
    }
    let words: HashMap<u32, String> = recorded
        .run
        .cells
        .iter()
        .map(|cell| (cell.id, cell.describe()))
        .collect();
    let line = |((cell, round), times): ((u32, u16), HashMap<u32, u64>)| CellHistogram {
        cell,
        what: words.get(&cell).cloned().unwrap_or_default(),
        round,
        counts: counts(times.into_values().collect()),
    };
    longest.into_iter().map(line).collect()
}

fn counts(times: Vec<u64>) -> Vec<(Nanos, u64)> {
    let counted = stats::counts(&times).into_iter();
    counted.map(|(time, count)| (Nanos(time), count)).collect()
}

/// The lines of `samples.jsonl` that are about `suspects`, or about no cell.
fn only(path: &Path, suspects: &BTreeSet<u32>) -> io::Result<Vec<u8>> {
    let text = fs::read_to_string(path)?;
    let mut kept = Vec::new();
    for line in text.lines() {
        let cell = match Event::from_json(line.as_bytes()) {
            Ok(Event::Sample(sample)) => Some(sample.cell),
            Ok(Event::Counter(counter)) => Some(counter.cell),
            _ => None,
        };
        if cell.is_none_or(|cell| suspects.contains(&cell)) {
            kept.extend_from_slice(line.as_bytes());
            kept.push(b'\n');
        }
    }
    Ok(kept)
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// What the files of a folder take.
pub fn size_of(folder: &Path) -> io::Result<Bytes> {
    let mut size = 0;
    for entry in fs::read_dir(folder)? {
        let about = entry?.metadata()?;
        size += if about.is_file() { about.len() } else { 0 };
    }
    Ok(Bytes(size))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::fixture;

    #[test]
    fn suspects_stay_as_they_are_and_the_rest_becomes_histograms() {
        let recorded = fixture::Fixture::rails(2).recorded();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        let write = || {
            let mut lines = Vec::new();
            for sample in &recorded.samples {
                serde_json::to_writer(&mut lines, &Event::Sample(*sample)).unwrap();
                lines.push(b'\n');
            }
            fs::write(path.join(files::SAMPLES), &lines).unwrap();
            fs::write(path.join(files::RUN), "{}").unwrap();
            fs::write(path.join(files::READINGS), "{}").unwrap();
        };
        write();
        let suspect = recorded.samples[0].cell;
        let of_suspect = recorded.samples.iter().filter(|sample| sample.cell == suspect);
        let (of_suspect, all) = (of_suspect.count(), recorded.samples.len());
        let done = condense(path, &recorded, &BTreeSet::from([suspect])).unwrap();
        assert_eq!(done.samples as usize, all - of_suspect);
        assert!(done.after < done.before);
        let kept = fs::read_to_string(path.join(files::SAMPLES)).unwrap();
        assert_eq!(kept.lines().count(), of_suspect);
        assert!(path.join(files::RUN).exists());

        write();
        condense(path, &recorded, &BTreeSet::new()).unwrap();
        assert!(!path.join(files::SAMPLES).exists() && !path.join(files::RUN).exists());
        assert!(path.join(files::READINGS).exists());
        let text = fs::read_to_string(path.join(burn_in_files::HISTOGRAMS)).unwrap();
        let lines: Vec<CellHistogram> = text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let iterations: u64 = lines
            .iter()
            .flat_map(|line| &line.counts)
            .map(|(_, count)| count)
            .sum();
        let ranks = recorded.run.ranks.len() as u64;
        assert_eq!(
            iterations * ranks,
            all as u64,
            "every rank took part in every cell here"
        );
    }
}
