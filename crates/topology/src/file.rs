//! Topology files: which cable joins which ports, and how fast it should be.
//!
//! Parsed, then checked: every link ends at a known node, no port holds two cables, no name or address is used twice.
//! Writing a topology and reading it again yields the same topology. Where in the file a part stands is kept, so that
//! whatever contradicts it later ([`graph`](super::graph)) can be shown.
//!
//! ```toml
//! [[host]]
//! name = "h1"
//! [[switch]]
//! name = "rail0-leaf0"
//! tier = "leaf"
//! rail = "rail0"
//! [[link]]
//! name = "h1-rail0-leaf0"
//! ends = ["h1/rail0", "rail0-leaf0/p1"]
//! rate = "200 Mb/s"
//! rail = "rail0"
//! addresses = ["10.0.0.6", "10.0.0.5"]
//! ```

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::path::Path;

use serde::{Deserialize, Serialize};
use toml::Spanned;

use super::import;
use super::trouble::Lines;
use record::units::Rate;

/// Largest file that is read.
const LARGEST_FILE: u64 = 16 << 20;
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
    /// Whether all of this is there once for every rail of a run.
    pub each_rail: bool,
    /// Where in a file they stand.
    pub places: Places,
}

/// Where the parts of a topology stand in the file it was read from. Two topologies are the same wherever they stand.
#[derive(Debug, Clone, Default)]
pub struct Places {
    /// The file; empty when there is none.
    pub origin: String,
    /// Lines of the hosts, in their order, counted from 1; empty when not known.
    pub hosts: Vec<usize>,
    /// Lines of the switches.
    pub switches: Vec<usize>,
    /// Lines of the links.
    pub links: Vec<usize>,
}

impl PartialEq for Places {
    fn eq(&self, _: &Places) -> bool {
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
}

/// How far a switch is from the hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tier {
    /// Hosts are plugged into it.
    Leaf,
    /// Joins leaves.
    Spine,
    /// Joins spines.
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
    /// The two ports it joins.
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

/// The file as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    each_rail: bool,
    #[serde(default)]
    host: Vec<Spanned<Host>>,
    #[serde(default)]
    switch: Vec<Spanned<Switch>>,
    #[serde(default)]
    link: Vec<Spanned<Link>>,
}

/// The same for writing.
#[derive(Serialize)]
struct Written<'t> {
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    each_rail: bool,
    host: &'t [Host],
    switch: &'t [Switch],
    link: &'t [Link],
}

impl Topology {
    /// Reads and checks a file.
    pub fn read(path: &Path) -> Result<Topology, TopologyError> {
        let origin = path.display().to_string();
        let trouble = |message: String| TopologyError {
            origin: origin.clone(),
            line: None,
            message,
        };
        let size = std::fs::metadata(path)
            .map_err(|error| trouble(error.to_string()))?
            .len();
        if size > LARGEST_FILE {
            return Err(trouble(format!("{size} bytes are too many for a topology")));
        }
        let text = std::fs::read_to_string(path).map_err(|error| trouble(error.to_string()))?;
        Topology::parse(&origin, &text)
    }

    /// Parses and checks a text that came from `origin`: our own format, or that of another program.
    pub fn parse(origin: &str, text: &str) -> Result<Topology, TopologyError> {
        if let Some(imported) = import::read(origin, text) {
            return imported;
        }
        let lines = Lines::of(text);
        let line_of = |offset: usize| lines.line(offset);
        let trouble = |at: Option<usize>, message: String| TopologyError {
            origin: origin.to_string(),
            line: at.map(line_of),
            message,
        };
        let file: File = toml::from_str(text).map_err(|error| {
            let message = error.message().lines().collect::<Vec<_>>().join("; ");
            trouble(error.span().map(|span| span.start), message)
        })?;
        check(&file).map_err(|(at, message)| trouble(Some(at), message))?;
        let places = Places {
            origin: origin.to_string(),
            hosts: file.host.iter().map(|host| line_of(host.span().start)).collect(),
            switches: file
                .switch
                .iter()
                .map(|switch| line_of(switch.span().start))
                .collect(),
            links: file.link.iter().map(|link| line_of(link.span().start)).collect(),
        };
        Ok(Topology {
            hosts: file.host.into_iter().map(Spanned::into_inner).collect(),
            switches: file.switch.into_iter().map(Spanned::into_inner).collect(),
            links: file.link.into_iter().map(Spanned::into_inner).collect(),
            each_rail: file.each_rail,
            places,
        })
    }

    /// As a file.
    pub fn to_toml(&self) -> String {
        let written = Written {
            each_rail: self.each_rail,
            host: &self.hosts,
            switch: &self.switches,
            link: &self.links,
        };
        toml::to_string(&written).unwrap_or_default()
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

/// The first thing that is wrong: the byte where, and what.
fn check(file: &File) -> Result<(), (usize, String)> {
    let mut nodes: HashMap<&str, ()> = HashMap::new();
    let hosts = file
        .host
        .iter()
        .map(|host| (host.span().start, host.get_ref().name.as_str()));
    let switches = file
        .switch
        .iter()
        .map(|switch| (switch.span().start, switch.get_ref().name.as_str()));
    for (at, name) in hosts.chain(switches) {
        check_name(name).map_err(|why| (at, why))?;
        if nodes.insert(name, ()).is_some() {
            return Err((at, format!("two nodes are called `{name}`")));
        }
    }
    let mut links: HashMap<&str, ()> = HashMap::new();
    let mut ports: HashMap<&Port, &str> = HashMap::new();
    let mut addresses: HashMap<IpAddr, &Port> = HashMap::new();
    for spanned in &file.link {
        let (at, link) = (spanned.span().start, spanned.get_ref());
        check_name(&link.name).map_err(|why| (at, why))?;
        if links.insert(&link.name, ()).is_some() {
            return Err((at, format!("two links are called `{}`", link.name)));
        }
        for end in &link.ends {
            if !nodes.contains_key(end.node.as_str()) {
                let message = format!(
                    "link `{}` ends at `{end}`, but there is no host or switch `{}`",
                    link.name, end.node
                );
                return Err((at, message));
            }
            if let Some(other) = ports.insert(end, &link.name) {
                return Err((
                    at,
                    format!("port `{end}` holds two links: `{other}` and `{}`", link.name),
                ));
            }
        }
        for (end, address) in link.ends.iter().zip(link.addresses.iter().flatten()) {
            if let Some(other) = addresses.insert(*address, end) {
                return Err((
                    at,
                    format!("`{other}` and `{end}` both have the address {address}"),
                ));
            }
        }
    }
    Ok(())
}

fn check_name(name: &str) -> Result<(), String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_.:".contains(c);
    if name.is_empty() || name.len() > LONGEST_NAME || !name.chars().all(fits) {
        let shown: String = name
            .chars()
            .take(LONGEST_NAME)
            .flat_map(char::escape_default)
            .collect();
        return Err(format!(
            "`{shown}` is not a name: 1 to {LONGEST_NAME} letters, digits, `-`, `_`, `.` and `:`"
        ));
    }
    Ok(())
}

impl fmt::Display for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}/{}", self.node, self.interface))
    }
}

impl TryFrom<String> for Port {
    type Error = String;

    fn try_from(text: String) -> Result<Port, String> {
        let (node, interface) = text
            .split_once('/')
            .ok_or_else(|| format!("`{}` is not a port; write NODE/INTERFACE", text.escape_default()))?;
        check_name(node)?;
        check_name(interface)?;
        Ok(Port {
            node: node.to_string(),
            interface: interface.to_string(),
        })
    }
}

impl From<Port> for String {
    fn from(port: Port) -> String {
        port.to_string()
    }
}

/// Rates as people write them, such that reading them yields the same rate.
mod written_rate {
    use super::*;

    pub fn serialize<S: serde::Serializer>(rate: &Rate, serializer: S) -> Result<S::Ok, S::Error> {
        let ways = [(8e-9, "Gb/s"), (8e-6, "Mb/s"), (8e-3, "kb/s")];
        let exact = ways
            .iter()
            .map(|(scale, unit)| format!("{} {unit}", rate.0 * scale))
            .find(|text| text.len() < 14 && !text.starts_with("0.") && text.parse() == Ok(*rate));
        serializer.serialize_str(&exact.unwrap_or_else(|| format!("{} B/s", rate.0)))
    }

    pub fn deserialize<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Rate, D::Error> {
        let text = String::deserialize(deserializer)?;
        let rate: Rate = text.parse().map_err(serde::de::Error::custom)?;
        if rate.0 <= 0.0 {
            return Err(serde::de::Error::custom("a link has a rate above zero"));
        }
        Ok(rate)
    }
}

#[cfg(test)]
#[path = "file_tests.rs"]
mod tests;
