//! Names of new run folders: start time and suite.

use std::path::{Path, PathBuf};

use crate::run_clock::now;

/// Characters of a suite's name that a folder's name takes: file systems limit names to 255 bytes.
const MAX_SUITE_NAME: usize = 100;

/// A new folder under `reports/`.
pub fn default_folder(suite: &str) -> PathBuf {
    new_folder(Path::new("reports"), suite)
}

/// A new folder in `parent`.
pub fn new_folder(parent: &Path, suite: &str) -> PathBuf {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let name: String = suite
        .chars()
        .take(MAX_SUITE_NAME)
        .map(|c| if is_allowed(c) { c } else { '_' })
        .collect();
    let stamp = now().replace(':', "-");
    let base = parent.join(format!("{stamp}-{name}"));
    let numbered = (2..).map(|number| base.with_file_name(format!("{stamp}-{name}-{number}")));
    let mut candidates = std::iter::once(base.clone()).chain(numbered);
    candidates.find(|candidate| !candidate.exists()).unwrap_or(base)
}
