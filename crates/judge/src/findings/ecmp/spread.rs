//! How the flows of one switch are spread over its members, and what kind of unevenness it is.
//!
//! Whether something is wrong is tested against a fair hash ([`nulls`](super::nulls)). What it is depends on whether
//! the groups agree: a hash that cannot distinguish the flows of a group gives every group its own members
//! (*polarised*); unequal weights give all groups the same shares. Agreement is tested by shuffling the members among
//! the flows, which keeps the shares and breaks everything specific to groups.

use std::collections::HashSet;

use super::flows::RailFlows;
use super::nulls::NullStore;
use record::stats::fair_hash::{Evenness, FlowGroups};
use topology::graph::LinkId;

/// P-value below which groups disagree with each other.
const DISAGREE: f64 = 0.005;

/// A statistic and its null distribution.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct TestStatistic {
    pub(super) name: &'static str,
    pub(super) value: f64,
    pub(super) null_median: f64,
    /// Probability of this or more under a fair hash.
    pub(super) p_value: f64,
}

/// What kind of spread it is.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum SpreadKind {
    /// As under a fair hash.
    Fair,
    /// Flows of a group stick together, or members are left out.
    Polarised,
    /// The same unequal shares for all.
    Unequal,
    /// Less even than any trial of a fair hash, and too many switches are judged to say that it is not one.
    Open,
}

/// The spread of one switch's flows.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Spread {
    /// Flows with distinct five-tuples whose member is known.
    pub(super) flows: u32,
    /// Flows per set and member.
    pub(super) counts: Vec<Vec<u32>>,
    pub(super) pooled: TestStatistic,
    pub(super) within: TestStatistic,
    pub(super) paired: Option<TestStatistic>,
    pub(super) max_over_mean: TestStatistic,
    /// What it is; decided at the level of the store.
    pub(super) kind: SpreadKind,
}

impl Spread {
    /// The statistic that decided: the least likely one where something is wrong, the plainest where nothing is.
    pub(super) fn decisive(&self) -> TestStatistic {
        let candidates = [Some(self.pooled), Some(self.within), self.paired];
        match self.kind {
            SpreadKind::Fair | SpreadKind::Unequal => self.pooled,
            SpreadKind::Polarised | SpreadKind::Open => {
                let least = candidates
                    .into_iter()
                    .flatten()
                    .min_by(|a, b| a.p_value.total_cmp(&b.p_value).then(b.value.total_cmp(&a.value)));
                least.unwrap_or(self.pooled)
            }
        }
    }

    /// Members that no flow was sent over, as set and position.
    pub(super) fn unused(&self) -> Vec<(usize, usize)> {
        let mut unused = Vec::new();
        for (set, counts) in self.counts.iter().enumerate() {
            let any = counts.iter().any(|count| *count > 0);
            let none = counts.iter().enumerate().filter(|(_, count)| any && **count == 0);
            unused.extend(none.map(|(member, _)| (set, member)));
        }
        unused
    }
}

/// How the flows of a chooser are spread over its members, leaving out those in `without`; none when no member of any is known.
pub(super) fn spread(
    number: usize,
    rail: &RailFlows<'_>,
    without: &HashSet<LinkId>,
    store: &mut NullStore,
) -> Option<Spread> {
    let chooser = &rail.choosers.all[number];
    let alive: Vec<Vec<usize>> = chooser
        .sets
        .iter()
        .map(|set| (0..set.len()).filter(|at| !without.contains(&set[*at])).collect())
        .collect();
    let members: Vec<usize> = alive.iter().map(Vec::len).collect();
    let mut named = Vec::new();
    let mut chosen = Vec::new();
    for flow in rail.of_chooser(number).filter(|flow| flow.fresh) {
        let Some(choice) = flow.choices.iter().find(|choice| choice.chooser == number) else {
            continue;
        };
        let member = choice.member.and_then(|member| {
            let mut left = alive[choice.set].iter();
            left.position(|at| *at == member)
        });
        let Some(member) = member.filter(|_| members[choice.set] > 1) else {
            continue;
        };
        let pair = flow.pair as u64;
        let group = match chooser.tier {
            1 => pair,
            _ => choice.came_by.map_or(u64::MAX, |link| u64::from(link.0)),
        };
        named.push((choice.set, group, pair));
        chosen.push(member);
    }
    if named.is_empty() {
        return None;
    }
    let (structure, order) = FlowGroups::of(&members, &named);
    let chosen: Vec<usize> = order.iter().map(|at| chosen[*at]).collect();
    let sets: Vec<usize> = order.iter().map(|at| named[*at].0).collect();
    let values = structure.statistics(&chosen);
    let nulls = store.of(&structure, &values);
    let mut is_open = false;
    let mut measured = |which: usize, name: &'static str, value: f64| {
        let chance = store.chance(&structure, &nulls[which], which, value);
        is_open |= chance.is_open;
        TestStatistic {
            name,
            value,
            null_median: nulls[which].median(),
            p_value: chance.p_value,
        }
    };
    let mut counts: Vec<Vec<u32>> = members.iter().map(|count| vec![0; *count]).collect();
    for (set, member) in sets.iter().zip(&chosen) {
        counts[*set][*member] += 1;
    }
    let within = match chooser.tier {
        1 => "chi-square within pairs",
        _ => "chi-square given the first choice",
    };
    let mut spread = Spread {
        flows: structure.len() as u32,
        counts,
        pooled: measured(0, "chi-square over all flows", values.pooled),
        within: measured(1, within, values.within),
        paired: (chooser.tier > 1).then(|| measured(2, "chi-square within pairs", values.paired)),
        max_over_mean: TestStatistic {
            name: "busiest over mean",
            value: values.max_over_mean,
            null_median: nulls[3].median(),
            p_value: nulls[3].p_upper(values.max_over_mean),
        },
        kind: SpreadKind::Fair,
    };
    spread.kind = match kind(&spread, &structure, &values, &chosen, store.level) {
        SpreadKind::Fair if is_open => SpreadKind::Open,
        kind => kind,
    };
    Some(spread)
}

fn kind(
    spread: &Spread,
    structure: &FlowGroups,
    values: &Evenness,
    chosen: &[usize],
    level: f64,
) -> SpreadKind {
    let tests = [Some(spread.pooled), Some(spread.within), spread.paired];
    let rejected = |test: &TestStatistic| test.p_value <= level;
    if !tests.iter().flatten().any(rejected) {
        return SpreadKind::Fair;
    }
    let (within, paired) = disagreement(structure, values, chosen);
    let disagree = within < DISAGREE || spread.paired.is_some() && paired < DISAGREE;
    if disagree || !spread.unused().is_empty() {
        SpreadKind::Polarised
    } else {
        SpreadKind::Unequal
    }
}

/// P-values that groups, and pairs, differ as much when members are shuffled among the flows of a set.
fn disagreement(structure: &FlowGroups, values: &Evenness, chosen: &[usize]) -> (f64, f64) {
    let trials = (2_000_000 / chosen.len().max(1)).clamp(400, 2000);
    let [within, paired] = structure.shuffled(chosen, trials, 0xd15a);
    (within.p_upper(values.within), paired.p_upper(values.paired))
}

/// Weights that would give such counts, as small whole numbers: `3:1`.
pub(super) fn weights(counts: &[u32]) -> String {
    if counts.is_empty() {
        return "unknown".to_string();
    }
    let mut sorted: Vec<f64> = counts.iter().map(|count| f64::from(*count)).collect();
    sorted.sort_unstable_by(f64::total_cmp);
    // The light ones are everything below the widest step; their mean is the unit.
    let steps = sorted.windows(2).map(|pair| pair[1] / pair[0].max(0.5));
    let widest = steps
        .enumerate()
        .max_by(|a, b| a.1.total_cmp(&b.1))
        .map_or(0, |(at, _)| at);
    let light = &sorted[..=widest];
    let unit = (light.iter().sum::<f64>() / light.len() as f64).max(0.5);
    let weights: Vec<String> = counts
        .iter()
        .map(|count| (f64::from(*count) / unit).round().max(1.0).to_string())
        .collect();
    weights.join(":")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_said_in_small_numbers() {
        assert_eq!(weights(&[241, 79]), "3:1");
        assert_eq!(weights(&[150, 48, 55, 51]), "3:1:1:1");
        assert_eq!(weights(&[118, 125, 38, 41]), "3:3:1:1");
        assert_eq!(weights(&[]), "unknown");
    }
}
