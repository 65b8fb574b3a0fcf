//! The parts that are accused: causes that are the same part become one.
//!
//! A part is known by its directed links. Causes belong together when the links of one are among those of the other, in
//! either direction: a cable in both, what a host sends and what it receives, a switch and one of its cables that is slower
//! still. A rail or the fabric as a whole is accused by its own detector.

use std::collections::BTreeSet;

use super::element::WholeKind;
use super::names::uplinks_alike;
use super::{Cause, Element, Localisation};
use record::text;
use record::{BOTH_DIRECTIONS, Cell, Run, Suspect, SuspectKind};
use topology::graph::LinkId;

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
        if let Some(links) = uplinks_alike(&cause.suspects, &self.graph).filter(|_| causes.len() == 1) {
            let switch = self.graph.link(links[0]).lower_node().to_string();
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
        self.elements.links_of(&self.graph, element, run)
    }

    fn suspect(&self, element: Element, confidence: f64, cause: &Cause, run: &Run) -> Suspect {
        let mut why = format!(
            "crossed by {} slow flow{} with {} different partner{}",
            cause.places.len(),
            text::plural(cause.places.len()),
            cause.partners,
            text::plural(cause.partners)
        );
        if let Element::Whole(number) = element {
            let links = &self.elements.wholes()[number as usize].links;
            why = format!(
                "{why}; {} of its {} directed links were crossed, and none of them carried more at another time",
                self.crossed_by(cause, links),
                links.len()
            );
        }
        self.elements.suspect(&self.graph, element, run, confidence, why)
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
}
