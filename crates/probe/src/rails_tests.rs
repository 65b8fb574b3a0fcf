//! What a user of `--rails` relies on.

use super::*;

fn host() -> Vec<InterfaceAddress> {
    [
        ("lo", Some("127.0.0.1")),
        ("eth0", Some("10.0.0.7")),
        ("eth1", Some("fe80::1")),
        ("eth1", Some("fd00::7")),
        ("eth2", None),
    ]
    .map(|(interface, address)| InterfaceAddress {
        interface: interface.to_string(),
        address: address.map(|address| address.parse().unwrap()),
    })
    .to_vec()
}

fn resolved(specs: &[&str]) -> Result<Vec<RailEnd>, String> {
    let root = tempfile::tempdir().unwrap();
    let eth0 = root.path().join("class/net/eth0");
    std::fs::create_dir_all(&eth0).unwrap();
    std::fs::write(eth0.join("speed"), "200000\n").unwrap();
    let specs: Vec<String> = specs.iter().map(|spec| spec.to_string()).collect();
    let port = |device: &str, number, link_layer: &str, interfaces: &[&str]| Port {
        device: device.to_string(),
        number,
        link_layer: link_layer.to_string(),
        state: Some("ACTIVE".to_string()),
        rate_mbit: Some(400_000),
        interfaces: interfaces.iter().map(|name| name.to_string()).collect(),
    };
    let network = HostNetwork {
        addresses: host(),
        ports: vec![
            port("mlx5_0", 1, "Ethernet", &["eth0"]),
            port("mlx5_1", 1, "InfiniBand", &["ib0"]),
            port("mlx5_1", 2, "Ethernet", &["eth2", "eth1"]),
        ],
        management: "192.0.2.7".parse().unwrap(),
        root: root.path(),
    };
    resolve(&specs, &network).map_err(|error| error.to_string())
}

#[test]
fn a_rail_may_be_an_rdma_device_or_a_port_of_one() {
    let rails = resolved(&["a=mlx5_0", "mlx5_1", "mlx5_1:2", "eth0", "lo=127.0.0.1"]).unwrap();
    let found: Vec<_> = rails
        .iter()
        .map(|rail| {
            let port = rail.rdma.as_ref().map(|port| (port.device.as_str(), port.port));
            (
                rail.rail.as_str(),
                rail.address.as_str(),
                rail.interface.as_deref(),
                port,
            )
        })
        .collect();
    assert_eq!(
        found,
        [
            ("a", "10.0.0.7", Some("eth0"), Some(("mlx5_0", 1))),
            // Without an address of its own it is set up over the management network.
            ("mlx5_1", "192.0.2.7", None, Some(("mlx5_1", 1))),
            ("mlx5_1-2", "fd00::7", Some("eth1"), Some(("mlx5_1", 2))),
            ("eth0", "10.0.0.7", Some("eth0"), Some(("mlx5_0", 1))),
            ("lo", "127.0.0.1", Some("lo"), None),
        ]
    );
    assert_eq!(
        rails[1].speed_mbit,
        Some(400_000),
        "InfiniBand ports know their speed"
    );
    assert_eq!(rails[2].speed_mbit, None, "on Ethernet the interface is asked");
}

#[test]
fn a_rail_may_be_an_address_an_interface_or_either_with_a_name() {
    let rails = resolved(&["a=10.0.0.7", "b=eth1", "10.0.0.7", "eth0"]).unwrap();
    let found: Vec<_> = rails
        .iter()
        .map(|rail| {
            (
                rail.rail.as_str(),
                rail.address.as_str(),
                rail.interface.as_deref(),
                rail.speed_mbit,
            )
        })
        .collect();
    assert_eq!(
        found,
        [
            ("a", "10.0.0.7", Some("eth0"), Some(200_000)),
            ("b", "fd00::7", Some("eth1"), None),
            ("rail2", "10.0.0.7", Some("eth0"), Some(200_000)),
            ("eth0", "10.0.0.7", Some("eth0"), Some(200_000)),
        ]
    );
}

#[test]
fn what_is_wrong_with_a_rail_is_said_with_its_name() {
    let cases: [(&[&str], &str); 7] = [
        (
            &["r=eth9"],
            "rail `r`: this host has no interface or RDMA device `eth9`; it has eth0, eth1, eth2, lo, mlx5_0, mlx5_1",
        ),
        (&["r=eth2"], "rail `r`: interface `eth2` has no IP address"),
        (
            &["r=10.9.9.9"],
            "rail `r`: no interface of this host has the address 10.9.9.9",
        ),
        (&["eth0", "eth0"], "rail `eth0` is named twice"),
        (&["r="], "rail `r=`: nothing follows `=`"),
        (&["a,b=eth0"], "rail `a,b=eth0`: a name is"),
        (&[""], "rail ``: a name is"),
    ];
    for (specs, wanted) in cases {
        let error = resolved(specs).unwrap_err();
        assert!(error.starts_with(wanted), "{error}");
    }
}

#[test]
fn a_machine_without_a_network_still_has_two_rails_to_compare() {
    let rails = loopback().unwrap();
    assert_eq!(rails.len(), 2);
    assert_eq!(rails[0].address, "127.0.1.1");
    assert_eq!(rails[1].speed_mbit, None, "loopback has no link speed");
}
