//! After a loss: the survivors drop what was in flight, and the run goes on without the lost.

use std::collections::BTreeSet;
use std::time::Instant;

use super::orders::{Answer, Order, QuitReason};
use super::session::{Heard, MeasureError, Session};

impl Session {
    /// Goes on without `lost`: they are told that the run is over for them, and whatever they still say is not listened
    /// to; all others give up their connections and what was in flight. Ranks that are lost meanwhile are left out too.
    /// Returns everybody who is now absent.
    pub fn continue_without(&mut self, lost: &[u32]) -> Result<&BTreeSet<u32>, MeasureError> {
        for rank in lost {
            self.leave_out(*rank)?;
        }
        self.order_all(&Order::Reset)?;
        let present = self.fabric().ranks.iter().map(|record| record.rank);
        let mut pending: BTreeSet<u32> = present.filter(|rank| !self.absent.contains(rank)).collect();
        let until = Instant::now() + self.deadline();
        while !pending.is_empty() {
            match self.listen(until) {
                Heard::Answer(rank, Answer::Reset) => _ = pending.remove(&rank),
                // Left over from the cells that were given up.
                Heard::Answer(..) => {}
                Heard::Gone(rank, _) | Heard::Silent(rank, _) => {
                    pending.remove(&rank);
                    self.leave_out(rank)?;
                }
                Heard::Interrupted => break,
                Heard::Nothing => {
                    for rank in std::mem::take(&mut pending) {
                        self.leave_out(rank)?;
                    }
                }
            }
        }
        Ok(&self.absent)
    }

    /// Ranks the run goes on without.
    pub fn absent(&self) -> &BTreeSet<u32> {
        &self.absent
    }

    /// Goes on without `rank`: it is told so, its link is closed, and nothing that came from it is heard any more.
    pub(super) fn leave_out(&mut self, rank: u32) -> Result<(), MeasureError> {
        self.order(rank, &Order::Quit(QuitReason::LeftOut))?;
        self.coordinator.disconnect(rank);
        self.absent.insert(rank);
        self.overheard
            .borrow_mut()
            .retain(|heard| heard.rank() != Some(rank));
        Ok(())
    }
}
