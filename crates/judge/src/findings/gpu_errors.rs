//! Error counters of a GPU that moved while it was measured, beyond what the counter rules accept.
//!
//! What stays below is evidence for other findings and a line of the report.

use super::analysis::RunAnalysis;
use super::counters::breach::{BoundCheck, check_bound};
use super::detector::Detector;
use super::{gpus, repeat};
use record::counters::{CounterSource, of_source};
use record::text;
use record::{Finding, FindingKind, GpuReading, Place, Question, gpu_counters};
use topology::suite::counters::{Bound, CounterRule, Severity};

/// A counter that moved too much.
struct BrokenRule<'r> {
    rule: &'r CounterRule,
    counter: &'static str,
    moved: u64,
}

/// One finding per GPU with too many errors, or with an NVLink that went down.
pub(super) struct GpuErrors;

impl Detector for GpuErrors {
    fn question(&self) -> &'static str {
        "Did a GPU's memory, PCIe link or NVLinks have errors while it was measured?"
    }

    fn find(&self, analysis: &RunAnalysis<'_>) -> Vec<Finding> {
        let gpus = gpus::by_gpu(analysis);
        let counters = of_source(CounterSource::Gpu).count();
        let level = analysis.run().rule.budget_of(Question::Counters) / (gpus.len() * counters).max(1) as f64;
        gpus.into_iter()
            .filter_map(|(uuid, readings)| one_gpu(analysis, uuid, &readings, level))
            .collect()
    }
}

fn one_gpu(analysis: &RunAnalysis<'_>, uuid: &str, readings: &[&GpuReading], level: f64) -> Option<Finding> {
    let gpu = gpus::summary(analysis, uuid, readings);
    let watched = gpus::watched(analysis, readings);
    let bad = || {
        let rules = analysis.counter_rules.rules.iter();
        rules.filter(|rule| rule.severity == Severity::Bad)
    };
    let mut broken: Vec<BrokenRule<'_>> = Vec::new();
    for counter in of_source(CounterSource::Gpu).map(|counter| counter.name) {
        let moved = gpu.counters.get(counter).copied().flatten().unwrap_or(0);
        let is_broken = |rule: &&CounterRule| {
            // Replays come in bursts: a few in a short cell are not a rate.
            let is_burst = matches!(rule.bound, Bound::Rate { most, .. } if moved as f64 <= most);
            rule.is_about(counter)
                && !is_burst
                && matches!(
                    check_bound(rule.bound, moved, watched, |_| None, level),
                    BoundCheck::Broken(_)
                )
        };
        let rule = bad().find(is_broken);
        broken.extend(rule.map(|rule| BrokenRule { rule, counter, moved }));
    }
    if broken.is_empty() && gpu.nvlinks_lost.is_empty() {
        return None;
    }
    let is_guilty = |reading: &&&GpuReading| {
        let counted = |broken: &BrokenRule<'_>| {
            let counter = reading.counters.get(broken.counter);
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
    parts.extend(
        broken
            .iter()
            .map(|broken| format!("{} +{}", broken.counter, broken.moved)),
    );
    let memory_is_bad = broken
        .iter()
        .any(|broken| broken.counter == gpu_counters::ECC_UNCORRECTED);
    let mut rules: Vec<String> = broken
        .iter()
        .map(|BrokenRule { rule, .. }| format!("{} ({}): {}", rule.name, rule.bound, rule.source))
        .collect();
    rules.dedup();
    if !gpu.nvlinks_lost.is_empty() {
        rules.push("no NVLink may be down that was up before".to_string());
    }
    let mut actions: Vec<&str> = broken.iter().map(|broken| broken.rule.action.as_str()).collect();
    actions.dedup();
    if actions.is_empty() {
        actions.push("look at the GPU's NVLinks (nvidia-smi nvlink -s): seat, cable, switch tray");
    }
    let name = gpus::name(&gpu);
    let place = Place {
        hosts: gpu.hosts.clone(),
        ranks: gpu.ranks.clone(),
        rail: None,
        ..Place::default()
    };
    Some(
        Finding::new(FindingKind::GpuErrors, place)
            .with_sentence(format!(
                "{name}: {} while it was measured for {watched}, in {} of {} cells",
                text::list(&parts),
                cells.len(),
                gpu.cells
            ))
            .with_rule(format!("GPU errors: {}", rules.join("; ")))
            .ambiguous_with(match memory_is_bad {
                true => Vec::new(),
                false => vec!["the part at the other end of that link".to_string()],
            })
            .with_evidence(gpus::evidence(analysis, &gpu.ranks, &cells))
            .with_next_step(format!("{name}: {}; then repeat", actions.join("; ")))
            .with_cells(cells)
            .with_repeat(repeat::command(analysis.run(), &[])),
    )
}
