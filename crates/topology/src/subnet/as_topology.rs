//! A subnet as a topology: hosts by the names their adapters have, switches by theirs, and where each switch sends what.
//!
//! A host is the first word of its adapter's description and its port the second, as the drivers describe themselves
//! (`gpu001 mlx5_0`). A switch has the name in its description where that is unique, else its GUID. In-network aggregation nodes are
//! not hosts. Of the LIDs of an adapter (several with an LMC above 0) only the first is written down: it is the one that is measured.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::{Subnet, SubnetNode, SubnetPort, TableProblem};
use crate::import::{Cabling, is_aggregation, name_in_description, node_name, port_name};
use crate::text_error::TextError;
use crate::{Forwarding, Port, Topology};

impl Subnet {
    /// Its topology, with where switches send packets as far as tables say so and are not wrong.
    pub fn topology(&self) -> Result<Topology, TextError> {
        let names = self.names();
        let mut cabling = Cabling::default();
        for cable in &self.reported {
            let nodes = cable.ends.map(|(node, _)| &self.nodes[node]);
            let is_between_hosts = nodes.iter().all(|node| !node.is_switch);
            if is_between_hosts || nodes.iter().any(|node| is_aggregation_node(node)) {
                continue;
            }
            let mut end = |(node, port): SubnetPort| {
                let described = &self.nodes[node];
                let known = cabling.node(&names[node].0, !described.is_switch, described.line);
                (known, self.port_name(&names, (node, port)))
            };
            let ends = [end(cable.ends[0]), end(cable.ends[1])];
            cabling.cable(ends, cable.rate, cable.line)?;
        }
        let mut topology = cabling.topology();
        topology.forwarding = self.forwarding(&names);
        Ok(topology)
    }

    /// What each switch does with packets to each adapter.
    fn forwarding(&self, names: &[(String, Option<String>)]) -> Vec<Forwarding> {
        let wrong: BTreeSet<(u64, u16)> = self
            .problems()
            .into_iter()
            .map(|TableProblem { switch, lid, .. }| (switch, lid))
            .collect();
        let mut first_lids: BTreeMap<SubnetPort, u16> = BTreeMap::new();
        for (lid, port) in self.adapter_lids() {
            let has_cable = self.cables.contains_key(&port) && !is_aggregation_node(&self.nodes[port.0]);
            if has_cable {
                first_lids.entry(port).or_insert(lid);
            }
        }
        let mut targets: BTreeMap<SubnetPort, Vec<Port>> = BTreeMap::new();
        for (target, lid) in first_lids {
            let distances = self.distances_to(lid);
            for switch in self.tables.keys() {
                if wrong.contains(&(self.nodes[*switch].guid, lid)) {
                    continue;
                }
                for port in self.ports(*switch, lid, &distances).unwrap_or_default() {
                    targets
                        .entry((*switch, port))
                        .or_default()
                        .push(self.port(names, target));
                }
            }
        }
        let one = |(port, to): (SubnetPort, Vec<Port>)| Forwarding {
            port: self.port(names, port),
            to,
        };
        let is_cabled = |(port, _): &(SubnetPort, Vec<Port>)| self.cables.contains_key(port);
        targets.into_iter().filter(is_cabled).map(one).collect()
    }

    /// The port of `HOST/ADAPTER`, and its first LID.
    pub fn adapter(&self, name: &str) -> Option<(SubnetPort, u16)> {
        let names = self.names();
        let mut adapters = self.adapter_lids();
        let (lid, port) = adapters.find(|(_, port)| self.port(&names, *port).to_string() == name)?;
        Some((port, lid))
    }

    /// A port as it is called in a topology file.
    pub fn port_in_words(&self, port: SubnetPort) -> String {
        self.port(&self.names(), port).to_string()
    }

    /// What the node with a GUID is called.
    pub fn name_of(&self, guid: u64) -> String {
        let node = self.node(guid);
        node.map_or_else(|| format!("{guid:#018x}"), |node| self.names()[node].0.clone())
    }

    fn port(&self, names: &[(String, Option<String>)], port: SubnetPort) -> Port {
        Port {
            node: names[port.0].0.clone(),
            interface: self.port_name(names, port),
        }
    }

    /// Ports of switches are numbered; the first port of an adapter has the adapter's name.
    fn port_name(&self, names: &[(String, Option<String>)], (node, port): SubnetPort) -> String {
        match (&names[node].1, port) {
            (None, port) => format!("p{port}"),
            (Some(adapter), 1) => port_name(adapter),
            (Some(adapter), port) => port_name(&format!("{adapter}:{port}")),
        }
    }

    /// What every node is called, and its adapter where it is a host's.
    pub fn names(&self) -> Vec<(String, Option<String>)> {
        let switch_name = |node: &SubnetNode| {
            name_in_description(&node.description).unwrap_or_else(|| node_name(&id_of(node)))
        };
        let mut uses: HashMap<String, usize> = HashMap::new();
        for node in self.nodes.iter().filter(|node| node.is_switch) {
            *uses.entry(switch_name(node)).or_default() += 1;
        }
        let hosts = self.nodes.iter().filter(|node| !node.is_switch);
        let hosts: BTreeSet<String> = hosts.map(|node| host_name(node).0).collect();
        let name = |node: &SubnetNode| match node.is_switch {
            false => {
                let (host, adapter) = host_name(node);
                (host, Some(adapter))
            }
            true => {
                let name = switch_name(node);
                let is_unique = uses.get(&name) == Some(&1) && !hosts.contains(&name);
                (if is_unique { name } else { node_name(&id_of(node)) }, None)
            }
        };
        self.nodes.iter().map(name).collect()
    }
}

/// Host and adapter. An adapter without a name in its description has its GUID.
fn host_name(node: &SubnetNode) -> (String, String) {
    let id = id_of(node);
    let mut words = node.description.split_whitespace();
    let host = words.next().unwrap_or(&id);
    let adapter = words.next().unwrap_or(&id);
    (node_name(host), adapter.to_string())
}

/// `S-0002c90200423e70`, `H-0002c903000e0b72`.
pub(crate) fn id_of(node: &SubnetNode) -> String {
    let kind = if node.is_switch { 'S' } else { 'H' };
    format!("{kind}-{:016x}", node.guid)
}

fn is_aggregation_node(node: &SubnetNode) -> bool {
    !node.is_switch && is_aggregation(&node.description)
}
