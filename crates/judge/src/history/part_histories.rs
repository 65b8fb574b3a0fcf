//! All parts over all runs, in one pass: each run is judged by what was known when it came.

use std::collections::BTreeMap;

use super::fleet::{Fleet, PresentParts};
use super::rule::Rule;
use record::{Night, PartKind, PartReading, Quantity, Replaced};

/// What became of every part over the runs.
#[derive(Debug, Clone, Default)]
pub(super) struct PartHistories {
    /// By kind and quantity.
    pub(super) fleets: Vec<Fleet>,
    /// Parts that were replaced, with the run that saw the new one first.
    pub(super) replaced: Vec<(usize, Replaced)>,
    /// Parts of the last run that were compared with their past.
    pub(super) compared: u32,
    /// Parts of the last run whose past is too short.
    pub(super) young: u32,
}

impl PartHistories {
    /// Goes through the runs in their order.
    pub(super) fn of(nights: &[Night], rule: &Rule) -> PartHistories {
        let mut histories = PartHistories::default();
        for (run, night) in nights.iter().enumerate() {
            histories.add(run, night, rule);
        }
        histories
    }

    fn add(&mut self, run: usize, night: &Night, rule: &Rule) {
        let mut by_fleet: BTreeMap<(PartKind, Quantity), Vec<&PartReading>> = BTreeMap::new();
        for reading in &night.readings.parts {
            if reading.value.is_finite() && reading.value > 0.0 {
                by_fleet
                    .entry((reading.kind, reading.quantity))
                    .or_default()
                    .push(reading);
            }
        }
        let mut present = PresentParts::default();
        for ((kind, quantity), readings) in &by_fleet {
            let known = self
                .fleets
                .iter()
                .position(|fleet| (fleet.kind, fleet.quantity) == (*kind, *quantity));
            let at = known.unwrap_or_else(|| {
                self.fleets.push(Fleet::new(*kind, *quantity));
                self.fleets.len() - 1
            });
            let here = self.fleets[at].meet(readings, run, rule);
            present.grown += here.grown;
            present.looks += here.looks;
            present.young += here.young;
            present.replaced.extend(here.replaced);
        }
        let threshold = rule.threshold(present.looks);
        for fleet in &mut self.fleets {
            if let Some(readings) = by_fleet.get(&(fleet.kind, fleet.quantity)) {
                fleet.add(readings, run, threshold, rule);
            }
        }
        let named = |replaced: Replaced| Replaced {
            since: night.name.clone(),
            ..replaced
        };
        self.replaced.extend(
            present
                .replaced
                .into_iter()
                .map(|replaced| (run, named(replaced))),
        );
        (self.compared, self.young) = (present.grown, present.young);
    }
}
