//! Error counters of a GPU that moved while it was measured, beyond what healthy hardware shows.
//!
//! The bounds are those in common use for GPUs in service (DCGM's health checks): any memory error that could not be
//! corrected, any NVLink replay or recovery, 100 NVLink checksum errors a second, more than 8 PCIe replays a minute.
//! What stays below is evidence for other findings and a line of the report.

use std::collections::BTreeMap;

use super::{Detector, Seen, gpus, phrase, repeat};
use crate::record::{Finding, FindingKind, GpuReading, Place, gpu_counters};
use crate::units::Nanos;

/// How many are too many.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Bound {
    /// Any.
    One,
    /// This many a second, and at least as many as that.
    PerSecond(f64),
    /// More than this many a minute, and more than that at all.
    PerMinute(f64),
}

const BOUNDS: &[(&str, Bound)] = &[
    (gpu_counters::ECC_UNCORRECTED, Bound::One),
    (gpu_counters::NVLINK_RECOVERIES, Bound::One),
    (gpu_counters::NVLINK_REPLAYS, Bound::One),
    (gpu_counters::NVLINK_CRC_DATA, Bound::PerSecond(100.0)),
    (gpu_counters::NVLINK_CRC_FLIT, Bound::PerSecond(100.0)),
    (gpu_counters::PCIE_REPLAYS, Bound::PerMinute(8.0)),
];

impl Bound {
    fn is_broken(self, moved: u64, watched: Nanos) -> bool {
        let (moved, seconds) = (moved as f64, watched.as_secs_f64());
        match self {
            Bound::One => moved >= 1.0,
            Bound::PerSecond(rate) => moved >= rate.max(rate * seconds),
            Bound::PerMinute(rate) => moved > rate.max(rate * seconds / 60.0),
        }
    }
}

/// One finding per GPU with too many errors, or with an NVLink that went down.
pub(super) struct GpuErrors;

impl Detector for GpuErrors {
    fn question(&self) -> &'static str {
        "Did a GPU's memory, PCIe link or NVLinks make errors while it was measured?"
    }

    fn find(&self, seen: &Seen<'_>) -> Vec<Finding> {
        let gpus = gpus::by_gpu(seen).into_iter();
        gpus.filter_map(|(uuid, readings)| one_gpu(seen, uuid, &readings))
            .collect()
    }
}

fn one_gpu(seen: &Seen<'_>, uuid: &str, readings: &[&GpuReading]) -> Option<Finding> {
    let gpu = gpus::summary(seen, uuid, readings);
    let watched = gpus::watched(seen, readings);
    let moved_by = |name: &str| gpu.counters.get(name).copied().flatten().unwrap_or(0);
    let broken: BTreeMap<&str, u64> = BOUNDS
        .iter()
        .map(|(name, bound)| (*name, moved_by(name), bound))
        .filter(|(_, moved, bound)| bound.is_broken(*moved, watched))
        .map(|(name, moved, _)| (name, moved))
        .collect();
    if broken.is_empty() && gpu.nvlinks_lost.is_empty() {
        return None;
    }
    let is_guilty = |reading: &&&GpuReading| {
        let counted = |(name, _): (&&str, &u64)| {
            let counter = reading.counters.get(*name);
            counter
                .and_then(|counter| counter.moved())
                .is_some_and(|by| by > 0)
        };
        let lost = reading
            .nvlinks
            .as_ref()
            .is_some_and(|links| !links.went_down().is_empty());
        lost || broken.iter().any(counted)
    };
    let mut cells: Vec<u32> = readings
        .iter()
        .filter(is_guilty)
        .map(|reading| reading.cell)
        .collect();
    cells.sort_unstable();
    cells.dedup();
    let mut parts: Vec<String> = Vec::new();
    if !gpu.nvlinks_lost.is_empty() {
        parts.push(format!("{} went down", gpus::links(&gpu.nvlinks_lost)));
    }
    parts.extend(broken.iter().map(|(name, moved)| format!("{name} +{moved}")));
    let memory_is_bad = broken.contains_key(gpu_counters::ECC_UNCORRECTED);
    let name = gpus::name(&gpu);
    Some(Finding {
        kind: FindingKind::GpuErrors,
        sentence: format!(
            "{name}: {} while it was measured for {watched}, in {} of {} cells",
            phrase::list(&parts),
            cells.len(),
            gpu.cells
        ),
        place: Place {
            hosts: gpu.hosts.clone(),
            ranks: gpu.ranks.clone(),
            rail: None,
            ..Place::default()
        },
        measured: None,
        expected: None,
        rule: "GPU errors: any uncorrected memory error, NVLink replay, recovery or loss; 100 NVLink checksum errors a \
               second; more than 8 PCIe replays a minute"
            .to_string(),
        confirmation: None,
        not_told_apart_from: match memory_is_bad {
            true => Vec::new(),
            false => vec!["the part at the other end of that link".to_string()],
        },
        evidence: gpus::evidence(seen, &gpu.ranks, &cells),
        next_step: match memory_is_bad {
            true => format!(
                "take {name} out of service: read its retired pages and remapped rows (nvidia-smi -q -d PAGE_RETIREMENT,\
                 ROW_REMAPPER), reset it, and replace it when errors come back"
            ),
            false => format!(
                "look at the links of {name} (nvidia-smi nvlink -e, nvidia-smi -q -d PCIE): seat, cable, riser, switch tray; \
                 then repeat"
            ),
        },
        cells,
        repeat: Some(repeat::command(seen.run(), &[])),
        suspects: Vec::new(),
        curve: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_replays_in_a_short_cell_are_no_rate() {
        let minute = Nanos::from_secs(60);
        let bound = Bound::PerMinute(8.0);
        assert!(!bound.is_broken(3, Nanos(1_000_000)));
        assert!(!bound.is_broken(8, minute));
        assert!(bound.is_broken(9, minute));
        assert!(!bound.is_broken(9, Nanos::from_secs(600)));
        assert!(bound.is_broken(81, Nanos::from_secs(600)));
        assert!(!Bound::PerSecond(100.0).is_broken(99, Nanos(1)));
        assert!(Bound::PerSecond(100.0).is_broken(200, Nanos::from_secs(2)));
        assert!(Bound::One.is_broken(1, minute) && !Bound::One.is_broken(0, Nanos(0)));
    }
}
