//! A rail below its reference, while others are not; or all of them below an absolute figure.

use std::collections::BTreeSet;

use super::analysis::RunAnalysis;
use super::counters;
use super::detector::Detector;
use super::slow_cells::slow_places;
use record::text;
use record::{Finding, FindingKind};

/// One finding per slow rail, or one for all.
pub(super) struct SlowRail;

impl Detector for SlowRail {
    fn question(&self) -> &'static str {
        "Is a rail slower than it should be?"
    }

    fn find(&self, analysis: &RunAnalysis<'_>) -> Vec<Finding> {
        let mut findings: Vec<Finding> = analysis
            .blame
            .rail
            .iter()
            .filter_map(|(rail, places)| one_rail(analysis, rail, places))
            .collect();
        findings.extend(all_rails(analysis, &analysis.blame.all_rails));
        findings
    }
}

fn one_rail(analysis: &RunAnalysis<'_>, rail: &str, places: &[usize]) -> Option<Finding> {
    let others: Vec<String> = judged_rails(analysis)
        .into_iter()
        .filter(|other| *other != rail && !analysis.blame.rail.contains_key(*other))
        .map(str::to_string)
        .collect();
    let mut finding = slow_places(analysis, FindingKind::SlowRail, places, Some(rail))?;
    let normal = match others.is_empty() {
        true => "no other rail to compare with".to_string(),
        false => format!("{} normal", text::list(&others)),
    };
    let diagnosis = counters::diagnosis::of(analysis, rail, &finding.cells, &|_| true);
    let moved = diagnosis.facts.join("; ");
    finding.sentence = format!("{rail}: {}; {normal}; {moved}", finding.sentence);
    finding.evidence.push(normal);
    if others.is_empty() {
        finding
            .not_told_apart_from
            .push("a limit of the hosts themselves (CPU, PCIe, memory)".into());
    }
    finding
        .not_told_apart_from
        .push(format!("any one cable, NIC or switch port of {rail}"));
    finding.next_step = format!(
        "compare link speed, width and error counters of {rail} on {}; reseat \
         or replace its cable or move it to another switch port, then repeat",
        text::list(&finding.place.hosts)
    );
    diagnosis.add_to(&mut finding);
    Some(finding)
}

fn all_rails(analysis: &RunAnalysis<'_>, places: &[usize]) -> Option<Finding> {
    let mut finding = slow_places(analysis, FindingKind::SlowRail, places, None)?;
    let rails: Vec<String> = judged_rails(analysis).into_iter().map(str::to_string).collect();
    finding.sentence = match rails.as_slice() {
        [_] => format!("the whole fabric: {}; no cable is normal", finding.sentence),
        _ => format!(
            "all {} rails: {}; no rail is normal",
            rails.len(),
            finding.sentence
        ),
    };
    finding.evidence.push(format!("slow: {}", text::list(&rails)));
    for rail in &rails {
        finding
            .evidence
            .extend(counters::evidence(analysis, rail, &finding.cells));
    }
    finding
        .not_told_apart_from
        .push("a limit of the hosts themselves (CPU, PCIe, memory)".into());
    finding
        .not_told_apart_from
        .push("a spec that does not describe this fabric".into());
    finding.next_step = "check that the spec fits this fabric, then what all rails share: host \
                         configuration, PCIe, MTU, and the switches"
        .into();
    Some(finding)
}

/// Rails that single-rail cells were judged on, in order.
fn judged_rails<'a>(analysis: &RunAnalysis<'a>) -> BTreeSet<&'a str> {
    let judged = analysis
        .summaries
        .iter()
        .zip(&analysis.speeds)
        .filter(|(_, speed)| speed.comparison().is_some());
    judged
        .filter_map(|(summary, _)| match summary.cell.rails.as_slice() {
            [rail] => Some(rail.as_str()),
            _ => None,
        })
        .collect()
}
