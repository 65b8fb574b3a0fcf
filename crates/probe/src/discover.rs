//! The rails of a host when none are named: its data interfaces.
//!
//! An interface is a rail when it is up, has an IPv4 address, and is neither the loopback, nor a bridge, nor the one that
//! holds the management address. Rails are named after their interfaces, `rail2` before `rail10`. RDMA ports without such an
//! interface (InfiniBand without IPoIB) must be named.

use std::net::IpAddr;
use std::path::Path;

use super::rails::{InterfaceAddress, RailError, addresses_here, loopback};
use super::{rdma, sysfs};
use record::RailEnd;
use record::text::natural;

/// The rails of this host when none is named and it is one of several: its interfaces for data.
pub fn discover_here(management: IpAddr) -> Result<Vec<RailEnd>, RailError> {
    if management.is_loopback() {
        // Ranks that meet over loopback are on one machine.
        return loopback();
    }
    discover(&addresses_here()?, management, Path::new(sysfs::SYS))
}

/// The rails among `addresses`; what an interface is, is read below `root`.
pub fn discover(
    addresses: &[InterfaceAddress],
    management: IpAddr,
    root: &Path,
) -> Result<Vec<RailEnd>, RailError> {
    let holds_management = |interface: &str| {
        let mut of_it = addresses.iter().filter(|entry| entry.interface == interface);
        of_it.any(|entry| entry.address == Some(management))
    };
    let ports = rdma::ports(root);
    let mut rails: Vec<RailEnd> = Vec::new();
    for entry in addresses {
        let Some(address @ IpAddr::V4(_)) = entry.address else {
            continue;
        };
        let name = &entry.interface;
        let is_known = rails.iter().any(|rail| rail.rail == *name);
        if is_known || address.is_loopback() || holds_management(name) || !sysfs::carries_data(root, name) {
            continue;
        }
        rails.push(RailEnd {
            rail: name.clone(),
            address: address.to_string(),
            interface: Some(name.clone()),
            speed_mbit: sysfs::speed_mbit(root, name),
            rdma: rdma::behind(&ports, name).map(rdma::Port::record),
        });
    }
    rails.sort_by_cached_key(|rail| natural(&rail.rail));
    if rails.is_empty() {
        let mut present: Vec<String> = addresses
            .iter()
            .filter(|entry| entry.address.is_some_and(|address| !address.is_loopback()))
            .map(|entry| entry.interface.clone())
            .collect();
        present.sort();
        present.dedup();
        // InfiniBand ports without IPoIB are rails when they are named.
        present.splice(0..0, ports.iter().map(|port| port.device.clone()));
        return Err(RailError::NoneFound { management, present });
    }
    Ok(rails)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(entries: &[(&str, &str)]) -> Vec<InterfaceAddress> {
        let entry = |(interface, address): &(&str, &str)| InterfaceAddress {
            interface: interface.to_string(),
            address: address.parse().ok(),
        };
        entries.iter().map(entry).collect()
    }

    fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join("class/net").join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        root
    }

    #[test]
    fn rails_are_the_interfaces_for_data_in_the_order_of_their_numbers() {
        let root = tree(&[
            ("lo/operstate", "unknown"),
            ("mg0/operstate", "up"),
            ("rail10/operstate", "up"),
            ("rail10/speed", "200"),
            ("rail2/operstate", "up"),
            ("rail3/operstate", "down"),
            ("docker0/operstate", "up"),
            ("docker0/bridge/bridge_id", "x"),
            ("tun0/operstate", "unknown"),
        ]);
        let addresses = host(&[
            ("lo", "127.0.0.1"),
            ("docker0", "172.17.0.1"),
            ("mg0", "10.9.0.1"),
            ("mg0", "10.99.0.1"),
            ("rail10", "10.10.0.1"),
            ("rail2", "10.2.0.1"),
            ("rail2", "10.2.0.2"),
            ("rail3", "10.3.0.1"),
            ("six", "fd00::1"),
            ("tun0", "10.8.0.1"),
        ]);
        let management = "10.99.0.1".parse().unwrap();
        let rails = discover(&addresses, management, root.path()).unwrap();
        let named: Vec<_> = rails
            .iter()
            .map(|rail| (rail.rail.as_str(), rail.address.as_str()))
            .collect();
        assert_eq!(
            named,
            [
                ("rail2", "10.2.0.1"),
                ("rail10", "10.10.0.1"),
                ("tun0", "10.8.0.1")
            ]
        );
        assert_eq!(rails[1].speed_mbit, Some(200));

        let only_management = host(&[("lo", "127.0.0.1"), ("mg0", "10.99.0.1")]);
        let error = discover(&only_management, management, root.path())
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("10.99.0.1") && error.contains("--rails mg0"),
            "{error}"
        );
        let port = root.path().join("class/infiniband/mlx5_0/ports/1");
        std::fs::create_dir_all(&port).unwrap();
        std::fs::write(port.join("link_layer"), "InfiniBand").unwrap();
        let error = discover(&only_management, management, root.path()).unwrap_err();
        assert!(error.to_string().contains("--rails mlx5_0"), "{error}");
    }

    #[test]
    fn numbers_in_names_count_as_numbers() {
        let mut names = ["rail10", "mlx5_1_p10", "rail2", "mlx5_1_p9", "rail", "b"];
        names.sort_by_cached_key(|name| natural(name));
        assert_eq!(names, ["b", "mlx5_1_p9", "mlx5_1_p10", "rail", "rail2", "rail10"]);
    }
}
