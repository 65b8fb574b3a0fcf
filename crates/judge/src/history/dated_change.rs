//! Changes as they are told: in units, with dates, and those that are one matter as one.

use super::describe;
use super::episode::{Ending, Episode};
use super::fleet::Fleet;
use super::part_histories::PartHistories;
use super::related;
use super::series::Series;
use record::{ChangeShape, Night, PartChange};

/// A change of one part, or of several that are one matter.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct DatedChange {
    /// The change, with the others in `with`.
    pub(super) change: PartChange,
    /// The run it began with.
    pub(super) since: usize,
    /// The run that proved it first, of any of its parts.
    pub(super) proved: usize,
    /// The run that proved the latest part of it.
    pub(super) latest: usize,
    /// The last run in which it was seen.
    pub(super) seen: usize,
    /// How it ended, and with which run.
    pub(super) ended: Option<(usize, Ending)>,
    /// Whether all parts of a kind have it in common.
    pub(super) is_common: bool,
    /// Runs between the end of an earlier change of the same part and this one.
    pub(super) away: Option<usize>,
}

/// Changes that last after the last run, those that are one matter as one, the farthest out first.
pub(super) fn lasting(course: &PartHistories, nights: &[Night]) -> Vec<DatedChange> {
    let mut all = Vec::new();
    each(course, |fleet, part, series, is_common| {
        if let Some(episode) = series.episode() {
            let last = series.over.iter().rev().find_map(|over| match over.ended {
                Some((run, Ending::Gone)) => Some(run),
                _ => None,
            });
            all.push(DatedChange {
                away: last.map(|gone| episode.since.saturating_sub(gone)),
                ..told(fleet, part, episode, is_common, nights)
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
pub(super) fn over(course: &PartHistories, nights: &[Night]) -> Vec<DatedChange> {
    let mut all = Vec::new();
    each(course, |fleet, part, series, is_common| {
        all.extend(
            series
                .over
                .iter()
                .map(|episode| told(fleet, part, episode, is_common, nights)),
        );
    });
    all.sort_by(|a, b| {
        (b.ended.map(|(run, _)| run), &a.change.part).cmp(&(a.ended.map(|(run, _)| run), &b.change.part))
    });
    all
}

/// Every change there was, each by itself, whether it lasts or not.
pub(super) fn all(course: &PartHistories, nights: &[Night]) -> Vec<DatedChange> {
    let mut all = Vec::new();
    each(course, |fleet, part, series, is_common| {
        let episodes = series.over.iter().chain(series.episode());
        all.extend(episodes.map(|episode| told(fleet, part, episode, is_common, nights)));
    });
    all
}

/// Parts that stood out in the last run alone, the farthest out first.
pub(super) fn blips(course: &PartHistories, nights: &[Night]) -> Vec<DatedChange> {
    let Some(last) = nights.len().checked_sub(1) else {
        return Vec::new();
    };
    let mut all = Vec::new();
    each(course, |fleet, part, series, is_common| {
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
        all.push(told(fleet, part, &episode, is_common, nights));
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
fn each<'a>(course: &'a PartHistories, mut visit: impl FnMut(&'a Fleet, &str, &'a Series, bool)) {
    for fleet in &course.fleets {
        for (part, series) in &fleet.series {
            visit(fleet, part, series, false);
        }
        visit(fleet, &fleet.common_name(), &fleet.common, true);
    }
}

fn told(fleet: &Fleet, part: &str, episode: &Episode, is_common: bool, nights: &[Night]) -> DatedChange {
    // What is common has no figure of its own: its level is that over what it was in the beginning.
    let after = episode.after.exp();
    let factor = |log: f64| log.exp() - 1.0;
    let since = nights.get(episode.since);
    let mut change = PartChange {
        kind: fleet.kind,
        part: part.to_string(),
        quantity: fleet.quantity,
        shape: episode.shape,
        since: since.map(|night| night.name.clone()).unwrap_or_default(),
        since_at: since
            .map(|night| night.readings.started.clone())
            .unwrap_or_default(),
        runs: episode.runs as u32,
        before: after / episode.effect.exp(),
        after,
        effect: factor(episode.effect),
        effect_interval: (
            factor(episode.effect - 1.96 * episode.error),
            factor(episode.effect + 1.96 * episode.error),
        ),
        score: episode.score.abs(),
        is_worse: (episode.effect < 0.0) == fleet.quantity.is_better_when_higher(),
        with: Vec::new(),
        sentence: String::new(),
    };
    change.sentence = describe::change(&change, is_common);
    DatedChange {
        change,
        since: episode.since,
        proved: episode.proved,
        latest: episode.proved,
        seen: episode.seen,
        ended: episode.ended,
        is_common,
        away: None,
    }
}
