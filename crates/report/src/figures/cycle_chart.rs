//! How a rejected part's figures moved over the cycles of a burn-in, beside those of its peers, with the step where one is.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use super::canvas::{Canvas, DrawResult, Stroke, TextLook, clip, drawing};
use super::frame::{Frame, Scale, numbers};
use super::palette::{FAULT, LINES, MUTED};
use crate::figure::Figure;
use record::stats::median;
use record::units::Rate;
use record::{BurnInTrend, Certificate, Night, PartDecision, PartKind, Quantity, Ruling};

/// The most parts that are drawn; the tables have them all.
const MOST_PARTS: usize = 12;
/// More cycles than this are drawn without a marker each.
const MOST_MARKERS: usize = 120;
const SIZE: (u32, u32) = (900, 300);

/// A figure over the cycles: number and value.
type CycleValues = Vec<(u32, f64)>;

/// A figure for every rejected part with a course, as far as an incident names it.
pub(crate) fn of_rejected(certificate: &Certificate, cycles: &[Night]) -> io::Result<Vec<Figure>> {
    let parts = certificate
        .links
        .iter()
        .chain(&certificate.gpus)
        .chain(&certificate.nodes);
    let mut figures = Vec::new();
    for part in parts.filter(|part| part.ruling == Ruling::Reject) {
        let named = certificate
            .incidents
            .iter()
            .filter(|incident| incident.part == part.part);
        let marked: BTreeSet<u32> = named
            .clone()
            .flat_map(|incident| &incident.cycles)
            .copied()
            .collect();
        let is_named = named.count() > 0;
        for course in &part.courses {
            let is_judged = matches!(course.quantity, Quantity::Bandwidth | Quantity::Clock);
            let is_told = is_named || course.step.is_some();
            if is_judged && is_told && figures.len() < MOST_PARTS {
                figures.extend(figure(part, course, &marked, cycles, figures.len())?);
            }
        }
    }
    Ok(figures)
}

fn figure(
    part: &PartDecision,
    course: &BurnInTrend,
    marked: &BTreeSet<u32>,
    cycles: &[Night],
    number: usize,
) -> io::Result<Option<Figure>> {
    let (own, peers) = lines(part, course.quantity, cycles);
    if own.len() < 2 {
        return Ok(None);
    }
    let quantity = course.quantity;
    let (name, unit) = match quantity {
        Quantity::Clock => ("clock", "MHz"),
        _ => ("bandwidth", "GB/s"),
    };
    let title = format!("{}: {name} per cycle", part.part);
    let svg = drawing(SIZE, &title, |canvas| {
        draw(canvas, &own, &peers, (course, marked), unit)
    })?;
    Ok(Some(Figure {
        id: format!("course-{number}"),
        caption: "Blue line with squares: the part. Grey dashes: median of its peers in the same cycle. A vertical line marks a step, a cross a cycle with an incident."
            .to_string(),
        alternative: words(part, course, own.len()),
        title,
        svg,
    }))
}

/// The part's own figures, and the median of all parts of its kind in every cycle.
fn lines(part: &PartDecision, quantity: Quantity, cycles: &[Night]) -> (CycleValues, CycleValues) {
    let mut own: BTreeMap<u32, f64> = BTreeMap::new();
    let mut peers: BTreeMap<u32, f64> = BTreeMap::new();
    let kind: PartKind = part.kind;
    for (at, night) in cycles.iter().enumerate() {
        let number = night
            .name
            .rsplit(' ')
            .next()
            .and_then(|number| number.parse().ok());
        let number: u32 = number.unwrap_or(u32::try_from(at).unwrap_or(u32::MAX).saturating_add(1));
        let of_kind = night.readings.parts.iter().filter(|reading| {
            reading.kind == kind
                && reading.quantity == quantity
                && reading.value.is_finite()
                && reading.value > 0.0
        });
        let mut others = Vec::new();
        for reading in of_kind {
            match reading.part == part.part {
                true => _ = own.insert(number, scaled(quantity, reading.value)),
                false => others.push(scaled(quantity, reading.value)),
            }
        }
        if let Some(median) = median(&others) {
            peers.insert(number, median);
        }
    }
    (own.into_iter().collect(), peers.into_iter().collect())
}

fn scaled(quantity: Quantity, value: f64) -> f64 {
    match quantity {
        Quantity::Bandwidth => Rate(value).gb_per_s(),
        _ => value,
    }
}

fn draw(
    canvas: &Canvas<'_>,
    own: &CycleValues,
    peers: &CycleValues,
    (course, marked): (&BurnInTrend, &BTreeSet<u32>),
    unit: &str,
) -> DrawResult {
    let all = || own.iter().chain(peers);
    let first = all()
        .map(|(cycle, _)| f64::from(*cycle))
        .fold(f64::INFINITY, f64::min);
    let last = all().map(|(cycle, _)| f64::from(*cycle)).fold(0.0, f64::max);
    let frame = Frame {
        left: 80,
        top: 60,
        right: 870,
        bottom: 245,
        x: Scale::linear(first - 0.5, last + 0.5),
        y: Scale::from_zero(all().map(|(_, value)| *value)),
    };
    frame.draw(canvas, &numbers(&frame.x, 12), &numbers(&frame.y, 5), unit)?;
    frame.name_x_axis(canvas, "cycle")?;
    let places = |line: &CycleValues| -> Vec<_> {
        line.iter()
            .map(|(cycle, value)| frame.at(f64::from(*cycle), *value))
            .collect()
    };
    canvas.line(&places(peers), MUTED, Stroke::Dashed(1))?;
    canvas.line(&places(own), LINES[0], Stroke::Solid(2))?;
    if own.len() <= MOST_MARKERS {
        for place in places(own) {
            canvas.marker(place, 0, LINES[0])?;
        }
    }
    // What lasts from a step on is marked by the step.
    let since = course.step.as_ref().map_or(u32::MAX, |(moment, _)| moment.cycle);
    for (cycle, value) in own
        .iter()
        .filter(|(cycle, _)| *cycle < since && marked.contains(cycle))
    {
        canvas.cross(frame.at(f64::from(*cycle), *value), FAULT)?;
    }
    if let Some((moment, by)) = &course.step {
        let x = frame.x_of(f64::from(moment.cycle) - 0.5);
        canvas.line(&[(x, frame.top), (x, frame.bottom)], FAULT, Stroke::Dashed(2))?;
        let label = format!("cycle {}: {:+.1} %", moment.cycle, by * 100.0);
        let look = if x > (frame.left + frame.right) / 2 {
            TextLook::RIGHT
        } else {
            TextLook::LEFT
        };
        let aside = if x > (frame.left + frame.right) / 2 { -6 } else { 6 };
        canvas.text(
            (x + aside, frame.top - 12),
            &clip(&label, 40),
            look.ink(FAULT).bold(),
        )?;
    }
    Ok(())
}

fn words(part: &PartDecision, course: &BurnInTrend, cycles: usize) -> String {
    let figure = |value: f64| match course.quantity {
        Quantity::Bandwidth => Rate(value).to_string(),
        _ => format!("{value:.0} MHz"),
    };
    let mut words = format!(
        "{} was measured in {cycles} cycles: {} in the first ones, {} in the last ones.",
        part.part,
        figure(course.at_first),
        figure(course.at_last)
    );
    if let Some((moment, by)) = &course.step {
        words.push_str(&format!(
            "\nIt changed by {:+.1} % in cycle {} ({}).",
            by * 100.0,
            moment.cycle,
            moment.at
        ));
    }
    if let Some((slope, lower, upper)) = course.slope_per_hour {
        words.push_str(&format!(
            "\nPer hour under load it changes by {:+.2} % [{:+.2} %, {:+.2} %].",
            slope * 100.0,
            lower * 100.0,
            upper * 100.0
        ));
    }
    words
}
