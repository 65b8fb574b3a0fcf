//! Hosts that were away, and the parts that are read from fewer flows meanwhile.
//!
//! A part is read from the best flow that crossed it. While a host is away its flows are missing, and the best of the others may be slower for a
//! reason that has nothing to do with the part; so figures are only compared with those that were read while the same hosts were there.

use std::collections::{BTreeMap, BTreeSet};

use super::catalog::CatalogIndex;
use super::timeline::Timeline;
use record::LinkName;

/// Hosts without whose flows a part was read.
pub(super) type MissingHosts = BTreeSet<String>;

/// Who was away when, and what is read without them.
#[derive(Debug)]
pub(super) struct AbsentHosts<'a> {
    timeline: &'a Timeline<'a>,
    /// For every host that was ever away the parts that one of its flows crosses, and the ends of rails that they are.
    crossed: BTreeMap<&'a str, BTreeSet<String>>,
}

impl<'a> AbsentHosts<'a> {
    pub(super) fn of(timeline: &'a Timeline<'_>, known: &CatalogIndex<'_>) -> AbsentHosts<'a> {
        let hosts = timeline.absences.iter().map(|absence| absence.host.as_str());
        let hosts: BTreeSet<&str> = hosts.collect();
        AbsentHosts {
            timeline,
            crossed: hosts
                .into_iter()
                .map(|host| (host, crossed(known, host)))
                .collect(),
        }
    }

    /// Hosts without whose flows a part was read in a cycle; none in the cycle of the loss, which is half of one and half of the other.
    pub(super) fn without(&self, cycle: u32, part: &str) -> Option<MissingHosts> {
        let mut without = MissingHosts::new();
        for absence in &self.timeline.absences {
            let is_back = absence.returned.as_ref().is_some_and(|back| cycle >= back.cycle);
            let crosses = self
                .crossed
                .get(absence.host.as_str())
                .is_some_and(|parts| parts.contains(part));
            if !crosses || is_back || cycle < absence.lost.cycle {
                continue;
            }
            if cycle == absence.lost.cycle {
                return None;
            }
            without.insert(absence.host.clone());
        }
        Some(without)
    }
}

/// Whether a flow begins or ends at one of some hosts.
pub(super) fn is_of(flow: &[String], hosts: &MissingHosts) -> bool {
    let touches = |part: &String| LinkName::nodes_of(part).any(|node| hosts.contains(node));
    !hosts.is_empty() && flow.iter().any(touches)
}

fn crossed(known: &CatalogIndex<'_>, host: &str) -> BTreeSet<String> {
    let host = MissingHosts::from([host.to_string()]);
    let flows = known.known.flows.iter().filter(|flow| is_of(flow, &host));
    let mut parts: BTreeSet<String> = flows.flatten().cloned().collect();
    let links = parts.iter().filter_map(|part| known.link(part));
    let ends: Vec<String> = links.filter_map(super::CatalogLink::end).collect();
    parts.extend(ends);
    parts
}
