//! A fat tree of three tiers with 648 adapters, written in the documented formats, and 10,000 paths compared with arithmetic.
//!
//! Six pods of six leaves with 18 adapters each; a pod has six spines, each with three cables to every leaf; 18 cores have one cable to
//! every spine. Leaf ports 1-18 are adapters, 19-36 spines; spine ports 1-18 are leaves, 19-36 cores; core ports 1-36 are spines. A
//! leaf sends packets to adapter `a` of another leaf by uplink `a mod 18`, a spine those to another pod by uplink `(a / 18) mod 18`.

use std::fmt::Write;

use super::*;
use crate::Topology;
use crate::graph::Graph;
use record::{DeviceKind, RailEnd, RankRecord};

const PODS: usize = 6;
const LEAVES: usize = 6;
const HOSTS: usize = 18;
const SPINES: usize = 6;
const CORES: usize = 18;
const ADAPTERS: usize = PODS * LEAVES * HOSTS;

/// Where an adapter is: its pod, leaf and port.
fn place(adapter: usize) -> (usize, usize, usize) {
    (
        adapter / HOSTS / LEAVES,
        adapter / HOSTS % LEAVES,
        adapter % HOSTS,
    )
}

fn adapter_guid(adapter: usize) -> usize {
    0x1000 + adapter
}
fn leaf_guid(pod: usize, leaf: usize) -> usize {
    0x2000 + pod * LEAVES + leaf
}
fn spine_guid(pod: usize, spine: usize) -> usize {
    0x3000 + pod * SPINES + spine
}
fn core_guid(core: usize) -> usize {
    0x4000 + core
}
/// LIDs are four apart: every adapter has an LMC of 2.
fn lid(adapter: usize) -> u16 {
    (4 * (adapter + 1)) as u16
}
/// The adapter that a route is for depends on the offset, so that offsets have paths of their own.
fn draw(adapter: usize, offset: usize) -> usize {
    adapter + offset
}

/// `ibdiagnet2.db_csv`.
fn database(adaptive: bool) -> String {
    let mut nodes = String::from("START_NODES\nNodeDesc,NumPorts,NodeType,NodeGUID\n");
    let mut ports = String::from("START_PORTS\nNodeGuid,PortNum,LID,LMC,LinkWidthActv,LinkSpeedActv\n");
    let mut links = String::from("START_LINKS\nNodeGuid1,PortNum1,NodeGuid2,PortNum2\n");
    let mut routing = String::from("START_AR_INFO\nNodeGUID,e,is_arn_sup\n");
    let mut switch = |name: String, guid: usize, lid: usize| {
        writeln!(nodes, "\"MF0;{name}:MQM8700/U1\",40,2,{guid:#x}").unwrap();
        writeln!(ports, "{guid:#x},0,{lid},0,N/A,N/A").unwrap();
        writeln!(routing, "{guid:#x},{},1", u8::from(adaptive)).unwrap();
    };
    for pod in 0..PODS {
        (0..LEAVES).for_each(|leaf| {
            switch(
                format!("leaf{pod}-{leaf}"),
                leaf_guid(pod, leaf),
                4000 + pod * LEAVES + leaf,
            )
        });
        (0..SPINES).for_each(|spine| {
            switch(
                format!("spine{pod}-{spine}"),
                spine_guid(pod, spine),
                4100 + pod * SPINES + spine,
            )
        });
    }
    (0..CORES).for_each(|core| switch(format!("core{core}"), core_guid(core), 4200 + core));
    for adapter in 0..ADAPTERS {
        let (pod, leaf, port) = place(adapter);
        let guid = adapter_guid(adapter);
        writeln!(nodes, "\"gpu{adapter:03} mlx5_0\",1,1,{guid:#x}").unwrap();
        writeln!(ports, "{guid:#x},1,{},2,2,0x400", lid(adapter)).unwrap();
        writeln!(links, "{guid:#x},1,{:#x},{}", leaf_guid(pod, leaf), port + 1).unwrap();
    }
    for pod in 0..PODS {
        for (spine, leaf) in (0..SPINES).flat_map(|spine| (0..LEAVES).map(move |leaf| (spine, leaf))) {
            for strand in 0..3 {
                let (up, down) = (19 + spine * 3 + strand, 1 + leaf * 3 + strand);
                writeln!(
                    links,
                    "{:#x},{up},{:#x},{down}",
                    leaf_guid(pod, leaf),
                    spine_guid(pod, spine)
                )
                .unwrap();
            }
        }
        for (spine, core) in (0..SPINES).flat_map(|spine| (0..CORES).map(move |core| (spine, core))) {
            let (up, down) = (19 + core, 1 + pod * SPINES + spine);
            writeln!(
                links,
                "{:#x},{up},{:#x},{down}",
                spine_guid(pod, spine),
                core_guid(core)
            )
            .unwrap();
        }
    }
    format!("{nodes}END_NODES\n{ports}END_PORTS\n{links}END_LINKS\n{routing}END_AR_INFO\n")
}

/// `ibdiagnet2.fdbs`.
fn tables() -> String {
    let mut text = String::new();
    let mut table = |guid: usize, port: &dyn Fn(usize, usize) -> usize| {
        writeln!(
            text,
            "osm_ucast_mgr_dump_ucast_routes: Switch {guid:#018x}\nLID    : Port : Hops : Optimal"
        )
        .unwrap();
        for adapter in 0..ADAPTERS {
            for offset in 0..4 {
                writeln!(
                    text,
                    "{:#06x} : {:03}  : 00   : yes",
                    lid(adapter) + offset as u16,
                    port(adapter, offset)
                )
                .unwrap();
            }
        }
        text.push('\n');
    };
    for pod in 0..PODS {
        for leaf in 0..LEAVES {
            table(leaf_guid(pod, leaf), &|adapter, offset| match place(adapter) {
                (its_pod, its_leaf, port) if (its_pod, its_leaf) == (pod, leaf) => port + 1,
                _ => 19 + draw(adapter, offset) % 18,
            });
        }
        for spine in 0..SPINES {
            table(spine_guid(pod, spine), &|adapter, offset| match place(adapter) {
                (its_pod, its_leaf, _) if its_pod == pod => 1 + its_leaf * 3 + draw(adapter, offset) % 3,
                _ => 19 + draw(adapter, offset) / 18 % 18,
            });
        }
    }
    for core in 0..CORES {
        table(core_guid(core), &|adapter, offset| {
            1 + place(adapter).0 * SPINES + draw(adapter, offset) % SPINES
        });
    }
    text
}

/// The GUIDs and ports by which packets leave, by arithmetic alone.
fn expected(from: usize, to: usize, offset: usize) -> Vec<(usize, usize)> {
    let ((pod, leaf, _), (far_pod, far_leaf, far_port)) = (place(from), place(to));
    let drawn = draw(to, offset);
    let mut path = vec![(adapter_guid(from), 1)];
    if (pod, leaf) != (far_pod, far_leaf) {
        path.push((leaf_guid(pod, leaf), 19 + drawn % 18));
        let mut spine = drawn % 18 / 3;
        if pod != far_pod {
            path.push((spine_guid(pod, spine), 19 + drawn / 18 % 18));
            path.push((core_guid(drawn / 18 % 18), 1 + far_pod * SPINES + drawn % SPINES));
            spine = drawn % SPINES;
        }
        path.push((spine_guid(far_pod, spine), 1 + far_leaf * 3 + drawn % 3));
    }
    path.push((leaf_guid(far_pod, far_leaf), far_port + 1));
    path
}

/// Pairs of different adapters, spread over all of them.
fn pairs(count: usize) -> impl Iterator<Item = (usize, usize, usize)> {
    let all = (0..).map(|number: usize| (number * 7 % ADAPTERS, number * 131 / 5 % ADAPTERS, number % 4));
    all.filter(|(from, to, _)| from != to).take(count)
}

#[test]
fn ten_thousand_paths_are_those_of_the_tables() {
    let mut subnet = Subnet::of_database(&database(false)).unwrap();
    subnet.add_tables(&tables()).unwrap();
    assert_eq!(subnet.problems(), []);
    for (from, to, offset) in pairs(10_000) {
        let start = (subnet.node(adapter_guid(from) as u64).unwrap(), 1);
        let Walk::Arrives(paths) = subnet.walk(start, lid(to) + offset as u16) else {
            panic!("gpu{from:03} does not reach gpu{to:03}");
        };
        let [path] = paths.as_slice() else {
            panic!("{} paths", paths.len());
        };
        let named: Vec<(usize, usize)> = path
            .iter()
            .map(|(node, port)| (subnet.nodes()[*node].guid as usize, usize::from(*port)))
            .collect();
        assert_eq!(named, expected(from, to, offset), "gpu{from:03} to gpu{to:03}");
    }
}

#[test]
fn with_adaptive_routing_a_path_is_the_set_of_all_that_are_equally_short() {
    let mut subnet = Subnet::of_database(&database(true)).unwrap();
    subnet.add_tables(&tables()).unwrap();
    assert_eq!(subnet.adaptive_switches(), PODS * (LEAVES + SPINES) + CORES);
    let paths = |from: usize, to: usize| {
        let start = (subnet.node(adapter_guid(from) as u64).unwrap(), 1);
        match subnet.walk(start, lid(to)) {
            Walk::Arrives(paths) => paths,
            other => panic!("{other:?}"),
        }
    };
    // Same leaf; same pod over six spines with three cables to each leaf; another pod over 18 cores and six spines there as well.
    assert_eq!(paths(0, 1).len(), 1);
    assert_eq!(paths(0, HOSTS).len(), 18 * 3);
    assert_eq!(paths(0, ADAPTERS - 1).len(), 18 * 18 * 6 * 3);
}

#[test]
fn a_topology_of_the_tables_has_their_paths() {
    let mut subnet = Subnet::of_database(&database(false)).unwrap();
    subnet.add_tables(&tables()).unwrap();
    let topology = subnet.topology().unwrap();
    assert_eq!(
        (topology.hosts.len(), topology.switches.len()),
        (ADAPTERS, PODS * (LEAVES + SPINES) + CORES)
    );
    assert_eq!(topology.rate_of("gpu000", "mlx5_0"), Some(Rate(25e9)));
    let read_again = Topology::parse("written", &topology.to_toml()).unwrap();
    assert_eq!(read_again, topology);
    let hosts: Vec<String> = (0..ADAPTERS).map(|adapter| format!("gpu{adapter:03}")).collect();
    let rank = |(rank, host): (u32, &String)| RankRecord {
        rank,
        host: host.clone(),
        pid: 1,
        device: DeviceKind::Host,
        rails: vec![RailEnd {
            rail: "mlx5_0".to_string(),
            address: String::new(),
            interface: None,
            speed_mbit: None,
            rdma: None,
        }],
        gpu: None,
    };
    let ranks: Vec<RankRecord> = (0..).zip(&hosts).map(rank).collect();
    let graph = Graph::of(&read_again, &ranks).unwrap();
    for (from, to, _) in pairs(500) {
        let paths = graph.paths(from as u32, to as u32, "mlx5_0");
        let [path] = paths.as_slice() else {
            panic!("{} paths from gpu{from:03} to gpu{to:03}", paths.len());
        };
        let ports: Vec<usize> = path
            .iter()
            .skip(1)
            .map(|link| {
                graph
                    .link(*link)
                    .from
                    .interface
                    .trim_start_matches('p')
                    .parse()
                    .unwrap()
            })
            .collect();
        let wanted: Vec<usize> = expected(from, to, 0)
            .into_iter()
            .skip(1)
            .map(|(_, port)| port)
            .collect();
        assert_eq!(ports, wanted, "gpu{from:03} to gpu{to:03}");
        let crossed = graph.crossing_probabilities(from as u32, to as u32, "mlx5_0");
        assert_eq!(crossed.len(), path.len());
        assert!(
            crossed
                .iter()
                .all(|(link, probability)| *probability == 1.0 && path.contains(link))
        );
    }
}
