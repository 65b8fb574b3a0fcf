//! InfiniBand subnets as operators record them: adapters and switches with their LIDs, cables, and forwarding tables.
//!
//! A packet carries the LID of its destination; every switch looks up the port by which it leaves. So the path of a LID follows from
//! the tables. Where adaptive routing is on for a LID, a switch has a group of ports to choose from, and the path is a set.
//!
//! | file | has |
//! |---|---|
//! | `ibnetdiscover` | nodes, cables, LIDs |
//! | `ibdiagnet2.db_csv` | the same, as tables of nodes, ports and links |
//! | `ibroute`, `dump_lfts.sh`, `ibdiagnet2.fdbs` | forwarding tables |
//!
//! A file is recognised by what is in it. [`read_folder`] reads all of them together.

mod adaptive;
mod as_topology;
mod csv;
mod database;
mod folder;
mod tables;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::text_error::TextError;
use record::units::Rate;

pub use csv::{Row, Table, table};
pub(crate) use database::is_database;
pub use folder::{ReadSubnet, read_folder};
pub use tables::{ForwardingTable, read_tables};

/// Longest path that is followed.
const MOST_HOPS: usize = 64;

/// An adapter or a switch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubnetNode {
    /// Its GUID.
    pub guid: u64,
    /// What it calls itself: `gpu001 mlx5_0`, `MF0;leaf1:SX6036/U1`.
    pub description: String,
    /// Whether it is a switch.
    pub is_switch: bool,
    /// The line where a file describes it.
    pub line: usize,
}

/// A cable as one of its ends reports it.
#[derive(Debug, Clone)]
struct SubnetCable {
    ends: [SubnetPort; 2],
    /// 0 when it is not known.
    rate: Rate,
    line: usize,
}

/// A port of a node: the node's number within the subnet, and the port's.
pub type SubnetPort = (usize, u8);

/// A subnet.
#[derive(Debug, Clone, Default)]
pub struct Subnet {
    nodes: Vec<SubnetNode>,
    by_guid: HashMap<u64, usize>,
    /// In the order of the file, twice where both ends report it.
    reported: Vec<SubnetCable>,
    cables: HashMap<SubnetPort, SubnetPort>,
    /// The port that has a LID; port 0 of a switch.
    lids: BTreeMap<u16, SubnetPort>,
    tables: BTreeMap<usize, ForwardingTable>,
    /// Switches that choose among ports that lead equally near.
    adaptive: BTreeSet<usize>,
}

/// What becomes of packets to a LID.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Walk {
    /// They arrive: the ports by which they leave the sender and the switches, on each of the possible paths.
    Arrives(Vec<Vec<SubnetPort>>),
    /// They come back to a switch where they were: its GUID.
    Loops(u64),
    /// A switch has no port for them, or one without a cable: its GUID.
    EndsNowhere(u64),
    /// The table of a switch was not recorded: its GUID.
    NoTable(u64),
}

/// What is wrong with the tables of a subnet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableProblem {
    /// The switch.
    pub switch: u64,
    /// The LID.
    pub lid: u16,
    /// In words.
    pub what: &'static str,
}

impl Subnet {
    /// Adds a node, or yields the one with that GUID.
    pub fn add_node(&mut self, guid: u64, description: &str, is_switch: bool, line: usize) -> usize {
        if let Some(node) = self.by_guid.get(&guid) {
            return *node;
        }
        self.nodes.push(SubnetNode {
            guid,
            description: description.to_string(),
            is_switch,
            line,
        });
        self.by_guid.insert(guid, self.nodes.len() - 1);
        self.nodes.len() - 1
    }

    /// Connects two ports. False when one of them has another cable already.
    pub fn add_cable(&mut self, ends: [SubnetPort; 2], rate: Rate, line: usize) -> bool {
        let [one, other] = ends;
        self.reported.push(SubnetCable { ends, rate, line });
        let is_free =
            |port: SubnetPort, far: SubnetPort| self.cables.get(&port).is_none_or(|known| *known == far);
        if one == other || !is_free(one, other) || !is_free(other, one) {
            return false;
        }
        self.cables.insert(one, other);
        self.cables.insert(other, one);
        true
    }

    /// Gives a port its LIDs: `2^lmc` of them from `lid` on. False when one of them belongs to another port.
    pub fn add_lids(&mut self, port: SubnetPort, lid: u16, lmc: u8) -> bool {
        let count = 1u16 << lmc.min(7);
        let lids = (0..count).filter_map(|offset| lid.checked_add(offset));
        for lid in lids.filter(|lid| *lid != 0) {
            if *self.lids.entry(lid).or_insert(port) != port {
                return false;
            }
        }
        true
    }

    /// Adds the tables that a text holds. Switches that are not of the subnet are an error: the text is of another one, or older.
    pub fn add_tables(&mut self, text: &str) -> Result<(), TextError> {
        for table in read_tables(text)? {
            let Some(node) = self.by_guid.get(&table.switch) else {
                let message = format!(
                    "switch {:#018x} is not in the topology: the tables are of another subnet, or older than the topology",
                    table.switch
                );
                return Err(TextError::at(table.line, message));
            };
            if !self.nodes[*node].is_switch {
                return Err(TextError::at(
                    table.line,
                    format!("{:#018x} is an adapter and has no table", table.switch),
                ));
            }
            self.tables.insert(*node, table);
        }
        Ok(())
    }

    /// The node with a GUID.
    pub fn node(&self, guid: u64) -> Option<usize> {
        self.by_guid.get(&guid).copied()
    }

    /// All nodes, by number.
    pub fn nodes(&self) -> &[SubnetNode] {
        &self.nodes
    }

    /// All LIDs of adapters, with their ports.
    pub fn adapter_lids(&self) -> impl Iterator<Item = (u16, SubnetPort)> + '_ {
        let lids = self.lids.iter().map(|(lid, port)| (*lid, *port));
        lids.filter(|(_, (node, _))| !self.nodes[*node].is_switch)
    }

    /// What becomes of packets that an adapter sends by a port to a LID.
    pub fn walk(&self, from: SubnetPort, lid: u16) -> Walk {
        let Some(target) = self.lids.get(&lid) else {
            return Walk::EndsNowhere(self.nodes[from.0].guid);
        };
        let distances = self.distances_to(lid);
        let mut arrived = Vec::new();
        let mut open = vec![vec![from]];
        while let Some(path) = open.pop() {
            let last = path[path.len() - 1];
            let Some((node, port)) = self.cables.get(&last).copied() else {
                return Walk::EndsNowhere(self.nodes[last.0].guid);
            };
            if (node, port) == *target || (node == target.0 && self.nodes[node].is_switch) {
                arrived.push(path);
                continue;
            }
            let guid = self.nodes[node].guid;
            if !self.nodes[node].is_switch {
                // An adapter does not forward.
                return Walk::EndsNowhere(guid);
            }
            if path.len() >= MOST_HOPS || path.iter().any(|(seen, _)| *seen == node) {
                return Walk::Loops(guid);
            }
            let Some(ports) = self.ports(node, lid, &distances) else {
                return Walk::NoTable(guid);
            };
            if ports.is_empty() {
                return Walk::EndsNowhere(guid);
            }
            for port in ports.iter().rev() {
                let mut longer = path.clone();
                longer.push((node, *port));
                open.push(longer);
            }
        }
        Walk::Arrives(arrived)
    }

    /// What is wrong with the tables: LIDs of adapters that a switch sends in circles or nowhere. Every switch with a table is looked at
    /// once for every LID.
    pub fn problems(&self) -> Vec<TableProblem> {
        let mut problems = Vec::new();
        for (lid, target) in self.adapter_lids() {
            let mut good: BTreeSet<usize> = BTreeSet::new();
            let mut bad: BTreeMap<usize, &'static str> = BTreeMap::new();
            for start in self.tables.keys() {
                self.follow(*start, lid, target, &mut good, &mut bad);
            }
            let one = |(switch, what): (usize, &'static str)| TableProblem {
                switch: self.nodes[switch].guid,
                lid,
                what,
            };
            problems.extend(bad.into_iter().map(one));
        }
        problems.sort_by_key(|problem| (problem.lid, problem.switch));
        problems
    }

    /// Follows a LID from a switch over the first port of each; every switch on the way is good or bad afterwards.
    fn follow(
        &self,
        start: usize,
        lid: u16,
        target: SubnetPort,
        good: &mut BTreeSet<usize>,
        bad: &mut BTreeMap<usize, &'static str>,
    ) {
        let mut path: Vec<usize> = Vec::new();
        let mut node = start;
        let outcome = loop {
            if good.contains(&node) {
                break None;
            }
            if let Some(what) = bad.get(&node) {
                break Some(*what);
            }
            if path.contains(&node) {
                break Some("packets to it go round in a circle");
            }
            path.push(node);
            let Some(table) = self.tables.get(&node) else {
                // Not recorded: nothing is wrong as far as it is known.
                break None;
            };
            let next = table
                .ports(lid)
                .first()
                .and_then(|port| self.cables.get(&(node, *port)));
            match next {
                Some(port) if *port == target => break None,
                Some((next, _)) if self.nodes[*next].is_switch => node = *next,
                Some(_) => break Some("packets to it end at another adapter"),
                None => break Some("packets to it have no way"),
            }
        };
        match outcome {
            None => good.extend(path),
            Some(what) => bad.extend(path.into_iter().map(|node| (node, what))),
        }
    }
}

#[cfg(test)]
mod fat_tree_tests;
#[cfg(test)]
mod tests;
