//! The machine as a whole: firmware, kernel, drivers and libraries. Serial numbers take root.

use super::read::unreadable;
use super::software;
use super::tree::Tree;
use record::{Fact, InventoryPart, PartClass};

/// Facts of a host and the files that tell them, below the root of all files.
const FACTS: &[(&str, &str)] = &[
    ("bios", "sys/class/dmi/id/bios_version"),
    ("bios-date", "sys/class/dmi/id/bios_date"),
    ("bios-vendor", "sys/class/dmi/id/bios_vendor"),
    ("product", "sys/class/dmi/id/product_name"),
    ("vendor", "sys/class/dmi/id/sys_vendor"),
    ("board", "sys/class/dmi/id/board_name"),
    ("board-version", "sys/class/dmi/id/board_version"),
    ("serial", "sys/class/dmi/id/product_serial"),
    ("kernel", "proc/sys/kernel/osrelease"),
    ("command-line", "proc/cmdline"),
    (
        "tcp-congestion-control",
        "proc/sys/net/ipv4/tcp_congestion_control",
    ),
    ("tcp-ecn", "proc/sys/net/ipv4/tcp_ecn"),
    ("mlx5-driver", "sys/module/mlx5_core/version"),
    ("nvidia-driver", "sys/module/nvidia/version"),
    ("peer-memory", "sys/module/nvidia_peermem/version"),
    ("bmc", "sys/class/ipmi/ipmi0/device/bmc/firmware_revision"),
];

/// The host of a tree.
pub(super) fn part(tree: &Tree, name: &str) -> InventoryPart {
    let mut part = InventoryPart::new(PartClass::Host, name);
    for (name, file) in FACTS {
        part = part.with(name, tree.fact(file));
    }
    for (name, prefix) in software::LIBRARIES {
        part = part.with(name, software::library(tree, prefix));
    }
    part.with("os", software::distribution(tree))
        .with("ofed", software::ofed(tree))
        .with("container", software::container(tree))
        .with("iommu", iommu(tree))
}

/// How the IOMMU treats devices: a group's type, the same for all or `mixed`.
fn iommu(tree: &Tree) -> Fact {
    const GROUPS: &str = "sys/kernel/iommu_groups";
    let groups = match tree.names(GROUPS, |_| true) {
        Ok(groups) => groups,
        Err(fact) => return fact,
    };
    let mut types: Vec<String> = Vec::new();
    for group in groups {
        match tree.fact(format!("{GROUPS}/{group}/type")) {
            Fact::Value(kind) if !types.contains(&kind) => types.push(kind),
            Fact::Value(_) | Fact::Absent => {}
            unreadable => return unreadable,
        }
    }
    match types.as_slice() {
        [] if tree.has("sys") => Fact::Value("off".to_string()),
        [] => unreadable("the tree has no /sys"),
        [one] => Fact::Value(one.clone()),
        _ => Fact::Value("mixed".to_string()),
    }
}
