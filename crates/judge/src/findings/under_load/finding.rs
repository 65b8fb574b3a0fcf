//! What is said about faults under load.

use super::questions::{BY_CHANCE, LOST, PAUSED, SLOWER_BY_CHANCE, SUFFERS, UNMARKED_BY_CHANCE};
use super::spots::Spot;
use super::{Asked, Fault};
use crate::findings::analysis::RunAnalysis;
use crate::findings::detector::Detector;
use crate::findings::repeat;
use record::text;
use record::{Confirmation, Finding, FindingKind, Place, Question};

/// One finding per part and question.
pub(in crate::findings) struct CongestionFault;

impl Detector for CongestionFault {
    fn question(&self) -> &'static str {
        "Do loss prevention and congestion control work under load, and do rails stay apart?"
    }

    fn find(&self, analysis: &RunAnalysis<'_>) -> Vec<Finding> {
        let faults = analysis.under_load().faults.iter();
        faults.map(|fault| finding(analysis, fault)).collect()
    }
}

fn finding(analysis: &RunAnalysis<'_>, fault: &Fault) -> Finding {
    let run = analysis.run();
    let (place, part) = place_of(analysis, fault);
    let (kind, means, rule, next_step) = words(fault.asked);
    let test = fault.cells.first().and_then(|cell| analysis.cell(*cell));
    let mut terms = vec![("rail", fault.rail.as_str())];
    terms.extend(test.map(|cell| ("test", cell.test.as_str())));
    let comparisons = analysis.under_load().comparisons;
    let mut finding = Finding::new(kind, place)
        .with_sentence(format!("{part}: {}: {means}", fault.seen))
        .with_rule(format!(
            "{rule}, and the probability of that many such slots, corrected for {}, is below {}",
            text::counted(comparisons, "comparison"),
            run.rule.budget_of(Question::Congestion)
        ))
        .with_confirmation(Confirmation {
            rounds: u16::try_from(fault.bad).unwrap_or(u16::MAX),
            p_value: fault.p_value,
            comparisons: comparisons as u32,
        })
        .with_evidence(fault.evidence.clone())
        .with_cells(fault.cells.iter().copied())
        .with_next_step(next_step)
        .with_repeat(match fault.asked {
            // The load is on another rail.
            Asked::RailsApart => repeat::command(run, &[]),
            _ => repeat::command(run, &terms),
        });
    if let (Spot::Host(rank), Asked::Lossless | Asked::MarksFirst) = (&fault.spot, fault.asked) {
        let leaf = analysis.localisation.as_ref();
        let leaf = leaf.and_then(|known| known.graph.leaf_of(*rank, &fault.rail));
        let port = leaf.map_or_else(
            || "the port of its switch".to_string(),
            |leaf| format!("the port of {leaf}"),
        );
        finding.not_told_apart_from = vec![format!("{port} that leads there, and its NIC")];
    }
    finding
}

fn place_of(analysis: &RunAnalysis<'_>, fault: &Fault) -> (Place, String) {
    let rail = Some(fault.rail.clone());
    match &fault.spot {
        Spot::Rail => (
            Place {
                rail,
                ..Place::default()
            },
            fault.rail.clone(),
        ),
        Spot::Leaf(leaf, ranks) => (
            Place {
                rail,
                switch: Some(leaf.clone()),
                hosts: analysis.hosts(&ranks.iter().copied().collect::<Vec<u32>>()),
                ranks: ranks.iter().copied().collect(),
                ..Place::default()
            },
            leaf.clone(),
        ),
        Spot::Host(rank) => {
            let host = analysis
                .host(*rank)
                .map_or_else(|| analysis.run().rank_name(*rank), str::to_string);
            let part = format!("{host} on {}", fault.rail);
            let place = Place {
                rail,
                hosts: vec![host],
                ranks: vec![*rank],
                ..Place::default()
            };
            (place, part)
        }
    }
}

/// The kind, what it means, the rule, and what to do.
fn words(asked: Asked) -> (FindingKind, &'static str, String, &'static str) {
    match asked {
        Asked::Lossless => (
            FindingKind::LossyClass,
            "the class is not lossless there",
            format!(
                "in half of the slots under load or more one in {:.0} packets or more is lost without a wrong bit, where losses are to be prevented, and not without load; \
                 by chance, in {} of slots or as often as without load",
                1.0 / LOST,
                text::percent(BY_CHANCE)
            ),
            "compare that port of the switch with others: is PFC on for the priority of the traffic (DSCP to priority map, PFC class), and its headroom as long as the cable \
             needs? On the hosts: the trust mode and the traffic class of the NIC",
        ),
        Asked::MarksFirst => (
            FindingKind::LateMarks,
            "pauses come before marks",
            format!(
                "in half of the slots under load or more in which a sender is paused for {} of the time or more, hardly a packet is marked; by chance, in {} of them",
                text::percent(PAUSED),
                text::percent(UNMARKED_BY_CHANCE)
            ),
            "compare the marking thresholds of its switches with those at which they pause (marks shall come first); ECN must be on for that traffic class in switches \
             and NICs. Where a fabric is meant to do without marks, say so in the suite: `[rule] marks = \"none\"`",
        ),
        Asked::Pauses => (
            FindingKind::SpreadingPauses,
            "it does not take packets as fast as they come",
            format!(
                "a receiver pauses others for {} of the time or more in half of the slots or more in which it receives; by chance, in {} of them or as often as other receivers",
                text::percent(PAUSED),
                text::percent(BY_CHANCE)
            ),
            "look at that host: width and speed of the NIC's PCI slot, memory placement (NUMA, IOMMU), other load; then a pause watchdog on its switch port",
        ),
        Asked::RailsApart => (
            FindingKind::MeetingRails,
            "rails share switches, buffers or a class that pauses both",
            format!(
                "flows of hosts that take no part in the load take {SUFFERS} times as long or more (median); by chance, {} of them do",
                text::percent(SLOWER_BY_CHANCE)
            ),
            "follow the cables of both rails: which switch do they share? Where they share one by design, give them classes of their own or more buffer",
        ),
    }
}
