//! Findings about patterns: below what the suite asks for, and below what paths explain.

use std::collections::BTreeMap;

use super::outcome::{MARGIN, MARGIN_SPRAYED};
use super::{ROUNDS, Traffic};
use crate::findings::analysis::RunAnalysis;
use crate::findings::detector::Detector;
use record::{Finding, FindingKind, Place, TrafficOutcome, TrafficRow};

/// Other patterns that are listed as evidence.
const MOST_LISTED: usize = 8;

/// One finding per test and rail below what the suite asks for, and one per cable that carries less than paths explain.
pub(in crate::findings) struct BadTraffic;

impl Detector for BadTraffic {
    fn question(&self) -> &'static str {
        "Does a pattern of traffic get less than the suite asks for, or than the paths of its flows explain?"
    }

    fn find(&self, analysis: &RunAnalysis<'_>) -> Vec<Finding> {
        let Traffic { rows, floors, .. } = &analysis.traffic;
        let mut below_floor: BTreeMap<(&str, &str), Vec<(&TrafficRow, u8)>> = BTreeMap::new();
        let mut unexplained: BTreeMap<(&str, &str, Option<&str>), Vec<&TrafficRow>> = BTreeMap::new();
        for (row, floor) in rows.iter().zip(floors) {
            match row.outcome {
                TrafficOutcome::BelowFloor => below_floor
                    .entry((&row.test, &row.rail))
                    .or_default()
                    .push((row, floor.unwrap_or(0))),
                TrafficOutcome::BelowPrediction => unexplained
                    .entry((&row.test, &row.rail, row.cable.as_deref()))
                    .or_default()
                    .push(row),
                _ => {}
            }
        }
        let below_floor = below_floor
            .into_values()
            .map(|rows| floor_finding(analysis, &rows));
        let unexplained = unexplained
            .into_values()
            .map(|rows| prediction_finding(analysis, &rows));
        below_floor.chain(unexplained).collect()
    }
}

fn place_of(analysis: &RunAnalysis<'_>, row: &TrafficRow) -> Place {
    let cells = row.cells.iter().filter_map(|id| analysis.cell(*id));
    let mut ranks: Vec<u32> = cells.flat_map(|cell| cell.ranks.iter().copied()).collect();
    ranks.sort_unstable();
    ranks.dedup();
    Place {
        hosts: analysis.hosts(&ranks),
        ranks,
        rail: Some(row.rail.clone()),
        link: row.cable.clone(),
        ..Place::default()
    }
}

/// What is the same for both: the worst of these patterns, the others as evidence.
fn about(analysis: &RunAnalysis<'_>, kind: FindingKind, worst: &TrafficRow, rows: &[&TrafficRow]) -> Finding {
    let mut evidence: Vec<String> = rows
        .iter()
        .filter(|row| row.pattern != worst.pattern)
        .take(MOST_LISTED)
        .map(|row| row.sentence.clone())
        .collect();
    if !worst.pairs.is_empty() {
        evidence.push(format!("`{}` sends by rank: {}", worst.pattern, worst.pairs));
    }
    Finding::new(kind, place_of(analysis, worst))
        .with_sentence(worst.sentence.clone())
        .with_evidence(evidence)
        .with_cells(rows.iter().flat_map(|row| row.cells.iter().copied()))
        .with_repeat(worst.repeat.clone())
}

fn floor_finding(analysis: &RunAnalysis<'_>, rows: &[(&TrafficRow, u8)]) -> Finding {
    let (worst, floor) = rows[0];
    let all: Vec<&TrafficRow> = rows.iter().map(|(row, _)| *row).collect();
    let mut finding = about(analysis, FindingKind::TrafficBelowFloor, worst, &all).with_rule(format!(
        "below the floor: flows that fill a link get less than {floor} % of what the topology should carry of them, in each of {ROUNDS} rounds or more"
    ));
    let is_of_paths = worst
        .predicted_share
        .is_some_and(|share| share * 100.0 < f64::from(floor));
    finding.next_step = match is_of_paths {
        true => "the hash puts these flows on one cable: other source ports, more flows (queue pairs) per pair, another hash or seed of the switches, or adaptive \
                 routing would spread them"
            .to_string(),
        false => "the paths of these flows would give them more: `railgauge diagnose` tells which part they share is slow".to_string(),
    };
    finding
}

fn prediction_finding(analysis: &RunAnalysis<'_>, rows: &[&TrafficRow]) -> Finding {
    let worst = rows[0];
    let mut finding = about(analysis, FindingKind::TrafficBelowPrediction, worst, rows).with_rule(format!(
        "below the prediction: flows that fill a link get less than {:.0} % ({:.0} % where packets are sprayed) of what they would, sharing links fairly over the paths that were \
         traced, in each of {ROUNDS} rounds or more",
        (1.0 - MARGIN) * 100.0,
        (1.0 - MARGIN_SPRAYED) * 100.0
    ));
    finding.not_told_apart_from = vec![
        "a cable, port or switch on their way that is slow or loses packets".to_string(),
        "their hosts, where these are busy".to_string(),
        "other traffic on the fabric".to_string(),
    ];
    finding.next_step =
        "`railgauge diagnose` with the same topology tells whether a cable that they share is slow"
            .to_string();
    finding
}
