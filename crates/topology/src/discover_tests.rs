//! Fabrics that are traced and then found again.

use super::*;
use crate::graph::Graph;
use record::{DeviceKind, RailEnd};

/// Two hosts to a leaf, on one rail.
fn fabric(hosts: u32, spines: u32, strands: u32) -> (Topology, Vec<RankRecord>) {
    let mut topology = Topology::default();
    let switch = |name: String, tier| Switch {
        name,
        tier,
        rail: Some("rail0".to_string()),
        address: None,
    };
    let mut next = 0u32;
    let mut link = |lower: String, upper: String| {
        next += 4;
        let address = |last: u32| IpAddr::V4((0x0a00_0000 + next + last).into());
        Link {
            name: format!("cable{next}"),
            ends: [lower, upper].map(|end| end.try_into().unwrap()),
            rate: Rate(25e6),
            rail: Some("rail0".to_string()),
            addresses: Some([address(1), address(2)]),
        }
    };
    topology.hosts = (0..hosts)
        .map(|host| Host {
            name: format!("h{host}"),
        })
        .collect();
    for leaf in 0..hosts.div_ceil(2) {
        topology.switches.push(switch(format!("leaf{leaf}"), Tier::Leaf));
        for host in (2 * leaf..2 * leaf + 2).filter(|host| *host < hosts) {
            topology
                .links
                .push(link(format!("h{host}/rail0"), format!("leaf{leaf}/p{host}")));
        }
        for (spine, strand) in (0..spines).flat_map(|spine| (0..strands).map(move |strand| (spine, strand))) {
            let ends = (
                format!("leaf{leaf}/u{spine}-{strand}"),
                format!("spine{spine}/d{leaf}-{strand}"),
            );
            topology.links.push(link(ends.0, ends.1));
        }
    }
    topology
        .switches
        .extend((0..spines).map(|spine| switch(format!("spine{spine}"), Tier::Spine)));
    let rank = |rank: u32| RankRecord {
        rank,
        host: format!("h{rank}"),
        pid: 1,
        device: DeviceKind::Host,
        rails: vec![RailEnd {
            rail: "rail0".to_string(),
            address: topology
                .link_of(&format!("h{rank}"), "rail0")
                .and_then(|link| Some(link.addresses?[0].to_string()))
                .unwrap_or_default(),
            interface: Some("rail0".to_string()),
            speed_mbit: Some(200),
            rdma: None,
        }],
        gpu: None,
    };
    let ranks = (0..hosts).map(rank).collect();
    (topology, ranks)
}

/// Traces over every path of every pair, answered by the ports by which packets come in.
fn traced(topology: &Topology, ranks: &[RankRecord]) -> Vec<SeenPath> {
    let graph = Graph::of(topology, ranks).unwrap();
    let mut seen = Vec::new();
    for (from, to) in ranks
        .iter()
        .flat_map(|from| ranks.iter().map(move |to| (from.rank, to.rank)))
    {
        for path in graph.paths(from, to, "rail0") {
            let arrivals = path[..path.len() - 1].iter().map(|link| {
                let link = graph.link(*link);
                let cable = topology
                    .links
                    .iter()
                    .find(|cable| cable.name == link.cable)
                    .unwrap();
                let end = cable.ends.iter().position(|end| *end == link.to).unwrap();
                Some(cable.addresses.unwrap()[end])
            });
            seen.push(SeenPath {
                from,
                to,
                rail: "rail0".to_string(),
                hops: arrivals.collect(),
            });
        }
    }
    seen
}

/// Everything but names: hosts per leaf, and per leaf and spine how many cables.
fn shape(topology: &Topology) -> (Vec<Vec<String>>, Vec<usize>) {
    let leaves = topology
        .switches
        .iter()
        .filter(|switch| switch.tier == Tier::Leaf);
    let hosts = leaves.map(|leaf| {
        let links = topology
            .links
            .iter()
            .filter(|link| link.ends[1].node == leaf.name);
        let mut hosts: Vec<String> = links.map(|link| link.ends[0].node.clone()).collect();
        hosts.sort();
        hosts
    });
    let mut counts: BTreeMap<(String, String), usize> = BTreeMap::new();
    for link in topology
        .links
        .iter()
        .filter(|link| !topology.hosts.iter().any(|host| host.name == link.ends[0].node))
    {
        *counts
            .entry((link.ends[0].node.clone(), link.ends[1].node.clone()))
            .or_default() += 1;
    }
    (hosts.collect(), counts.into_values().collect())
}

#[test]
fn leaves_spines_and_parallel_cables_are_found_again() {
    for (hosts, spines, strands) in [(6, 2, 1), (8, 3, 2), (5, 4, 1), (4, 1, 1)] {
        let (topology, ranks) = fabric(hosts, spines, strands);
        let found = discover(&ranks, &traced(&topology, &ranks)).unwrap();
        assert_eq!(
            shape(&found.topology),
            shape(&topology),
            "{hosts} hosts, {spines} spines, {strands} strands"
        );
        let mut addresses: Vec<_> = found.topology.links.iter().map(|link| link.addresses).collect();
        let mut wanted: Vec<_> = topology.links.iter().map(|link| link.addresses).collect();
        addresses.sort();
        wanted.sort();
        assert_eq!(addresses, wanted);
        // What was found can be used, and says what it is.
        let read = Topology::parse("found", &found.topology.to_toml()).unwrap();
        assert!(Graph::of(&read, &ranks).is_ok());
        assert!(!found.inferred.is_empty());
    }
}

#[test]
fn switches_that_answer_with_one_address_are_known_by_it() {
    let (topology, ranks) = fabric(6, 2, 1);
    let graph = Graph::of(&topology, &ranks).unwrap();
    let own = |address: &Option<IpAddr>| {
        let switch = graph.switch_with_address((*address)?)?;
        let number = topology.switches.iter().position(|other| other.name == switch)?;
        Some(IpAddr::V4((0x0aff_0000 + number as u32).into()))
    };
    let paths = traced(&topology, &ranks).into_iter().map(|path| SeenPath {
        hops: path.hops.iter().map(own).collect(),
        ..path
    });
    let found = discover(&ranks, &paths.collect::<Vec<_>>()).unwrap();
    assert_eq!(shape(&found.topology), shape(&topology));
    assert!(
        found
            .topology
            .switches
            .iter()
            .all(|switch| switch.address.is_some())
    );
    assert!(found.inferred.iter().any(|line| line.contains("parallel cables")));
}

#[test]
fn where_nothing_can_be_told_it_says_why() {
    let (topology, ranks) = fabric(6, 2, 1);
    let paths = traced(&topology, &ranks);
    let silent: Vec<SeenPath> = paths
        .iter()
        .map(|path| SeenPath {
            hops: vec![None; path.hops.len()],
            ..path.clone()
        })
        .collect();
    assert!(
        discover(&ranks, &silent)
            .unwrap_err()
            .contains("no switch answers")
    );
    // Answers leave by any uplink: every third hop is seen behind every spine.
    let mut any = paths.clone();
    for path in paths.iter().filter(|path| path.hops.len() == 3) {
        for other in paths
            .iter()
            .filter(|other| (other.from, other.to) == (path.from, path.to))
        {
            let mut mixed = path.clone();
            mixed.hops[2] = other.hops[2];
            any.push(mixed);
        }
    }
    assert!(
        discover(&ranks, &any)
            .unwrap_err()
            .contains("icmp_errors_use_inbound_ifaddr")
    );
    let mut long = paths;
    long[0].hops = vec![None; 5];
    assert!(
        discover(&ranks, &long)
            .unwrap_err()
            .contains("more than two tiers")
    );
}
