//! Builds a topology from nodes and cables in the order a file lists them.
//!
//! A cable that both of its ends report is one cable. Tiers follow from the distance to the hosts: a switch with a host is a
//! leaf, a switch next to a leaf is a spine, everything beyond is a core.

use std::collections::{HashMap, VecDeque};

use super::TextError;
use crate::{Host, Link, Port, SourceLines, Switch, Tier, Topology};
use record::units::Rate;

/// Longest name of a node, so that the names of its cables are not too long.
const LONGEST_NODE: usize = 44;
const LONGEST_PORT: usize = 18;

/// The nodes and cables found so far.
#[derive(Default)]
pub(crate) struct Cabling {
    nodes: Vec<Node>,
    by_name: HashMap<String, usize>,
    cables: Vec<Cable>,
    by_port: HashMap<(usize, String), usize>,
}

struct Node {
    name: String,
    is_host: bool,
    line: usize,
}

struct Cable {
    ends: [(usize, String); 2],
    rate: Rate,
    line: usize,
}

impl Cabling {
    /// A node, known or new.
    pub fn node(&mut self, name: &str, is_host: bool, line: usize) -> usize {
        if let Some(node) = self.by_name.get(name) {
            return *node;
        }
        self.by_name.insert(name.to_string(), self.nodes.len());
        self.nodes.push(Node {
            name: name.to_string(),
            is_host,
            line,
        });
        self.nodes.len() - 1
    }

    /// A cable between two ports of known nodes; the same cable reported again adds its rate where that was not known.
    pub fn cable(&mut self, ends: [(usize, String); 2], rate: Rate, line: usize) -> Result<(), TextError> {
        let known = ends.each_ref().map(|end| self.by_port.get(end).copied());
        match known {
            [None, None] if ends[0] != ends[1] => {
                for end in &ends {
                    self.by_port.insert(end.clone(), self.cables.len());
                }
                self.cables.push(Cable { ends, rate, line });
                Ok(())
            }
            [Some(one), Some(other)] if one == other => {
                let known = &mut self.cables[one].rate;
                if known.0 <= 0.0 {
                    *known = rate;
                }
                Ok(())
            }
            [known, other] => {
                let end = if known.is_some() { &ends[0] } else { &ends[1] };
                let first = known.or(other).map_or(line, |cable| self.cables[cable].line);
                Err(TextError::at(
                    line,
                    format!(
                        "port `{}/{}` holds two cables: this one and the one in line {first}",
                        self.nodes[end.0].name, end.1
                    ),
                ))
            }
        }
    }

    /// The topology that follows.
    pub fn topology(self) -> Topology {
        let heights = self.heights();
        let mut topology = Topology::default();
        let mut source = SourceLines::default();
        for (node, height) in self.nodes.iter().zip(&heights) {
            let name = node.name.clone();
            if node.is_host {
                topology.hosts.push(Host { name });
                source.hosts.push(node.line);
            } else {
                let tier = match height {
                    0 | 1 => Tier::Leaf,
                    2 => Tier::Spine,
                    _ => Tier::Core,
                };
                topology.switches.push(Switch {
                    name,
                    tier,
                    rail: None,
                    address: None,
                });
                source.switches.push(node.line);
            }
        }
        for cable in self.cables {
            let [mut lower, mut upper] = cable.ends;
            if heights[lower.0] > heights[upper.0] {
                std::mem::swap(&mut lower, &mut upper);
            }
            let port = |(node, interface): &(usize, String)| Port {
                node: self.nodes[*node].name.clone(),
                interface: interface.clone(),
            };
            topology.links.push(Link {
                name: format!("{}:{}", self.nodes[lower.0].name, lower.1),
                ends: [port(&lower), port(&upper)],
                rate: cable.rate,
                rail: None,
                addresses: None,
            });
            source.links.push(cable.line);
        }
        topology.source = source;
        topology
    }

    /// How many cables every node is from the nearest host; `usize::MAX` where no cables lead to a host.
    fn heights(&self) -> Vec<usize> {
        let mut neighbours: Vec<Vec<usize>> = vec![Vec::new(); self.nodes.len()];
        for cable in &self.cables {
            let [a, b] = [cable.ends[0].0, cable.ends[1].0];
            neighbours[a].push(b);
            neighbours[b].push(a);
        }
        let mut heights = vec![usize::MAX; self.nodes.len()];
        let hosts = (0..self.nodes.len()).filter(|node| self.nodes[*node].is_host);
        let mut queue: VecDeque<usize> = hosts.collect();
        queue.iter().for_each(|host| heights[*host] = 0);
        while let Some(node) = queue.pop_front() {
            for next in &neighbours[node] {
                if heights[*next] == usize::MAX {
                    heights[*next] = heights[node] + 1;
                    queue.push_back(*next);
                }
            }
        }
        heights
    }
}

/// A node's name with every character that names may not have replaced.
pub fn node_name(text: &str) -> String {
    as_name(text, LONGEST_NODE)
}

/// The same for a port.
pub fn port_name(text: &str) -> String {
    as_name(text, LONGEST_PORT)
}

fn as_name(text: &str, longest: usize) -> String {
    let legal = |c: char| match c.is_ascii_alphanumeric() || "-_.:".contains(c) {
        true => c,
        false => '-',
    };
    let name: String = text.trim().chars().map(legal).take(longest).collect();
    match name.is_empty() {
        true => "unnamed".to_string(),
        false => name,
    }
}
