//! How far a burn-in came, from its journal: what was finished, what was cut off, how long the fabric was loaded.

use std::collections::BTreeSet;

use record::units::Nanos;
use record::{EndReason, Journal, JournalLine};

/// How far it came.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BurnInProgress {
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

impl BurnInProgress {
    /// Reads a journal.
    pub fn of(journal: &[JournalLine]) -> BurnInProgress {
        let mut so_far = BurnInProgress::default();
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

#[cfg(test)]
mod tests {
    use super::*;

    fn line(load: u64, what: Journal) -> JournalLine {
        JournalLine {
            at: "2026-11-16T05:00:00Z".to_string(),
            load_ns: Nanos::from_secs(load),
            what,
        }
    }

    #[test]
    fn a_journal_says_where_to_go_on() {
        assert_eq!(BurnInProgress::of(&[]).next_cycle(), 1);
        let met = || Journal::Met {
            hosts: Vec::new(),
            resumes: None,
            samples_kept: 0,
        };
        let lost = |hosts: &[&str]| Journal::Lost {
            cycle: 1,
            hosts: hosts.iter().map(ToString::to_string).collect(),
            reason: String::new(),
        };
        let mut journal = vec![
            line(0, met()),
            line(0, Journal::CycleBegan { cycle: 1, seed: 7 }),
            line(5, lost(&["h1", "h2"])),
            line(
                9,
                Journal::CycleEnded {
                    cycle: 1,
                    ended: EndReason::Lost,
                    exit_code: 21,
                    cells: 3,
                    samples: 9,
                    took_ns: Nanos::from_secs(9),
                },
            ),
            line(
                9,
                Journal::Returned {
                    cycle: 2,
                    hosts: vec!["h2".to_string()],
                },
            ),
            line(9, Journal::CycleBegan { cycle: 2, seed: 8 }),
        ];
        let so_far = BurnInProgress::of(&journal);
        assert_eq!(so_far.finished, [(1, Nanos::from_secs(9))]);
        assert_eq!((so_far.cut_off, so_far.cut_off_seed), (Some(2), Some(8)));
        assert_eq!(so_far.next_cycle(), 3);
        assert_eq!(so_far.lost, BTreeSet::from(["h1".to_string()]));
        journal.push(line(
            10,
            Journal::Ended {
                reason: EndReason::Interrupted,
            },
        ));
        assert_eq!(BurnInProgress::of(&journal).ended, Some(EndReason::Interrupted));
        journal.push(line(11, met()));
        let again = BurnInProgress::of(&journal);
        assert_eq!(
            (again.ended, again.meetings, again.load),
            (None, 2, Nanos::from_secs(11))
        );
        assert!(again.lost.is_empty(), "whoever meets is there");
    }
}
