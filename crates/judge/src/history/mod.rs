//! Many runs in a row: what changed since earlier runs, and what is only chance.
//!
//! A run says something of every part ([`readings()`]). All parts of one kind go through the runs together (`fleet`): what they have in
//! common is taken out, and the rest is compared with what is usual for the part. How rare a distance from the usual is follows from the
//! fleet's own past; runs that are rare in a row are a step or a slope (`change_point`), followed from the run that proves it to the run
//! that ends it (`series`, `episode`). Findings are followed in the same way (`finding_track`). Changes with one cause are one issue
//! (`related`, `issues`), as urgent as it deserves (`severity`).
//!
//! Held true: everything is a pure function of the row of runs, and a run is judged by what was known when it came: judging the first
//! forty of sixty runs gives what was said then. Nothing is remembered elsewhere. No reading, however strange, causes a panic.

mod changes;
mod dated_change;
mod episode;
mod finding_track;
mod fleet;
mod issues;
mod kinship;
mod look;
mod part_histories;
mod readings;
mod related;
mod rule;
mod series;
mod severity;
mod trends;

pub use changes::{Alarm, alarms};
pub use issues::{since_earlier_runs, since_earlier_runs_by};
pub use readings::readings;
pub use rule::Rule;
pub use severity::SeverityRule;
pub use trends::{trends, trends_by};

#[cfg(any(test, feature = "fixtures"))]
pub mod fixture;
#[cfg(test)]
mod tests;
