//! The shortest paths between ranks: all of them, or the one that a trace saw.

use std::borrow::Cow;
use std::net::IpAddr;

use super::{Attachment, Graph, LinkId, Path};

/// More paths than this between two ranks are not listed.
const MAX_PATHS: usize = 1024;
/// Longer paths are not followed: forwarding tables may lead round in a circle.
pub(super) const MOST_HOPS: usize = 16;
/// The distance of a switch from which no path leads to the target.
pub(super) const UNREACHABLE: u32 = u32::MAX;

impl Graph {
    /// All shortest paths from one rank to another over a rail, sorted; at most 1,024. Ranks of one leaf have one path of two
    /// links; a rank has no path to its own host, and none to where no cables lead.
    pub fn paths(&self, from: u32, to: u32, rail: &str) -> Vec<Path> {
        self.paths_between(from, rail, to, rail)
    }

    /// The same when the far end is reached by its port of another rail.
    pub fn paths_between(&self, from: u32, rail: &str, to: u32, to_rail: &str) -> Vec<Path> {
        self.shortest_paths((from, rail), (to, to_rail), MAX_PATHS, |_, _| true)
    }

    /// The switches of a path to a rank that had several links to choose from, in order.
    pub fn choosers(&self, path: &[LinkId], to: u32, rail: &str) -> Vec<&str> {
        let reached = path.iter().map(|id| self.ends[id.index()][1]);
        let switches = reached.take(path.len().saturating_sub(1));
        switches
            .map(|node| self.nodes[node as usize].name.as_str())
            .filter(|switch| self.has_choice(switch, to, rail))
            .collect()
    }

    /// Whether a switch has several links to choose from for packets to a rank.
    pub fn has_choice(&self, switch: &str, to: u32, rail: &str) -> bool {
        let (Some(node), Some(there)) = (self.by_node.get(switch), self.attachment(to, rail)) else {
            return false;
        };
        let distances = self.distances(there, [rail; 2]);
        *node != there.switch
            && self
                .next_hops(*node, there, &distances, [rail; 2])
                .nth(1)
                .is_some()
    }

    /// The links by which packets to a rank may leave a switch: those of its forwarding table, or all that lead nearer.
    pub(super) fn next_hops<'g>(
        &'g self,
        node: u32,
        there: &Attachment,
        distances: &'g [u32],
        rails: [&'g str; 2],
    ) -> impl Iterator<Item = LinkId> + 'g {
        let written = self.forwarding.get(&(node, there.up.reverse()));
        let links = written.unwrap_or(&self.switch_links[node as usize]);
        let is_written = written.is_some();
        links.iter().copied().filter(move |id| {
            let leads_nearer = distances[self.ends[id.index()][1] as usize] < distances[node as usize];
            is_written || (leads_nearer && self.is_of(*id, &rails))
        })
    }

    /// Follows the first of all links from one rank's switch to another's; the switch where that ends, if it is not that one.
    pub(super) fn follow(&self, from: &Attachment, to: &Attachment) -> Result<(), u32> {
        let distances = self.distances(to, [&from.rail, &to.rail]);
        let mut node = from.switch;
        for _ in 0..MOST_HOPS {
            if node == to.switch {
                return Ok(());
            }
            let mut hops = self.next_hops(node, to, &distances, [&from.rail, &to.rail]);
            node = hops.next().map(|id| self.ends[id.index()][1]).ok_or(node)?;
        }
        Err(node)
    }

    /// The path that a trace saw: `hops` are the addresses that answered for a time to live of 1, 2 and so on, each of the
    /// port by which the packet came in, none where no switch answered. None when no path fits, or more than one does.
    ///
    /// Some switches answer with the address of another port of theirs. Where no path fits port by port, the one that fits
    /// switch by switch is taken.
    pub fn path_of_hops(&self, from: u32, to: u32, rail: &str, hops: &[Option<IpAddr>]) -> Option<Path> {
        let far = self.attachment(to, rail)?;
        let by_port = |step: usize, id: LinkId| self.fits_port(hops, step, id, far);
        let by_switch = |step: usize, id: LinkId| self.fits_switch(hops, step, id, far);
        let long_enough = |path: &Path| hops.iter().skip(path.len()).all(Option::is_none);
        let ends = ((from, rail), (to, rail));
        let mut found = match self.answers_name_switches {
            true => Vec::new(),
            false => self.shortest_paths(ends.0, ends.1, 2, by_port),
        };
        if found.is_empty() {
            found = self.shortest_paths(ends.0, ends.1, 2, by_switch);
        }
        match found.as_slice() {
            [_] => found.pop().filter(long_enough),
            _ => None,
        }
    }

    /// As much of a path as a trace saw, and whether that is all of it: where the last switches did not answer and no packet
    /// `arrived` at the receiver, the links up to the last one that did; none where several paths fit.
    pub fn known_links_of_hops(
        &self,
        from: u32,
        to: u32,
        rail: &str,
        hops: &[Option<IpAddr>],
        arrived: bool,
    ) -> (Path, bool) {
        let answered = hops.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
        // Every link but the last leads to a switch.
        let whole = |path: &Path| arrived || answered + 1 >= path.len();
        if let Some(path) = self.path_of_hops(from, to, rail, hops).filter(whole) {
            return (path, true);
        }
        let Some(far) = self.attachment(to, rail) else {
            return (Path::new(), false);
        };
        let ends = ((from, rail), (to, rail));
        let mut paths = self.shortest_paths(ends.0, ends.1, MAX_PATHS, |step, id| {
            !self.answers_name_switches && self.fits_port(hops, step, id, far)
        });
        if paths.is_empty() {
            paths = self.shortest_paths(ends.0, ends.1, MAX_PATHS, |step, id| {
                self.fits_switch(hops, step, id, far)
            });
        }
        paths.iter_mut().for_each(|path| path.truncate(answered));
        paths.dedup();
        match paths.len() {
            1 => (paths.remove(0), false),
            _ => (Path::new(), false),
        }
    }

    /// Whether a link may be the one by which a packet came to where it was at this step of a trace: it came in at that port.
    fn fits_port(&self, hops: &[Option<IpAddr>], step: usize, id: LinkId, far: &Attachment) -> bool {
        match hops.get(step).copied().flatten() {
            None => true,
            Some(address) if self.is_far_end(id, address, far) => true,
            Some(address) => match self.arrivals[id.index()] {
                Some(here) => here == address,
                // The address of this port is unknown: any address that no other port has.
                None => !self.by_address.contains_key(&address) && id != far.up.reverse(),
            },
        }
    }

    /// The same for switches that answer with the address of another port of theirs.
    fn fits_switch(&self, hops: &[Option<IpAddr>], step: usize, id: LinkId, far: &Attachment) -> bool {
        match hops.get(step).copied().flatten() {
            None => true,
            Some(address) if self.is_far_end(id, address, far) => true,
            Some(address) => self.by_address.get(&address) == Some(&self.ends[id.index()][1]),
        }
    }

    fn is_far_end(&self, id: LinkId, address: IpAddr, far: &Attachment) -> bool {
        id == far.up.reverse() && far.address == Some(address)
    }

    /// Up to `limit` shortest paths whose every step `fits`, sorted.
    fn shortest_paths(
        &self,
        from: (u32, &str),
        to: (u32, &str),
        limit: usize,
        fits: impl Fn(usize, LinkId) -> bool,
    ) -> Vec<Path> {
        let (Some(here), Some(there)) = (self.attachment(from.0, from.1), self.attachment(to.0, to.1)) else {
            return Vec::new();
        };
        if here.host == there.host || !fits(0, here.up) {
            return Vec::new();
        }
        let rails = [from.1, to.1];
        let distances = self.distances(there, rails);
        let mut search = Search {
            graph: self,
            distances,
            rails,
            there,
            limit,
            fits,
            path: vec![here.up],
            found: Vec::new(),
        };
        search.extend_from(here.switch);
        search.found
    }

    /// One path, chosen switch by switch as routers do: `choose` gets a switch and the links it may take, and
    /// returns the index of the one taken.
    pub fn route(
        &self,
        from: u32,
        to: u32,
        rail: &str,
        mut choose: impl FnMut(u32, &[LinkId]) -> usize,
    ) -> Option<Path> {
        let (here, there) = (self.attachment(from, rail)?, self.attachment(to, rail)?);
        if here.host == there.host {
            return None;
        }
        let distances = self.distances(there, [rail; 2]);
        let (mut path, mut node) = (vec![here.up], here.switch);
        let mut nearer = Vec::new();
        while node != there.switch {
            if path.len() > MOST_HOPS {
                return None;
            }
            nearer.clear();
            nearer.extend(self.next_hops(node, there, &distances, [rail; 2]));
            let id = *nearer.get(choose(node, &nearer))?;
            path.push(id);
            node = self.ends[id.index()][1];
        }
        path.push(there.up.reverse());
        Some(path)
    }

    /// The number of links from every switch to the target.
    pub(super) fn distances(&self, there: &Attachment, rails: [&str; 2]) -> Cow<'_, [u32]> {
        if rails[0] != rails[1] {
            return Cow::Owned(self.distances_to(there.switch, &rails));
        }
        let target = &self.targets[there.target as usize];
        let compute = || self.distances_to(target.switch, &[&target.rail; 2]);
        Cow::Borrowed(target.distances.get_or_init(compute))
    }

    fn distances_to(&self, switch: u32, rails: &[&str; 2]) -> Vec<u32> {
        let mut distances = vec![UNREACHABLE; self.nodes.len()];
        distances[switch as usize] = 0;
        let mut frontier = vec![switch];
        let mut distance = 0;
        while !frontier.is_empty() {
            distance += 1;
            let mut next = Vec::new();
            for node in frontier {
                for id in &self.switch_links[node as usize] {
                    // Cables have two directions: what leads away leads here as well.
                    let neighbour = self.ends[id.index()][1];
                    if distances[neighbour as usize] == UNREACHABLE && self.is_of(*id, rails) {
                        distances[neighbour as usize] = distance;
                        next.push(neighbour);
                    }
                }
            }
            frontier = next;
        }
        distances
    }

    /// Whether a cable between switches may be used by these rails.
    fn is_of(&self, id: LinkId, rails: &[&str; 2]) -> bool {
        let rail = self.links[id.index()].rail.as_deref();
        rail.is_none_or(|rail| rails.contains(&rail))
    }

    /// Whether ranks attached to `switch` can reach a rank of a rail.
    pub(super) fn reaches(&self, switch: u32, rank: u32, rail: &str) -> bool {
        let there = self.attachment(rank, rail);
        there.is_some_and(|there| self.distances(there, [rail; 2])[switch as usize] != UNREACHABLE)
    }
}

/// A depth-first search along the links that switches may take.
struct Search<'g, F> {
    graph: &'g Graph,
    distances: Cow<'g, [u32]>,
    rails: [&'g str; 2],
    there: &'g Attachment,
    limit: usize,
    fits: F,
    path: Path,
    found: Vec<Path>,
}

impl<F: Fn(usize, LinkId) -> bool> Search<'_, F> {
    fn extend_from(&mut self, node: u32) {
        if node == self.there.switch {
            let last = self.there.up.reverse();
            if (self.fits)(self.path.len(), last) {
                let mut path = self.path.clone();
                path.push(last);
                self.found.push(path);
            }
            return;
        }
        if self.path.len() > MOST_HOPS {
            return;
        }
        let graph = self.graph;
        let hops: Vec<LinkId> = graph
            .next_hops(node, self.there, &self.distances, self.rails)
            .collect();
        for id in hops {
            if (self.fits)(self.path.len(), id) {
                self.path.push(id);
                self.extend_from(graph.ends[id.index()][1]);
                self.path.pop();
                if self.found.len() >= self.limit {
                    return;
                }
            }
        }
    }
}
