//! What may be at fault: a cable in one direction, or what one rank sends or receives.

use std::collections::HashMap;

use record::RankRecord;
use topology::graph::{Graph, LinkId};

/// A part that data crosses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Element {
    /// A cable in one direction.
    Link(LinkId),
    /// All that a rank sends, on any rail: its GPU, its memory, its host.
    Out(u32),
    /// All that a rank receives.
    In(u32),
}

impl Element {
    /// The cable, when it is one.
    pub fn link(self) -> Option<LinkId> {
        match self {
            Element::Link(link) => Some(link),
            Element::Out(_) | Element::In(_) => None,
        }
    }
}

/// All elements of a run, numbered: links first, then what ranks send, then what they receive.
#[derive(Debug)]
pub(super) struct Elements {
    links: usize,
    ranks: Vec<u32>,
    place_of: HashMap<u32, usize>,
}

impl Elements {
    pub(super) fn of(graph: &Graph, ranks: &[RankRecord]) -> Elements {
        let ranks: Vec<u32> = ranks.iter().map(|record| record.rank).collect();
        let place_of = ranks
            .iter()
            .enumerate()
            .map(|(place, rank)| (*rank, place))
            .collect();
        Elements {
            links: graph.link_count(),
            ranks,
            place_of,
        }
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.links + 2 * self.ranks.len()
    }

    /// Its number; none for a rank that is not of this run.
    pub(super) fn number(&self, element: Element) -> Option<usize> {
        let rank = |rank: u32| self.place_of.get(&rank).copied();
        match element {
            Element::Link(link) => Some(link.0 as usize).filter(|number| *number < self.links),
            Element::Out(sender) => Some(self.links + rank(sender)?),
            Element::In(receiver) => Some(self.links + self.ranks.len() + rank(receiver)?),
        }
    }

    /// The element with this number.
    pub(super) fn element(&self, number: usize) -> Element {
        let ranks = self.ranks.len();
        match number {
            link if link < self.links => Element::Link(LinkId(link as u32)),
            out if out < self.links + ranks => Element::Out(self.ranks[out - self.links]),
            other => Element::In(self.ranks[(other - self.links - ranks) % ranks.max(1)]),
        }
    }
}
