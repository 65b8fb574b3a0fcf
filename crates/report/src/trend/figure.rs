//! The course of a part over the runs: every run a dot, what is usual a band, a change marked where it began.

use std::io;

use super::rows::change_of;
use crate::figure::Figure;
use crate::figures::run_chart::{RunChart, drawing_of};
use record::{Quantity, Trend, Trends};

/// The figure of one part.
pub(super) fn figure(trends: &Trends, series: &Trend, number: usize) -> io::Result<Figure> {
    let change = change_of(trends, series);
    let scale = match series.quantity {
        Quantity::Bandwidth => 1e-9,
        Quantity::Latency | Quantity::Tail => 1e-3,
        Quantity::Temperature | Quantity::Clock => 1.0,
    };
    let measures = match series.quantity {
        Quantity::Bandwidth => "GB/s, wire rate",
        Quantity::Latency => "microseconds, round trip",
        Quantity::Tail => "microseconds, 99th percentile",
        Quantity::Temperature => "degrees Celsius, maximum",
        Quantity::Clock => "MHz under load",
    };
    let scaled = |value: f64| value * scale;
    let since = change.and_then(|change| trends.runs.iter().position(|run| run.name == change.since));
    let title = format!("{} {}: {}", series.kind.noun(), series.part, series.quantity);
    let chart = RunChart {
        values: series.values.iter().map(|value| value.map(scaled)).collect(),
        band: series.usual_band.map(|(low, high)| (scaled(low), scaled(high))),
        since,
        runs: trends
            .runs
            .iter()
            .map(|run| run.started.get(..10).unwrap_or(&run.name).to_string())
            .collect(),
        measures: measures.to_string(),
    };
    let usual = match series.usual_band {
        Some((low, high)) => format!(
            "Band: the range expected for 95 % of runs, {} to {}.",
            series.quantity.with_unit(low),
            series.quantity.with_unit(high)
        ),
        None => "Too few runs for a usual range.".to_string(),
    };
    let said = change.map_or_else(String::new, |change| format!(" {}.", change.sentence));
    let list: Vec<String> = trends
        .runs
        .iter()
        .zip(&series.values)
        .filter_map(|(run, value)| Some(format!("{} {}", run.name, series.quantity.with_unit((*value)?))))
        .collect();
    Ok(Figure {
        id: format!("course-{number}"),
        caption: format!("One dot per run, oldest on the left. {usual}{said}"),
        alternative: format!("{title}. {}.", list.join(", ")),
        svg: drawing_of(&chart, &title)?,
        title,
    })
}
