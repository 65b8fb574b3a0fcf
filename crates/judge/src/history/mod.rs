//! Many runs in a row: what changed since the nights before, and what is only chance.
//!
//! A run says something of every part ([`readings()`]). All parts of one kind go through the runs together (`fleet`): what they have
//! in common is taken off, the rest is set against what is usual for the part (`baseline`), how rare that is follows from the fleet's
//! own past (`score`), and runs that are rare in a row are a step or a slope (`change`), followed from the run that proves it to the
//! run that ends it (`series`, `episode`). Findings are followed in the same way (`standing`); what is one matter is told once (`related`,
//! `told`), as loudly as it deserves (`severity`).
//!
//! Held true: everything is a pure function of the row of nights, and a night is judged by what was known when it came: judging the
//! first forty of sixty nights gives what was said then. Nothing is remembered elsewhere. Whatever is in the readings, however
//! strange, is judged without a panic.

mod alarms;
mod dated_change;
pub mod describe;
mod episode;
mod finding_track;
mod fleet;
mod identity;
mod issues;
mod part_histories;
mod readings;
mod related;
mod rule;
mod series;
mod severity;
mod trends;

pub use alarms::{Alarm, alarms};
pub use issues::{since_earlier_runs, since_earlier_runs_by};
pub use readings::readings;
pub use rule::Rule;
pub use severity::SeverityRule;
pub use trends::{trends, trends_by};

#[cfg(any(test, feature = "fixtures"))]
pub mod fixture;
#[cfg(test)]
mod tests;
