//! Nodes by rails: what share of what it should each node reaches on each rail, the median over the measurements that it took part in; the lower
//! one of sending and receiving where these were measured apart.
//!
//! Readable without colour: every field has its share as a number; a field below its rail has a thick edge, a node that is
//! failing an exclamation mark. In a large fabric a failing node has a row of its own and neighbours share one, with their median and the
//! lowest of them. Measurements in which all nodes take part at once tell nothing about any one of them and are left out where there are others.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use super::canvas::{Canvas, DrawResult, TextLook, clip, drawing};
use super::node_rows::{self, NodeRow};
use super::palette::{FAULT, INK, MUTED, legend_of_levels, level};
use super::shares::{self, Hosts};
use crate::figure::{Figure, FigureKind};
use record::stats::median;
use record::text::{counted, whole_percent};
use record::{Collective, FindingKind, Judgement, Recorded};

/// Failing nodes with a row of their own, and groups of others.
const MOST_FAILING: usize = 72;
const GROUPS: usize = 24;
/// Most rails drawn; the slowest come first when there are more.
const MOST_RAILS: usize = 16;
/// A node is failing on a rail when it reaches less than this share of what the rail's nodes reach.
const LOW: f64 = 0.9;
const ROW: i32 = 20;
const TOP: i32 = 64;

/// The picture of nodes by rails.
pub(super) struct HeatMap;

/// A rail by name, the share of every host there, and their median.
type Column<'a> = (&'a str, Vec<Option<f64>>, Option<f64>);

/// Shares by host and rail.
struct Map<'a> {
    hosts: Hosts<'a>,
    rails: Vec<&'a str>,
    /// The median over its measurements in its slower direction, by rail and host.
    shares: Vec<Vec<Option<f64>>>,
    /// The median over all hosts, by rail.
    middle: Vec<Option<f64>>,
    /// Rails that a finding calls slow.
    slow: BTreeSet<&'a str>,
    /// Hosts that fail, worst first.
    failing: Vec<usize>,
    measurements: usize,
    /// Whether nodes were only ever measured all at once.
    is_whole: bool,
}

impl FigureKind for HeatMap {
    fn figures(&self, recorded: &Recorded, judgement: &Judgement) -> io::Result<Vec<Figure>> {
        let Some(map) = Map::of(recorded, judgement) else {
            return Ok(Vec::new());
        };
        let rows = match map.is_whole {
            true => vec![NodeRow {
                label: match map.hosts.names.as_slice() {
                    [one] => clip(one, 30),
                    names => format!("all {} nodes", names.len()),
                },
                hosts: (0..map.hosts.names.len()).collect(),
                is_failing: false,
            }],
            false => node_rows::rows(&map.hosts.names, &map.failing, MOST_FAILING, GROUPS),
        };
        let title = "Nodes by rails: share of the expected rate".to_string();
        Ok(vec![Figure {
            id: "heat-map".to_string(),
            svg: map.drawn(&rows, &title)?,
            caption: map.caption(&rows),
            alternative: map.in_words(),
            title,
        }])
    }
}

impl<'a> Map<'a> {
    fn of(recorded: &'a Recorded, judgement: &'a Judgement) -> Option<Map<'a>> {
        let hosts = Hosts::of(recorded);
        let of_cells = shares::of_cells(recorded, judgement);
        let telling = shares::telling(judgement, &of_cells);
        let taking_part = |at: usize| -> BTreeSet<usize> {
            let ranks = judgement.cells[at].cell.ranks.iter();
            ranks.filter_map(|rank| hosts.of_rank(*rank)).collect()
        };
        // Whoever is measured with everybody else says nothing about itself.
        let apart: Vec<usize> = telling
            .iter()
            .copied()
            .filter(|at| {
                let ranks = &judgement.cells[*at].cell.ranks;
                ranks.len() <= 2 || taking_part(*at).len() < hosts.names.len()
            })
            .collect();
        let is_whole = apart.is_empty() || hosts.names.len() < 2;
        let used = if is_whole { telling } else { apart };
        let mut by_rail: BTreeMap<&str, Vec<[Vec<f64>; 2]>> = BTreeMap::new();
        for at in &used {
            let Some(share) = of_cells[*at] else { continue };
            let cell = &judgement.cells[*at].cell;
            let receiver = match (cell.collective, cell.ranks.as_slice()) {
                (Collective::PointToPoint, [_, to]) => hosts.of_rank(*to),
                _ => None,
            };
            for rail in &cell.rails {
                let nobody = || vec![[Vec::new(), Vec::new()]; hosts.names.len()];
                let columns = by_rail.entry(rail).or_insert_with(nobody);
                for host in taking_part(*at) {
                    columns[host][usize::from(receiver == Some(host))].push(share);
                }
            }
        }
        // A node that sends slowly and receives well is slow.
        let lower = |ways: &[Vec<f64>; 2]| ways.iter().filter_map(|way| median(way)).reduce(f64::min);
        let mut rails: Vec<Column<'a>> = by_rail
            .into_iter()
            .map(|(rail, values)| {
                let of_hosts: Vec<Option<f64>> = values.iter().map(lower).collect();
                let known: Vec<f64> = of_hosts.iter().flatten().copied().collect();
                (rail, of_hosts, median(&known))
            })
            .collect();
        if rails.is_empty() {
            return None;
        }
        if rails.len() > MOST_RAILS {
            let slowest =
                |shares: &[Option<f64>]| shares.iter().flatten().copied().fold(f64::INFINITY, f64::min);
            rails.sort_by(|a, b| slowest(&a.1).total_cmp(&slowest(&b.1)));
        }
        let mut map = Map {
            slow: judgement
                .findings
                .iter()
                .filter(|finding| finding.kind == FindingKind::SlowRail)
                .filter_map(|finding| finding.place.rail.as_deref())
                .collect(),
            failing: hosts.accused(judgement),
            hosts,
            rails: rails.iter().map(|(rail, ..)| *rail).collect(),
            middle: rails.iter().map(|(_, _, middle)| *middle).collect(),
            shares: rails.into_iter().map(|(_, shares, _)| shares).collect(),
            measurements: used.len(),
            is_whole,
        };
        map.add_low();
        Some(map)
    }

    /// Hosts below their rails are failing, too; the order is that of the lowest share.
    fn add_low(&mut self) {
        if self.is_whole {
            self.failing.clear();
            return;
        }
        let accused: BTreeSet<usize> = self.failing.iter().copied().collect();
        let low = (0..self.hosts.names.len())
            .filter(|host| !accused.contains(host))
            .filter(|host| (0..self.rails.len()).any(|rail| self.is_low(rail, *host)));
        let mut failing: Vec<usize> = accused.iter().copied().chain(low).collect();
        failing.sort_by(|a, b| self.lowest(*a).total_cmp(&self.lowest(*b)).then(a.cmp(b)));
        self.failing = failing;
    }

    fn is_low(&self, rail: usize, host: usize) -> bool {
        match (self.shares[rail][host], self.middle[rail]) {
            (Some(share), Some(middle)) => share < LOW * middle,
            _ => false,
        }
    }

    fn lowest(&self, host: usize) -> f64 {
        let shares = self.shares.iter().filter_map(|rail| rail[host]);
        shares.fold(f64::INFINITY, f64::min)
    }

    /// Median and lowest share of a row's hosts on a rail.
    fn field(&self, rail: usize, row: &NodeRow) -> Option<(f64, f64)> {
        let known: Vec<f64> = row
            .hosts
            .iter()
            .filter_map(|host| self.shares[rail][*host])
            .collect();
        let lowest = known.iter().copied().fold(f64::INFINITY, f64::min);
        Some((median(&known)?, lowest))
    }

    fn drawn(&self, rows: &[NodeRow], title: &str) -> io::Result<String> {
        let rails = self.rails.len().min(MOST_RAILS);
        let is_grouped = !self.is_whole && rows.iter().any(|row| row.hosts.len() > 1);
        let step = if is_grouped { 84 } else { 64 };
        let bottom = TOP + ROW * rows.len() as i32;
        let left = node_rows::label_width(rows);
        let width = (left + step * rails as i32 + 24).max(720);
        drawing((width as u32, (bottom + 66) as u32), title, |canvas| {
            for (rail, name) in self.rails.iter().take(rails).enumerate() {
                let x = left + step * rail as i32 + step / 2;
                let (mark, look) = match self.slow.contains(name) {
                    true => ("! ", TextLook::MIDDLE.bold()),
                    false => ("", TextLook::MIDDLE),
                };
                let label = format!("{mark}{}", clip(name, step as usize / 8));
                canvas.text((x, TOP - 12), &label, look)?;
            }
            for (number, row) in rows.iter().enumerate() {
                let top = TOP + ROW * number as i32;
                self.draw_row(canvas, row, (left, top, step), rails)?;
            }
            let unit = match is_grouped {
                true => "numbers: % of the expected rate, median of the row and (lowest)",
                false => "numbers: % of the expected rate",
            };
            let meaning = "; !: fails; thick edge: below its rail; -: not measured";
            canvas.text((16, bottom + 20), &format!("{unit}{meaning}"), TextLook::NOTE)?;
            legend(canvas, bottom + 44)
        })
    }

    fn draw_row(
        &self,
        canvas: &Canvas<'_>,
        row: &NodeRow,
        (first, top, step): (i32, i32, i32),
        rails: usize,
    ) -> DrawResult {
        let middle = top + ROW / 2;
        let (mark, look) = match row.is_failing {
            true => ("! ", TextLook::RIGHT.bold()),
            false => ("", TextLook::RIGHT),
        };
        canvas.text((first - 10, middle), &format!("{mark}{}", row.label), look)?;
        let edge = |rail: usize| {
            let left = first + step * rail as i32;
            [(left + 1, top + 1), (left + step - 1, top + ROW - 1)]
        };
        for rail in 0..rails {
            let center = (first + step * rail as i32 + step / 2, middle);
            let Some((share, lowest)) = self.field(rail, row) else {
                canvas.text(center, "-", TextLook::MIDDLE.ink(MUTED))?;
                continue;
            };
            canvas.fill_rect(edge(rail), level(share))?;
            let text = match row.hosts.len() {
                many if many == 1 || self.is_whole => format!("{:.0}", share * 100.0),
                _ => format!("{:.0} ({:.0})", share * 100.0, lowest * 100.0),
            };
            canvas.text(center, &text, TextLook::MIDDLE)?;
        }
        // DrawResult last, so that no neighbour covers them.
        for rail in (0..rails).filter(|rail| row.hosts.iter().any(|host| self.is_low(*rail, *host))) {
            canvas.outline(edge(rail), FAULT, 3)?;
        }
        Ok(())
    }

    fn caption(&self, rows: &[NodeRow]) -> String {
        let what = match self.is_whole {
            true => "All nodes were measured together, so they share one row: this figure cannot show which node is slow.".to_string(),
            false => match self.failing.len() {
                0 => format!("No node is below {} of its rail.", whole_percent(LOW)),
                many => format!("{} with an exclamation mark: named by a finding, or below {} of the median of its rail.", counted(many, "node"), whole_percent(LOW)),
            },
        };
        let rails = match self.rails.len().saturating_sub(MOST_RAILS) {
            0 => String::new(),
            more => format!(" {more} faster rails are not drawn."),
        };
        format!(
            "Each field is the median over the measurements of a node ({} in all) at the largest message, sending or receiving, whichever is lower: as a share of the spec, else of the median of all comparable measurements that did not fail. A low row points to a node, a low column to a rail. {what}{}{rails}",
            counted(self.measurements, "measurement"),
            if self.is_whole {
                String::new()
            } else {
                node_rows::grouping_note(rows, self.failing.len())
            }
        )
    }

    fn in_words(&self) -> String {
        let mut words = Vec::new();
        for host in &self.failing {
            let shares = (0..self.rails.len()).filter_map(|rail| {
                let share = self.shares[rail][*host]?;
                let low = if self.is_low(rail, *host) { " (low)" } else { "" };
                Some(format!("{} {}{low}", self.rails[rail], whole_percent(share)))
            });
            let shares: Vec<String> = shares.collect();
            let shares = match shares.is_empty() {
                true => "not measured".to_string(),
                false => shares.join(", "),
            };
            words.push(format!("Failing: {}: {shares}", self.hosts.names[*host]));
        }
        for (rail, name) in self.rails.iter().enumerate() {
            let of_hosts = &self.shares[rail];
            let lowest = (0..of_hosts.len())
                .filter_map(|host| Some((of_hosts[host]?, host)))
                .min_by(|a, b| a.0.total_cmp(&b.0));
            let measured = of_hosts.iter().flatten().count();
            if let (Some(middle), Some((share, host))) = (self.middle[rail], lowest) {
                let lowest = match self.is_whole {
                    true => String::new(),
                    false => format!(", lowest {} at {}", whole_percent(share), self.hosts.names[host]),
                };
                let slow = if self.slow.contains(name) {
                    "Slow rail: "
                } else {
                    ""
                };
                words.push(format!(
                    "{slow}{name}: median {}, {measured} measured of {}{lowest}",
                    whole_percent(middle),
                    counted(of_hosts.len(), "node")
                ));
            }
        }
        words.join("; ")
    }
}

/// What the faces of shares mean, in one line.
pub(super) fn legend(canvas: &Canvas<'_>, y: i32) -> DrawResult {
    for (number, (face, words)) in legend_of_levels().into_iter().enumerate() {
        let x = 16 + 136 * number as i32;
        canvas.fill_rect([(x, y - 7), (x + 22, y + 7)], face)?;
        canvas.outline([(x, y - 7), (x + 22, y + 7)], MUTED, 1)?;
        canvas.text((x + 28, y), words, TextLook::LEFT.ink(INK))?;
    }
    Ok(())
}
