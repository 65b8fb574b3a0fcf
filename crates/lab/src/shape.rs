//! How large a lab is: hosts, rails, switches, and the rate of its cables.

use std::ops::Range;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{LabError, Node};
use record::units::Rate;

/// Most hosts with a kernel of their own: each may use 384 MB.
const MOST_GUESTS: u16 = 16;

/// Hosts, rails, switches and cables of a lab.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shape {
    /// Hosts.
    pub hosts: u16,
    /// Rails of each host.
    pub rails: u16,
    /// Leaf switches per rail.
    pub leaves: u16,
    /// Spine switches per rail.
    pub spines: u16,
    /// Parallel cables between a leaf and a spine.
    pub trunk: u16,
    /// Rate of the hosts' cables, in each direction.
    pub rate: Rate,
    /// Rate of the cables between switches.
    pub uplink: Rate,
    /// Largest packet on the rails.
    pub mtu: u32,
    /// Seed of the switches' hash functions.
    pub seed: u64,
    /// The kernel that every host runs in a guest of its own; none when hosts are namespaces only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guests: Option<PathBuf>,
}

impl Shape {
    /// Hosts and rails from `4x2`; the rest as it is by default.
    pub fn parse(text: &str) -> Result<Shape, LabError> {
        let bad = || LabError::BadShape(format!("`{text}` is not a shape; write HOSTSxRAILS, like 4x2"));
        let (hosts, rails) = text.split_once('x').ok_or_else(bad)?;
        let number = |text: &str| text.parse::<u16>().map_err(|_| bad());
        Ok(Shape {
            hosts: number(hosts)?,
            rails: number(rails)?,
            leaves: 2,
            spines: 2,
            trunk: 1,
            rate: Rate(25e6),
            uplink: Rate(25e6),
            mtu: 9000,
            seed: 1,
            guests: None,
        })
    }

    /// Whether it can be built here: within bounds, and every leaf has a host.
    pub fn check(&self) -> Result<(), LabError> {
        let bits = |rate: Rate| (rate.0 * 8.0) as u64;
        let bounds: [(&str, u64, Range<u64>); 8] = [
            ("hosts", self.hosts.into(), 2..129),
            ("rails", self.rails.into(), 1..9),
            ("leaves", self.leaves.into(), 1..17),
            ("spines", self.spines.into(), 1..17),
            ("parallel cables (trunk)", self.trunk.into(), 1..5),
            ("bytes of MTU", self.mtu.into(), 576..9001),
            ("bits per second", bits(self.rate), 1_000_000..10_000_000_001),
            (
                "bits per second between switches",
                bits(self.uplink),
                1_000_000..10_000_000_001,
            ),
        ];
        for (what, value, range) in bounds {
            if !range.contains(&value) {
                let (least, most) = (range.start, range.end - 1);
                return Err(LabError::BadShape(format!(
                    "{value} {what}: a lab has {least} to {most}"
                )));
            }
        }
        if self.leaves > self.hosts {
            return Err(LabError::BadShape(format!(
                "{} leaves for {} hosts: a leaf without a host would carry nothing",
                self.leaves, self.hosts
            )));
        }
        if self.guests.is_some() && self.hosts > MOST_GUESTS {
            return Err(LabError::BadShape(format!(
                "{} hosts with kernels of their own: at most {MOST_GUESTS}",
                self.hosts
            )));
        }
        match self.hosts.div_ceil(self.leaves) {
            0..=64 => Ok(()),
            hosts => Err(LabError::BadShape(format!(
                "{hosts} hosts on one leaf: at most 64; use more --leaves"
            ))),
        }
    }

    /// All nodes, hosts first.
    pub fn nodes(&self) -> Vec<Node> {
        let mut nodes: Vec<Node> = self.host_nodes().collect();
        for rail in 0..self.rails {
            nodes.extend((0..self.leaves).map(|leaf| Node::Leaf { rail, leaf }));
            nodes.extend((0..self.spines).map(|spine| Node::Spine { rail, spine }));
        }
        nodes.push(Node::Management);
        nodes
    }

    /// The hosts.
    pub fn host_nodes(&self) -> impl Iterator<Item = Node> + use<> {
        (0..self.hosts).map(Node::Host)
    }

    /// The switches of all rails.
    pub fn switches(&self) -> impl Iterator<Item = Node> + use<> {
        self.nodes().into_iter().filter(|node| node.is_switch())
    }

    /// The leaf a host is plugged into: hosts are spread in blocks.
    pub fn leaf_of(&self, host: u16) -> u16 {
        (u32::from(host) * u32::from(self.leaves) / u32::from(self.hosts)) as u16
    }

    /// The hosts plugged into a leaf.
    pub fn hosts_of(&self, leaf: u16) -> impl Iterator<Item = u16> + '_ {
        (0..self.hosts).filter(move |host| self.leaf_of(*host) == leaf)
    }

    /// What whoever measures several pairs at a time should know, when flows that hash to one uplink get less than a
    /// host's rate.
    pub fn warning(&self) -> Option<String> {
        let busiest = (0..self.leaves).map(|leaf| self.hosts_of(leaf).count()).max()?;
        let needed = self.rate.0 * busiest as f64;
        (self.leaves > 1 && self.uplink.0 < needed).then(|| {
            format!(
                "note: the {busiest} hosts of a leaf share its uplinks by hash, so flows that cross leaves at the same time may \
                 halve each other, as in any fabric; --uplink-rate {}mbit rules that out",
                needed * 8.0 / 1e6
            )
        })
    }

    /// `4 hosts x 2 rails, 2 leaves and 2 spines per rail, cables of 200 Mb/s`.
    pub fn describe(&self) -> String {
        let megabits = |rate: Rate| rate.0 * 8.0 / 1e6;
        let trunk = match self.trunk {
            1 => String::new(),
            trunk => format!(", {trunk} parallel cables to each spine"),
        };
        let uplink = match self.uplink == self.rate {
            true => String::new(),
            false => format!(", {} Mb/s between switches", megabits(self.uplink)),
        };
        let hosts = match self.guests {
            Some(_) => "hosts with kernels of their own",
            None => "hosts",
        };
        format!(
            "{} {hosts} x {} rails, {} leaves and {} spines per rail{trunk}, cables of {} Mb/s{uplink}",
            self.hosts,
            self.rails,
            self.leaves,
            self.spines,
            megabits(self.rate)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_uplinks_that_flows_must_share_are_warned_about() {
        let shape = Shape::parse("4x2").unwrap();
        let warning = shape.warning().unwrap();
        assert!(warning.contains("--uplink-rate 400mbit"), "{warning}");
        let wide = Shape {
            uplink: shape.rate * 2.0,
            ..shape.clone()
        };
        assert_eq!(wide.warning(), None);
        assert_eq!(Shape { leaves: 1, ..shape }.warning(), None);
    }

    #[test]
    fn hosts_are_spread_over_leaves_in_blocks() {
        let shape = Shape::parse("4x2").unwrap();
        let leaves: Vec<u16> = (0..4).map(|host| shape.leaf_of(host)).collect();
        assert_eq!(leaves, [0, 0, 1, 1]);
        for (hosts, leaves) in [(5, 2), (7, 3), (16, 4), (3, 3)] {
            let shape = Shape {
                hosts,
                leaves,
                ..shape.clone()
            };
            let spread: Vec<usize> = (0..leaves).map(|leaf| shape.hosts_of(leaf).count()).collect();
            assert_eq!(spread.iter().sum::<usize>(), usize::from(hosts));
            assert!(
                spread.iter().max().unwrap() - spread.iter().min().unwrap() <= 1,
                "{spread:?}"
            );
        }
    }

    #[test]
    fn an_absurd_shape_is_refused_before_anything_is_built() {
        for text in ["", "4", "x", "4x", "ax2", "-1x2", "4x2x1", "99999999x2"] {
            assert!(Shape::parse(text).is_err(), "{text:?}");
        }
        let good = Shape::parse("4x2").unwrap();
        assert!(good.check().is_ok());
        let bad = [
            Shape {
                hosts: 1,
                ..good.clone()
            },
            Shape {
                hosts: 129,
                ..good.clone()
            },
            Shape {
                rails: 0,
                ..good.clone()
            },
            Shape {
                rails: 9,
                ..good.clone()
            },
            Shape {
                leaves: 5,
                ..good.clone()
            },
            Shape {
                spines: 0,
                ..good.clone()
            },
            Shape {
                trunk: 9,
                ..good.clone()
            },
            Shape {
                mtu: 100,
                ..good.clone()
            },
            Shape {
                rate: Rate(1.0),
                ..good.clone()
            },
            Shape {
                rate: Rate(1e12),
                ..good.clone()
            },
            Shape {
                hosts: 128,
                leaves: 1,
                ..good
            },
        ];
        for shape in bad {
            assert!(shape.check().is_err(), "{shape:?}");
        }
    }
}
