//! What there is to decide on, from the record of a cycle.

use std::collections::{BTreeMap, BTreeSet};

use super::catalog::{CatalogGpu, CatalogLink, PartCatalog};
use record::{Cell, LinkCoverage, LinkName, RailEndName, Run};

/// The hosts, cables, GPUs and flows of a run; `links` is what its judgement says of cables.
pub fn part_catalog(run: &Run, links: &[LinkCoverage]) -> PartCatalog {
    let hosts: BTreeSet<&str> = run.hosts.iter().map(|host| host.name.as_str()).collect();
    let mut gpus: BTreeMap<&str, CatalogGpu> = BTreeMap::new();
    for record in &run.ranks {
        if let Some(gpu) = &record.gpu {
            let known = gpus.entry(&gpu.uuid).or_insert_with(|| CatalogGpu {
                name: gpu.uuid.clone(),
                host: record.host.clone(),
                ranks: Vec::new(),
            });
            known.ranks.push(record.rank);
        }
    }
    let ends: Vec<Option<(&str, &str)>> = links.iter().map(|link| nodes_of(&link.link)).collect();
    // Switches that hosts are plugged into: away from them is up.
    let leaves: BTreeSet<&str> = ends
        .iter()
        .flatten()
        .filter_map(|(from, to)| match (hosts.contains(from), hosts.contains(to)) {
            (true, false) => Some(*to),
            (false, true) => Some(*from),
            _ => None,
        })
        .collect();
    let link = |(coverage, ends): (&LinkCoverage, &Option<(&str, &str)>)| {
        let (from, to) = ends.unwrap_or(("", ""));
        let host = [from, to].into_iter().find(|node| hosts.contains(node));
        let away = match host {
            Some(host) => host == from,
            None => leaves.contains(from) && !leaves.contains(to),
        };
        CatalogLink {
            name: coverage.link.clone(),
            cable: coverage.cable.clone(),
            rail: coverage.rail.clone(),
            host: host.map(str::to_string),
            away,
        }
    };
    PartCatalog {
        hosts: run.hosts.iter().map(|host| host.name.clone()).collect(),
        links: links.iter().zip(&ends).map(link).collect(),
        gpus: gpus.into_values().collect(),
        flows: flows(run, !links.is_empty()),
    }
}

/// The nodes at both ends of `h2/rail1->leaf1/p0`.
fn nodes_of(link: &str) -> Option<(&str, &str)> {
    let mut nodes = LinkName::nodes_of(link);
    nodes.next().zip(nodes.next())
}

/// What the flows between two ranks cross, each way once.
fn flows(run: &Run, are_links_known: bool) -> Vec<Vec<String>> {
    let host = |rank: &u32| run.ranks.iter().find(|record| record.rank == *rank);
    let crossed = |cell: &Cell| -> Option<Vec<String>> {
        let ([from, to], [rail]) = (cell.ranks.as_slice(), cell.rails.as_slice()) else {
            return None;
        };
        if are_links_known {
            return Some(cell.path.clone()).filter(|path| !path.is_empty());
        }
        let (from, to) = (host(from)?, host(to)?);
        let to_rail = cell.to_rail.as_ref().unwrap_or(rail);
        Some(vec![
            RailEndName::out(&from.host, rail).to_string(),
            RailEndName::into(&to.host, to_rail).to_string(),
        ])
    };
    let all: BTreeSet<Vec<String>> = run.cells.iter().filter_map(crossed).collect();
    all.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::fixture::Fixture;
    use record::LinkState;
    use record::units::Rate;

    fn link(name: &str, cable: &str, rail: Option<&str>) -> LinkCoverage {
        LinkCoverage {
            link: name.to_string(),
            cable: cable.to_string(),
            rail: rail.map(String::from),
            rate: Rate(1e9),
            flows: 1,
            most: None,
            share: None,
            state: LinkState::Healthy,
            smallest_loss: None,
            why: None,
        }
    }

    #[test]
    fn ends_of_cables_are_told_apart_and_up_is_away_from_hosts() {
        let mut run = Fixture::pairs(2).recorded().run;
        for (host, name) in run.hosts.iter_mut().zip(["h0", "h1"]) {
            host.name = name.to_string();
        }
        let links = [
            link("h0/rail0->leaf0/p0", "h0-rail0-leaf0", Some("rail0")),
            link("leaf0/p0->h0/rail0", "h0-rail0-leaf0", Some("rail0")),
            link("leaf0/u0->spine0/d0", "leaf0-spine0", None),
            link("spine0/d0->leaf0/u0", "leaf0-spine0", None),
            link("not a link", "?", None),
        ];
        let known = part_catalog(&run, &links);
        let away: Vec<bool> = known.links.iter().map(|link| link.away).collect();
        assert_eq!(away, [true, false, true, false, false]);
        let hosts: Vec<Option<&str>> = known.links.iter().map(|link| link.host.as_deref()).collect();
        assert_eq!(hosts, [Some("h0"), Some("h0"), None, None, None]);
        assert!(known.flows.is_empty(), "no path of these cells is known");
    }
}
