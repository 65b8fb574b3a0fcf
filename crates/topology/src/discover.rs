//! A topology from answers to traces alone: leaves, spines, the cables between them, and the rails.
//!
//! What is known is who answered for each hop of a flow. What is inferred:
//!
//! - hosts that reach each other over one switch are at the same leaf;
//! - a switch that always answers with one address is known by it. Where every port answers with its own, the second hop names the
//!   cable by which a packet came to a spine and the third the one by which it left: answers before the same third hop come from
//!   one spine;
//! - two ends of a cable have neighbouring addresses (a network of 2 or 4), or are the only ones between their two switches.
//!
//! What breaks this: switches that answer from the port by which the answer leaves (the third hop then says nothing about the spine);
//! spines or parallel cables that no traced flow crossed; more than two tiers. The first two are noticed or counted, the third is refused.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use crate::{Host, Link, Port, SourceLines, Switch, Tier, Topology};
use record::RankRecord;
use record::units::Rate;

/// A traced flow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenPath {
    /// The rank that sends.
    pub from: u32,
    /// The rank that receives.
    pub to: u32,
    /// Over this rail.
    pub rail: String,
    /// Who answered for each hop; none for a silent one. Without the receiver.
    pub hops: Vec<Option<IpAddr>>,
}

/// A topology, and what in it was not seen but inferred.
#[derive(Debug, Clone, PartialEq)]
pub struct Discovered {
    /// The topology.
    pub topology: Topology,
    /// In words.
    pub inferred: Vec<String>,
}

/// The topology that explains these paths; an error says what stands in the way.
pub fn discover(ranks: &[RankRecord], paths: &[SeenPath]) -> Result<Discovered, String> {
    let mut found = Discovered {
        topology: Topology {
            source: SourceLines::default(),
            ..Topology::default()
        },
        inferred: vec![
            "names of switches, of their ports and of cables; rates of cables between switches are not known"
                .to_string(),
        ],
    };
    let mut hosts: Vec<&str> = ranks.iter().map(|record| record.host.as_str()).collect();
    hosts.sort_unstable();
    hosts.dedup();
    found.topology.hosts = hosts
        .iter()
        .map(|host| Host {
            name: host.to_string(),
        })
        .collect();
    let rails: BTreeSet<&str> = ranks
        .iter()
        .flat_map(|record| &record.rails)
        .map(|end| end.rail.as_str())
        .collect();
    for rail in rails {
        let of_rail: Vec<&SeenPath> = paths.iter().filter(|path| path.rail == rail).collect();
        Rail::of(rail, ranks, &of_rail)?.add_to(&mut found);
    }
    Ok(found)
}

/// What is known of one rail.
struct Rail<'p> {
    name: &'p str,
    /// Per leaf the ranks at it.
    leaves: Vec<Vec<&'p RankRecord>>,
    /// Per rank the address of the leaf's port, where it answered.
    leaf_ports: BTreeMap<u32, IpAddr>,
    /// Per spine: from which leaf by which address of the spine, and to which leaf by which address of that leaf.
    spines: Vec<Spine>,
    /// Whether switches answer with one address each.
    is_by_switch: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Spine {
    /// Leaf, and the address that the spine has at a cable to it.
    upper: BTreeSet<(usize, IpAddr)>,
    /// Leaf, and the address that it has at a cable to this spine.
    lower: BTreeSet<(usize, IpAddr)>,
}

impl<'p> Rail<'p> {
    fn of(name: &'p str, ranks: &'p [RankRecord], paths: &[&'p SeenPath]) -> Result<Rail<'p>, String> {
        let here: Vec<&RankRecord> = ranks
            .iter()
            .filter(|record| record.rails.iter().any(|end| end.rail == name))
            .collect();
        if let Some(long) = paths.iter().find(|path| path.hops.len() > 3) {
            return Err(format!(
                "{name}: {} switches between ranks {} and {}; fabrics of more than two tiers are not discovered from answers",
                long.hops.len(),
                long.from,
                long.to
            ));
        }
        let answers = paths.iter().flat_map(|path| path.hops.iter().flatten()).count();
        if answers == 0 {
            return Err(format!(
                "{name}: no switch answers traces; nothing can be discovered"
            ));
        }
        let mut leaf_ports: BTreeMap<u32, IpAddr> = BTreeMap::new();
        for path in paths {
            if let Some(first) = path.hops.first().copied().flatten() {
                leaf_ports.entry(path.from).or_insert(first);
            }
        }
        let leaves = leaves(&here, paths, &leaf_ports);
        let leaf_of = |rank: u32| {
            leaves
                .iter()
                .position(|leaf| leaf.iter().any(|record| record.rank == rank))
        };
        let mut crossings: BTreeSet<(usize, IpAddr, Option<IpAddr>, usize)> = BTreeSet::new();
        for path in paths.iter().filter(|path| path.hops.len() == 3) {
            let (Some(from), Some(to)) = (leaf_of(path.from), leaf_of(path.to)) else {
                continue;
            };
            if let Some(spine) = path.hops[1] {
                crossings.insert((from, spine, path.hops[2], to));
            }
        }
        // An address that is seen from two ranks or two leaves belongs to a switch and not to a port.
        let distinct: BTreeSet<&IpAddr> = leaf_ports.values().collect();
        let from_leaves: BTreeSet<(usize, IpAddr)> = crossings
            .iter()
            .map(|(from, spine, ..)| (*from, *spine))
            .collect();
        let of_spines: BTreeSet<IpAddr> = from_leaves.iter().map(|(_, spine)| *spine).collect();
        let is_by_switch = distinct.len() < leaf_ports.len() || of_spines.len() < from_leaves.len();
        let spines = match is_by_switch {
            true => spines_by_switch(&crossings),
            false => spines_by_port(name, &crossings)?,
        };
        Ok(Rail {
            name,
            leaves,
            leaf_ports,
            spines,
            is_by_switch,
        })
    }

    fn add_to(&self, found: &mut Discovered) {
        let topology = &mut found.topology;
        let rail = Some(self.name.to_string());
        let leaf_name = |leaf: usize| format!("{}-leaf{leaf}", self.name);
        for (number, leaf) in self.leaves.iter().enumerate() {
            let own = leaf
                .iter()
                .find_map(|record| self.leaf_ports.get(&record.rank))
                .copied();
            topology.switches.push(Switch {
                name: leaf_name(number),
                tier: Tier::Leaf,
                rail: rail.clone(),
                address: own.filter(|_| self.is_by_switch),
            });
            let mut cabled: BTreeSet<(&str, &str)> = BTreeSet::new();
            for (port, record) in leaf.iter().enumerate() {
                let Some(end) = record.rails.iter().find(|end| end.rail == self.name) else {
                    continue;
                };
                let interface = end.interface.as_deref().unwrap_or(&end.rail);
                // Ranks of one host share its port.
                if !cabled.insert((&record.host, interface)) {
                    continue;
                }
                let upper = self
                    .leaf_ports
                    .get(&record.rank)
                    .copied()
                    .filter(|_| !self.is_by_switch);
                let lower: Option<IpAddr> = end.address.parse().ok();
                topology.links.push(Link {
                    name: format!("{}-{}", record.host, leaf_name(number)),
                    ends: [
                        port_of(&record.host, interface),
                        port_of(&leaf_name(number), &format!("p{port}")),
                    ],
                    rate: end.speed_mbit.map_or(Rate(0.0), |mbit| Rate(mbit as f64 * 125e3)),
                    rail: rail.clone(),
                    addresses: lower.zip(upper).map(|(lower, upper)| [lower, upper]),
                });
            }
        }
        let mut next_port: BTreeMap<String, usize> = BTreeMap::new();
        let mut port = |node: &str, prefix: char| {
            let number = next_port.entry(node.to_string()).or_default();
            *number += 1;
            port_of(node, &format!("{prefix}{}", *number - 1))
        };
        let mut unmatched = 0;
        for (number, spine) in self.spines.iter().enumerate() {
            let name = format!("{}-spine{number}", self.name);
            topology.switches.push(Switch {
                name: name.clone(),
                tier: Tier::Spine,
                rail: rail.clone(),
                address: spine
                    .upper
                    .first()
                    .map(|(_, address)| *address)
                    .filter(|_| self.is_by_switch),
            });
            let leaves: BTreeSet<usize> = spine
                .upper
                .iter()
                .chain(&spine.lower)
                .map(|(leaf, _)| *leaf)
                .collect();
            for leaf in leaves {
                let (cables, guessed) = match self.is_by_switch {
                    true => (vec![None], 0),
                    false => matched(&of_leaf(&spine.upper, leaf), &of_leaf(&spine.lower, leaf)),
                };
                unmatched += guessed;
                let count = cables.len();
                for (strand, addresses) in cables.into_iter().enumerate() {
                    let suffix = if count > 1 {
                        format!("-{strand}")
                    } else {
                        String::new()
                    };
                    topology.links.push(Link {
                        name: format!("{}-spine{number}{suffix}", leaf_name(leaf)),
                        ends: [port(&leaf_name(leaf), 'u'), port(&name, 'd')],
                        rate: Rate(0.0),
                        rail: rail.clone(),
                        addresses,
                    });
                }
            }
        }
        if self.is_by_switch {
            found.inferred.push(format!(
                "{}: switches answer with one address each: parallel cables between two of them are not seen, one is written",
                self.name
            ));
        }
        if unmatched > 0 {
            found.inferred.push(format!(
                "{}: {unmatched} cables between switches were seen at one end, or it is not known which ends belong together",
                self.name
            ));
        }
    }
}

/// Ranks that reach each other over one switch, or have the same first hop, are at one leaf.
fn leaves<'p>(
    here: &[&'p RankRecord],
    paths: &[&SeenPath],
    first_hops: &BTreeMap<u32, IpAddr>,
) -> Vec<Vec<&'p RankRecord>> {
    let mut groups: Vec<BTreeSet<u32>> = here.iter().map(|record| BTreeSet::from([record.rank])).collect();
    let mut join = |one: u32, other: u32| {
        let place =
            |groups: &[BTreeSet<u32>], rank: u32| groups.iter().position(|group| group.contains(&rank));
        if let (Some(one), Some(other)) = (place(&groups, one), place(&groups, other))
            && one != other
        {
            let merged = groups.swap_remove(one.max(other));
            groups[one.min(other)].extend(merged);
        }
    };
    for path in paths.iter().filter(|path| path.hops.len() == 1) {
        join(path.from, path.to);
    }
    for (rank, address) in first_hops {
        for (other, _) in first_hops
            .iter()
            .filter(|(other, same)| *other > rank && *same == address)
        {
            join(*rank, *other);
        }
    }
    // Ranks of one host are where its port is.
    for record in here {
        for other in here
            .iter()
            .filter(|other| other.rank > record.rank && other.host == record.host)
        {
            join(record.rank, other.rank);
        }
    }
    groups.sort_by_key(|group| group.first().copied());
    let members = |group: &BTreeSet<u32>| {
        here.iter()
            .filter(|record| group.contains(&record.rank))
            .copied()
            .collect()
    };
    groups.iter().map(members).collect()
}

fn spines_by_switch(crossings: &BTreeSet<(usize, IpAddr, Option<IpAddr>, usize)>) -> Vec<Spine> {
    let mut spines: BTreeMap<IpAddr, Spine> = BTreeMap::new();
    for (from, address, _, to) in crossings {
        let spine = spines.entry(*address).or_default();
        spine.upper.extend([(*from, *address), (*to, *address)]);
    }
    spines.into_values().collect()
}

fn spines_by_port(
    rail: &str,
    crossings: &BTreeSet<(usize, IpAddr, Option<IpAddr>, usize)>,
) -> Result<Vec<Spine>, String> {
    let mut spines: Vec<Spine> = Vec::new();
    for (from, upper, lower, to) in crossings {
        let mut spine = Spine::default();
        spine.upper.insert((*from, *upper));
        spine.lower.extend(lower.map(|lower| (*to, lower)));
        // All spines that it shares an address or a cable with are one.
        let is_same = |other: &Spine| {
            let shares_address =
                !other.upper.is_disjoint(&spine.upper) || !other.lower.is_disjoint(&spine.lower);
            shares_address
                || share_a_cable(&other.upper, &spine.lower)
                || share_a_cable(&spine.upper, &other.lower)
        };
        let (same, others): (Vec<Spine>, Vec<Spine>) = spines.into_iter().partition(is_same);
        for other in same {
            spine.upper.extend(other.upper);
            spine.lower.extend(other.lower);
        }
        spines = others;
        spines.push(spine);
    }
    // Where answers leave by any port, all spines seem to be one with many cables to every leaf.
    if let [only] = spines.as_slice() {
        let leaf = only.upper.first().map(|(leaf, _)| *leaf);
        let cables = leaf.map_or(0, |leaf| of_leaf(&only.upper, leaf).len());
        if cables > 1 {
            return Err(format!(
                "{rail}: one spine with {cables} cables to every leaf, or {cables} spines that answer from the port by which the answer leaves: \
                 it cannot be told which; set net.ipv4.icmp_errors_use_inbound_ifaddr=1 on the switches, or write the file from LLDP"
            ));
        }
    }
    spines.sort_by_key(|spine| spine.upper.first().copied());
    Ok(spines)
}

/// Whether two ends with neighbouring addresses are of one leaf. With two leaves, only this joins the two directions.
fn share_a_cable(upper: &BTreeSet<(usize, IpAddr)>, lower: &BTreeSet<(usize, IpAddr)>) -> bool {
    let mut pairs = upper
        .iter()
        .flat_map(|one| lower.iter().map(move |other| (one, other)));
    pairs.any(|((leaf, one), (of, other))| leaf == of && are_neighbours(*one, *other))
}

fn of_leaf(ends: &BTreeSet<(usize, IpAddr)>, leaf: usize) -> Vec<IpAddr> {
    ends.iter()
        .filter(|(own, _)| *own == leaf)
        .map(|(_, address)| *address)
        .collect()
}

/// The two ends of the cables between a leaf and a spine, lower first, and how many of them are not sure.
fn matched(upper: &[IpAddr], lower: &[IpAddr]) -> (Vec<Option<[IpAddr; 2]>>, usize) {
    if let ([upper], [lower]) = (upper, lower) {
        return (vec![Some([*lower, *upper])], 0);
    }
    let mut left: Vec<IpAddr> = lower.to_vec();
    let mut cables = Vec::new();
    for address in upper {
        let neighbour = left.iter().position(|other| are_neighbours(*address, *other));
        cables.push(neighbour.map(|place| [left.remove(place), *address]));
    }
    // Ends without another are cables as well, unless both kinds are left over: then they belong together somehow.
    let single = cables.iter().filter(|cable| cable.is_none()).count();
    cables.extend(left.iter().skip(single).map(|_| None));
    let unsure = cables.iter().filter(|cable| cable.is_none()).count();
    (cables, unsure)
}

/// Whether two addresses are the two of a point-to-point network of 2 or 4.
fn are_neighbours(one: IpAddr, other: IpAddr) -> bool {
    match (one, other) {
        (IpAddr::V4(one), IpAddr::V4(other)) => u32::from(one) >> 2 == u32::from(other) >> 2,
        (IpAddr::V6(one), IpAddr::V6(other)) => u128::from(one) >> 2 == u128::from(other) >> 2,
        _ => false,
    }
}

fn port_of(node: &str, interface: &str) -> Port {
    Port {
        node: node.to_string(),
        interface: interface.to_string(),
    }
}

#[cfg(test)]
#[path = "discover_tests.rs"]
mod tests;
