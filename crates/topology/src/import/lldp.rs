//! LLDP neighbours as JSON: an object with, for every node, what `lldpcli -f json show neighbors` printed there.
//!
//! ```json
//! {"gpu001": {"lldp": {"interface": [{"eth2": {"chassis": {"leaf1": {}}, "port": {"id": {"type": "ifname", "value": "swp1"}}}}]}}}
//! ```
//!
//! Where the file has only hosts, every neighbour is a switch. Where it has switches as well, so that some nodes of the file are
//! neighbours of each other, a switch is a node that advertises bridging or routing.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::TextError;
use super::cabling::{Cabling, node_name, port_name};
use crate::Topology;
use crate::text_error::line_of;
use record::units::Rate;

/// One cable as one of its ends reports it.
pub struct Neighbour {
    /// The node that reports it.
    pub node: String,
    /// The interface there.
    pub interface: String,
    /// The node at the other end.
    pub other: String,
    /// The interface there.
    pub other_port: String,
    rate: Rate,
    /// Whether the other end advertises bridging or routing.
    forwards: bool,
}

pub fn read(text: &str) -> Result<Topology, TextError> {
    let file: BTreeMap<String, Value> =
        serde_json::from_str(text).map_err(|error| TextError::json(&error))?;
    let line_of = |name: &str| {
        let quoted = Value::from(name).to_string();
        line_of(text, text.find(&quoted).unwrap_or_default())
    };
    let mut neighbours = Vec::new();
    for (node, printed) in &file {
        let seen = neighbours_of(node, printed);
        neighbours
            .extend(seen.map_err(|problem| TextError::at(line_of(node), format!("`{node}`: {problem}")))?);
    }
    let listed_nodes: BTreeSet<String> = file.keys().map(|name| node_name(name)).collect();
    for neighbour in &mut neighbours {
        if let Some(listed) = listed_nodes
            .iter()
            .find(|name| is_same_node(name, &neighbour.other))
        {
            neighbour.other = listed.clone();
        }
    }
    // Two hosts are never neighbours of each other.
    let only_hosts_are_listed = !neighbours.iter().any(|seen| listed_nodes.contains(&seen.other));
    let forwarding: BTreeSet<String> = neighbours
        .iter()
        .filter(|seen| seen.forwards)
        .map(|seen| seen.other.clone())
        .collect();
    let is_host =
        |name: &String| listed_nodes.contains(name) && (only_hosts_are_listed || !forwarding.contains(name));
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

/// Whether two names belong to one node; one of them may lack the domain.
fn is_same_node(one: &str, other: &str) -> bool {
    let short = |name: &str| name.split('.').next().unwrap_or_default().to_string();
    let is_word = |name: &str| name.contains(|c: char| c.is_ascii_alphabetic()) && !name.contains(':');
    one == other || (is_word(one) && is_word(other) && (one == short(other) || short(one) == other))
}

/// What `lldpcli -f json show neighbors` printed on a node.
pub fn neighbours_of(node: &str, printed: &Value) -> Result<Vec<Neighbour>, String> {
    let lldp = printed
        .get("lldp")
        .ok_or("`lldp` is missing; expected the output of `lldpcli -f json show neighbors`")?;
    let mut neighbours = Vec::new();
    for (interface, seen) in named(lldp.get("interface")) {
        let chassis = seen.get("chassis").and_then(Value::as_object);
        // A neighbour without a name has only an id.
        let (other, about) =
            match chassis.and_then(|chassis| chassis.iter().find(|(_, about)| about.is_object())) {
                Some((name, about)) if name != "id" => (name.clone(), about.as_object()),
                _ => {
                    let id = chassis.and_then(|chassis| chassis.get("id")?.get("value")?.as_str());
                    let id =
                        id.ok_or_else(|| format!("the neighbour at `{interface}` has neither name nor id"))?;
                    (id.to_string(), chassis)
                }
            };
        let port = seen.get("port").and_then(Value::as_object);
        let port = port.ok_or_else(|| format!("the neighbour at `{interface}` does not name its port"))?;
        let other_port = port_of(port);
        let other_port =
            other_port.ok_or_else(|| format!("the neighbour at `{interface}` does not name its port"))?;
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

/// The speed that the far end advertises: `100GbaseCR4 - ...`, `1000BaseTFD - ...`.
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
