//! What the links of a cell carry, where links differ: NICs of two generations, hosts on narrow leaves, slow uplinks.
//!
//! The rate to expect of a flow is that of the slowest link on its path, and only flows over links of the same rate are each other's peers.
//! Where all flows of a fabric have the same rate to expect, nothing is noted.

use std::borrow::Cow;

use record::Cell;
use record::units::Rate;
use topology::Fabric;
use topology::graph::{DirectedLink, Graph, LinkId};

/// Rates that differ by less than this share are the same.
const ALIKE: f64 = 0.005;

/// What cells can expect of their links.
pub struct LineRates<'g> {
    graph: Cow<'g, Graph>,
    /// The different rates, ascending; fewer than two where all flows expect the same.
    rates: Vec<u64>,
}

impl<'g> LineRates<'g> {
    /// Of a fabric: by its topology, or by what interfaces say of themselves.
    pub fn of_fabric(fabric: &Fabric, known: Option<&'g Graph>) -> LineRates<'g> {
        LineRates::of(match known {
            Some(graph) => Cow::Borrowed(graph),
            None => Cow::Owned(Graph::inferred(&fabric.ranks)),
        })
    }

    /// Of a graph.
    pub fn of(graph: Cow<'g, Graph>) -> LineRates<'g> {
        let known = |wanted: fn(&DirectedLink) -> bool| {
            let links = graph.links().map(|(_, link)| link);
            links.filter(move |link| wanted(link) && link.rate.0 > 0.0)
        };
        let at_hosts: Vec<Rate> = known(|link| link.is_host).map(|link| link.rate).collect();
        let fastest = at_hosts.iter().map(|rate| rate.0).fold(0.0, f64::max);
        // A link between switches that is as fast as any host holds nobody back.
        let between = known(|link| !link.is_host).map(|link| link.rate);
        let narrow = between.filter(|rate| rate.0 < fastest * (1.0 - ALIKE));
        let mut rates: Vec<u64> = at_hosts.iter().copied().chain(narrow).map(mbit).collect();
        rates.sort_unstable();
        rates.dedup_by(|a, b| (*a as f64) < *b as f64 * (1.0 + ALIKE));
        LineRates { graph, rates }
    }

    /// The different rates, ascending, in Mbit/s; none where all flows expect the same.
    pub fn different(&self) -> &[u64] {
        match self.rates.len() {
            0 | 1 => &[],
            _ => &self.rates,
        }
    }

    /// Notes on every cell what its links carry.
    pub fn note(&self, cells: &mut [Cell]) {
        for cell in cells {
            cell.line_mbit = match self.different() {
                [] => None,
                _ => self.of_cell(cell),
            };
        }
    }

    /// What the slowest link carries that a cell may cross; none where that is not known.
    fn of_cell(&self, cell: &Cell) -> Option<u64> {
        let graph = &self.graph;
        let rates: Vec<f64> = match (cell.ranks.as_slice(), cell.rails.as_slice()) {
            ([_, ..], [_, ..]) if !cell.path.is_empty() => {
                let links = cell.path.iter().filter_map(|name| graph.named(name));
                links.filter_map(|link| self.known_rate(link)).collect()
            }
            ([from, to], [rail]) if cell.to_rail.is_none() && cell.collective.is_pairwise() => {
                let there = graph.crossing_probabilities(*from, *to, rail).into_iter();
                let back = graph.crossing_probabilities(*to, *from, rail).into_iter();
                there
                    .chain(back)
                    .filter_map(|(link, _)| self.known_rate(link))
                    .collect()
            }
            (ranks, rails) => self.of_group(ranks, rails.iter().chain(&cell.to_rail)),
        };
        // A cable of a host whose rate is not known may be the slowest. What is between switches holds hosts back only where a file says so.
        if rates.is_empty() || rates.iter().any(|rate| *rate <= 0.0) {
            return None;
        }
        let slowest = mbit(Rate(rates.into_iter().fold(f64::INFINITY, f64::min)));
        let is_it = |known: &&u64| (slowest.abs_diff(**known) as f64) < **known as f64 * ALIKE;
        self.rates.iter().find(is_it).copied()
    }

    /// The cables of some ranks, and of the links between switches the slowest of those rails.
    fn of_group<'r>(&self, ranks: &[u32], rails: impl Iterator<Item = &'r String>) -> Vec<f64> {
        let graph = &self.graph;
        let mut rates = Vec::new();
        for rail in rails {
            let cables = ranks.iter().filter_map(|rank| graph.up(*rank, rail));
            rates.extend(cables.map(|link| self.rate(link)));
            let mut leaves: Vec<&str> = ranks
                .iter()
                .filter_map(|rank| graph.leaf_of(*rank, rail))
                .collect();
            leaves.dedup();
            if leaves.len() > 1 {
                let links = graph.links().map(|(_, link)| link);
                let between =
                    links.filter(|link| !link.is_host && link.rail.as_ref().is_none_or(|of| of == rail));
                let known = between.map(|link| link.rate.0).filter(|rate| *rate > 0.0);
                rates.extend(known.reduce(f64::min));
            }
        }
        rates
    }

    /// The rate of a link; none where it is between switches and not known.
    fn known_rate(&self, link: LinkId) -> Option<f64> {
        let rate = self.rate(link);
        (rate > 0.0 || self.graph.link(link).is_host).then_some(rate)
    }

    fn rate(&self, link: LinkId) -> f64 {
        self.graph.link(link).rate.0
    }
}

/// A rate as interfaces state it.
pub fn mbit(rate: Rate) -> u64 {
    (rate.0 * 8.0 / 1e6).round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::twin::{Shape, clos};
    use judge::findings::fixture::Fixture;
    use topology::Topology;

    /// What is noted on flows between some hosts, two on a leaf, when cables are changed.
    fn noted(change: impl FnOnce(&mut Topology), pairs: &[[u32; 2]]) -> Vec<Option<u64>> {
        let shape = Shape {
            hosts_per_leaf: 2,
            spines: 2,
            .."6x1".parse().unwrap()
        };
        let (mut topology, mut ranks) = clos(&shape);
        for end in ranks.iter_mut().flat_map(|rank| &mut rank.rails) {
            end.speed_mbit = None;
        }
        change(&mut topology);
        let graph = Graph::of(&topology, &ranks).unwrap();
        let template = Fixture::pairs(2).run.cells[0].clone();
        let cell = |ranks: &[u32; 2]| Cell {
            ranks: ranks.to_vec(),
            ..template.clone()
        };
        let mut cells: Vec<Cell> = pairs.iter().map(cell).collect();
        LineRates::of(Cow::Borrowed(&graph)).note(&mut cells);
        cells.iter().map(|cell| cell.line_mbit).collect()
    }

    fn set(topology: &mut Topology, rate: f64, is_it: impl Fn(&str) -> bool) {
        let links = topology.links.iter_mut();
        for link in links.filter(|link| is_it(&link.name)) {
            link.rate = Rate(rate);
        }
    }

    #[test]
    fn where_all_links_are_alike_or_only_uplinks_are_faster_nothing_is_noted() {
        let pairs = [[0, 1], [0, 3]];
        assert_eq!(noted(|_| (), &pairs), [None; 2]);
        let fast = |topology: &mut Topology| set(topology, 100e9, |name| !name.starts_with('h'));
        assert_eq!(noted(fast, &pairs), [None; 2]);
    }

    #[test]
    fn a_flow_expects_what_its_slowest_link_carries() {
        let one_slow_host = |topology: &mut Topology| set(topology, 25e9, |name| name.starts_with("h1-"));
        assert_eq!(
            noted(one_slow_host, &[[0, 1], [1, 4], [4, 1], [0, 3]]),
            [Some(200_000), Some(200_000), Some(200_000), Some(400_000)]
        );
        let narrow = |topology: &mut Topology| set(topology, 12.5e9, |name| !name.starts_with('h'));
        assert_eq!(noted(narrow, &[[0, 1], [0, 3]]), [Some(400_000), Some(100_000)]);
    }

    #[test]
    fn what_is_not_known_is_not_noted() {
        let unknown = |topology: &mut Topology| {
            set(topology, 25e9, |name| name.starts_with("h1-"));
            set(topology, 0.0, |name| name.starts_with("h2-"));
        };
        assert_eq!(noted(unknown, &[[0, 2], [0, 1]]), [None, Some(200_000)]);
        // A file that states no rates between switches.
        let hosts_only = |topology: &mut Topology| {
            set(topology, 25e9, |name| name.starts_with("h1-"));
            set(topology, 0.0, |name| !name.starts_with('h'));
        };
        assert_eq!(
            noted(hosts_only, &[[0, 3], [1, 4]]),
            [Some(400_000), Some(200_000)]
        );
    }
}
