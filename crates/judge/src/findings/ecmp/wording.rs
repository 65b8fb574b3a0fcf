//! The wording of verdicts: the sentence, the statistic it rests on, and what to do.

use super::rail_view::{DecisionContext, RailView};
use super::spread::{SpreadKind, TestStatistic, weights};
use record::EcmpCause;
use record::text::{list, p_value, percent, plural};
use record::units::Rate;
use topology::graph::LinkId;

/// Names of hosts that do not vary their ports, in order.
pub(super) fn low_entropy_hosts(view: &RailView<'_, '_>) -> Vec<String> {
    let mut hosts: Vec<String> = view.low_entropy.iter().map(|cell| cell.host.clone()).collect();
    hosts.sort_by_key(|host| (host.len(), host.clone()));
    hosts.dedup();
    hosts
}

/// The same of those whose flows a chooser had.
pub(super) fn low_entropy_at(view: &RailView<'_, '_>, number: usize) -> Vec<String> {
    let cells: std::collections::HashSet<u32> = view.rail.of_chooser(number).map(|flow| flow.cell).collect();
    let here = view.low_entropy.iter().filter(|cell| cells.contains(&cell.cell));
    let mut hosts: Vec<String> = here.map(|cell| cell.host.clone()).collect();
    hosts.sort_by_key(|host| (host.len(), host.clone()));
    hosts.dedup();
    hosts
}

/// The parts at fault at a chooser, the one that is named first.
pub(super) fn parts(view: &RailView<'_, '_>, number: usize) -> Vec<String> {
    let (dead, slow) = view.bad_members(number);
    match view.causes[number] {
        EcmpCause::DeadMember if dead.is_empty() => idle_members(view, number),
        EcmpCause::DeadMember => dead.iter().map(|dead| view.graph.name(dead.link)).collect(),
        EcmpCause::SlowMember => slow.iter().map(|slow| view.graph.name(slow.link)).collect(),
        EcmpCause::NoEntropy => vec![low_entropy_at(view, number).join(",")],
        EcmpCause::Polarised
        | EcmpCause::PolarisedSecondTier
        | EcmpCause::UnequalWeights
        | EcmpCause::Unexplained => {
            vec![view.rail.choosers.all[number].switch.clone()]
        }
        EcmpCause::AdaptiveRouting | EcmpCause::ExpectedCollision | EcmpCause::Unjudged => Vec::new(),
    }
}

/// Members at whose ports next to nothing was counted.
pub(super) fn idle_members(view: &RailView<'_, '_>, number: usize) -> Vec<String> {
    let members = view.rail.choosers.all[number].members();
    let idle = view.counted[number].iter().flat_map(|counted| counted.idle());
    idle.filter_map(|place| members.get(place))
        .map(|link| view.graph.name(*link))
        .collect()
}

/// The statistic that decided at a chooser.
pub(super) fn deciding(view: &RailView<'_, '_>, number: usize) -> TestStatistic {
    let (dead, slow) = view.bad_members(number);
    match view.causes[number] {
        EcmpCause::NoEntropy => entropy(view),
        EcmpCause::DeadMember if !dead.is_empty() => of_bad_link(view, dead[0].link).measured,
        EcmpCause::SlowMember if !slow.is_empty() => of_bad_link(view, slow[0].link).measured,
        EcmpCause::AdaptiveRouting if view.is_adaptive() => TestStatistic {
            name: "share of flows that took another path when traced again",
            value: view.unsteady.0 as f64 / view.unsteady.1.max(1) as f64,
            null_median: 0.0,
            p_value: 0.0,
        },
        _ => match (&view.spreads[number], &view.counted[number]) {
            (Some(spread), _) if spread.flows > 0 => spread.decisive(),
            (_, Some(counted)) => TestStatistic {
                name: "busiest over mean, counted bytes",
                value: counted.max_over_mean,
                null_median: counted.null_median,
                p_value: match view.causes[number] {
                    EcmpCause::AdaptiveRouting => counted.p_even,
                    _ => counted.p_value,
                },
            },
            _ => TestStatistic {
                name: "none",
                value: 0.0,
                null_median: 0.0,
                p_value: 1.0,
            },
        },
    }
}

/// How few ports the streams of monotonous senders have.
pub(super) fn entropy(view: &RailView<'_, '_>) -> TestStatistic {
    let (streams, ports) = view.low_entropy.iter().fold((0, 0), |(streams, ports), cell| {
        (streams + cell.streams, ports + cell.ports)
    });
    let cells = view.low_entropy.len().max(1) as f64;
    // Random ports are all different but for one in a thousand; that all of them coincide has almost no probability.
    let p = (1.0f64 / 16_384.0).powf(f64::from(streams.saturating_sub(ports).min(60)));
    TestStatistic {
        name: "source ports per pair",
        value: f64::from(ports) / cells,
        null_median: f64::from(streams) / cells,
        p_value: p,
    }
}

/// A link at fault, in words and numbers.
pub(super) struct BadLink {
    pub(super) sentence: String,
    pub(super) measured: TestStatistic,
    pub(super) cells: Vec<u32>,
    pub(super) or: Vec<String>,
}

/// The wording for a dead or slow link.
pub(super) fn of_bad_link(view: &RailView<'_, '_>, link: LinkId) -> BadLink {
    let name = view.graph.name(link);
    let far = &view.graph.link(link).to.node;
    let names = |links: &[LinkId]| {
        links
            .iter()
            .map(|link| view.graph.name(*link))
            .collect::<Vec<_>>()
    };
    let or = |links: &[LinkId]| match links {
        [] => String::new(),
        links => format!(" (or {})", names(links).join(" or ")),
    };
    if let Some(dead) = view.dead.iter().find(|dead| dead.link == link) {
        let what = match dead.vanished {
            0 => "no flow is ever sent there".to_string(),
            count => format!("{count} flow{} vanished where it begins", plural(count as usize)),
        };
        return BadLink {
            sentence: format!(
                "{name}{}: dead member towards {far}: no flow delivered anything over it; a fair hash \
                 gives it {:.0} ({}); {what}",
                or(&dead.or),
                dead.expected,
                p_value(dead.p_value)
            ),
            measured: TestStatistic {
                name: "delivering flows",
                value: 0.0,
                null_median: dead.expected.round(),
                p_value: dead.p_value,
            },
            cells: dead.cells.clone(),
            or: names(&dead.or),
        };
    }
    if let Some(slow) = view.slow.iter().find(|slow| slow.link == link) {
        return BadLink {
            sentence: format!(
                "{name}{}: slow member: carried at most {} of the {} it should, in {} of {} measurements \
                 with more demand ({}); flows that do not cross it got what they should",
                or(&slow.or),
                Rate(slow.carries),
                Rate(slow.should),
                slow.short,
                slow.asked.max(slow.short),
                p_value(slow.p_value)
            ),
            measured: TestStatistic {
                name: "carried over expected",
                value: slow.ratio,
                null_median: 1.0,
                p_value: slow.p_value,
            },
            cells: slow.cells.clone(),
            or: names(&slow.or),
        };
    }
    BadLink {
        sentence: name,
        measured: TestStatistic {
            name: "none",
            value: 0.0,
            null_median: 0.0,
            p_value: 1.0,
        },
        cells: Vec::new(),
        or: Vec::new(),
    }
}

/// `; 12 % of the goodput of an even spread is lost (6 % of bisection)`.
pub(super) fn cost(goodput: &super::loss::Goodput) -> String {
    match (goodput.lost(), goodput.of_bisection()) {
        (Some(lost), Some(bisection)) => format!(
            "; {} of the goodput of an even spread is lost ({} of bisection)",
            percent(lost),
            percent(bisection)
        ),
        (Some(lost), None) => format!("; {} of the goodput of an even spread is lost", percent(lost)),
        _ => String::new(),
    }
}

/// The verdict of a chooser in one sentence.
pub(super) fn sentence(
    view: &RailView<'_, '_>,
    number: usize,
    flows: u32,
    context: &mut DecisionContext<'_>,
) -> String {
    let chooser = &view.rail.choosers.all[number];
    let switch = &chooser.switch;
    let paths = chooser.sets.iter().map(Vec::len).max().unwrap_or(0);
    let deciding = deciding(view, number);
    let against = format!(
        "{} {:.1}, median under a fair hash {:.1} ({})",
        deciding.name,
        deciding.value,
        deciding.null_median,
        p_value(deciding.p_value)
    );
    let cost = match chooser.tier {
        1 => cost(&view.goodput[number]),
        _ => String::new(),
    };
    let spread = view.spreads[number].as_ref();
    let (dead, slow) = view.bad_members(number);
    if let Some(suspicion) = &view.suspicions[number] {
        return suspicion.clone();
    }
    match view.causes[number] {
        EcmpCause::DeadMember if !dead.is_empty() => of_bad_link(view, dead[0].link).sentence,
        EcmpCause::SlowMember if !slow.is_empty() => of_bad_link(view, slow[0].link).sentence,
        EcmpCause::NoEntropy => {
            let hosts = low_entropy_at(view, number);
            format!(
                "{switch}: {} send all streams of a pair from {:.0} source port, so that no switch can \
                 distinguish them: they share one of {paths} paths{cost}",
                list(&hosts),
                deciding.value.max(1.0)
            )
        }
        EcmpCause::Polarised => format!(
            "{switch}: polarised: the hash keeps flows of a pair together that it could distinguish, on \
             {:.1} of {paths} paths on average: {against}{cost}",
            used_per_pair(view, number)
        ),
        EcmpCause::PolarisedSecondTier => format!(
            "{switch}: polarised, second tier: it chooses as the switch before it \
             did, and leaves part of what it has unused: {against}"
        ),
        EcmpCause::UnequalWeights => format!(
            "{switch}: unequal weights, about {}: all {paths} members are used, \
             always some more than others: {against}{cost}",
            weights(&member_counts(view, number))
        ),
        EcmpCause::Unexplained => {
            format!(
                "{switch}: less even than a fair hash makes it, for an unknown reason: \
                 {against}{cost}"
            )
        }
        EcmpCause::AdaptiveRouting => format!(
            "{switch}: adaptive routing: flows have no fixed path ({} of {} took another one when traced \
             again)",
            view.unsteady.0, view.unsteady.1
        ),
        EcmpCause::DeadMember => format!(
            "{switch}: dead member: almost no bytes were counted at {}: {against}{cost}",
            list(&idle_members(view, number))
        ),
        EcmpCause::Unjudged if is_open(view, number) => format!(
            "{switch}: less even than any trial of a fair hash, but so many switches are judged that this may be chance: {against}"
        ),
        EcmpCause::Unjudged | EcmpCause::SlowMember => format!(
            "{switch}: the paths of too few of {flows} flows are known to judge how they are spread over \
             {paths} members"
        ),
        EcmpCause::ExpectedCollision => {
            let busiest = spread.map_or(1.0, |spread| spread.max_over_mean.value);
            let usual = spread.map_or(1.0, |spread| spread.max_over_mean.null_median);
            let more = more_flows(view, number, context);
            format!(
                "{switch}: as even as a fair hash makes it: {flows} flows over {paths} paths, the busiest \
                 has {busiest:.2} times the mean, median under a fair hash {usual:.2} ({}){cost}{more}",
                p_value(deciding.p_value)
            )
        }
    }
}

/// Whether flows or counters are so uneven that it may be a fault, and nothing shows that it is.
fn is_open(view: &RailView<'_, '_>, number: usize) -> bool {
    let spread = view.spreads[number].as_ref();
    let counted = view.counted[number].as_ref();
    spread.is_some_and(|spread| spread.kind == SpreadKind::Open)
        || counted.is_some_and(|counted| counted.is_open)
}

/// Flows per position of a chooser's members, over all its sets; where no path is known, counted megabytes.
pub(super) fn member_counts(view: &RailView<'_, '_>, number: usize) -> Vec<u32> {
    match (&view.spreads[number], &view.counted[number]) {
        (Some(spread), _) => {
            let width = spread.counts.iter().map(Vec::len).max().unwrap_or(0);
            let of_place = |place: usize| spread.counts.iter().filter_map(|set| set.get(place)).sum();
            (0..width).map(of_place).collect()
        }
        (None, Some(counted)) => {
            let megabytes = |bytes: &u64| u32::try_from(bytes >> 20).unwrap_or(u32::MAX);
            counted.bytes.iter().map(megabytes).collect()
        }
        (None, None) => Vec::new(),
    }
}

/// Members that the flows of a pair use, on average over pairs with several flows.
fn used_per_pair(view: &RailView<'_, '_>, number: usize) -> f64 {
    use std::collections::{BTreeMap, BTreeSet};
    let mut used: BTreeMap<usize, (u32, BTreeSet<(usize, usize)>)> = BTreeMap::new();
    for flow in view.rail.of_chooser(number).filter(|flow| flow.fresh) {
        for choice in flow.choices.iter().filter(|choice| choice.chooser == number) {
            if let Some(member) = choice.member {
                let pair = used.entry(flow.pair).or_default();
                pair.0 += 1;
                pair.1.insert((choice.set, member));
            }
        }
    }
    let several: Vec<f64> = used
        .values()
        .filter(|(flows, _)| *flows > 1)
        .map(|(_, members)| members.len() as f64)
        .collect();
    several.iter().sum::<f64>() / several.len().max(1) as f64
}

/// `; 4 times as many flows would halve that`, when collisions cost something.
fn more_flows(view: &RailView<'_, '_>, number: usize, context: &mut DecisionContext<'_>) -> String {
    let chooser = &view.rail.choosers.all[number];
    let members = chooser.sets.iter().map(Vec::len).max().unwrap_or(0) as u32;
    let goodput = &view.goodput[number];
    if chooser.tier != 1 || goodput.members <= 0.0 || !goodput.even.is_finite() {
        return String::new();
    }
    let mut slots: std::collections::BTreeMap<u32, u32> = std::collections::BTreeMap::new();
    for flow in view.rail.of_chooser(number) {
        if flow
            .choices
            .first()
            .is_some_and(|choice| choice.chooser == number)
        {
            *slots.entry(flow.slot).or_default() += 1;
        }
    }
    let most = slots.values().copied().max().unwrap_or(0);
    let demand = goodput.even / goodput.members * f64::from(members);
    match context.advice.factor(most, members, demand) {
        Some(factor) => format!(
            "; {} flows at a time instead of {most} would halve what collisions cost",
            most.saturating_mul(factor)
        ),
        None => String::new(),
    }
}

/// What to do about a cause.
pub(super) fn advice(view: &RailView<'_, '_>, cause: EcmpCause, paths: u32) -> String {
    let rail = view.rail.rail;
    match cause {
        EcmpCause::NoEntropy => "vary the source port: more connections or queue pairs, each from a \
                                 port of its own (NCCL: NCCL_IB_QPS_PER_CONNECTION, \
                                 NCCL_IB_SPLIT_DATA_ON_QPS; flow labels per queue pair)"
            .to_string(),
        EcmpCause::DeadMember => "look at the port at both ends and at the next hop's neighbour entry; \
                                  withdraw the route until it delivers"
            .to_string(),
        EcmpCause::SlowMember => "look at this port: negotiated speed and width, lanes, errors, buffers; \
                                  reseat or replace the cable"
            .to_string(),
        EcmpCause::Polarised => "let the switch hash ports as well as addresses (layer 3 + 4; for RoCE \
                                 the UDP source port), and check that the fields are not masked out"
            .to_string(),
        EcmpCause::PolarisedSecondTier => {
            "give the switches of every tier a hash seed of their own, or other hash fields or offset"
                .to_string()
        }
        EcmpCause::UnequalWeights => format!(
            "compare next hops and weights of this switch's routes with those of \
             its peers on {rail}: it has {paths} members of the same rate"
        ),
        EcmpCause::Unexplained => {
            "read the ports' counters while it runs (--switch-counters), and let switches answer probes, \
             to see which paths flows take"
                .to_string()
        }
        EcmpCause::AdaptiveRouting => {
            "nothing to fix: the fabric spreads packets or moves flows; judge it by goodput, not by paths"
                .to_string()
        }
        EcmpCause::ExpectedCollision => {
            "nothing to fix: more flows (connections or queue pairs) per pair make it more even".to_string()
        }
        EcmpCause::Unjudged => {
            "give a topology file (--topology), let switches answer packets whose TTL expires there, or \
             read their counters (--switch-counters)"
                .to_string()
        }
    }
}
