//! The suites built into the binary, and finding a suite by name or path.

use std::path::Path;

use super::error::SuiteError;
use super::suggest::{nearest, quoted};
use super::{Suite, SuiteFile};

/// The built-in suites.
pub(super) const SUITES: &[(&str, &str)] = &[
    ("smoke", include_str!("../../../../suites/smoke.toml")),
    ("all-reduce", include_str!("../../../../suites/all-reduce.toml")),
    ("rails", include_str!("../../../../suites/rails.toml")),
    ("links", include_str!("../../../../suites/links.toml")),
    ("ecmp", include_str!("../../../../suites/ecmp.toml")),
    ("probe", include_str!("../../../../suites/probe.toml")),
    ("fairness", include_str!("../../../../suites/fairness.toml")),
    (
        "worst-traffic",
        include_str!("../../../../suites/worst-traffic.toml"),
    ),
    ("congestion", include_str!("../../../../suites/congestion.toml")),
    ("gpu", include_str!("../../../../suites/gpu.toml")),
    ("nightly", include_str!("../../../../suites/nightly.toml")),
    ("burn-in", include_str!("../../../../suites/burn-in.toml")),
];

/// A suite file larger than this is not a suite file.
const LARGEST_FILE: u64 = 4 << 20;

/// The built-in suite of that name, or the suite in that file.
pub(super) fn load(name_or_path: &str) -> Result<Suite, SuiteError> {
    let (origin, text) = text(name_or_path)?;
    SuiteFile::parse(&text, &origin)?.check()
}

/// The text of that suite, and what errors call it.
pub(super) fn text(name_or_path: &str) -> Result<(String, String), SuiteError> {
    if let Some((name, text)) = SUITES.iter().find(|(name, _)| *name == name_or_path) {
        return Ok((format!("suites/{name}.toml"), text.to_string()));
    }
    let error = |message: String| SuiteError {
        origin: name_or_path.to_string(),
        at: None,
        message,
    };
    let path = Path::new(name_or_path);
    let looks_like_a_path = name_or_path.contains('/') || name_or_path.ends_with(".toml");
    if !looks_like_a_path && !path.exists() {
        return Err(error(no_such_suite(name_or_path)));
    }
    let metadata = std::fs::metadata(path).map_err(|cause| error(format!("cannot be read: {cause}")))?;
    if !metadata.is_file() || metadata.len() > LARGEST_FILE {
        return Err(error("is not a suite file, or is larger than 4 MiB".to_string()));
    }
    let text = std::fs::read_to_string(path).map_err(|cause| error(format!("cannot be read: {cause}")))?;
    Ok((name_or_path.to_string(), text))
}

fn no_such_suite(name: &str) -> String {
    let names: Vec<&str> = Suite::built_in().collect();
    let near = match nearest(name, names.iter().copied()) {
        Some(near) => format!("; did you mean `{near}`?"),
        None => String::new(),
    };
    let names = names.join(", ");
    format!(
        "there is no built-in suite or file {}; built in are {names}{near}",
        quoted(name)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_suite_lists_those_there_are_and_the_nearest() {
        let error = Suite::load("smok").unwrap_err().to_string();
        assert_eq!(
            error,
            "smok: there is no built-in suite or file `smok`; built in are smoke, all-reduce, rails, links, ecmp, probe, fairness, worst-traffic, congestion, gpu, nightly, burn-in; did you mean `smoke`?"
        );
        let error = Suite::load("nowhere/x.toml").unwrap_err().to_string();
        assert!(error.starts_with("nowhere/x.toml: cannot be read: "), "{error}");
    }

    #[test]
    fn a_suite_of_ones_own_is_read_from_its_file_and_errors_name_that_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mine.toml");
        std::fs::write(
            &path,
            "name = \"mine\"\n[[test]]\nname = \"t\"\nsizes = [\"1M\"]\n",
        )
        .unwrap();
        let path = path.to_str().unwrap();
        assert_eq!(Suite::load(path).unwrap().name, "mine");
        std::fs::write(path, "name = \"mine\"\n[[test]]\nsize = 3\n").unwrap();
        let error = Suite::load(path).unwrap_err().to_string();
        assert!(
            error.starts_with(&format!("{path}:3:1: unknown key `size`")),
            "{error}"
        );
        assert!(Suite::load(folder.path().to_str().unwrap()).is_err());
    }

    #[test]
    fn every_built_in_suite_is_called_what_its_file_is_called() {
        for name in Suite::built_in() {
            let suite = Suite::load(name).unwrap();
            assert_eq!(suite.name, name);
            assert!(!suite.description.is_empty());
        }
    }
}
