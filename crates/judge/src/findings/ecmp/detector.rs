//! Findings about the spread of flows: one for every dead or slow link, one per rail for everything that shows at many switches.

use std::collections::BTreeSet;

use super::accuse::RailView;
use super::flows::RailFlows;
use super::spread::Measured;
use super::words;
use crate::findings::{Detector, Seen, repeat};
use record::text::{list, p_value, percent, plural};
use record::units::Rate;
use record::{
    Confirmation, EcmpCause, EcmpVerdict, Finding, FindingKind, Interval, PartKind, Place, Suspect,
};
use topology::graph::LinkId;

/// One fault of one rail.
#[derive(Debug, Clone)]
pub(super) struct Accusation {
    test: String,
    rail: String,
    pub(super) cause: EcmpCause,
    pub(super) sentence: String,
    /// Switches, one link, or hosts.
    switches: Vec<String>,
    link: Option<String>,
    hosts: Vec<String>,
    /// What cannot be told apart from it.
    or: Vec<String>,
    measured: Measured,
    carried: Option<Interval<Rate>>,
    expected: Option<Rate>,
    evidence: Vec<String>,
    /// Ids of the cells concerned, ascending.
    pub(super) cells: Vec<u32>,
    advice: String,
}

/// Looks for imbalance over equal paths.
pub(in crate::findings) struct EcmpImbalance;

impl Detector for EcmpImbalance {
    fn question(&self) -> &'static str {
        "Are flows spread over equal paths as a fair hash would, and does every path carry its share?"
    }

    fn find(&self, seen: &Seen<'_>) -> Vec<Finding> {
        let accusations = seen.ecmp.accusations.iter();
        accusations.map(|accusation| finding(seen, accusation)).collect()
    }
}

fn finding(seen: &Seen<'_>, accused: &Accusation) -> Finding {
    let rule = &seen.run().rule;
    let measured = &accused.measured;
    let mut evidence = vec![format!(
        "{}: {:.3}; {:.3} in the middle under a fair hash; {}",
        measured.name,
        measured.value,
        measured.null_median,
        p_value(measured.p_value)
    )];
    evidence.extend(accused.evidence.iter().cloned());
    let comparisons = seen.ecmp.levels.comparisons(accused.cause);
    let suspects = accused.link.iter().chain(&accused.or);
    let share = 1.0 / (1 + accused.or.len()) as f64;
    let suspects = suspects.map(|link| Suspect {
        part: link.clone(),
        kind: PartKind::FabricCable,
        cable: None,
        direction: None,
        confidence: share * 0.99,
        why: accused.cause.to_string(),
    });
    Finding {
        kind: FindingKind::EcmpImbalance,
        sentence: format!("{} ({})", accused.sentence, accused.cause),
        place: Place {
            hosts: accused.hosts.clone(),
            ranks: Vec::new(),
            rail: Some(accused.rail.clone()),
            link: accused.link.clone(),
            switch: accused.switches.first().cloned(),
        },
        measured: accused.carried,
        expected: accused.expected,
        rule: format!(
            "{}: beyond what a fair hash does by chance, at a false-positive budget of {} of which this has one part in \
             {comparisons}",
            accused.cause, rule.false_positive_budget
        ),
        confirmation: Some(Confirmation {
            rounds: 1,
            p_value: (measured.p_value * f64::from(comparisons)).min(1.0),
            comparisons,
        }),
        not_told_apart_from: accused.or.clone(),
        evidence,
        cells: accused.cells.clone(),
        next_step: accused.advice.clone(),
        repeat: Some(repeat::command(
            seen.run(),
            &[("test", &accused.test), ("rail", &accused.rail)],
        )),
        suspects: suspects.collect(),
        curve: Vec::new(),
    }
}

/// Everything that is wrong with a rail.
pub(super) fn accusations(view: &RailView<'_, '_>) -> Vec<Accusation> {
    let mut accused = Vec::new();
    accused.extend(no_entropy(view));
    let everything_is_poor = view.rail.monotonous.len() == view.rail.cells.len();
    if !everything_is_poor {
        let dead: Vec<LinkId> = view.dead.iter().map(|dead| dead.link).collect();
        let slow: Vec<LinkId> = view.slow.iter().map(|slow| slow.link).collect();
        accused.extend(
            dead.into_iter()
                .map(|link| bad_link(view, link, EcmpCause::DeadMember)),
        );
        accused.extend(
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
            accused.extend(at_switches(view, cause));
        }
        accused.extend(unexplained_dead(view));
    }
    accused
}

fn base(rail: &RailFlows<'_>, cause: EcmpCause, measured: Measured, mut cells: Vec<u32>) -> Accusation {
    cells.sort_unstable();
    cells.dedup();
    Accusation {
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
    }
}

fn total(view: &RailView<'_, '_>, numbers: impl Iterator<Item = usize>) -> super::loss::Goodput {
    numbers
        .filter(|number| view.rail.choosers.all[*number].tier == 1)
        .map(|number| view.goodput[number])
        .fold(super::loss::Goodput::default(), super::loss::Goodput::and)
}

fn no_entropy(view: &RailView<'_, '_>) -> Option<Accusation> {
    let hosts = words::monotonous_hosts(view);
    let first = view.rail.monotonous.first()?;
    let cells = view.rail.monotonous.iter().map(|cell| cell.cell).collect();
    let all = total(view, 0..view.rail.choosers.all.len());
    let mut accused = base(view.rail, EcmpCause::NoEntropy, words::entropy(view), cells);
    accused.sentence = format!(
        "{}: sender without entropy: {} send{} all streams of a pair from one source port ({} streams from {} port{}), so that no \
         switch can tell them apart{}",
        view.rail.rail,
        list(&hosts),
        if hosts.len() == 1 { "s" } else { "" },
        first.streams,
        first.ports,
        plural(first.ports as usize),
        words::cost(&all)
    );
    accused.evidence.push(format!(
        "{} of {} cells have fewer source ports than streams",
        view.rail.monotonous.len(),
        view.rail.cells.len()
    ));
    accused.hosts = hosts;
    accused.advice = words::advice(view, EcmpCause::NoEntropy, 0);
    Some(accused)
}

fn bad_link(view: &RailView<'_, '_>, link: LinkId, cause: EcmpCause) -> Accusation {
    let fault = words::of_bad_link(view, link);
    let of = view.graph.link(link);
    let mut cells = fault.cells;
    if cells.is_empty() {
        // Nothing is sent there: it concerns everybody whose flows could have been.
        let could = |flow: &&super::flows::Flow| {
            let mut choices = flow.choices.iter();
            choices.any(|choice| view.rail.choosers.all[choice.chooser].members().contains(&link))
        };
        cells = view
            .rail
            .flows
            .iter()
            .filter(could)
            .map(|flow| flow.cell)
            .collect();
    }
    let all = total(view, 0..view.rail.choosers.all.len());
    let mut accused = base(view.rail, cause, fault.measured, cells);
    accused.sentence = format!("{}: {}{}", view.rail.rail, fault.sentence, words::cost(&all));
    accused.link = Some(view.graph.name(link));
    accused.switches = vec![of.from.node.clone(), of.to.node.clone()];
    accused.or = fault.or;
    accused.evidence.push(format!("cable {}", of.cable));
    let dead = view.rail.flows.iter().filter(|flow| flow.dead).count();
    if cause == EcmpCause::DeadMember && dead > 0 {
        accused.evidence.push(format!(
            "{dead} of {} flows delivered nothing; those whose own way is whole lost their acknowledgements on the way back",
            view.rail.flows.len()
        ));
    }
    if let Some(slow) = view.slow.iter().find(|slow| slow.link == link) {
        accused.expected = Some(Rate(slow.should));
        accused.evidence.push(format!(
            "carried {} of what fair sharing gives it, in the middle of {} measurements",
            percent(slow.ratio),
            slow.short
        ));
    }
    accused.advice = words::advice(view, cause, 0);
    accused
}

fn at_switches(view: &RailView<'_, '_>, cause: EcmpCause) -> Option<Accusation> {
    let numbers: Vec<usize> = (0..view.causes.len())
        .filter(|number| view.causes[*number] == cause)
        // Dead links that flows show are accused one by one.
        .filter(|number| view.bad_members(*number).0.is_empty())
        .collect();
    let worst = numbers.iter().copied().min_by(|a, b| {
        let (a, b) = (words::deciding(view, *a), words::deciding(view, *b));
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
    let measured = words::deciding(view, worst);
    let all = match choosers[worst].tier {
        1 => total(view, numbers.iter().copied()),
        _ => total(view, 0..choosers.len()),
    };
    let paths = choosers[worst].sets.iter().map(Vec::len).max().unwrap_or(0);
    let what = match cause {
        EcmpCause::Polarised => {
            "polarised: the hash keeps flows together that it could tell apart by their ports".to_string()
        }
        EcmpCause::PolarisedSecondTier => {
            "polarised, second tier: these switches choose as the ones before them did, and leave part of their links unused"
                .to_string()
        }
        EcmpCause::UnequalWeights => {
            let of = |number: &usize| {
                let weights = super::spread::weights(&words::member_counts(view, *number));
                format!("{} about {weights}", choosers[*number].switch)
            };
            let each: Vec<String> = numbers.iter().map(of).collect();
            format!(
                "unequal weights ({}): all members are used, always some more than others",
                list(&each)
            )
        }
        EcmpCause::DeadMember => {
            let idle = numbers.iter().flat_map(|number| words::idle_members(view, *number));
            let idle: Vec<String> = idle.collect();
            format!("dead member: next to no bytes were counted at {}", list(&idle))
        }
        _ => "less even than chance, for a reason that does not show".to_string(),
    };
    let mut accused = base(view.rail, cause, measured, cells);
    accused.sentence = format!(
        "{}: {} of {paths} paths: {what}; {} {:.1} where chance makes {:.1} ({}){}",
        view.rail.rail,
        list(&switches),
        measured.name,
        measured.value,
        measured.null_median,
        p_value(measured.p_value),
        words::cost(&all)
    );
    accused.evidence.extend(counters_say(view, &numbers));
    let of_tier = choosers
        .iter()
        .filter(|chooser| chooser.tier == choosers[worst].tier);
    accused.evidence.push(format!(
        "{} of {} switches that had choice number {} on {} show it",
        numbers.len(),
        of_tier.count(),
        choosers[worst].tier,
        view.rail.rail
    ));
    accused.switches = switches;
    accused.advice = words::advice(view, cause, paths as u32);
    Some(accused)
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

fn unexplained_dead(view: &RailView<'_, '_>) -> Option<Accusation> {
    let count = view.unexplained_dead;
    if count == 0 {
        return None;
    }
    let cells = view
        .rail
        .flows
        .iter()
        .filter(|flow| flow.dead)
        .map(|flow| flow.cell)
        .collect();
    let measured = Measured {
        name: "flows that delivered nothing",
        value: count as f64,
        null_median: 0.0,
        p_value: 0.0,
    };
    let mut accused = base(view.rail, EcmpCause::Unexplained, measured, cells);
    accused.sentence = format!(
        "{}: {count} of {} flows delivered nothing, and every link was crossed by others that did",
        view.rail.rail,
        view.rail.flows.len()
    );
    accused.advice = words::advice(view, EcmpCause::Unexplained, 0);
    Some(accused)
}

/// What is wrong with a rail whose ways are not known.
pub(super) fn of_blind(rail: &RailFlows<'_>, verdict: &EcmpVerdict) -> Option<Accusation> {
    if !verdict.cause.is_fault() {
        return None;
    }
    let measured = Measured {
        name: "goodput or flows, without their ways",
        value: verdict.value,
        null_median: verdict.null_median,
        p_value: verdict.p_value,
    };
    let mut accused = base(rail, verdict.cause, measured, verdict.cells.clone());
    accused.sentence.clone_from(&verdict.sentence);
    accused.advice.clone_from(&verdict.advice);
    if verdict.cause == EcmpCause::NoEntropy {
        let hosts: BTreeSet<String> = rail.monotonous.iter().map(|cell| cell.host.clone()).collect();
        accused.hosts = hosts.into_iter().collect();
    }
    Some(accused)
}
