//! What a run relies on when it looks for RDMA devices.

use std::os::unix::fs::symlink;

use proptest::prelude::*;

use super::*;

/// A tree with these files below `class/infiniband`.
fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    for (path, content) in files {
        let path = root.path().join("class/infiniband").join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }
    root
}

/// As the kernel shows a Soft-RoCE device on `rail0`.
const SOFT: &[(&str, &str)] = &[
    ("rxe0/node_type", "1: CA\n"),
    ("rxe0/parent", "rail0\n"),
    ("rxe0/ports/1/state", "4: ACTIVE\n"),
    ("rxe0/ports/1/link_layer", "Ethernet\n"),
    ("rxe0/ports/1/rate", "2.5 Gb/sec (1X SDR)\n"),
    ("rxe0/ports/1/gids/0", "fe80:0000:0000:0000:0005:0000:0000:0001\n"),
    ("rxe0/ports/1/gids/1", "0000:0000:0000:0000:0000:ffff:0a00:0001\n"),
    ("rxe0/ports/1/gids/2", "0000:0000:0000:0000:0000:0000:0000:0000\n"),
    ("rxe0/ports/1/gid_attrs/types/0", "RoCE v2\n"),
    ("rxe0/ports/1/gid_attrs/types/1", "RoCE v2\n"),
    ("rxe0/ports/1/gid_attrs/ndevs/0", "rail0\n"),
    ("rxe0/ports/1/gid_attrs/ndevs/1", "rail0\n"),
];

/// A card with two ports, one of them InfiniBand with IPoIB, and an iWARP device beside it.
const CARDS: &[(&str, &str)] = &[
    ("mlx10/node_type", "1: CA\n"),
    ("mlx10/ports/1/link_layer", "InfiniBand\n"),
    ("mlx10/ports/1/state", "1: DOWN\n"),
    ("mlx2/node_type", "1: CA\n"),
    ("mlx2/device/net/eth2/dev_port", "1\n"),
    ("mlx2/device/net/ib0/dev_port", "0\n"),
    ("mlx2/ports/1/link_layer", "InfiniBand\n"),
    ("mlx2/ports/1/state", "4: ACTIVE\n"),
    ("mlx2/ports/1/rate", "400 Gb/sec (4X NDR)\n"),
    ("mlx2/ports/1/gids/0", "fe80:0000:0000:0000:b83f:d203:0012:3456\n"),
    ("mlx2/ports/2/link_layer", "Ethernet\n"),
    ("mlx2/ports/2/gids/3", "0000:0000:0000:0000:0000:ffff:0a00:0105\n"),
    ("mlx2/ports/2/gid_attrs/types/3", "RoCE v2\n"),
    ("mlx2/ports/2/gid_attrs/ndevs/3", "eth2.100\n"),
    ("siw0/node_type", "4: RNIC\n"),
    ("siw0/parent", "eth2\n"),
    ("siw0/ports/1/link_layer", "Ethernet\n"),
];

#[test]
fn a_software_device_is_found_by_the_interface_it_was_put_on() {
    let root = tree(SOFT);
    let port = behind(&ports(root.path()), "rail0").unwrap().clone();
    assert_eq!((port.device.as_str(), port.number), ("rxe0", 1));
    assert!(port.is_active());
    assert_eq!(port.record().link_layer, "Ethernet");
    assert_eq!(behind(&ports(root.path()), "rail1"), None);
    let table = gid_table(root.path(), "rxe0", 1);
    assert_eq!(table.len(), 2, "entries that are not in use are left out");
    assert_eq!(choose_gid(&table, "10.0.0.1".parse().ok()), Some(1));
}

#[test]
fn each_port_of_a_card_has_its_own_interfaces_and_other_protocols_are_not_ours() {
    let root = tree(CARDS);
    let found: Vec<(String, u8, Vec<String>)> = ports(root.path())
        .into_iter()
        .map(|port| (port.device, port.number, port.interfaces))
        .collect();
    let owned = |names: &[&str]| names.iter().map(|name| name.to_string()).collect::<Vec<_>>();
    assert_eq!(
        found,
        [
            ("mlx2".to_string(), 1, owned(&["ib0"])),
            ("mlx2".to_string(), 2, owned(&["eth2", "eth2.100"])),
            ("mlx10".to_string(), 1, owned(&[])),
        ]
    );
    let all = ports(root.path());
    let vlan = behind(&all, "eth2.100").unwrap();
    assert_eq!((vlan.device.as_str(), vlan.number), ("mlx2", 2));
    let infiniband = gid_table(root.path(), "mlx2", 1);
    assert_eq!(infiniband[0].kind, GidKind::Infiniband);
    assert_eq!(ports_of(root.path(), "mlx2")[0].rate_mbit, Some(400_000));
}

#[test]
fn a_port_is_named_as_people_name_it() {
    let root = tree(CARDS);
    let all = ports(root.path());
    let number = |name| named(&all, name).map(|port| port.number);
    assert_eq!(number("mlx2"), Some(1));
    assert_eq!(number("mlx2:2"), Some(2));
    for name in [
        "mlx2:3", "mlx2:0", "mlx2:x", "mlx2:", "mlx9", "siw0", "", ":1", "../mlx2",
    ] {
        assert_eq!(number(name), None, "{name:?}");
    }
}

#[test]
fn of_two_devices_on_one_interface_the_one_that_is_up_is_taken() {
    let mut files = SOFT.to_vec();
    files.extend([
        ("aaa/parent", "rail0"),
        ("aaa/ports/1/state", "1: DOWN"),
        ("aaa/ports/1/link_layer", "Ethernet"),
    ]);
    let root = tree(&files);
    assert_eq!(behind(&ports(root.path()), "rail0").unwrap().device, "rxe0");
}

#[test]
fn a_hostile_tree_yields_nothing_and_no_failure() {
    let huge = "1".repeat(1 << 20);
    let root = tree(&[
        ("a/ports/1/rate", "inf Gb/sec"),
        ("a/ports/1/state", &huge),
        ("a/ports/1/gids/0", "not an address"),
        ("a/ports/1/gids/1", "fe80::1"),
        ("a/ports/1/gid_attrs/types/1", "RoCE v9"),
        ("a/ports/0/state", "4: ACTIVE"),
        ("a/ports/300/state", "4: ACTIVE"),
        ("a/ports/x/state", "4: ACTIVE"),
        ("a/parent", "../../../etc"),
        ("b", "a file"),
    ]);
    let folder = root.path().join("class/infiniband");
    symlink("loop", folder.join("loop")).unwrap();
    nix::unistd::mkfifo(
        &folder.join("a/ports/1/link_layer"),
        nix::sys::stat::Mode::S_IRWXU,
    )
    .unwrap();
    let found = ports(root.path());
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(
        (found[0].number, &found[0].state, found[0].rate_mbit),
        (1, &None, None)
    );
    assert!(found[0].interfaces.is_empty() && found[0].link_layer.is_empty());
    assert!(gid_table(root.path(), "a", 1).is_empty());
    assert!(ports(Path::new("/nowhere/at/all")).is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn no_text_in_a_tree_makes_a_reader_fail(
        state in "\\PC{0,20}", rate in "[0-9.eGb/scX ()-]{0,24}", gid in "[0-9a-f:.]{0,40}",
        parent in "\\PC{0,20}", name in "\\PC{0,12}",
    ) {
        let root = tree(&[
            ("d/parent", &parent),
            ("d/ports/1/state", &state),
            ("d/ports/1/rate", &rate),
            ("d/ports/1/gids/0", &gid),
            ("d/ports/1/gid_attrs/types/0", "RoCE v2"),
        ]);
        let found = ports(root.path());
        prop_assert_eq!(found.len(), 1);
        let table = gid_table(root.path(), "d", 1);
        prop_assert_eq!(choose_gid(&table, None).is_some(), !table.is_empty());
        prop_assert!(named(&found, &name).is_none_or(|port| name.starts_with(&port.device)));
        let _ = behind(&found, &name);
    }
}
