//! RDMA devices and their ports as the kernel shows them under `/sys/class/infiniband`.
//!
//! As in [`super::sysfs`] every reader takes the root of the tree, what is absent or malformed is `None` or left out, and
//! nothing in a tree makes a reader fail or read without bound.

mod gid;

use std::path::{Path, PathBuf};

pub use gid::{Gid, GidEntry, GidKind, choose_gid};

use super::sysfs::{is_name, names_in, number, text};
use record::RdmaPort;
use record::text::natural;

/// Entries of a table that queue pairs can name.
const NAMEABLE_GIDS: u16 = 256;

/// The longest name of a device the kernel allows.
const LONGEST_NAME: usize = 64;

/// Whose devices speak InfiniBand's protocol, over whatever cable; others (iWARP) connect in another way.
const CHANNEL_ADAPTER: &str = "1";

/// A port of an RDMA device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Port {
    /// Device, as `ibv_devices` lists it.
    pub device: String,
    /// Number, from 1.
    pub number: u8,
    /// `Ethernet` or `InfiniBand`.
    pub link_layer: String,
    /// `ACTIVE`, `DOWN`, `INIT`, ... as the kernel says it.
    pub state: Option<String>,
    /// Rate in Mbit/s. Software devices say one that means nothing.
    pub rate_mbit: Option<u64>,
    /// Network interfaces that share the port, the one it is named for first.
    pub interfaces: Vec<String>,
}

impl Port {
    /// As it is recorded.
    pub fn record(&self) -> RdmaPort {
        RdmaPort {
            device: self.device.clone(),
            port: self.number,
            link_layer: self.link_layer.clone(),
            state: self.state.clone(),
        }
    }

    /// Whether it is up.
    pub fn is_active(&self) -> bool {
        self.state.as_deref() == Some("ACTIVE")
    }
}

/// The ports of all devices of the tree that speak InfiniBand's protocol, by name. Empty when the tree has none or cannot be
/// read.
pub fn ports(root: &Path) -> Vec<Port> {
    let mut devices = names_in(&root.join("class/infiniband"));
    devices.sort_by_cached_key(|name| natural(name));
    devices.iter().flat_map(|device| ports_of(root, device)).collect()
}

/// The ports of one device; empty when there is none of that name, or it speaks another protocol.
pub fn ports_of(root: &Path, device: &str) -> Vec<Port> {
    let Some(folder) = device_folder(root, device) else {
        return Vec::new();
    };
    let kind = text(&folder.join("node_type"));
    if kind.is_some_and(|kind| kind.split(':').next() != Some(CHANNEL_ADAPTER)) {
        return Vec::new();
    }
    let mut numbers: Vec<u8> = names_in(&folder.join("ports"))
        .iter()
        .filter_map(|name| name.parse().ok())
        .collect();
    numbers.sort_unstable();
    let several = numbers.len() > 1;
    let one = |number: &u8| port(root, device, *number, several);
    numbers.iter().filter_map(one).collect()
}

/// The one of `ports` behind a network interface. Of several one that is up, then the first.
pub fn behind<'p>(ports: &'p [Port], interface: &str) -> Option<&'p Port> {
    let shares = |port: &&Port| port.interfaces.iter().any(|name| name == interface);
    ports.iter().filter(shares).min_by_key(|port| !port.is_active())
}

/// The one of `ports` that people mean by a device, or a port of it: `mlx5_0`, `mlx5_1:2`. Without a number its first.
pub fn named<'p>(ports: &'p [Port], name: &str) -> Option<&'p Port> {
    let (device, number) = match name.split_once(':') {
        Some((device, number)) => (device, Some(number.parse::<u8>().ok()?)),
        None => (name, None),
    };
    let is_it = |port: &&Port| port.device == device && number.is_none_or(|number| port.number == number);
    ports.iter().find(is_it)
}

/// The addresses of a port that queue pairs can name, those in use only.
pub fn gid_table(root: &Path, device: &str, port: u8) -> Vec<GidEntry> {
    let Some(folder) = port_folder(root, device, port) else {
        return Vec::new();
    };
    let is_infiniband = text(&folder.join("link_layer")).as_deref() == Some("InfiniBand");
    let entry = |index: u16| {
        let gid = Gid::parse(&text(&folder.join(format!("gids/{index}")))?)?;
        if gid.is_empty() {
            return None;
        }
        let attribute = |kind: &str| text(&folder.join(format!("gid_attrs/{kind}/{index}")));
        let kind = match attribute("types").as_deref() {
            _ if is_infiniband => GidKind::Infiniband,
            Some("RoCE v2") => GidKind::RoceV2,
            Some("IB/RoCE v1") => GidKind::RoceV1,
            _ => return None,
        };
        Some(GidEntry {
            index: u8::try_from(index).ok()?,
            gid,
            kind,
            interface: attribute("ndevs").filter(|name| is_name(name)),
        })
    };
    (0..NAMEABLE_GIDS).filter_map(entry).collect()
}

fn port(root: &Path, device: &str, number: u8, several: bool) -> Option<Port> {
    let folder = port_folder(root, device, number)?;
    folder.is_dir().then(|| Port {
        device: device.to_string(),
        number,
        link_layer: text(&folder.join("link_layer")).unwrap_or_default(),
        state: text(&folder.join("state")).and_then(|state| Some(state.split_once(": ")?.1.to_string())),
        rate_mbit: text(&folder.join("rate")).and_then(|rate| rate_mbit(&rate)),
        interfaces: interfaces_of(root, device, number, several),
    })
}

/// The interfaces that share a port: the one a software device was put on, those in the device's folder, and those its
/// addresses were made for.
fn interfaces_of(root: &Path, device: &str, number: u8, several: bool) -> Vec<String> {
    let Some(folder) = device_folder(root, device) else {
        return Vec::new();
    };
    let net = folder.join("device/net");
    let mut beside = names_in(&net);
    beside.sort_by_cached_key(|name| natural(name));
    // A device with two ports has an interface for each, which say whose they are.
    beside.retain(|name| {
        let port = number_of(&net.join(name));
        !several || port == Some(u64::from(number) - 1)
    });
    let parent = text(&folder.join("parent"));
    let table = gid_table(root, device, number);
    let made_for = table.into_iter().filter_map(|entry| entry.interface);
    let mut found: Vec<String> = Vec::new();
    for name in parent.into_iter().chain(beside).chain(made_for) {
        if is_name(&name) && !found.contains(&name) {
            found.push(name);
        }
    }
    found
}

/// Which port of its device an interface belongs to, from 0.
fn number_of(interface: &Path) -> Option<u64> {
    number(&interface.join("dev_port"))
}

/// `100 Gb/sec (4X EDR)` in Mbit/s.
fn rate_mbit(text: &str) -> Option<u64> {
    let (value, rest) = text.split_once(' ')?;
    let gbit: f64 = value.parse().ok()?;
    let is_rate = rest.starts_with("Gb/sec") && gbit.is_finite() && gbit > 0.0 && gbit < 1e6;
    is_rate.then(|| (gbit * 1000.0).round() as u64)
}

/// The folder of a device; none for a name that would lead elsewhere.
pub(super) fn device_folder(root: &Path, device: &str) -> Option<PathBuf> {
    let fits = is_name(device) && device.len() < LONGEST_NAME;
    fits.then(|| root.join("class/infiniband").join(device))
}

pub(super) fn port_folder(root: &Path, device: &str, port: u8) -> Option<PathBuf> {
    (port > 0)
        .then(|| device_folder(root, device))
        .flatten()
        .map(|folder| folder.join("ports").join(port.to_string()))
}

#[cfg(test)]
mod tests;
