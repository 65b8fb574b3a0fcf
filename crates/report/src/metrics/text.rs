//! The text format: OpenMetrics, which older readers of the Prometheus format take as well, as everything is a gauge.
//!
//! Held true: a series is there once; a value that is not a finite number is not there at all; a label is one line without an end
//! of its own, however it was called.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::names::{ALL, Family};
use crate::escape;

/// The longest label value, in characters before escaping.
const LONGEST_LABEL: usize = 200;

/// The series of one run.
pub(super) struct Sheet {
    suite: String,
    series: BTreeMap<&'static str, BTreeMap<Vec<String>, f64>>,
}

impl Sheet {
    /// An empty one for a suite.
    pub(super) fn of(suite: &str) -> Sheet {
        Sheet {
            suite: label(suite),
            series: BTreeMap::new(),
        }
    }

    /// Puts a value in. The values of its labels stand in the order of the family's.
    pub(super) fn put(&mut self, family: &Family, labels: &[&str], value: f64) {
        debug_assert_eq!(labels.len(), family.labels.len(), "{}", family.name);
        if value.is_finite() {
            let labels = labels.iter().map(|text| label(text)).collect();
            self.series.entry(family.name).or_default().insert(labels, value);
        }
    }

    /// The same, where the value may be absent.
    pub(super) fn put_known(&mut self, family: &Family, labels: &[&str], value: Option<f64>) {
        if let Some(value) = value {
            self.put(family, labels, value);
        }
    }

    /// The same with values of labels that [`label`] has made already.
    pub(super) fn put_escaped(&mut self, family: &Family, labels: &[String], value: Option<f64>) {
        debug_assert_eq!(labels.len(), family.labels.len(), "{}", family.name);
        if let Some(value) = value.filter(|value| value.is_finite()) {
            let series = self.series.entry(family.name).or_default();
            series.insert(labels.to_vec(), value);
        }
    }

    /// The file.
    pub(super) fn render(&self) -> Result<String, std::fmt::Error> {
        let mut out = String::new();
        for family in ALL {
            let Some(series) = self.series.get(family.name) else {
                continue;
            };
            writeln!(out, "# HELP {} {}", family.name, family.help)?;
            writeln!(out, "# TYPE {} gauge", family.name)?;
            if !family.unit.is_empty() {
                writeln!(out, "# UNIT {} {}", family.name, family.unit)?;
            }
            for (values, value) in series {
                write!(out, "{}{{suite=\"{}\"", family.name, self.suite)?;
                for (name, text) in family.labels.iter().zip(values) {
                    write!(out, ",{name}=\"{text}\"")?;
                }
                writeln!(out, "}} {value}")?;
            }
        }
        out.push_str("# EOF\n");
        Ok(out)
    }
}

/// A label's value as it stands between its quotes.
pub(super) fn label(text: &str) -> String {
    let cut: String = match text.chars().count() > LONGEST_LABEL {
        false => text.to_string(),
        true => text
            .chars()
            .take(LONGEST_LABEL - 3)
            .chain("...".chars())
            .collect(),
    };
    let mut out = String::with_capacity(cut.len());
    for c in escape::line(&cut).chars() {
        if matches!(c, '\\' | '"') {
            out.push('\\');
        }
        out.push(c);
    }
    out
}
