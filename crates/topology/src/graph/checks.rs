//! Contradictions between a topology and a run, reported with the line and the host.
//!
//! A host of the file that the run does not use is not one: it may be drained. Neither are cables that form a cycle, as a
//! shortest path does not go round.

use std::collections::HashMap;

use super::build::names_of;
use super::{Attachment, Graph, LinkId, NodeKind};
use crate::{Tier, Topology, TopologyError};
use record::{RailEnd, RankRecord};

impl Graph {
    /// Refuses cables from a node to itself, between hosts, and from a host to a spine or core.
    pub(super) fn check_cables(&self, topology: &Topology) -> Result<(), TopologyError> {
        for (index, link) in topology.links.iter().enumerate() {
            let line = topology.source.links.get(index).copied();
            let [a, b] = &link.ends;
            let refuse = |what: String| Err(error(topology, line, what));
            if a.node == b.node {
                return refuse(format!("cable `{}` leads from `{}` to itself", link.name, a.node));
            }
            let kinds = [a, b].map(|end| self.nodes[self.by_node[&end.node] as usize].kind);
            let (host, tier, switch) = match kinds {
                [NodeKind::Host, NodeKind::Host] => {
                    return refuse(format!(
                        "cable `{}` connects host `{}` and host `{}`; hosts must connect to leaves",
                        link.name, a.node, b.node
                    ));
                }
                [NodeKind::Host, NodeKind::Switch(tier)] => (a, tier, b),
                [NodeKind::Switch(tier), NodeKind::Host] => (b, tier, a),
                _ => continue,
            };
            if tier != Tier::Leaf {
                let named = if tier == Tier::Spine { "spine" } else { "core" };
                return refuse(format!(
                    "host `{}` connects to `{}`, whose tier is {named}; hosts must connect to leaves",
                    host.node, switch.node
                ));
            }
        }
        Ok(())
    }

    /// The node of a rank's host.
    pub(super) fn host_of(&self, topology: &Topology, record: &RankRecord) -> Result<u32, TopologyError> {
        let unknown = |what: &str| {
            let host = &record.host;
            let near = nearest(topology, host);
            let hint = near.map(|(name, line)| format!("; the nearest is `{name}` in line {line}"));
            let message = format!(
                "rank {} runs on host `{host}`, {what}{}",
                record.rank,
                hint.unwrap_or_default()
            );
            error(topology, None, message)
        };
        // Files often have short names where hosts report their full ones.
        let short = record.host.split('.').next().unwrap_or_default();
        let found = self.by_node.get(&record.host).or_else(|| self.by_node.get(short));
        match found {
            Some(index) if self.node(*index).kind == NodeKind::Host => Ok(*index),
            Some(_) => Err(unknown("which is a switch in this file")),
            None => Err(unknown("which is not in this file")),
        }
    }

    /// The error about a rail port without a cable.
    pub(super) fn no_cable(&self, topology: &Topology, record: &RankRecord, end: &RailEnd) -> TopologyError {
        let mut names: Vec<String> = names_of(end)
            .map(|name| format!("`{}/{name}`", record.host))
            .collect();
        names.dedup();
        let message = format!(
            "host `{}` uses rail `{}` (rank {}), but no cable ends at {}",
            record.host,
            end.rail,
            record.rank,
            names.join(" or ")
        );
        error(topology, line_of_host(topology, &record.host), message)
    }

    /// Refuses a port whose address the file gives to another port.
    pub(super) fn check_address(
        &self,
        topology: &Topology,
        record: &RankRecord,
        end: &RailEnd,
        up: LinkId,
    ) -> Result<(), TopologyError> {
        let Ok(address) = end.address.parse() else {
            return Ok(());
        };
        if self.arrivals[up.reverse().index()].is_none_or(|expected| expected == address) {
            return Ok(());
        }
        // An address that is nowhere in the file may be a second one of the port.
        let holder = self
            .arrivals
            .iter()
            .position(|other| *other == Some(address))
            .map(|index| LinkId(index as u32));
        let Some(holder) = holder else {
            return Ok(());
        };
        let line = topology.source.links.get(holder.index() / 2).copied();
        let message = format!(
            "`{}` has the address {address} in this file, but on host `{}` the address belongs to `{}` (rank {})",
            self.link(holder).to,
            record.host,
            end.interface.as_deref().unwrap_or(&end.rail),
            record.rank
        );
        Err(error(topology, line, message))
    }

    /// Refuses forwarding that leads packets between ranks in a circle or to a switch that has no way for them.
    pub(super) fn check_forwarding(&self, topology: &Topology) -> Result<(), TopologyError> {
        if self.forwarding.is_empty() {
            return Ok(());
        }
        // Ranks of one switch send by the same table.
        let senders: HashMap<(u32, &str), &Attachment> = self
            .attachment
            .values()
            .flatten()
            .map(|from| ((from.switch, from.rail.as_str()), from))
            .collect();
        for from in senders.into_values() {
            let targets = self.attachment.values().flatten();
            for to in targets.filter(|to| to.rail == from.rail && to.host != from.host) {
                if let Err(switch) = self.follow(from, to) {
                    let message = format!(
                        "packets from `{}` to `{}` do not arrive: by the forwarding tables they go round in a circle, or nowhere, at `{}`; \
                         are the tables older than the cables?",
                        self.link(from.up).from,
                        self.link(to.up).from,
                        self.node(switch).name
                    );
                    let line = topology.source.forwarding.first().copied();
                    return Err(error(topology, line, message));
                }
            }
        }
        Ok(())
    }

    /// Refuses ranks that share a rail when no cables lead from one to the other.
    pub(super) fn check_reach(&self, topology: &Topology, ranks: &[RankRecord]) -> Result<(), TopologyError> {
        let mut first_of: HashMap<&str, &RankRecord> = HashMap::new();
        for record in ranks {
            for end in &record.rails {
                let Some(attachment) = self.attachment(record.rank, &end.rail) else {
                    continue;
                };
                let first = *first_of.entry(&end.rail).or_insert(record);
                if !self.reaches(attachment.switch, first.rank, &end.rail) {
                    let message = format!(
                        "host `{}` cannot reach host `{}` on rail `{}`: no cables lead from `{}` to `{}`",
                        record.host,
                        first.host,
                        end.rail,
                        self.node(attachment.switch).name,
                        self.leaf_of(first.rank, &end.rail).unwrap_or("it"),
                    );
                    return Err(error(topology, line_of_host(topology, &record.host), message));
                }
            }
        }
        Ok(())
    }
}

fn error(topology: &Topology, line: Option<usize>, message: String) -> TopologyError {
    let origin = match topology.source.origin.as_str() {
        "" => "topology",
        origin => origin,
    };
    TopologyError {
        origin: origin.to_string(),
        line,
        message,
    }
}

fn line_of_host(topology: &Topology, host: &str) -> Option<usize> {
    let index = topology.hosts.iter().position(|known| known.name == host)?;
    topology.source.hosts.get(index).copied()
}

/// The host of the file whose name is most similar, and its line.
fn nearest(topology: &Topology, host: &str) -> Option<(String, usize)> {
    let lines = topology.hosts.iter().zip(&topology.source.hosts);
    let near = lines.map(|(known, line)| (strsim::damerau_levenshtein(&known.name, host), known, line));
    let (distance, known, line) = near.min_by_key(|(distance, ..)| *distance)?;
    (distance <= 3).then(|| (known.name.clone(), *line))
}
