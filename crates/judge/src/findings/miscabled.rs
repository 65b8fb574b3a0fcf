//! Cables that are elsewhere than the topology file says, as traces showed before anything was measured.

use super::analysis::RunAnalysis;
use super::detector::Detector;
use record::text;
use record::{Finding, FindingKind, MiscabledRecord, Place};
use topology::Topology;

/// One finding per pair of swapped cables, and per cable that is elsewhere.
pub(super) struct Miscabled;

impl Detector for Miscabled {
    fn question(&self) -> &'static str {
        "Is every cable where the topology file says?"
    }

    fn find(&self, analysis: &RunAnalysis<'_>) -> Vec<Finding> {
        let recorded = analysis.recorded;
        let topology = recorded.topology.as_ref();
        let topology = topology.and_then(|text| Topology::parse(record::files::TOPOLOGY, text).ok());
        let wrong = recorded.run.miscabled.iter().filter(|cables| !cables.is_empty());
        wrong
            .map(|cables| one(cables, topology.as_ref(), analysis))
            .collect()
    }
}

fn one(cables: &[MiscabledRecord], topology: Option<&Topology>, analysis: &RunAnalysis<'_>) -> Finding {
    let names: Vec<String> = cables.iter().map(|wrong| wrong.cable.clone()).collect();
    let answers: u32 = cables.iter().map(|wrong| wrong.answers).sum();
    let seen = |wrong: &MiscabledRecord| {
        format!(
            "the port of {} is connected to {} and not to {}",
            wrong.cable, wrong.found, wrong.written
        )
    };
    let facts: Vec<String> = cables.iter().map(seen).collect();
    let (what, goes_on) = match cables {
        [_] => (
            format!("cable {} is elsewhere than the topology file says", names[0]),
            "",
        ),
        _ => (
            format!(
                "cables {} are swapped against the topology file",
                text::list(&names)
            ),
            "; this run used the true wiring",
        ),
    };
    let ranks = analysis.run().ranks.iter();
    let is_involved = |host: &str| {
        cables
            .iter()
            .any(|wrong| wrong.written == host || wrong.found == host)
    };
    let involved: Vec<_> = ranks.filter(|record| is_involved(&record.host)).collect();
    let mut hosts: Vec<String> = involved.iter().map(|record| record.host.clone()).collect();
    hosts.dedup();
    let place = Place {
        hosts,
        ranks: involved.iter().map(|record| record.rank).collect(),
        cables: names.clone(),
        ..Place::default()
    };
    // The recorded topology has the true wiring where it is known.
    let as_it_is = |name: &String| {
        let link = topology?.links.iter().find(|link| link.name == *name)?;
        let [lower, upper] = &link.ends;
        Some(format!(
            "{name}: ends = [\"{}/{}\", \"{}/{}\"]",
            lower.node, lower.interface, upper.node, upper.interface
        ))
    };
    let lines: Vec<String> = match cables.len() {
        1 => Vec::new(),
        _ => names.iter().filter_map(as_it_is).collect(),
    };
    let next_step = match lines.is_empty() {
        true => format!(
            "look where {} is plugged in; correct it or the topology file, then repeat",
            text::list(&names)
        ),
        false => format!(
            "swap the cables back, or correct the topology file ({}), then repeat",
            lines.join("; ")
        ),
    };
    let mut evidence = facts.clone();
    evidence.push(format!(
        "{answers} answers to traces say so, and none says otherwise"
    ));
    Finding::new(FindingKind::Miscabled, place)
        .with_sentence(format!("{what}: {}{goes_on}", facts.join(", ")))
        .with_rule(
            "miscabled: two answers to traces or more come from a port whose cable leads, by the file, neither to the node that the \
             packet came from nor back to the asker, and none that agrees with the file"
                .to_string(),
        )
        .ambiguous_with(vec!["wrong addresses of these ports in the topology file".to_string()])
        .with_evidence(evidence)
        .with_next_step(next_step)
}
