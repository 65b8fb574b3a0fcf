//! The lines of a chart of rates: their cells by size, how each is drawn, and what peers reach beside them.

use std::collections::BTreeMap;

use super::canvas::{Canvas, DrawResult, Stroke, TextLook};
use super::frame::Frame;
use super::palette::{FAULT, INK, LINES};
use super::shares::failed;
use record::stats::median;
use record::units::Bytes;
use record::{CellVerdict, Recorded, Reference};

/// Most cells of one line and size that are drawn one by one.
const MOST_ALONE: usize = 4;
/// Most crosses of one line and size.
const MOST_CROSSES: usize = 12;
/// What peers of one size reach: accepted and fastest, GB/s.
pub(super) type Band = BTreeMap<Bytes, (f64, f64)>;

/// Measured cells of one line, by size.
pub(super) struct Line<'a> {
    /// What it is called.
    pub(super) name: String,
    /// Its cells.
    pub(super) sizes: BTreeMap<Bytes, Vec<&'a CellVerdict>>,
}

impl Line<'_> {
    /// All of them.
    pub(super) fn cells(&self) -> impl Iterator<Item = &CellVerdict> {
        self.sizes.values().flatten().copied()
    }

    /// Whether one of them failed.
    pub(super) fn failed(&self) -> bool {
        self.cells().any(failed)
    }
}

/// What the cells of one line and size reach, in words.
pub(super) fn many_in_words(cells: &[&CellVerdict]) -> String {
    let bus = |cell: &CellVerdict| {
        cell.bus_rate
            .map_or_else(String::new, |rate| format!(", bus rate {rate}"))
    };
    match cells {
        [one] => {
            let rate = one.wire_rate.map_or_else(String::new, |rate| rate.to_string());
            format!("{rate}{}", bus(one))
        }
        cells => {
            let (lowest, middle, highest) = spread(cells);
            format!(
                "median {middle:.2} GB/s of {} cells, {lowest:.2} to {highest:.2}",
                cells.len()
            )
        }
    }
}

/// Lowest, median and highest of their medians, GB/s.
fn spread(cells: &[&CellVerdict]) -> (f64, f64, f64) {
    let rates: Vec<f64> = cells
        .iter()
        .filter_map(|cell| Some(cell.wire_rate?.median.gb_per_s()))
        .collect();
    let lowest = rates.iter().copied().fold(f64::INFINITY, f64::min);
    let highest = rates.iter().copied().fold(0.0, f64::max);
    (lowest, median(&rates).unwrap_or(0.0), highest)
}

/// The frame a little to one side, so that lines that reach the same do not cover each other.
pub(super) fn beside(frame: Frame, number: usize, of: usize) -> Frame {
    let aside = 5 * number as i32 - 5 * (of as i32 - 1) / 2;
    Frame {
        left: frame.left + aside,
        right: frame.right + aside,
        ..frame
    }
}

/// Wire rates with their intervals, and what failed.
pub(super) fn draw_wire(canvas: &Canvas<'_>, frame: &Frame, line: &Line<'_>, number: usize) -> DrawResult {
    let ink = LINES[number % LINES.len()];
    let through: Vec<_> = line
        .sizes
        .iter()
        .map(|(size, cells)| frame.at(size.0.max(1) as f64, spread(cells).1))
        .collect();
    canvas.line(&through, ink, Stroke::Solid(1))?;
    for (size, cells) in &line.sizes {
        let x = frame.x_of(size.0.max(1) as f64);
        match cells.len() <= MOST_ALONE {
            true => draw_cells(canvas, frame, cells, (x, number))?,
            false => draw_many(canvas, frame, cells, (x, number))?,
        }
    }
    Ok(())
}

fn draw_cells(
    canvas: &Canvas<'_>,
    frame: &Frame,
    cells: &[&CellVerdict],
    (x, number): (i32, usize),
) -> DrawResult {
    let ink = LINES[number % LINES.len()];
    for cell in cells {
        let Some(rate) = cell.wire_rate else { continue };
        let [low, middle, high] =
            [rate.lower, rate.median, rate.upper].map(|rate| frame.y_of(rate.gb_per_s()));
        if low - high > 2 {
            canvas.whisker(x, (low, high), ink)?;
        }
        canvas.marker((x, middle), number, ink)?;
        if failed(cell) {
            canvas.text((x + 8, middle), "!", TextLook::LEFT.ink(FAULT).bold())?;
            if let Some(expected) = cell.expected {
                let y = frame.y_of(expected.gb_per_s());
                canvas.line(&[(x - 9, y), (x + 9, y)], INK, Stroke::Solid(2))?;
            }
        }
    }
    Ok(())
}

fn draw_many(
    canvas: &Canvas<'_>,
    frame: &Frame,
    cells: &[&CellVerdict],
    (x, number): (i32, usize),
) -> DrawResult {
    let ink = LINES[number % LINES.len()];
    let (lowest, middle, highest) = spread(cells);
    canvas.whisker(x, (frame.y_of(lowest), frame.y_of(highest)), ink)?;
    canvas.marker((x, frame.y_of(middle)), number, ink)?;
    let mut slow: Vec<i32> = cells
        .iter()
        .filter(|cell| failed(cell))
        .filter_map(|cell| Some(frame.y_of(cell.wire_rate?.median.gb_per_s())))
        .collect();
    // The slowest first; those that would cover each other are one cross.
    slow.sort_unstable_by(|a, b| b.cmp(a));
    slow.dedup_by(|a, b| (*a - *b).abs() < 4);
    for y in slow.into_iter().take(MOST_CROSSES) {
        canvas.cross((x, y), FAULT)?;
    }
    Ok(())
}

/// Bus rates.
pub(super) fn draw_bus(canvas: &Canvas<'_>, frame: &Frame, line: &Line<'_>, number: usize) -> DrawResult {
    let ink = LINES[number % LINES.len()];
    let middle = |cells: &[&CellVerdict]| {
        let rates: Vec<f64> = cells
            .iter()
            .filter_map(|cell| Some(cell.bus_rate?.gb_per_s()))
            .collect();
        median(&rates)
    };
    let places: Vec<_> = line
        .sizes
        .iter()
        .filter_map(|(size, cells)| Some(frame.at(size.0.max(1) as f64, middle(cells)?)))
        .collect();
    canvas.line(&places, ink, Stroke::Solid(1))?;
    places
        .into_iter()
        .try_for_each(|place| canvas.marker(place, number, ink))
}

/// What peers reach at each size, where the test compares with peers.
pub(super) fn band(cells: &[&CellVerdict], recorded: &Recorded) -> Band {
    let Some(test) = cells.first().and_then(|cell| recorded.run.test_of(&cell.cell)) else {
        return Band::new();
    };
    let margin = test.references.iter().find_map(|reference| match reference {
        Reference::Peers { margin } => Some(*margin),
        _ => None,
    });
    let Some(margin) = margin else {
        return Band::new();
    };
    let mut groups = BTreeMap::new();
    for cell in cells {
        let group: &mut Vec<&CellVerdict> = groups.entry(cell.cell.peer_key()).or_default();
        group.push(cell);
    }
    let mut largest: BTreeMap<Bytes, Vec<&CellVerdict>> = BTreeMap::new();
    for group in groups.into_values().filter(|group| group.len() > 1) {
        let known = largest.entry(group[0].cell.size).or_default();
        if group.len() > known.len() {
            *known = group;
        }
    }
    let reached = |group: Vec<&CellVerdict>| {
        // What failed is compared with the others, and would make the band wider than what was accepted.
        let healthy: Vec<&CellVerdict> = group.iter().copied().filter(|cell| !failed(cell)).collect();
        let (_, middle, highest) = spread(if healthy.is_empty() { &group } else { &healthy });
        (middle * (1.0 - margin), highest)
    };
    largest
        .into_iter()
        .map(|(size, group)| (size, reached(group)))
        .collect()
}
