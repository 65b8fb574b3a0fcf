//! The inventory of every host, reported by one rank of each.
//!
//! A host that does not report in time neither delays nor ends the run; the inventory names it among its troubles. A rank reads
//! its inventory on a thread of its own, since a driver may be slow.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

use super::error::MeasureError;
use super::protocol::{Answer, AnswerSender, InventoryReporter, Order};
use super::session::Session;
use crate::device::telemetry::gpu_inventory;
use probe::host::{self, Identity};
use probe::inventory;
use record::{Inventory, NodeInventory, PartClass, SCHEMA};

/// The longest a host may take; most need a tenth of a second.
const TIMEOUT: Duration = Duration::from_secs(15);

/// The inventory of this machine, GPUs included, under the name `name`.
pub fn local_inventory(name: &str) -> NodeInventory {
    // The driver may have to wake the GPUs: the rest is read meanwhile.
    let gpus = std::thread::spawn(gpu_inventory);
    let mut node = inventory::of_tree(Path::new("/"), name);
    if let Ok(gpus) = gpus.join() {
        let mut parts = node.parts.iter_mut();
        if let Some(host) = parts.find(|part| part.class == PartClass::Host) {
            host.facts.insert("nvml".to_string(), gpus.nvml);
            host.facts.insert("cuda-driver".to_string(), gpus.cuda);
        }
        node.parts.extend(gpus.parts);
    }
    node
}

/// On a rank: sends the inventory of its host as soon as it is read.
pub(super) fn report(reporter: InventoryReporter, local_rank: Option<u32>, answers: AnswerSender) {
    let reports = match &reporter {
        InventoryReporter::Named(_) => true,
        InventoryReporter::FirstOfHost => local_rank.is_none_or(|local| local == 0),
    };
    std::thread::spawn(move || {
        let node = reports.then(|| {
            let name = match reporter {
                InventoryReporter::Named(name) => name,
                InventoryReporter::FirstOfHost => host::here().name,
            };
            Box::new((host::identity(), local_inventory(&name)))
        });
        // The coordinator may have continued without it.
        let _ = answers.send(&Answer::Inventory(node));
    });
}

impl Session {
    /// The inventory of the run's hosts, from the first rank of each. `taken` is the recorded time.
    pub fn inventory(&mut self, taken: String) -> Result<Inventory, MeasureError> {
        let mut asked: BTreeMap<u32, String> = BTreeMap::new();
        let mut hosts: BTreeSet<&str> = BTreeSet::new();
        for record in self
            .fabric
            .ranks
            .iter()
            .filter(|record| !self.absent.contains(&record.rank))
        {
            if hosts.insert(&record.host) {
                asked.insert(record.rank, record.host.clone());
            }
        }
        let order =
            |(rank, host): (&u32, &String)| (*rank, Order::Inventory(InventoryReporter::Named(host.clone())));
        let orders = asked.iter().map(order).collect();
        let name = |rank: u32| {
            asked
                .get(&rank)
                .cloned()
                .unwrap_or_else(|| format!("rank {rank}"))
        };
        self.take_inventory(orders, taken, name)
    }

    /// The inventory of hosts whose ranks are not set up: every rank is asked, and the first of each host reports.
    pub fn inventory_before_setup(&mut self, taken: String) -> Result<Inventory, MeasureError> {
        let ranks = 0..self.coordinator.world();
        let orders = ranks.map(|rank| (rank, Order::Inventory(InventoryReporter::FirstOfHost)));
        self.take_inventory(orders.collect(), taken, |rank| format!("rank {rank}"))
    }

    fn take_inventory(
        &mut self,
        orders: BTreeMap<u32, Order>,
        taken: String,
        name: impl Fn(u32) -> String,
    ) -> Result<Inventory, MeasureError> {
        let timeout = self.deadline().min(TIMEOUT);
        let mut reported: BTreeMap<u32, Option<(Identity, NodeInventory)>> = BTreeMap::new();
        let ranks: Vec<u32> = orders.keys().copied().collect();
        self.request(orders, Instant::now() + timeout, |rank, answer| match answer {
            Answer::Inventory(node) => {
                reported.insert(rank, node.map(|node| *node));
                None
            }
            other => Some(other),
        })?;
        let silent = ranks.iter().filter(|rank| !reported.contains_key(rank));
        let troubles =
            silent.map(|rank| format!("{} sent no inventory within {} s", name(*rank), timeout.as_secs()));
        Ok(Inventory {
            schema: SCHEMA,
            version: record::VERSION.to_string(),
            taken,
            troubles: troubles.collect(),
            nodes: once_per_host(
                reported
                    .into_iter()
                    .filter_map(|(rank, node)| Some((rank, node?))),
            ),
            ..Inventory::default()
        })
    }
}

/// Every host once, in the order of ranks. Where it is not known which rank is the first of its host, all of them report. Of
/// hosts that share a name, the later ones get the rank that reported as a suffix.
fn once_per_host(reported: impl Iterator<Item = (u32, (Identity, NodeInventory))>) -> Vec<NodeInventory> {
    let mut known: Vec<Identity> = Vec::new();
    let mut nodes: Vec<NodeInventory> = Vec::new();
    for (rank, (identity, mut node)) in reported {
        if known.contains(&identity) {
            continue;
        }
        known.push(identity);
        if nodes.iter().any(|other| other.node == node.node) {
            let own = std::mem::take(&mut node.node);
            node.node = format!("{own}@rank{rank}");
            let of_host = node.parts.iter_mut().filter(|part| part.class == PartClass::Host);
            of_host.for_each(|part| part.name = node.node.clone());
        }
        nodes.push(node);
    }
    nodes
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::InventoryPart;

    #[test]
    fn ranks_of_one_host_count_once_and_hosts_of_one_name_are_not_lost() {
        let report = |rank: u32, network: &str| {
            let identity = Identity {
                machine: "boot".to_string(),
                network: network.to_string(),
            };
            let node = NodeInventory {
                node: "localhost".to_string(),
                parts: vec![InventoryPart::new(PartClass::Host, "localhost")],
            };
            (rank, (identity, node))
        };
        let nodes =
            once_per_host([report(0, "a"), report(1, "a"), report(2, "b"), report(3, "b")].into_iter());
        let names: Vec<&str> = nodes.iter().map(|node| node.node.as_str()).collect();
        assert_eq!(names, ["localhost", "localhost@rank2"]);
        assert_eq!(nodes[1].parts[0].name, "localhost@rank2");
    }
}
