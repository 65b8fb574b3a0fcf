//! The fabric as flows see it: directed links, and the ways from one rank to another.
//!
//! A cable is two directed links, `h2/rail1->rail1-leaf1/p0` and back, because each direction can be slow on its own. Links
//! are numbered without gaps, so that whoever keeps something per link keeps it in a list. Hosts send and receive but never
//! pass on: a way leads from a host over switches to another host, and only the shortest ways count, as routers see it.

mod build;
mod contradiction;
mod ways;

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::OnceLock;

pub use super::file::{Port, Tier};
use record::units::Rate;

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
    pub away: bool,
    /// Whether one of its ends is a host.
    pub is_host: bool,
}

/// Directed links, and who is plugged in where.
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
    onward: Vec<Vec<LinkId>>,
    plugged: HashMap<u32, Vec<Plugged>>,
    /// Where ways end: a switch with ranks of a rail.
    targets: Vec<Target>,
    by_target: HashMap<(u32, String), u32>,
    inferred: bool,
}

/// A switch that ranks of a rail are plugged into, and how far every other switch is from it; worked out when it is first
/// asked for, because every way to these ranks needs it.
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
    /// Whatever is between the hosts of a rail, when nobody said.
    Unknown,
}

/// A rank's own cable of one rail.
#[derive(Debug, Clone)]
struct Plugged {
    rail: String,
    up: LinkId,
    host: u32,
    switch: u32,
    target: u32,
    /// The rank's address on the rail.
    address: Option<IpAddr>,
}

impl Graph {
    /// Whether nobody said what the fabric is, so that every rail is taken for one switch.
    pub fn is_inferred(&self) -> bool {
        self.inferred
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

    /// What records call a link: `h2/rail1->rail1-leaf1/p0`.
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
        Some(if link.away { [id, other] } else { [other, id] })
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
        let switch = self.plugged(rank, rail)?.switch;
        Some(&self.nodes[switch as usize].name)
    }

    /// A rank's own cable, away from its host.
    pub fn up(&self, rank: u32, rail: &str) -> Option<LinkId> {
        Some(self.plugged(rank, rail)?.up)
    }

    /// A rank's own cable, towards its host.
    pub fn down(&self, rank: u32, rail: &str) -> Option<LinkId> {
        Some(self.plugged(rank, rail)?.up.reverse())
    }

    /// The host at one end of a link when the run has no rank there, so that nothing can be measured over it.
    pub fn idle_host(&self, id: LinkId) -> Option<&str> {
        let ends = self.ends[id.index()].map(|node| &self.nodes[node as usize]);
        let idle = |node: &&&Node| node.kind == NodeKind::Host && !node.has_ranks;
        ends.iter().find(idle).map(|node| node.name.as_str())
    }

    fn plugged(&self, rank: u32, rail: &str) -> Option<&Plugged> {
        self.plugged.get(&rank)?.iter().find(|end| end.rail == rail)
    }

    fn node(&self, index: u32) -> &Node {
        &self.nodes[index as usize]
    }
}

impl std::fmt::Display for DirectedLink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(&format!("{}->{}", self.from, self.to))
    }
}

#[cfg(test)]
mod tests;
