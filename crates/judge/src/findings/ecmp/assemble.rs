//! A verdict for every switch that had a choice, with its members, its pairs and its numbers.

use std::collections::{BTreeMap, HashMap};

use super::flows::Flow;
use super::rail_view::{DecisionContext, RailView};
use super::wording;
use record::stats::fair_hash::load_band;
use record::units::{Bytes, Rate};
use record::{EcmpCause, EcmpVerdict, MemberLoad, PairSpread};
use topology::graph::LinkId;

/// Bands by flows and members, cached.
#[derive(Default)]
pub(super) struct Bands(HashMap<(u32, u32), (f64, f64)>);

impl Bands {
    /// The number of flows on one of `members` lies between these two in 99 of 100 cases, when there are `flows` in
    /// all.
    fn of(&mut self, flows: u32, members: u32) -> (f64, f64) {
        *self
            .0
            .entry((flows, members))
            .or_insert_with(|| load_band(flows, members))
    }
}

/// The verdicts of all choosers of a rail, and of links at fault that no chooser has among its members.
pub(super) fn verdicts(
    view: &RailView<'_, '_>,
    context: &mut DecisionContext<'_>,
    bands: &mut Bands,
) -> Vec<EcmpVerdict> {
    let mut verdicts: Vec<EcmpVerdict> = (0..view.rail.choosers.all.len())
        .map(|number| of_chooser(view, number, context, bands))
        .collect();
    let is_member = |link: &LinkId| {
        let mut choosers = view.rail.choosers.all.iter();
        choosers.any(|chooser| chooser.members().contains(link))
    };
    let dead = view.dead.iter().map(|dead| (dead.link, EcmpCause::DeadMember));
    let slow = view.slow.iter().map(|slow| (slow.link, EcmpCause::SlowMember));
    let others: Vec<(LinkId, EcmpCause)> = dead.chain(slow).filter(|(link, _)| !is_member(link)).collect();
    for (link, cause) in others {
        verdicts.push(of_link(view, link, cause));
    }
    verdicts.sort_by(|a, b| (a.tier, &a.switch).cmp(&(b.tier, &b.switch)));
    verdicts
}

fn of_chooser(
    view: &RailView<'_, '_>,
    number: usize,
    context: &mut DecisionContext<'_>,
    bands: &mut Bands,
) -> EcmpVerdict {
    let chooser = &view.rail.choosers.all[number];
    let members = chooser.members();
    let place_of: HashMap<LinkId, usize> = members.iter().copied().zip(0..).collect();
    let mut own: Vec<(&Flow, Option<LinkId>, usize)> = Vec::new();
    for flow in view.rail.of_chooser(number) {
        for choice in flow.choices.iter().filter(|choice| choice.chooser == number) {
            let link = choice.member.map(|member| chooser.sets[choice.set][member]);
            own.push((flow, link, choice.set));
        }
    }
    let mut flows = vec![0u32; members.len()];
    let mut delivering = vec![0u32; members.len()];
    let mut of_set = vec![0u32; chooser.sets.len()];
    for (flow, link, set) in own.iter().filter(|(flow, ..)| flow.fresh) {
        if let Some(place) = link.and_then(|link| place_of.get(&link)) {
            flows[*place] += 1;
            delivering[*place] += u32::from(!flow.dead);
            of_set[*set] += 1;
        }
    }
    let known: u32 = flows.iter().sum();
    let set_of = |link: &LinkId| {
        chooser
            .sets
            .iter()
            .position(|set| set.contains(link))
            .unwrap_or(0)
    };
    let counted = view.counted[number].as_ref();
    let loads = members.iter().enumerate().map(|(place, link)| {
        let set = set_of(link);
        let (low, high) = bands.of(of_set[set], chooser.sets[set].len() as u32);
        let all = f64::from(known.max(1));
        let (rate, expected) = mean_loads(view, *link);
        MemberLoad {
            link: view.graph.name(*link),
            flows: flows[place],
            delivering: delivering[place],
            rate,
            expected,
            counted: counted.and_then(|counted| counted.bytes.get(place).copied().map(Bytes)),
            share: f64::from(flows[place]) / all,
            band: (low / all, high / all),
        }
    });
    let loads: Vec<MemberLoad> = loads.collect();
    let cause = view.causes[number];
    let deciding = wording::deciding(view, number);
    let mut cells: Vec<u32> = own.iter().map(|(flow, ..)| flow.cell).collect();
    let mut parts = wording::parts(view, number);
    if let Some(of_part) = cells_of_bad_member(view, number, cause) {
        cells = of_part;
    }
    cells.sort_unstable();
    cells.dedup();
    let fresh = own.iter().filter(|(flow, ..)| flow.fresh).count() as u32;
    let paths = chooser.sets.iter().map(Vec::len).max().unwrap_or(0) as u32;
    let used = match view.spreads[number].as_ref() {
        Some(_) => delivering.iter().filter(|count| **count > 0).count() as u32,
        None => counted.map_or(0, |counted| {
            counted.bytes.iter().filter(|sent| **sent > 0).count() as u32
        }),
    };
    let lost = match chooser.tier {
        1 => view.goodput[number].lost(),
        _ => None,
    };
    EcmpVerdict {
        test: view.rail.test.to_string(),
        rail: view.rail.rail.to_string(),
        switch: Some(chooser.switch.clone()),
        tier: chooser.tier,
        cause,
        part: (!parts.is_empty()).then(|| parts.remove(0)),
        sentence: wording::sentence(view, number, fresh, context),
        flows: fresh,
        paths,
        paths_used: used,
        statistic: deciding.name.to_string(),
        value: deciding.value,
        null_median: deciding.null_median,
        p_value: deciding.p_value,
        lost,
        max_over_mean: match (view.spreads[number].as_ref(), counted) {
            (Some(spread), _) => spread.max_over_mean.value,
            (None, Some(counted)) => counted.max_over_mean,
            (None, None) => 1.0,
        },
        counted_p_value: counted.map(|counted| counted.p_value),
        members: loads,
        pairs: pairs(view, &own, &place_of),
        cells,
        advice: wording::advice(view, cause, paths),
    }
}

/// Cells that a dead or slow member concerns, when that is the cause.
fn cells_of_bad_member(view: &RailView<'_, '_>, number: usize, cause: EcmpCause) -> Option<Vec<u32>> {
    let (dead, slow) = view.bad_members(number);
    let cells: Vec<u32> = match cause {
        EcmpCause::DeadMember => dead.iter().flat_map(|dead| dead.cells.iter().copied()).collect(),
        EcmpCause::SlowMember => slow.iter().flat_map(|slow| slow.cells.iter().copied()).collect(),
        _ => return None,
    };
    // A member that nothing is sent to concerns all flows of this switch.
    (!cells.is_empty()).then_some(cells)
}

/// What a link carried and should have, on average over the slots in which it was used.
fn mean_loads(view: &RailView<'_, '_>, link: LinkId) -> (Option<Rate>, Option<Rate>) {
    let Some(model) = &view.healthy else {
        return (None, None);
    };
    let loads: Vec<_> = model
        .slots
        .iter()
        .filter_map(|slot| slot.loads.get(&link))
        .collect();
    if loads.is_empty() {
        return (None, None);
    }
    let count = loads.len() as f64;
    let carried = loads.iter().map(|load| load.mean()).sum::<f64>() / count;
    let expected = loads.iter().map(|load| load.expected).sum::<f64>() / count;
    (
        Some(Rate(carried)),
        expected.is_finite().then_some(Rate(expected)),
    )
}

fn pairs(
    view: &RailView<'_, '_>,
    own: &[(&Flow, Option<LinkId>, usize)],
    place_of: &HashMap<LinkId, usize>,
) -> Vec<PairSpread> {
    let mut pairs: BTreeMap<usize, PairSpread> = BTreeMap::new();
    for (flow, link, _) in own.iter().filter(|(flow, ..)| flow.fresh) {
        let pair = pairs.entry(flow.pair).or_insert_with(|| PairSpread {
            from: view.rail.pairs[flow.pair].0.clone(),
            to: view.rail.pairs[flow.pair].1.clone(),
            flows: vec![0; place_of.len()],
            unknown: 0,
            dead: 0,
        });
        match link.and_then(|link| place_of.get(&link)) {
            Some(place) => pair.flows[*place] += 1,
            None => pair.unknown += 1,
        }
        pair.dead += u32::from(flow.dead);
    }
    pairs.into_values().collect()
}

/// A link at fault behind a switch that had no choice there.
fn of_link(view: &RailView<'_, '_>, link: LinkId, cause: EcmpCause) -> EcmpVerdict {
    let of = view.graph.link(link);
    let on_it: Vec<&Flow> = view
        .rail
        .flows
        .iter()
        .filter(|flow| flow.path.contains(&link))
        .collect();
    let (rate, expected) = mean_loads(view, link);
    let fault = wording::of_bad_link(view, link);
    EcmpVerdict {
        test: view.rail.test.to_string(),
        rail: view.rail.rail.to_string(),
        switch: Some(of.from.node.clone()),
        tier: 2,
        cause,
        part: Some(view.graph.name(link)),
        sentence: fault.sentence,
        flows: on_it.iter().filter(|flow| flow.fresh).count() as u32,
        paths: 1,
        paths_used: u32::from(on_it.iter().any(|flow| !flow.dead)),
        statistic: fault.measured.name.to_string(),
        value: fault.measured.value,
        null_median: fault.measured.null_median,
        p_value: fault.measured.p_value,
        lost: None,
        max_over_mean: 1.0,
        counted_p_value: None,
        members: vec![MemberLoad {
            link: view.graph.name(link),
            flows: on_it.len() as u32,
            delivering: on_it.iter().filter(|flow| !flow.dead).count() as u32,
            rate,
            expected,
            counted: None,
            share: 1.0,
            band: (1.0, 1.0),
        }],
        pairs: Vec::new(),
        cells: fault.cells,
        advice: wording::advice(view, cause, 1),
    }
}
