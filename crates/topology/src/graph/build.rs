//! Making a graph: from a topology file and the ranks of a run, or from the ranks alone.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::OnceLock;

use super::{Attachment, DirectedLink, Graph, LinkId, Node, NodeKind, Port, Target};
use crate::{Topology, TopologyError};
use record::units::Rate;
use record::{RailEnd, RankRecord};

impl Graph {
    /// The fabric that `topology` describes, with `ranks` attached. Fails where the two contradict each other, or where
    /// the topology contradicts itself.
    pub fn of(topology: &Topology, ranks: &[RankRecord]) -> Result<Graph, TopologyError> {
        if topology.each_rail {
            let ends = ranks.iter().flat_map(|record| &record.rails);
            let mut rails: Vec<&str> = ends.map(|end| end.rail.as_str()).collect();
            rails.sort_unstable();
            rails.dedup();
            return Graph::of(&topology.for_rails(&rails), ranks);
        }
        let mut graph = Graph::empty(false);
        for host in &topology.hosts {
            graph.add_node(&host.name, NodeKind::Host);
        }
        for switch in &topology.switches {
            let node = graph.add_node(&switch.name, NodeKind::Switch(switch.tier));
            if let Some(address) = switch.address {
                graph.by_address.insert(address, node);
            }
        }
        graph.check_cables(topology)?;
        for link in &topology.links {
            let addresses = link.addresses.map_or([None; 2], |both| both.map(Some));
            graph.add_cable(&link.name, &link.ends, link.rate, link.rail.as_deref(), addresses);
        }
        graph.add_forwarding(topology);
        let ports = graph.host_ports();
        for record in ranks {
            let host = graph.host_of(topology, record)?;
            graph.nodes[host as usize].has_ranks = true;
            for end in &record.rails {
                let up = names_of(end).find_map(|interface| ports.get(&(host, interface)));
                let up = *up.ok_or_else(|| graph.no_cable(topology, record, end))?;
                graph.check_address(topology, record, end, up)?;
                graph.fill_in_rate(up, end);
                graph.attach(record.rank, end, host, up);
            }
        }
        graph.check_reach(topology, ranks)?;
        graph.check_forwarding(topology)?;
        Ok(graph)
    }

    /// What is known without a topology: every host has a cable of every rail to one node that connects the hosts of the rail,
    /// called `RAIL-fabric`.
    pub fn inferred(ranks: &[RankRecord]) -> Graph {
        let mut graph = Graph::empty(true);
        let mut known: HashMap<(u32, String, String), LinkId> = HashMap::new();
        for record in ranks {
            let host = graph.add_node(&record.host, NodeKind::Host);
            graph.nodes[host as usize].has_ranks = true;
            for end in &record.rails {
                let middle = format!("{}-fabric", end.rail);
                graph.add_node(&middle, NodeKind::Unknown);
                let interface = end.interface.clone().unwrap_or_else(|| end.rail.clone());
                let key = (host, end.rail.clone(), interface.clone());
                let up = *known.entry(key).or_insert_with(|| {
                    let far = format!("{}.{interface}", record.host);
                    let ends = [
                        port(&record.host, &interface),
                        port(&middle, if interface == end.rail { &record.host } else { &far }),
                    ];
                    let name = format!("{}-{interface}", record.host);
                    graph.add_cable(&name, &ends, rate_of(end), Some(&end.rail), [None; 2])
                });
                graph.attach(record.rank, end, host, up);
            }
        }
        graph
    }

    fn empty(inferred: bool) -> Graph {
        Graph {
            nodes: Vec::new(),
            by_node: HashMap::new(),
            links: Vec::new(),
            ends: Vec::new(),
            arrivals: Vec::new(),
            by_name: HashMap::new(),
            by_address: HashMap::new(),
            switch_links: Vec::new(),
            forwarding: HashMap::new(),
            attachment: HashMap::new(),
            targets: Vec::new(),
            by_target: HashMap::new(),
            inferred,
            answers_name_switches: false,
        }
    }

    /// The node of that name, added when it is new.
    fn add_node(&mut self, name: &str, kind: NodeKind) -> u32 {
        if let Some(index) = self.by_node.get(name) {
            return *index;
        }
        let index = self.nodes.len() as u32;
        self.nodes.push(Node {
            name: name.to_string(),
            kind,
            has_ranks: false,
        });
        self.switch_links.push(Vec::new());
        self.by_node.insert(name.to_string(), index);
        index
    }

    /// Adds both directions of a cable whose nodes are there; yields the one from its first end to its second, or from its
    /// host when it has one.
    fn add_cable(
        &mut self,
        name: &str,
        ends: &[Port; 2],
        rate: Rate,
        rail: Option<&str>,
        addresses: [Option<IpAddr>; 2],
    ) -> LinkId {
        let nodes = [0, 1].map(|end| self.by_node[&ends[end].node]);
        let heights = nodes.map(|node| self.height(node));
        let first = LinkId(self.links.len() as u32);
        for (from, to) in [(0, 1), (1, 0)] {
            let id = LinkId(self.links.len() as u32);
            let link = DirectedLink {
                cable: name.to_string(),
                from: ends[from].clone(),
                to: ends[to].clone(),
                rate,
                rail: rail.map(String::from),
                is_upward: heights[from] < heights[to] || (heights[0] == heights[1] && from == 0),
                is_host: heights.contains(&0),
            };
            self.by_name.insert(link.to_string(), id);
            self.links.push(link);
            self.ends.push([nodes[from], nodes[to]]);
            self.arrivals.push(addresses[to]);
            if self.node(nodes[to]).kind != NodeKind::Host {
                self.switch_links[nodes[from] as usize].push(id);
                if let Some(address) = addresses[to] {
                    self.by_address.insert(address, nodes[to]);
                }
            }
        }
        if heights[1] == 0 { first.reverse() } else { first }
    }

    /// How far a node is from the hosts, in tiers.
    pub(super) fn height(&self, node: u32) -> u32 {
        match self.node(node).kind {
            NodeKind::Host => 0,
            NodeKind::Switch(tier) => 1 + tier as u32,
            NodeKind::Unknown => 4,
        }
    }

    /// Takes over where switches send packets. What is not there was refused when the file was read.
    fn add_forwarding(&mut self, topology: &Topology) {
        if topology.forwarding.is_empty() {
            return;
        }
        let leaving: HashMap<&Port, LinkId> = self.links().map(|(id, link)| (&link.from, id)).collect();
        let mut forwarding: HashMap<(u32, LinkId), Vec<LinkId>> = HashMap::new();
        for entry in &topology.forwarding {
            let Some(by) = leaving.get(&entry.port) else {
                continue;
            };
            let targets = entry.to.iter().filter_map(|port| leaving.get(port));
            for target in targets {
                let key = (self.ends[by.index()][0], target.reverse());
                forwarding.entry(key).or_default().push(*by);
            }
        }
        self.forwarding = forwarding;
    }

    /// The link away from every port of every host, by host and interface.
    fn host_ports(&self) -> HashMap<(u32, String), LinkId> {
        let is_upward = self.links().filter(|(_, link)| link.is_host && link.is_upward);
        is_upward
            .map(|(id, link)| ((self.ends[id.index()][0], link.from.interface.clone()), id))
            .collect()
    }

    /// A cable without a rate in the topology gets that of the host's port.
    fn fill_in_rate(&mut self, up: LinkId, end: &RailEnd) {
        for id in [up, up.reverse()] {
            let rate = &mut self.links[id.index()].rate;
            if rate.0 <= 0.0 {
                *rate = rate_of(end);
            }
        }
    }

    fn attach(&mut self, rank: u32, end: &RailEnd, host: u32, up: LinkId) {
        let switch = self.ends[up.index()][1];
        let (targets, rail) = (&mut self.targets, &end.rail);
        let target = *self.by_target.entry((switch, rail.clone())).or_insert_with(|| {
            targets.push(Target {
                switch,
                rail: rail.clone(),
                distances: OnceLock::new(),
            });
            targets.len() as u32 - 1
        });
        let attachment = Attachment {
            rail: end.rail.clone(),
            up,
            host,
            switch,
            target,
            address: end.address.parse().ok(),
        };
        self.attachment.entry(rank).or_default().push(attachment);
    }
}

/// The speed that the kernel reports for a port; 0 when it reports none.
fn rate_of(end: &RailEnd) -> Rate {
    end.speed_mbit.map_or(Rate(0.0), |mbit| Rate(mbit as f64 * 125e3))
}

/// The names that a topology may use for a rank's end of a rail: its interface, its RDMA port or device, the rail.
pub(super) fn names_of(end: &RailEnd) -> impl Iterator<Item = String> {
    let rdma = end.rdma.as_ref();
    let names = [
        end.interface.clone(),
        rdma.map(|rdma| format!("{}:{}", rdma.device, rdma.port)),
        rdma.filter(|rdma| rdma.port == 1).map(|rdma| rdma.device.clone()),
        Some(end.rail.clone()),
    ];
    names.into_iter().flatten()
}

fn port(node: &str, interface: &str) -> Port {
    Port {
        node: node.to_string(),
        interface: interface.to_string(),
    }
}
