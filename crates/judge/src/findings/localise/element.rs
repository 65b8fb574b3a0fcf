//! What may be at fault: a cable in one direction, what one rank sends or receives, or a whole part with many cables.

use std::collections::{BTreeMap, HashMap};

use record::RankRecord;
use topology::graph::{DirectedLink, Graph, LinkId};

/// A part that data crosses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Element {
    /// A cable in one direction.
    Link(LinkId),
    /// All that a rank sends, on any rail: its GPU, its memory, its host.
    Out(u32),
    /// All that a rank receives.
    In(u32),
    /// A part with many cables, by its number among all of them.
    Whole(u32),
}

impl Element {
    /// The cable, when it is one.
    pub fn link(self) -> Option<LinkId> {
        match self {
            Element::Link(link) => Some(link),
            Element::Out(_) | Element::In(_) | Element::Whole(_) => None,
        }
    }
}

/// What a part with several links is. Of two with the same links, the later one is meant.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum WholeKind {
    /// The cables of a leaf to its hosts, in one direction.
    HostPorts {
        /// The leaf.
        switch: String,
        /// Whether data leaves the switch by them.
        sends: bool,
    },
    /// The cables of a switch to those above it, in one direction.
    Uplinks {
        /// The switch.
        switch: String,
        /// Whether data leaves the switch by them.
        sends: bool,
    },
    /// All cables between switches, of a rail or of the fabric: what stays within a leaf does not cross it.
    BetweenSwitches(Option<String>),
    /// All cables of a switch. Data that comes in by one leaves by another: which of the two is slow cannot be told.
    Switch(String),
    /// All cables of a host.
    Host {
        /// The host.
        host: String,
        /// One direction: whether it sends by them. Only for hosts with several ranks.
        sends: Option<bool>,
    },
    /// A cable in both directions.
    Cable(String),
    /// All cables of a rail.
    Rail(String),
    /// Every cable there is.
    Fabric,
}

impl std::fmt::Display for WholeKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let way = |sends: bool| if sends { "from" } else { "to" };
        match self {
            WholeKind::HostPorts { switch, sends } => {
                write!(f, "everything between {switch} and its hosts, {} it", way(*sends))
            }
            WholeKind::Uplinks { switch, sends } => write!(f, "all uplinks of {switch}, {} it", way(*sends)),
            WholeKind::BetweenSwitches(None) => f.write_str("everything between switches"),
            WholeKind::BetweenSwitches(Some(rail)) => write!(f, "everything between switches of {rail}"),
            WholeKind::Switch(switch) => f.write_str(switch),
            WholeKind::Host { host, sends: None } => f.write_str(host),
            WholeKind::Host {
                host,
                sends: Some(true),
            } => write!(f, "what {host} sends"),
            WholeKind::Host {
                host,
                sends: Some(false),
            } => write!(f, "what {host} receives"),
            WholeKind::Cable(cable) => write!(f, "{cable}, both directions"),
            WholeKind::Rail(rail) => write!(f, "all of {rail}"),
            WholeKind::Fabric => f.write_str("the whole fabric"),
        }
    }
}

/// A part with many cables.
#[derive(Debug, Clone, PartialEq)]
pub struct Whole {
    /// What it is.
    pub kind: WholeKind,
    /// Its directed links, in order.
    pub links: Vec<LinkId>,
}

/// Weight of a rank relative to a cable that explains the same.
pub(super) const RANK_WEIGHT: f64 = 0.25;

/// From this many directed links on, a part is more than its links.
const LINKS_OF_A_WHOLE: usize = 2;

impl Whole {
    /// All of a fabric.
    fn all_of(graph: &Graph, ranks: &[RankRecord]) -> Vec<Whole> {
        let mut ranks_of: HashMap<&str, usize> = HashMap::new();
        for record in ranks {
            *ranks_of.entry(&record.host).or_default() += 1;
        }
        let mut links: BTreeMap<WholeKind, Vec<LinkId>> = BTreeMap::new();
        for (id, link) in graph.links() {
            let is_shared = |host: &str| ranks_of.get(host).is_some_and(|ranks| *ranks > 1);
            for kind in WholeKind::of(graph, link, is_shared) {
                links.entry(kind).or_default().push(id);
            }
        }
        let mut by_links: HashMap<Vec<LinkId>, WholeKind> = HashMap::new();
        for (kind, links) in links {
            if links.len() >= LINKS_OF_A_WHOLE {
                by_links.insert(links, kind);
            }
        }
        let wholes = by_links.into_iter().map(|(links, kind)| Whole { kind, links });
        let mut wholes: Vec<Whole> = wholes.collect();
        wholes.sort_by(|a, b| a.kind.cmp(&b.kind));
        wholes
    }
}

impl WholeKind {
    /// All that a link belongs to.
    fn of(graph: &Graph, link: &DirectedLink, is_shared: impl Fn(&str) -> bool) -> Vec<WholeKind> {
        let (lower, upper) = match link.is_upward {
            true => (&link.from.node, &link.to.node),
            false => (&link.to.node, &link.from.node),
        };
        let mut kinds = vec![WholeKind::Fabric, WholeKind::Cable(link.cable.clone())];
        kinds.extend(link.rail.clone().map(WholeKind::Rail));
        // What was only inferred from the rails is no switch.
        let switches = [lower, upper]
            .into_iter()
            .filter(|node| graph.tier_of(node).is_some());
        kinds.extend(switches.cloned().map(WholeKind::Switch));
        if !link.is_host {
            kinds.push(WholeKind::Uplinks {
                switch: lower.clone(),
                sends: link.is_upward,
            });
            kinds.push(WholeKind::BetweenSwitches(None));
            kinds.extend(
                link.rail
                    .clone()
                    .map(|rail| WholeKind::BetweenSwitches(Some(rail))),
            );
            return kinds;
        }
        if graph.tier_of(upper).is_some() {
            kinds.push(WholeKind::HostPorts {
                switch: upper.clone(),
                sends: !link.is_upward,
            });
        }
        // Of a host with one rank, each direction is what that rank sends or receives.
        let directions = [None, Some(link.is_upward)]
            .into_iter()
            .take(1 + usize::from(is_shared(lower)));
        kinds.extend(directions.map(|sends| WholeKind::Host {
            host: lower.clone(),
            sends,
        }));
        kinds
    }

    /// How likely it is to be at fault, relative to a cable in one direction that explains the same.
    pub(in crate::findings) fn prior(&self) -> f64 {
        match self {
            WholeKind::Cable(_) => 0.5,
            WholeKind::Switch(_) | WholeKind::Host { .. } | WholeKind::Rail(_) => 0.25,
            WholeKind::HostPorts { .. } | WholeKind::Uplinks { .. } | WholeKind::Fabric => 0.1,
            WholeKind::BetweenSwitches(_) => 0.01,
        }
    }
}

/// All elements of a run, numbered: links first, then what ranks send, then what they receive, then whole parts.
#[derive(Debug)]
pub(in crate::findings) struct Elements {
    links: usize,
    ranks: Vec<u32>,
    place_of: HashMap<u32, usize>,
    wholes: Vec<Whole>,
    /// Per link the numbers of the whole parts it belongs to.
    wholes_of: Vec<Vec<usize>>,
    /// What each link should carry; 1 for all where one is not known.
    rates: Vec<f64>,
}

impl Elements {
    pub(in crate::findings) fn of(graph: &Graph, ranks: &[RankRecord]) -> Elements {
        let wholes = Whole::all_of(graph, ranks);
        let ranks: Vec<u32> = ranks.iter().map(|record| record.rank).collect();
        let place_of = ranks
            .iter()
            .enumerate()
            .map(|(place, rank)| (*rank, place))
            .collect();
        let links = graph.link_count();
        let first_whole = links + 2 * ranks.len();
        let mut wholes_of = vec![Vec::new(); links];
        for (number, whole) in wholes.iter().enumerate() {
            for link in &whole.links {
                wholes_of[link.index()].push(first_whole + number);
            }
        }
        let are_rates_known = graph.links().all(|(_, link)| link.rate.0 > 0.0);
        let rate = |rate: f64| if are_rates_known { rate } else { 1.0 };
        Elements {
            links,
            ranks,
            place_of,
            wholes,
            wholes_of,
            rates: graph.links().map(|(_, link)| rate(link.rate.0)).collect(),
        }
    }

    /// How many there are.
    pub(in crate::findings) fn count(&self) -> usize {
        self.first_whole() + self.wholes.len()
    }

    fn first_whole(&self) -> usize {
        self.links + 2 * self.ranks.len()
    }

    /// Its number; none for a rank that is not of this run.
    pub(in crate::findings) fn number(&self, element: Element) -> Option<usize> {
        let rank = |rank: u32| self.place_of.get(&rank).copied();
        match element {
            Element::Link(link) => Some(link.0 as usize).filter(|number| *number < self.links),
            Element::Out(sender) => Some(self.links + rank(sender)?),
            Element::In(receiver) => Some(self.links + self.ranks.len() + rank(receiver)?),
            Element::Whole(whole) => {
                Some(self.first_whole() + whole as usize).filter(|number| *number < self.count())
            }
        }
    }

    /// How likely a part is to be at fault, relative to a cable in one direction that explains the same: cables fail more often than hosts.
    pub(in crate::findings) fn prior(&self, number: usize) -> f64 {
        match (self.element(number), self.whole(number)) {
            (Element::Link(_), _) => 1.0,
            (_, None) => RANK_WEIGHT,
            (_, Some(whole)) => whole.kind.prior(),
        }
    }

    /// The element with this number.
    pub(in crate::findings) fn element(&self, number: usize) -> Element {
        let ranks = self.ranks.len();
        match number {
            link if link < self.links => Element::Link(LinkId(link as u32)),
            out if out < self.links + ranks => Element::Out(self.ranks[out - self.links]),
            into if into < self.first_whole() => Element::In(self.ranks[into - self.links - ranks]),
            whole => Element::Whole((whole - self.first_whole()) as u32),
        }
    }

    /// How many of them are links.
    pub(in crate::findings) fn link_count(&self) -> usize {
        self.links
    }

    /// The parts with many cables.
    pub(in crate::findings) fn wholes(&self) -> &[Whole] {
        &self.wholes
    }

    /// The whole part with this number, when it is one.
    pub(in crate::findings) fn whole(&self, number: usize) -> Option<&Whole> {
        self.wholes.get(number.checked_sub(self.first_whole())?)
    }

    /// Numbers of the whole parts that a link belongs to.
    pub(in crate::findings) fn wholes_of(&self, link: usize) -> &[usize] {
        self.wholes_of.get(link).map_or(&[], Vec::as_slice)
    }

    /// Whether all links of a part belong to a whole part.
    pub(in crate::findings) fn is_within(&self, part: usize, whole: usize) -> bool {
        let Some(whole) = self.whole(whole) else {
            return false;
        };
        match (self.element(part), self.whole(part)) {
            (Element::Link(link), _) => whole.links.contains(&link),
            (_, Some(part)) => part.links.iter().all(|link| whole.links.contains(link)),
            (_, None) => false,
        }
    }

    /// What a link should carry: loads of whole parts are fractions of this, because their links may differ.
    pub(in crate::findings) fn rate_of(&self, link: usize) -> f64 {
        self.rates[link]
    }
}
