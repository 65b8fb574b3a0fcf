//! How long it takes to judge streams across 64 leaves and 32 spines, and whether the p-values are what they claim to be.
//!
//! `cargo bench --bench ecmp`: judging, healthy and with one fault of each kind. The aim is 2 s; the last line says whether it is met.
//!
//! `cargo bench --bench ecmp -- calibrate [SVG] [DOC]`: many healthy fabrics; how often a p-value lies below 0.01, 0.05 and so on, as a
//! table, as a picture (SVG), and in DOC between its marks.
//!
//! `cargo bench --bench ecmp -- choosers [FABRICS]`: whether polarised fabrics of 64, 1,024 and 4,096 choosers are found, and how many of
//! FABRICS (1,000) healthy ones of 1,024 choosers are measured again, and accused.

use std::collections::BTreeMap;
use std::time::Instant;

use judge::findings::{judge, suspects};
use plan::twin::ecmp::{EcmpFault, StreamFabric, first_round, measured_again, streams};
use plotters::prelude::*;
use rayon::prelude::*;
use record::{EcmpCause, Judgement};

const SECONDS: f64 = 2.0;
const HEALTHY: u64 = 1000;
/// Choosers of polarised fabrics, and of healthy ones.
const POLARISED: [u32; 3] = [64, 1024, 4096];
const CHOOSERS: u32 = 1024;
/// P-values without which a line says nothing.
const FEWEST: usize = 100;
const LEVELS: [f64; 4] = [0.01, 0.05, 0.1, 0.5];
const BEGIN: &str = "<!-- calibration: written by cargo bench --bench ecmp -- calibrate -->";
const END: &str = "<!-- end of calibration -->";

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    // Cargo passes --bench along.
    let words: Vec<String> = std::env::args()
        .skip(1)
        .filter(|word| word != "--bench")
        .collect();
    match words.first().map(String::as_str) {
        Some("calibrate") => calibrate(words.get(1), words.get(2)),
        Some("choosers") => count_choosers(words.get(1)),
        _ => time(),
    }
}

fn time() -> Result<(), Failure> {
    let link = "rail0-leaf5/u7->rail0-spine7/d5".to_string();
    let faults = [
        ("healthy", None, None),
        (
            "addresses only",
            Some(EcmpFault::AddressesOnly),
            Some(EcmpCause::Polarised),
        ),
        (
            "weights 3:1",
            Some(EcmpFault::Weights {
                switch: "rail0-leaf5".to_string(),
                weights: (0..32).map(|uplink| if uplink < 16 { 3 } else { 1 }).collect(),
            }),
            Some(EcmpCause::UnequalWeights),
        ),
        (
            "dead",
            Some(EcmpFault::Dead { link: link.clone() }),
            Some(EcmpCause::DeadMember),
        ),
        (
            "slow",
            Some(EcmpFault::Slow { link, left: 0.5 }),
            Some(EcmpCause::SlowMember),
        ),
        ("one port", Some(EcmpFault::OnePort), Some(EcmpCause::NoEntropy)),
        (
            "adaptive",
            Some(EcmpFault::Adaptive),
            Some(EcmpCause::AdaptiveRouting),
        ),
    ];
    let fabric = StreamFabric::new(64, 32, 1, 8);
    let mut longest: f64 = 0.0;
    for (name, fault, wanted) in faults {
        let recorded = streams(&fabric, fault.as_slice(), 1);
        let count: usize = recorded
            .run
            .cells
            .iter()
            .map(|cell| usize::from(cell.flows))
            .sum();
        let started = Instant::now();
        let judgement = judge(&recorded);
        let took = started.elapsed().as_secs_f64();
        longest = longest.max(took);
        println!(
            "{name:<16} {count} streams, judged in {took:.3} s: {}",
            said(&judgement, wanted)
        );
    }
    let is_met = longest < SECONDS;
    println!(
        "{}: 64 leaves x 32 spines, 512 hosts, longest {longest:.3} s of {SECONDS} s",
        if is_met { "OK" } else { "MISSED" }
    );
    Ok(())
}

/// Causes and how often they were given; whether the wanted one is there.
fn said(judgement: &Judgement, wanted: Option<EcmpCause>) -> String {
    let mut causes: BTreeMap<String, usize> = BTreeMap::new();
    for verdict in &judgement.ecmp {
        *causes.entry(verdict.cause.to_string()).or_default() += 1;
    }
    let is_there = match wanted {
        Some(cause) => judgement.ecmp.iter().any(|verdict| verdict.cause == cause),
        None => judgement.ecmp.iter().all(|verdict| !verdict.cause.is_fault()),
    };
    let list: Vec<String> = causes
        .iter()
        .map(|(cause, count)| format!("{count} {cause}"))
        .collect();
    format!("{}{}", list.join(", "), if is_there { "" } else { " (WRONG)" })
}

/// As many leaves, each with a choice among four spines for 32 streams of its host.
fn of_choosers(leaves: u32) -> StreamFabric {
    StreamFabric {
        flows: vec![16],
        sets: 2,
        ..StreamFabric::new(leaves, 4, 1, 1)
    }
}

/// Whether every leaf of polarised fabrics is named, and how many healthy fabrics are accused.
fn count_choosers(fabrics: Option<&String>) -> Result<(), Failure> {
    for leaves in POLARISED {
        let started = Instant::now();
        let judgement = judge(&streams(&of_choosers(leaves), &[EcmpFault::AddressesOnly], 1));
        let named = judgement.ecmp.iter().filter(|verdict| verdict.cause.is_fault());
        let rounds = judgement
            .findings
            .iter()
            .filter_map(|finding| finding.confirmation.as_ref());
        println!(
            "polarised, {leaves} choosers: {} named in {} rounds, exit code {}, {:.1} s",
            named.count(),
            rounds.map(|sure| sure.rounds).min().unwrap_or(0),
            judgement.exit_code,
            started.elapsed().as_secs_f64()
        );
    }
    let wanted: u64 = fabrics.map_or(Ok(HEALTHY), |text| text.parse())?;
    let started = Instant::now();
    let fabric = of_choosers(CHOOSERS);
    let (mut again, mut accused) = (0, 0);
    for seed in 1..=wanted {
        let first = first_round(&fabric, &[], seed);
        if !suspects(&first).is_empty() {
            again += 1;
            let judgement = judge(&measured_again(first, &fabric, &[]));
            accused += u64::from(!judgement.findings.is_empty());
            println!("seed {seed}: {}", judgement.summary);
        }
        if seed % 50 == 0 || seed == wanted {
            println!(
                "{seed} healthy fabrics of {CHOOSERS} choosers: {again} measured again, {accused} accused, {:.0} s",
                started.elapsed().as_secs_f64()
            );
        }
    }
    Ok(())
}

/// The p-values of one statistic in healthy fabrics.
struct Line {
    name: String,
    values: Vec<f64>,
}

impl Line {
    fn share_below(&self, level: f64) -> f64 {
        let below = self.values.partition_point(|value| *value <= level);
        below as f64 / self.values.len() as f64
    }

    /// The largest distance from the line of a uniform distribution, and the largest on the side where p-values are too small.
    fn distances(&self) -> (f64, f64) {
        let count = self.values.len() as f64;
        let (mut both, mut too_small) = (0.0f64, 0.0f64);
        for (place, value) in self.values.iter().enumerate() {
            let above = (place + 1) as f64 / count - value;
            both = both.max(above).max(value - place as f64 / count);
            too_small = too_small.max(above);
        }
        (both, too_small)
    }
}

fn calibrate(svg: Option<&String>, doc: Option<&String>) -> Result<(), Failure> {
    let fabric = StreamFabric {
        flows: vec![32],
        ..StreamFabric::new(8, 4, 2, 2)
    };
    let started = Instant::now();
    let judged: Vec<(bool, Vec<(String, f64)>)> = (1..=HEALTHY)
        .into_par_iter()
        .map(|seed| {
            let judgement = judge(&streams(&fabric, &[], seed));
            let is_accused = judgement.ecmp.iter().any(|verdict| verdict.cause.is_fault());
            let verdicts = judgement.ecmp.into_iter();
            let values = verdicts
                .map(|verdict| {
                    (
                        format!("tier {}: {}", verdict.tier, verdict.statistic),
                        verdict.p_value,
                    )
                })
                .collect();
            (is_accused, values)
        })
        .collect();
    let accused = judged.iter().filter(|(is_accused, _)| *is_accused).count();
    let mut by_name: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for (name, value) in judged.into_iter().flat_map(|(_, values)| values) {
        by_name.entry(name).or_default().push(value);
    }
    let lines: Vec<Line> = by_name
        .into_iter()
        // Another statistic decides only where something is accused: those are counted, not drawn.
        .filter(|(_, values)| values.len() >= FEWEST)
        .map(|(name, mut values)| {
            values.sort_by(f64::total_cmp);
            Line { name, values }
        })
        .collect();
    let mut text = String::from(
        "| statistic | p-values | <= 0.01 | <= 0.05 | <= 0.1 | <= 0.5 | distance from uniform | of that too small | 1 % bound |\n|---|---|---|---|---|---|---|---|---|\n",
    );
    for line in &lines {
        let shares = LEVELS.map(|level| format!("{:.4}", line.share_below(level)));
        let (both, too_small) = line.distances();
        let bound = 1.63 / (line.values.len() as f64).sqrt();
        text += &format!(
            "| {} | {} | {} | {both:.4} | {too_small:.4} | {bound:.4} |\n",
            line.name,
            line.values.len(),
            shares.join(" | "),
        );
    }
    text += &format!(
        "\n{accused} of {HEALTHY} healthy fabrics were accused of anything; the false-positive budget of 0.01 allows 10.\n"
    );
    println!(
        "{text}\n{HEALTHY} healthy fabrics in {:.0} s",
        started.elapsed().as_secs_f64()
    );
    if let Some(path) = svg {
        draw(path, &lines)?;
    }
    if let Some(path) = doc {
        let whole = std::fs::read_to_string(path)?;
        let (before, rest) = whole.split_once(BEGIN).ok_or("the file has no marks")?;
        let (_, after) = rest.split_once(END).ok_or("the file has no second mark")?;
        std::fs::write(path, format!("{before}{BEGIN}\n\n{text}\n{END}{after}"))?;
    }
    Ok(())
}

/// How many p-values lie below each value: a diagonal when they are what they claim to be.
fn draw(path: &str, lines: &[Line]) -> Result<(), Failure> {
    const COLORS: [RGBColor; 4] = [
        RGBColor(0, 90, 160),
        RGBColor(190, 60, 0),
        RGBColor(0, 120, 80),
        RGBColor(130, 0, 130),
    ];
    let area = SVGBackend::new(path, (640, 560)).into_drawing_area();
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&area)
        .caption("p-values of healthy fabrics", ("sans-serif", 20))
        .margin(14)
        .margin_right(36)
        .x_label_area_size(46)
        .y_label_area_size(56)
        .build_cartesian_2d(0.0..1.0, 0.0..1.0)?;
    chart
        .configure_mesh()
        .light_line_style(WHITE)
        .x_desc("p-value")
        .y_desc("share of p-values at or below")
        .draw()?;
    chart
        .draw_series(LineSeries::new([(0.0, 0.0), (1.0, 1.0)], BLACK.mix(0.4)))?
        .label("uniform")
        .legend(|(x, y)| PathElement::new([(x, y), (x + 18, y)], BLACK.mix(0.4)));
    for (line, color) in lines.iter().zip(COLORS.into_iter().cycle()) {
        let points = (0..=200).map(|step| f64::from(step) / 200.0);
        let points = points.map(|level| (level, line.share_below(level)));
        chart
            .draw_series(LineSeries::new(points, color.stroke_width(2)))?
            .label(format!("{} ({})", line.name, line.values.len()))
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], color.stroke_width(2)));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::LowerRight)
        .background_style(WHITE.mix(0.85))
        .border_style(BLACK.mix(0.4))
        .draw()?;
    area.present()?;
    Ok(())
}
