//! `bandwidth.svg`: wire rate over message size, one line per rail, algorithm and load.
//!
//! Readable without colour: every line has its own marker. Bars are the intervals of the medians; dashes are what a spec
//! demands; a bare tick is what a cell that failed should have reached. All cells of a line share its marker, so that the
//! pairs of a tournament show as a column of points.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use plotters::coord::Shift;
use plotters::coord::types::RangedCoordf64;
use plotters::drawing::DrawingAreaErrorKind;
use plotters::element::ComposedElement;
use plotters::prelude::*;

use super::{Writer, escape};
use crate::record::{Cell, CellVerdict, Engine, Judgement, Load, Recorded, Reference, Verdict, files};
use crate::units::Bytes;

/// Width and height in pixels.
const SIZE: (u32, u32) = (960, 540);
/// Most lines drawn; those with failed cells come first.
const MOST_LINES: usize = 8;
/// One colour per line; dark enough for paper.
const COLORS: [RGBColor; MOST_LINES] = [
    RGBColor(0, 90, 160),
    RGBColor(190, 60, 0),
    RGBColor(0, 120, 80),
    RGBColor(130, 0, 130),
    RGBColor(90, 90, 0),
    RGBColor(0, 130, 150),
    RGBColor(160, 0, 60),
    RGBColor(70, 70, 70),
];

/// The picture of wire rates.
pub(super) struct Bandwidth;

impl Writer for Bandwidth {
    fn file(&self) -> &'static str {
        files::BANDWIDTH
    }

    fn render(&self, recorded: &Recorded, judgement: &Judgement) -> io::Result<String> {
        let mut svg = String::new();
        {
            let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
            draw(&area, recorded, judgement).map_err(|error| io::Error::other(error.to_string()))?;
        }
        Ok(svg)
    }
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;
type Drawn = Result<(), DrawingAreaErrorKind<io::Error>>;

/// Measured cells of one line, by size.
struct Line<'a> {
    name: String,
    failed: bool,
    cells: Vec<&'a CellVerdict>,
}

fn draw(area: &Area<'_>, recorded: &Recorded, judgement: &Judgement) -> Drawn {
    area.fill(&WHITE)?;
    let (lines, left_out) = lines(judgement);
    let measured: Vec<&CellVerdict> = lines.iter().flat_map(|line| line.cells.iter().copied()).collect();
    let Some((sizes, highest)) = bounds(&measured, recorded) else {
        area.draw(&Text::new(
            "no wire rate was measured",
            (40, 60),
            ("sans-serif", 22),
        ))?;
        return area.present();
    };
    let more = if left_out > 0 {
        format!(" ({left_out} more lines not drawn)")
    } else {
        String::new()
    };
    let title = format!(
        "{}: wire rate of the busiest link{more}",
        escape::line(&judgement.suite)
    );
    let mut chart = ChartBuilder::on(area)
        .caption(title, ("sans-serif", 20))
        .margin(14)
        .margin_right(36)
        .x_label_area_size(46)
        .y_label_area_size(64)
        .build_cartesian_2d(sizes.0..sizes.1, 0.0..highest)?;
    chart
        .configure_mesh()
        .light_line_style(WHITE)
        .x_labels(12)
        .x_label_formatter(&|power| size_label(*power))
        .x_desc("message size (B, logarithmic)")
        .y_desc("wire rate (GB/s)")
        .draw()?;
    draw_specs(&mut chart, recorded, sizes)?;
    for (index, line) in lines.iter().enumerate() {
        draw_line(&mut chart, line, index)?;
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.85))
        .border_style(BLACK.mix(0.4))
        .draw()?;
    area.present()
}

/// The lines to draw, and how many were left out.
fn lines(judgement: &Judgement) -> (Vec<Line<'_>>, usize) {
    let mut by_name: BTreeMap<String, Vec<&CellVerdict>> = BTreeMap::new();
    for cell in judgement.cells.iter().filter(|cell| cell.wire_rate.is_some()) {
        by_name.entry(line_name(&cell.cell)).or_default().push(cell);
    }
    let mut lines: Vec<Line<'_>> = by_name
        .into_iter()
        .map(|(name, mut cells)| {
            cells.sort_by_key(|cell| (cell.cell.size, cell.cell.id));
            let failed = cells.iter().any(|cell| matches!(cell.verdict, Verdict::Fail(_)));
            Line { name, failed, cells }
        })
        .collect();
    let left_out = lines.len().saturating_sub(MOST_LINES);
    lines.sort_by_key(|line| !line.failed);
    lines.truncate(MOST_LINES);
    (lines, left_out)
}

fn line_name(cell: &Cell) -> String {
    let rails = if cell.rails.is_empty() {
        cell.transport.to_string()
    } else {
        cell.rails.join("+")
    };
    let load = if cell.load == Load::Together {
        ", together"
    } else {
        ""
    };
    let engine = if cell.engine == Engine::Nccl { "NCCL " } else { "" };
    let name = escape::line(&format!(
        "{}: {engine}{} {} {rails}{load}",
        cell.test, cell.algorithm, cell.collective
    ));
    name.chars().take(60).collect()
}

/// The axes' ends: logarithms (base 2) of the sizes, and the highest rate in GB/s. None when nothing was measured.
fn bounds(cells: &[&CellVerdict], recorded: &Recorded) -> Option<((f64, f64), f64)> {
    let powers = || cells.iter().map(|cell| power(cell.cell.size));
    let (low, high) = (powers().reduce(f64::min)?, powers().reduce(f64::max)?);
    let measured = cells
        .iter()
        .filter_map(|cell| Some(cell.wire_rate?.upper.gb_per_s()));
    let expected = cells.iter().filter_map(|cell| Some(cell.expected?.gb_per_s()));
    let specs = specs(recorded).into_iter().map(|(_, rate, _)| rate);
    let highest = measured
        .chain(expected)
        .chain(specs)
        .filter(|rate| rate.is_finite())
        .fold(0.0, f64::max);
    // Room above for the legend, and to both sides.
    Some((
        (low.floor() - 1.0, high.ceil() + 1.0),
        if highest > 0.0 { highest * 1.45 } else { 1.0 },
    ))
}

fn power(size: Bytes) -> f64 {
    (size.0.max(1) as f64).log2()
}

/// `64 KiB` at whole powers of two, nothing in between.
fn size_label(power: f64) -> String {
    let whole = power.round();
    if (power - whole).abs() < 1e-6 && (0.0..63.0).contains(&whole) {
        Bytes(1 << whole as u32).to_string()
    } else {
        String::new()
    }
}

fn draw_line<'a, 'b: 'a>(chart: &mut Chart<'a, 'b>, line: &Line<'_>, index: usize) -> Drawn {
    let color = COLORS[index % COLORS.len()];
    let mut middle: BTreeMap<Bytes, Vec<f64>> = BTreeMap::new();
    for cell in &line.cells {
        let Some(rate) = cell.wire_rate else { continue };
        let [low, median, high] = [rate.lower, rate.median, rate.upper].map(|rate| rate.gb_per_s());
        let at = power(cell.cell.size);
        chart.draw_series(
            interval_bar(at, low, high).map(|stroke| PathElement::new(stroke, color.stroke_width(1))),
        )?;
        chart.draw_series([marker((at, median), index, color)])?;
        if let (Verdict::Fail(_), Some(expected)) = (&cell.verdict, cell.expected) {
            let tick = [(at - 0.15, expected.gb_per_s()), (at + 0.15, expected.gb_per_s())];
            chart.draw_series([PathElement::new(tick, BLACK.stroke_width(2))])?;
        }
        middle.entry(cell.cell.size).or_default().push(median);
    }
    let line_through = middle.into_iter().map(|(size, mut rates)| {
        rates.sort_by(f64::total_cmp);
        (power(size), rates[rates.len() / 2])
    });
    chart
        .draw_series(LineSeries::new(line_through, color.stroke_width(1)))?
        .label(line.name.clone())
        .legend(move |(x, y)| marker((x + 10, y), index, color));
    Ok(())
}

/// An upright stroke with a cap at each end.
fn interval_bar(at: f64, low: f64, high: f64) -> [[(f64, f64); 2]; 3] {
    let cap = |rate: f64| [(at - 0.06, rate), (at + 0.06, rate)];
    [[(at, low), (at, high)], cap(low), cap(high)]
}

/// Distinct spec rows: id, GB/s demanded, smallest size.
fn specs(recorded: &Recorded) -> Vec<(String, f64, Bytes)> {
    let mut seen = BTreeSet::new();
    let mut rows = Vec::new();
    for reference in recorded.run.tests.iter().flat_map(|test| &test.references) {
        if let Reference::Spec(row) = reference {
            let demanded = (row.rate * (1.0 - row.tolerance)).gb_per_s();
            if demanded.is_finite() && seen.insert(row.id.as_str()) {
                rows.push((escape::line(&row.id), demanded, row.from_size));
            }
        }
    }
    rows.truncate(3);
    rows
}

fn draw_specs<'a, 'b: 'a>(chart: &mut Chart<'a, 'b>, recorded: &Recorded, (low, high): (f64, f64)) -> Drawn {
    for (id, demanded, from) in specs(recorded) {
        let start = power(from).clamp(low, high);
        let dash: Vec<(f64, f64)> = vec![(start, demanded), (high, demanded)];
        chart
            .draw_series(DashedLineSeries::new(dash, 8, 5, BLACK.stroke_width(1)))?
            .label(format!("demanded by spec {id}"))
            .legend(|(x, y)| PathElement::new([(x, y), (x + 20, y)], BLACK.stroke_width(1)));
    }
    Ok(())
}

/// A marker: its face and its outline, in pixels around a point.
type Marker<'b, At> = ComposedElement<At, SVGBackend<'b>, Polygon<(i32, i32)>, PathElement<(i32, i32)>>;

/// The marker of the line with this index: four shapes, filled and hollow, that differ without colour.
fn marker<'b, At>(at: At, index: usize, color: RGBColor) -> Marker<'b, At> {
    let corners: &[(i32, i32)] = match index % 4 {
        0 => &[(-4, -4), (4, -4), (4, 4), (-4, 4)],
        1 => &[(0, -6), (5, 4), (-5, 4)],
        2 => &[(0, -6), (6, 0), (0, 6), (-6, 0)],
        _ => &[(0, 6), (5, -4), (-5, -4)],
    };
    let face = if index % MOST_LINES < 4 { color } else { WHITE };
    let outline: Vec<(i32, i32)> = corners.iter().chain(corners.first()).copied().collect();
    EmptyElement::at(at)
        + Polygon::new(corners, face.filled())
        + PathElement::new(outline, color.stroke_width(2))
}
