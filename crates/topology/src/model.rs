//! The topology of a cluster: hosts, switches, and the cable between each pair of ports with the rate it should carry.

use std::fmt;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use record::PortName;
use record::units::Rate;

/// Longest name of a node, an interface, a link.
const LONGEST_NAME: usize = 64;

/// Hosts, switches, and the links between them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Topology {
    /// Hosts.
    pub hosts: Vec<Host>,
    /// Switches.
    pub switches: Vec<Switch>,
    /// Cables.
    pub links: Vec<Link>,
    /// Where switches send packets, as far as forwarding tables say so. Switches without any use all shortest paths.
    pub forwarding: Vec<Forwarding>,
    /// Whether the file describes one rail and every rail of a run is wired like it.
    pub each_rail: bool,
    /// The lines of a file they were read from.
    pub source: SourceLines,
}

/// The lines of the file that a topology was read from, for errors. They do not count when topologies are compared.
#[derive(Debug, Clone, Default)]
pub struct SourceLines {
    /// The file; empty when there is none.
    pub origin: String,
    /// Lines of the hosts, in their order, counted from 1; empty when not known.
    pub hosts: Vec<usize>,
    /// Lines of the switches.
    pub switches: Vec<usize>,
    /// Lines of the links.
    pub links: Vec<usize>,
    /// Lines of the forwarding entries.
    pub forwarding: Vec<usize>,
}

impl PartialEq for SourceLines {
    fn eq(&self, _: &SourceLines) -> bool {
        true
    }
}

/// A host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Host {
    /// Its name, as it calls itself.
    pub name: String,
}

/// A switch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Switch {
    /// Its name.
    pub name: String,
    /// Its place in the fabric.
    pub tier: Tier,
    /// The rail it serves, when it serves one only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rail: Option<String>,
    /// Its own address, which no port has: switches whose ports have none answer traces with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<IpAddr>,
}

/// Which layer of the fabric a switch is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tier {
    /// Hosts connect to it.
    Leaf,
    /// Connects leaves.
    Spine,
    /// Connects spines.
    Core,
}

/// One end of a link: `h1/rail0`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Port {
    /// Host or switch.
    pub node: String,
    /// Interface or port there.
    pub interface: String,
}

/// A cable.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// Its name.
    pub name: String,
    /// The two ports it connects.
    pub ends: [Port; 2],
    /// What it should carry in each direction; 0 when that is not known.
    #[serde(default, with = "written_rate", skip_serializing_if = "is_unknown")]
    pub rate: Rate,
    /// The rail it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rail: Option<String>,
    /// The addresses of the two ports, by which a traced path is recognised.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub addresses: Option<[IpAddr; 2]>,
}

/// What a switch sends by one of its ports. Where several of its ports have the same target, it chooses among them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Forwarding {
    /// The port of the switch.
    pub port: Port,
    /// The ports of hosts that packets by it are for.
    pub to: Vec<Port>,
}

/// What is wrong with a topology file, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{origin}{}: {message}", .line.map(|line| format!(":{line}")).unwrap_or_default())]
pub struct TopologyError {
    /// The file.
    pub origin: String,
    /// Line, counted from 1; none when the file as a whole is meant.
    pub line: Option<usize>,
    /// What is wrong.
    pub message: String,
}

fn is_unknown(rate: &Rate) -> bool {
    rate.0 <= 0.0
}

impl Topology {
    /// Exchanges the upper ends of two cables, with the ports' addresses. None when one of them is not there.
    pub fn swap_cables(&mut self, one: &str, other: &str) -> Option<()> {
        let place = |name: &str| self.links.iter().position(|link| link.name == name);
        let (one, other) = (place(one)?, place(other)?);
        let upper = |link: usize| {
            let height = |end: &Port| {
                let switch = self.switches.iter().find(|switch| switch.name == end.node);
                switch.map(|switch| switch.tier)
            };
            let [first, second] = &self.links[link].ends;
            usize::from(height(second) > height(first))
        };
        let ends = [(one, upper(one)), (other, upper(other))];
        let ports = ends.map(|(link, end)| self.links[link].ends[end].clone());
        let addresses = ends.map(|(link, end)| self.links[link].addresses.map(|both| both[end]));
        for ((link, end), from) in ends.into_iter().zip([1, 0]) {
            let link = &mut self.links[link];
            link.ends[end] = ports[from].clone();
            match (&mut link.addresses, addresses[from]) {
                (Some(both), Some(address)) => both[end] = address,
                (addresses, _) => *addresses = None,
            }
        }
        Some(())
    }

    /// The ports of a host or switch, with their links, in the order of the file.
    pub fn ports_of<'t>(&'t self, node: &'t str) -> impl Iterator<Item = (&'t Port, &'t Link)> {
        let ends = self
            .links
            .iter()
            .flat_map(|link| link.ends.iter().map(move |end| (end, link)));
        ends.filter(move |(end, _)| end.node == node)
    }

    /// The link in a port.
    pub fn link_of(&self, node: &str, interface: &str) -> Option<&Link> {
        let is_it = |end: &Port| end.node == node && end.interface == interface;
        self.links.iter().find(|link| link.ends.iter().any(is_it))
    }

    /// What an interface of a host (or port of a switch) should carry, when the file says so.
    pub fn rate_of(&self, node: &str, interface: &str) -> Option<Rate> {
        let rate = self.link_of(node, interface).map(|link| link.rate);
        rate.filter(|rate| !is_unknown(rate))
    }
}

pub(super) fn check_name(name: &str) -> Result<(), String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_.:".contains(c);
    if name.is_empty() || name.len() > LONGEST_NAME || !name.chars().all(fits) {
        let shown: String = name
            .chars()
            .take(LONGEST_NAME)
            .flat_map(char::escape_default)
            .collect();
        return Err(format!(
            "`{shown}` is not a name; a name is 1 to {LONGEST_NAME} letters, digits, `-`, `_`, `.` or `:`"
        ));
    }
    Ok(())
}

impl Port {
    /// Its name as it is printed and recorded.
    pub fn name(&self) -> PortName<'_> {
        PortName {
            node: &self.node,
            port: &self.interface,
        }
    }
}

impl fmt::Display for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.name().to_string())
    }
}

impl TryFrom<String> for Port {
    type Error = String;

    fn try_from(text: String) -> Result<Port, String> {
        let PortName { node, port } = PortName::parse(&text)
            .ok_or_else(|| format!("`{}` is not a port; write NODE/INTERFACE", text.escape_default()))?;
        check_name(node)?;
        check_name(port)?;
        Ok(Port {
            node: node.to_string(),
            interface: port.to_string(),
        })
    }
}

impl From<Port> for String {
    fn from(port: Port) -> String {
        port.to_string()
    }
}

/// Rates with a unit; reading what was written yields the same rate.
mod written_rate {
    use super::*;

    pub fn serialize<S: serde::Serializer>(rate: &Rate, serializer: S) -> Result<S::Ok, S::Error> {
        let units = [(8e-9, "Gb/s"), (8e-6, "Mb/s"), (8e-3, "kb/s")];
        let exact = units
            .iter()
            .map(|(scale, unit)| format!("{} {unit}", rate.0 * scale))
            .find(|text| text.len() < 14 && !text.starts_with("0.") && text.parse() == Ok(*rate));
        serializer.serialize_str(&exact.unwrap_or_else(|| format!("{} B/s", rate.0)))
    }

    pub fn deserialize<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Rate, D::Error> {
        let text = String::deserialize(deserializer)?;
        let rate: Rate = text.parse().map_err(serde::de::Error::custom)?;
        if rate.0 <= 0.0 {
            return Err(serde::de::Error::custom("the rate of a link must be above 0"));
        }
        Ok(rate)
    }
}
