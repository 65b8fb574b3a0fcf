//! A row of figures over runs: dots, a band of what is usual, an upright line where a change began.
//!
//! Readable without colour: runs since the change are crosses instead of dots, and the line is dashed.

use std::io;

use super::canvas::{Stroke, TextLook, clip, drawing};
use super::frame::{self, Frame, Scale, Tick};
use super::palette::{EDGE, FAULT, INK, PALE};

const SIZE: (u32, u32) = (960, 300);
/// Most dates below.
const MOST_DATES: usize = 8;

/// What is drawn.
#[derive(Debug, Clone)]
pub(crate) struct RunChart {
    /// The figure of every run, none where there is none.
    pub(crate) values: Vec<Option<f64>>,
    /// Between which figures most runs are expected.
    pub(crate) band: Option<(f64, f64)>,
    /// The run a change began with.
    pub(crate) since: Option<usize>,
    /// What the runs are called.
    pub(crate) runs: Vec<String>,
    /// What the figures are.
    pub(crate) measures: String,
}

/// The drawing.
pub(crate) fn drawing_of(chart: &RunChart, title: &str) -> io::Result<String> {
    let known = chart.values.iter().flatten().copied();
    let all = known.chain(chart.band.into_iter().flat_map(|(low, high)| [low, high]));
    let (low, high) = all
        .filter(|value| value.is_finite())
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
            (low.min(value), high.max(value))
        });
    let room = ((high - low) * 0.1).max(high.abs() * 0.01);
    let last = chart.values.len().saturating_sub(1).max(1) as f64;
    let frame = Frame {
        left: 84,
        top: 62,
        right: 936,
        bottom: 248,
        x: Scale::linear(-0.5, last + 0.5),
        y: Scale::linear(low - room, high + room),
    };
    let step = chart.runs.len().div_ceil(MOST_DATES).max(1);
    let dates: Vec<Tick> = chart
        .runs
        .iter()
        .enumerate()
        .step_by(step)
        .map(|(at, name)| (at as f64, clip(name, 14)))
        .collect();
    drawing(SIZE, title, |canvas| {
        if let Some((low, high)) = chart.band {
            canvas.fill_rect(
                [(frame.left, frame.y_of(high)), (frame.right, frame.y_of(low))],
                PALE,
            )?;
        }
        frame.draw(canvas, &dates, &frame::numbers(&frame.y, 5), &chart.measures)?;
        if let Some(since) = chart.since {
            let x = frame.x_of(since as f64 - 0.5);
            canvas.line(&[(x, frame.top), (x, frame.bottom)], FAULT, Stroke::Dashed(2))?;
            let (x, look) = if x > frame.right - 120 {
                (x - 6, TextLook::RIGHT)
            } else {
                (x + 6, TextLook::LEFT)
            };
            canvas.text((x, frame.top + 8), "change", look)?;
        }
        for (at, value) in chart.values.iter().enumerate() {
            let Some(value) = value else { continue };
            let place = frame.at(at as f64, *value);
            match chart.since.is_some_and(|since| at >= since) {
                true => canvas.cross(place, FAULT)?,
                false => canvas.dot(place, EDGE)?,
            }
        }
        canvas.line(
            &[(frame.left, frame.bottom), (frame.right, frame.bottom)],
            INK,
            Stroke::Solid(1),
        )
    })
}
