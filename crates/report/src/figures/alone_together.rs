//! What a rail carries alone and together with all others, one row per test and rail at the largest message.
//!
//! Readable without colour: a filled triangle is alone, a hollow diamond together, the line between them is what is lost; the
//! ratio is beside it. Where several measurements share a row, their medians are drawn and the lowest ratio is written.

use std::collections::{BTreeMap, HashMap};
use std::io;

use super::canvas::{Stroke, TextLook, clip, drawing};
use super::frame::{self, Frame, Scale};
use super::palette::{EDGE, FAULT, INK, LINES, MUTED};
use crate::figure::{Figure, FigureKind};
use record::stats::median;
use record::text::{counted, whole_percent};
use record::units::{Bytes, Rate};
use record::{Interference, Judgement, Recorded};

/// Most rows; those that lose most come first.
const MOST_ROWS: usize = 40;
/// From this ratio on downwards a row is marked.
const MUCH: f64 = 0.9;
const ROW: i32 = 24;
const WIDTH: i32 = 960;

/// The picture of rails alone and together.
pub(super) struct AloneTogether;

/// One test on one rail, at its largest message.
struct Row<'a> {
    test: &'a str,
    rail: &'a str,
    size: Bytes,
    alone: f64,
    together: f64,
    lowest: f64,
    measurements: usize,
}

impl FigureKind for AloneTogether {
    fn figures(&self, _: &Recorded, judgement: &Judgement) -> io::Result<Vec<Figure>> {
        let mut rows = rows(judgement);
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        let alternative = in_words(&rows);
        let all = rows.len();
        let losing = rows.iter().filter(|row| row.lowest < MUCH).count();
        rows.truncate(MOST_ROWS);
        let left_out = match all - rows.len() {
            0 => String::new(),
            more => format!(" {more} more rails that lose less are not drawn."),
        };
        let title = "Each rail alone and together with the others".to_string();
        Ok(vec![Figure {
            id: "alone-together".to_string(),
            svg: drawn(&rows, &title)?,
            caption: format!(
                "Wire rate at the largest message of each test; the number is the rate together divided by the rate alone. {} of {} below {} of the rate alone, marked with an exclamation mark: these rails share a bottleneck.{left_out}",
                losing,
                counted(all, "row"),
                whole_percent(MUCH)
            ),
            title,
            alternative,
        }])
    }
}

fn rows(judgement: &Judgement) -> Vec<Row<'_>> {
    let sizes: HashMap<u32, Bytes> = judgement
        .cells
        .iter()
        .map(|cell| (cell.cell.id, cell.cell.size))
        .collect();
    let mut groups: BTreeMap<(&str, &str), BTreeMap<Bytes, Vec<&Interference>>> = BTreeMap::new();
    for one in &judgement.interference {
        let size = sizes.get(&one.alone_cell).copied().unwrap_or_default();
        let of_rail = groups.entry((&one.test, &one.rail)).or_default();
        of_rail.entry(size).or_default().push(one);
    }
    let mut rows: Vec<Row<'_>> = groups
        .into_iter()
        .filter_map(|((test, rail), mut by_size)| {
            let (size, group) = by_size.pop_last()?;
            let middle = |of: fn(&Interference) -> f64| {
                let values: Vec<f64> = group.iter().map(|one| of(one)).collect();
                median(&values)
            };
            let ratios = group
                .iter()
                .map(|one| one.ratio)
                .filter(|ratio| ratio.is_finite());
            Some(Row {
                test,
                rail,
                size,
                alone: middle(|one| one.alone.median.0)?,
                together: middle(|one| one.together.median.0)?,
                lowest: ratios.reduce(f64::min)?,
                measurements: group.len(),
            })
        })
        .collect();
    rows.sort_by(|a, b| {
        a.lowest
            .total_cmp(&b.lowest)
            .then((a.test, a.rail).cmp(&(b.test, b.rail)))
    });
    rows
}

fn drawn(rows: &[Row<'_>], title: &str) -> io::Result<String> {
    let top = 66;
    let bottom = top + ROW * rows.len() as i32;
    let rates = rows.iter().flat_map(|row| [row.alone, row.together]);
    let frame = Frame {
        left: 300,
        top,
        right: WIDTH - 170,
        bottom,
        x: Scale::from_zero(rates.map(|rate| Rate(rate).gb_per_s())),
        y: Scale::linear(0.0, 1.0),
    };
    drawing((WIDTH as u32, (bottom + 76) as u32), title, |canvas| {
        frame.draw(canvas, &frame::numbers(&frame.x, 8), &[], "")?;
        frame.name_x_axis(canvas, "wire rate (GB/s)")?;
        canvas.text((WIDTH - 150, top - 14), "together / alone", TextLook::NOTE)?;
        for (number, row) in rows.iter().enumerate() {
            let y = top + ROW * number as i32 + ROW / 2;
            let [alone, together] = [row.alone, row.together].map(|rate| frame.x_of(Rate(rate).gb_per_s()));
            let label = format!("{}, {}, {}", clip(row.rail, 16), clip(row.test, 16), row.size);
            canvas.text((frame.left - 12, y), &label, TextLook::RIGHT)?;
            let is_much = row.lowest < MUCH;
            let (ink, width) = if is_much { (FAULT, 3) } else { (EDGE, 1) };
            canvas.line(&[(alone, y), (together, y)], ink, Stroke::Solid(width))?;
            // The hollow one first: it would hide the other where both reach the same.
            canvas.marker((together, y), 6, LINES[1])?;
            canvas.marker((alone, y), 3, LINES[0])?;
            let lowest = match row.measurements {
                1 => String::new(),
                many => format!(" (lowest {:.2} of {many})", row.lowest),
            };
            let mark = if is_much { "! " } else { "" };
            let look = if is_much {
                TextLook::LEFT.bold()
            } else {
                TextLook::LEFT
            };
            let ratio = format!("{mark}{:.2}{lowest}", row.together / row.alone);
            canvas.text((WIDTH - 156, y), &ratio, look)?;
        }
        let y = bottom + 58;
        canvas.marker((24, y), 3, LINES[0])?;
        canvas.text((38, y), "alone", TextLook::LEFT)?;
        canvas.marker((104, y), 6, LINES[1])?;
        canvas.text((118, y), "together with the other rails", TextLook::LEFT)?;
        canvas.text((320, y), "!", TextLook::LEFT.ink(INK).bold())?;
        let note = format!("less than {} of the rate alone", whole_percent(MUCH));
        canvas.text((332, y), &note, TextLook::LEFT.ink(MUTED))
    })
}

fn in_words(rows: &[Row<'_>]) -> String {
    let row = |row: &Row<'_>| {
        let mark = if row.lowest < MUCH { "loses much: " } else { "" };
        let lowest = match row.measurements {
            1 => String::new(),
            many => format!(", lowest {:.2} of {many} measurements", row.lowest),
        };
        format!(
            "{mark}{} in test {} at {}: {} alone, {} together, ratio {:.2}{lowest}",
            row.rail,
            row.test,
            row.size,
            Rate(row.alone),
            Rate(row.together),
            row.together / row.alone
        )
    };
    rows.iter().map(row).collect::<Vec<_>>().join("; ")
}
