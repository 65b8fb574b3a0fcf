//! The suite file: what to measure and what to expect.
//!
//! A suite is parsed, then checked: [`SuiteFile::parse`] accepts TOML whose every key is known, [`SuiteFile::check`] gives
//! every value its meaning. After that a [`Suite`] holds no contradiction that can be seen without the fabric: algorithms
//! exist for their collectives, sweeps end, names are unique. Every error names file, line and column, and the nearest
//! known word.

mod builtin;
mod burn_in;
mod case;
mod case_check;
mod check;
pub mod counters;
mod ecmp;
mod error;
mod file;
pub mod golden;
mod kind_keys;
mod probe;
mod reader;
mod settings;
pub mod spec;
mod suggest;
pub mod sweep;
mod traffic;
mod verbs;

pub use case::{
    AlgorithmChoice, BaselineChoice, Directions, Expectation, Groups, RailPairing, Schedule, SpecChoice,
    Striping, TestCase,
};
pub use ecmp::{EcmpSettings, SourcePorts};
pub use error::{Position, SuiteError};
pub use file::SuiteFile;
pub use golden::Golden;
pub use probe::ProbeSettings;
pub use settings::{EngineChoice, RunSettings, TransportChoice};
pub use suggest::{nearest, quoted, suggestion};
pub use traffic::TrafficSettings;
pub use verbs::{CompletionChoice, GpuDirectChoice, VerbsSettings};

use record::units::Bytes;
use record::{Criteria, DecisionRule};

/// A checked suite.
#[derive(Debug, Clone, PartialEq)]
pub struct Suite {
    /// Its name; part of the run folder's name.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// Settings of the whole run.
    pub run: RunSettings,
    /// RDMA settings of the run.
    pub verbs: VerbsSettings,
    /// How verdicts are reached.
    pub rule: DecisionRule,
    /// What a burn-in of it accepts.
    pub burn_in: Criteria,
    /// Its tests, in order.
    pub tests: Vec<TestCase>,
}

impl Suite {
    /// A suite of the given tests with default settings, for commands that measure without a file.
    pub fn of(name: impl Into<String>, tests: Vec<TestCase>) -> Suite {
        Suite {
            name: name.into(),
            description: String::new(),
            run: RunSettings::default(),
            verbs: VerbsSettings::default(),
            rule: DecisionRule::default(),
            burn_in: Criteria::default(),
            tests,
        }
    }

    /// The built-in suite of that name, or the suite in that file.
    pub fn load(name_or_path: &str) -> Result<Suite, SuiteError> {
        builtin::load(name_or_path)
    }

    /// The text of the built-in suite of that name, or of the suite in that file.
    pub fn text(name_or_path: &str) -> Result<String, SuiteError> {
        builtin::text(name_or_path).map(|(_, text)| text)
    }

    /// The largest payload any of its tests asks for.
    pub fn largest(&self) -> Bytes {
        let sizes = self.tests.iter().flat_map(|test| &test.sizes);
        sizes.copied().max().unwrap_or_default()
    }

    /// Names of the built-in suites.
    pub fn built_in() -> impl Iterator<Item = &'static str> {
        builtin::SUITES.iter().map(|(name, _)| *name)
    }
}
