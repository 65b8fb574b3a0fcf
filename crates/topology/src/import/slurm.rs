//! Slurm's `topology.conf` (topology/tree).
//!
//! ```text
//! SwitchName=leaf1 Nodes=gpu[001-032]
//! SwitchName=spine Switches=leaf[1-4]
//! ```
//!
//! The file describes one tree without rails, ports and rates: every rail gets a copy of the tree.

use std::collections::HashMap;

use super::TextError;
use super::cabling::{Cabling, node_name};
use crate::Topology;
use crate::nodelist;
use record::units::Rate;

/// The name of a host's only port, until the rails are known.
const PORT: &str = "rail";

/// One line.
struct Declared {
    line: usize,
    name: String,
    nodes: Vec<String>,
    switches: Vec<String>,
}

pub(super) fn read(text: &str) -> Result<Topology, TextError> {
    let mut declared: Vec<Declared> = Vec::new();
    for (line, words) in logical_lines(text) {
        declared.extend(declarations(line, &words)?);
    }
    let mut lines: HashMap<&str, usize> = HashMap::new();
    for switch in &declared {
        if let Some(first) = lines.insert(&switch.name, switch.line) {
            let message = format!("switch `{}` is already in line {first}", switch.name);
            return Err(TextError::at(switch.line, message));
        }
    }
    check_loops(&declared)?;
    let mut cabling = Cabling::default();
    let mut leaf_of: HashMap<&str, (&str, usize)> = HashMap::new();
    for (index, switch) in declared.iter().enumerate() {
        let bad = |message: String| Err(TextError::at(switch.line, message));
        let own = cabling.node(&node_name(&switch.name), false, switch.line);
        for (port, host) in switch.nodes.iter().enumerate() {
            if let Some((other, first)) = leaf_of.insert(host, (&switch.name, switch.line)) {
                return bad(format!(
                    "host `{host}` is on switch `{}`, but line {first} has it on `{other}`",
                    switch.name
                ));
            }
            if lines.contains_key(host.as_str()) {
                return bad(format!("`{host}` is a host here and a switch elsewhere"));
            }
            let host = cabling.node(&node_name(host), true, switch.line);
            let ends = [(host, PORT.to_string()), (own, format!("p{port}"))];
            cabling.cable(ends, Rate(0.0), switch.line)?;
        }
        for (port, child) in switch.switches.iter().enumerate() {
            let Some(line) = lines.get(child.as_str()) else {
                return bad(format!(
                    "switch `{}` has `{child}` below it, which is not a switch in this file",
                    switch.name
                ));
            };
            let child = cabling.node(&node_name(child), false, *line);
            let ends = [(child, format!("u{index}")), (own, format!("d{port}"))];
            cabling.cable(ends, Rate(0.0), switch.line)?;
        }
    }
    let mut topology = cabling.topology();
    topology.each_rail = true;
    Ok(topology)
}

/// Lines without comments, those that end in a backslash joined to the next, with the number of the first.
fn logical_lines(text: &str) -> Vec<(usize, String)> {
    let mut lines: Vec<(usize, String)> = Vec::new();
    let mut continues = false;
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.split('#').next().unwrap_or_default().trim_end();
        let (words, more) = match line.strip_suffix('\\') {
            Some(words) => (words, true),
            None => (line, false),
        };
        match (continues, lines.last_mut()) {
            (true, Some((_, begun))) => begun.push_str(words),
            _ => lines.push((number, words.to_string())),
        }
        continues = more;
    }
    lines.retain(|(_, words)| !words.trim().is_empty());
    lines
}

/// The switches of one line. A name may be a list; then none of them has anything below it.
fn declarations(line: usize, words: &str) -> Result<Vec<Declared>, TextError> {
    let bad = |message: String| TextError::at(line, message);
    let (mut names, mut nodes, mut switches) = (Vec::new(), Vec::new(), Vec::new());
    for word in words.split_whitespace() {
        let (key, value) = word
            .split_once('=')
            .ok_or_else(|| bad(format!("`{}` is not KEY=VALUE", shown(word))))?;
        let list = || nodelist::hosts(value).map_err(|problem| bad(format!("{key}: {problem}")));
        match key.to_ascii_lowercase().as_str() {
            "switchname" => names = list()?,
            "nodes" => nodes = list()?,
            "switches" => switches = list()?,
            "linkspeed" => {}
            "blockname" | "blocksizes" => {
                let message =
                    "blocks (topology/block) do not say how nodes are connected; list the switches instead";
                return Err(bad(message.to_string()));
            }
            _ => {
                return Err(bad(format!(
                    "unknown key `{}`; known are SwitchName, Nodes, Switches, LinkSpeed",
                    shown(key)
                )));
            }
        }
    }
    if names.is_empty() {
        return Err(bad("SwitchName is missing".to_string()));
    }
    if !nodes.is_empty() && !switches.is_empty() {
        let message = format!(
            "switch `{}` has both hosts and switches below it; hosts must connect to leaves",
            names[0]
        );
        return Err(bad(message));
    }
    if names.len() > 1 && (!nodes.is_empty() || !switches.is_empty()) {
        return Err(bad(
            "several switches cannot have the same hosts or switches below them".to_string(),
        ));
    }
    let declared = |name: String| Declared {
        line,
        name,
        nodes: nodes.clone(),
        switches: switches.clone(),
    };
    Ok(names.into_iter().map(declared).collect())
}

/// Refuses a switch that has itself below it.
fn check_loops(declared: &[Declared]) -> Result<(), TextError> {
    let index: HashMap<&str, usize> = (0..)
        .zip(declared)
        .map(|(at, one)| (one.name.as_str(), at))
        .collect();
    // 0: not visited; 1: being visited; 2: done. A stack instead of recursion, because a file may be as deep as it is long.
    let mut states = vec![0u8; declared.len()];
    for start in 0..declared.len() {
        let mut path: Vec<(usize, usize)> = vec![(start, 0)];
        while let Some((at, next)) = path.pop() {
            if next == 0 {
                if states[at] == 2 {
                    continue;
                }
                states[at] = 1;
            }
            let Some(child) = declared[at].switches.get(next) else {
                states[at] = 2;
                continue;
            };
            path.push((at, next + 1));
            if let Some(below) = index.get(child.as_str()) {
                match states[*below] {
                    0 => path.push((*below, 0)),
                    1 => {
                        let message = format!(
                            "a loop: switch `{child}` has `{}` below it, and that has `{child}` below it",
                            declared[at].name
                        );
                        return Err(TextError::at(declared[at].line, message));
                    }
                    _ => {}
                }
            }
        }
    }
    Ok(())
}

fn shown(word: &str) -> String {
    word.chars().take(40).flat_map(char::escape_default).collect()
}
