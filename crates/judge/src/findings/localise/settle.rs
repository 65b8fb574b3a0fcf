//! What the localised parts mean for the cells: a cell is no longer judged on its own where it is known what it
//! crossed.

use std::collections::{BTreeMap, BTreeSet};

use super::Localisation;
use super::faulty_parts::ExplainedBy;
use super::flow::{FlowState, MeasuredFlow};
use crate::findings::speed::Speed;
use crate::findings::summary::CellSummary;
use crate::findings::variation::Disturbances;
use record::{Question, Recorded};

/// From this share of all flows on, and from so many of them, slow ones that no part explains are no faults of pairs.
const MANY_PAIRS: f64 = 0.05;
const FEWEST_ALIKE: usize = 4;

impl Localisation {
    /// Corrects the speed of cells: slow where a confirmed part explains it; suspected where other flows may have
    /// shared a link by chance; and, in tests that measure parts again instead of cells, good where a flow was slow
    /// by chance.
    pub(in crate::findings) fn correct_speeds(
        &mut self,
        recorded: &Recorded,
        summaries: &[CellSummary<'_>],
        speeds: &mut [Speed],
    ) {
        self.give_contended_to_causes();
        for cause in self.causes.iter().filter(|cause| cause.confirmed) {
            for place in &cause.places {
                if let Speed::Suspected(comparison, _) = &speeds[*place] {
                    speeds[*place] = Speed::Slow(comparison.clone());
                }
            }
        }
        // A collective over a part that is confirmed is slow because of it: nothing else need be ruled out.
        for (place, speed) in speeds.iter_mut().enumerate() {
            if let Speed::Suspected(comparison, _) = speed
                && summaries[place].cell.ranks.len() > 2
                && self.explains(&recorded.run, summaries[place].cell, place) != ExplainedBy::Nothing
            {
                *speed = Speed::Slow(comparison.clone());
            }
        }
        for place in &self.contended {
            if let Speed::Slow(comparison) | Speed::Suspected(comparison, _) = &speeds[*place] {
                let why = format!(
                    "suspected slow, {}; it may have shared a link with other flows of its \
                     slot: measure it with pinned source ports, or with schedule = \
                     \"topology\" or \"adaptive\"",
                    comparison.in_words()
                );
                speeds[*place] = Speed::Suspected(comparison.clone(), why);
            }
        }
        let is_adaptive = |place: usize| {
            let test = recorded.run.test_of(summaries[place].cell);
            test.is_some_and(|test| test.adaptive)
        };
        let rule = &recorded.run.rule;
        let wanted = usize::from(rule.remeasure) + 1;
        let judged = |flow: &&MeasuredFlow| flow.state != FlowState::Unjudged && !flow.contended;
        let judged = self.flows.iter().filter(judged).count();
        let different: BTreeSet<_> = self.flows.iter().map(MeasuredFlow::what_was_measured).collect();
        let repeated = self.repeated();
        // A disturbance that came back every time is no fault of the pair.
        let by_chance = |flows: &[usize]| {
            let elsewhere = self.transient.len().saturating_sub(flows.len());
            let disturbances = Disturbances::seen(elsewhere, judged.saturating_sub(flows.len()));
            disturbances.ever(flows.len(), flows.len()) * different.len() as f64
        };
        for (stubborn, flows) in &repeated {
            for place in flows.iter().filter(|place| is_adaptive(**place)) {
                let (Speed::Suspected(comparison, _) | Speed::Slow(comparison)) = &speeds[*place] else {
                    continue;
                };
                let comparison = comparison.clone();
                speeds[*place] = match stubborn {
                    false => Speed::Good(comparison),
                    true if flows.len() >= wanted && by_chance(flows) < rule.budget_of(Question::Cells) => {
                        Speed::Slow(comparison)
                    }
                    true => {
                        let measured = flows.len();
                        let so_far = match measured < wanted {
                            true => format!("{measured} measurements of {wanted}"),
                            false => format!(
                                "{measured} measurements, which others of this run were by chance, too"
                            ),
                        };
                        let why = format!(
                            "suspected slow, {}, in all of {so_far}, while no part it crosses is slow",
                            comparison.in_words(),
                        );
                        Speed::Suspected(comparison, why)
                    }
                };
            }
        }
        self.doubt_pairs_where_many_are_slow(judged, speeds);
        let is_stubborn = |place: &usize| matches!(speeds[*place], Speed::Slow(_) | Speed::Suspected(..));
        self.transient.retain(|place| !is_stubborn(place));
    }

    /// A pair may be slow although no part it crosses is. Where many of all `judged` flows are, it is no fault of pairs: everything was slower at times,
    /// or is slower now than it was.
    fn doubt_pairs_where_many_are_slow(&self, judged: usize, speeds: &mut [Speed]) {
        let confirmed = self.causes.iter().filter(|cause| cause.confirmed);
        let explained: BTreeSet<usize> = confirmed.flat_map(|cause| cause.places.iter().copied()).collect();
        let places = self.flows.iter().map(|flow| flow.place);
        let is_slow = |place: &usize| matches!(speeds[*place], Speed::Slow(_)) && !explained.contains(place);
        let slow: Vec<usize> = places.filter(is_slow).collect();
        if slow.len() < FEWEST_ALIKE || (slow.len() as f64) < MANY_PAIRS * judged as f64 {
            return;
        }
        for place in &slow {
            if let Speed::Slow(comparison) = &speeds[*place] {
                let why = format!(
                    "suspected slow, {}; {} of {judged} flows are slow and no part that they cross explains it: what they share was slower \
                     when they were measured, no pair of its own",
                    comparison.in_words(),
                    slow.len(),
                );
                speeds[*place] = Speed::Suspected(comparison.clone(), why);
            }
        }
    }

    /// Slow flows whose parts all carried more at another time: all measurements of the same flow together, and
    /// whether it was slow in every one of them, and in more than one.
    pub(in crate::findings) fn repeated(&self) -> Vec<(bool, Vec<usize>)> {
        let mut alike: BTreeMap<_, Vec<&MeasuredFlow>> = BTreeMap::new();
        for flow in &self.flows {
            alike.entry(flow.what_was_measured()).or_default().push(flow);
        }
        let is_transient = |flow: &&&MeasuredFlow| self.transient.contains(&flow.place);
        alike
            .into_values()
            .filter(|flows| flows.iter().any(|flow| is_transient(&flow)))
            .map(|flows| {
                let always = flows.iter().all(|flow| flow.state == FlowState::Slow);
                let slow = flows.iter().filter(is_transient);
                (always && flows.len() > 1, slow.map(|flow| flow.place).collect())
            })
            .collect()
    }

    /// Positions of flows that were slow in their only measurement, by chance as far as it shows: worth another one.
    pub fn slow_once(&self) -> Vec<usize> {
        let repeated = self.repeated().into_iter();
        repeated
            .filter(|(_, flows)| flows.len() == 1)
            .map(|(_, flows)| flows[0])
            .filter(|place| {
                let flow = self.flows.iter().find(|flow| flow.place == *place);
                flow.is_some_and(|flow| !self.is_repeated(flow))
            })
            .collect()
    }

    /// Whether a flow was measured more than once, from and to the same ranks over the same parts.
    fn is_repeated(&self, flow: &MeasuredFlow) -> bool {
        let alike = |other: &&MeasuredFlow| other.what_was_measured() == flow.what_was_measured();
        self.flows.iter().filter(alike).count() > 1
    }

    /// A flow that may have shared a link is explained by a confirmed part it crossed, if it ran no slower than that
    /// part.
    fn give_contended_to_causes(&mut self) {
        let mut given = Vec::new();
        for flow in self
            .flows
            .iter()
            .filter(|flow| flow.state == FlowState::Slow && flow.contended)
        {
            let guilty = self.causes.iter().position(|cause| {
                let first = cause.suspects.first();
                let first = first.and_then(|(element, _)| self.elements.number(*element));
                let crosses = first.is_some_and(|part| flow.crossed().any(|number| number == part));
                cause.confirmed && crosses && flow.rate.upper.0 >= cause.carried.lower.0 * 0.8
            });
            given.extend(guilty.map(|cause| (flow.place, cause)));
        }
        for (place, cause) in given {
            self.contended.retain(|other| *other != place);
            self.causes[cause].places.push(place);
        }
    }
}
