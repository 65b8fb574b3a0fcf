//! How sure it is that a part is slow: the p-value of the flows that it explains (docs/method.md, "What varies where nothing is wrong").
//!
//! Flows over a healthy part look slow for two reasons. Its level, and what varies between measurements, may lie at the slow end of what
//! healthy ones have; or each of them was disturbed. Both are ruled out: the p-value is the larger one of the two. A slot counts once.

use std::collections::{BTreeMap, BTreeSet};

use super::element::Elements;
use super::explain::Explanation;
use super::flow::{FlowState, MeasuredFlow};
use crate::findings::power::ASSUMED_LEVEL;
use crate::findings::speed::Speed;
use crate::findings::summary::CellSummary;
use crate::findings::variation::{Disturbances, Variation, error_of, shortfall};
use record::stats::{EFFICIENCY, Scale, median};
use record::{DecisionRule, Question};

/// The deviation of the levels of healthy parts that is assumed beforehand, and how many parts that is worth.
const ASSUMED: (f64, f64) = (ASSUMED_LEVEL, 4.0);

/// A part that was slow in this many slots and good in none is not likely disturbed,
const SOLID: usize = 3;
/// unless chance makes this many of all parts look like that, or more: of thousands of parts some are crossed by disturbed flows only.
const SOLID_BY_CHANCE: f64 = 0.05;
/// No measurement is known better than this.
const LEAST_VARIANCE: f64 = 1e-12;
/// More measurements are not asked for at a time.
const MOST_MISSING: u32 = 8;
/// What takes more measurements than this is not proposed.
const MOST_PROPOSED: u32 = 50;

/// How sure it is that a part is slow.
#[derive(Debug, Clone, Copy)]
pub(super) struct Answer {
    /// P-value of this data for a healthy part, corrected for all parts.
    pub(super) p_value: f64,
    /// Further measurements that would settle it, if they are as slow; none where no number would.
    pub(super) enough: Option<u32>,
}

impl Answer {
    /// Measurements to ask for.
    pub(super) fn missing(&self) -> u32 {
        self.enough.unwrap_or(MOST_MISSING).min(MOST_MISSING)
    }
}

/// Slots in which flows crossed a part, and flows that did not cross it.
#[derive(Debug, Default)]
struct Crossings {
    /// Slots with a flow that it explains, or with one that was slower still for no other known reason: disturbed as well, maybe.
    slow: BTreeSet<u32>,
    /// Slots with any flow over it.
    crossed: BTreeSet<u32>,
    /// Slow flows elsewhere.
    elsewhere: Vec<usize>,
    all_elsewhere: usize,
}

impl Crossings {
    /// Whether it was slow in every slot, and in enough of them that this is hardly chance.
    fn are_all_slow(&self) -> bool {
        self.slow.len() >= SOLID && self.slow.len() == self.crossed.len()
    }
}

/// What is known about the flows of a run.
pub(super) struct Evidence<'f> {
    flows: &'f [MeasuredFlow],
    elements: &'f Elements,
    /// Per flow the logarithm of its rate over what is expected of it, and the error of that; none where nothing is.
    reached: Vec<Option<(f64, f64)>>,
    /// Per flow the p-value of all flows of its kind together against an absolute figure.
    of_crowd: Vec<f64>,
    variations: Vec<Variation>,
    /// The share of what varies that a part has for good.
    of_levels: f64,
    budget: f64,
}

impl<'f> Evidence<'f> {
    pub(super) fn new(
        flows: &'f [MeasuredFlow],
        elements: &'f Elements,
        summaries: &[CellSummary<'_>],
        speeds: &[Speed],
        rule: &DecisionRule,
    ) -> Evidence<'f> {
        let reached = |flow: &MeasuredFlow| {
            let comparison = speeds[flow.place].comparison()?;
            let summary = &summaries[flow.place];
            let own = summary.own_rate(rule.confidence)?;
            let healthy = summary.variation.healthy(comparison.expected, comparison.is_spec);
            let logarithm = (own.median.0 / healthy.0).ln();
            Some((logarithm, error_of(&own, rule.confidence)))
        };
        let reached: Vec<Option<(f64, f64)>> = flows.iter().map(reached).collect();
        let of_crowd = |flow: &MeasuredFlow| {
            let comparison = speeds[flow.place].comparison().filter(|found| found.is_spec)?;
            let summary = &summaries[flow.place];
            let own = summary.own_rate(rule.confidence)?;
            Some(summary.variation.p_of_crowd(&own, comparison.threshold))
        };
        Evidence {
            of_crowd: flows.iter().map(|flow| of_crowd(flow).unwrap_or(1.0)).collect(),
            of_levels: share_of_levels(flows, &reached, elements.link_count()),
            variations: flows.iter().map(|flow| summaries[flow.place].variation).collect(),
            budget: rule.budget_of(Question::Parts),
            flows,
            elements,
            reached,
        }
    }

    /// The share of what varies that a part has for good.
    pub(super) fn of_levels(&self) -> f64 {
        self.of_levels
    }

    /// How sure every explanation is, corrected for `family` parts, and the flows that are explained beyond doubt. Those do not count as disturbed
    /// when the others are judged, nor do flows over parts that let nothing pass: several faults must not hide each other.
    pub(super) fn answers(&self, causes: &[Explanation], family: u32) -> (Vec<Answer>, BTreeSet<usize>) {
        let corrected = |p_value: f64| (p_value * f64::from(family)).min(1.0);
        let explained: BTreeSet<usize> = causes
            .iter()
            .flat_map(|cause| cause.flows.iter().copied())
            .collect();
        let crossings: Vec<Crossings> = causes
            .iter()
            .map(|cause| self.crossings(cause, &explained))
            .collect();
        let mut aside = self.of_solid_parts(causes, &crossings, family);
        let mut accounted: BTreeSet<usize> = BTreeSet::new();
        let mut p_values = vec![1.0; causes.len()];
        loop {
            let before = accounted.len();
            for ((cause, own), p_value) in causes.iter().zip(&crossings).zip(&mut p_values) {
                *p_value = corrected(self.p_value(cause, own, &aside, 0));
            }
            for (cause, p_value) in causes.iter().zip(&p_values) {
                if *p_value < self.budget {
                    accounted.extend(&cause.flows);
                    aside.extend(&cause.flows);
                }
            }
            if accounted.len() == before {
                break;
            }
        }
        let answer = |((cause, own), p_value): ((&Explanation, &Crossings), f64)| {
            let is_enough =
                |more: &u32| corrected(self.p_value(cause, own, &aside, *more as usize)) < self.budget;
            let enough = match p_value < self.budget {
                true => Some(0),
                false => (1..=MOST_PROPOSED).find(is_enough),
            };
            Answer { p_value, enough }
        };
        let answers = causes.iter().zip(&crossings).zip(p_values).map(answer);
        (answers.collect(), accounted)
    }

    /// The flows over parts that were slow in too many slots, and good in none, to be disturbed.
    fn of_solid_parts(
        &self,
        causes: &[Explanation],
        crossings: &[Crossings],
        family: u32,
    ) -> BTreeSet<usize> {
        let all_slow = || {
            let both = causes.iter().zip(crossings);
            both.filter(|(_, own)| own.are_all_slow())
        };
        let candidates: BTreeSet<usize> = all_slow()
            .flat_map(|(cause, _)| cause.flows.iter().copied())
            .collect();
        let is_judged = |flow: &MeasuredFlow| flow.state != FlowState::Unjudged && !flow.contended;
        let others = self.flows.iter().enumerate();
        let others = others.filter(|(number, flow)| is_judged(flow) && !candidates.contains(number));
        let (slow, all) = others.fold((0, 0), |(slow, all), (_, flow)| {
            (slow + usize::from(flow.state == FlowState::Slow), all + 1)
        });
        let disturbances = Disturbances::seen(slow, all);
        let is_solid = |own: &Crossings| {
            let by_chance = disturbances.ever(own.slow.len(), own.crossed.len());
            by_chance * f64::from(family) < SOLID_BY_CHANCE
        };
        let solid = all_slow().filter(|(_, own)| is_solid(own));
        solid.flat_map(|(cause, _)| cause.flows.iter().copied()).collect()
    }

    /// The p-value, if `more` measurements in other slots were as slow as those so far.
    fn p_value(&self, cause: &Explanation, own: &Crossings, aside: &BTreeSet<usize>, more: usize) -> f64 {
        let of_chance = match cause.by_chance {
            // Where flows only may have crossed it, the slow ones were selected: what counts is how many of all they are.
            Some(by_chance) => by_chance,
            // That they were all disturbed.
            None => {
                let disturbed = own.elsewhere.iter().filter(|flow| !aside.contains(flow)).count();
                let disturbances = Disturbances::seen(disturbed, own.all_elsewhere);
                disturbances.ever(own.slow.len() + more, own.crossed.len() + more)
            }
        };
        of_chance.max(self.p_of_variation(cause, more))
    }

    /// What crossed the likeliest part of an explanation, and what did not. `explained` are the flows of all explanations.
    fn crossings(&self, cause: &Explanation, explained: &BTreeSet<usize>) -> Crossings {
        let first = cause.suspects.first();
        let part = first.and_then(|(element, _)| self.elements.number(*element));
        let own: BTreeSet<usize> = cause.flows.iter().copied().collect();
        let has_crossed = |flow: &MeasuredFlow| part.is_some_and(|part| flow.certain.contains(&part));
        let mut crossings = Crossings::default();
        let is_judged = |flow: &MeasuredFlow| flow.state != FlowState::Unjudged && !flow.contended;
        for (number, flow) in self.flows.iter().enumerate().filter(|(_, flow)| is_judged(flow)) {
            let is_slower = || flow.state == FlowState::Slow && !explained.contains(&number);
            if has_crossed(flow) {
                crossings.crossed.insert(flow.slot);
                if own.contains(&number) || is_slower() {
                    crossings.slow.insert(flow.slot);
                }
            } else if own.contains(&number) {
                // It only may have crossed it, and was selected because it is slow: that it is says nothing.
            } else {
                crossings.all_elsewhere += 1;
                crossings
                    .elsewhere
                    .extend((flow.state == FlowState::Slow).then_some(number));
            }
        }
        crossings
    }

    /// That the part's level and what varies are at the slow end of what healthy ones have. Flows whose own median is hardly known weigh little.
    fn p_of_variation(&self, cause: &Explanation, more: usize) -> f64 {
        let known = || {
            let flows = cause.flows.iter();
            flows.filter_map(|flow| Some((&self.flows[*flow], self.variations[*flow], self.reached[*flow]?)))
        };
        let widest = known().map(|(_, variation, _)| variation);
        let Some(variation) = widest.max_by(|a, b| a.deviation.total_cmp(&b.deviation)) else {
            return 1.0;
        };
        let varies = variation.deviation.powi(2);
        let (mut weights, mut sum, mut flows, mut slots) = (0.0, 0.0, 0, BTreeSet::new());
        for (flow, _, (logarithm, error)) in known() {
            let weight = 1.0 / (varies * (1.0 - self.of_levels) + error * error).max(LEAST_VARIANCE);
            weights += weight;
            sum += weight * logarithm;
            flows += 1;
            slots.insert(flow.slot);
        }
        // Flows of one slot are one measurement.
        let measurements = (slots.len() + more) as f64 / f64::from(flows);
        let variance = varies * self.of_levels + 1.0 / (weights * measurements);
        let of_part = shortfall(-sum / weights, variance.sqrt(), variation.freedom);
        // Where all of them miss an absolute figure, no part is at the slow end of them. Kinds with few measurements have no crowd.
        let of_crowd: Vec<f64> = cause.flows.iter().map(|flow| self.of_crowd[*flow]).collect();
        of_part.min(median(&of_crowd).unwrap_or(1.0))
    }
}

/// The share of the variance of flows that one part at their end has for good: how much closer together flows of one sender, or of one
/// receiver, lie than any two.
fn share_of_levels(flows: &[MeasuredFlow], reached: &[Option<(f64, f64)>], links: usize) -> f64 {
    let known: Vec<(&MeasuredFlow, f64)> = flows
        .iter()
        .zip(reached)
        .filter(|(flow, _)| !flow.contended)
        .filter_map(|(flow, reached)| Some((flow, (*reached)?.0)))
        .collect();
    let logarithms: Vec<f64> = known.iter().map(|(_, logarithm)| *logarithm).collect();
    let Some(all) = Scale::of(&logarithms).filter(|scale| scale.deviation > 0.0) else {
        return 1.0;
    };
    let variance = all.deviation.powi(2);
    let cables = |flow: &MeasuredFlow| -> Vec<usize> {
        let crossed = flow.certain.iter().copied();
        crossed.filter(|number| *number < links).collect()
    };
    // Flows of one sender share its cable, which is the first; those of one receiver the last.
    let share = |end: fn(&MeasuredFlow) -> u32, cable: fn(&[usize]) -> Option<&usize>| {
        let mut alike: BTreeMap<(u32, Option<usize>), Vec<f64>> = BTreeMap::new();
        for (flow, logarithm) in &known {
            let key = (end(flow), cable(&cables(flow)).copied());
            alike.entry(key).or_default().push(*logarithm);
        }
        let steps = alike.values().flat_map(|values| values.windows(2));
        let differences: Vec<f64> = steps.map(|pair| pair[1] - pair[0]).collect();
        let own = Scale::of(&differences)?;
        let share = 1.0 - own.deviation.powi(2) / 2.0 / variance;
        Some((share.clamp(0.0, 1.0), EFFICIENCY * own.values as f64))
    };
    let of_ends = [
        share(|flow| flow.ends.0, <[usize]>::first),
        share(|flow| flow.ends.1, <[usize]>::last),
    ];
    let most = of_ends.into_iter().flatten().max_by(|a, b| a.0.total_cmp(&b.0));
    let (share, known) = most.unwrap_or((1.0, 0.0));
    let (deviation, worth) = ASSUMED;
    let assumed = (deviation.powi(2) / variance).min(1.0);
    (worth * assumed + known * share) / (worth + known)
}
