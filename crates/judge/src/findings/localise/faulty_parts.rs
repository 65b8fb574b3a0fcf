//! The parts that are accused: causes that are the same part become one.
//!
//! Both directions of a cable are one cable. All measured cables of a switch, three or more, are the switch. All
//! rails of a host, two or more, in the same direction, are the host.

use std::collections::BTreeMap;

use super::{Cause, Element, Localisation};
use record::text;
use record::{BOTH_DIRECTIONS, Cell, LinkState, Run, Suspect, SuspectKind};
use topology::graph::{LinkId, Tier};

/// From this many slow cables on, with no healthy one beside them, it is the switch.
const CABLES_OF_A_SWITCH: usize = 3;

/// One part that is accused.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::findings) struct FaultyPart {
    /// Numbers of the causes that it combines.
    pub(in crate::findings) causes: Vec<usize>,
    /// The suspects, the likeliest first.
    pub(in crate::findings) suspects: Vec<Suspect>,
    /// The link it is, when it is one; one direction of it when both are slow.
    pub(in crate::findings) link: Option<LinkId>,
    /// The switch it is, when it is one.
    pub(in crate::findings) switch: Option<String>,
}

/// What explains a slow cell.
pub(in crate::findings) enum ExplainedBy {
    /// It is one of the flows the part was found by.
    OwnFlow,
    /// It uses the part of this cause.
    Cause(usize),
    /// No part explains it.
    Nothing,
}

impl Localisation {
    /// Whether a confirmed part explains a slow cell: as one of its flows, or because the cell's ranks send over it.
    pub(in crate::findings) fn explains(&self, run: &Run, cell: &Cell, place: usize) -> ExplainedBy {
        let confirmed = || {
            self.causes
                .iter()
                .enumerate()
                .filter(|(_, cause)| cause.confirmed)
        };
        if confirmed().any(|(_, cause)| cause.places.contains(&place)) {
            return ExplainedBy::OwnFlow;
        }
        // Two ranks use a known path; larger groups use all cables of their ranks.
        if cell.ranks.len() <= 2 {
            return ExplainedBy::Nothing;
        }
        let hosts: Vec<&str> = cell
            .ranks
            .iter()
            .filter_map(|rank| run.ranks.iter().find(|record| record.rank == *rank))
            .map(|record| record.host.as_str())
            .collect();
        let uses = |cause: &Cause| match cause.suspects.first() {
            Some((Element::Link(link), _)) => {
                let link = self.graph.link(*link);
                let host = if link.is_upward {
                    &link.from.node
                } else {
                    &link.to.node
                };
                let on_rail = link.rail.as_ref().is_none_or(|rail| cell.rails.contains(rail));
                on_rail && (!link.is_host || hosts.contains(&host.as_str()))
            }
            Some((Element::Out(rank) | Element::In(rank), _)) => cell.ranks.contains(rank),
            None => false,
        };
        let guilty = confirmed().find(|(_, cause)| uses(cause));
        guilty.map_or(ExplainedBy::Nothing, |(number, _)| ExplainedBy::Cause(number))
    }

    /// All accused parts, the one that explains most first.
    pub(in crate::findings) fn faulty_parts(&self, run: &Run) -> Vec<FaultyPart> {
        let mut left: Vec<usize> = (0..self.causes.len())
            .filter(|cause| self.causes[*cause].confirmed)
            .collect();
        let mut faulty = self.switches(&mut left);
        faulty.extend(self.hosts(&mut left, run));
        while let Some(first) = left.first().copied() {
            let reverse = self.first_link(first).map(LinkId::reverse);
            let (same, rest): (Vec<usize>, Vec<usize>) = left.iter().partition(|cause| {
                **cause == first || reverse.is_some() && self.first_link(**cause) == reverse
            });
            left = rest;
            faulty.push(self.one(same, run));
        }
        faulty.sort_by_key(|fault| fault.causes.iter().min().copied());
        faulty
    }

    /// The likeliest suspect of a cause, when it is a link.
    fn first_link(&self, cause: usize) -> Option<LinkId> {
        self.causes[cause].suspects.first()?.0.link()
    }

    fn one(&self, causes: Vec<usize>, run: &Run) -> FaultyPart {
        let both = causes.len() > 1;
        let cause = &self.causes[causes[0]];
        let mut suspects: Vec<Suspect> = cause
            .suspects
            .iter()
            .filter(|(element, _)| !both || element.link() != self.first_link(causes[0]).map(LinkId::reverse))
            .map(|(element, share)| self.suspect(*element, *share, cause, run))
            .collect();
        if let Some(first) = suspects.first_mut().filter(|_| both) {
            first.direction = Some(BOTH_DIRECTIONS.to_string());
        }
        FaultyPart {
            link: self.first_link(causes[0]),
            switch: None,
            causes,
            suspects,
        }
    }

    fn suspect(&self, element: Element, confidence: f64, cause: &Cause, run: &Run) -> Suspect {
        let why = format!(
            "crossed by {} slow flow{} with {} different partner{}",
            cause.places.len(),
            text::plural(cause.places.len()),
            cause.partners,
            text::plural(cause.partners)
        );
        match element {
            Element::Link(id) => {
                let link = self.graph.link(id);
                Suspect {
                    part: self.graph.name(id),
                    kind: if link.is_host {
                        SuspectKind::HostCable
                    } else {
                        SuspectKind::FabricCable
                    },
                    cable: Some(link.cable.clone()),
                    direction: Some(direction(link.is_upward).to_string()),
                    confidence,
                    why,
                }
            }
            Element::Out(rank) | Element::In(rank) => {
                let host = run.ranks.iter().find(|record| record.rank == rank);
                let host = host.map_or_else(|| format!("rank {rank}"), |record| record.host.clone());
                let shares = run.ranks.iter().filter(|record| record.host == host).count() > 1;
                let sends = matches!(element, Element::Out(_));
                Suspect {
                    part: if shares { run.rank_name(rank) } else { host },
                    kind: if shares {
                        SuspectKind::Gpu
                    } else {
                        SuspectKind::Node
                    },
                    cable: None,
                    direction: Some(
                        if sends {
                            "what it sends"
                        } else {
                            "what it receives"
                        }
                        .to_string(),
                    ),
                    confidence,
                    why,
                }
            }
        }
    }

    /// Switches all of whose measured cables are slow, taken out of `left`.
    fn switches(&self, left: &mut Vec<usize>) -> Vec<FaultyPart> {
        let mut slow: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for cause in left.iter() {
            let Some(link) = self.first_link(*cause) else {
                continue;
            };
            let link = self.graph.link(link);
            for node in [&link.from.node, &link.to.node] {
                if self.graph.tier_of(node).is_some() {
                    slow.entry(node).or_default().push(*cause);
                }
            }
        }
        let mut faulty = Vec::new();
        for (switch, causes) in slow {
            let causes: Vec<usize> = causes.into_iter().filter(|cause| left.contains(cause)).collect();
            let has_healthy = self.graph.links().any(|(id, link)| {
                let is_of = link.from.node == switch || link.to.node == switch;
                is_of && self.state(id) == LinkState::Healthy
            });
            if causes.len() < CABLES_OF_A_SWITCH || has_healthy {
                continue;
            }
            left.retain(|cause| !causes.contains(cause));
            let confidence = causes
                .iter()
                .filter_map(|cause| self.causes[*cause].suspects.first());
            let confidence = confidence.map(|(_, share)| *share).fold(1.0, f64::min);
            faulty.push(FaultyPart {
                suspects: vec![Suspect {
                    part: switch.to_string(),
                    kind: match self.graph.tier_of(switch) {
                        Some(Tier::Leaf) | None => SuspectKind::Leaf,
                        Some(Tier::Spine) => SuspectKind::Spine,
                        Some(Tier::Core) => SuspectKind::Core,
                    },
                    cable: None,
                    direction: None,
                    confidence,
                    why: format!("{} of its cables are slow and none is healthy", causes.len()),
                }],
                causes,
                link: None,
                switch: Some(switch.to_string()),
            });
        }
        faulty
    }

    /// Hosts whose cables are slow on every rail they were measured on, in the same direction, taken out of `left`.
    fn hosts(&self, left: &mut Vec<usize>, run: &Run) -> Vec<FaultyPart> {
        let mut slow: BTreeMap<(&str, bool), Vec<usize>> = BTreeMap::new();
        for cause in left.iter() {
            let Some(link) = self.first_link(*cause).map(|link| self.graph.link(link)) else {
                continue;
            };
            if link.is_host {
                let host = if link.is_upward {
                    &link.from.node
                } else {
                    &link.to.node
                };
                slow.entry((host, link.is_upward)).or_default().push(*cause);
            }
        }
        let mut faulty = Vec::new();
        for ((host, away), causes) in slow {
            let has_healthy = self.graph.links().any(|(id, link)| {
                let end = if link.is_upward {
                    &link.from.node
                } else {
                    &link.to.node
                };
                link.is_host && link.is_upward == away && end == host && self.state(id) == LinkState::Healthy
            });
            if causes.len() < 2 || has_healthy {
                continue;
            }
            left.retain(|cause| !causes.contains(cause));
            let Some(record) = run.ranks.iter().find(|record| record.host == host) else {
                continue;
            };
            let element = if away {
                Element::Out(record.rank)
            } else {
                Element::In(record.rank)
            };
            let shares = causes
                .iter()
                .filter_map(|cause| self.causes[*cause].suspects.first());
            let confidence = shares.map(|(_, share)| *share).fold(1.0, f64::min);
            let mut suspect = self.suspect(element, confidence, &self.causes[causes[0]], run);
            suspect.part = host.to_string();
            suspect.kind = SuspectKind::Node;
            suspect.why = format!("slow on all {} rails it was measured on", causes.len());
            faulty.push(FaultyPart {
                causes,
                suspects: vec![suspect],
                link: None,
                switch: None,
            });
        }
        faulty
    }
}

/// Which direction of a cable, in words.
pub(in crate::findings) fn direction(away: bool) -> &'static str {
    match away {
        true => "away from the host",
        false => "towards the host",
    }
}
