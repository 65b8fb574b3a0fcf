//! Findings about shapes: candidates of one kind on one part become one finding, described by the most significant of
//! them.

use std::collections::{BTreeMap, BTreeSet};

use super::candidate::Candidate;
use crate::findings::analysis::RunAnalysis;
use crate::findings::detector::Detector;
use crate::findings::{counters, repeat};
use record::text;
use record::{Confirmation, CurvePoint, Finding, FindingKind, Place, Question};

/// One finding per kind of shape and part that shows it.
pub(in crate::findings) struct ShapeFault;

type ConfirmedShape = (Candidate, Vec<CurvePoint>);

impl Detector for ShapeFault {
    fn question(&self) -> &'static str {
        "Is the rate over message sizes, or the time over iterations, shaped as it should be?"
    }

    fn find(&self, analysis: &RunAnalysis<'_>) -> Vec<Finding> {
        let groups = groups(&analysis.shapes.confirmed);
        groups.iter().filter_map(|group| one(analysis, group)).collect()
    }
}

/// Candidates that one part explains: of one kind, on one rail, by the same ranks; or by pairs that share one rank.
fn groups(confirmed: &[ConfirmedShape]) -> Vec<Vec<&ConfirmedShape>> {
    let mut by_rail: BTreeMap<(FindingKind, &[String]), Vec<&ConfirmedShape>> = BTreeMap::new();
    for one in confirmed {
        by_rail.entry((one.0.kind, &one.0.rails)).or_default().push(one);
    }
    let mut groups = Vec::new();
    for on_rail in by_rail.into_values() {
        if shared_rank(&on_rail).is_some() {
            groups.push(on_rail);
            continue;
        }
        let mut by_ranks: BTreeMap<&[u32], Vec<&ConfirmedShape>> = BTreeMap::new();
        for one in on_rail {
            by_ranks.entry(&one.0.ranks).or_default().push(one);
        }
        groups.extend(by_ranks.into_values());
    }
    groups
}

/// The one rank that several pairs share.
fn shared_rank(group: &[&ConfirmedShape]) -> Option<u32> {
    let pairs: BTreeSet<BTreeSet<u32>> = group
        .iter()
        .map(|(candidate, _)| candidate.ranks.iter().copied().collect())
        .collect();
    if pairs.len() < 2 || pairs.iter().any(|pair| pair.len() > 2) {
        return None;
    }
    let mut pairs = pairs.into_iter();
    let first = pairs.next()?;
    let shared = pairs.fold(first, |shared, pair| &shared & &pair);
    (shared.len() == 1).then(|| shared.first().copied()).flatten()
}

fn one(analysis: &RunAnalysis<'_>, group: &[&ConfirmedShape]) -> Option<Finding> {
    let clearest = group.iter().min_by(|a, b| a.0.p_value.total_cmp(&b.0.p_value))?;
    let (candidate, curve) = (&clearest.0, &clearest.1);
    let kind = candidate.kind;
    let run = analysis.run();
    let shared = shared_rank(group);
    let ranks = shared.map_or_else(|| candidate.ranks.clone(), |rank| vec![rank]);
    let rail = match candidate.rails.as_slice() {
        [rail] => Some(rail.as_str()),
        _ => None,
    };
    let places: BTreeSet<usize> = group
        .iter()
        .flat_map(|(one, _)| one.places.iter().copied())
        .collect();
    let places: Vec<usize> = places.into_iter().collect();
    let cells = analysis.ids(&places);
    let who = match ranks.as_slice() {
        [one] => run.rank_name(*one),
        [from, to] => format!("{} -> {}", run.rank_name(*from), run.rank_name(*to)),
        many => text::ranks(many),
    };
    let part = match rail {
        Some(rail) if ranks.len() > 2 => rail.to_string(),
        Some(rail) => format!("{rail}, {who}"),
        None => who.clone(),
    };
    let mut evidence: Vec<String> = group
        .iter()
        .filter(|(other, _)| other != candidate)
        .map(|(other, _)| format!("{}: {}", text::ranks(&other.ranks), other.sentence))
        .collect();
    let counters = rail.map_or_else(Vec::new, |rail| counters::evidence(analysis, rail, &cells));
    let mut sentence = format!("{part}: {}", candidate.sentence);
    for counter in &counters {
        sentence = format!("{sentence}; {counter}");
    }
    evidence.extend(counters);
    let test = analysis.summaries[*places.first()?].cell.test.as_str();
    let mut terms = vec![("test", test)];
    terms.extend(rail.map(|rail| ("rail", rail)));
    let expected = curve.iter().find(|point| point.cell == cells[0]);
    let place = Place {
        hosts: analysis.hosts(&ranks),
        ranks,
        rail: rail.map(str::to_string),
        ..Place::default()
    };
    Some(
        Finding::new(kind, place)
            .with_sentence(sentence)
            .with_rate(expected.map(|point| point.rate), None)
            .with_rule(format!(
                "{}; in each of {} rounds (at least {}), and the corrected p-value is below {}",
                candidate.rule,
                candidate.rounds_shown.rounds,
                u32::from(run.rule.remeasure) + 1,
                run.rule.budget_of(Question::Shapes)
            ))
            .with_confirmation(Confirmation {
                rounds: candidate.rounds_shown.shown,
                p_value: candidate.p_value,
                comparisons: analysis.shapes.comparisons,
            })
            .ambiguous_with(ambiguous_with(kind, rail))
            .with_evidence(evidence)
            .with_cells(cells)
            .with_next_step(next_step(kind, &part))
            .with_repeat(repeat::command(run, &terms))
            .with_curve(curve.clone()),
    )
}

fn ambiguous_with(kind: FindingKind, rail: Option<&str>) -> Vec<String> {
    let hosts = "settings of the hosts at its ends";
    match (kind, rail) {
        (FindingKind::Intermittent, Some(rail)) => vec![
            format!("any cable, NIC or switch port of {rail} on that path"),
            hosts.to_string(),
        ],
        (FindingKind::Dip, _) => vec![
            hosts.to_string(),
            "a change of protocol or of buffering at that size".to_string(),
        ],
        _ => vec![hosts.to_string(), "a longer path through the fabric".to_string()],
    }
}

/// What to look at, by kind of shape.
fn next_step(kind: FindingKind, part: &str) -> String {
    let look = match kind {
        FindingKind::Dip => {
            "compare MTU, flow control and buffer settings with a healthy peer, and \
             pause and drop counters at that size"
        }
        FindingKind::LatencyFloor => {
            "compare power management, interrupt placement, NUMA node, PCIe \
             settings and the number of hops with a healthy peer"
        }
        FindingKind::SlowRamp => {
            "compare queue depth, segment size, MTU and interrupt moderation with a healthy peer"
        }
        _ => {
            "look at error, drop and retransmission counters and the kernel log of \
             its ends; reseat and clean cable and transceiver"
        }
    };
    format!("{part}: {look}; then repeat")
}
