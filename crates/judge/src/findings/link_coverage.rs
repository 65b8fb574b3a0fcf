//! Which cables were exercised, at what load, and which never: what was not tested is listed, not passed.

use super::Seen;
use super::localise::Localisation;
use record::{LinkCoverage, LinkState, Untested};
use topology::graph::LinkId;

/// Every cable in each direction; nothing when the run was not told which cable is where.
pub(super) fn of(seen: &Seen<'_>) -> Vec<LinkCoverage> {
    let known = seen
        .localisation
        .as_ref()
        .filter(|known| !known.graph.is_inferred());
    let Some(known) = known else {
        return Vec::new();
    };
    known.graph.links().map(|(id, _)| one(known, id)).collect()
}

/// The untested ones in a few words: nobody reads a list of hundreds.
pub(super) fn untested(links: &[LinkCoverage]) -> Option<Untested> {
    let untested: Vec<&LinkCoverage> = links
        .iter()
        .filter(|link| link.state == LinkState::Untested)
        .collect();
    let first = untested.first()?;
    let whys: std::collections::BTreeSet<&str> =
        untested.iter().filter_map(|link| link.why.as_deref()).collect();
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

fn one(known: &Localisation, id: LinkId) -> LinkCoverage {
    let link = known.graph.link(id);
    let (most, flows) = known.load(id);
    let state = known.state(id);
    let why = (state == LinkState::Untested).then(|| match known.graph.idle_host(id) {
        Some(host) => format!("{host} takes no part in this run"),
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
        why,
    }
}
