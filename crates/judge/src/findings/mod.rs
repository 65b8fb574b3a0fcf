//! Judging a recorded run: pure functions from what was recorded to verdicts and findings.
//!
//! How a verdict is reached: samples become one `summary` per cell. Each cell's wire rate is compared with what its
//! test expects (`speed`), and each rank's own work with that of the others (`busy`, `straggling_ranks`). Flows are
//! explained by as few parts as possible (`localise`), and every slow cell is assigned to the part that explains it
//! (`blame`). Streams are judged by how they are spread (`ecmp`). All of this is a `RunAnalysis`. The detectors turn
//! it into findings, and `verdict` draws the conclusion for cells, tests and the run.
//!
//! Invariants: no part is accused on one measurement; nothing unmeasured is healthy; no record, however malformed,
//! causes a panic; the same record gives the same judgement.

mod analysis;
mod blame;
mod busy;
mod congestion;
mod corruption;
mod counters;
mod coverage;
mod detector;
pub mod drift;
mod ecmp;
mod engines;
mod fairness;
mod flap;
mod gpu_errors;
mod gpus;
mod held_up;
mod incomplete_coverage;
mod interference;
mod interruption;
pub(crate) mod iterations;
mod localise;
mod lost_rank;
mod miscabled;
mod packet_loss;
mod peers;
mod port_errors;
pub mod power;
pub(crate) mod repeat;
mod run_index;
mod settings;
mod shapes;
mod silence;
mod silent_rail;
mod slow_cells;
mod slow_collective;
mod slow_engine;
mod slow_latency;
mod slow_link;
mod slow_pair;
mod slow_rail;
mod speed;
mod start_skew;
mod straggler;
mod straggling_ranks;
pub(crate) mod summary;
mod throttled;
mod traffic;
mod under_load;
mod unused_cable;
pub(crate) mod variation;
mod verdict;
pub(crate) mod wire;

#[cfg(any(test, feature = "fixtures"))]
pub mod fixture;
#[cfg(test)]
mod tests;

pub use analysis::RunAnalysis;
pub use detector::Detector;
pub use localise::{Cause, Element, Localisation};
pub(crate) use packet_loss::{
    FlowOfCycles, LossOverCycles, Outcome, parts_that_lose, percent as small_percent, probe_readings,
};
pub use packet_loss::{LossCause, OpenProbes};

use std::collections::BTreeSet;

use record::{Event, Finding, Judgement, Recorded, SCHEMA, exit_code};

/// All detectors. A new one is a file and a line here.
pub const DETECTORS: &[&dyn Detector] = &[
    &corruption::Corruption,
    &lost_rank::LostRank,
    &silent_rail::SilentRail,
    &incomplete_coverage::IncompleteCoverage,
    &miscabled::Miscabled,
    &unused_cable::UnusedCable,
    &ecmp::EcmpImbalance,
    &slow_link::SlowLink,
    &packet_loss::LossyLink,
    &packet_loss::SlowHop,
    &fairness::UnfairSender,
    &under_load::CongestionFault,
    &traffic::BadTraffic,
    &slow_rail::SlowRail,
    &slow_pair::SlowPair,
    &slow_collective::SlowCollective,
    &slow_engine::SlowEngine,
    &slow_latency::SlowLatency,
    &straggler::Straggler,
    &flap::Flap,
    &shapes::ShapeFault,
    &throttled::Throttled,
    &gpu_errors::GpuErrors,
    &drift::FirmwareDrift,
    &port_errors::PortErrors,
];

/// Everything that can be said about a recorded run.
pub fn judge(recorded: &Recorded) -> Judgement {
    let analysis = RunAnalysis::of(recorded);
    let mut findings: Vec<Finding> = DETECTORS
        .iter()
        .flat_map(|detector| detector.find(&analysis))
        .collect();
    port_errors::join(&mut findings);
    engines::note_where_both_are_slow(&analysis, &mut findings);
    add_gpu_evidence(&analysis, &mut findings);
    let drift = drift::of_run(&analysis);
    if let Some(drift) = drift {
        drift::explain_slow(&analysis, drift, &mut findings);
    }
    settings::add(&analysis, &mut findings);
    findings.sort_by_key(|finding| {
        (
            std::cmp::Reverse(exit_code::severity(finding.kind.exit_code())),
            finding.kind,
        )
    });
    let cells = verdict::of_cells(&analysis);
    let tests = verdict::of_tests(&analysis, &cells);
    let run = verdict::of_run(&analysis, &findings, &tests);
    let probes = packet_loss::summary::of(&analysis);
    let fair_shares = analysis.fairness.summaries(recorded);
    Judgement {
        schema: SCHEMA,
        version: record::VERSION.to_string(),
        suite: recorded.run.suite.clone(),
        started: recorded.run.started.clone(),
        ended: recorded.events.iter().rev().find_map(|event| match event {
            Event::End { reason, .. } => Some(*reason),
            _ => None,
        }),
        verdict: run.verdict,
        exit_code: run.exit_code,
        summary: run.summary,
        rule: recorded.run.rule.clone(),
        findings,
        tests,
        cells,
        interference: interference::of(&analysis),
        congestion: congestion::of(&analysis),
        under_load: analysis.under_load().rows.clone(),
        traffic: analysis.traffic.rows.clone(),
        ecmp: analysis.ecmp.verdicts.clone(),
        drift: drift.cloned(),
        counters: counters::summary::of(&analysis),
        engines: engines::side_by_side(&analysis),
        coverage: coverage::of(&analysis, &probes),
        probes,
        fair_shares,
        gpus: gpus::summaries(&analysis),
        placement: recorded.run.placement.clone(),
        injected: recorded.run.injected.clone(),
    }
}

/// Slow cells and wrong data may be caused by a GPU: what its sensors reported is added as evidence.
fn add_gpu_evidence(analysis: &RunAnalysis<'_>, findings: &mut [Finding]) {
    use record::FindingKind::{GpuErrors, IncompleteCoverage, Throttled};
    let others = |finding: &&mut Finding| !matches!(finding.kind, Throttled | GpuErrors | IncompleteCoverage);
    for finding in findings.iter_mut().filter(others) {
        let said = gpus::evidence(analysis, &finding.place.ranks, &finding.cells);
        finding.evidence.extend(said);
    }
}

/// What the flows of a run so far say about the parts they crossed; none without flows between hosts.
pub fn localise(recorded: &Recorded) -> Option<Localisation> {
    RunAnalysis::of(recorded).localisation
}

/// What is open about lost packets in a run so far.
#[derive(Debug, Clone, Default)]
pub struct LostPackets {
    /// Parts that lose packets, as far as it is known.
    pub causes: Vec<LossCause>,
    /// Places in the plan of cells that lost some, where it is open why.
    pub places: Vec<usize>,
}

/// What is open about lost packets in a run so far.
pub fn lost_packets(recorded: &Recorded) -> LostPackets {
    match packet_loss::is_any_lost(recorded) {
        true => {
            let losses = RunAnalysis::of(recorded).packet_loss;
            LostPackets {
                causes: losses.causes,
                places: losses.suspected.into_iter().collect(),
            }
        }
        false => LostPackets::default(),
    }
}

/// Names of the links that could explain what is open about probes of a run so far, the likeliest first.
pub fn open_links(recorded: &Recorded) -> Vec<String> {
    let analysis = RunAnalysis::of(recorded);
    let mut names: Vec<String> = Vec::new();
    for name in analysis
        .packet_loss
        .open_links()
        .chain(analysis.stalls.open_links())
    {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// What is open about probes of a run so far, question by question.
pub fn open_probes(recorded: &Recorded) -> OpenProbes {
    let analysis = RunAnalysis::of(recorded);
    OpenProbes::of([&analysis.packet_loss, &analysis.stalls])
}

/// What a run must continue without after a loss.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Losses {
    /// Hosts that were lost.
    pub hosts: BTreeSet<String>,
    /// Hosts, each with a rail that is silent at its end.
    pub rails: BTreeSet<(String, String)>,
}

/// What was lost so far, as far as the record shows.
pub fn losses(recorded: &Recorded) -> Losses {
    let host_of = |rank: u32| recorded.run.ranks.iter().find(|record| record.rank == rank);
    let lost = recorded.events.iter().filter_map(|event| match event {
        Event::Lost(lost) => host_of(lost.rank).map(|record| record.host.clone()),
        _ => None,
    });
    let silent = silence::silent_rails(recorded).into_iter();
    Losses {
        hosts: lost.collect(),
        rails: silent
            .flat_map(|silent| {
                silent
                    .hosts
                    .into_iter()
                    .map(move |host| (host, silent.rail.clone()))
            })
            .collect(),
    }
}

/// Ids of the cells that look slow so far, in which a rank seems to keep the others waiting, or whose streams are spread as
/// no fair hash would, and that were not measured often enough to accuse a part, or to rule out that they were disturbed every time.
///
/// The runner measures them again before it asks anew, together with their peers where the peers are the reference.
pub fn suspects(recorded: &Recorded) -> Vec<u32> {
    let analysis = RunAnalysis::of(recorded);
    let wanted = usize::from(recorded.run.rule.remeasure) + 1;
    // In adaptive tests, parts are measured again instead of cells.
    let is_adaptive = |index: usize| {
        let test = recorded.run.test_of(analysis.summaries[index].cell);
        test.is_some_and(|test| test.adaptive)
    };
    let most_rounds = 1 + usize::from(recorded.run.rule.most_rounds_again());
    let lost_and_open = |index: usize| {
        let rounds = analysis.summaries[index].rounds.len();
        let suspected = [&analysis.packet_loss, &analysis.stalls].map(|open| open.suspected.contains(&index));
        suspected.contains(&true) && rounds < most_rounds
    };
    let open_under_load = |index: usize| {
        let summary = &analysis.summaries[index];
        analysis.under_load().suspected.contains(&summary.cell.id) && summary.rounds.len() < most_rounds
    };
    let unfair_and_open = analysis.fairness.suspected(recorded);
    let is_suspect = |index: &usize| {
        if is_adaptive(*index) {
            return false;
        }
        let speed = &analysis.speeds[*index];
        let looks_slow = speed.looks_slow() && analysis.summaries[*index].rounds.len() < wanted;
        looks_slow
            || speed.may_be_disturbed(&recorded.run.rule)
            || analysis.stragglers.suspected.contains(index)
            || lost_and_open(*index)
            || open_under_load(*index)
            || unfair_and_open.contains(&analysis.summaries[*index].cell.id)
            || analysis.shapes.suspected.contains(index)
            || analysis
                .ecmp
                .suspected
                .contains(&analysis.summaries[*index].cell.id)
            || analysis
                .traffic
                .suspected
                .contains(&analysis.summaries[*index].cell.id)
    };
    (0..analysis.summaries.len())
        .filter(is_suspect)
        .map(|index| analysis.summaries[index].cell.id)
        .collect()
}
