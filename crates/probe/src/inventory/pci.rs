//! PCI devices: link generation and width against their maximum, settings, and whether the bridges above allow peer-to-peer
//! traffic. The settings and the bridges need root.

use std::path::Path;

use super::config::{Config, settings};
use super::read::unreadable;
use super::tree::Tree;
use record::{Fact, InventoryPart, PartClass};

const DEVICES: &str = "sys/bus/pci/devices";

/// Facts of a device and the files that tell them.
const FACTS: &[(&str, &str)] = &[
    ("speed", "current_link_speed"),
    ("width", "current_link_width"),
    ("speed-capable", "max_link_speed"),
    ("width-capable", "max_link_width"),
    ("numa-node", "numa_node"),
    ("class", "class"),
    ("vendor", "vendor"),
    ("device", "device"),
    ("subsystem", "subsystem_device"),
    ("revision", "revision"),
    ("iommu", "iommu_group/type"),
];

/// Classes of devices that carry data of a run: network and InfiniBand controllers, GPUs and other accelerators.
const CLASSES: [&str; 5] = ["0x0200", "0x0207", "0x0300", "0x0302", "0x1200"];

/// The addresses of devices that carry data, in order. One whose class cannot be read may be one.
pub(super) fn names(tree: &Tree) -> Result<Vec<String>, Fact> {
    let mut names = tree.names(DEVICES, |_| true)?;
    names.retain(|name| match tree.fact(format!("{DEVICES}/{name}/class")) {
        Fact::Value(class) if is_class(&class) => CLASSES.iter().any(|known| class.starts_with(known)),
        Fact::Value(_) | Fact::Unreadable { .. } => true,
        Fact::Absent => false,
    });
    Ok(names)
}

/// Whether it is a class at all: `0x020700`.
fn is_class(text: &str) -> bool {
    let digits = text.strip_prefix("0x").unwrap_or_default();
    digits.len() == 6 && digits.bytes().all(|digit| digit.is_ascii_hexdigit())
}

/// The PCI address of the device behind a link, also where a virtual bus is between.
pub(super) fn address_of(tree: &Tree, link: &str) -> Fact {
    match (tree.real(link), tree.link_name(link)) {
        (Some(real), _) => addresses(&real).pop().map_or(Fact::Absent, Fact::Value),
        // A tree may have the link without what it leads to: the name alone tells.
        (None, Fact::Value(name)) if is_address(&name) => Fact::Value(name),
        (None, Fact::Value(_)) => unreadable("a link leads nowhere"),
        (None, fact) => fact,
    }
}

/// The PCI addresses in a path, from the root down.
fn addresses(real: &Path) -> Vec<String> {
    let names = real.components().filter_map(|name| name.as_os_str().to_str());
    names
        .filter(|name| is_address(name))
        .map(str::to_string)
        .collect()
}

/// `0000:17:00.0`.
fn is_address(name: &str) -> bool {
    let mut fields = name.split([':', '.']);
    let is_hex = |digits: Option<&str>, len: std::ops::RangeInclusive<usize>| {
        digits.is_some_and(|digits| {
            len.contains(&digits.len()) && digits.bytes().all(|digit| digit.is_ascii_hexdigit())
        })
    };
    is_hex(fields.next(), 4..=8)
        && is_hex(fields.next(), 2..=2)
        && is_hex(fields.next(), 2..=2)
        && is_hex(fields.next(), 1..=1)
        && fields.next().is_none()
        && name.matches('.').count() == 1
}

/// The devices at these addresses.
pub(super) fn parts(tree: &Tree, names: &[String]) -> Vec<InventoryPart> {
    names.iter().map(|name| part(tree, name)).collect()
}

fn part(tree: &Tree, name: &str) -> InventoryPart {
    let folder = format!("{DEVICES}/{name}");
    let mut part = InventoryPart::new(PartClass::Pci, name);
    for (name, file) in FACTS {
        part = part.with(name, tree.fact(format!("{folder}/{file}")));
    }
    let control = Config::read(tree, &format!("{folder}/config")).and_then(|config| config.device_control());
    let (requests, payload, relaxed) = match control.map(settings) {
        Ok((requests, payload, relaxed)) => (
            Fact::Value(requests),
            Fact::Value(payload),
            Fact::Value(relaxed.to_string()),
        ),
        Err(fact) => (fact.clone(), fact.clone(), fact),
    };
    let (redirects, at) = redirection(tree, &folder);
    part.with("driver", tree.link_name(format!("{folder}/driver")))
        .with("iommu-group", tree.link_name(format!("{folder}/iommu_group")))
        .with("max-read-request", requests)
        .with("max-payload", payload)
        .with("relaxed-ordering", relaxed)
        .with("acs", redirects)
        .with("acs-at", at)
}

/// Whether a bridge above redirects peer-to-peer traffic to the root complex, and which bridges do.
fn redirection(tree: &Tree, device: &str) -> (Fact, Fact) {
    let both = |fact: Fact| (fact.clone(), fact);
    let Some(real) = tree.real(device) else {
        return both(unreadable("the bridges above it are not known"));
    };
    let mut bridges: Vec<&Path> = real.ancestors().skip(1).collect();
    bridges.retain(|path| {
        path.file_name()
            .and_then(|name| name.to_str())
            .is_some_and(is_address)
    });
    let mut at = Vec::new();
    let mut is_any = false;
    for bridge in bridges.iter().rev() {
        let path = format!("{}/config", bridge.display());
        match Config::read(tree, &path).and_then(|config| config.redirects()) {
            Ok(Some(redirects)) => {
                is_any = true;
                let name = bridge.file_name().map(|name| name.to_string_lossy().into_owned());
                at.extend(name.filter(|_| redirects));
            }
            Ok(None) => {}
            Err(Fact::Absent) => {
                return both(unreadable("the configuration of a bridge above it is missing"));
            }
            Err(fact) => return both(fact),
        }
    }
    match (is_any, at.is_empty()) {
        (false, _) => both(Fact::Absent),
        (true, true) => (Fact::Value("off".to_string()), Fact::Absent),
        (true, false) => (Fact::Value("on".to_string()), Fact::Value(at.join(" "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_told_from_other_names_on_the_way_to_a_device() {
        let real = Path::new("sys/devices/pci0000:15/0000:15:01.0/0000:17:00.0/net/ens1f0np0");
        assert_eq!(addresses(real), ["0000:15:01.0", "0000:17:00.0"]);
        assert!(is_address("10000:e1:00.0"));
        for name in [
            "pci0000:15",
            "0000:15",
            "0000:15:01",
            "0000.15.01.0",
            "virtio2",
            "",
        ] {
            assert!(!is_address(name), "{name}");
        }
    }
}
