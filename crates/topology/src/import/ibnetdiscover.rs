//! What `ibnetdiscover` prints: every switch and every channel adapter of an InfiniBand subnet with its cables.
//!
//! ```text
//! Switch  36 "S-0002c90200423e70"         # "MF0;leaf1:SX6036/U1" enhanced port 0 lid 3 lmc 0
//! [1]     "H-0002c903000e0b72"[1](2c903000e0b73)          # "gpu001 mlx5_0" lid 4 4xNDR
//! ```
//!
//! A host is the first word of its adapter's description and its port the second, as the drivers describe themselves
//! (`gpu001 mlx5_0`). A switch has the name in its description where that is unique, else its GUID. In-network
//! aggregation nodes are not hosts.

use std::collections::HashMap;

use super::TextError;
use super::cabling::{Cabling, node_name, port_name};
use crate::Topology;
use record::units::Rate;

/// Gb/s of one lane, by the name of the speed.
const LANES: &[(&str, f64)] = &[
    ("SDR", 2.5),
    ("DDR", 5.0),
    ("QDR", 10.0),
    ("FDR10", 10.0),
    ("FDR", 14.0),
    ("EDR", 25.0),
    ("HDR", 50.0),
    ("NDR", 100.0),
    ("XDR", 200.0),
];

/// The description of adapters inside switches, which reduce in the network.
const AGGREGATION: &str = "Aggregation Node";

/// A switch or an adapter, and its cables.
struct DescribedNode<'t> {
    line: usize,
    id: &'t str,
    is_host: bool,
    description: &'t str,
    cables: Vec<DescribedPort<'t>>,
}

/// A port and what is at its other end.
struct DescribedPort<'t> {
    line: usize,
    port: u32,
    other: &'t str,
    other_port: u32,
    rate: Rate,
}

pub fn read(text: &str) -> Result<Topology, TextError> {
    let described = descriptions(text)?;
    let names = names_of(&described);
    let mut cabling = Cabling::default();
    let by_id: HashMap<&str, &DescribedNode<'_>> = described.iter().map(|node| (node.id, node)).collect();
    for node in &described {
        for cable in &node.cables {
            let Some(other) = by_id.get(cable.other) else {
                let message = format!(
                    "port {} of `{}` leads to `{}`, which the file does not describe; is the file complete?",
                    cable.port,
                    names[node.id].0,
                    shown(cable.other)
                );
                return Err(TextError::at(cable.line, message));
            };
            if is_aggregation(node) || is_aggregation(other) || (node.is_host && other.is_host) {
                continue;
            }
            let mut end = |node: &DescribedNode<'_>, port: u32| {
                let (name, adapter) = &names[node.id];
                (
                    cabling.node(name, node.is_host, node.line),
                    port_of(adapter.as_deref(), port),
                )
            };
            let ends = [end(node, cable.port), end(other, cable.other_port)];
            cabling.cable(ends, cable.rate, cable.line)?;
        }
    }
    Ok(cabling.topology())
}

/// Ports of switches are numbered; the first port of an adapter has the adapter's name.
fn port_of(adapter: Option<&str>, port: u32) -> String {
    match (adapter, port) {
        (None, port) => format!("p{port}"),
        (Some(adapter), 1) => port_name(adapter),
        (Some(adapter), port) => port_name(&format!("{adapter}:{port}")),
    }
}

fn is_aggregation(node: &DescribedNode<'_>) -> bool {
    node.is_host && node.description.contains(AGGREGATION)
}

fn descriptions(text: &str) -> Result<Vec<DescribedNode<'_>>, TextError> {
    let mut described: Vec<DescribedNode<'_>> = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        let bad = |what: &str| TextError::at(number, format!("{what}: `{}`", shown(line)));
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if line.starts_with('[') {
            let Some(node) = described.last_mut() else {
                return Err(bad("a port before the first switch or adapter"));
            };
            node.cables
                .push(described_port(number, line).ok_or_else(|| bad("not a port and its cable"))?);
            continue;
        }
        let kind = line.split_whitespace().next().unwrap_or_default();
        let is_host = match kind {
            "Switch" => false,
            "Ca" => true,
            // Routers join subnets; what is beyond them is not in this file.
            "Rt" => continue,
            key if key.contains('=') => continue,
            _ => return Err(bad("not a switch, an adapter or a port")),
        };
        let (declared, comment) = line.split_once('#').unwrap_or((line, ""));
        let id = quoted(declared).ok_or_else(|| bad("a name in quotes is missing"))?;
        if described.iter().any(|node| node.id == id) {
            return Err(bad("described twice"));
        }
        described.push(DescribedNode {
            line: number,
            id,
            is_host,
            description: quoted(comment).unwrap_or_default().trim(),
            cables: Vec::new(),
        });
    }
    Ok(described)
}

/// `[19] "S-0002c9020048d3a0"[20] # "leaf2" lid 5 4xNDR`.
fn described_port(line: usize, text: &str) -> Option<DescribedPort<'_>> {
    let (port, rest) = bracketed(text)?;
    let (wired, comment) = rest.split_once('#').unwrap_or((rest, ""));
    let other = quoted(wired)?;
    let after = &wired[wired.rfind('"')? + 1..];
    let (other_port, _) = bracketed(after)?;
    let speed = comment.split_whitespace().rev().find_map(rate_of);
    Some(DescribedPort {
        line,
        port,
        other,
        other_port,
        rate: speed.unwrap_or(Rate(0.0)),
    })
}

/// The number in brackets that a text begins with, and the rest.
fn bracketed(text: &str) -> Option<(u32, &str)> {
    let (number, rest) = text.strip_prefix('[')?.split_once(']')?;
    let fits = number.len() <= 4 && number.bytes().all(|byte| byte.is_ascii_digit());
    Some((number.parse().ok().filter(|_| fits)?, rest))
}

/// The first text in quotes.
fn quoted(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once('"')?;
    Some(rest.split_once('"')?.0)
}

/// `4xNDR` as a rate.
fn rate_of(word: &str) -> Option<Rate> {
    let (lanes, speed) = word.split_once('x')?;
    let lanes: u32 = lanes.parse().ok().filter(|lanes| (1..=16).contains(lanes))?;
    let (_, gbit) = LANES.iter().find(|(name, _)| *name == speed)?;
    Some(Rate(f64::from(lanes) * gbit * 125e6))
}

/// The name of every node, and of the adapter for hosts, by id.
fn names_of<'t>(described: &[DescribedNode<'t>]) -> HashMap<&'t str, (String, Option<String>)> {
    let mut uses: HashMap<String, usize> = HashMap::new();
    for node in described.iter().filter(|node| !node.is_host) {
        *uses.entry(switch_name(node)).or_default() += 1;
    }
    let hosts = described.iter().filter(|node| node.is_host);
    let hosts: Vec<String> = hosts.map(|node| host_name(node).0).collect();
    let name = |node: &DescribedNode<'t>| match node.is_host {
        true => {
            let (host, adapter) = host_name(node);
            (host, Some(adapter))
        }
        false => {
            let name = switch_name(node);
            let is_unique = uses.get(&name) == Some(&1) && !hosts.contains(&name);
            (if is_unique { name } else { node_name(node.id) }, None)
        }
    };
    described.iter().map(|node| (node.id, name(node))).collect()
}

/// Host and adapter: `gpu001 mlx5_0`. An adapter without a name in its description has its GUID.
fn host_name(node: &DescribedNode<'_>) -> (String, String) {
    let mut words = node.description.split_whitespace();
    let host = words.next().unwrap_or(node.id);
    let adapter = words.next().unwrap_or(node.id);
    (node_name(host), adapter.to_string())
}

fn switch_name(node: &DescribedNode<'_>) -> String {
    name_in_description(node.description).unwrap_or_else(|| node_name(node.id))
}

/// `leaf1` of `MF0;leaf1:SX6036/U1`; none when a description has no name.
pub fn name_in_description(description: &str) -> Option<String> {
    let text = description.strip_prefix("MF0;").unwrap_or(description);
    let text = text.split(':').next().unwrap_or(text);
    (!text.trim().is_empty()).then(|| node_name(text))
}

/// Host and adapter of `gpu001 mlx5_0`; none when a description lacks one of them, and for adapters inside switches.
pub fn adapter_in_description(description: &str) -> Option<(String, String)> {
    let mut words = description.split_whitespace();
    let (host, adapter) = (words.next()?, words.next()?);
    let is_hosts = !description.contains(AGGREGATION);
    is_hosts.then(|| (node_name(host), port_name(adapter)))
}

fn shown(text: &str) -> String {
    text.chars().take(60).flat_map(char::escape_default).collect()
}
