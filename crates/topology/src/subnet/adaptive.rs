//! Adaptive routing: a switch that may send a packet by any port of a group.
//!
//! Recorded tables hold one port per LID. Assumed: the group of that port is every port whose cable leads to a switch equally far
//! from the adapter, as subnet managers build groups in fat trees. Groups that are smaller than that make the set of paths too large,
//! never too small.

use std::collections::VecDeque;

use super::Subnet;

impl Subnet {
    /// Notes that a switch chooses among ports.
    pub fn set_adaptive(&mut self, switch: usize) {
        self.adaptive.insert(switch);
    }

    /// How many switches choose among ports.
    pub fn adaptive_switches(&self) -> usize {
        self.adaptive.len()
    }

    /// The ports by which a switch may send packets to a LID; none where its table is not known. `distances` as of
    /// [`distances_to`](Self::distances_to).
    pub(super) fn ports(&self, switch: usize, lid: u16, distances: &[u32]) -> Option<Vec<u8>> {
        let written = self.tables.get(&switch)?.ports(lid);
        match written {
            [port] if self.adaptive.contains(&switch) => Some(self.equally_near(switch, *port, distances)),
            _ => Some(written.to_vec()),
        }
    }

    /// A port and all others of its switch that lead to switches equally near.
    fn equally_near(&self, switch: usize, port: u8, distances: &[u32]) -> Vec<u8> {
        let next_switch = |port: u8| {
            let (next, _) = self.cables.get(&(switch, port))?;
            self.nodes[*next].is_switch.then(|| distances[*next])
        };
        match next_switch(port) {
            // To an adapter there is no other port.
            None => vec![port],
            own => (1..=254).filter(|other| next_switch(*other) == own).collect(),
        }
    }

    /// The number of cables from every node to the port that has a LID; empty where no switch needs to know.
    pub(super) fn distances_to(&self, lid: u16) -> Vec<u32> {
        let Some(target) = self.lids.get(&lid).filter(|_| !self.adaptive.is_empty()) else {
            return vec![u32::MAX; self.nodes.len()];
        };
        let mut neighbours: Vec<Vec<usize>> = vec![Vec::new(); self.nodes.len()];
        for ((node, _), (far, _)) in &self.cables {
            neighbours[*node].push(*far);
        }
        let mut distances = vec![u32::MAX; self.nodes.len()];
        distances[target.0] = 0;
        // An adapter may have other ports: only the cable of this one counts. A switch has its LID at port 0.
        let first = match self.cables.get(target) {
            Some((node, _)) => vec![*node],
            None => neighbours[target.0].clone(),
        };
        let mut open: VecDeque<usize> = first.into();
        open.iter().for_each(|node| distances[*node] = 1);
        while let Some(node) = open.pop_front() {
            // Adapters do not forward.
            let next = neighbours[node].iter().filter(|_| self.nodes[node].is_switch);
            for next in next {
                if distances[*next] == u32::MAX {
                    distances[*next] = distances[node] + 1;
                    open.push_back(*next);
                }
            }
        }
        distances
    }
}
