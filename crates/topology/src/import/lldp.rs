//! LLDP neighbours as JSON: an object with, for every node, what `lldpcli -f json show neighbors` printed there.
//!
//! ```json
//! {"gpu001": {"lldp": {"interface": [{"eth2": {"chassis": {"leaf1": {}}, "port": {"id": {"type": "ifname", "value": "swp1"}}}}]}}}
//! ```
//!
//! Where only hosts were asked, whoever else is named is a switch. Where switches were asked as well, so that some of those asked
//! see each other, a switch is whoever is seen to bridge or to route.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::Trouble;
use super::cabling::{Cabling, node_name, port_name};
use crate::Topology;
use crate::trouble::line_of;
use record::units::Rate;

/// One cable as one of its ends sees it.
pub struct Neighbour {
    /// Who sees it.
    pub node: String,
    /// At which of its interfaces.
    pub interface: String,
    /// Who is at the other end.
    pub other: String,
    /// The interface there.
    pub other_port: String,
    rate: Rate,
    /// Whether the other end bridges or routes.
    forwards: bool,
}

pub fn read(text: &str) -> Result<Topology, Trouble> {
    let file: BTreeMap<String, Value> =
        serde_json::from_str(text).map_err(|error| Trouble::of_json(&error))?;
    let line_of = |name: &str| {
        let quoted = Value::from(name).to_string();
        line_of(text, text.find(&quoted).unwrap_or_default())
    };
    let mut neighbours = Vec::new();
    for (node, printed) in &file {
        let seen = neighbours_of(node, printed);
        neighbours
            .extend(seen.map_err(|problem| Trouble::at(line_of(node), format!("`{node}`: {problem}")))?);
    }
    let asked: BTreeSet<String> = file.keys().map(|name| node_name(name)).collect();
    for seen in &mut neighbours {
        if let Some(full_or_short) = asked.iter().find(|name| is_same_node(name, &seen.other)) {
            seen.other = full_or_short.clone();
        }
    }
    // Hosts are never each other's neighbours.
    let only_hosts_were_asked = !neighbours.iter().any(|seen| asked.contains(&seen.other));
    let forwarding: BTreeSet<String> = neighbours
        .iter()
        .filter(|seen| seen.forwards)
        .map(|seen| seen.other.clone())
        .collect();
    let is_host =
        |name: &String| asked.contains(name) && (only_hosts_were_asked || !forwarding.contains(name));
    let mut cabling = Cabling::default();
    for seen in &neighbours {
        let line = line_of(&seen.node);
        let ends = [
            (
                cabling.node(&seen.node, is_host(&seen.node), line),
                seen.interface.clone(),
            ),
            (
                cabling.node(&seen.other, is_host(&seen.other), line),
                seen.other_port.clone(),
            ),
        ];
        cabling.cable(ends, seen.rate, line)?;
    }
    Ok(cabling.topology())
}

/// Whether two names are one node's, one of them perhaps without its domain.
fn is_same_node(one: &str, other: &str) -> bool {
    let short = |name: &str| name.split('.').next().unwrap_or_default().to_string();
    let is_word = |name: &str| name.contains(|c: char| c.is_ascii_alphabetic()) && !name.contains(':');
    one == other || (is_word(one) && is_word(other) && (one == short(other) || short(one) == other))
}

/// What `lldpcli -f json show neighbors` printed on a node.
pub fn neighbours_of(node: &str, printed: &Value) -> Result<Vec<Neighbour>, String> {
    let lldp = printed
        .get("lldp")
        .ok_or("there is no `lldp`: give what `lldpcli -f json show neighbors` prints")?;
    let mut neighbours = Vec::new();
    for (interface, seen) in named(lldp.get("interface")) {
        let chassis = seen.get("chassis").and_then(Value::as_object);
        // A neighbour without a name has only an id; that it is there is worth knowing all the same.
        let (other, about) = match chassis
            .and_then(|chassis| chassis.iter().find(|(_, about)| about.is_object()))
        {
            Some((name, about)) if name != "id" => (name.clone(), about.as_object()),
            _ => {
                let id = chassis.and_then(|chassis| chassis.get("id")?.get("value")?.as_str());
                let id = id.ok_or_else(|| format!("`{interface}` has a neighbour without name and id"))?;
                (id.to_string(), chassis)
            }
        };
        let port = seen.get("port").and_then(Value::as_object);
        let port = port.ok_or_else(|| format!("the neighbour at `{interface}` does not say its port"))?;
        let other_port = port_of(port);
        let other_port =
            other_port.ok_or_else(|| format!("the neighbour at `{interface}` does not say its port"))?;
        neighbours.push(Neighbour {
            node: node_name(node),
            interface: port_name(interface),
            other: node_name(&other),
            other_port: port_name(&other_port),
            rate: rate_of(port).unwrap_or(Rate(0.0)),
            forwards: about.is_some_and(forwards),
        });
    }
    Ok(neighbours)
}

/// The entries of an object, or of all objects of a list: lldpcli prints a list when there are several.
fn named(value: Option<&Value>) -> Vec<(&String, &Value)> {
    match value {
        Some(Value::Object(entries)) => entries.iter().collect(),
        Some(Value::Array(list)) => list.iter().filter_map(Value::as_object).flatten().collect(),
        _ => Vec::new(),
    }
}

/// The interface at the far end: its id when that is a name, else its description.
fn port_of(port: &Map<String, Value>) -> Option<String> {
    let id = port.get("id");
    let field = |name: &str| id.and_then(|id| id.get(name)?.as_str());
    let described = port.get("descr").and_then(Value::as_str);
    let name = match field("type") {
        Some("ifname" | "local" | "ifalias") => field("value").or(described),
        _ => described.or(field("value")),
    };
    name.map(String::from)
}

/// The speed that the far end says it has: `100GbaseCR4 - ...`, `1000BaseTFD - ...`.
fn rate_of(port: &Map<String, Value>) -> Option<Rate> {
    let current = port
        .get("auto-negotiation")?
        .get("current")?
        .as_str()?
        .to_ascii_lowercase();
    let (speed, _) = current.split_once("base")?;
    let (digits, scale) = match speed.strip_suffix('g') {
        Some(digits) => (digits, 125e6),
        None => (speed, 125e3),
    };
    let value: u32 = digits
        .parse()
        .ok()
        .filter(|value| (1..=100_000).contains(value))?;
    Some(Rate(f64::from(value) * scale))
}

fn forwards(chassis: &Map<String, Value>) -> bool {
    let one = |capability: &Value| {
        let is_switching = matches!(
            capability.get("type").and_then(Value::as_str),
            Some("Bridge" | "Router")
        );
        is_switching && capability.get("enabled").and_then(Value::as_bool) == Some(true)
    };
    match chassis.get("capability") {
        Some(Value::Array(list)) => list.iter().any(one),
        Some(single) => one(single),
        None => false,
    }
}
