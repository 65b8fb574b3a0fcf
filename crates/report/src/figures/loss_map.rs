//! What the run would have found: for the cables below and above every leaf, in each direction, the smallest loss that it finds with
//! probability 0.9. A pass means nothing worse than that.
//!
//! Readable without colour: every field has its number; a field with cables that nothing is known of has a thick edge. In a large fabric the
//! leaves about which least would have been found have rows of their own, and the others share one.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use super::cabling::hosts;
use super::canvas::{Canvas, DrawResult, TextLook, clip, drawing};
use super::palette::{INK, MUTED, WARM};
use crate::figure::{Figure, FigureKind};
use crate::links::percent_rounded_up;
use record::{Judgement, LinkCoverage, LinkState, Recorded};

/// Leaves with a row of their own.
const MOST_ROWS: usize = 40;
/// Leaves that the text names.
const MOST_NAMED: usize = 40;
/// A loss beyond this would go unnoticed in a field that is shaded.
const LARGE: f64 = 0.2;
const COLUMNS: [&str; 4] = [
    "hosts to leaf",
    "leaf to hosts",
    "leaf to spines",
    "spines to leaf",
];
const ROW: i32 = 20;
const TOP: i32 = 64;
const LEFT: i32 = 220;
const STEP: i32 = 120;

/// The picture of what could have been found.
pub(super) struct LossMap;

/// Links of one kind at one leaf, or at several.
#[derive(Debug, Clone, Default, PartialEq)]
struct Field {
    links: usize,
    /// Links of which nothing can be said.
    unknown: usize,
    /// The largest of the smallest losses.
    worst: Option<f64>,
}

impl Field {
    fn add(&mut self, link: &LinkCoverage) {
        self.links += 1;
        match link.smallest_loss.filter(|_| link.state != LinkState::Untested) {
            Some(loss) => self.worst = Some(self.worst.map_or(loss, |worst| worst.max(loss))),
            None => self.unknown += 1,
        }
    }

    fn join(&mut self, other: &Field) {
        self.links += other.links;
        self.unknown += other.unknown;
        self.worst = self.worst.into_iter().chain(other.worst).reduce(f64::max);
    }

    /// What would go unnoticed: everything, where nothing is known.
    fn blindness(&self) -> f64 {
        match self.unknown {
            0 => self.worst.unwrap_or(0.0),
            _ => 1.0,
        }
    }

    fn in_words(&self) -> String {
        let worst = self.worst.map(percent_rounded_up);
        match (self.links, self.unknown, worst) {
            (0, ..) => "-".to_string(),
            (_, 0, Some(worst)) => worst,
            (_, unknown, Some(worst)) => format!("{worst}, {unknown} ?"),
            (_, unknown, None) => format!("{unknown} ?"),
        }
    }
}

type Fields = [Field; 4];

impl FigureKind for LossMap {
    fn figures(&self, recorded: &Recorded, judgement: &Judgement) -> io::Result<Vec<Figure>> {
        let links = &judgement.coverage.links;
        if links.iter().all(|link| link.smallest_loss.is_none()) {
            return Ok(Vec::new());
        }
        let mut leaves: Vec<(String, Fields)> = by_leaf(links, &hosts(recorded)).into_iter().collect();
        let blindness = |fields: &Fields| fields.iter().map(Field::blindness).fold(0.0, f64::max);
        leaves.sort_by(|(a, of_a), (b, of_b)| blindness(of_b).total_cmp(&blindness(of_a)).then(a.cmp(b)));
        let words: Vec<String> = leaves
            .iter()
            .take(MOST_NAMED)
            .map(|(leaf, fields)| {
                let fields = COLUMNS.iter().zip(fields).filter(|(_, field)| field.links > 0);
                let fields: Vec<String> = fields
                    .map(|(column, field)| format!("{column} {}", field.in_words()))
                    .collect();
                format!("{leaf}: {}", fields.join(", "))
            })
            .collect();
        let alternative = match leaves.len().saturating_sub(MOST_NAMED) {
            0 => words.join("; "),
            more => format!(
                "{}; and {more} more leaves, about which as much would have been found",
                words.join("; ")
            ),
        };
        let rows = rows(leaves);
        let title = "What this run would have found".to_string();
        Ok(vec![Figure {
            id: "loss-map".to_string(),
            svg: drawn(&rows, &title)?,
            caption: format!(
                "Each field: the smallest loss of rate that the run finds with probability 0.9 on every one of these cables. A pass means that none of them has lost more. ? with a thick edge: cables of which nothing can be said. Shaded: a loss of {} might go unnoticed.",
                percent_rounded_up(LARGE)
            ),
            alternative,
            title,
        }])
    }
}

/// The links at every leaf. A link between switches of which neither has hosts is with the one that sends.
fn by_leaf(links: &[LinkCoverage], hosts: &BTreeSet<String>) -> BTreeMap<String, Fields> {
    let node = |end: &str| end.rsplit_once('/').map_or(end, |(node, _)| node).to_string();
    let ends = |link: &LinkCoverage| {
        let (from, to) = link.link.split_once("->").unwrap_or((&link.link, ""));
        (node(from), node(to))
    };
    let mut leaves: BTreeSet<String> = BTreeSet::new();
    for (from, to) in links.iter().map(ends) {
        match (hosts.contains(&from), hosts.contains(&to)) {
            (true, false) => leaves.insert(to),
            (false, true) => leaves.insert(from),
            _ => false,
        };
    }
    let mut fields: BTreeMap<String, Fields> = BTreeMap::new();
    for link in links {
        let (from, to) = ends(link);
        let (leaf, column) = match (hosts.contains(&from), hosts.contains(&to)) {
            (true, _) => (to, 0),
            (_, true) => (from, 1),
            _ if leaves.contains(&from) => (from, 2),
            _ if leaves.contains(&to) => (to, 3),
            _ => (from, 2),
        };
        fields.entry(leaf).or_default()[column].add(link);
    }
    fields
}

/// What has a row of its own, and the rest of it in one.
fn rows(mut leaves: Vec<(String, Fields)>) -> Vec<(String, Fields)> {
    if leaves.len() <= MOST_ROWS {
        return leaves;
    }
    let others = leaves.split_off(MOST_ROWS - 1);
    let mut joined = Fields::default();
    for (_, fields) in &others {
        for (field, other) in joined.iter_mut().zip(fields) {
            field.join(other);
        }
    }
    leaves.push((format!("the other {} leaves", others.len()), joined));
    leaves
}

fn drawn(rows: &[(String, Fields)], title: &str) -> io::Result<String> {
    let bottom = TOP + ROW * rows.len() as i32;
    let width = LEFT + STEP * COLUMNS.len() as i32 + 24;
    drawing((width as u32, (bottom + 36) as u32), title, |canvas| {
        for (number, column) in COLUMNS.iter().enumerate() {
            let x = LEFT + STEP * number as i32 + STEP / 2;
            canvas.text((x, TOP - 12), column, TextLook::MIDDLE)?;
        }
        for (number, (leaf, fields)) in rows.iter().enumerate() {
            draw_row(canvas, leaf, fields, TOP + ROW * number as i32)?;
        }
        let meaning = "numbers: the smallest loss that is found; ?: nothing can be said";
        canvas.text((16, bottom + 20), meaning, TextLook::NOTE)
    })
}

fn draw_row(canvas: &Canvas<'_>, leaf: &str, fields: &Fields, top: i32) -> DrawResult {
    let middle = top + ROW / 2;
    canvas.text((LEFT - 10, middle), &clip(leaf, 26), TextLook::RIGHT)?;
    let edge = |number: usize| {
        let left = LEFT + STEP * number as i32;
        [(left + 1, top + 1), (left + STEP - 1, top + ROW - 1)]
    };
    for (number, field) in fields.iter().enumerate() {
        if field.links > 0 && field.blindness() > LARGE {
            canvas.fill_rect(edge(number), WARM)?;
        }
        let center = (LEFT + STEP * number as i32 + STEP / 2, middle);
        let ink = if field.links == 0 { MUTED } else { INK };
        canvas.text(center, &field.in_words(), TextLook::MIDDLE.ink(ink))?;
        if field.unknown > 0 {
            canvas.outline(edge(number), INK, 2)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::tests::with_links;
    use judge::findings::fixture::Fixture;

    fn figures(loss: impl Fn(usize) -> Option<f64>) -> Vec<Figure> {
        let recorded = Fixture::pairs(4).recorded();
        let mut judgement = with_links(&recorded);
        for (number, link) in judgement.coverage.links.iter_mut().enumerate() {
            link.smallest_loss = loss(number);
        }
        LossMap.figures(&recorded, &judgement).unwrap()
    }

    #[test]
    fn every_leaf_says_what_would_have_been_found_below_and_above_it() {
        assert!(figures(|_| None).is_empty(), "nothing is known: no figure");
        let figures = figures(|number| Some(if number == 0 { 0.231 } else { 0.08 }));
        let figure = &figures[0];
        // The cable that is least known comes first; one between switches is untested.
        assert!(
            figure
                .alternative
                .contains("leaf0: hosts to leaf 24 %, leaf to hosts 8 %"),
            "{}",
            figure.alternative
        );
        assert!(figure.alternative.contains('?'), "{}", figure.alternative);
        assert!(figure.svg.contains("24 %") && figure.svg.contains("hosts to leaf"));
    }

    #[test]
    fn a_large_fabric_joins_the_leaves_about_which_most_is_known() {
        let field = |worst: f64| Field {
            links: 2,
            unknown: 0,
            worst: Some(worst),
        };
        let leaf = |number: usize| {
            let fields: Fields = [
                field(1.0 / (2 + number) as f64),
                field(0.01),
                Field::default(),
                Field::default(),
            ];
            (format!("leaf{number:03}"), fields)
        };
        let rows = rows((0..100).map(leaf).collect());
        assert_eq!(rows.len(), MOST_ROWS);
        let (name, fields) = &rows[MOST_ROWS - 1];
        assert_eq!(name, "the other 61 leaves");
        assert_eq!((fields[0].links, fields[0].worst), (122, Some(1.0 / 41.0)));
        let none = Field::default();
        assert_eq!((none.in_words().as_str(), none.blindness()), ("-", 0.0));
    }
}
