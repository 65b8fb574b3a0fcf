//! What nodes and switches are made of: parts, and what is known of each.
//!
//! Every part is written down the same way, so that whatever compares them need not know what they are: a class, a name, and
//! facts by name. A fact that could not be read says why and what it would take; one that the machine does not have is absent.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, VariantNames};

/// What a part is.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    Display,
    EnumString,
    VariantNames,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum PartClass {
    /// The machine as a whole: firmware, kernel, libraries.
    Host,
    /// A NIC or its RDMA device.
    Nic,
    /// A port of one.
    Port,
    /// A network interface.
    Interface,
    /// What is plugged into a port.
    Module,
    /// A GPU.
    Gpu,
    /// A device's place on the PCI bus.
    Pci,
    /// A switch.
    Switch,
    /// A cable between two ports.
    Cable,
}

/// What is known of one property of a part.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Fact {
    /// As the machine says it.
    Value(String),
    /// The machine may have it, and it could not be read.
    Unreadable {
        /// Why.
        why: String,
        /// The privilege that it takes, when it is that.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        needs: Option<String>,
    },
    /// The machine does not have it.
    Absent,
}

impl Fact {
    /// The value, when it is known.
    pub fn value(&self) -> Option<&str> {
        match self {
            Fact::Value(value) => Some(value),
            Fact::Unreadable { .. } | Fact::Absent => None,
        }
    }
}

/// One part of a node or switch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "Part"))]
pub struct InventoryPart {
    /// What it is.
    pub class: PartClass,
    /// Which of its kind on this node: `mlx5_0`, `mlx5_0/1`, `0000:17:00.0`.
    pub name: String,
    /// What is known of it.
    pub facts: BTreeMap<String, Fact>,
}

impl InventoryPart {
    /// A part of which nothing is known yet.
    pub fn new(class: PartClass, name: impl Into<String>) -> InventoryPart {
        InventoryPart {
            class,
            name: name.into(),
            facts: BTreeMap::new(),
        }
    }

    /// The same with one more fact.
    pub fn with(mut self, name: &str, fact: Fact) -> InventoryPart {
        self.facts.insert(name.to_string(), fact);
        self
    }

    /// The value of a fact, when it is known.
    pub fn value(&self, fact: &str) -> Option<&str> {
        self.facts.get(fact)?.value()
    }
}

/// A part of a node, by their names.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PartAt {
    /// Host or switch.
    pub node: String,
    /// The part there.
    pub part: String,
}

impl fmt::Display for PartAt {
    /// `node07/mlx5_3`; a part that is the node itself is not said twice.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.part == self.node {
            true => f.pad(&self.node),
            false => f.pad(&format!("{}/{}", self.node, self.part)),
        }
    }
}

/// Everything one node is made of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NodeInventory {
    /// Host or switch.
    pub node: String,
    /// Its parts, in order of class and name.
    pub parts: Vec<InventoryPart>,
}

impl NodeInventory {
    /// The part of that class and name.
    pub fn part(&self, class: PartClass, name: &str) -> Option<&InventoryPart> {
        self.parts
            .iter()
            .find(|part| part.class == class && part.name == name)
    }
}

/// A cable and what is at its ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Cable {
    /// Name, as the topology or whoever told of it calls it.
    pub name: String,
    /// Both ends: an interface, or a port of an RDMA device or switch.
    pub ends: [PartAt; 2],
    /// What is known of the cable itself: `vendor`, `part-number`, `serial`, `length`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub facts: BTreeMap<String, Fact>,
}

/// `inventory.json`: what the whole cluster is made of.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Inventory {
    /// Version of this format.
    pub schema: u32,
    /// Version of railgauge that wrote it.
    pub version: String,
    /// When, RFC 3339 in UTC.
    pub taken: String,
    /// Every host, in order.
    pub nodes: Vec<NodeInventory>,
    /// Every switch that somebody told of, in order of names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub switches: Vec<NodeInventory>,
    /// Every cable whose two ends are known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cables: Vec<Cable>,
    /// Sources that could not be read, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub troubles: Vec<String>,
}

impl Inventory {
    /// The host or switch of that name.
    pub fn node(&self, name: &str) -> Option<&NodeInventory> {
        let mut all = self.nodes.iter().chain(&self.switches);
        all.find(|node| node.node == name)
    }
}
