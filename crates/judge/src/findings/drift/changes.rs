//! What changed between two inventories of the same cluster, part by part.
//!
//! Only values known both times are compared. A value that could not be read once is skipped, and a node that is in
//! one inventory only is reported as a whole and not as a change: the other inventory may have covered fewer nodes.

use std::collections::BTreeMap;

use super::rules::is_momentary;
use record::{Change, Fact, Inventory, InventoryPart, NodeInventory, PartAt, PartClass};

/// Facts that may change without anyone changing them, and why.
pub const MAY_CHANGE: &[(PartClass, &str, &str)] = &[
    (
        PartClass::Port,
        "lid",
        "the subnet manager hands them out anew when it restarts",
    ),
    (
        PartClass::Port,
        "subnet-manager-lid",
        "another subnet manager may take over",
    ),
    (
        PartClass::Port,
        "gids",
        "they follow from addresses, which leases change",
    ),
    (
        PartClass::Nic,
        "description",
        "a text with the host's name that comes late at boot",
    ),
    (PartClass::Module, "temperature", "it is measured"),
    (PartClass::Module, "rx-power", "it is measured"),
    (PartClass::Module, "tx-power", "it is measured"),
    (PartClass::Module, "tx-bias", "it is measured"),
    (
        PartClass::Interface,
        "bond-active",
        "a bond moves between its members",
    ),
    (
        PartClass::Pci,
        "iommu-group",
        "groups are numbered in the order of discovery",
    ),
];

/// Facts that identify one part: another value is another part.
pub const IDENTITY: &[(PartClass, &str)] = &[
    (PartClass::Nic, "serial"),
    (PartClass::Nic, "guid"),
    (PartClass::Gpu, "uuid"),
    (PartClass::Gpu, "serial"),
    (PartClass::Module, "serial"),
    (PartClass::Switch, "serial"),
    (PartClass::Host, "serial"),
];

/// Every change from one inventory to the other, in order.
pub(crate) fn between(before: &Inventory, after: &Inventory) -> Vec<Change> {
    let mut changes = Vec::new();
    of_nodes(&before.nodes, &after.nodes, PartClass::Host, &mut changes);
    of_nodes(&before.switches, &after.switches, PartClass::Switch, &mut changes);
    changes
}

fn of_nodes(before: &[NodeInventory], after: &[NodeInventory], class: PartClass, changes: &mut Vec<Change>) {
    // A kind of node that was not looked at is not missing.
    if before.is_empty() || after.is_empty() {
        return;
    }
    let by_name = |nodes: &'_ [NodeInventory]| -> BTreeMap<String, usize> {
        let names = nodes.iter().enumerate();
        names.map(|(place, node)| (node.node.clone(), place)).collect()
    };
    let (old, new) = (by_name(before), by_name(after));
    for name in old
        .keys()
        .chain(new.keys().filter(|name| !old.contains_key(*name)))
    {
        match (old.get(name), new.get(name)) {
            (Some(old), Some(new)) => of_node(&before[*old], &after[*new], changes),
            (was, is) => changes.push(Change {
                class,
                at: PartAt {
                    node: name.clone(),
                    part: name.clone(),
                },
                fact: None,
                before: was.map(|_| Fact::Value("there".to_string())),
                after: is.map(|_| Fact::Value("there".to_string())),
            }),
        }
    }
}

fn of_node(before: &NodeInventory, after: &NodeInventory, changes: &mut Vec<Change>) {
    fn by_name(node: &NodeInventory) -> BTreeMap<(PartClass, &str), &InventoryPart> {
        let parts = node.parts.iter();
        parts
            .map(|part| ((part.class, part.name.as_str()), part))
            .collect()
    }
    let (old, new) = (by_name(before), by_name(after));
    let came = new.keys().filter(|key| !old.contains_key(*key));
    for (class, name) in old.keys().chain(came) {
        let at = PartAt {
            node: after.node.clone(),
            part: name.to_string(),
        };
        match (old.get(&(*class, *name)), new.get(&(*class, *name))) {
            (Some(old), Some(new)) => of_part(old, new, &at, changes),
            (was, is) => changes.push(Change {
                class: *class,
                at,
                fact: None,
                before: was.map(|_| Fact::Value("there".to_string())),
                after: is.map(|_| Fact::Value("there".to_string())),
            }),
        }
    }
}

fn of_part(before: &InventoryPart, after: &InventoryPart, at: &PartAt, changes: &mut Vec<Change>) {
    for (name, was) in &before.facts {
        let Some(is) = after.facts.get(name) else {
            continue;
        };
        let is_unknown = |fact: &Fact| matches!(fact, Fact::Unreadable { .. });
        let may = MAY_CHANGE
            .iter()
            .any(|(class, fact, _)| *class == after.class && fact == name);
        if was == is || is_unknown(was) || is_unknown(is) || may || is_momentary(after, name) {
            continue;
        }
        changes.push(Change {
            class: after.class,
            at: at.clone(),
            fact: Some(name.clone()),
            before: Some(was.clone()),
            after: Some(is.clone()),
        });
    }
}
