//! Where everything between switches is slow, none of it stands out: one finding about all of it, not one about each switch.
//!
//! Assumed: a part is accused because others of its kind are not like it. Where hardly a flow that leaves its leaf is as fast as it should be, and
//! several parts between switches were found for that, they share the reason: too small frames, congestion control, switches that forward too
//! slowly, a spec that is wrong. What would break it: faults of different reasons in every spine of a rail at the same time.

use std::collections::BTreeSet;

use super::element::{Element, WholeKind};
use super::flow::{FlowState, MeasuredFlow};
use super::{Cause, Localisation};
use record::Interval;
use record::units::Rate;
use topology::graph::LinkId;

/// Of the flows between switches, at most this fraction are as fast as they should be where all of it is slow.
const HARDLY_ANY: f64 = 0.1;
/// Fewer flows show nothing about all of it.
const FEWEST_FLOWS: usize = 6;

impl Localisation {
    /// Replaces the causes between the switches of a rail, or of all rails, by one where all of it is slow.
    pub(super) fn merge_alike(&mut self) {
        let between = |number: &usize| match &self.elements.wholes()[*number].kind {
            WholeKind::BetweenSwitches(rail) => Some((rail.is_some(), *number)),
            _ => None,
        };
        let mut wholes: Vec<(bool, usize)> = (0..self.elements.wholes().len())
            .filter_map(|number| between(&number))
            .collect();
        // The fabric as a whole first.
        wholes.sort_unstable();
        let slow: BTreeSet<usize> = wholes
            .iter()
            .map(|(_, number)| *number)
            .filter(|number| self.is_all_slow(*number))
            .collect();
        let is_every_rail = wholes.iter().all(|(_, number)| slow.contains(number));
        for (is_rail, number) in wholes {
            if slow.contains(&number) && (is_rail || is_every_rail) {
                self.merge_within(number);
            }
        }
    }

    /// Whether hardly a flow over a whole part is as fast as it should be.
    fn is_all_slow(&self, whole: usize) -> bool {
        let judged = || self.over(whole).filter(|flow| flow.state != FlowState::Unjudged);
        let good = judged().filter(|flow| flow.state == FlowState::Good).count();
        let all = judged().count();
        all >= FEWEST_FLOWS && good as f64 <= HARDLY_ANY * all as f64
    }

    /// The flows that certainly crossed a whole part, by the number it has among them.
    fn over(&self, whole: usize) -> impl Iterator<Item = &MeasuredFlow> {
        let element = self.elements.number(Element::Whole(whole as u32));
        let flows = self.flows.iter().filter(|flow| !flow.contended);
        flows.filter(move |flow| element.is_some_and(|element| flow.certain.contains(&element)))
    }

    /// One cause for all that are within a whole part, where it takes several to explain what is slow.
    fn merge_within(&mut self, whole: usize) {
        let links: BTreeSet<LinkId> = self.elements.wholes()[whole].links.iter().copied().collect();
        let is_within = |cause: &Cause| {
            let first = cause.suspects.first().map(|(element, _)| *element);
            let own = match first {
                Some(Element::Link(link)) => vec![link],
                Some(Element::Whole(part)) => self.elements.wholes()[part as usize].links.clone(),
                _ => Vec::new(),
            };
            !own.is_empty() && own.iter().all(|link| links.contains(link))
        };
        let (own, others): (Vec<Cause>, Vec<Cause>) =
            self.causes.iter().cloned().partition(|cause| is_within(cause));
        let confirmed = || own.iter().filter(|cause| cause.confirmed);
        if confirmed().count() < 2 {
            return;
        }
        let slow = self.over(whole).filter(|flow| flow.state == FlowState::Slow);
        let (mut places, rates): (Vec<usize>, Vec<Interval<Rate>>) =
            slow.map(|flow| (flow.place, flow.rate)).unzip();
        places.sort_unstable();
        let middle = |value: fn(&Interval<Rate>) -> f64| {
            let mut values: Vec<f64> = rates.iter().map(value).collect();
            values.sort_unstable_by(f64::total_cmp);
            Rate(values.get(values.len() / 2).copied().unwrap_or_default())
        };
        let share = |cause: &Cause| -> f64 { cause.suspects.iter().map(|(_, share)| share).sum() };
        let merged = Cause {
            suspects: vec![(
                Element::Whole(whole as u32),
                confirmed().map(share).fold(1.0, f64::min),
            )],
            partners: confirmed().map(|cause| cause.partners).max().unwrap_or_default(),
            measurements: confirmed().map(|cause| cause.measurements).sum(),
            missing: 0,
            p_value: confirmed().map(|cause| cause.p_value).fold(0.0, f64::max),
            family: confirmed().map(|cause| cause.family).max().unwrap_or_default(),
            carried: Interval {
                median: middle(|rate| rate.median.0),
                lower: middle(|rate| rate.lower.0),
                upper: middle(|rate| rate.upper.0),
            },
            is_crossing_certain: true,
            intermittent: None,
            confirmed: true,
            why_not: None,
            places,
        };
        self.transient.retain(|place| !merged.places.contains(place));
        self.causes = others;
        self.causes.insert(0, merged);
    }
}
