//! The cables of one rail as they are drawn: ends, layers, suspects, and what there is room for.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use toml::de::DeTable;

use super::canvas::clip;
use record::text::{first_of, whole_percent};
use record::{Finding, LinkCoverage, LinkName, LinkState, Recorded};

/// Nodes of one layer that are drawn when all are.
const MOST_NODES: usize = 24;
/// Nodes of one layer around suspects, or as an example, in a fabric with more.
const MOST_AROUND: usize = 10;
/// Both directions of a cable between two nodes.
pub(super) struct Cable<'a> {
    /// The nodes it joins.
    pub(super) ends: [&'a str; 2],
    /// The worse of its directions.
    pub(super) state: LinkState,
    links: Vec<&'a LinkCoverage>,
}

/// Names of hosts, of the run and of the topology.
pub(super) fn hosts(recorded: &Recorded) -> BTreeSet<String> {
    let mut hosts: BTreeSet<String> = recorded.run.hosts.iter().map(|host| host.name.clone()).collect();
    let topology = recorded.topology.as_deref().map(DeTable::parse);
    let table_hosts = match &topology {
        Some(Ok(table)) => table
            .get_ref()
            .get("host")
            .and_then(|hosts| hosts.get_ref().as_array()),
        _ => None,
    };
    let names = table_hosts
        .into_iter()
        .flat_map(|hosts| hosts.iter())
        .filter_map(|host| host.get_ref().get("name")?.get_ref().as_str());
    hosts.extend(names.map(str::to_string));
    hosts
}

/// Parts that findings name: links, cables, switches and hosts, with the best confidence.
#[derive(Default)]
pub(super) struct SuspectParts<'a> {
    parts: BTreeMap<&'a str, f64>,
}

impl<'a> SuspectParts<'a> {
    /// Those of all findings.
    pub(super) fn of(findings: &'a [Finding]) -> SuspectParts<'a> {
        let mut accused = SuspectParts::default();
        for finding in findings {
            let place = &finding.place;
            for part in [&place.link, &place.switch].into_iter().flatten() {
                accused.add(part, 1.0);
            }
            for suspect in &finding.suspects {
                accused.add(&suspect.part, suspect.confidence);
                if let Some(cable) = &suspect.cable {
                    accused.add(cable, suspect.confidence);
                }
            }
        }
        accused
    }

    fn add(&mut self, part: &'a str, confidence: f64) {
        let known = self.parts.entry(part).or_insert(confidence);
        *known = known.max(confidence);
    }

    fn names(&self, part: &str) -> bool {
        self.parts.contains_key(part)
    }
}

fn badness(state: LinkState) -> u8 {
    match state {
        LinkState::Healthy => 0,
        LinkState::Underloaded => 1,
        LinkState::Untested => 2,
        LinkState::Suspected => 3,
        LinkState::Slow => 4,
    }
}

/// What is drawn of one rail.
pub(super) struct RailLayout<'a> {
    /// The rail; empty for cables of none.
    pub(super) rail: &'a str,
    /// Its directed links.
    pub(super) links: Vec<&'a LinkCoverage>,
    /// Its cables.
    pub(super) cables: Vec<Cable<'a>>,
    /// Nodes by layer, hosts first, in their order.
    pub(super) layers: Vec<Vec<&'a str>>,
    /// Switches and hosts that findings name.
    pub(super) accused: BTreeSet<&'a str>,
}

impl<'a> RailLayout<'a> {
    /// Puts the links of a rail in order.
    pub(super) fn of(
        rail: &'a str,
        links: Vec<&'a LinkCoverage>,
        hosts: &BTreeSet<String>,
        accused: &SuspectParts<'_>,
    ) -> RailLayout<'a> {
        let mut by_ends: BTreeMap<[&str; 2], Cable<'a>> = BTreeMap::new();
        let mut nodes = Nodes::default();
        for link in &links {
            let Some(name) = LinkName::parse(&link.link) else {
                continue;
            };
            let (from, to) = (name.from.node, name.to.node);
            nodes.join(from, to);
            let ends = if from <= to { [from, to] } else { [to, from] };
            let is_named = accused.names(&link.link) || accused.names(&link.cable);
            let state = match is_named && badness(link.state) < badness(LinkState::Suspected) {
                // A finding knows more than the load of one direction.
                true => LinkState::Suspected,
                false => link.state,
            };
            let cable = by_ends.entry(ends).or_insert(Cable {
                ends,
                state,
                links: Vec::new(),
            });
            if badness(state) > badness(cable.state) {
                cable.state = state;
            }
            cable.links.push(link);
        }
        let named = nodes.names.iter().copied().filter(|node| accused.names(node));
        RailLayout {
            rail,
            accused: named.collect(),
            layers: nodes.layers(hosts),
            cables: by_ends.into_values().collect(),
            links,
        }
    }

    /// What the rail is called.
    pub(super) fn name(&self) -> String {
        match self.rail {
            "" => "cables without a rail".to_string(),
            rail => clip(rail, 40),
        }
    }

    /// The cables that are slow or may be.
    pub(super) fn suspects(&self) -> impl Iterator<Item = &Cable<'a>> {
        self.cables.iter().filter(|cable| is_suspect(cable))
    }

    /// Whether anything here is suspect.
    pub(super) fn has_suspects(&self) -> bool {
        self.suspects().next().is_some() || !self.accused.is_empty()
    }

    /// `62 healthy, 1 slow, 1 untested`, directed links.
    pub(super) fn states(&self) -> String {
        let mut counts: BTreeMap<LinkState, usize> = BTreeMap::new();
        for link in &self.links {
            *counts.entry(link.state).or_default() += 1;
        }
        let states: Vec<String> = counts
            .iter()
            .rev()
            .map(|(state, many)| format!("{many} {state}"))
            .collect();
        states.join(", ")
    }

    /// The nodes that are drawn, by layer, and how many of each layer are not.
    pub(super) fn chosen(&self) -> Vec<(Vec<&'a str>, usize)> {
        if self.layers.iter().all(|layer| layer.len() <= MOST_NODES) {
            return self.layers.iter().map(|layer| (layer.clone(), 0)).collect();
        }
        let mut wanted: BTreeSet<&str> = self.accused.iter().copied().collect();
        wanted.extend(self.suspects().flat_map(|cable| cable.ends));
        let mut around: BTreeSet<&str> = BTreeSet::new();
        for cable in &self.cables {
            let [a, b] = cable.ends;
            if wanted.contains(a) || wanted.contains(b) {
                around.extend([a, b]);
            }
        }
        let choose = |layer: &Vec<&'a str>| {
            let by = |keep: &dyn Fn(&str) -> bool| {
                layer
                    .iter()
                    .copied()
                    .filter(|node| keep(node))
                    .collect::<Vec<_>>()
            };
            let mut nodes = by(&|node| wanted.contains(node));
            nodes.truncate(MOST_NODES);
            let near = by(&|node| around.contains(node) && !wanted.contains(node));
            let far = by(&|node| !around.contains(node) && !wanted.contains(node));
            let room = MOST_AROUND.saturating_sub(nodes.len());
            // Without anything to be near to, the first ones.
            let others = if wanted.is_empty() { far } else { near };
            nodes.extend(others.into_iter().take(room));
            let chosen: BTreeSet<&str> = nodes.into_iter().collect();
            let nodes = by(&|node| chosen.contains(node));
            let left_out = layer.len() - nodes.len();
            (nodes, left_out)
        };
        self.layers.iter().map(choose).collect()
    }
}

/// Whether a cable is slow, or may be.
pub(super) fn is_suspect(cable: &Cable<'_>) -> bool {
    matches!(cable.state, LinkState::Slow | LinkState::Suspected)
}

/// The nodes that cables join, by number.
#[derive(Default)]
struct Nodes<'a> {
    names: Vec<&'a str>,
    numbers: HashMap<&'a str, usize>,
    neighbours: Vec<Vec<usize>>,
}

impl<'a> Nodes<'a> {
    fn join(&mut self, from: &'a str, to: &'a str) {
        let [from, to] = [from, to].map(|name| {
            *self.numbers.entry(name).or_insert_with(|| {
                self.names.push(name);
                self.neighbours.push(Vec::new());
                self.names.len() - 1
            })
        });
        self.neighbours[from].push(to);
        self.neighbours[to].push(from);
    }

    /// Nodes by their distance from the hosts; whatever is not joined to any host comes last.
    fn layers(&self, hosts: &BTreeSet<String>) -> Vec<Vec<&'a str>> {
        let (mut next, mut rest): (Vec<usize>, Vec<usize>) =
            (0..self.names.len()).partition(|node| hosts.contains(self.names[*node]));
        let mut is_placed = vec![false; self.names.len()];
        let mut layers = Vec::new();
        while !next.is_empty() {
            for node in &next {
                is_placed[*node] = true;
            }
            let mut beyond: Vec<usize> = next
                .iter()
                .flat_map(|node| &self.neighbours[*node])
                .copied()
                .collect();
            beyond.retain(|node| !is_placed[*node]);
            beyond.sort_unstable();
            beyond.dedup();
            layers.push(self.in_order(&next));
            next = beyond;
        }
        rest.retain(|node| !is_placed[*node]);
        if !rest.is_empty() {
            layers.push(self.in_order(&rest));
        }
        layers
    }

    fn in_order(&self, nodes: &[usize]) -> Vec<&'a str> {
        in_order(nodes.iter().map(|node| self.names[*node]).collect())
    }
}

/// As people count: h2 before h10.
fn in_order(mut nodes: Vec<&str>) -> Vec<&str> {
    nodes.sort_unstable_by_key(|node| {
        let digits = node.bytes().rev().take_while(u8::is_ascii_digit).count();
        let (name, number) = node.split_at(node.len() - digits);
        (name, number.len(), number)
    });
    nodes
}

/// The worse direction only.
pub(super) fn brief(cable: &Cable<'_>) -> String {
    let worst = cable.links.iter().max_by_key(|link| badness(link.state));
    let one = |link: &&'_ LinkCoverage| {
        in_words(&Cable {
            ends: cable.ends,
            state: cable.state,
            links: vec![link],
        })
    };
    worst.map(one).unwrap_or_default()
}

/// `cable h2-leaf1: h2/rail1->leaf1/p0 slow, carried 0.61 GB/s, 61 % of what it should; other direction healthy`.
pub(super) fn in_words(cable: &Cable<'_>) -> String {
    let mut links: Vec<&&LinkCoverage> = cable.links.iter().collect();
    links.sort_by_key(|link| std::cmp::Reverse(badness(link.state)));
    let link = |link: &&&LinkCoverage| {
        let carried = match (link.most, link.share) {
            (Some(most), Some(share)) => {
                format!(", carried {most}, {} of its rate", whole_percent(share))
            }
            (Some(most), None) => format!(", carried {most}"),
            _ => ", no traffic seen".to_string(),
        };
        format!("{} {}{carried}", link.link, link.state)
    };
    let names: BTreeSet<&str> = links.iter().map(|link| link.cable.as_str()).collect();
    let names: Vec<&str> = names.into_iter().collect();
    let links: Vec<String> = links.iter().map(link).collect();
    format!(
        "cable {}: {}",
        names.join(", "),
        first_of(&links, 4, "; ", String::clone)
    )
}
