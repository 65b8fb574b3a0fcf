//! How switches of a simulated fabric choose among equal links, and what may be wrong with it.
//!
//! A switch makes a number below one of what it sees of a flow and its own seed, and takes the link on whose part of the line from 0 to 1 it
//! falls, as Linux does. Two tiers with the same seed therefore agree: whatever reached a spine already lies on one side.

use std::collections::{HashMap, HashSet};

use crate::twin::hash;
use topology::graph::{Graph, LinkId, Path};

/// Something wrong with how streams are spread, or with what they are spread over.
#[derive(Debug, Clone, PartialEq)]
pub enum EcmpFault {
    /// All switches look at addresses only, not at ports.
    AddressesOnly,
    /// One switch gives its links unequal shares, in the order of its ports.
    Weights {
        /// The switch.
        switch: String,
        /// One for each of its links to the tier above.
        weights: Vec<u32>,
    },
    /// All switches hash with the same seed.
    SameSeed,
    /// Packets vanish on a link; routes still lead there.
    Dead {
        /// As `rail0-leaf0/u1->rail0-spine1/d0`.
        link: String,
    },
    /// A link carries less than it should.
    Slow {
        /// As `rail0-leaf0/u1->rail0-spine1/d0`.
        link: String,
        /// The share that is left of it.
        left: f64,
    },
    /// Every sender has all its streams come from one port.
    OnePort,
    /// Packets of one flow take all paths, and every question is answered by another one.
    Adaptive,
}

/// One flow as switches see it.
#[derive(Debug, Clone, Copy)]
pub(super) struct HashedFlow {
    pub(super) from: u32,
    pub(super) to: u32,
    pub(super) port: u16,
}

/// The hashing of all switches of a fabric.
pub(super) struct SwitchHashing<'g> {
    graph: &'g Graph,
    seed: u64,
    addresses_only: bool,
    same_seed: bool,
    adaptive: bool,
    weights: HashMap<&'g str, Vec<u32>>,
    dead: HashSet<LinkId>,
    slow: HashMap<LinkId, f64>,
}

impl<'g> SwitchHashing<'g> {
    pub(super) fn new(graph: &'g Graph, faults: &[EcmpFault], seed: u64) -> SwitchHashing<'g> {
        let mut hashing = SwitchHashing {
            graph,
            seed,
            addresses_only: faults.contains(&EcmpFault::AddressesOnly),
            same_seed: faults.contains(&EcmpFault::SameSeed),
            adaptive: faults.contains(&EcmpFault::Adaptive),
            weights: HashMap::new(),
            dead: HashSet::new(),
            slow: HashMap::new(),
        };
        for fault in faults {
            match fault {
                EcmpFault::Weights { switch, weights } => {
                    let mut names = graph.links().map(|(_, link)| link.from.node.as_str());
                    if let Some(name) = names.find(|name| name == switch) {
                        hashing.weights.insert(name, weights.clone());
                    }
                }
                EcmpFault::Dead { link } => hashing.dead.extend(graph.named(link)),
                EcmpFault::Slow { link, left } => {
                    hashing.slow.extend(graph.named(link).map(|link| (link, *left)));
                }
                EcmpFault::AddressesOnly | EcmpFault::SameSeed | EcmpFault::OnePort | EcmpFault::Adaptive => {
                }
            }
        }
        hashing
    }

    pub(super) fn is_adaptive(&self) -> bool {
        self.adaptive
    }

    pub(super) fn is_dead(&self, link: LinkId) -> bool {
        self.dead.contains(&link)
    }

    /// The share of its rate that a link has left.
    pub(super) fn left_of(&self, link: LinkId) -> f64 {
        self.slow.get(&link).copied().unwrap_or(1.0)
    }

    /// The path of a flow's packets when asked for the `asked`-th time; none where no cables lead.
    pub(super) fn path(&self, flow: HashedFlow, rail: &str, asked: u32) -> Option<Path> {
        let seen = [flow.from, flow.to, u32::from(flow.port)];
        self.route((flow.from, flow.to), rail, seen, asked)
    }

    /// The path of what comes back: the same ports, the other path round.
    pub(super) fn return_path(&self, flow: HashedFlow, rail: &str) -> Option<Path> {
        let seen = [flow.to, flow.from, u32::from(flow.port) << 16];
        self.route((flow.to, flow.from), rail, seen, 0)
    }

    fn route(&self, (from, to): (u32, u32), rail: &str, seen: [u32; 3], asked: u32) -> Option<Path> {
        let seen = if self.addresses_only {
            [seen[0], seen[1], 0]
        } else {
            seen
        };
        let asked = if self.adaptive { asked + 1 } else { 0 };
        self.graph.route(from, to, rail, |switch, links| {
            let switch = if self.same_seed { u32::MAX } else { switch };
            let point = hash((self.seed, switch, seen, rail, asked));
            self.choose(point, links)
        })
    }

    /// The link on whose part of the line a point falls.
    fn choose(&self, point: u64, links: &[LinkId]) -> usize {
        let below = |bound: u64| ((u128::from(point) * u128::from(bound)) >> 64) as u64;
        let weights = links.first().and_then(|link| {
            let weights = self.weights.get(self.graph.link(*link).from.node.as_str())?;
            (weights.len() == links.len()).then_some(weights)
        });
        let Some(weights) = weights else {
            return below(links.len() as u64) as usize;
        };
        let mut left = below(weights.iter().map(|weight| u64::from(*weight)).sum());
        for (place, weight) in weights.iter().enumerate() {
            match left.checked_sub(u64::from(*weight)) {
                Some(less) => left = less,
                None => return place,
            }
        }
        0
    }
}
