//! Network interfaces as the kernel shows them under `/sys/class/net`.
//!
//! Every reader takes the root of the tree, so that trees recorded on other machines can be read here. What is absent,
//! unreadable or not a number is `None`, never zero; nothing in a tree makes a reader fail or read without bound.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Where the kernel shows its devices on a running machine.
pub const SYS: &str = "/sys";

/// No attribute of an interface is longer than this.
const LONGEST_ATTRIBUTE: u64 = 4096;

/// A speed no link has: how drivers that keep it unsigned say "unknown".
const UNKNOWN_SPEED: u64 = u32::MAX as u64;

/// Counters of an interface worth reading before and after a measurement, as paths below its folder.
const COUNTERS: &[&str] = &[
    "carrier_changes",
    "statistics/rx_bytes",
    "statistics/rx_dropped",
    "statistics/rx_errors",
    "statistics/tx_bytes",
    "statistics/tx_dropped",
    "statistics/tx_errors",
];

/// A network interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// `up`, `down`, `unknown`, ... as the kernel says it.
    pub operstate: Option<String>,
    /// Link speed in Mbit/s.
    pub speed_mbit: Option<u64>,
    /// Largest packet.
    pub mtu: Option<u64>,
}

/// All interfaces of the tree, by name. Empty when the tree has none or cannot be read.
pub fn interfaces(root: &Path) -> Vec<Interface> {
    let mut interfaces: Vec<Interface> = names_in(&root.join("class/net"))
        .iter()
        .filter_map(|name| interface(root, name))
        .collect();
    interfaces.sort_by(|a, b| a.name.cmp(&b.name));
    interfaces
}

/// One interface; none when the tree does not have it.
pub fn interface(root: &Path, name: &str) -> Option<Interface> {
    let folder = folder_of(root, name)?;
    folder.is_dir().then(|| Interface {
        name: name.to_string(),
        operstate: text(&folder.join("operstate")).filter(|state| !state.is_empty()),
        speed_mbit: speed_mbit(root, name),
        mtu: number(&folder.join("mtu")),
    })
}

/// The link speed of an interface in Mbit/s; none when it is down, has none (loopback) or does not say.
pub fn speed_mbit(root: &Path, interface: &str) -> Option<u64> {
    number(&folder_of(root, interface)?.join("speed")).filter(|speed| *speed > 0 && *speed != UNKNOWN_SPEED)
}

/// Whether an interface has a carrier; none when it does not say, as one that is switched off does not.
pub fn has_carrier(root: &Path, interface: &str) -> Option<bool> {
    let folder = folder_of(root, interface)?;
    match number(&folder.join("carrier")) {
        Some(carrier) => Some(carrier != 0),
        // An interface that is switched off refuses to tell its carrier.
        None => (text(&folder.join("operstate"))? == "down").then_some(false),
    }
}

/// Whether an interface is up and no bridge. One that is not in the tree is assumed to be: in a container the
/// tree may be that of another network namespace.
pub fn carries_data(root: &Path, name: &str) -> bool {
    match (folder_of(root, name), interface(root, name)) {
        (Some(folder), Some(interface)) => {
            let is_up = interface
                .operstate
                .as_deref()
                .is_none_or(|state| matches!(state, "up" | "unknown"));
            is_up && !folder.join("bridge").is_dir()
        }
        (folder, None) => folder.is_some(),
        (None, Some(_)) => false,
    }
}

/// The counters of an interface by their kernel names, always all of them: one that is absent or unreadable is `None`.
pub fn read_counters(root: &Path, interface: &str) -> Vec<(String, Option<u64>)> {
    let folder = folder_of(root, interface);
    COUNTERS
        .iter()
        .map(|path| {
            let name = path.rsplit('/').next().unwrap_or(path).to_string();
            let value = folder.as_ref().and_then(|folder| number(&folder.join(path)));
            (name, value)
        })
        .collect()
}

/// The folder of an interface; none for a name that would lead elsewhere.
pub(super) fn folder_of(root: &Path, name: &str) -> Option<PathBuf> {
    is_name(name).then(|| root.join("class/net").join(name))
}

/// Whether it can be the name of a device: one that leads nowhere else.
pub(super) fn is_name(name: &str) -> bool {
    !name.is_empty() && name != "." && name != ".." && !name.contains(['/', '\0'])
}

/// The names in a folder, in no order. Empty when it cannot be read.
pub(super) fn names_in(folder: &Path) -> Vec<String> {
    let Ok(folder) = std::fs::read_dir(folder) else {
        return Vec::new();
    };
    let name = |entry: std::io::Result<std::fs::DirEntry>| entry.ok()?.file_name().into_string().ok();
    folder.filter_map(name).collect()
}

/// An attribute that is a number.
pub(super) fn number(path: &Path) -> Option<u64> {
    text(path)?.parse().ok()
}

/// The text of an attribute, trimmed. Only plain files are opened: a pipe in a recorded tree would be waited on for ever.
pub(super) fn text(path: &Path) -> Option<String> {
    if !std::fs::metadata(path).ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    let file = File::open(path).ok()?;
    file.take(LONGEST_ATTRIBUTE + 1).read_to_end(&mut bytes).ok()?;
    if bytes.len() as u64 > LONGEST_ATTRIBUTE {
        return None;
    }
    Some(String::from_utf8(bytes).ok()?.trim().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    /// A tree with these files below `class/net`.
    fn tree(files: &[(&str, &[u8])]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, content) in files {
            let path = root.path().join("class/net").join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        }
        root
    }

    fn counter(root: &Path, interface: &str, name: &str) -> Option<u64> {
        let counters = read_counters(root, interface);
        counters.into_iter().find(|(found, _)| found == name).unwrap().1
    }

    #[test]
    fn an_interface_is_read_as_the_kernel_shows_it() {
        let root = tree(&[
            ("eth0/operstate", b"up\n"),
            ("eth0/speed", b"400000\n"),
            ("eth0/mtu", b"9000\n"),
            ("lo/operstate", b"unknown\n"),
        ]);
        let found = interfaces(root.path());
        assert_eq!(found[0].name, "eth0");
        assert_eq!(found[0].operstate.as_deref(), Some("up"));
        assert_eq!((found[0].speed_mbit, found[0].mtu), (Some(400_000), Some(9000)));
        assert_eq!((found[1].name.as_str(), found[1].speed_mbit), ("lo", None));
    }

    #[test]
    fn a_speed_that_is_not_known_is_not_a_speed() {
        for text in [
            "-1\n",
            "0\n",
            "4294967295\n",
            "fast\n",
            "",
            "99999999999999999999\n",
        ] {
            let root = tree(&[("eth0/speed", text.as_bytes())]);
            assert_eq!(speed_mbit(root.path(), "eth0"), None, "{text:?}");
        }
    }

    #[test]
    fn a_cable_that_is_not_plugged_in_is_told_from_one_that_nobody_knows_about() {
        let root = tree(&[
            ("eth0/carrier", b"1\n"),
            ("eth1/carrier", b"0\n"),
            ("eth2/operstate", b"down\n"),
            ("eth3/operstate", b"unknown\n"),
        ]);
        let found = ["eth0", "eth1", "eth2", "eth3", "eth4"].map(|name| has_carrier(root.path(), name));
        assert_eq!(found, [Some(true), Some(false), Some(false), None, None]);
    }

    #[test]
    fn an_absent_counter_is_unknown_and_never_zero() {
        let root = tree(&[
            ("eth0/statistics/rx_bytes", b"17\n"),
            ("eth0/statistics/tx_bytes", b"0\n"),
        ]);
        assert_eq!(counter(root.path(), "eth0", "rx_bytes"), Some(17));
        assert_eq!(counter(root.path(), "eth0", "tx_bytes"), Some(0));
        assert_eq!(counter(root.path(), "eth0", "carrier_changes"), None);
        assert_eq!(read_counters(root.path(), "eth9").len(), COUNTERS.len());
        assert!(
            read_counters(root.path(), "eth9")
                .iter()
                .all(|(_, value)| value.is_none())
        );
    }

    #[test]
    fn a_hostile_tree_yields_unknowns_and_no_failure() {
        let huge = vec![b'1'; 1 << 20];
        let root = tree(&[
            ("eth0/statistics/rx_bytes", &huge),
            ("eth0/statistics/tx_bytes", b"\xff\xfe garbage"),
            ("eth0/statistics/rx_errors/folder", b"1"),
        ]);
        let net = root.path().join("class/net");
        symlink("loop", net.join("loop")).unwrap();
        symlink(net.join("eth0/carrier_changes"), net.join("eth0/carrier_changes")).unwrap();
        nix::unistd::mkfifo(
            &net.join("eth0/statistics/rx_dropped"),
            nix::sys::stat::Mode::S_IRWXU,
        )
        .unwrap();
        assert!(
            read_counters(root.path(), "eth0")
                .iter()
                .all(|(_, value)| value.is_none())
        );
        let names: Vec<String> = interfaces(root.path())
            .into_iter()
            .map(|found| found.name)
            .collect();
        assert_eq!(names, ["eth0"]);
    }

    #[test]
    fn an_interface_name_cannot_lead_out_of_the_tree() {
        let root = tree(&[("eth0/speed", b"1000")]);
        std::fs::write(root.path().join("speed"), "1000").unwrap();
        for name in ["..", ".", "", "../..", "a/b", "eth0\0"] {
            assert_eq!(interface(root.path(), name), None, "{name:?}");
            assert_eq!(speed_mbit(root.path(), name), None, "{name:?}");
        }
    }

    #[test]
    fn a_tree_without_interfaces_has_none() {
        assert_eq!(interfaces(Path::new("/nowhere/at/all")), []);
    }
}
