//! What the sensors of GPUs said, for people.

use std::collections::BTreeMap;
use std::fmt::{Error, Write};

use super::escape::{line as inert_line, markdown as inert};
use crate::record::{Extremes, GpuSummary, Judgement};

/// The section of `report.md`; how many GPUs there are.
pub(super) fn section(out: &mut String, judgement: &Judgement, most: usize) -> Result<usize, Error> {
    let gpus = &judgement.gpus;
    if gpus.is_empty() {
        return Ok(0);
    }
    writeln!(out, "## GPUs\n")?;
    writeln!(
        out,
        "What their sensors said around and during cells. Clocks are those of readings in which the GPU was not idle.\n"
    )?;
    writeln!(
        out,
        "| GPU | ranks | cells | SM MHz | memory MHz | C | memory C | W | held down by | PCIe | NVLinks | errors |\n\
         |---|---|--:|--:|--:|--:|--:|--:|---|---|---|---|"
    )?;
    for gpu in gpus.iter().take(most) {
        row(out, gpu)?;
    }
    for gpu in gpus.iter().take(most) {
        // Sensors that lack for the same reason are named together.
        let mut reasons: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (what, why) in &gpu.unavailable {
            reasons.entry(why).or_default().push(what);
        }
        for (number, (why, what)) in reasons.into_iter().enumerate() {
            if number == 0 {
                writeln!(out, "\nNot available on {}:\n", inert(&gpu.uuid))?;
            }
            writeln!(out, "- {}: {}", inert(&what.join(", ")), inert(why))?;
        }
    }
    Ok(gpus.len())
}

fn row(out: &mut String, gpu: &GpuSummary) -> Result<(), Error> {
    let ranks: Vec<String> = gpu.ranks.iter().map(u32::to_string).collect();
    let watts = |milliwatts: u32| milliwatts / 1000;
    let power = gpu.milliwatts.map(|power| Extremes {
        least: watts(power.least),
        most: watts(power.most),
    });
    let place: Vec<&str> = gpu.hosts.iter().chain([&gpu.uuid]).map(String::as_str).collect();
    writeln!(
        out,
        "| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
        inert(&place.join(", ")),
        ranks.join(" "),
        gpu.cells,
        of(gpu.sm_mhz, gpu.sm_mhz_limit),
        of(gpu.memory_mhz, gpu.memory_mhz_limit),
        of(gpu.celsius, gpu.celsius_limit),
        of(gpu.memory_celsius, None),
        of(power, gpu.milliwatts_limit.map(watts)),
        held_down(gpu),
        pcie(gpu),
        nvlinks(gpu),
        inert(&errors(gpu)),
    )
}

/// `990-1980 of 1980`.
fn of(extremes: Option<Extremes>, limit: Option<u32>) -> String {
    let seen = match extremes {
        None => return "-".to_string(),
        Some(extremes) if extremes.least == extremes.most => extremes.most.to_string(),
        Some(extremes) => format!("{}-{}", extremes.least, extremes.most),
    };
    limit.map_or(seen.clone(), |limit| format!("{seen} of {limit}"))
}

fn held_down(gpu: &GpuSummary) -> String {
    let limits: Vec<String> = gpu
        .limited_by
        .iter()
        .map(|(limit, held)| {
            let time = held.held_ns.map_or(String::new(), |time| format!(", {time}"));
            format!("{} ({} cells{time})", limit.words(), held.cells)
        })
        .collect();
    match (limits.is_empty(), has_limits(gpu)) {
        (false, _) => limits.join("; "),
        (true, true) => "nothing".to_string(),
        (true, false) => "unknown".to_string(),
    }
}

/// Whether it could be seen at all what held its clocks down.
fn has_limits(gpu: &GpuSummary) -> bool {
    let blind = ["all sensors", "what limits the clocks"];
    gpu.cells > 0 && !blind.iter().any(|sensor| gpu.unavailable.contains_key(*sensor))
}

fn pcie(gpu: &GpuSummary) -> String {
    let link = |(generation, width): (u32, u32)| format!("gen {generation} x{width}");
    match (gpu.pcie, gpu.pcie_limit) {
        (None, _) => "-".to_string(),
        (Some(is), Some(can)) if is != can => format!("{} of {}", link(is), link(can)),
        (Some(is), _) => link(is),
    }
}

fn nvlinks(gpu: &GpuSummary) -> String {
    match gpu.nvlinks {
        None => "-".to_string(),
        Some((up, 0)) => format!("{up} up"),
        Some((up, down)) => format!("{up} up, {down} down"),
    }
}

fn errors(gpu: &GpuSummary) -> String {
    if gpu.counters.is_empty() {
        return "unknown".to_string();
    }
    let moved = gpu.counters.iter().filter_map(|(name, moved)| match moved {
        Some(0) => None,
        Some(moved) => Some(format!("{name} +{moved}")),
        None => Some(format!("{name} unknown")),
    });
    match moved.collect::<Vec<_>>() {
        none if none.is_empty() => "none".to_string(),
        some => some.join(", "),
    }
}

/// A line for the terminal; none when no GPU was watched.
pub(super) fn summary(judgement: &Judgement) -> Option<String> {
    let gpus = &judgement.gpus;
    let first = gpus.first()?;
    if gpus.iter().all(|gpu| gpu.unavailable.contains_key("all sensors")) {
        let why = inert_line(&first.unavailable["all sensors"]);
        return Some(format!("gpus       {} not watched: {why}", gpus.len()));
    }
    let join = |of: fn(&GpuSummary) -> Option<Extremes>| gpus.iter().map(of).fold(None, Extremes::join);
    let mut parts = Vec::new();
    if let Some(clock) = join(|gpu| gpu.sm_mhz) {
        parts.push(format!("SM {} MHz", of(Some(clock), first.sm_mhz_limit)));
    }
    parts.extend(join(|gpu| gpu.celsius).map(|heat| format!("up to {} C", heat.most)));
    parts.extend(join(|gpu| gpu.milliwatts).map(|power| format!("{} W", power.most / 1000)));
    let held = gpus.iter().filter(|gpu| !gpu.limited_by.is_empty()).count();
    parts.push(match (held, gpus.iter().all(has_limits)) {
        (0, true) => "clocks not held down".to_string(),
        (0, false) => "limits of clocks not all readable".to_string(),
        (held, _) => format!("clocks of {held} held down"),
    });
    Some(format!("gpus       {} watched: {}", gpus.len(), parts.join(", ")))
}
