//! Wire rate and bus rate over message size, one line per rail, against what a spec demands and what peers reach.
//!
//! Readable without colour: every line has its own marker. Bars are the intervals of the medians; dashes are what a spec demands; the
//! shaded band reaches from what is accepted of peers (their margin below the median of those that did not fail) to the fastest of
//! them; an exclamation mark is a cell that failed and a bare tick what it should have reached. Where many cells share a line and a
//! size, their median is drawn with a bar from the lowest to the highest, and those that failed as crosses. The text names what failed also
//! where there is no room to draw it.
//!
//! `bandwidth.svg` is the same with the lines of all tests in one picture.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use super::canvas::{Canvas, DrawResult, Stroke, TextLook, clip, drawing, titled};
use super::frame::{self, Frame, Scale};
use super::palette::{EDGE, INK, LINES, PALE};
use super::rate_lines::{Band, Line, band, beside, draw_bus, draw_wire, many_in_words};
use super::shares::failed;
use crate::escape;
use crate::figure::{Figure, FigureKind};
use crate::writer::Writer;
use record::text::{counted, first_of};
use record::units::Bytes;
use record::{Algorithm, Cell, CellVerdict, Collective, Engine, Judgement, Load, Recorded, Reference, files};

/// Most lines of a picture; those with failed cells come first.
const MOST_LINES: usize = 8;
/// Most figures of a report; those with failed cells come first.
const MOST_FIGURES: usize = 6;
/// Most failed cells that the text names.
const MOST_NAMED: usize = 60;
/// Most specs drawn.
const MOST_SPECS: usize = 3;
const WIDTH: i32 = 960;

/// The picture of rates over message size.
pub(crate) struct Bandwidth;

impl Writer for Bandwidth {
    fn file(&self) -> &'static str {
        files::BANDWIDTH
    }

    fn render(&self, recorded: &Recorded, judgement: &Judgement) -> io::Result<String> {
        let cells = judgement.cells.iter().filter(|cell| cell.wire_rate.is_some());
        let chart = RateChart::of(cells.collect(), recorded, &judgement.suite, line_name);
        match chart.lines.is_empty() {
            false => chart.drawn(true),
            true => titled((WIDTH as u32, 120), &chart.title, None, |canvas| {
                canvas.text((40, 60), "no wire rate was measured", TextLook::HEAD)
            }),
        }
    }
}

/// What cells of one figure share.
type Family<'a> = (&'a str, Load, Collective, Algorithm);

impl FigureKind for Bandwidth {
    fn figures(&self, recorded: &Recorded, judgement: &Judgement) -> io::Result<Vec<Figure>> {
        let mut families: BTreeMap<Family<'_>, Vec<&CellVerdict>> = BTreeMap::new();
        for verdict in judgement.cells.iter().filter(|cell| cell.wire_rate.is_some()) {
            let cell = &verdict.cell;
            // Rates of streams are drawn per path, and round trips are about time.
            if cell.collective.is_scheduled() && cell.collective != Collective::RoundTrip {
                let family = (cell.test.as_str(), cell.load, cell.collective, cell.algorithm);
                families.entry(family).or_default().push(verdict);
            }
        }
        let mut families: Vec<_> = families.into_iter().collect();
        families.sort_by_key(|(_, cells)| !cells.iter().any(|cell| failed(cell)));
        let left_out = families.len().saturating_sub(MOST_FIGURES);
        let hidden = families.split_off(families.len().min(MOST_FIGURES));
        let hidden = hidden
            .iter()
            .flat_map(|(_, cells)| cells)
            .filter(|cell| failed(cell));
        let hidden: Vec<&CellVerdict> = hidden.copied().collect();
        let last = families.len().saturating_sub(1);
        let figure = |(number, (family, cells)): (usize, (Family<'_>, Vec<&CellVerdict>))| {
            let (test, load, collective, algorithm) = family;
            let load = load.suffix();
            let title = format!("{}: {algorithm} {collective}{load}", clip(test, 60));
            let chart = RateChart::of(cells, recorded, &title, rail_name);
            let mut caption = chart.caption();
            if number == last && left_out > 0 {
                caption +=
                    &format!(" {left_out} more of this kind are not drawn; those that failed come first.");
            }
            let mut alternative = chart.in_words(recorded);
            if number == last && !hidden.is_empty() {
                let hidden = first_of(&hidden, MOST_NAMED, "; ", |cell| {
                    format!("test {}, {}", cell.cell.test, one_in_words(cell, recorded))
                });
                alternative += &format!(" Failed and not drawn: {hidden}.");
            }
            Ok(Figure {
                id: format!("bandwidth-{number}"),
                title: chart.title.clone(),
                caption,
                alternative,
                svg: chart.drawn(false)?,
            })
        };
        families.into_iter().enumerate().map(figure).collect()
    }
}

/// Everything that one picture shows.
struct RateChart<'a> {
    title: String,
    lines: Vec<Line<'a>>,
    left_out: usize,
    /// All cells that failed, drawn or not.
    failing: Vec<&'a CellVerdict>,
    specs: Vec<(String, f64, Bytes)>,
    band: Band,
}

impl<'a> RateChart<'a> {
    fn of(
        cells: Vec<&'a CellVerdict>,
        recorded: &Recorded,
        subject: &str,
        name: fn(&Cell) -> String,
    ) -> RateChart<'a> {
        let tests: BTreeSet<&str> = cells.iter().map(|cell| cell.cell.test.as_str()).collect();
        let kinds: BTreeSet<_> = cells
            .iter()
            .map(|cell| (cell.cell.load, cell.cell.collective))
            .collect();
        let band = match tests.len() == 1 && kinds.len() == 1 {
            true => band(&cells, recorded),
            false => Band::new(),
        };
        let failing = cells.iter().copied().filter(|cell| failed(cell)).collect();
        let mut by_name: BTreeMap<String, Line<'a>> = BTreeMap::new();
        for cell in cells {
            let name = name(&cell.cell);
            let line = by_name.entry(name.clone()).or_insert_with(|| Line {
                name,
                sizes: BTreeMap::new(),
            });
            line.sizes.entry(cell.cell.size).or_default().push(cell);
        }
        let mut lines: Vec<Line<'a>> = by_name.into_values().collect();
        let left_out = lines.len().saturating_sub(MOST_LINES);
        lines.sort_by_key(|line| !line.failed());
        lines.truncate(MOST_LINES);
        RateChart {
            title: format!(
                "{}: wire rate of the busiest link and bus rate",
                escape::line(subject)
            ),
            lines,
            left_out,
            failing,
            specs: specs(recorded, &tests),
            band,
        }
    }

    fn drawn(&self, is_titled: bool) -> io::Result<String> {
        let has_bus = self
            .lines
            .iter()
            .any(|line| line.cells().any(|cell| cell.bus_rate.is_some()));
        let legend_at = if has_bus { 600 } else { 380 };
        let entries = self.lines.len() + self.specs.len() + usize::from(!self.band.is_empty());
        let height = legend_at + 20 * entries.div_ceil(2) as i32 + 30;
        let sizes = || self.lines.iter().flat_map(|line| line.sizes.keys());
        let x = Scale::ratios(sizes().map(|size| size.0.max(1) as f64));
        let wire = Frame {
            left: 64,
            top: 62,
            right: WIDTH - 24,
            bottom: 322,
            x,
            y: Scale::from_zero(self.heights()),
        };
        let buses = self
            .lines
            .iter()
            .flat_map(Line::cells)
            .filter_map(|cell| cell.bus_rate);
        let bus = Frame {
            top: 382,
            bottom: 540,
            y: Scale::from_zero(buses.map(|rate| rate.gb_per_s())),
            ..wire
        };
        let paint = |canvas: &Canvas<'_>| {
            self.draw_band(canvas, &wire)?;
            wire.draw(
                canvas,
                &frame::sizes(&x, sizes().copied()),
                &frame::numbers(&wire.y, 6),
                "wire rate (GB/s)",
            )?;
            for (_, demanded, from) in &self.specs {
                let places = [
                    wire.at(from.0.max(1) as f64, *demanded),
                    (wire.right, wire.y_of(*demanded)),
                ];
                canvas.line(&places, INK, Stroke::Dashed(1))?;
            }
            for (number, line) in self.lines.iter().enumerate() {
                draw_wire(canvas, &beside(wire, number, self.lines.len()), line, number)?;
            }
            if has_bus {
                let measures = "bus rate (GB/s), as nccl-tests computes it";
                bus.draw(
                    canvas,
                    &frame::sizes(&x, sizes().copied()),
                    &frame::numbers(&bus.y, 5),
                    measures,
                )?;
                for (number, line) in self.lines.iter().enumerate() {
                    draw_bus(canvas, &beside(bus, number, self.lines.len()), line, number)?;
                }
            }
            let lowest = if has_bus { bus } else { wire };
            lowest.name_x_axis(canvas, "message size (B, logarithmic)")?;
            self.legend(canvas, legend_at)
        };
        let size = (WIDTH as u32, height as u32);
        let more = match self.left_out {
            0 => String::new(),
            more => format!(" ({more} more lines not drawn)"),
        };
        match is_titled {
            true => titled(size, &format!("{}{more}", clip(&self.title, 80)), None, paint),
            false => drawing(size, &self.title, paint),
        }
    }

    /// Everything that the scale must have room for, GB/s.
    fn heights(&self) -> impl Iterator<Item = f64> + '_ {
        let cells = || self.lines.iter().flat_map(Line::cells);
        let measured = cells().filter_map(|cell| Some(cell.wire_rate?.upper.gb_per_s()));
        let expected = cells()
            .filter(|cell| failed(cell))
            .filter_map(|cell| Some(cell.expected?.gb_per_s()));
        let specs = self.specs.iter().map(|(_, demanded, _)| *demanded);
        let bands = self.band.values().map(|(_, fastest)| *fastest);
        measured.chain(expected).chain(specs).chain(bands)
    }

    fn draw_band(&self, canvas: &Canvas<'_>, frame: &Frame) -> DrawResult {
        let at = |size: &Bytes, rate: f64| frame.at(size.0.max(1) as f64, rate);
        let mut around: Vec<_> = self.band.iter().map(|(size, (low, _))| at(size, *low)).collect();
        let lower = around.clone();
        around.extend(self.band.iter().rev().map(|(size, (_, high))| at(size, *high)));
        if let [low, high] = around.as_slice() {
            // A single size still has a band as wide as a bar.
            return canvas.fill_rect([(low.0 - 14, high.1), (low.0 + 14, low.1)], PALE);
        }
        canvas.polygon(&around, PALE)?;
        canvas.line(&lower, EDGE, Stroke::Dotted(1))
    }

    fn legend(&self, canvas: &Canvas<'_>, top: i32) -> DrawResult {
        let place = |entry: usize| (24 + (entry % 2) as i32 * 468, top + 20 * (entry / 2) as i32);
        let mut entry = 0;
        for (number, line) in self.lines.iter().enumerate() {
            let (x, y) = place(entry);
            canvas.marker((x + 10, y), number, LINES[number % LINES.len()])?;
            let mark = if line.failed() { " !" } else { "" };
            canvas.text((x + 28, y), &format!("{}{mark}", line.name), TextLook::LEFT)?;
            entry += 1;
        }
        for (id, demanded, _) in &self.specs {
            let (x, y) = place(entry);
            canvas.line(&[(x, y), (x + 22, y)], INK, Stroke::Dashed(1))?;
            let text = format!("demanded by spec {}: {demanded:.2} GB/s", clip(id, 40));
            canvas.text((x + 28, y), &text, TextLook::LEFT)?;
            entry += 1;
        }
        if !self.band.is_empty() {
            let (x, y) = place(entry);
            canvas.fill_rect([(x, y - 6), (x + 22, y + 6)], PALE)?;
            let text = "peers: from the accepted rate to the fastest";
            canvas.text((x + 28, y), text, TextLook::LEFT)?;
            entry += 1;
        }
        let (_, y) = place(entry + entry % 2);
        let text = "!: a cell that failed; tick: expected rate; bar: interval of the median, or lowest to highest of several cells";
        canvas.text((24, y), text, TextLook::NOTE)
    }

    fn caption(&self) -> String {
        let more = match self.left_out {
            0 => String::new(),
            more => format!(" {more} more lines are not drawn."),
        };
        let stands_out = match self.failing.len() {
            0 => "No cell here failed.".to_string(),
            many => format!("{} failed.", counted(many, "cell")),
        };
        let band = match self.band.is_empty() {
            true => "",
            false => " A line below the shaded band is slower than its peers.",
        };
        let spec = match self.specs.is_empty() {
            true => "",
            false => " A line below the dashes is slower than the spec demands.",
        };
        format!(
            "Each line is a rail, or a transport without rails. Top: wire rate of the busiest link; bottom: bus rate. {stands_out}{band}{spec}{more}"
        )
    }

    fn in_words(&self, recorded: &Recorded) -> String {
        let mut words = format!("{}. ", self.title);
        if !self.failing.is_empty() {
            let failed = first_of(&self.failing, MOST_NAMED, "; ", |cell| {
                one_in_words(cell, recorded)
            });
            words += &format!("Failed: {failed}. ");
        }
        for (id, demanded, from) in &self.specs {
            words += &format!("Spec {id} demands {demanded:.2} GB/s from {from} on. ");
        }
        for line in &self.lines {
            let sizes: Vec<String> = line
                .sizes
                .iter()
                .map(|(size, cells)| format!("{size} {}", many_in_words(cells)))
                .collect();
            words += &format!("{}: {}. ", line.name, sizes.join("; "));
        }
        if self.left_out > 0 {
            words += &format!("{} more lines are not drawn.", self.left_out);
        }
        words.trim_end().to_string()
    }
}

fn one_in_words(verdict: &CellVerdict, recorded: &Recorded) -> String {
    let cell = &verdict.cell;
    let who = match cell.ranks.as_slice() {
        [from, to] => format!(
            "{} to {}",
            recorded.run.rank_name(*from),
            recorded.run.rank_name(*to)
        ),
        ranks => counted(ranks.len(), "rank"),
    };
    let measured = verdict
        .wire_rate
        .map_or_else(String::new, |rate| rate.to_string());
    let expected = verdict
        .expected
        .map_or_else(String::new, |rate| format!(" of {rate} expected"));
    format!("{}, {}, {who}: {measured}{expected}", rail_name(cell), cell.size)
}

/// `rail0`, `NCCL rail0+rail1`, `shm`.
fn rail_name(cell: &Cell) -> String {
    let rails = match cell.rails.is_empty() {
        true => cell.transport.to_string(),
        false => cell.rails.join("+"),
    };
    let to = cell
        .to_rail
        .as_ref()
        .map_or_else(String::new, |rail| format!(" to {rail}"));
    let engine = match cell.engine {
        Engine::Nccl => "NCCL ",
        Engine::Ours => "",
    };
    clip(&format!("{engine}{rails}{to}"), 60)
}

/// The same, distinct from lines of other tests.
fn line_name(cell: &Cell) -> String {
    let load = cell.load.suffix();
    let name = format!(
        "{}: {} {} {}{load}",
        cell.test,
        cell.algorithm,
        cell.collective,
        rail_name(cell)
    );
    clip(&name, 60)
}

/// Distinct spec rows of these tests: id, GB/s demanded, smallest size.
fn specs(recorded: &Recorded, tests: &BTreeSet<&str>) -> Vec<(String, f64, Bytes)> {
    let mut seen = BTreeSet::new();
    let mut rows = Vec::new();
    let tests = recorded
        .run
        .tests
        .iter()
        .filter(|test| tests.contains(test.name.as_str()));
    for reference in tests.flat_map(|test| &test.references) {
        if let Reference::Spec(row) = reference {
            let demanded = (row.rate * (1.0 - row.tolerance)).gb_per_s();
            if demanded.is_finite() && seen.insert(row.id.as_str()) {
                rows.push((escape::line(&row.id), demanded, row.from_size));
            }
        }
    }
    rows.truncate(MOST_SPECS);
    rows
}
