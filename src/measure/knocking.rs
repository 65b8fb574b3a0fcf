//! Knocking at the doors of ranks that fell silent: asked over the rails, a cut management link is no frozen host.

use std::time::{Duration, Instant};

use super::loss::Loss;
use super::orders::{Answer, Order};
use super::session::{Heard, MeasureError, Session};

/// How long those who knock may take to say what came of it.
const PATIENCE: Duration = Duration::from_secs(2);

impl Session {
    /// Has each silent rank's doors knocked at from another host, and adds what came of it to what is known.
    pub(super) fn knock_at_the_silent(&mut self, loss: &mut Loss) -> Result<(), MeasureError> {
        let mut awaited = 0;
        for (rank, _) in &loss.silent {
            let prober = self
                .ranks_elsewhere(*rank)
                .into_iter()
                .find(|prober| !loss.is_missing(*prober));
            if let Some(prober) = prober {
                self.order(prober, &Order::Knock(*rank))?;
                awaited += 1;
            }
        }
        let until = Instant::now() + PATIENCE;
        while awaited > 0 {
            match self.listen(until) {
                Heard::Answer(_, Answer::Knocked { rank, knock }) => {
                    loss.knocks.push((rank, knock));
                    awaited -= 1;
                }
                Heard::Interrupted | Heard::Nothing => break,
                _ => {}
            }
        }
        Ok(())
    }

    /// Ranks that take part on other hosts than `rank`.
    fn ranks_elsewhere(&self, rank: u32) -> Vec<u32> {
        let host = self.fabric().rank(rank).map(|record| &record.host);
        let ranks = self.fabric().ranks.iter();
        ranks
            .filter(|record| Some(&record.host) != host && !self.absent.contains(&record.rank))
            .map(|record| record.rank)
            .collect()
    }
}
