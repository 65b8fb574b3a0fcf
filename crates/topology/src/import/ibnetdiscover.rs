//! What `ibnetdiscover` prints: every switch and every channel adapter of an InfiniBand subnet with its cables.
//!
//! ```text
//! Switch  36 "S-0002c90200423e70"         # "MF0;leaf1:SX6036/U1" enhanced port 0 lid 3 lmc 0
//! [1]     "H-0002c903000e0b72"[1](2c903000e0b73)          # "gpu001 mlx5_0" lid 4 4xNDR
//! ```
//!
//! How nodes are named is said in [`Subnet`].

use std::collections::HashMap;

use super::TextError;
use super::cabling::{node_name, port_name};
use crate::Topology;
use crate::subnet::Subnet;
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
    guid: u64,
    is_host: bool,
    description: &'t str,
    /// LID and LMC of a switch; of an adapter each port has its own.
    lids: Option<(u16, u8)>,
    cables: Vec<DescribedPort<'t>>,
}

/// A port and what is at its other end.
struct DescribedPort<'t> {
    line: usize,
    port: u8,
    lids: Option<(u16, u8)>,
    other: &'t str,
    other_port: u8,
    rate: Rate,
}

pub fn read(text: &str) -> Result<Topology, TextError> {
    subnet(text)?.topology()
}

/// The nodes, cables and LIDs of a text.
pub fn subnet(text: &str) -> Result<Subnet, TextError> {
    let described = descriptions(text)?;
    let mut subnet = Subnet::default();
    let mut numbers: HashMap<&str, usize> = HashMap::new();
    for node in &described {
        let number = subnet.add_node(node.guid, node.description, !node.is_host, node.line);
        numbers.insert(node.id, number);
    }
    for node in &described {
        let number = numbers[node.id];
        let of_ports = node
            .cables
            .iter()
            .filter_map(|cable| Some((cable.line, cable.port, cable.lids?)));
        let of_switch = node.lids.map(|lids| (node.line, 0, lids));
        for (line, port, (lid, lmc)) in of_switch.into_iter().chain(of_ports.filter(|_| node.is_host)) {
            if !subnet.add_lids((number, port), lid, lmc) {
                return Err(TextError::at(line, format!("LID {lid} belongs to two ports")));
            }
        }
        for cable in &node.cables {
            let Some(other) = numbers.get(cable.other) else {
                let message = format!(
                    "port {} of `{}` leads to `{}`, which the file does not describe; is the file complete?",
                    cable.port,
                    subnet.names()[number].0,
                    shown(cable.other)
                );
                return Err(TextError::at(cable.line, message));
            };
            // Contradictions are found when the topology is made of it.
            subnet.add_cable(
                [(number, cable.port), (*other, cable.other_port)],
                cable.rate,
                cable.line,
            );
        }
    }
    Ok(subnet)
}

/// Whether an adapter is one inside a switch.
pub fn is_aggregation(description: &str) -> bool {
    description.contains(AGGREGATION)
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
        let guid = guid_of(id).ok_or_else(|| bad("not the GUID of a switch or an adapter"))?;
        if described.iter().any(|node| node.guid == guid) {
            return Err(bad("described twice"));
        }
        described.push(DescribedNode {
            line: number,
            id,
            guid,
            is_host,
            lids: if is_host { None } else { lids_of(comment) },
            description: quoted(comment).unwrap_or_default().trim(),
            cables: Vec::new(),
        });
    }
    Ok(described)
}

/// `[19] "S-0002c9020048d3a0"[20] # "leaf2" lid 5 4xNDR`; of an adapter with its own LID first:
/// `[1](2c903000e0b73) "S-0002c90200423e70"[1] # lid 4 lmc 0 "leaf1" lid 3 4xNDR`.
fn described_port(line: usize, text: &str) -> Option<DescribedPort<'_>> {
    let (port, rest) = bracketed(text)?;
    let (wired, comment) = rest.split_once('#').unwrap_or((rest, ""));
    let other = quoted(wired)?;
    let after = &wired[wired.rfind('"')? + 1..];
    let (other_port, _) = bracketed(after)?;
    let speed = comment.split_whitespace().rev().find_map(rate_of);
    let before_other = comment.split_once('"').map_or("", |(own, _)| own);
    Some(DescribedPort {
        line,
        port,
        lids: lids_of(before_other),
        other,
        other_port,
        rate: speed.unwrap_or(Rate(0.0)),
    })
}

/// The number in brackets that a text begins with, and the rest.
fn bracketed(text: &str) -> Option<(u8, &str)> {
    let (number, rest) = text.strip_prefix('[')?.split_once(']')?;
    let fits = number.bytes().all(|byte| byte.is_ascii_digit());
    Some((number.parse().ok().filter(|_| fits)?, rest))
}

/// The LID and LMC of `... lid 4 lmc 0 ...`; an LMC that is not written is 0.
fn lids_of(text: &str) -> Option<(u16, u8)> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let after = |word: &str| {
        words
            .iter()
            .position(|other| *other == word)
            .and_then(|place| words.get(place + 1))
    };
    let lid: u16 = after("lid")?.parse().ok()?;
    let lmc = after("lmc").and_then(|lmc| lmc.parse().ok()).unwrap_or(0);
    Some((lid, lmc)).filter(|(lid, _)| *lid != 0)
}

/// The GUID in `S-0002c9020048d3a0`.
fn guid_of(id: &str) -> Option<u64> {
    let digits = id.strip_prefix("S-").or_else(|| id.strip_prefix("H-"))?;
    u64::from_str_radix(digits, 16).ok()
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
    let is_hosts = !is_aggregation(description);
    is_hosts.then(|| (node_name(host), port_name(adapter)))
}

fn shown(text: &str) -> String {
    text.chars().take(60).flat_map(char::escape_default).collect()
}
