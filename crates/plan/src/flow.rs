//! Flows about to be measured, the paths they are known to take, and what a slot has room for.

use std::collections::{HashMap, HashSet};

use record::Cell;
use topology::graph::{Graph, LinkId, Path};

/// Data from one rank to another over one rail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flow {
    /// Sender.
    pub from: u32,
    /// Receiver.
    pub to: u32,
    /// Rail by name.
    pub rail: String,
    /// Source port it must use to take its path; any will do when none is named.
    pub port: Option<u16>,
    /// The links it crosses, in order; empty when that is not known.
    pub path: Path,
}

impl Flow {
    /// What a cell between two ranks over one rail measures, so that it can be measured again; none for any other cell.
    pub fn of(cell: &Cell, graph: &Graph) -> Option<Flow> {
        let ([from, to], [rail]) = (cell.ranks.as_slice(), cell.rails.as_slice()) else {
            return None;
        };
        let path: Option<Path> = cell.path.iter().map(|name| graph.named(name)).collect();
        Some(Flow {
            from: *from,
            to: *to,
            rail: rail.clone(),
            port: cell.port_of(*from, 0),
            path: path.unwrap_or_default(),
        })
    }

    /// The cell that measures it; everything a flow does not say is taken from `template`.
    pub fn as_cell(&self, template: Cell, graph: &Graph) -> Cell {
        // A sender's ports are counted from its rank on.
        let before = |port: u16| port.wrapping_sub((self.from as u16).wrapping_mul(template.flows));
        Cell {
            ranks: vec![self.from, self.to],
            rails: vec![self.rail.clone()],
            source_port: self.port.map(before),
            path: self.path.iter().map(|link| graph.name(*link)).collect(),
            ..template
        }
    }
}

/// A way to send from one rank to another: the source port that leads there, and the links.
pub type Way = (Option<u16>, Path);

/// Which source port leads over which path, as probed.
#[derive(Debug, Clone, Default)]
pub struct PathTable {
    /// Whether every shortest path counts as known, for plans that are made before anybody can be asked.
    assumed: bool,
    known: HashMap<(u32, u32, String), Vec<(u16, Path)>>,
}

impl PathTable {
    /// A table in which every shortest path is known, by whatever port leads there: what probing will come to at best.
    pub fn assuming() -> PathTable {
        PathTable {
            assumed: true,
            ..PathTable::default()
        }
    }

    /// Notes what a probe found. Of several ports that lead over the same path the first will do.
    pub fn insert(&mut self, from: u32, to: u32, rail: &str, port: u16, path: Path) {
        let ways = self.known.entry((from, to, rail.to_string())).or_default();
        if ways.iter().all(|(_, known)| *known != path) {
            ways.push((port, path));
        }
    }

    /// Whether nothing was probed.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// The different ways from one rank to another, each once. Where there is one way only, any port takes it; where there
    /// are several and none was probed, there is one entry without links: it may be any of them.
    pub fn ways(&self, graph: &Graph, from: u32, to: u32, rail: &str) -> Vec<Way> {
        if let Some(probed) = self.known.get(&(from, to, rail.to_string())) {
            return probed
                .iter()
                .map(|(port, path)| (Some(*port), path.clone()))
                .collect();
        }
        let mut paths = graph.paths(from, to, rail);
        if self.assumed {
            return paths.into_iter().map(|path| (None, path)).collect();
        }
        match paths.len() {
            0 => Vec::new(),
            1 => vec![(None, paths.remove(0))],
            _ => vec![(None, Path::new())],
        }
    }
}

/// What the links of one slot still have room for. Ranks take part in one flow at a time.
pub struct Room<'g> {
    graph: &'g Graph,
    left: HashMap<LinkId, f64>,
    busy: HashSet<u32>,
}

impl<'g> Room<'g> {
    /// An empty slot.
    pub fn new(graph: &'g Graph) -> Room<'g> {
        Room {
            graph,
            left: HashMap::new(),
            busy: HashSet::new(),
        }
    }

    /// Whether a rank takes part in a flow already.
    pub fn is_busy(&self, rank: u32) -> bool {
        self.busy.contains(&rank)
    }

    /// Whether a flow would neither share its ranks nor take more of a link than is left. A flow whose path is not known
    /// needs room on every link it may cross.
    pub fn has(&self, from: u32, to: u32, rail: &str, path: &[LinkId]) -> bool {
        if self.is_busy(from) || self.is_busy(to) {
            return false;
        }
        let takes = self.takes(from, to, rail);
        self.concerned(from, to, rail, path)
            .iter()
            .all(|link| self.left(*link) * 1.01 >= takes || !self.left.contains_key(link))
    }

    /// Takes what a flow needs.
    pub fn take(&mut self, from: u32, to: u32, rail: &str, path: &[LinkId]) {
        let takes = self.takes(from, to, rail);
        for link in self.concerned(from, to, rail, path) {
            let left = self.left(link) - takes;
            self.left.insert(link, left);
        }
        self.busy.extend([from, to]);
    }

    /// Whether a flow crosses a link and there is room for another.
    pub fn is_begun(&self, link: LinkId) -> bool {
        self.left
            .get(&link)
            .is_some_and(|left| *left > 0.01 * self.graph.link(link).rate.0)
    }

    fn left(&self, link: LinkId) -> f64 {
        let left = self.left.get(&link).copied();
        left.unwrap_or_else(|| self.rate(link))
    }

    /// What a link carries; one flow where that is not known.
    fn rate(&self, link: LinkId) -> f64 {
        match self.graph.link(link).rate.0 {
            known if known > 0.0 => known,
            _ => 1.0,
        }
    }

    /// What a flow takes of every link: the rate of the slower of the cables at its ends.
    fn takes(&self, from: u32, to: u32, rail: &str) -> f64 {
        let rate = |link: Option<LinkId>| link.map_or(1.0, |link| self.rate(link));
        rate(self.graph.up(from, rail)).min(rate(self.graph.down(to, rail)))
    }

    fn concerned(&self, from: u32, to: u32, rail: &str, path: &[LinkId]) -> Vec<LinkId> {
        if !path.is_empty() {
            return path.to_vec();
        }
        let mut links: Vec<LinkId> = self.graph.paths(from, to, rail).concat();
        links.sort_unstable();
        links.dedup();
        links
    }
}
