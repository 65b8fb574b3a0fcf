//! What is still ambiguous after a measurement: causes that are not confirmed, or have several suspects.

use crate::adaptive::Ambiguity;
use judge::findings::{Element, Localisation};
use record::{Recorded, Run};
use topology::graph::Graph;

/// A suspect with less than this share of the belief of the first is not worth a measurement.
const WORTHWHILE: f64 = 0.1;

/// The open questions of a run.
pub(super) fn of(seen: &Localisation, recorded: &Recorded) -> Vec<Ambiguity> {
    let rule = &recorded.run.rule;
    let mut ambiguities = Vec::new();
    for cause in &seen.causes {
        let Some((_, most)) = cause.suspects.first() else {
            continue;
        };
        let worthwhile: Vec<Element> = cause
            .suspects
            .iter()
            .filter(|(_, share)| *share >= most * WORTHWHILE)
            .map(|(element, _)| *element)
            .collect();
        if cause.confirmed && worthwhile.len() == 1 {
            continue;
        }
        let measured = cause.measurements.min(u32::from(rule.remeasure) + 1);
        let missing = u32::from(rule.remeasure) + 1 - measured;
        let first_place = cause.places.first().copied();
        let cell = first_place.and_then(|place| recorded.run.cells.get(place));
        let mut ambiguity = Ambiguity {
            rail: cell
                .and_then(|cell| cell.rails.first())
                .cloned()
                .unwrap_or_default(),
            wanted: match cause.confirmed {
                true => 0,
                false => missing.max(2) as usize,
            },
            ..Ambiguity::default()
        };
        for element in worthwhile {
            match element {
                Element::Link(link) => ambiguity.links.push(link),
                Element::Out(rank) => ambiguity.senders.push(rank),
                Element::In(rank) => ambiguity.receivers.push(rank),
            }
        }
        ambiguities.push(ambiguity);
    }
    ambiguities
}

/// The ambiguities in one line.
pub(super) fn in_words(ambiguities: &[Ambiguity], graph: &Graph) -> String {
    let one = |ambiguity: &Ambiguity| {
        let links = ambiguity.links.iter().map(|link| graph.name(*link));
        let senders = ambiguity
            .senders
            .iter()
            .map(|rank| format!("what rank {rank} sends"));
        let receivers = ambiguity
            .receivers
            .iter()
            .map(|rank| format!("what rank {rank} receives"));
        let parts: Vec<String> = links.chain(senders).chain(receivers).collect();
        match parts.as_slice() {
            [one] => format!("is it {one}?"),
            several => format!("which of {}?", several.join(", ")),
        }
    };
    match ambiguities.is_empty() {
        true => "was it slow by chance?".to_string(),
        false => ambiguities.iter().map(one).collect::<Vec<_>>().join(" "),
    }
}

/// A part as a person calls it.
pub fn name_of(element: Element, graph: &Graph, run: &Run) -> String {
    match element {
        Element::Link(link) => {
            let link = graph.link(link);
            format!("{}: {} -> {}", link.cable, link.from.node, link.to.node)
        }
        Element::Out(rank) => format!("what {} sends", run.rank_name(rank)),
        Element::In(rank) => format!("what {} receives", run.rank_name(rank)),
    }
}
