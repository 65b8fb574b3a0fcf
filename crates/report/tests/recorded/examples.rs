//! The kept examples: what today's program makes of yesterday's samples is what lies beside them, to the byte.
//!
//! `RAILGAUGE_UPDATE=1` writes the files anew; look at the difference before it is kept.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use judge::findings::judge;
use railgauge_report::WRITERS;
use record::{Recorded, files};

/// The most that a kept run may weigh, so that a clone stays quick.
const HEAVIEST: u64 = 3_000_000;

fn examples() -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../reports/examples")).to_path_buf()
}

/// Every folder below `folder` that holds a run.
fn runs_below(folder: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    if folder.join(files::RUN).exists() {
        found.insert(folder.to_path_buf());
    }
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(runs_below(&path));
        }
    }
    found
}

#[test]
fn kept_examples_are_what_this_program_makes_of_them() {
    let is_update = std::env::var_os("RAILGAUGE_UPDATE").is_some();
    let runs = runs_below(&examples());
    assert!(runs.len() >= 4, "{runs:?}");
    for folder in runs {
        let recorded = Recorded::read(&folder).unwrap();
        let judgement = judge(&recorded);
        for writer in WRITERS {
            let file = folder.join(writer.file());
            if !writer.is_wanted(&judgement) {
                assert!(!file.exists(), "{} is left over", file.display());
                continue;
            }
            let today = writer.render(&recorded, &judgement).unwrap();
            let again = writer.render(&recorded, &judge(&recorded)).unwrap();
            assert!(today == again, "{}: two renderings differ", file.display());
            if is_update {
                fs::write(&file, &today).unwrap();
            }
            let kept = fs::read_to_string(&file).unwrap_or_default();
            assert!(
                kept == today,
                "{} differs from what is rendered today, first in line {}; look at it, then RAILGAUGE_UPDATE=1 cargo test --test recorded",
                file.display(),
                1 + kept
                    .lines()
                    .zip(today.lines())
                    .take_while(|(a, b)| a == b)
                    .count()
            );
        }
    }
}

#[test]
fn the_example_names_its_slow_cable_and_the_other_firmware() {
    let folder = examples().join("slow-cable");
    let recorded = Recorded::read(&folder).unwrap();
    let judgement = judge(&recorded);
    assert_eq!(judgement.exit_code, 12, "{}", judgement.summary);
    let worst = &judgement.findings[0];
    assert_eq!(worst.suspects[0].part, "rail1-leaf2/u1->rail1-spine1/d2");
    let drifted = judgement
        .findings
        .iter()
        .any(|finding| finding.place.hosts == ["h1"] && finding.sentence.contains("28.39.1002"));
    assert!(drifted, "{:?}", judgement.findings);
    assert!(recorded.run.injected.is_empty(), "it is a run, not a drawing");
    let weight: u64 = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().metadata().unwrap().len())
        .sum();
    assert!(weight < HEAVIEST, "{weight} bytes");
}
