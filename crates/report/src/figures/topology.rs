//! The fabric of every rail: hosts below, leaves above them, spines above those; suspect cables thick and numbered, untested ones dashed.
//!
//! Readable without colour: what is suspect is thick, has a number, and is listed below with what it carried; untested is
//! dashed, underloaded dotted, healthy thin. What a large fabric has no room for is left out and counted: what is suspect stays, with its neighbours.

use std::collections::BTreeMap;
use std::io;

use super::cabling::{Cable, RailLayout, SuspectParts, brief, hosts, in_words, is_suspect};
use super::canvas::{Canvas, DrawResult, Point, Stroke, TextLook, clip, drawing};
use super::palette::{EDGE, FAULT, INK, MUTED, PALE, PAPER};
use crate::figure::{Figure, FigureKind};
use record::text::{counted, first_of};
use record::{Judgement, LinkCoverage, LinkState, Recorded};

/// Most figures, one per rail, and more where more rails have suspects; those come first.
const MOST_RAILS: usize = 4;
const MOST_SUSPECT_RAILS: usize = 8;
/// Suspects with a line in the list below the drawing.
const MOST_LISTED: usize = 16;
/// Untested cables that the text names.
const MOST_NAMED: usize = 40;
const STEP: i32 = 62;
const LAYER: i32 = 130;

/// The picture of cables.
pub(super) struct Topology;

impl FigureKind for Topology {
    fn figures(&self, recorded: &Recorded, judgement: &Judgement) -> io::Result<Vec<Figure>> {
        let mut rails: BTreeMap<&str, Vec<&LinkCoverage>> = BTreeMap::new();
        for link in &judgement.coverage.links {
            let rail = link.rail.as_deref().unwrap_or("");
            rails.entry(rail).or_default().push(link);
        }
        let accused = SuspectParts::of(&judgement.findings);
        let hosts = hosts(recorded);
        let mut layouts: Vec<RailLayout<'_>> = rails
            .into_iter()
            .map(|(rail, links)| RailLayout::of(rail, links, &hosts, &accused))
            .collect();
        layouts.sort_by_key(|layout| !layout.has_suspects());
        // Whatever is suspect is drawn as far as a page has room.
        let suspect = layouts.iter().filter(|layout| layout.has_suspects()).count();
        let left_out = layouts.split_off(layouts.len().min(suspect.clamp(MOST_RAILS, MOST_SUSPECT_RAILS)));
        let mut figures = Vec::new();
        for layout in &layouts {
            figures.push(layout.figure(figures.len())?);
        }
        if let Some(last) = figures.last_mut().filter(|_| !left_out.is_empty()) {
            let states = left_out
                .iter()
                .map(|layout| format!("{}: {}", layout.name(), layout.states()));
            let states: Vec<String> = states.collect();
            let rails = counted(left_out.len(), "more rail");
            last.caption += &format!(
                " {rails} not drawn: {}.",
                first_of(&states, 8, "; ", String::clone)
            );
            for layout in left_out.iter().filter(|layout| layout.has_suspects()) {
                last.alternative += &format!(". Not drawn: {}", layout.in_words());
            }
        }
        Ok(figures)
    }
}

impl<'a> RailLayout<'a> {
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
            many => format!(" {many} nodes are not drawn: suspects are drawn with some of their neighbours."),
        };
        let unlisted = match self.suspects().count().saturating_sub(MOST_LISTED) {
            0 => String::new(),
            many => format!(" {many} more suspect cables are only in the text."),
        };
        Ok(Figure {
            id: format!("topology-{number}"),
            svg: self.drawn(&chosen, &title)?,
            caption: format!(
                "Directed links: {}. Thick and numbered: suspect, listed below; dashed: untested, no flow is known to have crossed it; dotted: never loaded to its rate; thin: healthy.{scope}{unlisted}",
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
        let mut places: BTreeMap<&str, Point> = BTreeMap::new();
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
                canvas.text((12, y), layer_name(layer), TextLook::NOTE)?;
                for node in nodes {
                    self.draw_node(canvas, node, places[node])?;
                }
                if *left_out > 0 {
                    canvas.text((width - 12, y), &format!("and {left_out} more"), TextLook::RIGHT)?;
                }
            }
            for (number, cable) in suspects.iter().take(MOST_LISTED).enumerate() {
                let y = bottom + 50 + 20 * number as i32;
                let text = clip(&format!("!{}: {}", number + 1, brief(cable)), 120);
                canvas.text((16, y), &text, TextLook::LEFT)?;
            }
            Ok(())
        })
    }

    fn draw_node(&self, canvas: &Canvas<'_>, node: &str, (x, y): Point) -> DrawResult {
        let is_accused = self.accused.contains(node);
        let mark = if is_accused { "! " } else { "" };
        let label = format!("{mark}{}", clip_end(node, 9));
        let half = (label.chars().count() as i32 * 7 / 2 + 4).max(14);
        let corners = [(x - half, y - 11), (x + half, y + 11)];
        canvas.fill_rect(corners, if is_accused { PAPER } else { PALE })?;
        let (ink, width) = if is_accused { (FAULT, 3) } else { (EDGE, 1) };
        canvas.outline(corners, ink, width)?;
        canvas.text((x, y), &label, TextLook::MIDDLE.size(11.0))
    }

    fn in_words(&self) -> String {
        let mut words = vec![format!("{}: directed links: {}", self.name(), self.states())];
        for node in &self.accused {
            words.push(format!("suspect node: {node}"));
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
            words.push(format!(
                "untested: {}",
                first_of(&untested, MOST_NAMED, ", ", String::clone)
            ));
        }
        for (layer, nodes) in self.layers.iter().enumerate() {
            words.push(format!("{}: {}", layer_name(layer), nodes.len()));
        }
        words.join("; ")
    }
}

/// The end of a name, where neighbours differ.
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

fn draw_suspect(
    canvas: &Canvas<'_>,
    cable: &Cable<'_>,
    number: usize,
    places: &BTreeMap<&str, Point>,
) -> DrawResult {
    let [Some(a), Some(b)] = cable.ends.map(|end| places.get(end)) else {
        return Ok(());
    };
    canvas.line(&[*a, *b], FAULT, Stroke::Solid(5))?;
    // Nearer to one end, so that the labels of a node's cables do not meet.
    let (x, y) = ((a.0 * 3 + b.0 * 2) / 5, (a.1 * 3 + b.1 * 2) / 5);
    let label = format!("!{}", number + 1);
    canvas.fill_rect([(x - 13, y - 9), (x + 13, y + 9)], PAPER)?;
    canvas.outline([(x - 13, y - 9), (x + 13, y + 9)], FAULT, 1)?;
    canvas.text((x, y), &label, TextLook::MIDDLE.bold())
}
