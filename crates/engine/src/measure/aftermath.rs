//! After a loss or a standstill: everybody says where they were, and the doors of ranks that fell silent are knocked at
//! over the rails, because a cut management link is no frozen host.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use super::loss::Loss;
use super::orders::{Answer, Order};
use super::session::{Heard, MeasureError, Session};
use crate::transport::Knock;
use record::RankRecord;

/// How long survivors may take to say where they were.
const GRACE: Duration = Duration::from_secs(2);
/// The same when the operator wants to stop.
const HURRY: Duration = Duration::from_millis(500);
/// After one rank fell silent, so long for others to be missed too: more than any two beats are apart.
const MORE_SILENCE: Duration = Duration::from_millis(1200);

impl Session {
    /// Adds to `loss` what `ranks`, told to stop, have to say. Whoever answers for `only_cell` had done its part; with
    /// several cells it may have more to say.
    pub(super) fn gather(
        &mut self,
        loss: &mut Loss,
        ranks: &[u32],
        only_cell: bool,
    ) -> Result<(), MeasureError> {
        let started = Instant::now();
        // Somebody who was asked to stop is about to be killed.
        let until = started + if self.is_interrupted() { HURRY } else { GRACE };
        let mut asked: BTreeSet<u32> = BTreeSet::new();
        loop {
            for rank in self.unasked(loss, &asked) {
                asked.insert(rank);
                self.have_knocked_at(rank, loss)?;
            }
            let is_early = !loss.silent.is_empty() && started.elapsed() < MORE_SILENCE;
            let is_known = ranks.iter().all(|rank| loss.knows(*rank));
            if is_known && !is_early && loss.knocks.len() >= loss.silent.len() {
                return Ok(());
            }
            let glance = match is_known {
                true => until
                    .min(started + MORE_SILENCE)
                    .max(Instant::now() + Duration::from_millis(10)),
                false => until,
            };
            match self.listen_on(glance) {
                Heard::Answer(_, Answer::Knocked { rank, knock }) => loss.knocks.push((rank, knock)),
                Heard::Answer(rank, answer @ (Answer::Stopped { .. } | Answer::CannotPrepare { .. })) => {
                    loss.stopped.push((rank, answer));
                }
                Heard::Answer(_, Answer::Moving { .. }) => {}
                Heard::Answer(rank, answer) if only_cell && answer.cell().is_some() => {
                    loss.idle.push((rank, Instant::now()));
                }
                Heard::Answer(..) => {}
                Heard::Gone(rank, reason) => loss.gone.push((rank, reason)),
                Heard::Silent(rank, how_long) => loss.silent.push((rank, how_long)),
                Heard::Nothing if Instant::now() < until => {}
                Heard::Interrupted | Heard::Nothing => return Ok(()),
            }
        }
    }

    /// Ranks that are lost at the moment the run is interrupted. A launcher that misses a rank asks all others to stop:
    /// then the loss is what ends the run.
    pub(super) fn lost_meanwhile(&self) -> Vec<(u32, String)> {
        let until = Instant::now() + HURRY;
        let mut gone = Vec::new();
        loop {
            match self.listen_on(until) {
                Heard::Gone(rank, reason) => gone.push((rank, reason)),
                Heard::Nothing => return gone,
                _ => {}
            }
            if !gone.is_empty() {
                return gone;
            }
        }
    }

    /// Silent ranks whose doors nobody was asked to knock at.
    fn unasked(&self, loss: &Loss, asked: &BTreeSet<u32>) -> Vec<u32> {
        let silent = loss.silent.iter().map(|(rank, _)| *rank);
        silent.filter(|rank| !asked.contains(rank)).collect()
    }

    /// Asks another rank to knock at the doors of `rank`, one on another host if there is one; notes when there is nobody.
    fn have_knocked_at(&self, rank: u32, loss: &mut Loss) -> Result<(), MeasureError> {
        let host = self.fabric().rank(rank).map(|record| &record.host);
        let there = |record: &&RankRecord| {
            record.rank != rank && !self.absent.contains(&record.rank) && !loss.is_missing(record.rank)
        };
        let others = self.fabric().ranks.iter().filter(there);
        match others.min_by_key(|record| Some(&record.host) == host) {
            Some(prober) => self.order(prober.rank, &Order::Knock(rank)),
            None => {
                loss.knocks.push((rank, Knock::Unknown));
                Ok(())
            }
        }
    }
}
