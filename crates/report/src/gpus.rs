//! What the sensors of GPUs said, for people.

use std::collections::BTreeMap;
use std::fmt::{Error, Write};

use super::escape::{line as inert_line, markdown as inert};
use super::table::{Entry, Table, Tone, figure, text};
use record::{Extremes, GpuSummary, Judgement};

/// What the table shows, in a sentence.
pub(super) const ABOUT: &str =
    "Sensor readings before, during and after cells. Clocks are from readings in which the GPU was busy.";

/// The section of `report.md`; how many GPUs there are.
pub(super) fn section(out: &mut String, judgement: &Judgement, most: usize) -> Result<usize, Error> {
    let gpus = &judgement.gpus;
    if gpus.is_empty() {
        return Ok(0);
    }
    writeln!(out, "## GPUs\n\n{ABOUT}\n")?;
    let shown: Vec<&GpuSummary> = gpus.iter().take(most).collect();
    table(&shown).markdown(out)?;
    for gpu in shown {
        for (number, (why, what)) in unavailable(gpu).into_iter().enumerate() {
            if number == 0 {
                writeln!(out, "\nNot available on {}:\n", inert(&gpu.uuid))?;
            }
            writeln!(out, "- {}: {}", inert(&what.join(", ")), inert(why))?;
        }
    }
    Ok(gpus.len())
}

/// What could not be read of a GPU: sensors that lack for the same reason are named together.
pub(super) fn unavailable(gpu: &GpuSummary) -> BTreeMap<&str, Vec<&str>> {
    let mut reasons: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (what, why) in &gpu.unavailable {
        reasons.entry(why).or_default().push(what);
    }
    reasons
}

/// What the sensors of these GPUs said.
pub(super) fn table(gpus: &[&GpuSummary]) -> Table {
    let columns = [
        text("GPU"),
        text("ranks"),
        figure("cells"),
        figure("SM MHz"),
        figure("memory MHz"),
        figure("C"),
        figure("memory C"),
        figure("W"),
        text("throttled by"),
        text("PCIe"),
        text("NVLinks"),
        text("errors"),
    ];
    let mut table = Table::new("GPUs", columns);
    for gpu in gpus {
        table.row(row(gpu));
    }
    table
}

fn row(gpu: &GpuSummary) -> Vec<Entry> {
    let ranks: Vec<String> = gpu.ranks.iter().map(u32::to_string).collect();
    let watts = |milliwatts: u32| milliwatts / 1000;
    let power = gpu.milliwatts.map(|power| Extremes {
        least: watts(power.least),
        most: watts(power.most),
    });
    let place: Vec<&str> = gpu.hosts.iter().chain([&gpu.uuid]).map(String::as_str).collect();
    let tone = |is_bad: bool| if is_bad { Tone::Bad } else { Tone::Plain };
    vec![
        Entry::from(place.join(", ")),
        Entry::ours(ranks.join(" ")),
        Entry::ours(gpu.cells),
        Entry::ours(of(gpu.sm_mhz, gpu.sm_mhz_limit)),
        Entry::ours(of(gpu.memory_mhz, gpu.memory_mhz_limit)),
        Entry::ours(of(gpu.celsius, gpu.celsius_limit)),
        Entry::ours(of(gpu.memory_celsius, None)),
        Entry::ours(of(power, gpu.milliwatts_limit.map(watts))),
        Entry::ours(held_down(gpu)).toned(tone(gpu.limited_by.keys().any(|limit| limit.is_trouble()))),
        Entry::ours(pcie(gpu)),
        Entry::ours(nvlinks(gpu)).toned(tone(!gpu.nvlinks_lost.is_empty())),
        Entry::from(errors(gpu)).toned(tone(has_errors(gpu))),
    ]
}

/// Whether a reader must see this GPU by itself: something of it is in trouble.
pub(super) fn is_notable(gpu: &GpuSummary) -> bool {
    has_errors(gpu) || !gpu.nvlinks_lost.is_empty() || gpu.limited_by.keys().any(|limit| limit.is_trouble())
}

fn has_errors(gpu: &GpuSummary) -> bool {
    gpu.counters.values().flatten().any(|moved| *moved > 0)
}

/// `990-1980 of 1980`.
pub(super) fn of(extremes: Option<Extremes>, limit: Option<u32>) -> String {
    let seen = match extremes {
        None => return "-".to_string(),
        Some(extremes) if extremes.least == extremes.most => extremes.most.to_string(),
        Some(extremes) => format!("{}-{}", extremes.least, extremes.most),
    };
    limit.map_or(seen.clone(), |limit| format!("{seen} of {limit}"))
}

/// What held its clocks down, in words.
pub(super) fn held_down(gpu: &GpuSummary) -> String {
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

/// Its PCIe link, and the best it could be.
pub(super) fn pcie(gpu: &GpuSummary) -> String {
    let link = |(generation, width): (u32, u32)| format!("gen {generation} x{width}");
    match (gpu.pcie, gpu.pcie_limit) {
        (None, _) => "-".to_string(),
        (Some(is), Some(can)) if is != can => format!("{} of {}", link(is), link(can)),
        (Some(is), _) => link(is),
    }
}

/// Its NVLinks up and down.
pub(super) fn nvlinks(gpu: &GpuSummary) -> String {
    match gpu.nvlinks {
        None => "-".to_string(),
        Some((up, 0)) => format!("{up} up"),
        Some((up, down)) => format!("{up} up, {down} down"),
    }
}

/// Error counters that moved.
pub(super) fn errors(gpu: &GpuSummary) -> String {
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
        return Some(format!("gpus       {} not monitored: {why}", gpus.len()));
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
        (0, true) => "clocks not throttled".to_string(),
        (0, false) => "not all clock limits readable".to_string(),
        (held, _) => format!("clocks of {held} throttled"),
    });
    Some(format!(
        "gpus       {} monitored: {}",
        gpus.len(),
        parts.join(", ")
    ))
}
