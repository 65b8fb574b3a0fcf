//! Topologies that describe one rail and stand for every rail.

use super::model::{Link, Port, SourceLines, Switch, Topology};

impl Topology {
    /// One copy for each of these rails: the names of switches and cables get the rail as a prefix, a host's port gets the name
    /// of its rail.
    pub fn for_rails(&self, rails: &[&str]) -> Topology {
        let mut copies = Topology {
            hosts: self.hosts.clone(),
            source: SourceLines {
                origin: self.source.origin.clone(),
                hosts: self.source.hosts.clone(),
                ..SourceLines::default()
            },
            ..Topology::default()
        };
        let is_host = |name: &str| self.hosts.iter().any(|host| host.name == name);
        let of_hosts: Vec<[bool; 2]> = self
            .links
            .iter()
            .map(|link| link.ends.each_ref().map(|end| is_host(&end.node)))
            .collect();
        for rail in rails {
            let named = |name: &str| format!("{rail}-{name}");
            copies.switches.extend(self.switches.iter().map(|switch| Switch {
                name: named(&switch.name),
                tier: switch.tier,
                rail: Some(rail.to_string()),
                // One address cannot belong to the switches of all rails.
                address: None,
            }));
            copies
                .links
                .extend(self.links.iter().zip(&of_hosts).map(|(link, of_hosts)| {
                    let end = |at: usize| match of_hosts[at] {
                        true => Port {
                            node: link.ends[at].node.clone(),
                            interface: rail.to_string(),
                        },
                        false => Port {
                            node: named(&link.ends[at].node),
                            interface: link.ends[at].interface.clone(),
                        },
                    };
                    Link {
                        name: named(&link.name),
                        ends: [end(0), end(1)],
                        rate: link.rate,
                        rail: Some(rail.to_string()),
                        addresses: None,
                    }
                }));
            copies.source.switches.extend(&self.source.switches);
            copies.source.links.extend(&self.source.links);
        }
        copies
    }
}
