//! Verdicts in words, the same in every format.

use record::Verdict;

/// A verdict's word and its reason.
pub(crate) fn verdict_words(verdict: &Verdict) -> (&'static str, Option<&str>) {
    match verdict {
        Verdict::Pass => ("pass", None),
        Verdict::Fail(why) => ("fail", Some(why)),
        Verdict::Inconclusive(why) => ("inconclusive", Some(why)),
        Verdict::NotRun(why) => ("not run", Some(why)),
    }
}
