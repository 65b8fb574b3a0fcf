//! Asking some ranks something, all at once, before or between measurements.

use std::collections::BTreeMap;
use std::time::Instant;

use super::orders::{Answer, Order};
use super::session::{Heard, MeasureError, Session};

impl Session {
    /// Gives every rank its order and hears the answers until `until`. `take` keeps an answer that it was waiting for and
    /// hands others back. Ranks that are lost meanwhile are noticed by whoever measures next, and so is everything else that was
    /// heard; whoever has not answered by then is returned.
    pub(super) fn ask(
        &mut self,
        orders: BTreeMap<u32, Order>,
        until: Instant,
        mut take: impl FnMut(u32, Answer) -> Option<Answer>,
    ) -> Result<Vec<u32>, MeasureError> {
        let mut waiting: Vec<u32> = Vec::new();
        for (rank, order) in orders {
            if !self.absent.contains(&rank) {
                self.order(rank, &order)?;
                waiting.push(rank);
            }
        }
        let mut overheard = Vec::new();
        while !waiting.is_empty() {
            match self.listen(until) {
                Heard::Answer(rank, answer) => match take(rank, answer) {
                    None => waiting.retain(|other| *other != rank),
                    Some(answer) => overheard.push(Heard::Answer(rank, answer)),
                },
                heard @ (Heard::Gone(rank, _) | Heard::Silent(rank, _)) => {
                    waiting.retain(|other| *other != rank);
                    overheard.push(heard);
                }
                Heard::Interrupted | Heard::Nothing => break,
            }
        }
        self.overheard.borrow_mut().extend(overheard);
        Ok(waiting)
    }
}
