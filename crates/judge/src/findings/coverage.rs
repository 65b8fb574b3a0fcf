//! What was measured of what was planned, and what was not, with the reason: cells, and cables in each direction with their load.

use std::collections::BTreeSet;

use super::analysis::RunAnalysis;
use super::localise::Localisation;
use record::{Coverage, LinkCoverage, LinkState, ProbeSummary, Untested};
use topology::graph::LinkId;

/// The coverage of a run. What the plan left out, and what could not be judged, is listed as untested.
pub(super) fn of(analysis: &RunAnalysis<'_>, probes: &[ProbeSummary]) -> Coverage {
    let recorded = analysis.recorded;
    let mut untested = recorded.run.untested.clone();
    untested.extend(analysis.stragglers.unjudged.iter().cloned());
    let links = links(analysis);
    untested.extend(untested_links(&links));
    untested.extend(analysis.shapes.unjudged.iter().cloned());
    untested.extend(analysis.ecmp.unjudged.clone());
    untested.extend(super::packet_loss::summary::unjudged(probes));
    Coverage {
        planned: analysis.summaries.len() as u32,
        measured: analysis.summaries.iter().filter(|summary| summary.done).count() as u32,
        not_measured: analysis
            .summaries
            .iter()
            .filter(|summary| !summary.done)
            .map(|summary| Untested {
                what: summary.cell.describe(),
                why: summary.why_not_measured(recorded),
            })
            .collect(),
        untested,
        links,
    }
}

/// Every cable in each direction; empty when the run has no topology.
fn links(analysis: &RunAnalysis<'_>) -> Vec<LinkCoverage> {
    let known = analysis
        .localisation
        .as_ref()
        .filter(|known| !known.graph.is_inferred());
    let Some(known) = known else {
        return Vec::new();
    };
    let losses = known.smallest_losses(analysis.recorded, &analysis.summaries, &analysis.speeds);
    known
        .graph
        .links()
        .map(|(id, _)| one_link(known, id, losses[id.index()]))
        .collect()
}

/// The untested links in one line: a list of hundreds helps no reader.
fn untested_links(links: &[LinkCoverage]) -> Option<Untested> {
    let untested: Vec<&LinkCoverage> = links
        .iter()
        .filter(|link| link.state == LinkState::Untested)
        .collect();
    let first = untested.first()?;
    let whys: BTreeSet<&str> = untested.iter().filter_map(|link| link.why.as_deref()).collect();
    Some(Untested {
        what: format!(
            "{} of {} directed links, such as {}",
            untested.len(),
            links.len(),
            first.link
        ),
        why: whys.into_iter().collect::<Vec<_>>().join("; "),
    })
}

fn one_link(known: &Localisation, id: LinkId, smallest_loss: Option<f64>) -> LinkCoverage {
    let link = known.graph.link(id);
    let (most, flows) = known.load(id);
    let state = known.state(id);
    let why = (state == LinkState::Untested).then(|| match known.graph.host_without_ranks(id) {
        Some(host) => format!("{host} is not part of this run"),
        None => "no flow is known to have crossed it".to_string(),
    });
    LinkCoverage {
        link: known.graph.name(id),
        cable: link.cable.clone(),
        rail: link.rail.clone(),
        rate: link.rate,
        flows,
        most,
        share: most
            .filter(|_| link.rate.0 > 0.0)
            .map(|most| most.0 / link.rate.0),
        state,
        smallest_loss,
        why,
    }
}
