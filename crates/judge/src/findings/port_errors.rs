//! A port whose error counters move more than those of a healthy port, whether anything is slow there or not.

use super::analysis::RunAnalysis;
use super::counters::breach::{Breach, breaches, level};
use super::counters::tally::EndCounters;
use super::detector::Detector;
use super::repeat;
use record::text;
use record::{Finding, FindingKind, LinkName, Place, PortName, Question};
use topology::suite::counters::Severity;

/// Rules a sentence spells out; the others are counted.
const MOST_SPELLED: usize = 3;

/// One finding per end of a rail that breaks a rule.
pub(super) struct PortErrors;

impl Detector for PortErrors {
    fn question(&self) -> &'static str {
        "Does a port have errors, whether or not anything is slow?"
    }

    fn find(&self, analysis: &RunAnalysis<'_>) -> Vec<Finding> {
        let ends = analysis.ends();
        let level = level(analysis.run().rule.budget_of(Question::Counters), ends);
        ends.iter()
            .filter_map(|((rail, host), end)| {
                let mut broken = breaches(end, &analysis.counter_rules, level);
                broken.retain(|breach| breach.rule.severity == Severity::Bad);
                one_port(analysis, rail, host, end, &broken)
            })
            .collect()
    }
}

fn one_port(
    analysis: &RunAnalysis<'_>,
    rail: &str,
    host: &str,
    end: &EndCounters<'_>,
    broken: &[Breach<'_>],
) -> Option<Finding> {
    let first = broken.first()?;
    let mut cells: Vec<u32> = broken
        .iter()
        .flat_map(|breach| breach.moved.cells.iter().copied())
        .collect();
    cells.sort_unstable();
    cells.dedup();
    let mut said: Vec<String> = broken.iter().take(MOST_SPELLED).map(Breach::words).collect();
    let more = broken.len() - said.len();
    if more > 0 {
        said.push(format!("{more} more counter{} beyond bounds", text::plural(more)));
    }
    let mut actions: Vec<&str> = Vec::new();
    for breach in broken {
        if !actions.contains(&breach.rule.action.as_str()) {
            actions.push(&breach.rule.action);
        }
    }
    let watched = match end.watched.0 {
        0 => String::new(),
        _ => format!(" in {} of measuring", end.watched),
    };
    let rules = broken.iter().map(|breach| {
        let rule = breach.rule;
        format!("{} ({}): {}", rule.name, rule.bound, rule.source)
    });
    let mut rules: Vec<String> = rules.collect();
    rules.dedup();
    let port = PortName {
        node: host,
        port: rail,
    };
    let place = Place {
        hosts: vec![host.to_string()],
        ranks: end.ranks.iter().copied().collect(),
        rail: Some(rail.to_string()),
        ..Place::default()
    };
    Some(
        Finding::new(FindingKind::PortErrors, place)
            .with_sentence(format!(
                "{rail} at {host}: {}{watched}; {}",
                text::list(&said),
                first.rule.means
            ))
            .with_rule(format!("port errors: {}", rules.join("; ")))
            .ambiguous_with(vec!["the port at the other end of that cable".to_string()])
            .with_evidence(
                broken
                    .iter()
                    .map(|breach| format!("{}: {}", breach.words(), breach.rule.means))
                    .collect(),
            )
            .with_cells(cells)
            .with_next_step(format!("{} ({port}); then repeat", actions.join("; ")))
            .with_repeat(repeat::command(analysis.run(), &[("rail", rail)])),
    )
}

/// A port that another finding is about gets no finding of its own: its counters become evidence there.
pub(super) fn join(findings: &mut Vec<Finding>) {
    let mut joined = Vec::new();
    for place in (0..findings.len()).rev() {
        if findings[place].kind == FindingKind::PortErrors
            && findings.iter().any(|other| is_about(other, &findings[place]))
        {
            joined.push(findings.remove(place));
        }
    }
    for port in joined.iter().rev() {
        for other in findings.iter_mut().filter(|other| is_about(other, port)) {
            let line = format!("the port has errors: {}", port.sentence);
            other.evidence.push(line);
        }
    }
}

/// Whether a finding of another kind is about the same port.
fn is_about(other: &Finding, port: &Finding) -> bool {
    let accuses = matches!(
        other.kind,
        FindingKind::SlowLink
            | FindingKind::LossyLink
            | FindingKind::SlowHop
            | FindingKind::SlowRail
            | FindingKind::SlowPair
            | FindingKind::Flap
            | FindingKind::SilentRail
    );
    let Some(host) = port.place.hosts.first() else {
        return false;
    };
    // A cable between switches may be accused with a host's cable as second suspect.
    let mut suspects = other.suspects.iter();
    let is_suspect = suspects.any(|suspect| match LinkName::parse(&suspect.part) {
        Some(link) => link.touches(host),
        None => PortName::node_of(&suspect.part) == host,
    });
    let is_there = other.place.hosts.contains(host) || is_suspect;
    accuses && is_there && (other.place.rail.is_none() || other.place.rail == port.place.rail)
}
