//! The fabric of every rail: hosts below, leaves above them, spines above those; suspect cables thick and numbered, untested ones dashed.
//!
//! Readable without colour: what is suspect is thick, has a number, and stands in the list below with what it carried; untested is
//! dashed, underloaded dotted, healthy thin. What a large fabric has no room for is left out and counted: what is suspect stays, with its neighbours.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use super::canvas::{At, Canvas, Drawn, Look, Stroke, clip, drawing};
use super::palette::{EDGE, FAULT, INK, MUTED, PALE, PAPER};
use super::{count, listed, percent};
use crate::record::{Finding, Judgement, LinkCoverage, LinkState, Recorded};
use crate::report::figure::{Drawing, Figure};

/// Most figures, one per rail, and more where more rails have suspects; those come first.
const MOST_RAILS: usize = 4;
const MOST_SUSPECT_RAILS: usize = 8;
/// Nodes of one layer that are drawn when all are.
const MOST_NODES: usize = 24;
/// Nodes of one layer around suspects, or as an example, in a fabric with more.
const MOST_AROUND: usize = 10;
/// Suspects with a line in the list below the drawing.
const MOST_LISTED: usize = 16;
/// Untested cables that the text names.
const MOST_NAMED: usize = 40;
const STEP: i32 = 62;
const LAYER: i32 = 130;

/// The picture of cables.
pub(super) struct Topology;

/// Both directions of a cable between two nodes.
struct Cable<'a> {
    ends: [&'a str; 2],
    /// The worse of its directions.
    state: LinkState,
    links: Vec<&'a LinkCoverage>,
}

impl Drawing for Topology {
    fn figures(&self, recorded: &Recorded, judgement: &Judgement) -> io::Result<Vec<Figure>> {
        let mut rails: BTreeMap<&str, Vec<&LinkCoverage>> = BTreeMap::new();
        for link in &judgement.coverage.links {
            let rail = link.rail.as_deref().unwrap_or("");
            rails.entry(rail).or_default().push(link);
        }
        let accused = Accused::of(&judgement.findings);
        let hosts = hosts(recorded);
        let mut plans: Vec<Plan<'_>> = rails
            .into_iter()
            .map(|(rail, links)| Plan::of(rail, links, &hosts, &accused))
            .collect();
        plans.sort_by_key(|plan| !plan.has_suspects());
        // Whatever is suspect is drawn as far as a page has room.
        let suspect = plans.iter().filter(|plan| plan.has_suspects()).count();
        let left_out = plans.split_off(plans.len().min(suspect.clamp(MOST_RAILS, MOST_SUSPECT_RAILS)));
        let mut figures = Vec::new();
        for plan in &plans {
            figures.push(plan.figure(figures.len())?);
        }
        if let Some(last) = figures.last_mut().filter(|_| !left_out.is_empty()) {
            let states = left_out
                .iter()
                .map(|plan| format!("{}: {}", plan.name(), plan.states()));
            let states: Vec<String> = states.collect();
            let rails = count(left_out.len(), "more rail");
            last.caption += &format!(" {rails} not drawn: {}.", listed(&states, 8, "; "));
            for plan in left_out.iter().filter(|plan| plan.has_suspects()) {
                last.alternative += &format!(". Not drawn: {}", plan.in_words());
            }
        }
        Ok(figures)
    }
}

/// Names of hosts: those of the run, and those that the topology tells of.
fn hosts(recorded: &Recorded) -> BTreeSet<String> {
    let mut hosts: BTreeSet<String> = recorded.run.hosts.iter().map(|host| host.name.clone()).collect();
    let told = recorded
        .topology
        .as_ref()
        .and_then(|text| text.parse::<toml::Table>().ok());
    let told = told.as_ref().and_then(|table| table.get("host")?.as_array());
    let names = told
        .into_iter()
        .flatten()
        .filter_map(|host| host.get("name")?.as_str());
    hosts.extend(names.map(str::to_string));
    hosts
}

/// Parts that findings name: links, cables, switches and hosts, with the best confidence.
#[derive(Default)]
struct Accused<'a> {
    parts: BTreeMap<&'a str, f64>,
}

impl<'a> Accused<'a> {
    fn of(findings: &'a [Finding]) -> Accused<'a> {
        let mut accused = Accused::default();
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

/// `h2` of `h2/rail1`.
fn node_of(port: &str) -> &str {
    port.rsplit_once('/').map_or(port, |(node, _)| node)
}

/// The two nodes of `h2/rail1->leaf1/p0`.
fn ends_of(link: &str) -> Option<(&str, &str)> {
    let (from, to) = link.split_once("->")?;
    Some((node_of(from), node_of(to)))
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
struct Plan<'a> {
    rail: &'a str,
    links: Vec<&'a LinkCoverage>,
    cables: Vec<Cable<'a>>,
    /// Nodes by layer, hosts first, in their order.
    layers: Vec<Vec<&'a str>>,
    /// Switches and hosts that findings name.
    accused: BTreeSet<&'a str>,
}

impl<'a> Plan<'a> {
    fn of(
        rail: &'a str,
        links: Vec<&'a LinkCoverage>,
        hosts: &BTreeSet<String>,
        accused: &Accused<'_>,
    ) -> Plan<'a> {
        let mut by_ends: BTreeMap<[&str; 2], Cable<'a>> = BTreeMap::new();
        let mut neighbours: BTreeMap<&'a str, BTreeSet<&'a str>> = BTreeMap::new();
        for link in &links {
            let Some((from, to)) = ends_of(&link.link) else {
                continue;
            };
            neighbours.entry(from).or_default().insert(to);
            neighbours.entry(to).or_default().insert(from);
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
        let named = neighbours.keys().copied().filter(|node| accused.names(node));
        Plan {
            rail,
            accused: named.collect(),
            layers: layers(&neighbours, hosts),
            cables: by_ends.into_values().collect(),
            links,
        }
    }

    fn name(&self) -> String {
        match self.rail {
            "" => "cables of no rail".to_string(),
            rail => clip(rail, 40),
        }
    }

    fn suspects(&self) -> impl Iterator<Item = &Cable<'a>> {
        self.cables.iter().filter(|cable| is_suspect(cable))
    }

    fn has_suspects(&self) -> bool {
        self.suspects().next().is_some() || !self.accused.is_empty()
    }

    /// `62 healthy, 1 slow, 1 untested`, directed links.
    fn states(&self) -> String {
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
    fn chosen(&self) -> Vec<(Vec<&'a str>, usize)> {
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

    fn figure(&self, number: usize) -> io::Result<Figure> {
        let title = format!(
            "Cables of {}",
            if self.rail.is_empty() {
                "the fabric".to_string()
            } else {
                clip(self.rail, 40)
            }
        );
        let chosen = self.chosen();
        let left_out: usize = chosen.iter().map(|(_, left_out)| left_out).sum();
        let scope = match left_out {
            0 => String::new(),
            many => format!(
                " {many} nodes have no room here: suspects are drawn with some of their neighbours, the rest is counted."
            ),
        };
        let unlisted = match self.suspects().count().saturating_sub(MOST_LISTED) {
            0 => String::new(),
            many => format!(" {many} more suspect cables stand in the text only."),
        };
        Ok(Figure {
            id: format!("topology-{number}"),
            svg: self.drawn(&chosen, &title)?,
            caption: format!(
                "Directed links: {}. Thick and numbered: suspect, with the list below; dashed: no flow is known to have crossed it; dotted: never asked for what it should carry; thin: healthy.{scope}{unlisted}",
                self.states()
            ),
            alternative: self.in_words(),
            title,
        })
    }

    fn drawn(&self, chosen: &[(Vec<&'a str>, usize)], title: &str) -> io::Result<String> {
        let widest = chosen
            .iter()
            .map(|(nodes, left_out)| nodes.len() + 2 * usize::from(*left_out > 0))
            .max()
            .unwrap_or(1);
        let width = (120 + STEP * widest as i32).max(720);
        let bottom = 70 + LAYER * (chosen.len() as i32 - 1).max(0);
        let suspects: Vec<&Cable<'a>> = self.suspects().collect();
        let listed = suspects.len().min(MOST_LISTED) as i32;
        let height = bottom + 70 + 20 * listed;
        let mut places: BTreeMap<&str, At> = BTreeMap::new();
        for (layer, (nodes, left_out)) in chosen.iter().enumerate() {
            let slots = (nodes.len() + 2 * usize::from(*left_out > 0)).max(1) as i32;
            let room = (width - 110) / slots;
            for (number, node) in nodes.iter().enumerate() {
                let x = 100 + room * number as i32 + room / 2;
                places.insert(node, (x, bottom - LAYER * layer as i32));
            }
        }
        drawing((width as u32, height as u32), title, |canvas| {
            let healthy = self.cables.iter().filter(|cable| !is_suspect(cable));
            for cable in healthy {
                let [Some(a), Some(b)] = cable.ends.map(|end| places.get(end)) else {
                    continue;
                };
                let (ink, stroke) = match cable.state {
                    LinkState::Untested => (INK, Stroke::Dashed(1)),
                    LinkState::Underloaded => (MUTED, Stroke::Dotted(2)),
                    _ => (MUTED, Stroke::Solid(1)),
                };
                canvas.line(&[*a, *b], ink, stroke)?;
            }
            for (number, cable) in suspects.iter().enumerate() {
                draw_suspect(canvas, cable, number, &places)?;
            }
            for (layer, (nodes, left_out)) in chosen.iter().enumerate() {
                let y = bottom - LAYER * layer as i32;
                canvas.text((12, y), layer_name(layer), Look::NOTE)?;
                for node in nodes {
                    self.draw_node(canvas, node, places[node])?;
                }
                if *left_out > 0 {
                    canvas.text((width - 12, y), &format!("and {left_out} more"), Look::RIGHT)?;
                }
            }
            for (number, cable) in suspects.iter().take(MOST_LISTED).enumerate() {
                let y = bottom + 50 + 20 * number as i32;
                let text = clip(&format!("!{}: {}", number + 1, brief(cable)), 120);
                canvas.text((16, y), &text, Look::LEFT)?;
            }
            Ok(())
        })
    }

    fn draw_node(&self, canvas: &Canvas<'_>, node: &str, (x, y): At) -> Drawn {
        let is_accused = self.accused.contains(node);
        let mark = if is_accused { "! " } else { "" };
        let label = format!("{mark}{}", clip_end(node, 9));
        let half = (label.chars().count() as i32 * 7 / 2 + 4).max(14);
        let corners = [(x - half, y - 11), (x + half, y + 11)];
        canvas.face(corners, if is_accused { PAPER } else { PALE })?;
        let (ink, width) = if is_accused { (FAULT, 3) } else { (EDGE, 1) };
        canvas.edge(corners, ink, width)?;
        canvas.text((x, y), &label, Look::MIDDLE.size(11.0))
    }

    fn in_words(&self) -> String {
        let mut words = vec![format!("{}: directed links: {}", self.name(), self.states())];
        for node in &self.accused {
            words.push(format!("accused: {node}"));
        }
        for cable in self.suspects() {
            words.push(format!("suspect: {}", in_words(cable)));
        }
        let untested: Vec<String> = self
            .links
            .iter()
            .filter(|link| link.state == LinkState::Untested)
            .map(|link| link.link.clone())
            .collect();
        if !untested.is_empty() {
            words.push(format!("untested: {}", listed(&untested, MOST_NAMED, ", ")));
        }
        for (layer, nodes) in self.layers.iter().enumerate() {
            words.push(format!("{}: {}", layer_name(layer), nodes.len()));
        }
        words.join("; ")
    }
}

fn is_suspect(cable: &Cable<'_>) -> bool {
    matches!(cable.state, LinkState::Slow | LinkState::Suspected)
}

/// The end of a name, which is what tells it from its neighbours.
fn clip_end(name: &str, most: usize) -> String {
    let name = clip(name, 200);
    let letters = name.chars().count();
    match letters > most {
        true => std::iter::once('\u{2026}')
            .chain(name.chars().skip(letters + 1 - most))
            .collect(),
        false => name,
    }
}

fn layer_name(layer: usize) -> &'static str {
    ["hosts", "leaves", "spines", "core"]
        .get(layer)
        .copied()
        .unwrap_or("above")
}

/// Nodes by their distance from the hosts; whatever is not joined to any host comes last.
fn layers<'a>(
    neighbours: &BTreeMap<&'a str, BTreeSet<&'a str>>,
    hosts: &BTreeSet<String>,
) -> Vec<Vec<&'a str>> {
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    let mut next: BTreeSet<&'a str> = neighbours
        .keys()
        .copied()
        .filter(|node| hosts.contains(*node))
        .collect();
    let mut layers = Vec::new();
    while !next.is_empty() {
        seen.extend(next.iter().copied());
        let beyond = next
            .iter()
            .filter_map(|node| neighbours.get(node))
            .flatten()
            .copied();
        let beyond: BTreeSet<&'a str> = beyond.filter(|node| !seen.contains(node)).collect();
        layers.push(in_order(std::mem::replace(&mut next, beyond)));
    }
    let lost: BTreeSet<&'a str> = neighbours
        .keys()
        .copied()
        .filter(|node| !seen.contains(node))
        .collect();
    if !lost.is_empty() {
        layers.push(in_order(lost));
    }
    layers
}

/// As people count: h2 before h10.
fn in_order(nodes: BTreeSet<&str>) -> Vec<&str> {
    let mut nodes: Vec<&str> = nodes.into_iter().collect();
    nodes.sort_by_key(|node| {
        let digits = node.bytes().rev().take_while(u8::is_ascii_digit).count();
        let (name, number) = node.split_at(node.len() - digits);
        (name, number.len(), number)
    });
    nodes
}

fn draw_suspect(canvas: &Canvas<'_>, cable: &Cable<'_>, number: usize, places: &BTreeMap<&str, At>) -> Drawn {
    let [Some(a), Some(b)] = cable.ends.map(|end| places.get(end)) else {
        return Ok(());
    };
    canvas.line(&[*a, *b], FAULT, Stroke::Solid(5))?;
    // Nearer to one end, so that the labels of a node's cables do not meet.
    let (x, y) = ((a.0 * 3 + b.0 * 2) / 5, (a.1 * 3 + b.1 * 2) / 5);
    let label = format!("!{}", number + 1);
    canvas.face([(x - 13, y - 9), (x + 13, y + 9)], PAPER)?;
    canvas.edge([(x - 13, y - 9), (x + 13, y + 9)], FAULT, 1)?;
    canvas.text((x, y), &label, Look::MIDDLE.bold())
}

/// The worse direction only.
fn brief(cable: &Cable<'_>) -> String {
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
fn in_words(cable: &Cable<'_>) -> String {
    let mut links: Vec<&&LinkCoverage> = cable.links.iter().collect();
    links.sort_by_key(|link| std::cmp::Reverse(badness(link.state)));
    let link = |link: &&&LinkCoverage| {
        let carried = match (link.most, link.share) {
            (Some(most), Some(share)) => format!(", carried {most}, {} of what it should", percent(share)),
            (Some(most), None) => format!(", carried {most}"),
            _ => ", nothing seen on it".to_string(),
        };
        format!("{} {}{carried}", link.link, link.state)
    };
    let names: BTreeSet<&str> = links.iter().map(|link| link.cable.as_str()).collect();
    let names: Vec<&str> = names.into_iter().collect();
    let links: Vec<String> = links.iter().map(link).collect();
    format!("cable {}: {}", names.join(", "), listed(&links, 4, "; "))
}
