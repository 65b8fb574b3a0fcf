//! The inventory as tables for a terminal: one row for all nodes with equal values.
//!
//! Nodes of a fleet are alike, so a table of 1,024 of them is as long as one of four: nodes that differ have rows of their own.
//! What could not be read is shown as `?` and explained below the tables; what a part does not have as `-`.

use std::collections::{BTreeMap, BTreeSet};

use comfy_table::{ContentArrangement, Table, presets};

use super::groups::{PartGroups, part_groups};
use crate::escape;
use record::text::{counted_as, first_of};
use record::{Drift, Fact, Finding, Inventory, InventoryPart, NodeInventory};

/// Nodes that are named one by one before the rest is only counted.
const NAMED: usize = 4;

/// The inventory as tables. `all` shows every fact of every part instead of the ones worth comparing.
pub fn tables(inventory: &Inventory, all: bool) -> String {
    let nodes: Vec<&NodeInventory> = inventory.nodes.iter().chain(&inventory.switches).collect();
    let mut out = String::new();
    if all {
        for node in &nodes {
            out.push_str(&everything(node));
        }
    } else {
        for groups in part_groups(inventory) {
            out.push_str(&rows(&groups));
        }
        out.push_str(&unreadable(&nodes));
    }
    for trouble in &inventory.troubles {
        out.push_str(&format!("not read: {}\n", escape::line(trouble)));
    }
    out
}

/// What differs, in sentences: each with who it is expected by and what to do. Where nothing does, what that rests on.
pub fn verdict(inventory: &Inventory, drift: &Drift, findings: &[Finding]) -> String {
    let mut out = String::new();
    for finding in findings {
        out.push_str(&format!(
            "{}: {}\n  do: {}\n",
            finding.kind,
            escape::line(&finding.sentence),
            escape::line(&finding.next_step)
        ));
        let evidence = finding
            .evidence
            .iter()
            .map(|said| format!("  {}\n", escape::line(said)));
        out.extend(evidence);
    }
    if !inventory.troubles.is_empty() {
        out.push_str("incomplete: not every source could be read, see above\n");
    }
    if findings.is_empty() {
        out.push_str(&nothing_differs(inventory, drift));
    }
    out
}

fn nothing_differs(inventory: &Inventory, drift: &Drift) -> String {
    let nodes = inventory.nodes.len() + inventory.switches.len();
    let parts: usize = inventory.nodes.iter().map(|node| node.parts.len()).sum();
    let golden = drift
        .golden
        .as_ref()
        .map(|file| format!("golden file {}", escape::line(file)));
    let since = drift
        .since
        .as_ref()
        .map(|taken| format!("the inventory of {}", escape::line(taken)));
    let mut with: Vec<String> = golden.into_iter().chain(since).collect();
    if nodes > 1 {
        with.insert(0, "each other".to_string());
    }
    let unread = match drift.unreadable.len() {
        0 => String::new(),
        1 => "; 1 fact could not be read and was not compared".to_string(),
        facts => format!("; {facts} facts could not be read and were not compared"),
    };
    match with.is_empty() {
        true => format!("one node of {parts} parts: nothing to compare it with{unread}\n"),
        false => format!(
            "nothing differs: {} compared with {}{unread}\n",
            who(inventory),
            with.join(" and with ")
        ),
    }
}

/// `4 hosts and 2 switches`.
fn who(inventory: &Inventory) -> String {
    let some = |nodes: usize, one: &str, many: &str| (nodes > 0).then(|| counted_as(nodes, one, many));
    let hosts = some(inventory.nodes.len(), "host", "hosts");
    let switches = some(inventory.switches.len(), "switch", "switches");
    let who: Vec<String> = hosts.into_iter().chain(switches).collect();
    who.join(" and ")
}

fn new_table() -> Table {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled);
    table
}

fn rendered(table: &Table) -> String {
    let mut text = String::new();
    for line in table.lines() {
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// The table of one class.
fn rows(groups: &PartGroups<'_>) -> String {
    let mut table = new_table();
    table.set_header(std::iter::once(groups.heading).chain(groups.titles.iter().copied()));
    for (nodes, row) in &groups.rows {
        let whose = names(nodes, groups.owners, escape::cell);
        table.add_row(std::iter::once(whose).chain(row.iter().map(|text| escape::cell(text))));
    }
    rendered(&table) + "\n"
}

/// `h0, h1, h2`, `h0, h1, h2, h3 and 252 more`, or `all 256`.
pub(crate) fn names(nodes: &[&str], of: usize, shown: fn(&str) -> String) -> String {
    if nodes.len() == of && of > NAMED {
        return format!("all {of}");
    }
    first_of(nodes, NAMED, ", ", |name| shown(name))
}

/// What could not be read, each reason once.
fn unreadable(nodes: &[&NodeInventory]) -> String {
    let mut reasons: BTreeMap<(String, String), BTreeSet<&str>> = BTreeMap::new();
    let parts = nodes.iter().flat_map(|node| &node.parts);
    for (part, fact, why) in
        parts.flat_map(|part| part.facts.iter().map(move |(name, fact)| (part, name, fact)))
    {
        if let Fact::Unreadable { why, needs } = why {
            let needs = needs
                .as_ref()
                .map_or_else(String::new, |needs| format!("; needs {needs}"));
            let reason = (part.class.to_string(), format!("{why}{needs}"));
            reasons.entry(reason).or_default().insert(fact);
        }
    }
    let line = |((class, why), facts): (&(String, String), &BTreeSet<&str>)| {
        let facts: Vec<String> = facts.iter().map(|fact| escape::line(fact)).collect();
        format!("? {class} {}: {}\n", facts.join(", "), escape::line(why))
    };
    reasons.iter().map(line).collect()
}

/// Every fact of every part of a node.
fn everything(node: &NodeInventory) -> String {
    let mut out = format!("{}\n", escape::line(&node.node));
    for part in &node.parts {
        out.push_str(&format!("  {}\n", title(part)));
        for (name, fact) in &part.facts {
            let said = match fact {
                Fact::Value(value) => escape::line(value),
                Fact::Absent => "-".to_string(),
                Fact::Unreadable { why, needs: None } => format!("? ({})", escape::line(why)),
                Fact::Unreadable {
                    why,
                    needs: Some(needs),
                } => {
                    format!("? ({}; needs {})", escape::line(why), escape::line(needs))
                }
            };
            out.push_str(&format!("    {:<20} {said}\n", escape::line(name)));
        }
    }
    out
}

fn title(part: &InventoryPart) -> String {
    format!("{} {}", part.class, escape::line(&part.name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::PartClass;

    fn nic(firmware: Fact) -> InventoryPart {
        InventoryPart::new(PartClass::Nic, "mlx5_0").with("firmware", firmware)
    }

    fn fleet(odd: Fact) -> Inventory {
        let node = |number: u32| NodeInventory {
            node: format!("node{number:03}"),
            parts: vec![nic(match number {
                7 => odd.clone(),
                _ => Fact::Value("28.43.2026".to_string()),
            })],
        };
        Inventory {
            nodes: (0..128).map(node).collect(),
            ..Inventory::default()
        }
    }

    #[test]
    fn the_table_of_a_fleet_is_short_and_whoever_differs_has_a_row() {
        let text = tables(&fleet(Fact::Value("28.39.1002".to_string())), false);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines.len() < 6, "{text}");
        assert!(
            text.contains("node000, node001, node002, node003 and 123 more"),
            "{text}"
        );
        let odd = lines.iter().find(|line| line.contains("28.39.1002")).unwrap();
        assert!(odd.trim_start().starts_with("node007 "), "{text}");
    }

    #[test]
    fn what_could_not_be_read_is_marked_and_explained_with_the_privilege_it_takes() {
        let hidden = Fact::Unreadable {
            why: "permission denied".to_string(),
            needs: Some("root".to_string()),
        };
        let text = tables(&fleet(hidden), false);
        assert!(
            text.contains("? nic firmware: permission denied; needs root"),
            "{text}"
        );
        assert!(
            text.lines()
                .any(|line| line.contains("node007") && line.ends_with('?')),
            "{text}"
        );
    }

    #[test]
    fn names_from_other_machines_cannot_move_the_cursor() {
        let mut inventory = fleet(Fact::Value("\u{1b}[2J28\n|<b>".to_string()));
        inventory.nodes[9].node = "h\u{1b}]8;;http://x\u{7}9".to_string();
        inventory.troubles.push("\u{202e}".to_string());
        for all in [false, true] {
            let text = tables(&inventory, all);
            assert!(!text.contains(['\u{1b}', '\u{7}', '\u{202e}']), "{text:?}");
        }
    }
}
