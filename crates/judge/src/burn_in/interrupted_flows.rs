//! Flows of probes that were cut off: over a link that went down, or to a host that was lost. What they lost says nothing about cables that lose packets;
//! the flap and the loss are incidents of their own.

use std::collections::BTreeSet;

use record::{FindingKind, FindingSummary, LinkName, ProbeReading, ProbeReadings};

/// The probes of a cycle without those that were cut off in it.
pub(super) fn uninterrupted(probes: &ProbeReadings, findings: &[FindingSummary]) -> Vec<ProbeReading> {
    let cut_off: Vec<CutOff<'_>> = findings
        .iter()
        .filter_map(|found| CutOff::by(found, probes))
        .collect();
    let flows = probes.flows.iter();
    let whole = flows.filter(|flow| !cut_off.iter().any(|cut_off| cut_off.has(flow, probes)));
    whole.cloned().collect()
}

/// What was interrupted in a cycle.
struct CutOff<'f> {
    hosts: &'f [String],
    rail: Option<&'f str>,
    /// Positions of the links, in both directions.
    links: BTreeSet<u32>,
}

impl<'f> CutOff<'f> {
    fn by(found: &'f FindingSummary, probes: &ProbeReadings) -> Option<CutOff<'f>> {
        let interrupts = matches!(
            found.kind,
            FindingKind::Flap | FindingKind::SilentRail | FindingKind::LostRank
        );
        let place = &found.place;
        let names = || place.links.iter().chain(&place.link);
        let is_meant = |link: &str| {
            let back = LinkName::parse(link).map(|link| link.reversed().to_string());
            names().any(|name| name == link || back.as_ref() == Some(name))
        };
        let links = (0..).zip(&probes.links).filter(|(_, link)| is_meant(link));
        interrupts.then(|| CutOff {
            hosts: &place.hosts,
            rail: place.rail.as_deref(),
            links: links.map(|(position, _)| position).collect(),
        })
    }

    fn has(&self, flow: &ProbeReading, probes: &ProbeReadings) -> bool {
        let crosses = flow.links.iter().any(|link| self.links.contains(link))
            || flow.possible.iter().any(|(link, _)| self.links.contains(link));
        let named = |names: &[String], position: u32, wanted: &str| {
            names.get(position as usize).is_some_and(|name| name == wanted)
        };
        let on_the_rail = self.rail.is_none_or(|rail| named(&probes.rails, flow.rail, rail));
        let of_host = |host: &String| {
            [flow.from, flow.to]
                .iter()
                .any(|end| named(&probes.hosts, *end, host))
        };
        // A rail without a host: all of it.
        let is_all_of_it = self.hosts.is_empty() && self.links.is_empty() && self.rail.is_some();
        crosses || on_the_rail && (is_all_of_it || self.hosts.iter().any(of_host))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::burn_in::fixture::found;
    use record::Place;

    /// Flows h0 -> h1, h1 -> h2 and h2 -> h0 on two rails, each over the cables of its ends.
    fn probes() -> ProbeReadings {
        let mut links = Vec::new();
        let mut flows = Vec::new();
        for rail in 0..2u32 {
            for from in 0..3u32 {
                let to = (from + 1) % 3;
                links.push(format!("h{from}/rail{rail}->leaf{rail}/p{from}"));
                links.push(format!("leaf{rail}/p{to}->h{to}/rail{rail}"));
                let last = links.len() as u32;
                flows.push(ProbeReading {
                    from,
                    to,
                    rail,
                    links: vec![last - 2, last - 1],
                    seconds: 2,
                    sent: 100,
                    ..ProbeReading::default()
                });
            }
        }
        ProbeReadings {
            hosts: ["h0", "h1", "h2"].map(String::from).to_vec(),
            rails: ["rail0", "rail1"].map(String::from).to_vec(),
            links,
            tests: vec!["probes 32 B".to_string()],
            flows,
        }
    }

    fn left(kind: FindingKind, place: Place) -> Vec<(u32, u32, u32)> {
        let whole = uninterrupted(&probes(), &[found(kind, "x", place)]);
        whole.iter().map(|flow| (flow.rail, flow.from, flow.to)).collect()
    }

    #[test]
    fn a_cable_that_went_down_is_not_said_to_lose_packets_and_others_still_are() {
        let cable = Place {
            link: Some("leaf0/p1->h1/rail0".to_string()),
            ..Place::default()
        };
        assert_eq!(
            left(FindingKind::Flap, cable.clone()),
            [(0, 2, 0), (1, 0, 1), (1, 1, 2), (1, 2, 0)],
            "both directions of it"
        );
        let end = Place {
            hosts: vec!["h1".to_string()],
            rail: Some("rail0".to_string()),
            ..Place::default()
        };
        assert_eq!(left(FindingKind::Flap, end.clone()).len(), 4);
        assert_eq!(
            left(FindingKind::LossyLink, end).len(),
            6,
            "that is no interruption"
        );
        assert_eq!(left(FindingKind::SlowLink, cable).len(), 6);
        let host = Place {
            hosts: vec!["h1".to_string()],
            ..Place::default()
        };
        assert_eq!(left(FindingKind::LostRank, host), [(0, 2, 0), (1, 2, 0)]);
        let rail = Place {
            rail: Some("rail1".to_string()),
            ..Place::default()
        };
        assert_eq!(left(FindingKind::SilentRail, rail).len(), 3);
    }
}
