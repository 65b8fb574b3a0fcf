//! RDMA devices and their ports, from `/sys/class/infiniband`. No privilege is needed.

use std::net::Ipv6Addr;
use std::panic::resume_unwind;

use super::driver_answers::DriverAnswers;
use super::read::{REFUSED, unreadable};
use super::tree::Tree;
use super::{board, congestion, pci};
use record::text::natural;
use record::{Fact, InventoryPart, PartClass};

const CLASS: &str = "sys/class/infiniband";

/// Facts of a device and the files that tell them.
const DEVICE: &[(&str, &str)] = &[
    ("firmware", "fw_ver"),
    ("board", "board_id"),
    ("type", "hca_type"),
    ("revision", "hw_rev"),
    ("guid", "node_guid"),
    ("system-guid", "sys_image_guid"),
    ("description", "node_desc"),
];

/// Facts of a port.
const PORT: &[(&str, &str)] = &[
    ("state", "state"),
    ("physical-state", "phys_state"),
    ("rate", "rate"),
    ("link-layer", "link_layer"),
    ("lid", "lid"),
    ("subnet-manager-lid", "sm_lid"),
];

/// Devices that are read at the same time.
const MOST_THREADS: usize = 16;
/// Addresses of a port that queue pairs can name.
const MOST_GIDS: usize = 256;
/// What packets over RDMA may hold, and what their headers take of an Ethernet frame.
const PAYLOADS: [u64; 5] = [4096, 2048, 1024, 512, 256];
const HEADERS: u64 = 72;

/// All devices by name.
pub(super) fn names(tree: &Tree) -> Result<Vec<String>, Fact> {
    let mut names = tree.names(CLASS, |_| true)?;
    names.sort_by_cached_key(|name| natural(name));
    Ok(names)
}

/// The devices of these names and their ports. Boards answer slowly, so they are read in parallel.
pub(super) fn parts(tree: &Tree, devices: &[String], answers: &DriverAnswers) -> Vec<InventoryPart> {
    let share = devices.len().div_ceil(MOST_THREADS).max(1);
    let some = |devices: &[String]| -> Vec<InventoryPart> {
        devices
            .iter()
            .flat_map(|device| one(tree, device, answers))
            .collect()
    };
    if !tree.is_live() {
        return some(devices); // files are there at once
    }
    std::thread::scope(|scope| {
        let some = &some;
        let threads: Vec<_> = devices
            .chunks(share)
            .map(|devices| scope.spawn(move || some(devices)))
            .collect();
        threads
            .into_iter()
            .flat_map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)))
            .collect()
    })
}

/// A device and its ports.
fn one(tree: &Tree, device: &str, answers: &DriverAnswers) -> Vec<InventoryPart> {
    let folder = format!("{CLASS}/{device}");
    let ports = tree.names(format!("{folder}/ports"), |_| true).map(|mut ports| {
        ports.sort_by_cached_key(|name| natural(name));
        ports
    });
    let mut nic = InventoryPart::new(PartClass::Nic, device);
    for (name, file) in DEVICE {
        nic = nic.with(name, tree.fact(format!("{folder}/{file}")));
    }
    let count = ports.as_ref().map(|ports| Fact::Value(ports.len().to_string()));
    let driver = tree.link_name(format!("{folder}/device/driver"));
    let version = match driver.value() {
        Some(driver) => tree.fact(format!("sys/module/{driver}/version")),
        None => driver.clone(),
    };
    nic = nic
        .with("ports", count.unwrap_or_else(Fact::clone))
        .with("pci", pci::address_of(tree, &format!("{folder}/device")))
        .with("driver", driver)
        .with("driver-version", version);
    let mut parts = vec![board::completed(tree, nic, answers)];
    let ports = ports.unwrap_or_default();
    parts.extend(
        ports
            .iter()
            .map(|number| port(tree, &folder, device, number, ports.len())),
    );
    parts
}

fn port(tree: &Tree, device: &str, name: &str, number: &str, ports: usize) -> InventoryPart {
    let folder = format!("{device}/ports/{number}");
    let mut part = InventoryPart::new(PartClass::Port, format!("{name}/{number}"));
    for (name, file) in PORT {
        part = part.with(name, without_number(tree.fact(format!("{folder}/{file}"))));
    }
    let width = match part.value("rate").map(speed_and_width) {
        Some((speed, width)) => {
            part = part.with("rate", Fact::Value(speed));
            width.map_or_else(|| unreadable("the rate does not say it"), Fact::Value)
        }
        None => part.facts["rate"].clone(),
    };
    let interface = interface(tree, device, number, ports);
    let mtu = mtu(tree, part.value("link-layer"), interface.value());
    for (name, fact) in congestion::of_port(tree, name, number) {
        part = part.with(name, fact);
    }
    part.with("width", width)
        .with("mtu", mtu)
        .with("interface", interface)
        .with("gids", gids(tree, &folder))
}

/// The network interface that shares a port: what its addresses were made for, or the one in the device's folder.
fn interface(tree: &Tree, device: &str, number: &str, ports: usize) -> Fact {
    let made_for = match tree.fact(format!("{device}/ports/{number}/gid_attrs/ndevs/0")) {
        // InfiniBand addresses belong to no interface.
        Fact::Unreadable { why, .. } if why == REFUSED => Fact::Absent,
        fact => fact,
    };
    if made_for != Fact::Absent {
        return made_for;
    }
    let beside = match tree.names(format!("{device}/device/net"), |_| true) {
        Ok(beside) => beside,
        Err(fact) => return fact,
    };
    // A device with two ports has an interface for each, with its port number from zero.
    let is_its = |name: &&String| {
        let port = || tree.fact(format!("{device}/device/net/{name}/dev_port"));
        ports < 2
            || port().value().and_then(|port| port.parse::<u16>().ok())
                == number.parse::<u16>().ok().map(|n| n.wrapping_sub(1))
    };
    beside
        .iter()
        .find(is_its)
        .map_or(Fact::Absent, |name| Fact::Value(name.clone()))
}

/// The largest payload of a packet. On Ethernet it follows from the interface, as the kernel computes it.
fn mtu(tree: &Tree, link_layer: Option<&str>, interface: Option<&str>) -> Fact {
    match (link_layer, interface) {
        (Some("Ethernet"), Some(interface)) => match tree.fact(format!("sys/class/net/{interface}/mtu")) {
            Fact::Value(mtu) => match mtu.parse::<u64>() {
                Ok(mtu) => {
                    let fits = PAYLOADS.iter().find(|payload| **payload + HEADERS <= mtu);
                    fits.map_or_else(
                        || unreadable("the MTU of its interface is too small for RDMA"),
                        |payload| Fact::Value(payload.to_string()),
                    )
                }
                Err(_) => unreadable("the MTU of its interface is not a number"),
            },
            fact => fact,
        },
        (Some("Ethernet"), None) => unreadable("it has no interface"),
        _ => unreadable("only programs that open the device can read it"),
    }
}

/// The addresses in use, each with its place in the table and its kind.
fn gids(tree: &Tree, port: &str) -> Fact {
    let mut indices = match tree.names(format!("{port}/gids"), |_| true) {
        Ok(indices) => indices,
        Err(fact) => return fact,
    };
    indices.sort_by_cached_key(|index| natural(index));
    let mut found = Vec::new();
    for index in indices.iter().take(MOST_GIDS) {
        let gid = match tree.fact(format!("{port}/gids/{index}")) {
            Fact::Value(gid) => gid,
            Fact::Unreadable { why, .. } => {
                found.push(format!("{index} unreadable ({why})"));
                continue;
            }
            Fact::Absent => continue,
        };
        let address = gid.parse::<Ipv6Addr>().ok();
        if address.is_some_and(|address| address.is_unspecified()) {
            continue;
        }
        let address = address.map_or(gid, |address| address.to_string());
        found.push(match tree.fact(format!("{port}/gid_attrs/types/{index}")) {
            Fact::Value(kind) => format!("{index} {address} ({kind})"),
            Fact::Unreadable { why, .. } => {
                format!("{index} {address} (kind unreadable: {why})")
            }
            Fact::Absent => format!("{index} {address}"),
        });
    }
    match found.is_empty() {
        true => Fact::Absent,
        false => Fact::Value(found.join(", ")),
    }
}

/// `4: ACTIVE` is `ACTIVE`: the number says the same.
fn without_number(fact: Fact) -> Fact {
    match &fact {
        Fact::Value(text) => match text.split_once(": ") {
            Some((number, word)) if number.chars().all(|c| c.is_ascii_digit()) => {
                Fact::Value(word.to_string())
            }
            _ => fact,
        },
        _ => fact,
    }
}

/// `400 Gb/sec (4X NDR)` is 400 Gb/s over four lanes.
fn speed_and_width(rate: &str) -> (String, Option<String>) {
    match rate.split_once(" (") {
        Some((speed, lanes)) => (speed.to_string(), Some(lanes.trim_end_matches(')').to_string())),
        None => (rate.to_string(), None),
    }
}
