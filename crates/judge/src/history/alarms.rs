//! Every change with the run that proved it: how well the history would have done.

use super::dated_change;
use super::part_histories::PartHistories;
use super::rule::Rule;
use record::{Night, PartChange};

/// A change, and when it was known.
#[derive(Debug, Clone, PartialEq)]
pub struct Alarm {
    /// The run that proved it, counted from 0.
    pub proved: usize,
    /// The run it began with, counted from 0.
    pub since: usize,
    /// The change, as it was seen last.
    pub change: PartChange,
    /// Whether all parts of a kind have it in common.
    pub is_common: bool,
}

/// Every change that was proved at any time, each night judged as it came, in the order of the runs that proved them.
pub fn alarms(nights: &[Night], rule: &Rule) -> Vec<Alarm> {
    let course = PartHistories::of(nights, rule);
    let mut alarms: Vec<Alarm> = dated_change::all(&course, nights)
        .into_iter()
        .map(|told| Alarm {
            proved: told.proved,
            since: told.since,
            is_common: told.is_common,
            change: told.change,
        })
        .collect();
    alarms.sort_by(|a, b| (a.proved, &a.change.part).cmp(&(b.proved, &b.change.part)));
    alarms
}
