//! The shortest ways between ranks, all of them, or the one that a trace saw.

use std::borrow::Cow;
use std::net::IpAddr;

use super::{Graph, LinkId, Path, Plugged};

/// More ways than this between two ranks are not listed.
const MOST_WAYS: usize = 1024;
/// No switch that a way leads over.
const FAR: u32 = u32::MAX;

impl Graph {
    /// All shortest ways from one rank to another over a rail, sorted; at most 1,024. Ranks of one leaf have one way of two
    /// links; a rank has no way to its own host, and none to where no cables lead.
    pub fn paths(&self, from: u32, to: u32, rail: &str) -> Vec<Path> {
        self.paths_between(from, rail, to, rail)
    }

    /// The same when the far end is reached by its port of another rail.
    pub fn paths_between(&self, from: u32, rail: &str, to: u32, to_rail: &str) -> Vec<Path> {
        self.ways((from, rail), (to, to_rail), MOST_WAYS, |_, _| true)
    }

    /// The way that a trace saw: `hops` are the addresses that answered for a time to live of 1, 2 and so on, each of the
    /// port by which the packet came in, none where nobody answered. None when no way fits, or more than one does.
    ///
    /// Some switches answer with the address of another port of theirs. Where no way fits port by port, the one that fits
    /// switch by switch is taken.
    pub fn path_of_hops(&self, from: u32, to: u32, rail: &str, hops: &[Option<IpAddr>]) -> Option<Path> {
        let far = self.plugged(to, rail)?;
        let by_port = |step: usize, id: LinkId| self.fits_port(hops, step, id, far);
        let by_switch = |step: usize, id: LinkId| self.fits_switch(hops, step, id, far);
        let long_enough = |way: &Path| hops.iter().skip(way.len()).all(Option::is_none);
        let ends = ((from, rail), (to, rail));
        let mut found = self.ways(ends.0, ends.1, 2, by_port);
        if found.is_empty() {
            found = self.ways(ends.0, ends.1, 2, by_switch);
        }
        match found.as_slice() {
            [_] => found.pop().filter(long_enough),
            _ => None,
        }
    }

    /// As much of a way as a trace saw, and whether that is all of it: where the last switches were silent, the links up to the
    /// last one that answered; nothing where that may be several.
    pub fn seen_of_hops(&self, from: u32, to: u32, rail: &str, hops: &[Option<IpAddr>]) -> (Path, bool) {
        let answered = hops.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
        // Every link but the last leads to a switch.
        let whole = |way: &Path| answered + 1 >= way.len();
        if let Some(way) = self.path_of_hops(from, to, rail, hops).filter(whole) {
            return (way, true);
        }
        let Some(far) = self.plugged(to, rail) else {
            return (Path::new(), false);
        };
        let ends = ((from, rail), (to, rail));
        let mut ways = self.ways(ends.0, ends.1, MOST_WAYS, |step, id| {
            self.fits_port(hops, step, id, far)
        });
        if ways.is_empty() {
            ways = self.ways(ends.0, ends.1, MOST_WAYS, |step, id| {
                self.fits_switch(hops, step, id, far)
            });
        }
        ways.iter_mut().for_each(|way| way.truncate(answered));
        ways.dedup();
        match ways.len() {
            1 => (ways.remove(0), false),
            _ => (Path::new(), false),
        }
    }

    /// Whether a link may be the one by which a packet came to where it was at this step of a trace: it came in at that port.
    fn fits_port(&self, hops: &[Option<IpAddr>], step: usize, id: LinkId, far: &Plugged) -> bool {
        match hops.get(step).copied().flatten() {
            None => true,
            Some(address) if self.is_far_end(id, address, far) => true,
            Some(address) => match self.arrivals[id.index()] {
                Some(here) => here == address,
                // A port of which nobody said the address: any that is nobody else's.
                None => !self.by_address.contains_key(&address) && id != far.up.reverse(),
            },
        }
    }

    /// The same for switches that answer with the address of another port of theirs.
    fn fits_switch(&self, hops: &[Option<IpAddr>], step: usize, id: LinkId, far: &Plugged) -> bool {
        match hops.get(step).copied().flatten() {
            None => true,
            Some(address) if self.is_far_end(id, address, far) => true,
            Some(address) => self.by_address.get(&address) == Some(&self.ends[id.index()][1]),
        }
    }

    fn is_far_end(&self, id: LinkId, address: IpAddr, far: &Plugged) -> bool {
        id == far.up.reverse() && far.address == Some(address)
    }

    /// Up to `most` shortest ways whose every step `fits`, sorted.
    fn ways(
        &self,
        from: (u32, &str),
        to: (u32, &str),
        most: usize,
        fits: impl Fn(usize, LinkId) -> bool,
    ) -> Vec<Path> {
        let (Some(here), Some(there)) = (self.plugged(from.0, from.1), self.plugged(to.0, to.1)) else {
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
            last: there.up.reverse(),
            most,
            fits,
            way: vec![here.up],
            found: Vec::new(),
        };
        search.go_on(here.switch);
        search.found
    }

    /// One shortest way, chosen switch by switch as routers do: `choose` is given a switch and its links that lead nearer, and
    /// says which is taken.
    pub fn steer(
        &self,
        from: u32,
        to: u32,
        rail: &str,
        mut choose: impl FnMut(u32, &[LinkId]) -> usize,
    ) -> Option<Path> {
        let (here, there) = (self.plugged(from, rail)?, self.plugged(to, rail)?);
        if here.host == there.host {
            return None;
        }
        let distances = self.distances(there, [rail; 2]);
        let (mut way, mut node) = (vec![here.up], here.switch);
        let mut nearer = Vec::new();
        while node != there.switch {
            let distance = distances[node as usize];
            nearer.clear();
            nearer.extend(self.onward[node as usize].iter().filter(|id| {
                let next = distances[self.ends[id.index()][1] as usize];
                next < distance && self.is_of(**id, &[rail; 2])
            }));
            let id = *nearer.get(choose(node, &nearer))?;
            way.push(id);
            node = self.ends[id.index()][1];
        }
        way.push(there.up.reverse());
        Some(way)
    }

    /// Links from every switch to where a way ends.
    fn distances(&self, there: &Plugged, rails: [&str; 2]) -> Cow<'_, [u32]> {
        if rails[0] != rails[1] {
            return Cow::Owned(self.distances_to(there.switch, &rails));
        }
        let target = &self.targets[there.target as usize];
        let work_out = || self.distances_to(target.switch, &[&target.rail; 2]);
        Cow::Borrowed(target.distances.get_or_init(work_out))
    }

    fn distances_to(&self, switch: u32, rails: &[&str; 2]) -> Vec<u32> {
        let mut distances = vec![FAR; self.nodes.len()];
        distances[switch as usize] = 0;
        let mut edge = vec![switch];
        let mut distance = 0;
        while !edge.is_empty() {
            distance += 1;
            let mut next = Vec::new();
            for node in edge {
                for id in &self.onward[node as usize] {
                    // Cables have two directions: what leads away leads here as well.
                    let neighbour = self.ends[id.index()][1];
                    if distances[neighbour as usize] == FAR && self.is_of(*id, rails) {
                        distances[neighbour as usize] = distance;
                        next.push(neighbour);
                    }
                }
            }
            edge = next;
        }
        distances
    }

    /// Whether a cable between switches may be used by these rails.
    fn is_of(&self, id: LinkId, rails: &[&str; 2]) -> bool {
        let rail = self.links[id.index()].rail.as_deref();
        rail.is_none_or(|rail| rails.contains(&rail))
    }

    /// Whether ranks plugged into `switch` can reach a rank of a rail.
    pub(super) fn reaches(&self, switch: u32, rank: u32, rail: &str) -> bool {
        let there = self.plugged(rank, rail);
        there.is_some_and(|there| self.distances(there, [rail; 2])[switch as usize] != FAR)
    }
}

/// A walk downhill over distances.
struct Search<'g, F> {
    graph: &'g Graph,
    distances: Cow<'g, [u32]>,
    rails: [&'g str; 2],
    last: LinkId,
    most: usize,
    fits: F,
    way: Path,
    found: Vec<Path>,
}

impl<F: Fn(usize, LinkId) -> bool> Search<'_, F> {
    fn go_on(&mut self, node: u32) {
        let distance = self.distances[node as usize];
        if distance == 0 {
            if (self.fits)(self.way.len(), self.last) {
                let mut way = self.way.clone();
                way.push(self.last);
                self.found.push(way);
            }
            return;
        }
        if distance == FAR {
            return;
        }
        let graph = self.graph;
        for id in &graph.onward[node as usize] {
            let next = graph.ends[id.index()][1];
            let is_nearer = self.distances[next as usize] == distance - 1;
            if is_nearer && graph.is_of(*id, &self.rails) && (self.fits)(self.way.len(), *id) {
                self.way.push(*id);
                self.go_on(next);
                self.way.pop();
                if self.found.len() >= self.most {
                    return;
                }
            }
        }
    }
}
