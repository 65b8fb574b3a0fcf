//! The fabric as flows see it: directed links, and the paths from one rank to another.
//!
//! A cable is two directed links, `h2/rail1->rail1-leaf1/p0` and back, because each direction can be slow on its own. Links
//! are numbered without gaps, so that data per link can be kept in a list. Hosts send and receive but do not forward: a path
//! leads from a host over switches to another host. Where forwarding tables are known, they say which; elsewhere only shortest
//! paths count, as in routing.

mod build;
mod checks;
mod crossings;
mod fair_shares;
mod paths;
mod unused;
mod wiring;

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::OnceLock;

pub use super::model::{Port, Tier};
pub use crossings::CrossedHop;
pub use fair_shares::{Crosses, Crossing, fair_shares};
use record::LinkName;
use record::units::Rate;
pub use unused::{UnusedCable, UseEvidence};
pub use wiring::{Miswiring, WiringEvidence, WrongCable};

/// One cable in one direction, by its number within its graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub u32);

impl LinkId {
    /// As a position in a list with one entry per link.
    pub fn index(self) -> usize {
        self.0 as usize
    }

    /// The same cable in the other direction.
    pub fn reverse(self) -> LinkId {
        LinkId(self.0 ^ 1)
    }
}

/// The links that data crosses, in order.
pub type Path = Vec<LinkId>;

/// One cable in one direction.
#[derive(Debug, Clone, PartialEq)]
pub struct DirectedLink {
    /// The cable's name.
    pub cable: String,
    /// Where data enters it.
    pub from: Port,
    /// Where data leaves it.
    pub to: Port,
    /// What it should carry; 0 when that is not known.
    pub rate: Rate,
    /// The rail it belongs to, when it belongs to one.
    pub rail: Option<String>,
    /// Whether data on it moves away from the hosts: host to leaf, leaf to spine. Between switches of one tier that is from
    /// the first end to the second.
    pub is_upward: bool,
    /// Whether one of its ends is a host.
    pub is_host: bool,
}

/// Directed links, and the port that each rank is attached to.
#[derive(Debug, Clone)]
pub struct Graph {
    nodes: Vec<Node>,
    by_node: HashMap<String, u32>,
    /// Links `2 n` and `2 n + 1` are the two directions of cable `n`.
    links: Vec<DirectedLink>,
    /// From node and to node of every link.
    ends: Vec<[u32; 2]>,
    /// The address of the port where data leaves a link, when the topology tells.
    arrivals: Vec<Option<IpAddr>>,
    by_name: HashMap<String, LinkId>,
    /// The switch that has an address.
    by_address: HashMap<IpAddr, u32>,
    /// Per node the links to switches, in order.
    switch_links: Vec<Vec<LinkId>>,
    /// Per switch and link to a host: the links by which packets to that host leave the switch, where tables say so.
    forwarding: HashMap<(u32, LinkId), Vec<LinkId>>,
    attachment: HashMap<u32, Vec<Attachment>>,
    /// Where paths end: a switch with ranks of a rail.
    targets: Vec<Target>,
    by_target: HashMap<(u32, String), u32>,
    inferred: bool,
    /// Whether the address of an answer names its switch only: it may be that of the port by which the answer leaves.
    answers_name_switches: bool,
}

/// A switch that ranks of a rail are attached to, and how far every other switch is from it. The distances are computed on
/// first use; every path to these ranks needs them.
#[derive(Debug, Clone)]
struct Target {
    switch: u32,
    rail: String,
    distances: OnceLock<Vec<u32>>,
}

#[derive(Debug, Clone)]
struct Node {
    name: String,
    kind: NodeKind,
    /// Whether ranks of the run are on it; no switch has any.
    has_ranks: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NodeKind {
    Host,
    Switch(Tier),
    /// Whatever connects the hosts of a rail, when no topology says.
    Unknown,
}

/// A rank's port of one rail, and the switch its cable leads to.
#[derive(Debug, Clone)]
struct Attachment {
    rail: String,
    up: LinkId,
    host: u32,
    switch: u32,
    target: u32,
    /// The rank's address on the rail.
    address: Option<IpAddr>,
}

impl Graph {
    /// Whether there is no topology file, so that every rail is taken for one switch.
    pub fn is_inferred(&self) -> bool {
        self.inferred
    }

    /// The same graph where answers to traces name switches and not the ports by which packets came in.
    pub fn with_answers_of_switches(mut self) -> Graph {
        self.answers_name_switches = true;
        self
    }

    /// How many directed links there are.
    pub fn link_count(&self) -> usize {
        self.links.len()
    }

    /// All directed links.
    pub fn links(&self) -> impl Iterator<Item = (LinkId, &DirectedLink)> {
        (0..).map(LinkId).zip(&self.links)
    }

    /// A link of this graph.
    pub fn link(&self, id: LinkId) -> &DirectedLink {
        &self.links[id.index()]
    }

    /// The printed and recorded name of a link: `h2/rail1->rail1-leaf1/p0`.
    pub fn name(&self, id: LinkId) -> String {
        self.link(id).to_string()
    }

    /// The link with that name.
    pub fn named(&self, name: &str) -> Option<LinkId> {
        self.by_name.get(name).copied()
    }

    /// The two directions of a cable, away from the hosts first.
    pub fn cable(&self, name: &str) -> Option<[LinkId; 2]> {
        let (id, link) = self.links().find(|(_, link)| link.cable == name)?;
        let other = id.reverse();
        Some(if link.is_upward { [id, other] } else { [other, id] })
    }

    /// How far a switch is from the hosts; none for hosts, for what was only inferred, and for what is not there.
    pub fn tier_of(&self, node: &str) -> Option<Tier> {
        match self.nodes[*self.by_node.get(node)? as usize].kind {
            NodeKind::Switch(tier) => Some(tier),
            NodeKind::Host | NodeKind::Unknown => None,
        }
    }

    /// The switch that a rank's cable leads to.
    pub fn leaf_of(&self, rank: u32, rail: &str) -> Option<&str> {
        let switch = self.attachment(rank, rail)?.switch;
        Some(&self.nodes[switch as usize].name)
    }

    /// The switch that has an address.
    pub fn switch_with_address(&self, address: IpAddr) -> Option<&str> {
        let switch = self.by_address.get(&address)?;
        Some(&self.nodes[*switch as usize].name)
    }

    /// The cable of a rank's port, away from the host.
    pub fn up(&self, rank: u32, rail: &str) -> Option<LinkId> {
        Some(self.attachment(rank, rail)?.up)
    }

    /// The cable of a rank's port, towards the host.
    pub fn down(&self, rank: u32, rail: &str) -> Option<LinkId> {
        Some(self.attachment(rank, rail)?.up.reverse())
    }

    /// The host at one end of a link when the run has no rank there, so that nothing can be measured over it.
    pub fn host_without_ranks(&self, id: LinkId) -> Option<&str> {
        let ends = self.ends[id.index()].map(|node| &self.nodes[node as usize]);
        let idle = |node: &&&Node| node.kind == NodeKind::Host && !node.has_ranks;
        ends.iter().find(idle).map(|node| node.name.as_str())
    }

    fn attachment(&self, rank: u32, rail: &str) -> Option<&Attachment> {
        self.attachment.get(&rank)?.iter().find(|end| end.rail == rail)
    }

    fn node(&self, index: u32) -> &Node {
        &self.nodes[index as usize]
    }
}

impl DirectedLink {
    /// The end that is farther from the hosts.
    pub fn upper_node(&self) -> &str {
        match self.is_upward {
            true => &self.to.node,
            false => &self.from.node,
        }
    }

    /// The end that is nearer to the hosts.
    pub fn lower_node(&self) -> &str {
        match self.is_upward {
            true => &self.from.node,
            false => &self.to.node,
        }
    }

    /// Its name as it is printed and recorded.
    pub fn name(&self) -> LinkName<'_> {
        LinkName {
            from: self.from.name(),
            to: self.to.name(),
        }
    }
}

impl std::fmt::Display for DirectedLink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(&self.name().to_string())
    }
}

#[cfg(test)]
mod tests;
