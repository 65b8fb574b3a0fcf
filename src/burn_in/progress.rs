//! How far a burn-in came, from its journal: what was finished, what was cut off, how long the fabric was loaded.

use std::collections::BTreeSet;

use crate::record::{EndReason, Journal, JournalLine};
use crate::units::Nanos;

/// How far it came.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SoFar {
    /// Cycles that ended, with the time each took.
    pub finished: Vec<(u32, Nanos)>,
    /// The cycle that began and did not end.
    pub cut_off: Option<u32>,
    /// Its pattern's seed.
    pub cut_off_seed: Option<u64>,
    /// Time under load.
    pub load: Nanos,
    /// Hosts that are lost and have not come back.
    pub lost: BTreeSet<String>,
    /// How often ranks met.
    pub meetings: u32,
    /// Why it ended, when it did.
    pub ended: Option<EndReason>,
    /// Cycles whose samples became histograms.
    pub condensed: BTreeSet<u32>,
}

impl SoFar {
    /// Reads a journal.
    pub fn of(journal: &[JournalLine]) -> SoFar {
        let mut so_far = SoFar::default();
        for line in journal {
            so_far.load = so_far.load.max(line.load_ns);
            match &line.what {
                Journal::Met { .. } => {
                    so_far.meetings += 1;
                    so_far.ended = None;
                    so_far.lost.clear();
                }
                Journal::CycleBegan { cycle, seed } => {
                    so_far.cut_off = Some(*cycle);
                    so_far.cut_off_seed = Some(*seed);
                }
                Journal::CycleEnded { cycle, took_ns, .. } => {
                    so_far.cut_off = None;
                    so_far.finished.push((*cycle, *took_ns));
                }
                Journal::Lost { hosts, .. } => so_far.lost.extend(hosts.iter().cloned()),
                Journal::Returned { hosts, .. } => so_far.lost.retain(|host| !hosts.contains(host)),
                Journal::Condensed { cycle, .. } => _ = so_far.condensed.insert(*cycle),
                Journal::Refused { .. } => {}
                Journal::Ended { reason } => so_far.ended = Some(*reason),
            }
        }
        so_far
    }

    /// The number of the next new cycle.
    pub fn next_cycle(&self) -> u32 {
        let last = self.finished.iter().map(|(cycle, _)| *cycle).max();
        1 + last.max(self.cut_off).unwrap_or(0)
    }
}
