//! What is decided on: the hosts, cables and GPUs that there are, and which flow crosses which of them.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use record::{FindingKind, FindingSummary, LinkName, PartKind, RailEndName};

/// The parts that a burn-in decides on.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PartCatalog {
    /// Every host that takes part, lost ones as well.
    pub hosts: Vec<String>,
    /// Every cable in each direction; empty when the cabling is unknown. Then ends of rails are decided on.
    pub links: Vec<CatalogLink>,
    /// Every GPU that takes part.
    pub gpus: Vec<CatalogGpu>,
    /// For every flow of a cycle the parts that it crosses: names of links, or of ends of rails (`h0/rail1 out`, `h2/rail1 in`)
    /// where cables are not known. They tell which part can make which other ones look slow; may be empty.
    pub flows: Vec<Vec<String>>,
}

/// A cable in one direction.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CatalogLink {
    /// Its name, as `h2/rail1->leaf1/p0`.
    pub name: String,
    /// The cable by name: both directions have the same.
    pub cable: String,
    /// Its rail, when it belongs to one.
    pub rail: Option<String>,
    /// The host at one end; none between switches.
    pub host: Option<String>,
    /// Whether data leaves the host over it, or goes up between switches.
    pub away: bool,
}

/// A GPU.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CatalogGpu {
    /// Its own lasting name, as readings have it.
    pub name: String,
    /// The host that it is in.
    pub host: String,
    /// Ranks that run on it.
    pub ranks: Vec<u32>,
}

impl CatalogLink {
    /// The end of a rail that this is, as readings name it: `h2/rail1 out`.
    pub fn end(&self) -> Option<String> {
        let (host, rail) = (self.host.as_ref()?, self.rail.as_ref()?);
        let end = match self.away {
            true => RailEndName::out(host, rail),
            false => RailEndName::into(host, rail),
        };
        Some(end.to_string())
    }

    /// Whether one of its ends is at that node, host or switch.
    pub(super) fn touches(&self, node: &str) -> bool {
        self.host.as_deref() == Some(node) || LinkName::nodes_of(&self.name).any(|end| end == node)
    }
}

/// The part that a finding accuses.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum AccusedPart {
    /// A cable by name, in either direction.
    Cable(String),
    /// A host's end of a rail whose cable is not known.
    End {
        /// The host.
        host: String,
        /// The rail.
        rail: String,
    },
    /// A host.
    Node(String),
    /// A GPU.
    Gpu(String),
    /// A switch.
    Switch(String),
    /// A whole rail.
    Rail(String),
    /// Nothing that is decided on: a pair, a collective, a test.
    Other(String),
}

/// The same, found by name.
#[derive(Debug)]
pub(super) struct CatalogIndex<'k> {
    pub(super) known: &'k PartCatalog,
    links: HashMap<&'k str, &'k CatalogLink>,
    cables: HashMap<&'k str, Vec<&'k CatalogLink>>,
    ends: HashMap<(&'k str, &'k str), &'k CatalogLink>,
    gpus: HashMap<&'k str, &'k CatalogGpu>,
}

impl<'k> CatalogIndex<'k> {
    pub(super) fn of(known: &'k PartCatalog) -> CatalogIndex<'k> {
        let mut index = CatalogIndex {
            known,
            links: HashMap::new(),
            cables: HashMap::new(),
            ends: HashMap::new(),
            gpus: known.gpus.iter().map(|gpu| (gpu.name.as_str(), gpu)).collect(),
        };
        for link in &known.links {
            index.links.insert(&link.name, link);
            index.cables.entry(&link.cable).or_default().push(link);
            if let (Some(host), Some(rail)) = (&link.host, &link.rail) {
                index.ends.entry((host, rail)).or_insert(link);
            }
        }
        index
    }

    pub(super) fn link(&self, name: &str) -> Option<&'k CatalogLink> {
        self.links.get(name).copied()
    }

    pub(super) fn gpu(&self, name: &str) -> Option<&'k CatalogGpu> {
        self.gpus.get(name).copied()
    }

    /// Both directions of a cable.
    pub(super) fn of_cable(&self, cable: &str) -> impl Iterator<Item = &'k CatalogLink> + '_ {
        self.cables.get(cable).into_iter().flatten().copied()
    }

    /// The cable at a host's end of a rail.
    pub(super) fn cable_at(&self, host: &str, rail: &str) -> Option<&'k CatalogLink> {
        self.ends.get(&(host, rail)).copied()
    }

    /// The part that a finding accuses.
    pub(super) fn accused(&self, found: &FindingSummary) -> AccusedPart {
        let place = &found.place;
        if matches!(found.kind, FindingKind::Throttled | FindingKind::GpuErrors)
            && let Some(gpu) = self.known.gpus.iter().find(|gpu| is_gpu_of(gpu, found))
        {
            return AccusedPart::Gpu(gpu.name.clone());
        }
        let named = place.link.as_deref().and_then(|link| self.link(link));
        if let Some(link) = named.or_else(|| self.link(&found.part)) {
            return AccusedPart::Cable(link.cable.clone());
        }
        match (&place.link, &place.switch, place.hosts.as_slice(), &place.rail) {
            (Some(link), _, _, _) => AccusedPart::Other(link.clone()),
            (None, Some(switch), _, _) => AccusedPart::Switch(switch.clone()),
            (None, None, [host], Some(rail)) => self.end(host, rail),
            (None, None, [host], None) => AccusedPart::Node(host.clone()),
            (None, None, [], Some(rail)) => AccusedPart::Rail(rail.clone()),
            _ => AccusedPart::Other(found.part.clone()),
        }
    }

    /// A host's end of a rail: its cable, where that is known.
    fn end(&self, host: &str, rail: &str) -> AccusedPart {
        match self.cable_at(host, rail) {
            Some(link) => AccusedPart::Cable(link.cable.clone()),
            None => AccusedPart::End {
                host: host.to_string(),
                rail: rail.to_string(),
            },
        }
    }

    /// What a reading is of: the end of a rail is its cable, where that is known.
    pub(super) fn read(&self, kind: PartKind, part: &str) -> AccusedPart {
        match kind {
            PartKind::Link => match self.link(part) {
                Some(link) => AccusedPart::Cable(link.cable.clone()),
                None => AccusedPart::Other(part.to_string()),
            },
            PartKind::RailEnd => match directed_end(part) {
                Some(end) => self.end(end.host, end.rail),
                None => AccusedPart::Other(part.to_string()),
            },
            PartKind::Node => AccusedPart::Node(part.to_string()),
            PartKind::Gpu => AccusedPart::Gpu(part.to_string()),
            PartKind::Rail => AccusedPart::Rail(part.to_string()),
            PartKind::Collective => AccusedPart::Other(part.to_string()),
        }
    }

    /// The rail that a part belongs to, when it is one.
    pub(super) fn rail_of<'a>(&'a self, accused: &'a AccusedPart) -> Option<&'a str> {
        match accused {
            AccusedPart::Cable(cable) => self.of_cable(cable).find_map(|link| link.rail.as_deref()),
            AccusedPart::End { rail, .. } | AccusedPart::Rail(rail) => Some(rail),
            _ => None,
        }
    }

    /// The host that a part belongs to, when it is one.
    pub(super) fn host_of<'a>(&'a self, accused: &'a AccusedPart) -> Option<&'a str> {
        match accused {
            AccusedPart::Cable(cable) => self.of_cable(cable).find_map(|link| link.host.as_deref()),
            AccusedPart::End { host, .. } | AccusedPart::Node(host) => Some(host),
            AccusedPart::Gpu(name) => self.gpu(name).map(|gpu| gpu.host.as_str()),
            _ => None,
        }
    }

    /// What a part is called in findings and readings.
    pub(super) fn names_of(&self, accused: &AccusedPart) -> Vec<String> {
        match accused {
            AccusedPart::Cable(cable) => self.of_cable(cable).map(|link| link.name.clone()).collect(),
            AccusedPart::End { host, rail } => [RailEndName::out(host, rail), RailEndName::into(host, rail)]
                .map(|end| end.to_string())
                .to_vec(),
            AccusedPart::Node(name)
            | AccusedPart::Gpu(name)
            | AccusedPart::Switch(name)
            | AccusedPart::Rail(name)
            | AccusedPart::Other(name) => vec![name.clone()],
        }
    }
}

/// A host's end of a rail in one direction; none for what is read of both at once, which is not decided on.
pub(super) fn directed_end(part: &str) -> Option<RailEndName<'_>> {
    RailEndName::parse(part).filter(|end| end.direction.is_some())
}

fn is_gpu_of(gpu: &CatalogGpu, found: &FindingSummary) -> bool {
    let place = &found.place;
    found.part == gpu.name
        || place.hosts.contains(&gpu.host) && place.ranks.iter().any(|rank| gpu.ranks.contains(rank))
}

#[cfg(test)]
mod tests {
    use super::super::fixture;
    use super::*;
    use record::Place;

    fn found(kind: FindingKind, place: Place) -> FindingSummary {
        fixture::found(kind, "x", place)
    }

    #[test]
    fn a_link_a_port_and_the_end_of_a_rail_are_one_cable() {
        let clos = fixture::clos();
        let known = CatalogIndex::of(&clos);
        let cable = AccusedPart::Cable("h2-rail1".into());
        let link = Place {
            link: Some("leaf3/p0->h2/rail1".into()),
            ..Place::default()
        };
        assert_eq!(known.accused(&found(FindingKind::SlowLink, link)), cable);
        let end = Place {
            hosts: vec!["h2".into()],
            rail: Some("rail1".into()),
            ..Place::default()
        };
        assert_eq!(known.accused(&found(FindingKind::Flap, end.clone())), cable);
        assert_eq!(
            (known.rail_of(&cable), known.host_of(&cable)),
            (Some("rail1"), Some("h2"))
        );
        let nothing = PartCatalog::default();
        let unknown = CatalogIndex::of(&nothing).accused(&found(FindingKind::Flap, end));
        assert_eq!(
            unknown,
            AccusedPart::End {
                host: "h2".into(),
                rail: "rail1".into()
            }
        );
    }

    #[test]
    fn a_gpu_is_found_by_its_ranks_and_a_pair_is_not_a_part() {
        let mut known = fixture::clos();
        let gpu = |name: &str, ranks: &[u32]| CatalogGpu {
            name: name.into(),
            host: "h1".into(),
            ranks: ranks.to_vec(),
        };
        known.gpus = vec![gpu("GPU-a", &[2]), gpu("GPU-b", &[3])];
        let known = CatalogIndex::of(&known);
        let place = Place {
            hosts: vec!["h1".into()],
            ranks: vec![3],
            ..Place::default()
        };
        assert_eq!(
            known.accused(&found(FindingKind::GpuErrors, place)),
            AccusedPart::Gpu("GPU-b".into())
        );
        let place = Place {
            hosts: vec!["h1".into(), "h2".into()],
            rail: Some("rail0".into()),
            ..Place::default()
        };
        assert_eq!(
            known.accused(&found(FindingKind::SlowPair, place)),
            AccusedPart::Other("x".into())
        );
    }
}
