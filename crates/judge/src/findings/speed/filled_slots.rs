//! Flows that fill links together are one measurement of these links: what the middle one of a slot reached varies less than what each did, and shows losses
//! that no single flow does.

use std::collections::{BTreeMap, HashMap};

use super::Speed;
use super::comparison::Comparison;
use super::references::Applied;
use crate::findings::summary::CellSummary;
use crate::findings::variation::{Variation, error_of};
use record::Interval;
use record::stats::{median, normal_score};

/// Fewer slots do not show how much they vary.
const FEWEST: usize = 6;

/// What the middle flow of a slot reached of what is expected, as a logarithm, and the error of that.
type Middle = (f64, f64);

/// Where the middle flow of a slot is too slow, all of its flows are, and none of them shows that its links carry more.
pub(super) fn judge_together(
    summaries: &[CellSummary<'_>],
    answers: &mut [Result<Applied, Speed>],
    confidence: f64,
) {
    let mut slots: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    for (place, summary) in summaries.iter().enumerate() {
        if summary.cell.load.is_filling()
            && answers[place].as_mut().is_ok_and(|one| with_peers(one).is_some())
        {
            slots.entry(summary.cell.slot).or_default().push(place);
        }
    }
    let slots: Vec<Vec<usize>> = slots.into_values().filter(|flows| flows.len() > 1).collect();
    let middles: Vec<Middle> = slots
        .iter()
        .map(|flows| middle(summaries, answers, flows, confidence))
        .collect();
    let mut kinds: HashMap<_, Vec<Middle>> = HashMap::new();
    for (flows, middle) in slots.iter().zip(&middles) {
        let first = &summaries[flows[0]];
        let of_kind = kinds.entry(first.cell.peer_key()).or_default();
        of_kind.extend(first.is_typical.then_some(*middle));
    }
    for (flows, middle) in slots.iter().zip(middles) {
        let of_kind = &kinds[&summaries[flows[0]].cell.peer_key()];
        if of_kind.len() < FEWEST {
            continue;
        }
        let variation = Variation::of(of_kind, confidence);
        for place in flows {
            let comparison = answers[*place].as_mut().ok().and_then(with_peers);
            if let Some(comparison) = comparison {
                hold_against(comparison, middle, &variation, of_kind.len(), confidence);
            }
        }
    }
}

fn with_peers(applied: &mut Applied) -> Option<&mut Comparison> {
    let mut comparisons = applied.comparisons.iter_mut();
    comparisons.find(|comparison| !comparison.is_spec && comparison.doubt.is_none())
}

/// The flow in the middle of those of a slot; the faster one of two: a host's cable may be slow.
fn middle(
    summaries: &[CellSummary<'_>],
    answers: &mut [Result<Applied, Speed>],
    flows: &[usize],
    confidence: f64,
) -> Middle {
    let mut reached = Vec::new();
    let mut errors = Vec::new();
    for place in flows {
        let comparison = answers[*place].as_mut().ok().and_then(with_peers);
        reached.extend(comparison.map(|comparison| comparison.reached().ln()));
        let own = summaries[*place].own_rate(confidence);
        errors.extend(own.map(|own| error_of(&own, confidence)));
    }
    let middle = match reached.as_slice() {
        [one, other] => one.max(*other),
        all => median(all).unwrap_or_default(),
    };
    let error = median(&errors).unwrap_or_default() / (flows.len() as f64).sqrt();
    (middle, error)
}

/// Calls a flow slow where the middle of its slot is, among so many slots of its kind.
fn hold_against(
    comparison: &mut Comparison,
    (middle, error): Middle,
    variation: &Variation,
    slots: usize,
    confidence: f64,
) {
    let reach = error * normal_score((1.0 - confidence) / 2.0).max(1.0);
    let at = |logarithm: f64| comparison.expected * logarithm.exp();
    let together = Interval {
        median: at(middle),
        lower: at(middle - reach),
        upper: at(middle + reach),
    };
    let p_value = variation.p_of_rate(&together, comparison.expected, Some(slots), confidence);
    if together.median >= comparison.threshold || !variation.is_unusual(p_value) {
        return;
    }
    comparison.p_value = match comparison.looks_slow {
        true => comparison.p_value.min(p_value),
        false => p_value,
    };
    comparison.looks_slow = true;
    comparison.rounds.1 = comparison.rounds.0;
    if comparison.measured.median > together.median {
        comparison.measured = variation.of_rate(together, 1);
    }
}

#[cfg(test)]
mod tests {
    use crate::findings::fixture::{Fixture, HEALTHY};
    use crate::findings::judge;
    use record::{Cell, Load, Reference, Verdict};

    /// Pairs in slots of four, of which one slot is slower by `loss`, each flow by up to 4 % more or less; how many of that slot and of the others look slow.
    fn looking_slow(load: Load, loss: f64) -> [usize; 2] {
        const SLOW: u32 = 5;
        let speed = move |cell: &Cell, _: u16| {
            let own = 1.0 + 0.02 * (f64::from(cell.id * 7 % 5) - 2.0);
            let of_slot = if cell.slot == SLOW { 1.0 - loss } else { 1.0 };
            HEALTHY * own * of_slot
        };
        let mut fixture = Fixture::pairs(9).references(vec![Reference::Peers { margin: 0.1 }]);
        for cell in &mut fixture.run.cells {
            cell.slot = cell.id / 4;
            cell.load = load;
        }
        let judgement = judge(&fixture.speed(speed).measured_once());
        let slow = judgement
            .cells
            .iter()
            .filter(|cell| cell.verdict != Verdict::Pass);
        let (there, elsewhere): (Vec<_>, Vec<_>) = slow.partition(|cell| cell.cell.slot == SLOW);
        [there.len(), elsewhere.len()]
    }

    #[test]
    fn a_loss_that_no_single_flow_shows_is_seen_where_all_flows_of_a_slot_share_it() {
        assert_eq!(looking_slow(Load::FillingUp, 0.09), [4, 0]);
        assert_eq!(looking_slow(Load::FillingDown, 0.02), [0, 0]);
        // With room to spare, each flow stands for itself.
        let [there, elsewhere] = looking_slow(Load::Together, 0.09);
        assert!(there < 4 && elsewhere == 0, "{there} {elsewhere}");
    }
}
