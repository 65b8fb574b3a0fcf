//! A change of one part in units and with dates.

use super::episode::{Ending, Episode};
use super::fleet::Fleet;
use record::text::signed_percent;
use record::{ChangeShape, Night, PartChange};

/// A change of one part, or of several that are one issue.
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

/// A change in units and with dates.
pub(super) fn dated(
    fleet: &Fleet,
    part: &str,
    episode: &Episode,
    is_common: bool,
    nights: &[Night],
) -> DatedChange {
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
    change.sentence = sentence(&change, is_common);
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

/// The whole change in one sentence.
fn sentence(change: &PartChange, is_common: bool) -> String {
    let name = match is_common {
        true => format!("{}, median", change.part),
        false => format!("{} {}", change.kind.noun(), change.part),
    };
    let (lower, upper) = change.effect_interval;
    let by = format!(
        "{} [{:+.1}, {:+.1}]",
        signed_percent(change.effect),
        100.0 * lower,
        100.0 * upper
    );
    let figures = match is_common {
        true => String::new(),
        false => format!(
            ", {} where {} is usual",
            change.quantity.with_unit(change.after),
            change.quantity.with_unit(change.before)
        ),
    };
    let quantity = change.quantity;
    match change.shape {
        ChangeShape::Step => format!(
            "{name}: {quantity} {by} since {} ({} runs){figures}",
            change.since, change.runs
        ),
        ChangeShape::Slope => format!(
            "{name}: {quantity} {by} bit by bit since {} ({} runs){figures}",
            change.since, change.runs
        ),
        ChangeShape::Blip => format!(
            "{name}: {quantity} {} in this run only so far{figures}",
            signed_percent(change.effect)
        ),
    }
}
