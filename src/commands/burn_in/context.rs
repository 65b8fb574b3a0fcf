//! A burn-in in progress: what all its cycles share.

use std::cell::RefCell;

use super::status_board::StatusBoard;
use crate::error::CliError;
use crate::flags::RunFlags;
use crate::run_clock::now;
use judge::burn_in::{BurnInFolder, CycleStore, JournalFile};
use plan::replan::LostParts;
use record::units::Nanos;
use record::{BurnIn, Journal, JournalLine};
use topology::suite::Suite;

/// A burn-in in progress.
pub struct BurnInContext<'a> {
    /// What every cycle measures.
    pub suite: &'a Suite,
    /// The flags it was started with.
    pub flags: &'a RunFlags,
    /// Where it is kept.
    pub folder: BurnInFolder,
    /// What was requested.
    pub request: BurnIn,
    /// The journal of its events.
    pub journal: RefCell<JournalFile>,
    /// The status that is written every few seconds.
    pub board: &'a StatusBoard,
    /// Time under load before this process started.
    pub load_at_start: Nanos,
    /// Time under load before the cycle that this process resumes.
    pub load_before_resumed_cycle: Nanos,
    /// What the decision needs of finished cycles.
    pub ledger: RefCell<CycleStore>,
}

impl BurnInContext<'_> {
    /// Records hosts that were lost and take no part from here on.
    pub fn record_loss(&self, cycle: u32, lost: &LostParts, reason: &str) -> Result<(), CliError> {
        if lost.hosts.is_empty() {
            return Ok(());
        }
        let hosts: Vec<String> = lost.hosts.iter().cloned().collect();
        self.board
            .update(|status| status.lost.extend(hosts.iter().cloned()));
        self.write(Journal::Lost {
            cycle,
            hosts,
            reason: reason.to_string(),
        })
    }

    /// Appends to the journal.
    pub fn write(&self, what: Journal) -> Result<(), CliError> {
        let line = JournalLine {
            at: now(),
            load_ns: self.board.load(),
            what,
        };
        Ok(self.journal.borrow_mut().write(&line)?)
    }
}
