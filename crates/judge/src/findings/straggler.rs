//! A rank that keeps the others waiting: busy itself for longer than they are.

use super::analysis::RunAnalysis;
use super::detector::Detector;
use super::repeat;
use record::text;
use record::units::Nanos;
use record::{Confirmation, Finding, FindingKind, Place};

/// One finding per straggling rank.
pub(super) struct Straggler;

impl Detector for Straggler {
    fn question(&self) -> &'static str {
        "Does one rank keep the others waiting?"
    }

    fn find(&self, analysis: &RunAnalysis<'_>) -> Vec<Finding> {
        let rule = &analysis.run().rule;
        let mut findings = Vec::new();
        for straggler in &analysis.stragglers.confirmed {
            let name = analysis.run().rank_name(straggler.rank);
            let busy = &straggler.busy;
            let cell = analysis.summaries[straggler.worst].cell;
            let explained = analysis
                .blame
                .straggler
                .get(&straggler.rank)
                .map_or(&[][..], Vec::as_slice);
            let mut evidence = vec![format!("worst in: {}", cell.describe())];
            if !explained.is_empty() {
                evidence.push(format!(
                    "its extra work explains {} slow cell{}, which no rail or pair is blamed for",
                    explained.len(),
                    text::plural(explained.len())
                ));
            }
            let mut places: Vec<usize> = straggler.cells.iter().chain(explained).copied().collect();
            places.sort_unstable();
            places.dedup();
            let place = Place {
                hosts: analysis.hosts(&[straggler.rank]),
                ranks: vec![straggler.rank],
                ..Place::default()
            };
            findings.push(
                Finding::new(FindingKind::StragglerRank, place)
                    .with_sentence(format!(
                        "{name}: busy {} [{}, {}] per iteration while the others need {} (median), in {} \
                         of {} cells; the others wait for it",
                        Nanos(busy.own.median as u64),
                        Nanos(busy.own.lower),
                        Nanos(busy.own.upper),
                        Nanos(busy.others as u64),
                        straggler.cells.len(),
                        straggler.judged
                    ))
                    .with_rule(format!(
                        "straggler: the lower end of the {} interval of its busy time is above {} times \
                         the median of the other ranks, in every round of most cells where its work \
                         matters",
                        text::percent(rule.confidence),
                        rule.straggler_factor
                    ))
                    .with_confirmation(Confirmation {
                        rounds: analysis.summaries[straggler.worst].rounds.len() as u16,
                        p_value: straggler.p_value,
                        comparisons: straggler.comparisons,
                    })
                    .ambiguous_with(vec!["other load on the same cores or memory".into()])
                    .with_evidence(evidence)
                    .with_cells(analysis.ids(&places))
                    .with_next_step(format!(
                        "look at {name}: clock and thermal throttling, other processes, core and memory \
                         placement; then move its work to another slot and repeat"
                    ))
                    .with_repeat(repeat::command(
                        analysis.run(),
                        &[("rank", &straggler.rank.to_string())],
                    )),
            );
        }
        findings
    }
}
