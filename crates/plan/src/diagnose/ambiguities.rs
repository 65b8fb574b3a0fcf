//! What is still ambiguous after a measurement: causes that are not confirmed, or have several suspects.

use std::collections::HashSet;

use crate::adaptive::Ambiguity;
use judge::findings::{Element, Localisation, LostPackets};
use record::{LinkState, Recorded, Run};
use topology::graph::{Graph, LinkId};

/// A suspect with less than this share of the belief of the first is not worth a measurement.
const WORTHWHILE: f64 = 0.1;

/// Measurements that are wanted of a cause whose flows only may have crossed it.
const FLOWS_OF_UNKNOWN_PATH: usize = 8;

/// Measurements that are wanted of a part that is slow now and then.
const FLOWS_OVER_INTERMITTENT: usize = 6;

/// Measurements that are wanted of a host's cable that only flows of unknown path have crossed.
const FLOWS_WITHIN_A_LEAF: usize = 3;

/// More links of a whole part are not asked about at once.
const LINKS_OF_A_WHOLE: usize = 64;

/// The open questions of a run; beside one that asks which of several parts is slow, and is not confirmed, that about the likeliest of them alone.
pub(super) fn of(seen: &Localisation, recorded: &Recorded) -> Vec<(Ambiguity, Option<Ambiguity>)> {
    let mut ambiguities: Vec<(Ambiguity, Option<Ambiguity>)> = Vec::new();
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
        let rests_on_draws = seen.rests_on_draws(cause);
        let is_clear = worthwhile.len() == 1 || are_alike(&worthwhile, seen);
        if cause.confirmed && is_clear && !rests_on_draws {
            continue;
        }
        let first_place = cause.places.first().copied();
        let cell = first_place.and_then(|place| recorded.run.cells.get(place));
        let mut ambiguity = Ambiguity {
            rail: cell
                .and_then(|cell| cell.rails.first())
                .cloned()
                .unwrap_or_default(),
            wanted: match cause.confirmed {
                // Flows to another host of the same leaf are preferred: their path is known.
                true if rests_on_draws => FLOWS_WITHIN_A_LEAF,
                true => 0,
                false if cause.intermittent.is_some() => FLOWS_OVER_INTERMITTENT,
                // Few flows of unknown path cross the suspect.
                false if !cause.is_crossing_certain => FLOWS_OF_UNKNOWN_PATH,
                false => cause.missing.max(2) as usize,
            },
            by_draws: !cause.confirmed && !cause.is_crossing_certain,
            ..Ambiguity::default()
        };
        let wholes: Vec<&[LinkId]> = worthwhile
            .iter()
            .filter_map(|element| match element {
                Element::Whole(whole) => Some(seen.whole(*whole).0),
                Element::Link(_) | Element::Out(_) | Element::In(_) => None,
            })
            .collect();
        let is_of_all = |link: &LinkId| wholes.iter().all(|whole| whole.contains(link));
        for element in &worthwhile {
            match *element {
                Element::Link(link) => ambiguity.links.push(link),
                Element::Out(rank) => ambiguity.senders.push(rank),
                Element::In(rank) => ambiguity.receivers.push(rank),
                // Flows over its other links tell it from one of them, and those over links that only some have tell them apart.
                Element::Whole(whole) => {
                    let (links, _) = seen.whole(whole);
                    let mut open: Vec<LinkId> = links.to_vec();
                    open.retain(|link| seen.state(*link) != LinkState::Healthy);
                    open.sort_by_key(is_of_all);
                    ambiguity.links.extend(open.into_iter().take(LINKS_OF_A_WHOLE));
                }
            }
        }
        let mut known = HashSet::new();
        ambiguity.links.retain(|link| known.insert(*link));
        if wholes.len() > 1 {
            ambiguity.links.sort_by_key(is_of_all);
        }
        let is_open = !cause.confirmed && cause.intermittent.is_none() && cause.is_crossing_certain;
        let likeliest = worthwhile.first().filter(|_| is_open && worthwhile.len() > 1);
        let alone = likeliest.and_then(|part| only(*part, &ambiguity));
        ambiguities.push((ambiguity, alone));
    }
    for place in seen.slow_once() {
        let of_flow = of_flow(seen, recorded, place).filter(|new| !is_asked(&ambiguities, new));
        ambiguities.extend(of_flow.map(|new| (new, None)));
    }
    ambiguities
}

/// How many flows over parts that may lose packets are sent at a time.
const FLOWS_OVER_LOSSY: usize = 3;

/// The open questions about parts that lose packets.
pub(super) fn of_losses(lost: &LostPackets, recorded: &Recorded) -> Vec<Ambiguity> {
    let open = lost
        .causes
        .iter()
        .filter(|cause| cause.why_not.is_some() || !cause.is_clear);
    let questions = open.map(|cause| {
        let cell = cause
            .places
            .first()
            .and_then(|place| recorded.run.cells.get(*place));
        let mut ambiguity = Ambiguity {
            rail: cell
                .and_then(|cell| cell.rails.first())
                .cloned()
                .unwrap_or_default(),
            wanted: FLOWS_OVER_LOSSY,
            ..Ambiguity::default()
        };
        for (element, _) in &cause.suspects {
            match *element {
                Element::Link(link) => ambiguity.links.push(link),
                Element::Out(rank) => ambiguity.senders.push(rank),
                Element::In(rank) => ambiguity.receivers.push(rank),
                Element::Whole(_) => {}
            }
        }
        ambiguity
    });
    questions.filter(|ambiguity| ambiguity.parts() > 0).collect()
}

/// The question whether it is this one of its parts; none about a part of many cables.
fn only(part: Element, ambiguity: &Ambiguity) -> Option<Ambiguity> {
    let of_none = Ambiguity {
        rail: ambiguity.rail.clone(),
        wanted: ambiguity.wanted,
        ..Ambiguity::default()
    };
    Some(match part {
        Element::Link(link) => Ambiguity {
            links: vec![link],
            ..of_none
        },
        Element::Out(rank) => Ambiguity {
            senders: vec![rank],
            ..of_none
        },
        Element::In(rank) => Ambiguity {
            receivers: vec![rank],
            ..of_none
        },
        Element::Whole(_) => return None,
    })
}

/// Whether parts are the cables of one leaf to the switches above it in one direction, which flows of unknown path cross alike.
fn are_alike(parts: &[Element], seen: &Localisation) -> bool {
    let groups = parts.iter().map(|part| {
        let link = seen.graph.link(part.link()?);
        (!link.is_host).then(|| (link.lower_node(), link.is_upward))
    });
    let groups: Option<HashSet<_>> = groups.collect();
    groups.is_some_and(|groups| groups.len() == 1)
}

/// What slowed a flow of unknown path that was slow once: a disturbance, or a link that other flows miss mostly.
fn of_flow(seen: &Localisation, recorded: &Recorded, place: usize) -> Option<Ambiguity> {
    let links = seen.possible_links(place);
    let cell = recorded.run.cells.get(place)?;
    (!links.is_empty()).then(|| Ambiguity {
        rail: cell.rails.first().cloned().unwrap_or_default(),
        links,
        wanted: FLOWS_OF_UNKNOWN_PATH,
        ..Ambiguity::default()
    })
}

/// Whether all links of a question are in another one.
fn is_asked(ambiguities: &[(Ambiguity, Option<Ambiguity>)], new: &Ambiguity) -> bool {
    let has_all = |other: &Ambiguity| new.links.iter().all(|link| other.links.contains(link));
    ambiguities.iter().any(|(other, _)| has_all(other))
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
pub fn name_of(element: Element, seen: &Localisation, run: &Run) -> String {
    match element {
        Element::Link(link) => {
            let link = seen.graph.link(link);
            format!("{}: {} -> {}", link.cable, link.from.node, link.to.node)
        }
        Element::Out(rank) => format!("what {} sends", run.rank_name(rank)),
        Element::In(rank) => format!("what {} receives", run.rank_name(rank)),
        Element::Whole(whole) => seen.whole(whole).1,
    }
}
