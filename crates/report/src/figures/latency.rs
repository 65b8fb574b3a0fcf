//! How long a collective takes, by percentile over message size: what most iterations take and what the slowest few take.
//!
//! Readable without colour: every percentile has its own marker and its name at its end. All cells of a test that measure the same
//! are taken together; percentiles come from an HDR histogram of every complete iteration. The 99.9th needs a thousand iterations to
//! differ from the longest, which is why their number is said.

use std::collections::{BTreeMap, HashMap};
use std::io;

use super::canvas::{Stroke, TextLook, clip, drawing};
use super::frame::{self, Frame, Scale};
use super::iterations::iterations;
use super::palette::LINES;
use super::shares::failed;
use crate::figure::{Figure, FigureKind};
use record::stats::{Spread, spread};
use record::text::{counted, first_of};
use record::units::{Bytes, Nanos};
use record::{Algorithm, Cell, CellVerdict, Collective, Engine, Judgement, Load, Recorded};

/// Most figures of a report: round trips first, then what failed.
const MOST_FIGURES: usize = 4;
/// How many times as long as the median the slowest percent takes when that is worth a word.
const TAIL: f64 = 3.0;
const WIDTH: i32 = 960;

/// The picture of percentiles.
pub(super) struct Latency;

/// What is taken together: a test's cells of one kind, under one load, by one engine.
type Family<'a> = (&'a str, Collective, Algorithm, Load, Engine);

fn family(cell: &Cell) -> Family<'_> {
    (
        &cell.test,
        cell.collective,
        cell.algorithm,
        cell.load,
        cell.engine,
    )
}

impl FigureKind for Latency {
    fn figures(&self, recorded: &Recorded, judgement: &Judgement) -> io::Result<Vec<Figure>> {
        let mut families: BTreeMap<Family<'_>, Vec<&CellVerdict>> = BTreeMap::new();
        let measured = judgement.cells.iter().filter(|cell| cell.iterations > 0);
        for cell in measured.filter(|cell| cell.cell.collective.is_scheduled()) {
            families.entry(family(&cell.cell)).or_default().push(cell);
        }
        let mut families: Vec<(Family<'_>, Vec<&CellVerdict>)> = families.into_iter().collect();
        families.sort_by_key(|((_, collective, ..), cells)| {
            let is_round_trip = *collective == Collective::RoundTrip;
            (!is_round_trip, !cells.iter().any(|cell| failed(cell)))
        });
        let left_out = families.len().saturating_sub(MOST_FIGURES);
        families.truncate(MOST_FIGURES);
        let spreads = spreads(recorded, &families);
        let mut figures = Vec::new();
        for ((family, cells), sizes) in families.into_iter().zip(spreads) {
            if !sizes.is_empty() {
                let chart = LatencyChart { sizes, cells };
                figures.push(chart.figure(family, figures.len())?);
            }
        }
        if let Some(last) = figures.last_mut().filter(|_| left_out > 0) {
            last.caption += &format!(" {} of this kind not drawn.", counted(left_out, "more test"));
        }
        Ok(figures)
    }
}

/// The spread and the number of iterations at every size of each family.
fn spreads(
    recorded: &Recorded,
    families: &[(Family<'_>, Vec<&CellVerdict>)],
) -> Vec<BTreeMap<Bytes, (Spread, usize)>> {
    let mut place_of: HashMap<u32, (usize, Bytes)> = HashMap::new();
    for (number, (_, cells)) in families.iter().enumerate() {
        for cell in cells {
            place_of.insert(cell.cell.id, (number, cell.cell.size));
        }
    }
    let mut times: Vec<BTreeMap<Bytes, Vec<u64>>> = vec![BTreeMap::new(); families.len()];
    for (cell, iterations) in iterations(recorded, |cell| place_of.contains_key(&cell)) {
        if let Some((number, size)) = place_of.get(&cell) {
            let known = times[*number].entry(*size).or_default();
            known.extend(iterations.iter().map(|iteration| iteration.ns));
        }
    }
    let of_family = |sizes: BTreeMap<Bytes, Vec<u64>>| {
        let of_size = |(size, times): (Bytes, Vec<u64>)| Some((size, (spread(&times)?, times.len())));
        sizes.into_iter().filter_map(of_size).collect()
    };
    times.into_iter().map(of_family).collect()
}

/// One family with its percentiles by size.
struct LatencyChart<'a> {
    sizes: BTreeMap<Bytes, (Spread, usize)>,
    cells: Vec<&'a CellVerdict>,
}

/// What is drawn, by name.
const NAMES: [&str; 5] = ["p50", "p95", "p99", "p99.9", "max"];

/// The same in nanoseconds.
fn percentiles(spread: &Spread) -> [u64; 5] {
    [spread.p50, spread.p95, spread.p99, spread.p999, spread.max]
}

impl LatencyChart<'_> {
    fn figure(
        &self,
        (test, collective, algorithm, load, engine): Family<'_>,
        number: usize,
    ) -> io::Result<Figure> {
        let load = load.suffix();
        let engine = match engine {
            Engine::Ours => "",
            Engine::Nccl => "NCCL ",
        };
        let title = format!(
            "{}: time of one {engine}{algorithm} {collective}{load}",
            clip(test, 60)
        );
        Ok(Figure {
            id: format!("latency-{number}"),
            svg: self.drawn(&title)?,
            caption: self.caption(),
            alternative: self.in_words(&title),
            title,
        })
    }

    fn drawn(&self, title: &str) -> io::Result<String> {
        let x = Scale::ratios(self.sizes.keys().map(|size| size.0.max(1) as f64));
        let all = self.sizes.values().flat_map(|(spread, _)| percentiles(spread));
        let frame = Frame {
            left: 76,
            top: 62,
            right: WIDTH - 24,
            bottom: 360,
            x,
            y: Scale::ratios(all.map(|time| time.max(1) as f64)),
        };
        drawing((WIDTH as u32, 436), title, |canvas| {
            let measures = "time of one iteration (logarithmic)";
            frame.draw(
                canvas,
                &frame::sizes(&x, self.sizes.keys().copied()),
                &frame::times(&frame.y),
                measures,
            )?;
            frame.name_x_axis(canvas, "message size (B, logarithmic)")?;
            for (number, name) in NAMES.into_iter().enumerate() {
                let ink = LINES[number];
                let at = |(size, (spread, _)): (&Bytes, &(Spread, usize))| {
                    frame.at(size.0.max(1) as f64, percentiles(spread)[number].max(1) as f64)
                };
                let places: Vec<_> = self.sizes.iter().map(at).collect();
                canvas.line(&places, ink, Stroke::Solid(1))?;
                for place in &places {
                    canvas.marker(*place, number, ink)?;
                }
                let left = 76 + 110 * number as i32;
                canvas.marker((left, 416), number, ink)?;
                canvas.text((left + 14, 416), name, TextLook::LEFT)?;
            }
            Ok(())
        })
    }

    fn caption(&self) -> String {
        let least = self.sizes.values().map(|(_, many)| *many).min().unwrap_or(0);
        let tails: Vec<String> = self
            .sizes
            .iter()
            .filter(|(_, (spread, _))| spread.p99 as f64 > TAIL * spread.p50 as f64)
            .map(|(size, (spread, _))| format!("{size} ({} of {})", Nanos(spread.p99), Nanos(spread.p50)))
            .collect();
        let stands_out = match tails.is_empty() {
            true => format!("At no size is p99 {TAIL} times the median or more."),
            false => format!(
                "p99 is more than {TAIL} times the median at {}.",
                first_of(&tails, 6, ", ", String::clone)
            ),
        };
        let few = match least < 1000 {
            true => format!(" With {least} iterations at some size, p99.9 is the maximum there."),
            false => String::new(),
        };
        format!(
            "All {} of this test together; every complete iteration counts. {stands_out}{few}",
            counted(self.cells.len(), "cell")
        )
    }

    fn in_words(&self, title: &str) -> String {
        let size = |(size, (spread, many)): (&Bytes, &(Spread, usize))| {
            let values: Vec<String> = NAMES
                .into_iter()
                .zip(percentiles(spread))
                .map(|(name, time)| format!("{name} {}", Nanos(time)))
                .collect();
            format!("{size}: {} of {}", values.join(", "), counted(*many, "iteration"))
        };
        let sizes: Vec<String> = self.sizes.iter().map(size).collect();
        let slow: Vec<&&CellVerdict> = self.cells.iter().filter(|cell| failed(cell)).collect();
        let slow = match slow.is_empty() {
            true => String::new(),
            false => format!(
                ". Failed among them: {}",
                first_of(&slow, 30, "; ", |cell| cell.cell.describe())
            ),
        };
        format!("{title}. {}{slow}", sizes.join("; "))
    }
}
