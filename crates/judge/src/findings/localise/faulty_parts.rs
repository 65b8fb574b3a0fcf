//! The parts that are accused: causes that are the same part become one.
//!
//! A part is known by its directed links. Causes belong together when the links of one are among those of the other, in
//! either direction: a cable in both, what a host sends and what it receives, a switch and one of its cables that is slower
//! still. A rail or the fabric as a whole is accused by its own detector.

use std::collections::BTreeSet;

use super::element::WholeKind;
use super::{Cause, Element, Localisation};
use record::text;
use record::{BOTH_DIRECTIONS, Cell, Run, Suspect, SuspectKind};
use topology::graph::{LinkId, Tier};

/// One part that is accused.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::findings) struct FaultyPart {
    /// Numbers of the causes that it combines, the one with most links first.
    pub(in crate::findings) causes: Vec<usize>,
    /// The suspects, the likeliest first.
    pub(in crate::findings) suspects: Vec<Suspect>,
    /// The cable it is, when it is one; one direction of it when both are slow.
    pub(in crate::findings) link: Option<LinkId>,
    /// All its directed links.
    pub(in crate::findings) links: Vec<LinkId>,
    /// The switch it is, when it is one; or the one whose cables cannot be told apart.
    pub(in crate::findings) switch: Option<String>,
    /// Whether it is one of `links` and cannot be told which.
    pub(in crate::findings) is_one_of: bool,
}

/// From this share of the likeliest suspect's confidence on, another one cannot be told from it.
const ALIKE: f64 = 0.5;

/// What explains a slow cell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::findings) enum ExplainedBy {
    /// It is one of the flows the part was found by.
    OwnFlow,
    /// It uses the part of this cause.
    Cause(usize),
    /// Its rail as a whole.
    Rail(String),
    /// The fabric as a whole.
    Fabric,
    /// No part explains it.
    Nothing,
}

impl Localisation {
    /// Whether a confirmed part explains a slow cell: as one of its flows, or because the cell's ranks send over it.
    pub(in crate::findings) fn explains(&self, run: &Run, cell: &Cell, place: usize) -> ExplainedBy {
        let confirmed = || {
            let causes = self.causes.iter().enumerate();
            causes.filter(|(_, cause)| cause.confirmed)
        };
        for (_, cause) in confirmed() {
            match self.whole_of(cause) {
                Some(WholeKind::Rail(rail)) if cell.rails.contains(rail) => {
                    return ExplainedBy::Rail(rail.clone());
                }
                Some(WholeKind::Fabric) if !cell.rails.is_empty() => return ExplainedBy::Fabric,
                _ => {}
            }
        }
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
        let uses_link = |link: &LinkId| {
            let link = self.graph.link(*link);
            let on_rail = link.rail.as_ref().is_none_or(|rail| cell.rails.contains(rail));
            on_rail && (!link.is_host || hosts.contains(&link.lower_node()))
        };
        let uses = |cause: &Cause| match cause.suspects.first() {
            Some((Element::Out(rank) | Element::In(rank), _)) => cell.ranks.contains(rank),
            Some((element, _)) => self.links_of(*element, run).iter().any(uses_link),
            None => false,
        };
        let guilty = confirmed().find(|(_, cause)| uses(cause));
        guilty.map_or(ExplainedBy::Nothing, |(number, _)| ExplainedBy::Cause(number))
    }

    /// All accused parts, the one that explains most first.
    pub(in crate::findings) fn faulty_parts(&self, run: &Run) -> Vec<FaultyPart> {
        let is_accused_here = |cause: &Cause| {
            let whole = self.whole_of(cause);
            cause.confirmed && !matches!(whole, Some(WholeKind::Rail(_) | WholeKind::Fabric))
        };
        // Per cause its links, and those with the other directions.
        let mut left: Vec<(usize, Vec<LinkId>, BTreeSet<LinkId>)> = Vec::new();
        for (number, cause) in self
            .causes
            .iter()
            .enumerate()
            .filter(|(_, cause)| is_accused_here(cause))
        {
            let Some((element, _)) = cause.suspects.first() else {
                continue;
            };
            let links = self.links_of(*element, run);
            let both = links.iter().flat_map(|link| [*link, link.reverse()]).collect();
            left.push((number, links, both));
        }
        left.sort_by_key(|(number, _, both)| (std::cmp::Reverse(both.len()), *number));
        let mut faulty = Vec::new();
        while !left.is_empty() {
            let (_, _, largest) = left[0].clone();
            let (same, rest): (Vec<_>, Vec<_>) = left
                .into_iter()
                .partition(|(_, _, both)| both.is_subset(&largest) && !both.is_empty());
            left = rest;
            if same.is_empty() {
                // A rank without a cable that is known: nothing else can be the same part.
                let alone = left.remove(0);
                faulty.push(self.one(vec![alone], run));
            } else {
                faulty.push(self.one(same, run));
            }
        }
        faulty.sort_by_key(|fault| fault.causes.iter().min().copied());
        faulty
    }

    fn one(&self, same: Vec<(usize, Vec<LinkId>, BTreeSet<LinkId>)>, run: &Run) -> FaultyPart {
        let causes: Vec<usize> = same.iter().map(|(cause, ..)| *cause).collect();
        let links: BTreeSet<LinkId> = same
            .iter()
            .flat_map(|(_, links, _)| links.iter().copied())
            .collect();
        let cause = &self.causes[causes[0]];
        let is_other = |(element, _): &&(Element, f64)| {
            let own = self.links_of(*element, run);
            causes.len() == 1 || own.is_empty() || !own.iter().all(|link| links.contains(link))
        };
        let first = cause.suspects.iter().take(1);
        let others = cause.suspects.iter().skip(1).filter(is_other);
        let mut suspects: Vec<Suspect> = first
            .chain(others)
            .map(|(element, share)| self.suspect(*element, *share, cause, run))
            .collect();
        let is_both = links.iter().any(|link| links.contains(&link.reverse()));
        let link = links.first().copied();
        let is_cable = link.is_some_and(|first| {
            links
                .iter()
                .all(|link| *link == first || *link == first.reverse())
        });
        let link = link.filter(|_| is_cable);
        if let Some(first) = suspects.first_mut() {
            if is_both && is_cable {
                first.direction = Some(BOTH_DIRECTIONS.to_string());
            } else if is_both && matches!(first.kind, SuspectKind::Node | SuspectKind::Gpu) {
                first.direction = None;
            }
        }
        if let Some((switch, links)) = self.uplinks_alike(cause).filter(|_| causes.len() == 1) {
            return FaultyPart {
                link: None,
                links,
                switch: Some(switch),
                is_one_of: true,
                causes,
                suspects,
            };
        }
        let kind = suspects.first().map(|suspect| suspect.kind);
        let is_switch = matches!(
            kind,
            Some(SuspectKind::Leaf | SuspectKind::Spine | SuspectKind::Core)
        );
        FaultyPart {
            link,
            switch: suspects
                .first()
                .filter(|_| is_switch)
                .map(|suspect| suspect.part.clone()),
            links: links.into_iter().collect(),
            is_one_of: false,
            causes,
            suspects,
        }
    }

    /// The switch and its cables to those above it, in one direction, where a cause may be any of several of them and nothing else.
    fn uplinks_alike(&self, cause: &Cause) -> Option<(String, Vec<LinkId>)> {
        let (_, most) = cause.suspects.first()?;
        let alike = cause.suspects.iter().filter(|(_, share)| *share >= most * ALIKE);
        let links: Option<Vec<LinkId>> = alike.map(|(element, _)| element.link()).collect();
        let mut links = links.filter(|links| links.len() > 1)?;
        links.sort_unstable();
        let first = self.graph.link(links[0]);
        let is_alike = |link: &LinkId| {
            let link = self.graph.link(*link);
            !link.is_host && link.is_upward == first.is_upward && link.lower_node() == first.lower_node()
        };
        links
            .iter()
            .all(is_alike)
            .then(|| (first.lower_node().to_string(), links.clone()))
    }

    /// What the likeliest suspect of a cause is, when it is a whole part.
    fn whole_of(&self, cause: &Cause) -> Option<&WholeKind> {
        match cause.suspects.first()?.0 {
            Element::Whole(number) => self
                .elements
                .wholes()
                .get(number as usize)
                .map(|whole| &whole.kind),
            Element::Link(_) | Element::Out(_) | Element::In(_) => None,
        }
    }

    /// The directed links that are the part.
    fn links_of(&self, element: Element, run: &Run) -> Vec<LinkId> {
        let of_rank = |rank: u32, sends: bool| {
            let record = run.ranks.iter().find(|record| record.rank == rank);
            let links = self.graph.links().filter(|(id, link)| {
                let up = if link.is_upward { *id } else { id.reverse() };
                let is_own = |rail: &str| self.graph.up(rank, rail) == Some(up);
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
                .elements
                .wholes()
                .get(number as usize)
                .map_or_else(Vec::new, |whole| whole.links.clone()),
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
                let link = self.graph.link(id);
                Suspect {
                    cable: Some(link.cable.clone()),
                    ..suspect(
                        self.graph.name(id),
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
                let whole = &self.elements.wholes()[number as usize];
                let first = self.graph.link(whole.links[0]);
                let found = match &whole.kind {
                    WholeKind::Cable(cable) => {
                        let up = whole.links.iter().find(|link| self.graph.link(**link).is_upward);
                        Suspect {
                            cable: Some(cable.clone()),
                            ..suspect(
                                self.graph.name(*up.unwrap_or(&whole.links[0])),
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
                    WholeKind::Switch(switch) => suspect(switch.clone(), self.switch_kind(switch), None),
                    WholeKind::Uplinks { switch, sends } => {
                        let words = match sends {
                            true => "what it sends to the switches above it",
                            false => "what it receives from the switches above it",
                        };
                        suspect(switch.clone(), self.switch_kind(switch), Some(words))
                    }
                    WholeKind::HostPorts { switch, sends } => {
                        let words = match sends {
                            true => "what it sends to its hosts",
                            false => "what it receives from its hosts",
                        };
                        suspect(switch.clone(), self.switch_kind(switch), Some(words))
                    }
                    WholeKind::Host { host, sends } => {
                        suspect(host.clone(), SuspectKind::Node, sends.map(at_host))
                    }
                    WholeKind::Rail(rail) => suspect(rail.clone(), SuspectKind::Rail, None),
                    WholeKind::Fabric => suspect("the whole fabric".to_string(), SuspectKind::Fabric, None),
                };
                let slow = self.crossed_by(cause, &whole.links);
                Suspect {
                    why: format!(
                        "{}; {slow} of its {} directed links were crossed, and none of them carried more at another time",
                        found.why,
                        whole.links.len()
                    ),
                    ..found
                }
            }
        }
    }

    /// How many of these links the flows of a cause crossed, as far as that is certain.
    fn crossed_by(&self, cause: &Cause, links: &[LinkId]) -> usize {
        let own = self
            .flows
            .iter()
            .filter(|flow| cause.places.contains(&flow.place));
        let crossed: BTreeSet<usize> = own.flat_map(|flow| flow.certain.iter().copied()).collect();
        links
            .iter()
            .filter(|link| crossed.contains(&link.index()))
            .count()
    }

    fn switch_kind(&self, switch: &str) -> SuspectKind {
        match self.graph.tier_of(switch) {
            Some(Tier::Leaf) | None => SuspectKind::Leaf,
            Some(Tier::Spine) => SuspectKind::Spine,
            Some(Tier::Core) => SuspectKind::Core,
        }
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
