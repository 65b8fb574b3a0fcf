//! Faults of how flows are spread: one for every dead or slow link, one per rail for everything that shows at many switches.

use std::collections::BTreeSet;

use super::flows::RailFlows;
use super::rail_view::RailView;
use super::spread::TestStatistic;
use super::wording;
use record::text::{list, p_value, percent, plural};
use record::units::Rate;
use record::{EcmpCause, EcmpVerdict, Interval};
use topology::graph::LinkId;

/// One fault of one rail.
#[derive(Debug, Clone)]
pub(super) struct EcmpFault {
    pub(super) test: String,
    pub(super) rail: String,
    pub(super) cause: EcmpCause,
    pub(super) sentence: String,
    /// Switches, one link, or hosts.
    pub(super) switches: Vec<String>,
    pub(super) link: Option<String>,
    pub(super) hosts: Vec<String>,
    /// Parts it is ambiguous with.
    pub(super) or: Vec<String>,
    pub(super) measured: TestStatistic,
    pub(super) carried: Option<Interval<Rate>>,
    pub(super) expected: Option<Rate>,
    pub(super) evidence: Vec<String>,
    /// Ids of the cells concerned, ascending.
    pub(super) cells: Vec<u32>,
    pub(super) advice: String,
    /// Rounds that show it.
    pub(super) rounds: u16,
}

/// Everything that is wrong with a rail.
pub(super) fn faults(view: &RailView<'_, '_>) -> Vec<EcmpFault> {
    let mut fault = Vec::new();
    fault.extend(no_entropy(view));
    let everything_is_poor = view.rail.low_entropy.len() == view.rail.cells.len();
    if !everything_is_poor {
        let dead: Vec<LinkId> = view.dead.iter().map(|dead| dead.link).collect();
        let slow: Vec<LinkId> = view.slow.iter().map(|slow| slow.link).collect();
        fault.extend(
            dead.into_iter()
                .map(|link| bad_link(view, link, EcmpCause::DeadMember)),
        );
        fault.extend(
            slow.into_iter()
                .map(|link| bad_link(view, link, EcmpCause::SlowMember)),
        );
        for cause in [
            EcmpCause::DeadMember,
            EcmpCause::Polarised,
            EcmpCause::PolarisedSecondTier,
            EcmpCause::UnequalWeights,
            EcmpCause::Unexplained,
        ] {
            fault.extend(at_switches(view, cause));
        }
        fault.extend(unexplained_dead(view));
    }
    fault
}

fn base(rail: &RailFlows<'_>, cause: EcmpCause, measured: TestStatistic, mut cells: Vec<u32>) -> EcmpFault {
    cells.sort_unstable();
    cells.dedup();
    EcmpFault {
        test: rail.test.to_string(),
        rail: rail.rail.to_string(),
        cause,
        sentence: String::new(),
        switches: Vec::new(),
        link: None,
        hosts: Vec::new(),
        or: Vec::new(),
        measured,
        carried: None,
        expected: None,
        evidence: Vec::new(),
        cells,
        advice: String::new(),
        rounds: 1,
    }
}

fn total(view: &RailView<'_, '_>, numbers: impl Iterator<Item = usize>) -> super::loss::Goodput {
    numbers
        .filter(|number| view.rail.choosers.all[*number].tier == 1)
        .map(|number| view.goodput[number])
        .fold(super::loss::Goodput::default(), super::loss::Goodput::and)
}

fn no_entropy(view: &RailView<'_, '_>) -> Option<EcmpFault> {
    let hosts = wording::low_entropy_hosts(view);
    let first = view.low_entropy.first()?;
    let cells = view.low_entropy.iter().map(|cell| cell.cell).collect();
    let all = total(view, 0..view.rail.choosers.all.len());
    let mut fault = base(view.rail, EcmpCause::NoEntropy, wording::entropy(view), cells);
    fault.sentence = format!(
        "{}: sender without entropy: {} send{} all streams of a pair from one source port ({} streams \
         from {} port{}), so that no switch can distinguish them{}",
        view.rail.rail,
        list(&hosts),
        if hosts.len() == 1 { "s" } else { "" },
        first.streams,
        first.ports,
        plural(first.ports as usize),
        wording::cost(&all)
    );
    fault.evidence.push(format!(
        "{} of {} cells have fewer source ports than streams",
        view.low_entropy.len(),
        view.rail.cells.len()
    ));
    fault.hosts = hosts;
    fault.advice = wording::advice(view, EcmpCause::NoEntropy, 0);
    Some(fault)
}

fn bad_link(view: &RailView<'_, '_>, link: LinkId, cause: EcmpCause) -> EcmpFault {
    let bad = wording::of_bad_link(view, link);
    let of = view.graph.link(link);
    let cells = cells_of_link(view, link);
    let all = total(view, 0..view.rail.choosers.all.len());
    let mut fault = base(view.rail, cause, bad.measured, cells);
    fault.sentence = format!("{}: {}{}", view.rail.rail, bad.sentence, wording::cost(&all));
    fault.link = Some(view.graph.name(link));
    fault.switches = vec![of.from.node.clone(), of.to.node.clone()];
    fault.or = bad.or;
    fault.evidence.push(format!("cable {}", of.cable));
    let dead = view.rail.flows.iter().filter(|flow| flow.dead).count();
    if cause == EcmpCause::DeadMember && dead > 0 {
        fault.evidence.push(format!(
            "{dead} of {} flows delivered nothing; those with an intact path lost their acknowledgements \
             on the return path",
            view.rail.flows.len()
        ));
    }
    if let Some(slow) = view.slow.iter().find(|slow| slow.link == link) {
        fault.expected = Some(Rate(slow.should));
        fault.evidence.push(format!(
            "carried {} of its fair share, median of {} measurements",
            percent(slow.ratio),
            slow.short
        ));
    }
    fault.advice = wording::advice(view, cause, 0);
    fault
}

/// Ids of the cells that a dead or slow link concerns.
pub(super) fn cells_of_link(view: &RailView<'_, '_>, link: LinkId) -> Vec<u32> {
    let cells = wording::of_bad_link(view, link).cells;
    if !cells.is_empty() {
        return cells;
    }
    // Nothing is sent there: it concerns all flows that could have been.
    let could = |flow: &&super::flows::Flow| {
        let mut choices = flow.choices.iter();
        choices.any(|choice| view.rail.choosers.all[choice.chooser].members().contains(&link))
    };
    let flows = view.rail.flows.iter().filter(could);
    flows.map(|flow| flow.cell).collect()
}

/// Ids of the cells with a flow that delivered nothing.
pub(super) fn cells_of_dead_flows(view: &RailView<'_, '_>) -> Vec<u32> {
    let dead = view.rail.flows.iter().filter(|flow| flow.dead);
    dead.map(|flow| flow.cell).collect()
}

fn at_switches(view: &RailView<'_, '_>, cause: EcmpCause) -> Option<EcmpFault> {
    let numbers: Vec<usize> = (0..view.causes.len())
        .filter(|number| view.causes[*number] == cause)
        // Dead links that flows show are accused one by one.
        .filter(|number| view.bad_members(*number).0.is_empty())
        .collect();
    let worst = numbers.iter().copied().min_by(|a, b| {
        let (a, b) = (wording::deciding(view, *a), wording::deciding(view, *b));
        a.p_value
            .total_cmp(&b.p_value)
            .then((b.value - b.null_median).total_cmp(&(a.value - a.null_median)))
    })?;
    let choosers = &view.rail.choosers.all;
    let mut switches: Vec<String> = numbers
        .iter()
        .map(|number| choosers[*number].switch.clone())
        .collect();
    switches.sort_by_key(|switch| (switch.len(), switch.clone()));
    let concerned: BTreeSet<usize> = numbers.iter().copied().collect();
    let cells: Vec<u32> = view
        .rail
        .flows
        .iter()
        .filter(|flow| {
            flow.choices
                .iter()
                .any(|choice| concerned.contains(&choice.chooser))
        })
        .map(|flow| flow.cell)
        .collect();
    let measured = wording::deciding(view, worst);
    let all = match choosers[worst].tier {
        1 => total(view, numbers.iter().copied()),
        _ => total(view, 0..choosers.len()),
    };
    let paths = choosers[worst].sets.iter().map(Vec::len).max().unwrap_or(0);
    let what = match cause {
        EcmpCause::Polarised => {
            "polarised: the hash keeps flows together that it could distinguish by their ports".to_string()
        }
        EcmpCause::PolarisedSecondTier => {
            "polarised, second tier: these switches choose as the ones before them \
             did, and leave part of their links unused"
                .to_string()
        }
        EcmpCause::UnequalWeights => {
            let of = |number: &usize| {
                let weights = super::spread::weights(&wording::member_counts(view, *number));
                format!("{} about {weights}", choosers[*number].switch)
            };
            let each: Vec<String> = numbers.iter().map(of).collect();
            format!(
                "unequal weights ({}): all members are used, always some more than others",
                list(&each)
            )
        }
        EcmpCause::DeadMember => {
            let idle = numbers
                .iter()
                .flat_map(|number| wording::idle_members(view, *number));
            let idle: Vec<String> = idle.collect();
            format!("dead member: almost no bytes were counted at {}", list(&idle))
        }
        _ => "less even than a fair hash makes it, for an unknown reason".to_string(),
    };
    let mut fault = base(view.rail, cause, measured, cells);
    fault.sentence = format!(
        "{}: {} of {paths} paths: {what}; {} {:.1}, median under a fair hash {:.1} ({}){}",
        view.rail.rail,
        list(&switches),
        measured.name,
        measured.value,
        measured.null_median,
        p_value(measured.p_value),
        wording::cost(&all)
    );
    fault.evidence.extend(counters_say(view, &numbers));
    let of_tier = choosers
        .iter()
        .filter(|chooser| chooser.tier == choosers[worst].tier);
    fault.evidence.push(format!(
        "{} of {} switches with choice number {} on {} show it",
        numbers.len(),
        of_tier.count(),
        choosers[worst].tier,
        view.rail.rail
    ));
    fault.switches = switches;
    fault.advice = wording::advice(view, cause, paths as u32);
    Some(fault)
}

/// Whether the switches' own counters agree with where flows were seen to go.
fn counters_say(view: &RailView<'_, '_>, numbers: &[usize]) -> Option<String> {
    let read: Vec<f64> = numbers
        .iter()
        .filter_map(|number| view.counted[*number].as_ref())
        .map(|counted| counted.p_value)
        .collect();
    if read.is_empty() {
        return None;
    }
    let agree = read.iter().filter(|p| **p < 0.01).count();
    Some(format!(
        "bytes counted at the ports of {} of {} switches are as uneven (p < 0.01)",
        agree,
        read.len()
    ))
}

fn unexplained_dead(view: &RailView<'_, '_>) -> Option<EcmpFault> {
    let count = view.unexplained_dead;
    if count == 0 {
        return None;
    }
    let cells = cells_of_dead_flows(view);
    let measured = TestStatistic {
        name: "flows that delivered nothing",
        value: count as f64,
        null_median: 0.0,
        p_value: 0.0,
    };
    let mut fault = base(view.rail, EcmpCause::Unexplained, measured, cells);
    fault.sentence = format!(
        "{}: {count} of {} flows delivered nothing, and every link was crossed by others that did",
        view.rail.rail,
        view.rail.flows.len()
    );
    fault.advice = wording::advice(view, EcmpCause::Unexplained, 0);
    Some(fault)
}

/// What is wrong with a rail whose paths are not known.
pub(super) fn of_unknown_paths(rail: &RailFlows<'_>, verdict: &EcmpVerdict) -> Option<EcmpFault> {
    if !verdict.cause.is_fault() {
        return None;
    }
    let measured = TestStatistic {
        name: "goodput or flows, paths unknown",
        value: verdict.value,
        null_median: verdict.null_median,
        p_value: verdict.p_value,
    };
    let mut fault = base(rail, verdict.cause, measured, verdict.cells.clone());
    fault.sentence.clone_from(&verdict.sentence);
    fault.advice.clone_from(&verdict.advice);
    if verdict.cause == EcmpCause::NoEntropy {
        let hosts: BTreeSet<String> = rail.low_entropy.iter().map(|cell| cell.host.clone()).collect();
        fault.hosts = hosts.into_iter().collect();
    }
    Some(fault)
}
