//! The recorded runs of a folder, by start time: those of a history, or the cycles of a burn-in.

use std::fs;
use std::path::{Path, PathBuf};

use rayon::prelude::*;

use crate::error::CliError;
use judge::findings::judge;
use judge::history;
use record::{Judgement, Night, Readings, Recorded, SCHEMA, burn_in_files, files};

/// The runs of one suite, and the folders that were skipped.
#[derive(Debug, Default)]
pub struct RecordedRuns {
    /// By start time.
    pub nights: Vec<Night>,
    /// `NAME: why`.
    pub skipped: Vec<String>,
}

/// Reads the runs of `suite` in `folder`. Without a suite, reads those of the newest run's suite and lists the others as skipped.
pub fn read_runs(folder: &Path, suite: Option<&str>) -> Result<RecordedRuns, CliError> {
    if folder.join(files::RUN).is_file() {
        let text = format!(
            "{} is one run; name the folder that holds it and other runs",
            folder.display()
        );
        return Err(CliError::Usage(text));
    }
    let is_burn_in = folder.join(burn_in_files::BURN_IN).is_file();
    let parent = match is_burn_in {
        true => folder.join(burn_in_files::CYCLES),
        false => folder.to_path_buf(),
    };
    let cannot = || CliError::system(format!("cannot read {}", parent.display()));
    let mut folders: Vec<PathBuf> = Vec::new();
    for entry in fs::read_dir(&parent).map_err(cannot())? {
        let path = entry.map_err(cannot())?.path();
        if path.join(files::RUN).is_file() || path.join(files::READINGS).is_file() {
            folders.push(path);
        }
    }
    folders.sort();
    let read: Vec<(String, Result<Night, String>)> = folders
        .par_iter()
        .map(|path| {
            let name = name_of(path, is_burn_in);
            (name.clone(), read_night(path, name))
        })
        .collect();
    let mut runs = RecordedRuns::default();
    for (name, night) in read {
        match night {
            Ok(night) if !night.readings.injected.is_empty() => {
                let why = "a negative control: faults were injected";
                runs.skipped.push(format!("{name}: {why}"));
            }
            Ok(night) => runs.nights.push(night),
            Err(why) => runs.skipped.push(format!("{name}: {why}")),
        }
    }
    runs.nights.sort_by(|a, b| (a.at, &a.name).cmp(&(b.at, &b.name)));
    let newest = runs.nights.last().map(|night| night.readings.suite.clone());
    let is_asked = suite.is_some();
    let suite = suite.map(str::to_string).or(newest).unwrap_or_default();
    let (wanted, others): (Vec<Night>, Vec<Night>) = runs
        .nights
        .into_iter()
        .partition(|night: &Night| night.readings.suite == suite);
    runs.nights = wanted;
    for other in others.into_iter().filter(|_| !is_asked) {
        runs.skipped.push(format!(
            "{}: of another suite, {}",
            other.name, other.readings.suite
        ));
    }
    Ok(runs)
}

/// Reads one run under the given name.
pub fn read_night(folder: &Path, name: String) -> Result<Night, String> {
    let readings = readings(folder)?;
    let started = readings.started.parse::<jiff::Timestamp>();
    let at = started.map_err(|_| "its start time is missing or malformed".to_string())?;
    Ok(Night {
        name,
        at: at.as_second(),
        took: None,
        readings,
    })
}

/// The readings of a run: from its file, else computed again.
fn readings(folder: &Path) -> Result<Readings, String> {
    match fs::read(folder.join(files::READINGS)) {
        Ok(text) => parse_readings(&text).map_err(|why| format!("{}: {why}", files::READINGS)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let recorded = Recorded::read(folder).map_err(|error| error.to_string())?;
            let judged = fs::read(folder.join(files::FINDINGS)).ok();
            let judged = judged.and_then(|text| Judgement::from_json(&text).ok());
            let judgement = judged.unwrap_or_else(|| judge(&recorded));
            Ok(history::readings(&recorded, &judgement))
        }
        Err(error) => Err(format!("{}: {error}", files::READINGS)),
    }
}

fn parse_readings(text: &[u8]) -> Result<Readings, String> {
    #[derive(serde::Deserialize)]
    struct Version {
        schema: u64,
    }
    let version: Version = serde_json::from_slice(text).map_err(|error| error.to_string())?;
    match version.schema > u64::from(SCHEMA) {
        true => Err(format!(
            "schema {}; this railgauge reads up to {SCHEMA}",
            version.schema
        )),
        false => Readings::from_json(text).map_err(|error| error.to_string()),
    }
}

/// The name of a run: that of its folder; cycles are numbered.
fn name_of(folder: &Path, is_cycle: bool) -> String {
    let name = folder
        .file_name()
        .unwrap_or(folder.as_os_str())
        .to_string_lossy()
        .into_owned();
    match is_cycle && !name.contains("cycle") {
        true => format!("cycle {name}"),
        false => name,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use judge::history::fixture;

    fn write(folder: &Path, name: &str, number: usize, change: impl Fn(&mut Readings)) {
        let mut night = fixture::nights(2, number + 1, |_, _| 1.0).pop().unwrap();
        change(&mut night.readings);
        let run = folder.join(name);
        fs::create_dir_all(&run).unwrap();
        fs::write(
            run.join(files::READINGS),
            serde_json::to_vec(&night.readings).unwrap(),
        )
        .unwrap();
    }

    #[test]
    fn runs_come_in_the_order_of_their_start_and_what_cannot_be_used_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        write(path, "b", 0, |_| {});
        write(path, "a", 1, |_| {});
        write(path, "control", 2, |readings| {
            readings.injected = vec!["slow".into()]
        });
        write(path, "other", 0, |readings| readings.suite = "smoke".into());
        write(path, "timeless", 3, |readings| {
            readings.started = "yesterday".into()
        });
        for (name, text) in [("torn", "{"), ("newer", "{\"schema\": 9999}")] {
            fs::create_dir(path.join(name)).unwrap();
            fs::write(path.join(name).join(files::READINGS), text).unwrap();
        }
        fs::create_dir(path.join("notes")).unwrap();
        let runs = read_runs(path, None).unwrap();
        let names: Vec<&str> = runs.nights.iter().map(|night| night.name.as_str()).collect();
        assert_eq!(names, ["b", "a"]);
        let skipped = runs.skipped.join("\n");
        for words in [
            "control: a negative",
            "newer: readings.json: schema 9999",
            "other: of another suite, smoke",
            "timeless: its start",
            "torn: ",
        ] {
            assert!(skipped.contains(words), "{words}: {skipped}");
        }
        assert_eq!(runs.skipped.len(), 5);
        let of_smoke = read_runs(path, Some("smoke")).unwrap();
        assert_eq!((of_smoke.nights.len(), of_smoke.skipped.len()), (1, 4));
        assert!(read_runs(&path.join("nowhere"), None).is_err());
    }

    #[test]
    fn the_cycles_of_a_burn_in_are_its_runs() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(burn_in_files::BURN_IN), "{}").unwrap();
        let cycles = folder.path().join(burn_in_files::CYCLES);
        write(&cycles, "0001", 0, |_| {});
        write(&cycles, "0002", 1, |_| {});
        let runs = read_runs(folder.path(), None).unwrap();
        assert_eq!(
            runs.nights
                .iter()
                .map(|night| night.name.as_str())
                .collect::<Vec<_>>(),
            ["cycle 0001", "cycle 0002"]
        );
    }

    #[test]
    fn a_single_run_is_not_taken_for_a_folder_of_runs() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(files::RUN), "{}").unwrap();
        assert!(
            read_runs(folder.path(), None)
                .unwrap_err()
                .to_string()
                .contains("is one run")
        );
    }

    proptest! {
        #[test]
        fn readings_of_random_bytes_are_refused_or_read_without_a_panic(text in prop::collection::vec(any::<u8>(), 0..200)) {
            _ = parse_readings(&text);
        }

        #[test]
        fn readings_with_something_changed_are_refused_or_read_without_a_panic(at in 0..4000usize, byte in any::<u8>()) {
            let readings = fixture::nights(2, 1, |_, _| 1.0).pop().unwrap().readings;
            let mut text = serde_json::to_vec(&readings).unwrap();
            let at = at % text.len();
            text[at] = byte;
            _ = parse_readings(&text);
        }
    }
}
