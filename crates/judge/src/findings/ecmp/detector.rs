//! Findings about the spread of flows.

use super::faults::EcmpFault;
use crate::findings::analysis::RunAnalysis;
use crate::findings::detector::Detector;
use crate::findings::repeat;
use record::text::p_value;
use record::{Confirmation, Finding, FindingKind, Place, Question, Suspect, SuspectKind};

/// Looks for imbalance over equal paths.
pub(in crate::findings) struct EcmpImbalance;

impl Detector for EcmpImbalance {
    fn question(&self) -> &'static str {
        "Are flows spread over equal paths as a fair hash would, and does every path carry its share?"
    }

    fn find(&self, analysis: &RunAnalysis<'_>) -> Vec<Finding> {
        let faults = analysis.ecmp.faults.iter();
        faults.map(|fault| finding(analysis, fault)).collect()
    }
}

fn finding(analysis: &RunAnalysis<'_>, fault: &EcmpFault) -> Finding {
    let rule = &analysis.run().rule;
    let measured = &fault.measured;
    let mut evidence = vec![format!(
        "{}: {:.3}; median under a fair hash {:.3}; {}",
        measured.name,
        measured.value,
        measured.null_median,
        p_value(measured.p_value)
    )];
    evidence.extend(fault.evidence.iter().cloned());
    let comparisons = analysis.ecmp.levels.comparisons(fault.cause);
    let suspects = fault.link.iter().chain(&fault.or);
    let share = 1.0 / (1 + fault.or.len()) as f64;
    let suspects = suspects.map(|link| Suspect {
        part: link.clone(),
        kind: SuspectKind::FabricCable,
        cable: None,
        direction: None,
        confidence: share * 0.99,
        why: fault.cause.to_string(),
    });
    let place = Place {
        hosts: fault.hosts.clone(),
        rail: Some(fault.rail.clone()),
        link: fault.link.clone(),
        switch: fault.switches.first().cloned(),
        ..Place::default()
    };
    Finding::new(FindingKind::EcmpImbalance, place)
        .with_sentence(format!("{} ({})", fault.sentence, fault.cause))
        .with_rate(fault.carried, fault.expected)
        .with_rule(format!(
            "{}: beyond what a fair hash does by chance, in each of {} rounds, at one part in {comparisons} of a \
             false-positive budget of {}",
            fault.cause,
            fault.rounds,
            rule.budget_of(Question::Ecmp)
        ))
        .with_confirmation(Confirmation {
            rounds: fault.rounds,
            p_value: (measured.p_value * f64::from(comparisons)).min(1.0),
            comparisons,
        })
        .ambiguous_with(fault.or.clone())
        .with_evidence(evidence)
        .with_cells(fault.cells.clone())
        .with_next_step(fault.advice.clone())
        .with_repeat(repeat::command(
            analysis.run(),
            &[("test", &fault.test), ("rail", &fault.rail)],
        ))
        .with_suspects(suspects.collect())
}
