//! What is kept in memory of every cycle: figures as numbers, every name once. A burn-in of days must not take more memory every hour than a few
//! figures do, and a cycle that is over is not read again to decide anew.

use std::collections::HashMap;

use super::interrupted_flows::uninterrupted;
use super::probe_pool::ProbePool;
use record::units::Nanos;
use record::{EndReason, FindingSummary, Night, PartKind, Quantity, Untested};

/// All cycles so far, for [`decide_on`](super::decide_on).
#[derive(Debug, Clone, Default)]
pub struct CycleStore {
    names: Names,
    cycles: Vec<StoredCycle>,
    probes: ProbePool,
}

/// Texts that come again and again.
#[derive(Debug, Clone, Default)]
struct Names {
    texts: Vec<String>,
    places: HashMap<String, u32>,
}

/// What is kept of one cycle.
#[derive(Debug, Clone)]
struct StoredCycle {
    number: u32,
    took: Option<Nanos>,
    started: String,
    ended: Option<EndReason>,
    iterations: u64,
    verified: u64,
    figures: Box<[Figure<u32>]>,
    loads: Box<[LinkShare<u32>]>,
    untested: Box<[(u32, u32)]>,
    findings: Box<[FindingSummary]>,
}

/// One figure of one part; names are texts, or where they stand.
#[derive(Debug, Clone, Copy)]
pub(super) struct Figure<N> {
    pub(super) kind: PartKind,
    pub(super) part: N,
    pub(super) quantity: Quantity,
    pub(super) identity: Option<N>,
    pub(super) value: f64,
}

/// What one link carried.
#[derive(Debug, Clone, Copy)]
pub(super) struct LinkShare<N> {
    pub(super) link: N,
    pub(super) share: Option<f64>,
    pub(super) why: Option<N>,
}

/// A cycle, to be read.
#[derive(Debug, Clone, Copy)]
pub(super) struct CycleView<'a> {
    names: &'a Names,
    kept: &'a StoredCycle,
}

impl Names {
    fn place(&mut self, text: &str) -> u32 {
        if let Some(place) = self.places.get(text) {
            return *place;
        }
        let place = self.texts.len() as u32;
        self.texts.push(text.to_string());
        self.places.insert(text.to_string(), place);
        place
    }

    fn at(&self, place: u32) -> &str {
        self.texts.get(place as usize).map_or("", String::as_str)
    }
}

impl CycleStore {
    /// All of some cycles.
    pub fn of(nights: &[Night]) -> CycleStore {
        let mut store = CycleStore::default();
        nights.iter().for_each(|night| store.add(night));
        store
    }

    /// One more cycle, named `cycle 12`, or the next one where its name has no number.
    pub fn add(&mut self, night: &Night) {
        let names = &mut self.names;
        let readings = &night.readings;
        // Nothing is decided on rails and collectives by their figures.
        let is_decided_on = |kind: PartKind| !matches!(kind, PartKind::Rail | PartKind::Collective);
        let figures = readings
            .parts
            .iter()
            .filter(|reading| is_decided_on(reading.kind));
        let figures = figures.map(|reading| Figure {
            kind: reading.kind,
            part: names.place(&reading.part),
            quantity: reading.quantity,
            identity: reading.identity.as_deref().map(|identity| names.place(identity)),
            value: reading.value,
        });
        let figures = figures.collect();
        let loads = readings.loads.iter().map(|load| LinkShare {
            link: names.place(&load.link),
            share: load.share,
            why: load.why.as_deref().map(|why| names.place(why)),
        });
        let loads = loads.collect();
        let untested = readings.untested.iter();
        let untested = untested.map(|one| (names.place(&one.what), names.place(&one.why)));
        let untested = untested.collect();
        let number = number_in(&night.name).unwrap_or(self.cycles.len() as u32 + 1);
        // Of several cycles with one number the first counts.
        let is_known = self.cycles.iter().any(|kept| kept.number == number);
        if let Some(probes) = readings.probes.as_ref().filter(|_| !is_known) {
            let flows = uninterrupted(probes, &readings.findings);
            self.probes.add(number, probes, &flows, |text| names.place(text));
        }
        self.cycles.push(StoredCycle {
            number,
            took: night.took,
            started: readings.started.clone(),
            ended: readings.ended,
            iterations: readings.iterations,
            verified: readings.verified,
            figures,
            loads,
            untested,
            findings: readings.findings.clone().into_boxed_slice(),
        });
    }

    /// Whether a cycle is in it.
    pub fn has(&self, number: u32) -> bool {
        self.cycles.iter().any(|kept| kept.number == number)
    }

    /// Every cycle, in the order of their numbers; the first of several with one number.
    pub(super) fn views(&self) -> Vec<CycleView<'_>> {
        let mut views: Vec<CycleView<'_>> = self
            .cycles
            .iter()
            .map(|kept| CycleView {
                names: &self.names,
                kept,
            })
            .collect();
        views.sort_by_key(|page| page.number());
        views.dedup_by_key(|page| page.number());
        views
    }

    /// What became of probes in all cycles; its texts are those of this store.
    pub(super) fn probes(&self) -> &ProbePool {
        &self.probes
    }

    /// A text by its number.
    pub(super) fn text(&self, place: u32) -> &str {
        self.names.at(place)
    }

    /// Timed iterations of all cycles, and how many of them had their data checked.
    pub(super) fn iterations(&self) -> (u64, u64) {
        let add = |(timed, checked): (u64, u64), kept: &StoredCycle| {
            let timed = timed.saturating_add(kept.iterations);
            (timed, checked.saturating_add(kept.verified))
        };
        self.cycles.iter().fold((0, 0), add)
    }
}

impl<'a> CycleView<'a> {
    pub(super) fn number(self) -> u32 {
        self.kept.number
    }

    pub(super) fn took(self) -> Option<Nanos> {
        self.kept.took
    }

    pub(super) fn started(self) -> &'a str {
        &self.kept.started
    }

    /// Whether it was measured to its end, without what was lost: not when its time was over, or it was stopped.
    pub(super) fn is_complete(self) -> bool {
        matches!(self.kept.ended, Some(EndReason::Finished | EndReason::Lost))
    }

    /// Whether anything was measured.
    pub(super) fn is_measured(self) -> bool {
        self.kept.iterations > 0
    }

    pub(super) fn figures(self) -> impl Iterator<Item = Figure<&'a str>> {
        let names = self.names;
        self.kept.figures.iter().map(|figure| Figure {
            kind: figure.kind,
            part: names.at(figure.part),
            quantity: figure.quantity,
            identity: figure.identity.map(|identity| names.at(identity)),
            value: figure.value,
        })
    }

    pub(super) fn loads(self) -> impl Iterator<Item = LinkShare<&'a str>> {
        let names = self.names;
        self.kept.loads.iter().map(|load| LinkShare {
            link: names.at(load.link),
            share: load.share,
            why: load.why.map(|why| names.at(why)),
        })
    }

    pub(super) fn untested(self) -> impl Iterator<Item = Untested> + use<'a> {
        let untested = self.kept.untested.iter();
        untested.map(move |(what, why)| Untested {
            what: self.names.at(*what).to_string(),
            why: self.names.at(*why).to_string(),
        })
    }

    pub(super) fn findings(self) -> &'a [FindingSummary] {
        &self.kept.findings
    }
}

/// The number at the end of `cycle 12`.
fn number_in(name: &str) -> Option<u32> {
    let digits = name.rsplit(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{clos, cycle};
    use super::*;

    #[test]
    fn names_are_kept_once_and_figures_come_back_as_they_were() {
        let known = clos();
        let nights: Vec<Night> = (1..=50).map(|number| cycle(&known, number, |_| 25e6)).collect();
        let once = CycleStore::of(&nights[..1]);
        let store = CycleStore::of(&nights);
        assert_eq!(store.names.texts, once.names.texts);
        let page = store.views()[49];
        let read: Vec<(PartKind, String, f64)> = page
            .figures()
            .map(|figure| (figure.kind, figure.part.to_string(), figure.value))
            .collect();
        let expected = nights[49].readings.parts.iter();
        let expected: Vec<(PartKind, String, f64)> = expected
            .map(|part| (part.kind, part.part.clone(), part.value))
            .collect();
        assert_eq!(read, expected);
        assert!(store.has(50) && !store.has(51));
    }

    #[test]
    fn cycles_come_in_order_and_each_once() {
        let known = clos();
        let of = |number: u32| cycle(&known, number, |_| 25e6);
        let store = CycleStore::of(&[of(3), of(1), of(3)]);
        let numbers: Vec<u32> = store.views().iter().map(|page| page.number()).collect();
        assert_eq!(numbers, [1, 3]);
    }

    #[test]
    fn folders_are_numbered_by_their_names_or_by_their_order() {
        assert_eq!(number_in("cycle 12"), Some(12));
        assert_eq!(number_in("cycle-007"), Some(7));
        assert_eq!(number_in("tonight"), None);
        assert_eq!(number_in("cycle 99999999999999"), None);
    }
}
