//! What the run would have found on each cable: the smallest loss, by how often flows crossed it and what varied between them (`power`).

use std::collections::{BTreeMap, BTreeSet};

use super::flow::{FlowState, MeasuredFlow};
use super::{LOADED, Localisation};
use crate::findings::power::{Detectability, FURTHER, HealthyMeasurement};
use crate::findings::speed::Speed;
use crate::findings::summary::CellSummary;
use crate::findings::variation::{Disturbances, error_of};
use record::stats::median;
use record::{DecisionRule, Question, Recorded};

/// Flows of one kind over one link.
#[derive(Debug)]
struct KindOverLink {
    slots: BTreeSet<u32>,
    /// The first of them in the plan: all of a kind are alike.
    place: usize,
    is_adaptive: bool,
    /// What the link carried with each of them.
    carried: Vec<f64>,
}

impl KindOverLink {
    /// The share of the most that the link has carried for which these flows ask: what they leave free may be lost before any of them gets slower. Only
    /// flows that fill other links leave much of this one free.
    fn asked_of(&self, most: f64, summaries: &[CellSummary<'_>]) -> f64 {
        let is_filling = summaries[self.place].cell.load.is_filling();
        let typical = median(&self.carried).filter(|typical| is_filling && *typical < most);
        typical.map_or(1.0, |typical| typical / most)
    }
}

impl Localisation {
    /// The share of what varies between measurements that a part has for good.
    pub(in crate::findings) fn of_levels(&self) -> f64 {
        self.of_levels
    }

    /// Of every judged flow what varies between those of its kind.
    pub(in crate::findings) fn deviations(&self, summaries: &[CellSummary<'_>]) -> Vec<f64> {
        let flows = self.judged();
        flows
            .map(|flow| summaries[flow.place].variation.deviation)
            .collect()
    }

    /// What flows reached that no confirmed fault made slow.
    pub(in crate::findings) fn healthy_measurements(
        &self,
        summaries: &[CellSummary<'_>],
        rule: &DecisionRule,
    ) -> Vec<HealthyMeasurement> {
        let measured = |place: usize| {
            let summary = &summaries[place];
            let own = summary.own_rate(rule.confidence)?;
            Some(HealthyMeasurement {
                below: summary.variation.below_crowd(own.median)?,
                error: error_of(&own, rule.confidence),
            })
        };
        self.healthy().filter_map(measured).collect()
    }

    /// The cells of flows that were judged, and that no confirmed fault made slow.
    fn healthy(&self) -> impl Iterator<Item = usize> + '_ {
        let at_fault = self.made_slow();
        let places = self.judged().map(|flow| flow.place);
        places.filter(move |place| !at_fault.contains(place))
    }

    fn judged(&self) -> impl Iterator<Item = &MeasuredFlow> {
        let is_judged = |flow: &&MeasuredFlow| flow.state != FlowState::Unjudged && !flow.contended;
        self.flows.iter().filter(is_judged)
    }

    /// The cells that a confirmed cause explains.
    fn made_slow(&self) -> BTreeSet<usize> {
        let confirmed = self.causes.iter().filter(|cause| cause.confirmed);
        confirmed.flat_map(|cause| cause.places.iter().copied()).collect()
    }

    /// Flows that were slow though nothing is confirmed to be wrong with what they crossed, and all that were judged.
    pub(in crate::findings) fn disturbed(&self) -> (usize, usize) {
        let at_fault = self.made_slow();
        let slow = self.judged().filter(|flow| flow.state == FlowState::Slow);
        let slow = slow.filter(|flow| !at_fault.contains(&flow.place));
        (slow.count(), self.judged().count())
    }

    /// Per link the smallest loss that would have been found with probability 0.9; none where no judged flow of known path crossed it.
    pub(in crate::findings) fn smallest_losses(
        &self,
        recorded: &Recorded,
        summaries: &[CellSummary<'_>],
        speeds: &[Speed],
    ) -> Vec<Option<f64>> {
        let rule = &recorded.run.rule;
        let (slow, all) = self.disturbed();
        let disturbed = Disturbances::seen(slow, all).at_most();
        let mut kinds = BTreeMap::new();
        let mut over: Vec<BTreeMap<usize, KindOverLink>> = Vec::new();
        over.resize_with(self.graph.link_count(), BTreeMap::new);
        for flow in self.judged() {
            let cell = summaries[flow.place].cell;
            let count = kinds.len();
            let kind = *kinds.entry(cell.peer_key()).or_insert(count);
            let is_adaptive = recorded.run.test_of(cell).is_some_and(|test| test.adaptive);
            let is_share = |number: &usize| flow.shares.iter().any(|(shared, _)| shared == number);
            let crossed = flow.certain.iter().filter(|number| **number < over.len());
            for number in crossed
                .filter(|number| !is_share(number))
                .copied()
                .collect::<Vec<_>>()
            {
                let found = over[number].entry(kind).or_insert_with(|| KindOverLink {
                    slots: BTreeSet::new(),
                    place: flow.place,
                    is_adaptive,
                    carried: Vec::new(),
                });
                found.slots.insert(flow.slot);
                found
                    .carried
                    .push(self.loads.with(flow, number, &self.elements).1);
            }
        }
        let detectability = |kind: &KindOverLink| {
            let (summary, comparison) = (&summaries[kind.place], speeds[kind.place].comparison()?);
            let own = summary.own_rate(rule.confidence)?;
            let is_of_kind = |place: &usize| summaries[*place].cell.peer_key() == summary.cell.peer_key();
            let shows = |place: usize| {
                let own = summaries[place].own_rate(rule.confidence)?;
                let noticed = speeds[place].comparison()?.noticed();
                Some((own.median.0 / noticed.below.0).ln())
            };
            let mut would_show: Vec<f64> = self.healthy().filter(is_of_kind).filter_map(shows).collect();
            would_show.sort_by(f64::total_cmp);
            let typical = summaries.iter().filter(|one| one.is_typical && one.done);
            Some(Detectability {
                would_show,
                typical: typical
                    .filter(|one| one.cell.peer_key() == summary.cell.peer_key())
                    .count(),
                above: summary
                    .variation
                    .below_crowd(comparison.noticed().healthy)
                    .unwrap_or(0.0),
                deviation: summary.variation.deviation,
                freedom: summary.variation.freedom,
                of_levels: self.of_levels,
                error: error_of(&own, rule.confidence),
                disturbed,
                accepted: rule.budget_of(Question::Parts) / f64::from(self.family.max(1)),
                least: usize::from(rule.remeasure) + 1,
                ..Detectability::default()
            })
        };
        let mut of_kinds: BTreeMap<usize, Option<Detectability>> = BTreeMap::new();
        // Links that are crossed as often by the same kind are alike.
        let mut known: BTreeMap<(usize, usize), Option<f64>> = BTreeMap::new();
        let mut losses = Vec::with_capacity(over.len());
        for ((id, link), kinds) in self.graph.links().zip(&over) {
            let most = self.loads.most(id.index()).map_or(0.0, |most| most.0);
            let losses_of_kinds = kinds.iter().filter_map(|(number, kind)| {
                let loss: &mut Option<f64> = known.entry((*number, kind.slots.len())).or_insert_with(|| {
                    let further = if kind.is_adaptive { FURTHER } else { 0 };
                    let model = of_kinds.entry(*number).or_insert_with(|| detectability(kind));
                    model.as_ref()?.smallest_loss(kind.slots.len(), further)
                });
                loss.map(|loss| 1.0 - (1.0 - loss) * kind.asked_of(most, summaries))
            });
            let best = losses_of_kinds.min_by(f64::total_cmp);
            // A link that was not filled loses what nobody asked of it before anybody notices.
            let filled = match most >= LOADED * link.rate.0 {
                true => 1.0,
                false => most / link.rate.0,
            };
            losses.push(
                best.filter(|_| filled > 0.0)
                    .map(|loss| 1.0 - (1.0 - loss) * filled),
            );
        }
        losses
    }
}

#[cfg(test)]
mod tests {
    use crate::findings::analysis::RunAnalysis;
    use crate::findings::fixture::HEALTHY;
    use crate::findings::tests::links::flows;
    use record::Load;

    /// What hosts' cables carry beside full uplinks is up to those: a loss of what is left free shows nowhere.
    #[test]
    fn flows_that_leave_some_of_a_cable_free_show_smaller_losses_only_of_the_rest() {
        let losses = |share: f64| {
            let is_filling = |id: u32| !id.is_multiple_of(7);
            let fixture = flows(move |cell, _| {
                if is_filling(cell.id) {
                    share * HEALTHY
                } else {
                    HEALTHY
                }
            });
            let mut fixture = fixture.noise(0.01, 5);
            for cell in fixture.run.cells.iter_mut().filter(|cell| is_filling(cell.id)) {
                cell.load = Load::FillingUp;
            }
            let recorded = fixture.recorded();
            let analysis = RunAnalysis::of(&recorded);
            let known = analysis.localisation.as_ref().expect("flows between hosts");
            let losses = known.smallest_losses(&recorded, &analysis.summaries, &analysis.speeds);
            losses.into_iter().flatten().collect::<Vec<f64>>()
        };
        let (full, half_empty) = (losses(1.0), losses(0.5));
        assert_eq!((full.len(), half_empty.len()), (32, 32));
        let raised = full
            .iter()
            .zip(&half_empty)
            .map(|(full, half_empty)| half_empty - full);
        let raised: Vec<f64> = raised.collect();
        assert!(raised.iter().all(|by| *by > -1e-4), "{raised:?}");
        // The others are shown by flows that fill nothing, or nothing shows that they could carry more.
        assert!(raised.iter().filter(|by| **by > 0.3).count() >= 16, "{raised:?}");
    }
}
