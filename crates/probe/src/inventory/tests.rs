use std::os::unix::process::CommandExt;
use std::process::Command;

use super::*;
use record::PartClass::{Host, Interface, Module, Nic, Pci, Port};
use record::{PartClass, PartClass::Gpu};

/// A recorded tree of the tests' own_file.
fn recorded(name: &str) -> NodeInventory {
    of_tree(&super::corruption_tests::tree_of(name), name)
}

fn value<'n>(node: &'n NodeInventory, class: PartClass, name: &str, fact: &str) -> &'n str {
    let part = node
        .part(class, name)
        .unwrap_or_else(|| panic!("no {class} {name}"));
    part.value(fact)
        .unwrap_or_else(|| panic!("{name} {fact}: {:?}", part.facts.get(fact)))
}

fn fact<'n>(node: &'n NodeInventory, class: PartClass, name: &str, fact: &str) -> &'n Fact {
    &node.part(class, name).unwrap().facts[fact]
}

fn count(node: &NodeInventory, class: PartClass) -> usize {
    node.parts.iter().filter(|part| part.class == class).count()
}

#[test]
fn an_infiniband_node_tells_firmware_board_and_link_of_each_of_its_eight_nics() {
    let node = recorded("cx7-8x-ib");
    assert_eq!(
        (count(&node, Nic), count(&node, Port), count(&node, Pci)),
        (8, 8, 8)
    );
    assert_eq!(value(&node, Host, "cx7-8x-ib", "nics"), "8");
    for i in 0..8 {
        let (nic, port) = (format!("mlx5_{i}"), format!("mlx5_{i}/1"));
        assert_eq!(value(&node, Nic, &nic, "firmware"), "28.43.2026");
        assert_eq!(value(&node, Nic, &nic, "firmware-stored"), "28.43.2026");
        assert_eq!(value(&node, Nic, &nic, "board"), "MT_0000000838");
        assert_eq!(value(&node, Nic, &nic, "part-number"), "MCX75310AAS-NEAT");
        assert_eq!(value(&node, Nic, &nic, "serial"), format!("MT2334X{i:05}"));
        assert_eq!(value(&node, Nic, &nic, "driver"), "mlx5_core");
        assert_eq!(value(&node, Nic, &nic, "driver-version"), "24.10-0.7.0");
        assert_eq!(value(&node, Port, &port, "rate"), "400 Gb/sec");
        assert_eq!(value(&node, Port, &port, "width"), "4X NDR");
        assert_eq!(value(&node, Port, &port, "state"), "ACTIVE");
        assert_eq!(value(&node, Port, &port, "interface"), format!("ib{i}"));
        let address = value(&node, Nic, &nic, "pci");
        assert_eq!(value(&node, Pci, address, "speed"), "32.0 GT/s PCIe");
        assert_eq!(value(&node, Pci, address, "speed-capable"), "32.0 GT/s PCIe");
        assert_eq!(value(&node, Pci, address, "max-read-request"), "4096");
        assert_eq!(value(&node, Pci, address, "relaxed-ordering"), "on");
        assert_eq!(value(&node, Pci, address, "acs"), "off");
        assert_eq!(value(&node, Pci, address, "iommu"), "identity");
    }
    let host = |name: &str| value(&node, Host, "cx7-8x-ib", name);
    assert_eq!((host("bios"), host("bmc")), ("1.6.4", "23.09"));
    assert_eq!(
        (host("product"), host("kernel")),
        ("DGXH100", "5.15.0-1061-nvidia")
    );
    assert_eq!(
        (host("ofed"), host("nccl")),
        ("MLNX_OFED_LINUX-24.10-0.7.0.0", "2.23.4")
    );
    assert_eq!((host("cuda-runtime"), host("container")), ("12.6.77", "none"));
    assert_eq!(value(&node, Gpu, "gpu1", "vbios"), "96.00.99.00.01");
    let Fact::Unreadable { needs, .. } = fact(&node, Host, "cx7-8x-ib", "serial") else {
        panic!("the serial number was hidden where this was recorded")
    };
    assert_eq!(needs.as_deref(), Some("root"));
}

#[test]
fn a_bond_names_its_members_and_its_members_their_cables_and_settings() {
    let node = recorded("roce-bond");
    assert_eq!(value(&node, Interface, "bond0", "bond-mode"), "802.3ad 4");
    assert_eq!(
        value(&node, Interface, "bond0", "bond-members"),
        "ens1f0np0 ens1f1np1"
    );
    assert_eq!(*fact(&node, Interface, "bond0", "bond-active"), Fact::Absent);
    for name in ["ens1f0np0", "ens1f1np1"] {
        assert_eq!(value(&node, Interface, name, "master"), "bond0");
        assert_eq!(value(&node, Interface, name, "firmware"), "22.41.1000");
        assert_eq!(value(&node, Interface, name, "board"), "MT_0000000359");
        assert_eq!(value(&node, Interface, name, "fec"), "rs");
        assert_eq!(value(&node, Interface, name, "pause"), "off");
        assert_eq!(value(&node, Interface, name, "rx-ring"), "1024");
        assert_eq!(value(&node, Interface, name, "lanes"), "4");
        assert_eq!(value(&node, Module, name, "part-number"), "MCP1600-C002E30N");
        assert_eq!(value(&node, Module, name, "length"), "2 m");
    }
    assert_eq!(value(&node, Port, "mlx5_bond_0/1", "interface"), "bond0");
    assert_eq!(value(&node, Port, "mlx5_bond_0/1", "mtu"), "4096");
    let gids = value(&node, Port, "mlx5_bond_0/1", "gids");
    assert!(gids.contains("3 ::ffff:10.20.0.7 (RoCE v2)"), "{gids}");
    assert_eq!(value(&node, Nic, "mlx5_bond_0", "serial"), "MT2211J00042");
    // The second port has no RDMA device of its own_file: what its board says goes to the interface.
    assert_eq!(value(&node, Interface, "ens1f1np1", "serial"), "MT2211J00042");
    assert_eq!(value(&node, Pci, "0000:31:00.0", "acs"), "on");
    assert_eq!(value(&node, Pci, "0000:31:00.0", "acs-at"), "0000:30:01.0");
    assert_eq!(value(&node, Host, "roce-bond", "ofed"), "inbox");
}

#[test]
fn a_nic_at_half_width_on_the_bus_and_on_the_cable_is_told_from_its_neighbours() {
    let node = recorded("half-width");
    for i in 0..4 {
        let (pcie, cable, rate) = match i {
            3 => ("8", "2X NDR", "200 Gb/sec"),
            _ => ("16", "4X NDR", "400 Gb/sec"),
        };
        let address = value(&node, Nic, &format!("mlx5_{i}"), "pci");
        assert_eq!(value(&node, Pci, address, "width"), pcie);
        assert_eq!(value(&node, Pci, address, "width-capable"), "16");
        assert_eq!(value(&node, Port, &format!("mlx5_{i}/1"), "width"), cable);
        assert_eq!(value(&node, Port, &format!("mlx5_{i}/1"), "rate"), rate);
    }
}

#[test]
fn a_port_that_is_down_says_so_and_its_interface_does_not_guess_a_speed() {
    let node = recorded("port-down");
    assert_eq!(value(&node, Port, "mlx5_2/1", "state"), "DOWN");
    assert_eq!(value(&node, Port, "mlx5_2/1", "physical-state"), "Disabled");
    let down = Fact::Unreadable {
        why: "the interface is down".to_string(),
        needs: None,
    };
    assert_eq!(*fact(&node, Interface, "ib2", "speed"), down);
    assert_eq!(value(&node, Interface, "ib1", "speed"), "400000");
    assert_eq!(value(&node, Port, "mlx5_1/1", "state"), "ACTIVE");
}

#[test]
fn a_software_device_has_a_port_and_an_interface_but_neither_firmware_nor_a_place_on_a_bus() {
    let node = recorded("soft-roce");
    assert_eq!(*fact(&node, Nic, "rxe0", "firmware"), Fact::Absent);
    assert_eq!(*fact(&node, Nic, "rxe0", "pci"), Fact::Absent);
    assert_eq!(value(&node, Port, "rxe0/1", "interface"), "vec0");
    assert_eq!(value(&node, Port, "rxe0/1", "mtu"), "4096");
    assert_eq!(value(&node, Interface, "vec0", "driver"), "uml-vector");
    assert_eq!((count(&node, Pci), count(&node, Module)), (0, 0));
}

#[test]
fn a_machine_without_rdma_says_that_it_has_none_and_what_its_interface_is() {
    let node = recorded("no-rdma");
    assert_eq!(value(&node, Host, "no-rdma", "nics"), "0");
    assert_eq!((count(&node, Nic), count(&node, Port)), (0, 0));
    assert_eq!(value(&node, Interface, "eth0", "driver"), "virtio_net");
    assert_eq!(value(&node, Interface, "eth0", "pci"), "0000:00:03.0");
    assert!(node.part(Interface, "lo").is_none());
    for (class, name, name_of_fact, privilege) in [
        (Module, "eth0", "serial", "CAP_NET_ADMIN"),
        (Pci, "0000:00:03.0", "max-read-request", "root"),
    ] {
        let Fact::Unreadable { needs, .. } = fact(&node, class, name, name_of_fact) else {
            panic!("{name} {name_of_fact} was not readable")
        };
        assert_eq!(needs.as_deref(), Some(privilege));
    }
}

#[test]
fn a_recorded_tree_that_lacks_the_answers_of_drivers_does_not_have_this_machines() {
    let folder = tempfile::tempdir().unwrap();
    let eth0 = folder.path().join("sys/class/net/eth0");
    std::fs::create_dir_all(&eth0).unwrap();
    std::fs::write(eth0.join("mtu"), "9000\n").unwrap();
    let node = of_tree(folder.path(), "bare");
    assert_eq!(value(&node, Interface, "eth0", "mtu"), "9000");
    for name in ["driver-version", "rx-ring", "fec"] {
        let Fact::Unreadable { why, .. } = fact(&node, Interface, "eth0", name) else {
            panic!("{name} is not in the tree")
        };
        assert_eq!(why, "it was not recorded");
    }
}

#[test]
fn a_machine_is_read_the_same_once_it_is_recorded() {
    let gpu = InventoryPart::new(Gpu, "gpu0").with("name", Fact::Value("H200".to_string()));
    for root in ["/", "cx7-8x-ib", "roce-bond", "soft-roce", "no-rdma"] {
        let folder = tempfile::tempdir().unwrap();
        let root = super::corruption_tests::tree_of(root);
        let there = record_tree(&root, folder.path(), "node", std::slice::from_ref(&gpu)).unwrap();
        let here = of_tree(folder.path(), "node");
        let in_order = |node: &NodeInventory| {
            let mut parts = node.parts.clone();
            parts.sort_by_key(|part| (part.class, part.name.clone()));
            // Whatever comes and goes on this machine meanwhile.
            parts.retain(|part| part.class != Interface || part.value("driver") != Some("veth"));
            parts
        };
        assert_eq!(in_order(&here), in_order(&there), "{}", root.display());
    }
}

#[test]
fn a_roce_node_tells_how_it_deals_with_congestion() {
    let node = recorded("roce-bond");
    for interface in ["ens1f0np0", "ens1f1np1"] {
        let fact = |fact| value(&node, Interface, interface, fact);
        assert_eq!((fact("pfc"), fact("trust")), ("3", "dscp"));
        assert_eq!(fact("pfc-prevention"), "auto");
        assert_eq!(
            fact("dscp-map"),
            "0-7:0 8-15:1 16-23:2 24-31:3 32-39:4 40-47:5 48-55:6 56-63:7"
        );
        assert_eq!(
            (fact("ecn-np"), fact("ecn-rp")),
            ("0 1 2 3 4 5 6 7", "0 1 2 3 4 5 6 7")
        );
        assert_eq!((fact("cnp-dscp"), fact("rp-time-reset")), ("48", "300"));
    }
    assert_eq!(value(&node, Port, "mlx5_bond_0/1", "roce-tos"), "106");
    assert_eq!(
        value(&node, Port, "mlx5_bond_0/1", "traffic-class"),
        "Global tclass=106"
    );
    assert_eq!(value(&node, Host, "roce-bond", "tcp-congestion-control"), "cubic");
    // A tree that was recorded by an older version says that nobody asked.
    let older = recorded("cx7-8x-ib");
    assert!(matches!(
        fact(&older, Interface, "ib0", "pfc"),
        Fact::Unreadable { .. }
    ));
}

/// Set for the process that runs as nobody.
const AS_NOBODY: &str = "RAILGAUGE_TEST_AS_NOBODY";

#[test]
fn nobody_in_particular_can_tell_what_a_machine_is() {
    if std::env::var_os(AS_NOBODY).is_some() {
        let node = of_tree(Path::new("/"), "here");
        for name in [
            "kernel",
            "command-line",
            "os",
            "container",
            "nics",
            "interfaces",
            "iommu",
        ] {
            assert!(!value(&node, Host, "here", name).is_empty());
        }
        let mut interfaces = node.parts.iter().filter(|part| part.class == Interface);
        assert!(interfaces.all(|part| part.value("mtu").is_some() && part.value("state").is_some()));
        for fact in node.parts.iter().flat_map(|part| part.facts.values()) {
            if let Fact::Unreadable { why, needs } = fact {
                assert!(why != "permission denied" || needs.is_some(), "{fact:?}");
            }
        }
        return;
    }
    let mut again = Command::new("/proc/self/exe");
    let name = "inventory::tests::nobody_in_particular_can_tell_what_a_machine_is";
    again.args(["--exact", name]).env(AS_NOBODY, "1").current_dir("/");
    if nix::unistd::geteuid().is_root() {
        again.uid(65_534).gid(65_534);
    }
    let told = again.output().unwrap();
    let text = String::from_utf8_lossy(&told.stdout);
    assert!(told.status.success() && text.contains("1 passed"), "{text}");
}
