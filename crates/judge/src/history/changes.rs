//! The changes of all parts: those that last, those that are over, single runs that stand out, and every one with the run that proved it.

use super::dated_change::{DatedChange, dated};
use super::episode::{Ending, Episode};
use super::fleet::Fleet;
use super::part_histories::PartHistories;
use super::related;
use super::rule::Rule;
use super::series::Series;
use record::{ChangeShape, Night, PartChange};

/// Changes that last after the last run, those that are one issue as one, the farthest out first.
pub(super) fn lasting(histories: &PartHistories, nights: &[Night]) -> Vec<DatedChange> {
    let mut all = Vec::new();
    each(histories, |fleet, part, series, is_common| {
        if let Some(episode) = series.episode() {
            let last = series.over.iter().rev().find_map(|over| match over.ended {
                Some((run, Ending::Gone)) => Some(run),
                _ => None,
            });
            all.push(DatedChange {
                away: last.map(|gone| episode.since.saturating_sub(gone)),
                ..dated(fleet, part, episode, is_common, nights)
            });
        }
    });
    let mut joined = related::joined(all);
    joined.sort_by(|a, b| {
        b.change
            .score
            .abs()
            .total_cmp(&a.change.score.abs())
            .then_with(|| a.change.part.cmp(&b.change.part))
    });
    joined
}

/// Changes that are over, the latest first.
pub(super) fn over(histories: &PartHistories, nights: &[Night]) -> Vec<DatedChange> {
    let mut all = Vec::new();
    each(histories, |fleet, part, series, is_common| {
        all.extend(
            series
                .over
                .iter()
                .map(|episode| dated(fleet, part, episode, is_common, nights)),
        );
    });
    all.sort_by(|a, b| {
        (b.ended.map(|(run, _)| run), &a.change.part).cmp(&(a.ended.map(|(run, _)| run), &b.change.part))
    });
    all
}

/// Every change there was, each by itself, whether it lasts or not.
pub(super) fn all(histories: &PartHistories, nights: &[Night]) -> Vec<DatedChange> {
    let mut all = Vec::new();
    each(histories, |fleet, part, series, is_common| {
        let episodes = series.over.iter().chain(series.episode());
        all.extend(episodes.map(|episode| dated(fleet, part, episode, is_common, nights)));
    });
    all
}

/// Parts that stood out in the last run alone, the farthest out first.
pub(super) fn blips(histories: &PartHistories, nights: &[Night]) -> Vec<DatedChange> {
    let Some(last) = nights.len().checked_sub(1) else {
        return Vec::new();
    };
    let mut all = Vec::new();
    each(histories, |fleet, part, series, is_common| {
        let Some((run, effect, score)) = series
            .blip
            .filter(|(run, ..)| *run == last && series.episode().is_none())
        else {
            return;
        };
        let Some(after) = series.last_log(run) else { return };
        let episode = Episode {
            shape: ChangeShape::Blip,
            since: run,
            proved: run,
            seen: run,
            runs: 1,
            score,
            after,
            effect,
            error: (effect / score).abs(),
            ended: None,
        };
        all.push(dated(fleet, part, &episode, is_common, nights));
    });
    let mut joined = related::joined(all);
    joined.sort_by(|a, b| {
        b.change
            .score
            .abs()
            .total_cmp(&a.change.score.abs())
            .then_with(|| a.change.part.cmp(&b.change.part))
    });
    joined
}

/// Every part of every fleet, and each fleet as a whole.
fn each<'a>(histories: &'a PartHistories, mut visit: impl FnMut(&'a Fleet, &str, &'a Series, bool)) {
    for fleet in &histories.fleets {
        for (part, series) in &fleet.series {
            visit(fleet, part, series, false);
        }
        visit(fleet, &fleet.common_name(), &fleet.common, true);
    }
}

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
    let histories = PartHistories::of(nights, rule);
    let mut alarms: Vec<Alarm> = all(&histories, nights)
        .into_iter()
        .map(|dated| Alarm {
            proved: dated.proved,
            since: dated.since,
            is_common: dated.is_common,
            change: dated.change,
        })
        .collect();
    alarms.sort_by(|a, b| (a.proved, &a.change.part).cmp(&(b.proved, &b.change.part)));
    alarms
}
