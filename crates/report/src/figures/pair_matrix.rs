//! The rate of every pair: sources by destinations, one matrix per rail, each field the lowest share of the expected rate.
//!
//! Readable without colour: every field has its share as a number; a pair that failed has a thick edge. A row that is low is a
//! sender, a column that is low a receiver, a single field is what is between them. In a large fabric a failing node has a row and
//! a column of its own and neighbours share one.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use super::canvas::{Canvas, DrawResult, TextLook, clip, drawing};
use super::heat_map::legend;
use super::node_rows::{self, NodeRow};
use super::palette::{FAULT, MUTED, level};
use super::shares::{self, Hosts};
use crate::figure::{Figure, FigureKind};
use record::stats::median;
use record::text::{counted, first_of, whole_percent};
use record::{Collective, Judgement, Recorded};

/// Failing nodes with a row and a column of their own, and groups of others.
const MOST_FAILING: usize = 12;
const GROUPS: usize = 12;
/// Most rails drawn; those with failed pairs, then those with the slowest, come first.
const MOST_RAILS: usize = 8;
/// A node is failing when the median of its pairs is below this share of the median of all.
const LOW: f64 = 0.9;
/// Most pairs that the text names.
const MOST_NAMED: usize = 60;
const ROW: i32 = 22;
const STEP: i32 = 34;

/// The picture of pairs.
pub(super) struct PairMatrix;

/// A pair in one direction: its lowest share, and whether one of its measurements failed.
#[derive(Debug, Clone, Copy)]
struct Pair {
    share: f64,
    failed: bool,
}

/// All pairs of one rail, source first.
type Pairs = BTreeMap<(usize, usize), Pair>;

impl FigureKind for PairMatrix {
    fn figures(&self, recorded: &Recorded, judgement: &Judgement) -> io::Result<Vec<Figure>> {
        let hosts = Hosts::of(recorded);
        let mut rails: Vec<(&str, Pairs)> = pairs(&hosts, recorded, judgement).into_iter().collect();
        // Between two nodes there is nothing that a matrix could show better than a number.
        rails.retain(|(_, pairs)| nodes_of(pairs).len() > 2);
        let lowest = |pairs: &Pairs| {
            pairs
                .values()
                .map(|pair| pair.share)
                .fold(f64::INFINITY, f64::min)
        };
        let failed = |pairs: &Pairs| pairs.values().any(|pair| pair.failed);
        rails.sort_by(|(_, a), (_, b)| failed(b).cmp(&failed(a)).then(lowest(a).total_cmp(&lowest(b))));
        let hidden = rails.split_off(rails.len().min(MOST_RAILS));
        let left_out = hidden.len();
        let hidden = hidden.into_iter().filter(|(_, pairs)| failed(pairs));
        let hidden: Vec<String> = hidden
            .map(|(rail, pairs)| Matrix::of(&hosts, judgement, pairs).in_words(rail))
            .collect();
        let last = rails.len().saturating_sub(1);
        let figure = |(number, (rail, pairs)): (usize, (&str, Pairs))| {
            let matrix = Matrix::of(&hosts, judgement, pairs);
            let title = format!("{}: rate of every pair", clip(rail, 40));
            let mut caption = matrix.caption();
            if number == last && left_out > 0 {
                caption += &format!(" {} with faster pairs not drawn.", counted(left_out, "more rail"));
            }
            let mut alternative = matrix.in_words(rail);
            if number == last && !hidden.is_empty() {
                alternative += &format!(". Not drawn: {}", hidden.join("; "));
            }
            Ok(Figure {
                id: format!("pairs-{number}"),
                svg: matrix.drawn(&title)?,
                caption,
                alternative,
                title,
            })
        };
        rails.into_iter().enumerate().map(figure).collect()
    }
}

fn pairs<'a>(hosts: &Hosts<'_>, recorded: &Recorded, judgement: &'a Judgement) -> BTreeMap<&'a str, Pairs> {
    let of_cells = shares::of_cells(recorded, judgement);
    let mut rails: BTreeMap<&str, Pairs> = BTreeMap::new();
    for at in shares::telling(judgement, &of_cells) {
        let verdict = &judgement.cells[at];
        let cell = &verdict.cell;
        let ([from, to], [rail], Some(share)) = (cell.ranks.as_slice(), cell.rails.as_slice(), of_cells[at])
        else {
            continue;
        };
        let (Some(from), Some(to)) = (hosts.of_rank(*from), hosts.of_rank(*to)) else {
            continue;
        };
        if from == to {
            continue;
        }
        let both = cell.collective != Collective::PointToPoint;
        let failed = shares::failed(verdict);
        let all = rails.entry(rail).or_default();
        for way in [Some((from, to)), both.then_some((to, from))]
            .into_iter()
            .flatten()
        {
            let pair = all.entry(way).or_insert(Pair { share, failed });
            pair.share = pair.share.min(share);
            pair.failed |= failed;
        }
    }
    rails
}

fn nodes_of(pairs: &Pairs) -> BTreeSet<usize> {
    pairs.keys().flat_map(|(from, to)| [*from, *to]).collect()
}

/// The matrix of one rail.
struct Matrix<'a> {
    /// Names of the nodes that have pairs here.
    names: Vec<&'a str>,
    /// Shares by position of source and destination in `names`.
    pairs: Pairs,
    /// The median share of what each sends and receives.
    ways: Vec<[Option<f64>; 2]>,
    middle: f64,
    failing: usize,
    rows: Vec<NodeRow>,
    /// Fields by row and column.
    fields: Pairs,
}

impl<'a> Matrix<'a> {
    fn of(hosts: &Hosts<'a>, judgement: &Judgement, pairs: Pairs) -> Matrix<'a> {
        let nodes: Vec<usize> = nodes_of(&pairs).into_iter().collect();
        let position = |host: usize| nodes.binary_search(&host).unwrap_or(0);
        let pairs: Pairs = pairs
            .into_iter()
            .map(|((from, to), pair)| ((position(from), position(to)), pair))
            .collect();
        let names: Vec<&str> = nodes.iter().map(|host| hosts.names[*host]).collect();
        let middle = median(&pairs.values().map(|pair| pair.share).collect::<Vec<_>>()).unwrap_or(1.0);
        let accused: BTreeSet<usize> = hosts
            .accused(judgement)
            .into_iter()
            .filter_map(|host| nodes.binary_search(&host).ok())
            .collect();
        let ways = ways(&pairs, names.len());
        let failing = failing(&ways, middle, &accused);
        let rows = node_rows::rows(&names, &failing, MOST_FAILING, GROUPS);
        let mut row_of = vec![0; names.len()];
        for (number, row) in rows.iter().enumerate() {
            row.hosts.iter().for_each(|host| row_of[*host] = number);
        }
        let mut fields: Pairs = BTreeMap::new();
        for ((from, to), pair) in &pairs {
            let field = fields.entry((row_of[*from], row_of[*to])).or_insert(*pair);
            field.share = field.share.min(pair.share);
            field.failed |= pair.failed;
        }
        Matrix {
            names,
            pairs,
            ways,
            middle,
            failing: failing.len(),
            rows,
            fields,
        }
    }

    fn drawn(&self, title: &str) -> io::Result<String> {
        let many = self.rows.len() as i32;
        let top = 64;
        let bottom = top + ROW * many;
        let left = node_rows::label_width(&self.rows);
        let width = (left + STEP * many + 40).max(720);
        drawing((width as u32, (bottom + 66) as u32), title, |canvas| {
            canvas.text((left - 10, top - 10), "from \\ to", TextLook::RIGHT.ink(MUTED))?;
            for (number, row) in self.rows.iter().enumerate() {
                self.draw_heads(canvas, number, row, (left, top))?;
            }
            for ((from, to), pair) in &self.fields {
                draw_field(canvas, (left + STEP * *to as i32, top + ROW * *from as i32), pair)?;
            }
            let failed = self.fields.iter().filter(|(_, pair)| pair.failed);
            for ((from, to), _) in failed {
                let (left, top) = (left + STEP * *to as i32, top + ROW * *from as i32);
                canvas.outline([(left + 1, top + 1), (left + STEP - 1, top + ROW - 1)], FAULT, 3)?;
            }
            let is_grouped = self.rows.iter().any(|row| row.hosts.len() > 1);
            let lowest = if is_grouped {
                ", the lowest of all pairs in it"
            } else {
                ""
            };
            let note = format!(
                "numbers: % of the expected rate{lowest}; thick edge: a pair that failed; !: a node that fails; empty: not measured"
            );
            canvas.text((16, bottom + 20), &note, TextLook::NOTE)?;
            legend(canvas, bottom + 44)
        })
    }

    /// The label of a row, and its number above the column with the same nodes: names would run into each other there.
    fn draw_heads(
        &self,
        canvas: &Canvas<'_>,
        number: usize,
        row: &NodeRow,
        (left, top): (i32, i32),
    ) -> DrawResult {
        let (mark, bold) = if row.is_failing { ("! ", true) } else { ("", false) };
        let look = |look: TextLook| if bold { look.bold() } else { look };
        let y = top + ROW * number as i32 + ROW / 2;
        let label = format!("{mark}{}: {}", number + 1, row.label);
        canvas.text((left - 10, y), &label, look(TextLook::RIGHT))?;
        let x = left + STEP * number as i32 + STEP / 2;
        canvas.text(
            (x, top - 10),
            &format!("{mark}{}", number + 1),
            look(TextLook::MIDDLE),
        )
    }

    fn slowest(&self) -> Vec<(f64, usize, usize, bool)> {
        let all = self.pairs.iter();
        let mut slowest: Vec<_> = all
            .filter(|(_, pair)| pair.failed || pair.share < LOW * self.middle)
            .map(|((from, to), pair)| (pair.share, *from, *to, pair.failed))
            .collect();
        slowest.sort_by(|a, b| a.0.total_cmp(&b.0).then((a.1, a.2).cmp(&(b.1, b.2))));
        slowest
    }

    fn caption(&self) -> String {
        let failed = self.pairs.values().filter(|pair| pair.failed).count();
        format!(
            "Each field is the rate from the row's node to the column's node at the largest message; columns are numbered like rows. {} of {} failed. A low row points to a sender, a low column to a receiver, a single low field to the path between them.{}",
            failed,
            counted(self.pairs.len(), "directed pair"),
            node_rows::grouping_note(&self.rows, self.failing)
        )
    }

    fn in_words(&self, rail: &str) -> String {
        let failing = self.rows.iter().filter(|row| row.is_failing);
        let failing: Vec<String> = failing
            .flat_map(|row| row.hosts.iter())
            .map(|host| self.of_node(*host))
            .collect();
        let slow = self.slowest();
        let pair = |(share, from, to, failed): &(f64, usize, usize, bool)| {
            let failed = if *failed { " (failed)" } else { "" };
            let (from, to) = (self.names[*from], self.names[*to]);
            format!("{from} to {to} {}{failed}", whole_percent(*share))
        };
        let mut words = format!(
            "{rail}: {} between {}, median {} of the expected rate",
            counted(self.pairs.len(), "directed pair"),
            counted(self.names.len(), "node"),
            whole_percent(self.middle)
        );
        if !failing.is_empty() {
            words += &format!("; failing nodes: {}", failing.join(", "));
        }
        match slow.is_empty() {
            true => words += &format!("; no pair failed or is below {} of that", whole_percent(LOW)),
            false => words += &format!("; slowest pairs: {}", first_of(&slow, MOST_NAMED, ", ", pair)),
        }
        words
    }

    /// `node07 (sends 61 %, receives 99 %)`.
    fn of_node(&self, node: usize) -> String {
        let [sends, receives] = self.ways[node].map(|share| match share {
            Some(share) => whole_percent(share),
            None => "nothing measured".to_string(),
        });
        format!("{} (sends {sends}, receives {receives})", self.names[node])
    }
}

/// The median share of what each node sends and of what it receives.
fn ways(pairs: &Pairs, nodes: usize) -> Vec<[Option<f64>; 2]> {
    let mut shares: Vec<[Vec<f64>; 2]> = vec![[Vec::new(), Vec::new()]; nodes];
    for ((from, to), pair) in pairs {
        shares[*from][0].push(pair.share);
        shares[*to][1].push(pair.share);
    }
    let middle = |[sends, receives]: [Vec<f64>; 2]| [median(&sends), median(&receives)];
    shares.into_iter().map(middle).collect()
}

/// Nodes that are accused or whose pairs are slow in one direction, the slowest first.
fn failing(ways: &[[Option<f64>; 2]], middle: f64, accused: &BTreeSet<usize>) -> Vec<usize> {
    let slowest = |node: usize| ways[node].iter().flatten().copied().fold(f64::INFINITY, f64::min);
    let mut failing: Vec<(f64, usize)> = (0..ways.len())
        .map(|node| (slowest(node), node))
        .filter(|(share, node)| accused.contains(node) || *share < LOW * middle)
        .collect();
    failing.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    failing.into_iter().map(|(_, node)| node).collect()
}

fn draw_field(canvas: &Canvas<'_>, (left, top): (i32, i32), pair: &Pair) -> DrawResult {
    let corners = [(left + 1, top + 1), (left + STEP - 1, top + ROW - 1)];
    canvas.fill_rect(corners, level(pair.share))?;
    let center = (left + STEP / 2, top + ROW / 2);
    canvas.text(
        center,
        &format!("{:.0}", pair.share * 100.0),
        TextLook::MIDDLE.size(11.0),
    )
}
