//! The pages that are looked at.

use std::path::{Path, PathBuf};

use judge::findings::judge;
use record::{Judgement, Recorded, files};
use report::WRITERS;

/// A page on disk that goes with its test.
pub struct Page {
    /// What it shows.
    pub judgement: Judgement,
    /// Its file.
    pub file: PathBuf,
    _folder: tempfile::TempDir,
}

/// The folder of the example.
pub fn example_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("reports/examples/slow-cable")
}

/// The record of the example: one slow cable, other firmware on one host.
pub fn example() -> Recorded {
    Recorded::read(&example_folder()).unwrap()
}

/// The page of a run, as it is rendered now.
pub fn page_of(recorded: &Recorded) -> Page {
    let judgement = judge(recorded);
    let writer = WRITERS
        .iter()
        .find(|writer| writer.file() == files::HTML)
        .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join(files::HTML);
    std::fs::write(&file, writer.render(recorded, &judgement).unwrap()).unwrap();
    Page {
        judgement,
        file,
        _folder: folder,
    }
}
