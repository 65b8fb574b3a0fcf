//! Is a cell as fast as expected? Each measured cell against each reference of its test.
//!
//! A spec row applies to transports with links, from its size on, and to the algorithm it was published for. A
//! baseline is what the same cell reached in a recorded run, as absolute as a spec. Peers are the cells that measure
//! the same on other parts; their reference is the median of their medians. The threshold is the reference less its
//! tolerance or margin. A cell is *slow* only when all of this holds:
//!
//! 1. its median is below the threshold, over all rounds together and in every single round, where a round is compared with what its peers reached in the same round (machines drift, and common drift is
//!    not a fault), and it is further below what is expected than healthy measurements of its kind are (`variation`);
//! 2. it was measured `1 + remeasure` times or more;
//! 3. its p-value, corrected by Holm for every comparison of the run, is below the false-positive budget: it is neither the
//!    slow end of what varies between healthy measurements of its kind, nor was it disturbed in every round, nor in some rounds and at the slow end in
//!    the others (`variation`).
//!
//! A group of hosts that hold up iterations now and then, in pairs as well, may be late in most of its own: that is unclear, too (`held_up`).
//!
//! With only the first it is *suspected*: inconclusive until measured again. A cell that is below the threshold only if its ranks
//! started together as exactly as it seems is neither: it is unclear (`start_skew`). Comparisons that fail the first
//! condition enter the correction with a p-value of 1, which is never smaller than the true one: so the budget holds,
//! and the test need not be computed for healthy cells.

mod comparison;
mod disturbed_pairs;
mod filled_slots;
mod references;

pub(super) use comparison::Comparison;

use std::num::NonZeroU16;

use rayon::prelude::*;

use super::peers::PeerGroups;
use super::summary::CellSummary;
use disturbed_pairs::HealthyCells;
use record::stats::holm;
use record::text;
use record::{DecisionRule, Question, Recorded};
use references::{Applied, compare};

/// Why a group may only look slow.
const WAITS_FOR_HOSTS: &str = "hosts that hold up as many iterations as they do in pairs of this run would make it as slow, because a group waits for each of \
                               them: no part is accused";
/// More rounds are not proposed.
const MOST_ROUNDS: u16 = 50;

/// What can be said about a cell's speed.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Speed {
    /// Not measured, and why.
    NotRun(String),
    /// Measured, but cannot be judged, and why.
    Unclear(String),
    /// Smaller than the sizes its spec applies to, or a tree where that is what links carry, and no other reference applies.
    OutOfReach(String),
    /// Meets every reference; this is the most demanding.
    Good(Comparison),
    /// Looks slow, not confirmed, and why not.
    Suspected(Comparison, String),
    /// Slow, confirmed; this is the reference missed most.
    Slow(Comparison),
}

impl Speed {
    /// The comparison the verdict rests on.
    pub(super) fn comparison(&self) -> Option<&Comparison> {
        match self {
            Speed::Good(comparison) | Speed::Slow(comparison) | Speed::Suspected(comparison, _) => {
                Some(comparison)
            }
            _ => None,
        }
    }

    /// Suspected or confirmed.
    pub(super) fn looks_slow(&self) -> bool {
        matches!(self, Speed::Suspected(..) | Speed::Slow(_))
    }

    /// Whether it was slow in every round, and another one may rule out that it was disturbed in all of them.
    pub(super) fn may_be_disturbed(&self, rule: &DecisionRule) -> bool {
        let Speed::Suspected(comparison, _) = self else {
            return false;
        };
        let (measured, slow) = comparison.rounds;
        slow == measured
            && measured <= rule.most_rounds_again()
            && comparison.p_value >= rule.budget_of(Question::Cells)
    }
}

/// The speed of every cell, and how many comparisons that took.
pub(super) fn speeds(recorded: &Recorded, summaries: &[CellSummary<'_>]) -> (Vec<Speed>, u32) {
    let rule = &recorded.run.rule;
    let peers = PeerGroups::of(summaries, rule.confidence);
    let mut answers: Vec<Result<Applied, Speed>> = (0..summaries.len())
        .into_par_iter()
        .map(|place| compare(recorded, summaries, &peers, place))
        .collect();
    filled_slots::judge_together(summaries, &mut answers, rule.confidence);
    let healthy = HealthyCells::of(answers.iter().flatten());
    // Further rounds are asked for until it shows: each of them is another look.
    let looks = f64::from(1 + rule.most_rounds_again() - rule.remeasure);
    let family: usize = answers
        .iter()
        .flatten()
        .map(|applied| applied.comparisons.len())
        .sum();
    let accepted = rule.budget_of(Question::Cells) / family.max(1) as f64;
    for (summary, answer) in summaries.iter().zip(&mut answers) {
        let Ok(applied) = answer else { continue };
        for comparison in applied.comparisons.iter_mut().filter(|one| one.looks_slow) {
            if comparison.waits_for_hosts(summaries, summary) >= accepted {
                comparison.excuse(WAITS_FOR_HOSTS);
                continue;
            }
            let disturbed = |rounds| looks * healthy.are_as_slow(comparison, applied.pairs, rounds);
            let chance = |more| comparison.is_chance(more, disturbed).min(1.0);
            let measured = comparison.rounds.0;
            let enough = (measured..=MOST_ROUNDS).find(|rounds| chance(rounds - measured) < accepted);
            let p_value = chance(0);
            comparison.enough_rounds = enough.and_then(NonZeroU16::new);
            comparison.p_value = p_value;
        }
    }
    let mut compared: Vec<&mut Comparison> = answers
        .iter_mut()
        .flatten()
        .flat_map(|applied| applied.comparisons.iter_mut())
        .collect();
    let p_values: Vec<f64> = compared.iter().map(|comparison| comparison.p_value).collect();
    for (comparison, adjusted) in compared.iter_mut().zip(holm(&p_values)) {
        comparison.p_value = adjusted;
    }
    let speed =
        |answer: Result<Applied, Speed>| answer.map_or_else(|speed| speed, |applied| conclude(applied, rule));
    (answers.into_iter().map(speed).collect(), p_values.len() as u32)
}

/// The verdict on a cell by all its comparisons.
fn conclude(mut applied: Applied, rule: &DecisionRule) -> Speed {
    let strictest = applied.comparisons.iter().map(Comparison::noticed);
    if let Some(strictest) = strictest.max_by(|a, b| a.below.0.total_cmp(&b.below.0)) {
        for comparison in &mut applied.comparisons {
            comparison.notice(strictest);
        }
    }
    let worst = |list: &mut dyn Iterator<Item = &Comparison>| {
        list.min_by(|a, b| a.ratio().total_cmp(&b.ratio())).cloned()
    };
    if let Some(slow) = worst(&mut applied.comparisons.iter().filter(|c| c.is_confirmed(rule))) {
        return Speed::Slow(slow);
    }
    if let Some(suspect) = worst(&mut applied.comparisons.iter().filter(|c| c.looks_slow)) {
        let why = suspicion(&suspect, rule);
        return Speed::Suspected(suspect, why);
    }
    if let Some(doubt) = applied
        .comparisons
        .iter()
        .find_map(|comparison| comparison.doubt.clone())
    {
        return Speed::Unclear(doubt.into());
    }
    if let Some(demanding) = worst(&mut applied.comparisons.iter()) {
        return Speed::Good(demanding);
    }
    let reasons = applied.reasons.join("; ");
    if applied.is_out_of_reach {
        Speed::OutOfReach(reasons)
    } else {
        Speed::Unclear(format!("no expectation: {reasons}"))
    }
}

/// Why a suspect is not accused.
fn suspicion(suspect: &Comparison, rule: &DecisionRule) -> String {
    let (measured, slow) = suspect.rounds;
    let why = if measured <= rule.remeasure {
        format!(
            "not re-measured ({measured} of {} rounds)",
            u32::from(rule.remeasure) + 1
        )
    } else if slow < measured {
        format!("slow in {slow} of {measured} rounds only")
    } else {
        let more = match suspect.enough_rounds {
            Some(rounds) => format!(
                "{rounds} rounds that are all as slow would settle it (remeasure = {})",
                rounds.get() - 1
            ),
            None => "more rounds would not settle it: healthy measurements of this run differ by as much, or are slow as often"
                .to_string(),
        };
        format!("not significant: {}; {more}", text::p_value(suspect.p_value))
    };
    format!("suspected slow, {}; {why}", suspect.in_words())
}
