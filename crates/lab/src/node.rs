//! The nodes of a lab: hosts, the leaves and spines of each rail, and the management switch.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// One namespace of a lab.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Node {
    /// A host: `h0`.
    Host(u16),
    /// A leaf switch: `rail0-leaf1`.
    Leaf {
        /// Rail it belongs to.
        rail: u16,
        /// Its number in that rail.
        leaf: u16,
    },
    /// A spine switch: `rail0-spine1`.
    Spine {
        /// Rail it belongs to.
        rail: u16,
        /// Its number in that rail.
        spine: u16,
    },
    /// The management switch: `mgmt`.
    Management,
}

/// A text that is not the name of a node.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not the name of a node; write it like h0, rail0-leaf1 or rail0-spine0")]
pub struct NotANode(String);

impl Node {
    /// Whether it forwards packets of a rail.
    pub fn is_switch(self) -> bool {
        matches!(self, Node::Leaf { .. } | Node::Spine { .. })
    }
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Node::Host(host) => f.pad(&format!("h{host}")),
            Node::Leaf { rail, leaf } => f.pad(&format!("rail{rail}-leaf{leaf}")),
            Node::Spine { rail, spine } => f.pad(&format!("rail{rail}-spine{spine}")),
            Node::Management => f.pad("mgmt"),
        }
    }
}

impl FromStr for Node {
    type Err = NotANode;

    fn from_str(text: &str) -> Result<Node, NotANode> {
        let bad = || NotANode(text.chars().take(40).collect());
        if text == "mgmt" {
            return Ok(Node::Management);
        }
        if let Some(host) = text.strip_prefix('h') {
            return number(host).map(Node::Host).ok_or_else(bad);
        }
        let (rail, switch) = text.split_once('-').ok_or_else(bad)?;
        let rail = rail.strip_prefix("rail").and_then(number).ok_or_else(bad)?;
        if let Some(leaf) = switch.strip_prefix("leaf") {
            return number(leaf).map(|leaf| Node::Leaf { rail, leaf }).ok_or_else(bad);
        }
        let spine = switch.strip_prefix("spine").and_then(number).ok_or_else(bad)?;
        Ok(Node::Spine { rail, spine })
    }
}

impl TryFrom<String> for Node {
    type Error = NotANode;
    fn try_from(text: String) -> Result<Node, NotANode> {
        text.parse()
    }
}

impl From<Node> for String {
    fn from(node: Node) -> String {
        node.to_string()
    }
}

/// A number written the one way numbers in names are: digits, no leading zero.
fn number(text: &str) -> Option<u16> {
    let number: u16 = text.parse().ok()?;
    (number.to_string() == text).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_node_is_found_again_by_its_name() {
        let nodes = [
            Node::Host(17),
            Node::Leaf { rail: 1, leaf: 0 },
            Node::Spine { rail: 0, spine: 12 },
            Node::Management,
        ];
        for node in nodes {
            assert_eq!(node.to_string().parse(), Ok(node));
        }
    }

    #[test]
    fn a_name_written_in_two_ways_would_be_two_namespaces() {
        for text in [
            "h",
            "h00",
            "h+1",
            "h-1",
            "rail0",
            "rail0-",
            "rail00-leaf0",
            "rail0-leaf",
            "rail0-core0",
            "leaf0",
            "",
        ] {
            assert!(text.parse::<Node>().is_err(), "{text:?}");
        }
    }
}
