//! What localisation and schedules rely on when they ask for ways.

use std::collections::{HashMap, HashSet};
use std::net::Ipv4Addr;

use proptest::prelude::*;

use super::*;
use crate::{Host, Link, Switch, Topology};
use record::{DeviceKind, RailEnd, RankRecord};

/// Hosts `h0..`, two to a leaf, on `rails` rails with `spines` spines each; every cable has addresses.
pub(super) fn clos(hosts: u32, rails: u32, spines: u32) -> Topology {
    let mut topology = Topology::default();
    for host in 0..hosts {
        let name = format!("h{host}");
        topology.hosts.push(Host { name });
    }
    for rail in 0..rails {
        let on_rail = Some(format!("rail{rail}"));
        let mut add_switch = |name: String, tier| {
            let rail = on_rail.clone();
            topology.switches.push(Switch {
                name,
                tier,
                rail,
                address: None,
            });
        };
        let leaves = hosts.div_ceil(2);
        (0..leaves).for_each(|leaf| add_switch(format!("rail{rail}-leaf{leaf}"), Tier::Leaf));
        (0..spines).for_each(|spine| add_switch(format!("rail{rail}-spine{spine}"), Tier::Spine));
        let mut add_cable = |name: String, ends: [String; 2], net: [u32; 2]| {
            let address = |last: u32| Ipv4Addr::new(10 + rail as u8, net[0] as u8, net[1] as u8, last as u8);
            topology.links.push(Link {
                name,
                ends: ends.map(|end| end.try_into().unwrap()),
                rate: Rate(25e6),
                rail: on_rail.clone(),
                addresses: Some([address(2).into(), address(1).into()]),
            });
        };
        for host in 0..hosts {
            let leaf = host / 2;
            add_cable(
                format!("h{host}-rail{rail}"),
                [
                    format!("h{host}/rail{rail}"),
                    format!("rail{rail}-leaf{leaf}/p{}", host % 2),
                ],
                [200, host],
            );
        }
        for leaf in 0..leaves {
            for spine in 0..spines {
                // The upper end is written first: the order of ends says nothing.
                add_cable(
                    format!("rail{rail}-leaf{leaf}-spine{spine}"),
                    [
                        format!("rail{rail}-spine{spine}/d{leaf}"),
                        format!("rail{rail}-leaf{leaf}/u{spine}"),
                    ],
                    [leaf, spine],
                );
            }
        }
    }
    topology
}

/// One rank on each of these hosts.
pub(super) fn ranks(hosts: &[&str], rails: u32) -> Vec<RankRecord> {
    let end = |rail: u32| RailEnd {
        rail: format!("rail{rail}"),
        address: String::new(),
        interface: Some(format!("rail{rail}")),
        speed_mbit: Some(200),
        rdma: None,
    };
    let rank = |(rank, host): (u32, &&str)| RankRecord {
        rank,
        host: host.to_string(),
        pid: 1,
        device: DeviceKind::Host,
        rails: (0..rails).map(end).collect(),
        gpu: None,
    };
    (0..).zip(hosts).map(rank).collect()
}

fn graph() -> Graph {
    Graph::of(&clos(4, 2, 2), &ranks(&["h0", "h1", "h2", "h3"], 2)).unwrap()
}

fn names(graph: &Graph, path: &Path) -> Vec<String> {
    path.iter().map(|id| graph.name(*id)).collect()
}

#[test]
fn neighbours_on_a_leaf_have_one_way_and_others_one_per_spine() {
    let graph = graph();
    let near = graph.paths(0, 1, "rail1");
    assert_eq!(near.len(), 1);
    assert_eq!(
        names(&graph, &near[0]),
        ["h0/rail1->rail1-leaf0/p0", "rail1-leaf0/p1->h1/rail1"]
    );
    let far = graph.paths(0, 3, "rail0");
    assert_eq!(far.len(), 2);
    assert!(far.is_sorted());
    assert_eq!(
        names(&graph, &far[1]),
        [
            "h0/rail0->rail0-leaf0/p0",
            "rail0-leaf0/u1->rail0-spine1/d0",
            "rail0-spine1/d1->rail0-leaf1/u1",
            "rail0-leaf1/p1->h3/rail0",
        ]
    );
    assert!(graph.paths(0, 0, "rail0").is_empty() && graph.paths(0, 9, "rail0").is_empty());
    assert!(graph.paths(0, 1, "rail7").is_empty());
    let across = graph.paths_between(0, "rail0", 1, "rail1");
    assert!(across.is_empty(), "rails have no switch in common");
}

#[test]
fn a_flow_crosses_the_cables_at_its_ends_for_sure_and_those_of_each_spine_with_equal_probability() {
    let graph = Graph::of(&clos(6, 1, 3), &ranks(&["h0", "h1", "h2", "h3", "h4", "h5"], 1)).unwrap();
    for (from, to) in [(0, 1), (0, 4), (5, 2)] {
        let paths = graph.paths(from, to, "rail0");
        let crossed = graph.crossing_probabilities(from, to, "rail0");
        assert!(crossed.is_sorted_by_key(|(link, _)| *link));
        let mut counted: HashMap<LinkId, f64> = HashMap::new();
        for link in paths.iter().flatten() {
            *counted.entry(*link).or_default() += 1.0 / paths.len() as f64;
        }
        assert_eq!(crossed.len(), counted.len());
        for (link, probability) in crossed {
            assert!(
                (counted[&link] - probability).abs() < 1e-12,
                "{}",
                graph.name(link)
            );
        }
    }
    assert!(graph.crossing_probabilities(0, 0, "rail0").is_empty());
    assert!(graph.crossing_probabilities(0, 9, "rail0").is_empty());
}

#[test]
fn a_spine_with_two_cables_to_a_leaf_gets_two_shares_and_only_those_reach_it() {
    let mut topology = clos(4, 1, 2);
    let second = topology
        .links
        .iter()
        .find(|link| link.name == "rail0-leaf0-spine1")
        .unwrap();
    let second = Link {
        name: "rail0-leaf0-spine1-b".to_string(),
        ends: ["rail0-spine1/d9", "rail0-leaf0/u9"].map(|end| end.to_string().try_into().unwrap()),
        addresses: None,
        ..second.clone()
    };
    topology.links.push(second);
    let graph = Graph::of(&topology, &ranks(&["h0", "h1", "h2", "h3"], 1)).unwrap();
    let crossed: HashMap<LinkId, f64> = graph.crossing_probabilities(0, 3, "rail0").into_iter().collect();
    let probability = |name: &str| crossed[&graph.named(name).unwrap()];
    assert_eq!(probability("rail0-leaf0/u9->rail0-spine1/d9"), 1.0 / 3.0);
    // The leaf draws one of three cables, the spine has one.
    assert!((probability("rail0-spine1/d1->rail0-leaf1/u1") - 2.0 / 3.0).abs() < 1e-12);
    // On the way back the spine draws.
    let back: HashMap<LinkId, f64> = graph.crossing_probabilities(3, 0, "rail0").into_iter().collect();
    assert_eq!(
        back[&graph.named("rail0-spine1/d9->rail0-leaf0/u9").unwrap()],
        0.25
    );
}

#[test]
fn what_is_known_of_a_path_makes_the_rest_more_or_less_probable() {
    let hosts: Vec<String> = (0..6).map(|host| format!("h{host}")).collect();
    let hosts: Vec<&str> = hosts.iter().map(String::as_str).collect();
    let mut topology = clos(6, 1, 3);
    let second: Vec<Link> = topology
        .links
        .iter()
        .filter(|link| link.name.contains("spine"))
        .map(|link| Link {
            name: format!("{}-b", link.name),
            ends: link
                .ends
                .each_ref()
                .map(|end| format!("{end}b").try_into().unwrap()),
            addresses: None,
            ..link.clone()
        })
        .collect();
    topology.links.extend(second);
    let graph = Graph::of(&topology, &ranks(&hosts, 1)).unwrap();
    let given = |seen: &[Option<CrossedHop<'_>>]| -> HashMap<String, f64> {
        let crossed = graph
            .crossing_probabilities_given(0, 3, "rail0", seen)
            .into_iter();
        crossed
            .map(|(link, probability)| (graph.name(link), probability))
            .collect()
    };
    let spine = |name, by: Option<&str>| {
        Some(CrossedHop {
            switch: name,
            by: by.map(|name| graph.named(name).unwrap()),
        })
    };
    let up = "rail0-leaf0/u1->rail0-spine1/d0";
    let nothing = given(&[]);
    assert!((nothing[up] - 1.0 / 6.0).abs() < 1e-12);
    // The switch: one of its two cables, on both sides.
    let switch = given(&[None, spine("rail0-spine1", None)]);
    assert_eq!(switch.len(), 6);
    assert!((switch[up] - 0.5).abs() < 1e-12);
    assert!((switch["rail0-spine1/d1b->rail0-leaf1/u1b"] - 0.5).abs() < 1e-12);
    // The cable as well.
    let cable = given(&[None, spine("rail0-spine1", Some(up))]);
    assert_eq!(cable[up], 1.0);
    assert_eq!(cable.len(), 5);
    // From behind: the spine follows from the downlink.
    let down = "rail0-spine2/d1->rail0-leaf1/u2";
    let behind = given(&[None, None, spine("rail0-leaf1", Some(down))]);
    assert!((behind["rail0-leaf0/u2b->rail0-spine2/d0b"] - 0.5).abs() < 1e-12);
    assert_eq!(behind[down], 1.0);
    // The leaf at the end says by which cable a flow came, the spine by which it went up.
    assert_eq!(graph.telling_switches(0, 3, "rail0"), [3, 2]);
    assert!(graph.telling_switches(0, 1, "rail0").is_empty(), "one path");
    let of_switches = graph.clone().with_answers_of_switches();
    assert_eq!(
        of_switches.telling_switches(0, 3, "rail0"),
        [2],
        "the leaf at the end is always the same"
    );
    let single = Graph::of(&clos(6, 1, 3), &ranks(&hosts, 1)).unwrap();
    assert_eq!(single.telling_switches(0, 3, "rail0"), [3]);
    // Where each spine has one cable to a leaf, it tells as much; of two parallel ones only the leaf at the end says which.
    assert_eq!(single.telling_in_the_middle(0, 3, "rail0"), Some(2));
    assert_eq!(graph.telling_in_the_middle(0, 3, "rail0"), None);
    assert_eq!(graph.telling_in_the_middle(0, 1, "rail0"), None);
    // A contradiction fits no path.
    assert!(
        given(&[
            None,
            spine("rail0-spine0", None),
            spine("rail0-leaf1", Some(down))
        ])
        .is_empty()
    );
    assert!(given(&[None, spine("rail0-leaf1", None)]).is_empty());
}

#[test]
fn both_directions_of_a_cable_are_links_with_names_of_their_own() {
    let graph = graph();
    assert_eq!(graph.link_count(), 2 * 2 * (4 + 4));
    for (id, link) in graph.links() {
        assert_eq!(graph.named(&graph.name(id)), Some(id));
        let back = graph.link(id.reverse());
        assert_eq!(
            (&back.from, &back.to, &back.cable),
            (&link.to, &link.from, &link.cable)
        );
        assert_ne!(back.is_upward, link.is_upward);
    }
    let up = graph.named("rail0-leaf0/u1->rail0-spine1/d0").unwrap();
    assert!(graph.link(up).is_upward && !graph.link(up).is_host);
    assert_eq!(graph.cable("rail0-leaf0-spine1"), Some([up, up.reverse()]));
    assert_eq!(
        graph.name(graph.down(2, "rail1").unwrap()),
        "rail1-leaf1/p0->h2/rail1"
    );
    assert_eq!(graph.up(2, "rail1"), graph.named("h2/rail1->rail1-leaf1/p0"));
    assert_eq!(graph.leaf_of(2, "rail1"), Some("rail1-leaf1"));
    assert_eq!(graph.tier_of("rail1-spine0"), Some(Tier::Spine));
    assert_eq!((graph.tier_of("h0"), graph.tier_of("nobody")), (None, None));
}

fn hops(addresses: &[&str]) -> Vec<Option<IpAddr>> {
    addresses.iter().map(|text| text.parse().ok()).collect()
}

#[test]
fn a_trace_that_ends_early_is_known_as_far_as_it_went_and_never_taken_for_whole() {
    let graph = graph();
    let way = graph.paths(0, 3, "rail0")[1].clone();
    let seen = |addresses: &[&str]| graph.known_links_of_hops(0, 3, "rail0", &hops(addresses), false);
    assert_eq!(seen(&["10.200.0.1", "10.0.1.2", "10.1.1.1"]), (way.clone(), true));
    assert_eq!(
        seen(&["10.200.0.1", "10.0.1.2"]),
        (way[..2].to_vec(), false),
        "nothing after the spine"
    );
    assert_eq!(seen(&["10.200.0.1", "10.0.1.2", ""]), (way[..2].to_vec(), false));
    assert_eq!(
        seen(&["", "10.0.1.2", "10.1.1.1"]),
        (way.clone(), true),
        "a switch that never answers"
    );
    assert_eq!(
        seen(&["10.200.0.1"]),
        (way[..1].to_vec(), false),
        "nothing after the leaf"
    );
    assert_eq!(seen(&[]), (vec![], false));
    assert_eq!(
        seen(&["10.99.0.1", "10.98.0.1"]),
        (vec![], false),
        "of another fabric"
    );
    // Two spines lead there, and which one is not said.
    assert_eq!(seen(&["10.200.0.1", "", "10.9.9.9"]), (vec![], false));
}

#[test]
fn a_trace_names_its_way_even_when_some_hops_are_silent() {
    let graph = graph();
    let wanted = &graph.paths(0, 3, "rail0")[1];
    let seen = |addresses: &[&str]| graph.path_of_hops(0, 3, "rail0", &hops(addresses));
    // Into the leaf from h0, into spine 1 from leaf 0, into leaf 1 from spine 1, into h3.
    let all = ["10.200.0.1", "10.0.1.2", "10.1.1.1", "10.200.3.2"];
    for silent in 0..4 {
        let mut some = all;
        some[silent] = "";
        assert_eq!(seen(&some).as_ref(), Some(wanted), "without hop {silent}");
    }
    assert_eq!(seen(&["", "10.0.1.2"]).as_ref(), Some(wanted));
    // Spine 1 answers with the port towards leaf 1: still spine 1.
    assert_eq!(seen(&["10.200.0.1", "10.1.1.2"]).as_ref(), Some(wanted));
    assert_eq!(seen(&["10.200.0.1", "", "", "10.200.3.2"]), None, "either spine");
    assert_eq!(seen(&["10.200.0.1", "10.0.1.2", "10.0.0.1"]), None, "no such way");
    assert_eq!(
        seen(&["10.200.0.1", "10.0.1.2", "10.1.1.1", "10.200.3.2", "10.9.9.9"]),
        None
    );
    assert_eq!(seen(&["10.200.1.1"]), None, "the port of another host");
}

#[test]
fn ports_without_addresses_fit_answers_of_nobody_else() {
    let mut topology = clos(4, 1, 2);
    for link in topology
        .links
        .iter_mut()
        .filter(|link| link.name.starts_with("rail0-leaf1"))
    {
        link.addresses = None;
    }
    let mut ranks = ranks(&["h0", "h1", "h2", "h3"], 1);
    ranks[3].rails[0].address = "10.7.7.7".to_string();
    let graph = Graph::of(&topology, &ranks).unwrap();
    let wanted = &graph.paths(0, 3, "rail0")[0];
    let seen = |addresses: &[&str]| graph.path_of_hops(0, 3, "rail0", &hops(addresses));
    let found = seen(&["10.200.0.1", "10.0.0.2", "172.16.0.1", "10.7.7.7"]);
    assert_eq!(
        found.as_ref(),
        Some(wanted),
        "a second address of the far end is its own, too"
    );
    assert_eq!(
        seen(&["10.200.0.1", "10.0.0.2", "10.0.1.2"]),
        None,
        "that is spine 1"
    );
}

#[test]
fn without_a_topology_every_rail_is_a_star() {
    let mut ranks = ranks(&["h0", "h1", "h1"], 2);
    ranks[1].rails[0].speed_mbit = None;
    let graph = Graph::inferred(&ranks);
    assert!(graph.is_inferred());
    assert_eq!(
        graph.link_count(),
        2 * 2 * 2,
        "two ranks of a host share its cables"
    );
    let path = &graph.paths(0, 2, "rail1")[0];
    assert_eq!(
        names(&graph, path),
        ["h0/rail1->rail1-fabric/h0", "rail1-fabric/h1->h1/rail1"]
    );
    assert_eq!(graph.link(graph.up(0, "rail0").unwrap()).rate, Rate(25e6));
    assert_eq!(graph.link(graph.up(1, "rail0").unwrap()).rate, Rate(0.0));
    assert_eq!(
        (graph.leaf_of(0, "rail0"), graph.tier_of("rail0-fabric")),
        (Some("rail0-fabric"), None)
    );
    assert!(graph.paths(1, 2, "rail0").is_empty(), "one host");
}

#[test]
fn a_host_is_found_by_its_short_name_too() {
    let graph = Graph::of(&clos(2, 1, 1), &ranks(&["h0.pod3.example", "h1"], 1)).unwrap();
    assert_eq!(graph.up(0, "rail0"), graph.named("h0/rail0->rail0-leaf0/p0"));
}

#[test]
fn a_host_the_run_does_not_use_is_idle_and_nothing_else() {
    let graph = Graph::of(&clos(4, 1, 2), &ranks(&["h0", "h1", "h3"], 1)).unwrap();
    let idle: Vec<&str> = graph
        .links()
        .filter_map(|(id, _)| graph.host_without_ranks(id))
        .collect();
    assert_eq!(idle, ["h2", "h2"]);
}

/// A topology as a file, with line numbers.
fn told(topology: &Topology) -> Topology {
    Topology::parse("fabric.toml", &topology.to_toml()).unwrap()
}

fn refused(topology: &Topology, ranks: &[RankRecord]) -> String {
    Graph::of(&told(topology), ranks).unwrap_err().to_string()
}

#[test]
fn what_file_and_run_cannot_both_be_right_about_is_said_with_line_and_host() {
    let all = ranks(&["h0", "h1", "h2", "h3"], 1);
    let good = clos(4, 1, 2);
    assert_eq!(
        refused(&good, &ranks(&["h0", "h7"], 1)),
        "fabric.toml: rank 1 runs on host `h7`, which is not in this file; the nearest is `h0` in line 1"
    );
    let without = |name: &str| {
        let mut topology = good.clone();
        topology.links.retain(|link| link.name != name);
        topology
    };
    assert_eq!(
        refused(&without("h2-rail0"), &all),
        "fabric.toml:7: host `h2` uses rail `rail0` (rank 2), but no cable ends at `h2/rail0`"
    );
    let mut topology = without("rail0-leaf1-spine0");
    topology.links.retain(|link| link.name != "rail0-leaf1-spine1");
    assert_eq!(
        refused(&topology, &all),
        "fabric.toml:7: host `h2` cannot reach host `h0` on rail `rail0`: no cables lead from `rail0-leaf1` to \
`rail0-leaf0`"
    );
    let replugged = |from: &str, to: &str| {
        let text = good.to_toml().replacen(from, to, 1);
        let topology = Topology::parse("fabric.toml", &text).unwrap();
        Graph::of(&topology, &all).unwrap_err().to_string()
    };
    let cases = [
        (
            ("rail0-leaf0/p0", "h1/eth9"),
            "cable `h0-rail0` connects host `h0` and host `h1`; hosts must connect to leaves",
        ),
        (
            ("rail0-leaf0/p0", "rail0-spine1/p0"),
            "host `h0` connects to `rail0-spine1`, whose tier is spine; hosts must connect to leaves",
        ),
        (
            ("rail0-leaf0/p0", "h0/eth9"),
            "cable `h0-rail0` leads from `h0` to itself",
        ),
    ];
    for ((from, to), wanted) in cases {
        assert_eq!(replugged(from, to), format!("fabric.toml:33: {wanted}"));
    }
}

#[test]
fn swapped_cables_show_by_their_addresses() {
    let mut all = ranks(&["h0", "h1"], 1);
    all[0].rails[0].address = "10.200.1.2".to_string();
    assert_eq!(
        refused(&clos(2, 1, 1), &all),
        "fabric.toml:24: `h1/rail0` has the address 10.200.1.2 in this file, but on host `h0` the address belongs to `rail0` (rank 0)"
    );
    all[0].rails[0].address = "172.16.0.1".to_string();
    assert!(
        Graph::of(&clos(2, 1, 1), &all).is_ok(),
        "a second address is no contradiction"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn ways_lead_from_rank_to_rank_over_spines_once_each(hosts in 2u32..12, rails in 1u32..3, spines in 1u32..5) {
        let named: Vec<String> = (0..hosts).map(|host| format!("h{host}")).collect();
        let named: Vec<&str> = named.iter().map(String::as_str).collect();
        let graph = Graph::of(&clos(hosts, rails, spines), &ranks(&named, rails)).unwrap();
        for (from, to) in (0..hosts).flat_map(|from| (0..hosts).map(move |to| (from, to))) {
            let ways = graph.paths(from, to, "rail0");
            let expected = match () {
                () if from == to => 0,
                () if from / 2 == to / 2 => 1,
                () => spines as usize,
            };
            prop_assert_eq!(ways.len(), expected);
            prop_assert_eq!(ways.iter().collect::<HashSet<_>>().len(), expected);
            for (index, way) in ways.iter().enumerate() {
                let steered = graph.route(from, to, "rail0", |_, links| if links.len() == 1 { 0 } else { index });
                prop_assert_eq!(steered.as_ref(), Some(way));
                prop_assert_eq!(graph.link(way[0]).from.to_string(), format!("h{from}/rail0"));
                prop_assert_eq!(&graph.link(way[way.len() - 1]).to.node, &format!("h{to}"));
                let joined = |pair: &[LinkId]| graph.link(pair[0]).to.node == graph.link(pair[1]).from.node;
                prop_assert!(way.windows(2).all(joined));
                prop_assert!(way.iter().all(|id| graph.link(*id).rail.as_deref() == Some("rail0")));
                let seen: Vec<Option<IpAddr>> = way.iter().map(|id| graph.arrivals[id.index()]).collect();
                let found = graph.path_of_hops(from, to, "rail0", &seen);
                prop_assert_eq!(found.as_ref(), Some(way));
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]
    #[test]
    fn whatever_is_answered_a_path_is_a_path_of_the_graph_or_none(
        answers in proptest::collection::vec(proptest::option::of(0u8..40), 0..20),
        from in 0u32..7,
        to in 0u32..7,
        arrived: bool,
    ) {
        let topology = clos(6, 1, 2);
        let graph = Graph::of(&topology, &ranks(&["h0", "h1", "h2", "h3", "h4", "h5"], 1)).unwrap();
        let known: Vec<IpAddr> = topology.links.iter().flat_map(|link| link.addresses.unwrap()).collect();
        // Addresses of ports, of hosts, and of nobody.
        let address = |number: u8| known.get(usize::from(number)).copied().unwrap_or(Ipv4Addr::new(192, 0, 2, number).into());
        let hops: Vec<Option<IpAddr>> = answers.into_iter().map(|answer| answer.map(address)).collect();
        let all = graph.paths(from, to, "rail0");
        if let Some(path) = graph.path_of_hops(from, to, "rail0", &hops) {
            prop_assert!(all.contains(&path));
        }
        let (links, _) = graph.known_links_of_hops(from, to, "rail0", &hops, arrived);
        prop_assert!(links.is_empty() || all.iter().any(|path| path.starts_with(&links)));
        let mut evidence = WiringEvidence::default();
        evidence.note(&graph, from, "rail0", &hops);
        let _ = evidence.miswiring(&graph);
    }
}
