//! Flows about to be measured, the paths they are known to take, and what a slot has capacity for.

use std::collections::{BTreeSet, HashMap, HashSet};

use record::{Cell, CrossedSwitch, Load};
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

/// A path from one rank to another and the source port that selects it; none when any port does.
pub type PortPath = (Option<u16>, Path);

/// Which source port leads over which path, as probed.
#[derive(Debug, Clone, Default)]
pub struct PathTable {
    /// Whether every shortest path counts as known, for plans made before paths can be probed.
    assumed: bool,
    known: HashMap<(u32, u32, String), Vec<(u16, Path)>>,
    /// Which of these paths every probed source port leads over.
    ports: HashMap<(u32, u32, String), Vec<(u16, usize)>>,
    /// Source ports whose traces left several paths, with the switches they saw.
    half_known: HashMap<(u32, u32, String), Vec<HalfKnown>>,
    /// Source ports from here on are free for flows whose path is not known: each gets a new one, and with it a new connection.
    fresh_ports: Option<u16>,
    /// Switches that place every packet anew.
    spraying: BTreeSet<String>,
    /// Whether switches answer within connections, so that their paths are known once they were measured.
    told_afterwards: bool,
}

/// A source port, and the switches that its flow is known to cross: the first of its path, the second and so on.
pub type HalfKnown = (u16, Vec<Option<CrossedSwitch>>);

/// Ports that are kept of those that lead over the same switches.
const ALIKE_PORTS: usize = 6;

/// How many ports are free for flows whose path is not known.
const FRESH_PORTS: u16 = 6000;

impl PathTable {
    /// A table in which every shortest path counts as known: the best that probing can yield.
    pub fn assuming() -> PathTable {
        PathTable {
            assumed: true,
            ..PathTable::default()
        }
    }

    /// Notes what a probe found. Of several ports that lead over the same path the first will do.
    pub fn insert(&mut self, from: u32, to: u32, rail: &str, port: u16, path: Path) {
        let pair = (from, to, rail.to_string());
        let paths = self.known.entry(pair.clone()).or_default();
        let place = paths.iter().position(|(_, known)| *known == path);
        let place = place.unwrap_or_else(|| {
            paths.push((port, path));
            paths.len() - 1
        });
        self.ports.entry(pair).or_default().push((port, place));
    }

    /// The path from one rank to another over a rail that a probed source port leads over, or the only one there is.
    pub fn path_of_port(&self, graph: &Graph, pair: (u32, u32, &str), port: u16) -> Option<Path> {
        let (from, to, rail) = pair;
        let key = (from, to, rail.to_string());
        if let Some(ports) = self.ports.get(&key) {
            let (_, place) = ports.iter().find(|(probed, _)| *probed == port)?;
            return self.known.get(&key)?.get(*place).map(|(_, path)| path.clone());
        }
        match graph.paths(from, to, rail).as_slice() {
            [only] => Some(only.clone()),
            _ => None,
        }
    }

    /// Notes a source port of which some switches are known, but not which path through them: parallel cables, or missing answers.
    pub fn insert_half_known(&mut self, from: u32, to: u32, rail: &str, known: HalfKnown) {
        let ports = self.half_known.entry((from, to, rail.to_string())).or_default();
        if ports.iter().filter(|(_, hops)| *hops == known.1).count() < ALIKE_PORTS {
            ports.push(known);
        }
    }

    /// The source ports from one rank to another of which only some switches are known.
    pub fn half_known(&self, from: u32, to: u32, rail: &str) -> &[HalfKnown] {
        let ports = self.half_known.get(&(from, to, rail.to_string()));
        ports.map_or(&[], Vec::as_slice)
    }

    /// Flows whose path is not known take source ports from `first` on, each another one.
    pub fn with_fresh_ports(mut self, first: u16) -> PathTable {
        self.fresh_ports = Some(first);
        self
    }

    /// The source port of the flow with this number, where its path is not known; none when any will do.
    pub fn fresh_port(&self, number: usize) -> Option<u16> {
        let first = self.fresh_ports?;
        Some(first + (number % usize::from(FRESH_PORTS)) as u16)
    }

    /// Switches answer within connections: which path a flow took is known once it was measured.
    pub fn told_afterwards(mut self, told: bool) -> PathTable {
        self.told_afterwards = told;
        self
    }

    /// Whether the path of a flow that was not known before is known once it was measured.
    pub fn is_told_afterwards(&self) -> bool {
        self.told_afterwards
    }

    /// Whether a source port was chosen for a flow whose path is not known.
    pub fn is_fresh(&self, port: u16) -> bool {
        let first = self.fresh_ports;
        first.is_some_and(|first| (first..first + FRESH_PORTS).contains(&port))
    }

    /// These switches place every packet anew.
    pub fn with_spraying<'s>(mut self, switches: impl Iterator<Item = &'s str>) -> PathTable {
        self.spraying = switches.map(str::to_string).collect();
        self
    }

    /// Whether what a rank sends over a rail takes all paths at once.
    pub fn is_sprayed(&self, graph: &Graph, from: u32, rail: &str) -> bool {
        let leaf = graph.leaf_of(from, rail);
        leaf.is_some_and(|leaf| self.spraying.contains(leaf))
    }

    /// Whether nothing was probed.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// The different paths from one rank to another, each once. Where there is only one, any port takes it; where there are
    /// several and none was probed, there is one entry without links: it may be any of them.
    pub fn paths(&self, graph: &Graph, from: u32, to: u32, rail: &str) -> Vec<PortPath> {
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

    /// The links that a flow crosses, each with its probability: those of its path, those that what is known of its source port leaves,
    /// or those of every shortest path.
    pub fn crossing_probabilities(&self, graph: &Graph, flow: &Flow) -> Vec<(LinkId, f64)> {
        let Flow { from, to, rail, .. } = flow;
        if !flow.path.is_empty() {
            return flow.path.iter().map(|link| (*link, 1.0)).collect();
        }
        let mut half_known = self.half_known(*from, *to, rail).iter();
        match half_known.find(|(port, _)| Some(*port) == flow.port) {
            Some((_, hops)) => {
                let hops = graph.hops_of_record(hops.iter().map(Option::as_ref));
                graph.crossing_probabilities_given(*from, *to, rail, &hops)
            }
            None => graph.crossing_probabilities(*from, *to, rail),
        }
    }
}

/// How much of a link that packets are sprayed over the flows of a slot may use before it counts as filled.
const FILLED: f64 = 0.9;

/// What a flow shares the fabric with when all of a slot are measured at once.
pub fn load_of(slot: &[Flow], graph: &Graph, table: &PathTable) -> Load {
    let mut capacity = SlotCapacity::new(graph, table);
    slot.iter().for_each(|flow| capacity.add(flow));
    let is_sprayed = |flow: &&Flow| flow.path.is_empty() && table.is_sprayed(graph, flow.from, &flow.rail);
    let spread = slot
        .iter()
        .filter(is_sprayed)
        .flat_map(|flow| capacity.shares(flow));
    let filled = spread.filter(|(link, share)| *share < 1.0 && capacity.is_filled(*link));
    let is_upward: HashSet<bool> = filled.map(|(link, _)| graph.link(link).is_upward).collect();
    match slot.len() {
        0 | 1 => Load::Alone,
        _ if is_upward.contains(&false) => Load::FillingDown,
        _ if is_upward.contains(&true) => Load::FillingUp,
        _ => Load::Together,
    }
}

/// What the links of one slot still have capacity for. Ranks take part in one flow at a time.
#[derive(Clone)]
pub struct SlotCapacity<'g> {
    graph: &'g Graph,
    table: &'g PathTable,
    left: HashMap<LinkId, f64>,
    busy: HashSet<u32>,
}

impl<'g> SlotCapacity<'g> {
    /// An empty slot.
    pub fn new(graph: &'g Graph, table: &'g PathTable) -> SlotCapacity<'g> {
        SlotCapacity {
            graph,
            table,
            left: HashMap::new(),
            busy: HashSet::new(),
        }
    }

    /// A slot with these flows.
    pub fn with(graph: &'g Graph, table: &'g PathTable, flows: &[Flow]) -> SlotCapacity<'g> {
        let mut capacity = SlotCapacity::new(graph, table);
        flows.iter().for_each(|flow| capacity.add(flow));
        capacity
    }

    /// Whether a rank takes part in a flow already.
    pub fn is_busy(&self, rank: u32) -> bool {
        self.busy.contains(&rank)
    }

    /// Whether a flow would neither share its ranks nor take more of a link than is left. A flow whose path is not known
    /// needs capacity on every link it may cross; one that is sprayed needs its share of each.
    pub fn fits(&self, flow: &Flow) -> bool {
        if self.is_busy(flow.from) || self.is_busy(flow.to) {
            return false;
        }
        let demand = self.demand(flow);
        let mut shares = self.shares(flow).into_iter();
        shares.all(|(link, share)| {
            let is_enough = self.left(link) * 1.01 >= demand * share;
            is_enough || !self.left.contains_key(&link)
        })
    }

    /// Adds a flow.
    pub fn add(&mut self, flow: &Flow) {
        let demand = self.demand(flow);
        for (link, share) in self.shares(flow) {
            let left = self.left(link) - demand * share;
            self.left.insert(link, left);
        }
        self.busy.extend([flow.from, flow.to]);
    }

    /// Whether a flow crosses a link that has capacity for another.
    pub fn is_partly_used(&self, link: LinkId) -> bool {
        self.left
            .get(&link)
            .is_some_and(|left| *left > 0.01 * self.graph.link(link).rate.0)
    }

    /// Whether its flows ask a link for about all it carries.
    pub fn is_filled(&self, link: LinkId) -> bool {
        self.left(link) < (1.0 - FILLED) * self.rate(link)
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

    /// The rate a flow needs on every link: that of the slower of the cables at its ends.
    fn demand(&self, flow: &Flow) -> f64 {
        let rate = |link: Option<LinkId>| link.map_or(1.0, |link| self.rate(link));
        let (up, down) = (
            self.graph.up(flow.from, &flow.rail),
            self.graph.down(flow.to, &flow.rail),
        );
        rate(up).min(rate(down))
    }

    /// The links that a flow may cross, and what it needs of each relative to its rate.
    fn shares(&self, flow: &Flow) -> Vec<(LinkId, f64)> {
        let mut shares = self.table.crossing_probabilities(self.graph, flow);
        let is_sprayed = flow.path.is_empty() && self.table.is_sprayed(self.graph, flow.from, &flow.rail);
        if !is_sprayed {
            shares.iter_mut().for_each(|(_, share)| *share = 1.0);
        }
        shares
    }
}
