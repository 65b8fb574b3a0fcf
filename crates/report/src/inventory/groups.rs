//! What nodes are made of, one row for all nodes that have the same: the rows of every table of an inventory.

use std::collections::{BTreeMap, BTreeSet};

use record::{Fact, Inventory, NodeInventory, PartClass};

/// What is shown of a class of parts.
struct View {
    class: PartClass,
    heading: &'static str,
    /// Whether the part's name is worth a column: a host's is that of its node.
    named: bool,
    facts: &'static [&'static str],
}

const VIEWS: &[View] = &[
    View {
        class: PartClass::Host,
        heading: "hosts",
        named: false,
        facts: &[
            "product",
            "bios",
            "kernel",
            "os",
            "ofed",
            "nvidia-driver",
            "nccl",
            "container",
        ],
    },
    View {
        class: PartClass::Nic,
        heading: "NICs",
        named: true,
        facts: &["firmware", "board", "type", "driver", "driver-version", "pci"],
    },
    View {
        class: PartClass::Port,
        heading: "ports",
        named: true,
        facts: &[
            "state",
            "physical-state",
            "rate",
            "speed",
            "width",
            "mtu",
            "fec",
            "link-layer",
            "interface",
        ],
    },
    View {
        class: PartClass::Interface,
        heading: "interfaces",
        named: true,
        facts: &[
            "state", "speed", "mtu", "driver", "firmware", "fec", "pause", "master",
        ],
    },
    View {
        class: PartClass::Module,
        heading: "transceivers",
        named: true,
        facts: &["vendor", "part-number", "firmware", "kind", "length"],
    },
    View {
        class: PartClass::Gpu,
        heading: "GPUs",
        named: true,
        facts: &[
            "name",
            "part-number",
            "driver",
            "vbios",
            "gsp-firmware",
            "ecc",
            "nvlinks",
            "fabric-state",
        ],
    },
    View {
        class: PartClass::Pci,
        heading: "PCIe",
        named: true,
        facts: &[
            "speed",
            "speed-capable",
            "width",
            "width-capable",
            "max-read-request",
            "relaxed-ordering",
            "acs",
            "driver",
        ],
    },
    View {
        class: PartClass::Switch,
        heading: "switches",
        named: false,
        facts: &["tier", "type", "firmware", "os"],
    },
];

/// Parts of one class, those that are alike together.
pub(crate) struct PartGroups<'a> {
    /// What they are.
    pub(crate) class: PartClass,
    /// The class in words.
    pub(crate) heading: &'static str,
    /// What each column shows: a fact, or nothing for the name of the part.
    pub(crate) titles: Vec<&'static str>,
    /// Nodes that have the same, and what they have, one text for every title.
    pub(crate) rows: Vec<(Vec<&'a str>, Vec<String>)>,
    /// How many nodes have such a part.
    pub(crate) owners: usize,
}

/// Everything that is worth comparing, by class; classes without parts are left out.
pub(crate) fn part_groups(inventory: &Inventory) -> Vec<PartGroups<'_>> {
    let nodes: Vec<&NodeInventory> = inventory.nodes.iter().chain(&inventory.switches).collect();
    VIEWS
        .iter()
        .filter_map(|view| group_class(view, &nodes))
        .collect()
}

fn group_class<'a>(view: &View, nodes: &[&'a NodeInventory]) -> Option<PartGroups<'a>> {
    let mut nodes_of: BTreeMap<Vec<String>, Vec<&'a str>> = BTreeMap::new();
    let mut order: Vec<Vec<String>> = Vec::new();
    let mut owners: BTreeSet<&str> = BTreeSet::new();
    for node in nodes {
        for part in node.parts.iter().filter(|part| part.class == view.class) {
            let mut row: Vec<String> = view.named.then(|| part.name.clone()).into_iter().collect();
            row.extend(view.facts.iter().map(|fact| shown(part.facts.get(*fact))));
            owners.insert(&node.node);
            let known = nodes_of.entry(row.clone()).or_insert_with(|| {
                order.push(row);
                Vec::new()
            });
            known.push(&node.node);
        }
    }
    if order.is_empty() {
        return None;
    }
    // Columns without any value are left out.
    let first = usize::from(view.named);
    let shown_columns: Vec<usize> = (0..first + view.facts.len())
        .filter(|column| *column < first || order.iter().any(|row| row[*column] != "-"))
        .collect();
    let titles = view
        .named
        .then_some("")
        .into_iter()
        .chain(view.facts.iter().copied());
    let titles: Vec<&str> = titles.collect();
    let rows = order.iter().map(|row| {
        let mut whose = nodes_of.remove(row).unwrap_or_default();
        whose.dedup();
        (
            whose,
            shown_columns.iter().map(|column| row[*column].clone()).collect(),
        )
    });
    Some(PartGroups {
        class: view.class,
        heading: view.heading,
        rows: rows.collect(),
        titles: shown_columns.iter().map(|column| titles[*column]).collect(),
        owners: owners.len(),
    })
}

fn shown(fact: Option<&Fact>) -> String {
    match fact {
        Some(Fact::Value(value)) => value.clone(),
        Some(Fact::Unreadable { .. }) => "?".to_string(),
        Some(Fact::Absent) | None => "-".to_string(),
    }
}
