//! What the sensors of GPUs report about a run: which limits really held clocks down, what moved, and a summary per
//! GPU.
//!
//! A limit counts for a cell when the GPU itself counted it for a hundredth of the time, or when it was set in two
//! readings: one reading may catch a change of clocks, which the hardware briefly reports as a slowdown. Ranks that
//! share a GPU, and cells of one slot, see the same events: they are counted once.

use std::collections::{BTreeMap, BTreeSet};

use super::analysis::RunAnalysis;
use record::text;
use record::units::Nanos;
use record::{ClockLimit, Event, Extremes, GpuReading, GpuSummary};

/// Share of a cell's time; a limit that was active for less did not matter.
pub(super) const LEAST_SHARE: f64 = 0.01;
/// A limit in fewer readings was a change of clocks.
pub(super) const LEAST_READINGS: u32 = 2;

/// What a limit did to one cell.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct LimitActivity {
    /// Readings in which it was on.
    pub(super) readings: u32,
    /// Of how many.
    pub(super) of: u32,
    /// For how long, as the GPU counts it.
    pub(super) time: Option<Nanos>,
    /// Of the time of the cell, by the GPU's count or by readings.
    pub(super) share: f64,
}

/// The readings of a run by GPU, in the order they were taken.
pub(super) fn by_gpu<'a>(analysis: &RunAnalysis<'a>) -> BTreeMap<&'a str, Vec<&'a GpuReading>> {
    let mut gpus: BTreeMap<&str, Vec<&GpuReading>> = BTreeMap::new();
    for event in &analysis.recorded.events {
        if let Event::Gpu(reading) = event {
            gpus.entry(&reading.uuid).or_default().push(reading);
        }
    }
    gpus
}

/// The limits that held clocks down in this cell, being idle not among them.
pub(super) fn limits_of(reading: &GpuReading) -> BTreeMap<ClockLimit, LimitActivity> {
    let (during, after) = (&reading.during, reading.after.limited_by.as_deref());
    let of = during.readings + u32::from(after.is_some());
    let known = during.limited_by.keys().chain(after.unwrap_or_default());
    let limits: BTreeSet<ClockLimit> = known.chain(reading.held_ns.keys()).copied().collect();
    let held = |limit: ClockLimit| {
        let at_the_end = after.is_some_and(|limits| limits.contains(&limit));
        let readings = during.limited_by.get(&limit).unwrap_or(&0) + u32::from(at_the_end);
        let time = reading.held_ns.get(&limit).copied();
        let counted = |time: Nanos| time.0 as f64 / reading.elapsed_ns.0.max(1) as f64;
        let by_readings = f64::from(readings) / f64::from(of.max(1));
        // A count that stands still while the limit shows in reading after reading is not maintained by this GPU.
        let share = match time.map(counted) {
            Some(counted) if readings < LEAST_READINGS => counted,
            Some(counted) => counted.max(by_readings),
            None => by_readings,
        };
        LimitActivity {
            readings,
            of,
            time,
            share: share.min(1.0),
        }
    };
    let counts = |held: &LimitActivity| {
        held.readings >= LEAST_READINGS
            || held.time.is_some_and(|time| time.0 > 0) && held.share >= LEAST_SHARE
    };
    let limits = limits.into_iter().filter(|limit| limit.is_limit());
    limits
        .map(|limit| (limit, held(limit)))
        .filter(|(_, held)| counts(held))
        .collect()
}

/// By how much each counter moved over these readings; none where that is unknown.
pub(super) fn moved(analysis: &RunAnalysis<'_>, readings: &[&GpuReading]) -> BTreeMap<String, Option<u64>> {
    // By slot and round: all ranks that read it then saw the same errors.
    let mut largest: BTreeMap<(&str, u32, u16), Option<u64>> = BTreeMap::new();
    for reading in readings {
        let slot = analysis.index.slot(reading.cell);
        for (name, counter) in &reading.counters {
            let entry = largest.entry((name, slot, reading.round)).or_default();
            *entry = counter.moved().max(*entry);
        }
    }
    let mut sums: BTreeMap<String, Option<u64>> = BTreeMap::new();
    for ((name, ..), moved) in largest {
        let sum = sums.entry(name.to_string()).or_default();
        *sum = match (*sum, moved) {
            (Some(sum), Some(moved)) => Some(sum.saturating_add(moved)),
            (known, None) | (None, known) => known,
        };
    }
    sums
}

/// How long a GPU was watched: each slot and round once.
pub(super) fn watched(analysis: &RunAnalysis<'_>, readings: &[&GpuReading]) -> Nanos {
    let mut longest: BTreeMap<(u32, u16), u64> = BTreeMap::new();
    for reading in readings {
        let slot = analysis.index.slot(reading.cell);
        let entry = longest.entry((slot, reading.round)).or_default();
        *entry = reading.elapsed_ns.0.max(*entry);
    }
    Nanos(
        longest
            .values()
            .fold(0, |sum: u64, time| sum.saturating_add(*time)),
    )
}

/// One summary per GPU.
pub(super) fn summaries(analysis: &RunAnalysis<'_>) -> Vec<GpuSummary> {
    let gpus = by_gpu(analysis);
    gpus.into_iter()
        .map(|(uuid, readings)| summary(analysis, uuid, &readings))
        .collect()
}

pub(super) fn summary(analysis: &RunAnalysis<'_>, uuid: &str, readings: &[&GpuReading]) -> GpuSummary {
    let ranks: BTreeSet<u32> = readings.iter().map(|reading| reading.rank).collect();
    let ranks: Vec<u32> = ranks.into_iter().collect();
    let cells: BTreeSet<u32> = readings.iter().map(|reading| reading.cell).collect();
    let mut sum = GpuSummary {
        uuid: uuid.to_string(),
        hosts: analysis.hosts(&ranks),
        ranks,
        cells: cells.len() as u32,
        counters: moved(analysis, readings),
        ..GpuSummary::default()
    };
    for reading in readings {
        let (during, limits) = (&reading.during, &reading.limits);
        sum.readings = sum.readings.saturating_add(during.readings);
        for (all, one) in [
            (&mut sum.sm_mhz, during.sm_mhz),
            (&mut sum.memory_mhz, during.memory_mhz),
            (&mut sum.celsius, during.celsius),
            (&mut sum.memory_celsius, during.memory_celsius),
            (&mut sum.milliwatts, during.milliwatts),
        ] {
            *all = Extremes::join(*all, one);
        }
        // Temperature outlasts the load a little: short cells get a value too.
        sum.celsius = Extremes::with(sum.celsius, reading.after.celsius);
        sum.memory_celsius = Extremes::with(sum.memory_celsius, reading.after.memory_celsius);
        for (all, one) in [
            (&mut sum.sm_mhz_limit, limits.sm_mhz),
            (&mut sum.memory_mhz_limit, limits.memory_mhz),
            (&mut sum.celsius_limit, limits.celsius),
            (&mut sum.milliwatts_limit, limits.milliwatts),
        ] {
            *all = one.or(*all);
        }
        let best = |a: Option<u32>, b: Option<u32>, c: Option<u32>| a.max(b).max(c);
        let (first, last) = (&reading.before, &reading.after);
        let generation = best(
            during.pcie_generation,
            first.pcie_generation,
            last.pcie_generation,
        );
        let width = best(during.pcie_width, first.pcie_width, last.pcie_width);
        sum.pcie = sum.pcie.max(generation.zip(width));
        sum.pcie_limit = limits.pcie_generation.zip(limits.pcie_width).or(sum.pcie_limit);
        if let Some(links) = &reading.nvlinks {
            sum.nvlinks = Some((links.up_after.len() as u32, links.down_after.len() as u32));
            sum.nvlinks_lost.extend(links.went_down());
        }
        sum.unavailable.extend(reading.unavailable.clone());
    }
    sum.nvlinks_lost.sort_unstable();
    sum.nvlinks_lost.dedup();
    held_down(analysis, readings, &mut sum);
    sum
}

fn held_down(analysis: &RunAnalysis<'_>, readings: &[&GpuReading], sum: &mut GpuSummary) {
    let mut cells: BTreeMap<ClockLimit, BTreeSet<u32>> = BTreeMap::new();
    let mut times: BTreeMap<(ClockLimit, u32, u16), u64> = BTreeMap::new();
    for reading in readings {
        let slot = analysis.index.slot(reading.cell);
        for (limit, held) in limits_of(reading) {
            cells.entry(limit).or_default().insert(reading.cell);
            if let Some(time) = held.time {
                let longest = times.entry((limit, slot, reading.round)).or_default();
                *longest = time.0.max(*longest);
            }
        }
    }
    for (limit, cells) in cells {
        sum.limited_by.entry(limit).or_default().cells = cells.len() as u32;
    }
    for ((limit, ..), time) in times {
        let held = sum.limited_by.entry(limit).or_default();
        held.held_ns = Some(held.held_ns.unwrap_or_default() + Nanos(time));
    }
}

/// What the GPUs of `ranks` report about `cells`: limits, lanes, errors. Empty when they were not watched.
pub(super) fn evidence(analysis: &RunAnalysis<'_>, ranks: &[u32], cells: &[u32]) -> Vec<String> {
    let mut lines = Vec::new();
    for (uuid, mut readings) in by_gpu(analysis) {
        readings.retain(|reading| ranks.contains(&reading.rank) && cells.contains(&reading.cell));
        if readings.is_empty() {
            continue;
        }
        let sum = summary(analysis, uuid, &readings);
        let name = name(&sum);
        for (limit, held) in &sum.limited_by {
            lines.push(format!(
                "{name}: {} in {} of these cells",
                limit.words(),
                held.cells
            ));
        }
        if let (Some(is), Some(can)) = (sum.pcie, sum.pcie_limit)
            && is < can
        {
            lines.push(format!("{name}: {}", lanes(is, can)));
        }
        for (counter, moved) in &sum.counters {
            if let Some(moved) = moved.filter(|moved| *moved > 0) {
                lines.push(format!("{name}: {counter} +{moved}"));
            }
        }
        if !sum.nvlinks_lost.is_empty() {
            lines.push(format!("{name}: {} went down", links(&sum.nvlinks_lost)));
        }
    }
    lines
}

/// `the GPU of ranks 0 and 1 (node01, GPU-8c4f...)`.
pub(super) fn name(gpu: &GpuSummary) -> String {
    let place: Vec<&str> = gpu.hosts.iter().chain([&gpu.uuid]).map(String::as_str).collect();
    format!("the GPU of {} ({})", text::ranks(&gpu.ranks), place.join(", "))
}

/// `NVLink 3`, `NVLinks 3 and 4`.
pub(super) fn links(numbers: &[u32]) -> String {
    let names: Vec<String> = numbers.iter().map(u32::to_string).collect();
    format!("NVLink{} {}", text::plural(numbers.len()), text::list(&names))
}

fn lanes(is: (u32, u32), can: (u32, u32)) -> String {
    format!(
        "PCIe generation {} x{} where generation {} x{} is possible",
        is.0, is.1, can.0, can.1
    )
}
