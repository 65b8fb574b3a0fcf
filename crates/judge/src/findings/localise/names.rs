//! What parts are called when they are accused, and which directed links they are.

use record::{BOTH_DIRECTIONS, Run, Suspect, SuspectKind};
use topology::graph::{Graph, LinkId, Tier};

use super::element::{Element, Elements, WholeKind};

/// From this share of the likeliest suspect's confidence on, another one cannot be told from it.
pub(in crate::findings) const ALIKE: f64 = 0.5;

impl Elements {
    /// The directed links that are the part.
    pub(in crate::findings) fn links_of(&self, graph: &Graph, element: Element, run: &Run) -> Vec<LinkId> {
        let of_rank = |rank: u32, sends: bool| {
            let record = run.ranks.iter().find(|record| record.rank == rank);
            let links = graph.links().filter(|(id, link)| {
                let up = if link.is_upward { *id } else { id.reverse() };
                let is_own = |rail: &str| graph.up(rank, rail) == Some(up);
                let is_at_host = record.is_some_and(|record| link.lower_node() == record.host);
                let is_of_rank = link.rail.as_deref().map_or(is_at_host, is_own);
                link.is_host && link.is_upward == sends && is_of_rank
            });
            links.map(|(id, _)| id).collect()
        };
        match element {
            Element::Link(link) => vec![link],
            Element::Out(rank) => of_rank(rank, true),
            Element::In(rank) => of_rank(rank, false),
            Element::Whole(number) => self
                .wholes()
                .get(number as usize)
                .map_or_else(Vec::new, |whole| whole.links.clone()),
        }
    }

    /// A part as it is accused.
    pub(in crate::findings) fn suspect(
        &self,
        graph: &Graph,
        element: Element,
        run: &Run,
        confidence: f64,
        why: String,
    ) -> Suspect {
        let suspect = |part: String, kind: SuspectKind, direction: Option<&str>| Suspect {
            part,
            kind,
            cable: None,
            direction: direction.map(str::to_string),
            confidence,
            why: why.clone(),
        };
        match element {
            Element::Link(id) => {
                let link = graph.link(id);
                Suspect {
                    cable: Some(link.cable.clone()),
                    ..suspect(
                        graph.name(id),
                        cable_kind(link.is_host),
                        Some(direction(link.is_upward)),
                    )
                }
            }
            Element::Out(rank) | Element::In(rank) => {
                let host = run.ranks.iter().find(|record| record.rank == rank);
                let host = host.map_or_else(|| format!("rank {rank}"), |record| record.host.clone());
                let shares = run.ranks.iter().filter(|record| record.host == host).count() > 1;
                let sends = matches!(element, Element::Out(_));
                let (part, kind) = match shares {
                    true => (run.rank_name(rank), SuspectKind::Gpu),
                    false => (host, SuspectKind::Node),
                };
                suspect(part, kind, Some(at_host(sends)))
            }
            Element::Whole(number) => {
                let whole = &self.wholes()[number as usize];
                let first = graph.link(whole.links[0]);
                match &whole.kind {
                    WholeKind::Cable(cable) => {
                        let up = whole.links.iter().find(|link| graph.link(**link).is_upward);
                        Suspect {
                            cable: Some(cable.clone()),
                            ..suspect(
                                graph.name(*up.unwrap_or(&whole.links[0])),
                                cable_kind(first.is_host),
                                Some(BOTH_DIRECTIONS),
                            )
                        }
                    }
                    WholeKind::BetweenSwitches(rail) => {
                        let kind = match rail {
                            Some(_) => SuspectKind::Rail,
                            None => SuspectKind::Fabric,
                        };
                        suspect(whole.kind.to_string(), kind, None)
                    }
                    WholeKind::Switch(switch) => suspect(switch.clone(), switch_kind(graph, switch), None),
                    WholeKind::Uplinks { switch, sends } => {
                        let words = match sends {
                            true => "what it sends to the switches above it",
                            false => "what it receives from the switches above it",
                        };
                        suspect(switch.clone(), switch_kind(graph, switch), Some(words))
                    }
                    WholeKind::HostPorts { switch, sends } => {
                        let words = match sends {
                            true => "what it sends to its hosts",
                            false => "what it receives from its hosts",
                        };
                        suspect(switch.clone(), switch_kind(graph, switch), Some(words))
                    }
                    WholeKind::Host { host, sends } => {
                        suspect(host.clone(), SuspectKind::Node, sends.map(at_host))
                    }
                    WholeKind::Rail(rail) => suspect(rail.clone(), SuspectKind::Rail, None),
                    WholeKind::Fabric => suspect("the whole fabric".to_string(), SuspectKind::Fabric, None),
                }
            }
        }
    }
}

fn switch_kind(graph: &Graph, switch: &str) -> SuspectKind {
    match graph.tier_of(switch) {
        Some(Tier::Leaf) | None => SuspectKind::Leaf,
        Some(Tier::Spine) => SuspectKind::Spine,
        Some(Tier::Core) => SuspectKind::Core,
    }
}

fn cable_kind(is_host: bool) -> SuspectKind {
    match is_host {
        true => SuspectKind::HostCable,
        false => SuspectKind::FabricCable,
    }
}

/// Which direction of a host, in words.
fn at_host(sends: bool) -> &'static str {
    match sends {
        true => "what it sends",
        false => "what it receives",
    }
}

/// Which direction of a cable, in words.
pub(in crate::findings) fn direction(away: bool) -> &'static str {
    match away {
        true => "away from the host",
        false => "towards the host",
    }
}

/// The cables of one switch to those above it, in one direction, where a cause may be any of several of them and nothing else.
pub(in crate::findings) fn uplinks_alike(suspects: &[(Element, f64)], graph: &Graph) -> Option<Vec<LinkId>> {
    let (_, most) = suspects.first()?;
    let alike = suspects.iter().filter(|(_, share)| *share >= most * ALIKE);
    let links: Option<Vec<LinkId>> = alike.map(|(element, _)| element.link()).collect();
    let mut links = links.filter(|links| links.len() > 1)?;
    links.sort_unstable();
    let first = graph.link(links[0]);
    let is_alike = |link: &LinkId| {
        let link = graph.link(*link);
        !link.is_host && link.is_upward == first.is_upward && link.lower_node() == first.lower_node()
    };
    links.iter().all(is_alike).then_some(links)
}
