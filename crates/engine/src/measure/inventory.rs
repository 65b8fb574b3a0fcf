//! What every host is made of, told by one rank of each.
//!
//! Held true: a host that does not tell, or not in time, does not hold up or end the run; it is named among the troubles of the
//! inventory. On a rank the reading is done beside everything else, since a driver may take its time.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

use super::orders::{Answer, Order, Teller};
use super::session::{MeasureError, Session};
use super::voice::Voice;
use crate::device::telemetry::gpus_here;
use probe::host::{self, Identity};
use probe::inventory;
use record::{Inventory, NodeInventory, PartClass, SCHEMA};

/// The longest a host may take to tell; most need a tenth of a second.
const LONGEST: Duration = Duration::from_secs(15);

/// What this machine is made of, GPUs included, under the name `name`.
pub fn local_inventory(name: &str) -> NodeInventory {
    // The driver may have to wake its GPUs: the rest is read meanwhile.
    let gpus = std::thread::spawn(gpus_here);
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

/// On a rank: tells what its host is made of as soon as that is known.
pub(super) fn tell(teller: Teller, local_rank: Option<u32>, voice: Voice) {
    let speaks = match &teller {
        Teller::Named(_) => true,
        Teller::FirstOfHost => local_rank.is_none_or(|local| local == 0),
    };
    std::thread::spawn(move || {
        let node = speaks.then(|| {
            let name = match teller {
                Teller::Named(name) => name,
                Teller::FirstOfHost => host::here().name,
            };
            Box::new((host::identity(), local_inventory(&name)))
        });
        // Whoever asked may have gone on without.
        let _ = voice.say(&Answer::Inventory(node));
    });
}

impl Session {
    /// What the hosts of this run are made of: the first rank of each tells. `taken` is the time that is written down.
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
        let order = |(rank, host): (&u32, &String)| (*rank, Order::Inventory(Teller::Named(host.clone())));
        let orders = asked.iter().map(order).collect();
        let name = |rank: u32| {
            asked
                .get(&rank)
                .cloned()
                .unwrap_or_else(|| format!("rank {rank}"))
        };
        self.take_inventory(orders, taken, name)
    }

    /// What the hosts of a world are made of whose ranks have not introduced themselves: every rank is asked, and the first of
    /// each host tells.
    pub fn inventory_before_setup(&mut self, taken: String) -> Result<Inventory, MeasureError> {
        let ranks = 0..self.coordinator.world();
        let orders = ranks.map(|rank| (rank, Order::Inventory(Teller::FirstOfHost)));
        self.take_inventory(orders.collect(), taken, |rank| format!("rank {rank}"))
    }

    fn take_inventory(
        &mut self,
        orders: BTreeMap<u32, Order>,
        taken: String,
        name: impl Fn(u32) -> String,
    ) -> Result<Inventory, MeasureError> {
        let patience = self.deadline().min(LONGEST);
        let mut told: BTreeMap<u32, Option<(Identity, NodeInventory)>> = BTreeMap::new();
        let ranks: Vec<u32> = orders.keys().copied().collect();
        self.ask(orders, Instant::now() + patience, |rank, answer| match answer {
            Answer::Inventory(node) => {
                told.insert(rank, node.map(|node| *node));
                None
            }
            other => Some(other),
        })?;
        let silent = ranks.iter().filter(|rank| !told.contains_key(rank));
        let troubles = silent.map(|rank| {
            format!(
                "{} did not tell what it is made of within {} s",
                name(*rank),
                patience.as_secs()
            )
        });
        Ok(Inventory {
            schema: SCHEMA,
            version: record::VERSION.to_string(),
            taken,
            troubles: troubles.collect(),
            nodes: once_per_host(told.into_iter().filter_map(|(rank, told)| Some((rank, told?)))),
            ..Inventory::default()
        })
    }
}

/// Every host once, in the order of ranks. Where nobody says which of several ranks is the first of its host, all of them tell; and hosts
/// that share a name are still several, the later ones told apart by the rank that spoke.
fn once_per_host(told: impl Iterator<Item = (u32, (Identity, NodeInventory))>) -> Vec<NodeInventory> {
    let mut known: Vec<Identity> = Vec::new();
    let mut nodes: Vec<NodeInventory> = Vec::new();
    for (rank, (identity, mut node)) in told {
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
    fn ranks_of_one_host_tell_once_and_hosts_of_one_name_are_not_lost() {
        let told = |rank: u32, network: &str| {
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
        let nodes = once_per_host([told(0, "a"), told(1, "a"), told(2, "b"), told(3, "b")].into_iter());
        let names: Vec<&str> = nodes.iter().map(|node| node.node.as_str()).collect();
        assert_eq!(names, ["localhost", "localhost@rank2"]);
        assert_eq!(nodes[1].parts[0].name, "localhost@rank2");
    }
}
