//! In which cycles every part was measured and loaded.

use std::collections::{BTreeMap, BTreeSet};

use super::catalog::{AccusedPart, CatalogIndex, directed_end};
use super::timeline::Timeline;
use record::units::Nanos;
use record::{PartKind, RailEndName};

/// Numbers of cycles by part.
#[derive(Debug, Default)]
pub(super) struct Exposure {
    /// Every cycle.
    pub(super) all: BTreeSet<u32>,
    measured: BTreeMap<(PartKind, String), BTreeSet<u32>>,
    /// Cycles in which a link carried enough; none when no cycle says what links carried.
    loaded: Option<BTreeMap<String, BTreeSet<u32>>>,
    /// Why a link did not carry more, as the last cycle says that does.
    whys: BTreeMap<String, String>,
    identities: BTreeMap<(PartKind, String), String>,
    took: BTreeMap<u32, Nanos>,
}

impl Exposure {
    pub(super) fn of(timeline: &Timeline<'_>, known: &CatalogIndex<'_>, least_share: f64) -> Exposure {
        let mut exposure = Exposure::default();
        for cycle in &timeline.cycles {
            let number = cycle.number();
            // What a cycle that was cut short did not load may have come later.
            if cycle.said.is_complete() {
                exposure.all.insert(number);
            }
            exposure.took.insert(number, cycle.took);
            let mut hosts: BTreeSet<&str> = BTreeSet::new();
            for reading in cycle.said.figures() {
                let part = (reading.kind, reading.part.to_string());
                hosts.extend(host_of(known, reading.kind, reading.part));
                if let Some(identity) = reading.identity {
                    exposure.identities.insert(part.clone(), identity.to_string());
                }
                exposure.measured.entry(part).or_default().insert(number);
            }
            for load in cycle.said.loads() {
                let loaded = exposure.loaded.get_or_insert_default();
                if let Some(why) = load.why {
                    exposure.whys.insert(load.link.to_string(), why.to_string());
                }
                let Some(share) = load.share.filter(|share| *share > 0.0) else {
                    continue;
                };
                hosts.extend(host_of(known, PartKind::Link, load.link));
                let part = (PartKind::Link, load.link.to_string());
                exposure.measured.entry(part).or_default().insert(number);
                if share >= least_share {
                    loaded.entry(load.link.to_string()).or_default().insert(number);
                }
            }
            // MissingHosts rails nothing names a host: everybody who was not away took part.
            if hosts.is_empty() && cycle.said.is_measured() {
                hosts.extend(
                    known
                        .known
                        .hosts
                        .iter()
                        .map(String::as_str)
                        .filter(|host| !is_away(timeline, host, number)),
                );
            }
            for host in hosts {
                let part = (PartKind::Node, host.to_string());
                exposure.measured.entry(part).or_default().insert(number);
            }
        }
        exposure
    }

    /// Cycles that measured a part.
    pub(super) fn measured(&self, kind: PartKind, part: &str) -> BTreeSet<u32> {
        let cycles = self.measured.get(&(kind, part.to_string()));
        cycles.cloned().unwrap_or_default()
    }

    /// Cycles that measured what a finding accuses; all of them where that is nothing that is read.
    pub(super) fn of_blamed(&self, known: &CatalogIndex<'_>, accused: &AccusedPart) -> BTreeSet<u32> {
        let kind = match accused {
            AccusedPart::Cable(_) => PartKind::Link,
            AccusedPart::End { .. } => PartKind::RailEnd,
            AccusedPart::Node(_) => PartKind::Node,
            AccusedPart::Gpu(_) => PartKind::Gpu,
            _ => return self.all.clone(),
        };
        let names = known.names_of(accused);
        names.iter().flat_map(|name| self.measured(kind, name)).collect()
    }

    /// Cycles in which a link carried enough; none when that is unknown.
    pub(super) fn loaded(&self, link: &str) -> Option<usize> {
        let loaded = self.loaded.as_ref()?;
        Some(loaded.get(link).map_or(0, BTreeSet::len))
    }

    /// Why a link did not carry more, when a cycle says so.
    pub(super) fn why(&self, link: &str) -> Option<&str> {
        self.whys.get(link).map(String::as_str)
    }

    /// Time under load in some cycles.
    pub(super) fn load(&self, cycles: &BTreeSet<u32>) -> Nanos {
        let took = cycles.iter().filter_map(|cycle| self.took.get(cycle));
        took.fold(Nanos(0), |sum, took| sum + *took)
    }

    /// What a part is made of.
    pub(super) fn identity(&self, kind: PartKind, part: &str) -> Option<String> {
        self.identities.get(&(kind, part.to_string())).cloned()
    }

    /// The ends of rails that were read, each direction by itself.
    pub(super) fn ends(&self) -> impl Iterator<Item = &str> {
        let parts = self.measured.keys();
        parts
            .filter(|(kind, part)| *kind == PartKind::RailEnd && directed_end(part).is_some())
            .map(|(_, part)| part.as_str())
    }
}

/// The host that a reading speaks of.
fn host_of<'a>(known: &'a CatalogIndex<'_>, kind: PartKind, part: &'a str) -> Vec<&'a str> {
    let host = match kind {
        PartKind::Node => Some(part),
        PartKind::RailEnd => RailEndName::parse(part).map(|end| end.host),
        PartKind::Link => known.link(part).and_then(|link| link.host.as_deref()),
        PartKind::Gpu => known.gpu(part).map(|gpu| gpu.host.as_str()),
        PartKind::Rail | PartKind::Collective => None,
    };
    host.into_iter().collect()
}

fn is_away(timeline: &Timeline<'_>, host: &str, cycle: u32) -> bool {
    timeline.absences.iter().any(|absence| {
        let returned = absence.returned.as_ref().map_or(u32::MAX, |moment| moment.cycle);
        absence.host == host && absence.lost.cycle < cycle && cycle < returned
    })
}
