//! A GPU whose clocks were held down while it was measured.
//!
//! Heat, a power brake and hardware slowdowns are always a finding. A power cap, lower application clocks and sync
//! boost are settings: they are a finding only where a cell on that GPU is slow, and a line of the report otherwise.

use std::collections::{BTreeMap, BTreeSet};

use super::analysis::RunAnalysis;
use super::detector::Detector;
use super::gpus::{self, LEAST_READINGS, LEAST_SHARE, LimitActivity};
use super::repeat;
use super::speed::Speed;
use record::text;
use record::{ClockLimit, Finding, FindingKind, GpuReading, GpuSummary, Place};

/// One finding per GPU in trouble, and one per GPU whose settings explain slow cells.
pub(super) struct Throttled;

impl Detector for Throttled {
    fn question(&self) -> &'static str {
        "Were the clocks of a GPU held down while it was measured?"
    }

    fn find(&self, analysis: &RunAnalysis<'_>) -> Vec<Finding> {
        let slow = slow_cells(analysis);
        let mut findings = Vec::new();
        for (uuid, readings) in gpus::by_gpu(analysis) {
            let in_trouble = |limit: ClockLimit, _: u32| limit.is_trouble();
            let is_set_low = |limit: ClockLimit, cell: u32| !limit.is_trouble() && slow.contains(&cell);
            findings.extend(one_gpu(analysis, uuid, &readings, in_trouble));
            findings.extend(one_gpu(analysis, uuid, &readings, is_set_low));
        }
        findings
    }
}

/// Ids of cells that are slow.
fn slow_cells(analysis: &RunAnalysis<'_>) -> BTreeSet<u32> {
    let slow = analysis.speeds.iter().zip(&analysis.summaries);
    let slow = slow.filter(|(speed, _)| matches!(speed, Speed::Slow(_)));
    slow.map(|(_, summary)| summary.cell.id).collect()
}

fn one_gpu(
    analysis: &RunAnalysis<'_>,
    uuid: &str,
    readings: &[&GpuReading],
    counts: impl Fn(ClockLimit, u32) -> bool,
) -> Option<Finding> {
    let mut guilty: Vec<&GpuReading> = Vec::new();
    let mut worst: BTreeMap<ClockLimit, (LimitActivity, &GpuReading)> = BTreeMap::new();
    for reading in readings.iter().copied() {
        let limits = gpus::limits_of(reading).into_iter();
        let limits: Vec<_> = limits.filter(|(limit, _)| counts(*limit, reading.cell)).collect();
        if !limits.is_empty() {
            guilty.push(reading);
        }
        for (limit, held) in limits {
            let entry = worst.entry(limit).or_insert((held, reading));
            if held.share > entry.0.share {
                *entry = (held, reading);
            }
        }
    }
    // Most severe first, as the limits are ordered.
    let (gravest, (held, reading)) = worst.first_key_value()?;
    let (all, sum) = (
        gpus::summary(analysis, uuid, readings),
        gpus::summary(analysis, uuid, &guilty),
    );
    let names: Vec<String> = worst.keys().map(|limit| limit.words().to_string()).collect();
    let cells: BTreeSet<u32> = guilty.iter().map(|reading| reading.cell).collect();
    let cell = analysis.cell(reading.cell).map(|cell| cell.describe());
    let consequence = match gravest.is_trouble() {
        true => "rates measured there say nothing about the fabric",
        false => "these cells are slow",
    };
    let mut evidence: Vec<String> = worst
        .iter()
        .map(|(limit, (held, reading))| said(analysis, *limit, held, reading))
        .collect();
    evidence.extend(gpus::evidence(
        analysis,
        &all.ranks,
        &Vec::from_iter(cells.iter().copied()),
    ));
    let rank = reading.rank.to_string();
    let place = Place {
        hosts: all.hosts.clone(),
        ranks: all.ranks.clone(),
        rail: None,
        ..Place::default()
    };
    Some(
        Finding::new(FindingKind::Throttled, place)
        .with_sentence(format!(
            "{}: clocks held down by {} in {} of {} cells ({} of the time at worst, in {}){}; {consequence}",
            gpus::name(&all),
            text::list(&names),
            cells.len(),
            all.cells,
            text::percent((held.share * 100.0).round() / 100.0),
            cell.unwrap_or_else(|| format!("cell {}", reading.cell)),
            figures(&sum),
        ))
        .with_rule(format!(
            "throttled: the GPU reports a limit of its clocks for {} of a cell's \
             time, or in {LEAST_READINGS} readings; a power cap or clocks set lower \
             only where the cell is slow",
            text::percent(LEAST_SHARE)
        ))
        .with_evidence(evidence)
        .with_cells(cells)
        .with_next_step(next_step(*gravest, &all))
        .with_repeat(repeat::command(analysis.run(), &[("rank", &rank)])),
    )
}

/// `; SM clock down to 990 of 1980 MHz, up to 91 C (slows down from 87 C), up to 412 of 700 W`.
fn figures(gpu: &GpuSummary) -> String {
    let mut parts = Vec::new();
    if let (Some(clock), Some(limit)) = (gpu.sm_mhz, gpu.sm_mhz_limit) {
        parts.push(format!("SM clock down to {} of {limit} MHz", clock.least));
    }
    if let Some(heat) = gpu.celsius {
        let from = gpu.celsius_limit.map_or(String::new(), |limit| {
            format!(" (the hardware slows down from {limit} C)")
        });
        parts.push(format!("up to {} C{from}", heat.most));
    }
    if let (Some(power), Some(limit)) = (gpu.milliwatts, gpu.milliwatts_limit) {
        parts.push(format!("up to {} of {} W", power.most / 1000, limit / 1000));
    }
    match parts.is_empty() {
        true => String::new(),
        false => format!("; {}", parts.join(", ")),
    }
}

fn said(analysis: &RunAnalysis<'_>, limit: ClockLimit, held: &LimitActivity, reading: &GpuReading) -> String {
    let cell = analysis.cell(reading.cell);
    let cell = cell.map_or(format!("cell {}", reading.cell), |cell| cell.describe());
    let time = match held.time {
        Some(time) => format!("for {time} of {}", reading.elapsed_ns),
        None => "for a time that this GPU does not report".to_string(),
    };
    format!(
        "{}: {time}, in {} of {} readings, round {} of {cell}",
        limit.words(),
        held.readings,
        held.of,
        reading.round
    )
}

fn next_step(limit: ClockLimit, gpu: &GpuSummary) -> String {
    let name = gpus::name(gpu);
    match limit {
        ClockLimit::HardwareThermal | ClockLimit::SoftwareThermal => format!(
            "cool {name}: air flow or coolant, fans, dust, heat sink, inlet \
             temperature; then repeat before anything else is judged"
        ),
        ClockLimit::PowerBrake | ClockLimit::HardwareSlowdown => format!(
            "look at the power of {name}: supplies, cables, a power brake set by \
             the chassis or the rack; then at its cooling"
        ),
        ClockLimit::SoftwarePowerCap => format!(
            "compare the power limit of {name} with its neighbours' and its default \
             (nvidia-smi -q -d POWER); raise it, or expect less"
        ),
        ClockLimit::ApplicationClocks => {
            format!("reset the application clocks of {name} (nvidia-smi -rac, -rgc) and repeat")
        }
        _ => format!("find out what limits {name} (nvidia-smi -q -d PERFORMANCE) and repeat"),
    }
}
