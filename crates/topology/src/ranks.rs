//! The ranks of a run with one rank on every host of a topology file.

use std::collections::HashMap;

use super::Fabric;
use super::model::Topology;
use record::text::natural;
use record::{DeviceKind, HostRecord, RailEnd, RankRecord};

/// Assumed cores of a host: enough for a rank.
const CORES: u32 = 64;

impl Fabric {
    /// One rank on every host of a topology that has a cable, in the order of the file. A rail has the name that its cable gives,
    /// else that of the host's port. A file that describes every rail at once yields one rail: `rail0`.
    pub fn of(topology: &Topology) -> Fabric {
        if topology.each_rail {
            return Fabric::of(&topology.for_rails(&["rail0"]));
        }
        let mut ends: HashMap<&str, Vec<RailEnd>> = HashMap::new();
        for link in &topology.links {
            for (position, end) in link.ends.iter().enumerate() {
                let rail = link.rail.as_ref().unwrap_or(&end.interface);
                let address = link.addresses.map(|both| both[position].to_string());
                ends.entry(&end.node).or_default().push(RailEnd {
                    rail: rail.clone(),
                    address: address.unwrap_or_default(),
                    interface: Some(end.interface.clone()),
                    speed_mbit: (link.rate.0 > 0.0).then(|| (link.rate.0 / 125e3).round() as u64),
                    rdma: None,
                });
            }
        }
        let mut fabric = Fabric {
            hosts: Vec::new(),
            ranks: Vec::new(),
        };
        for host in &topology.hosts {
            let Some(mut rails) = ends.remove(host.name.as_str()) else {
                continue;
            };
            rails.sort_by_cached_key(|end| natural(&end.rail));
            fabric.hosts.push(HostRecord {
                name: host.name.clone(),
                cores: CORES,
                kernel: "unknown".to_string(),
                machine: None,
            });
            fabric.ranks.push(RankRecord {
                rank: fabric.ranks.len() as u32,
                host: host.name.clone(),
                pid: 0,
                device: DeviceKind::Host,
                rails,
                gpu: None,
            });
        }
        fabric
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Graph;

    #[test]
    fn every_host_with_a_cable_has_a_rank_that_fits_the_file() {
        let host = |name: &str| format!("[[host]]\nname = \"{name}\"\n");
        let cable = |name: &str, rail: &str, port: u32| {
            format!(
                "[[link]]\nname = \"{name}-{rail}\"\nends = [\"leaf/p{port}\", \"{name}/{rail}\"]\nrate = \"200 Mb/s\"\n\
addresses = [\"10.0.{port}.1\", \"10.0.{port}.2\"]\n"
            )
        };
        let text = [
            host("b"),
            host("a"),
            host("spare"),
            "[[switch]]\nname = \"leaf\"\ntier = \"leaf\"\n".to_string(),
            cable("a", "eth10", 1),
            cable("a", "eth2", 2),
            cable("b", "eth2", 3),
            cable("b", "eth10", 4),
        ]
        .concat();
        let topology = Topology::parse("fabric.toml", &text).unwrap();
        let fabric = Fabric::of(&topology);
        let named: Vec<&str> = fabric.ranks.iter().map(|record| record.host.as_str()).collect();
        assert_eq!(named, ["b", "a"], "a host without a cable has no rank");
        assert_eq!(fabric.common_rails(), ["eth2", "eth10"]);
        assert_eq!(fabric.ranks[1].rails[1].address, "10.0.1.2");
        assert_eq!(fabric.ranks[1].rails[1].speed_mbit, Some(200));
        let graph = Graph::of(&topology, &fabric.ranks).unwrap();
        assert_eq!(graph.paths(0, 1, "eth10").len(), 1);
    }
}
