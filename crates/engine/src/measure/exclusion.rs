//! After a loss: the survivors drop what was in flight, and the run continues without the lost ranks.

use std::collections::BTreeSet;
use std::time::Instant;

use super::error::MeasureError;
use super::protocol::{Answer, Order, QuitReason};
use super::session::{Received, Session};

impl Session {
    /// Continues without `lost`: they are told to leave, and what they still send is dropped; all others drop their connections
    /// and what was in flight. Ranks that are lost meanwhile are excluded too. Returns all absent ranks.
    pub fn continue_without(&mut self, lost: &[u32]) -> Result<&BTreeSet<u32>, MeasureError> {
        for rank in lost {
            self.exclude(*rank)?;
        }
        self.order_all(&Order::Reset)?;
        let present = self.fabric().ranks.iter().map(|record| record.rank);
        let mut pending: BTreeSet<u32> = present.filter(|rank| !self.absent.contains(rank)).collect();
        let until = Instant::now() + self.deadline();
        while !pending.is_empty() {
            match self.receive(until) {
                Received::Answer(rank, Answer::Reset) => _ = pending.remove(&rank),
                // Late, from the aborted cells.
                Received::Answer(..) => {}
                Received::Disconnected(rank, _) | Received::Silent(rank, _) => {
                    pending.remove(&rank);
                    self.exclude(rank)?;
                }
                Received::Interrupted => break,
                Received::Timeout => {
                    for rank in std::mem::take(&mut pending) {
                        self.exclude(rank)?;
                    }
                }
            }
        }
        Ok(&self.absent)
    }

    /// Ranks the run continues without.
    pub fn absent(&self) -> &BTreeSet<u32> {
        &self.absent
    }

    /// Excludes `rank`: it is told to leave, its connection is closed, and what it sent is dropped.
    pub(super) fn exclude(&mut self, rank: u32) -> Result<(), MeasureError> {
        self.order(rank, &Order::Quit(QuitReason::Excluded))?;
        self.coordinator.disconnect(rank);
        self.absent.insert(rank);
        self.deferred
            .borrow_mut()
            .retain(|received| received.rank() != Some(rank));
        Ok(())
    }
}
