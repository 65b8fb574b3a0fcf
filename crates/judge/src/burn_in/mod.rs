//! A burn-in: hours of load in cycles, each an ordinary run, and what is decided then: accept, reject or extend, for every node, cable and GPU.
//!
//! `folder` is where it is kept, `progress` how far it came, `status` what a watchdog sees, `condense` how it makes room, `catalog` which parts there
//! are to decide on.
//!
//! The decision is a pure function of what was recorded: what was asked, the journal, and the readings of every cycle. Findings of cycles become
//! issues (`issues`), attributed to as few parts as explain them (`attribution`, `degradations`, `losses`). An issue beyond the suite's criteria and beyond
//! chance is an incident that counts. A part of which too little was seen is never accepted.

mod absent_hosts;
#[cfg(test)]
mod absent_hosts_tests;
mod attribution;
mod catalog;
mod catalog_of_run;
mod common_drift;
mod condense;
mod cycle_store;
mod degradations;
mod describe;
mod exposure;
mod family;
#[cfg(any(test, feature = "fixtures"))]
pub mod fixture;
mod folder;
mod incidents;
mod interrupted_flows;
mod issues;
#[cfg(test)]
mod loss_tests;
mod losses;
#[cfg(test)]
mod losses_tests;
#[cfg(test)]
mod malformed_records_tests;
mod part_decisions;
mod probe_pool;
mod progress;
mod series;
#[cfg(test)]
mod simulation_tests;
mod status;
#[cfg(test)]
mod tests;
mod timeline;

use std::cmp::Reverse;

pub use catalog::{CatalogGpu, CatalogLink, PartCatalog};
pub use catalog_of_run::part_catalog;
pub use condense::{CellHistogram, Condensed, condense, size_of};
pub use cycle_store::CycleStore;
pub use folder::{BurnInFolder, FolderError, JournalFile};
pub use progress::BurnInProgress;
pub use status::{BurnInPhase, Status};

use attribution::DegradedPart;
use catalog::CatalogIndex;
use exposure::Exposure;
use incidents::incident;
use losses::Losses;
use part_decisions::{DecisionContext, DescribedIssue};
use record::text::{percent, plural};
use record::{
    BurnIn, Certificate, Criteria, Incident, JournalLine, Night, PartDecision, Ruling, SCHEMA, Untested,
    exit_code,
};
use timeline::Timeline;

/// The exit code of a decision that has to wait.
const EXTEND: u8 = exit_code::INCONCLUSIVE;
/// The exit code of a rejection, at least.
const REJECT: u8 = exit_code::SLOW;

/// Decides on everything that is known, by what was asked. `cycles` are the readings of cycles, named `cycle 1` and so on.
pub fn decide(asked: &BurnIn, journal: &[JournalLine], cycles: &[Night], known: &PartCatalog) -> Certificate {
    decide_on(asked, journal, &CycleStore::of(cycles), known)
}

/// The same, on what is kept of cycles.
pub fn decide_on(
    asked: &BurnIn,
    journal: &[JournalLine],
    store: &CycleStore,
    known: &PartCatalog,
) -> Certificate {
    let timeline = Timeline::of(journal, store);
    let index = CatalogIndex::of(known);
    let criteria = &asked.criteria;
    let exposure = Exposure::of(&timeline, &index, criteria.least_share.value);
    let unexplained = attribution::all(&timeline, &index, &[]);
    let (series, common) = series::all(&timeline, &index, &unexplained);
    let degradations = degradations::all(&series, &timeline, &index, criteria.drift.value);
    let losses = Losses::of(store, &index);
    let fell = degradations.iter().map(|degradation| DegradedPart {
        accused: degradation.accused.clone(),
        since: degradation.since(),
    });
    let lossy = losses.counting(criteria.lossy.value).map(|part| DegradedPart {
        accused: part.accused.clone(),
        since: part.lossy_cycles.0,
    });
    let worse: Vec<DegradedPart> = fell.chain(lossy).collect();
    let cycle_findings = attribution::all(&timeline, &index, &worse);
    let issues = issues::all(
        &cycle_findings,
        (&degradations, &losses),
        &timeline,
        &index,
        &exposure,
        criteria,
    );
    let described: Vec<DescribedIssue<'_, '_>> = issues
        .into_iter()
        .map(|issue| DescribedIssue {
            incident: incident(&issue, &timeline, &index),
            parts: issue.parts(&index),
            issue,
        })
        .collect();
    let context = DecisionContext {
        timeline: &timeline,
        known: &index,
        exposure: &exposure,
        criteria,
        series: &series,
        losses: &losses,
        described: &described,
    };
    let (links, gpus) = (context.links(), context.gpus());
    let nodes = context.nodes(&links, &gpus);
    let mut incidents: Vec<Incident> = described
        .into_iter()
        .map(|described| described.incident)
        .collect();
    incidents.extend(common_drift::incidents(&common, &timeline, criteria.drift.value));
    incidents.sort_by_key(|one| {
        (
            Reverse(one.counts),
            Reverse(exit_code::severity(one.kind.exit_code())),
            one.first.cycle,
        )
    });
    let ruling = overall(&incidents, [&nodes, &links, &gpus]);
    let (iterations, verified) = store.iterations();
    Certificate {
        schema: SCHEMA,
        version: record::VERSION.to_string(),
        suite: asked.suite.clone(),
        started: asked.started.clone(),
        ended_at: timeline.ended.as_ref().map(|(_, at)| at.clone()),
        ended: timeline.ended.as_ref().map(|(reason, _)| *reason),
        wanted_ns: asked.wanted_ns,
        load_ns: timeline.load,
        cycles: timeline.complete,
        resumed: timeline.resumed,
        iterations,
        verified,
        ruling,
        exit_code: code_of(ruling, &incidents),
        summary: summary(ruling, &timeline, &incidents, [&nodes, &links, &gpus]),
        criteria: criteria.clone(),
        incidents,
        nodes,
        links,
        gpus,
        untested: untested((&timeline, &losses), &index, &exposure, criteria),
    }
}

/// The worst of all parts; an incident that counts rejects the whole even where it names no single part. Nothing at all is not accepted.
fn overall(incidents: &[Incident], parts: [&Vec<PartDecision>; 3]) -> Ruling {
    if incidents.iter().any(|incident| incident.counts) {
        return Ruling::Reject;
    }
    let rulings = parts.into_iter().flatten().map(|decision| decision.ruling);
    rulings.max().unwrap_or(Ruling::Extend)
}

fn code_of(ruling: Ruling, incidents: &[Incident]) -> u8 {
    match ruling {
        Ruling::Accept => 0,
        Ruling::Extend => EXTEND,
        Ruling::Reject => {
            let counting = incidents.iter().filter(|incident| incident.counts);
            exit_code::worst(counting.map(|incident| incident.kind.exit_code()).chain([REJECT]))
        }
    }
}

fn summary(
    ruling: Ruling,
    timeline: &Timeline<'_>,
    incidents: &[Incident],
    parts: [&Vec<PartDecision>; 3],
) -> String {
    let loaded = format!(
        "{} under load in {} cycle{}",
        timeline.load.in_words(),
        timeline.complete,
        plural(timeline.complete as usize)
    );
    let count = |ruling: Ruling| {
        parts
            .into_iter()
            .flatten()
            .filter(|decision| decision.ruling == ruling)
            .count()
    };
    let counting = incidents.iter().filter(|incident| incident.counts).count();
    match ruling {
        Ruling::Accept => format!("accepted: {} parts, {loaded}", count(Ruling::Accept)),
        Ruling::Extend => format!(
            "not decided: {} of {} parts need more load; {loaded}",
            count(Ruling::Extend),
            parts.into_iter().map(Vec::len).sum::<usize>()
        ),
        Ruling::Reject => format!(
            "rejected: {counting} incident{}, {} part{} rejected, {} accepted, {} to be loaded again; {loaded}",
            plural(counting),
            count(Ruling::Reject),
            plural(count(Ruling::Reject)),
            count(Ruling::Accept),
            count(Ruling::Extend)
        ),
    }
}

/// What cycles say they did not measure, each once, and cables that they did not load; what only some cycles say tells so.
fn untested(
    (timeline, losses): (&Timeline<'_>, &Losses),
    known: &CatalogIndex<'_>,
    exposure: &Exposure,
    criteria: &Criteria,
) -> Vec<Untested> {
    let mut all: Vec<(Untested, usize)> = Vec::new();
    for cycle in &timeline.cycles {
        for one in cycle.said.untested() {
            match all.iter_mut().find(|(known, _)| *known == one) {
                Some((_, cycles)) => *cycles += 1,
                None => all.push((one, 1)),
            }
        }
    }
    let cycles = timeline.cycles.len();
    let untested = all.into_iter().map(|(one, seen)| Untested {
        what: one.what,
        why: match seen == cycles {
            true => one.why,
            false => format!("{} (in {seen} of {cycles} cycles)", one.why),
        },
    });
    let idle = known.known.links.iter().filter_map(|link| {
        // Of complete cycles, as the check on the cable itself.
        let (loaded, cycles) = (exposure.loaded(&link.name)?, exposure.all.len());
        let enough = loaded as f64 >= criteria.least_covered.value * cycles as f64;
        let because = exposure.why(&link.name).map(|why| format!(": {why}"));
        (!enough).then(|| Untested {
            what: format!("cable {}", link.name),
            why: format!(
                "carried {} of its rate in {loaded} of {cycles} cycles only{}",
                percent(criteria.least_share.value),
                because.unwrap_or_default()
            ),
        })
    });
    let too_many = (losses.left_out > 0).then(|| Untested {
        what: format!("losses of {} flows of probes over all cycles", losses.left_out),
        why: "more different flows are not kept".to_string(),
    });
    untested.chain(idle).chain(too_many).collect()
}
