//! From recorded runs to verdicts: detectors and findings, many runs in a row, decisions of a burn-in. Pure functions; nothing
//! here touches hardware, so a run recorded anywhere can be judged again.

pub mod burn_in;
mod change_point;
pub mod compare;
pub mod findings;
pub mod history;
#[cfg(any(test, feature = "fixtures"))]
pub mod tally;
