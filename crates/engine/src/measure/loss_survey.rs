//! After a loss or a hang: all ranks report where they were, and silent ranks are probed over the rails, to distinguish a cut
//! management link from a frozen host.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use super::error::MeasureError;
use super::loss::Loss;
use super::protocol::{Answer, Order};
use super::session::{Received, Session};
use crate::transport::Liveness;
use record::RankRecord;

/// How long survivors may take to report where they were.
const GRACE: Duration = Duration::from_secs(2);
/// The same when the run was cancelled.
const SHORT_GRACE: Duration = Duration::from_millis(500);
/// After one rank fell silent, time for others to be noticed too: longer than any heartbeat interval.
const MORE_SILENCE: Duration = Duration::from_millis(1200);

impl Session {
    /// Adds to `loss` what `ranks` answer after an abort. With `only_cell`, a rank that answers for its cell had completed its
    /// order; with several cells more answers may follow.
    pub(super) fn survey_loss(
        &mut self,
        loss: &mut Loss,
        ranks: &[u32],
        only_cell: bool,
    ) -> Result<(), MeasureError> {
        let started = Instant::now();
        // A cancelled run may be killed soon.
        let until = started + if self.is_interrupted() { SHORT_GRACE } else { GRACE };
        let mut probed: BTreeSet<u32> = BTreeSet::new();
        loop {
            for rank in self.unprobed(loss, &probed) {
                probed.insert(rank);
                self.request_probe(rank, loss)?;
            }
            let is_early = !loss.silent.is_empty() && started.elapsed() < MORE_SILENCE;
            let is_known = ranks.iter().all(|rank| loss.is_located(*rank));
            if is_known && !is_early && loss.probes.len() >= loss.silent.len() {
                return Ok(());
            }
            let wait_until = match is_known {
                true => until
                    .min(started + MORE_SILENCE)
                    .max(Instant::now() + Duration::from_millis(10)),
                false => until,
            };
            match self.receive_any(wait_until) {
                Received::Answer(_, Answer::RankProbed { rank, result }) => loss.probes.push((rank, result)),
                Received::Answer(rank, answer @ (Answer::Stopped { .. } | Answer::CannotPrepare { .. })) => {
                    loss.stopped.push((rank, answer));
                }
                Received::Answer(_, Answer::Moving { .. }) => {}
                Received::Answer(rank, answer) if only_cell && answer.cell().is_some() => {
                    loss.idle.push((rank, Instant::now()));
                }
                Received::Answer(..) => {}
                Received::Disconnected(rank, reason) => loss.disconnected.push((rank, reason)),
                Received::Silent(rank, how_long) => loss.silent.push((rank, how_long)),
                Received::Timeout if Instant::now() < until => {}
                Received::Interrupted | Received::Timeout => return Ok(()),
            }
        }
    }

    /// Ranks that are lost at the moment the run is interrupted. A launcher that misses a rank interrupts all others: then the
    /// loss ends the run.
    pub(super) fn losses_at_interrupt(&self) -> Vec<(u32, String)> {
        let until = Instant::now() + SHORT_GRACE;
        let mut lost = Vec::new();
        loop {
            match self.receive_any(until) {
                Received::Disconnected(rank, reason) => lost.push((rank, reason)),
                Received::Timeout => return lost,
                _ => {}
            }
            if !lost.is_empty() {
                return lost;
            }
        }
    }

    /// Silent ranks that were not probed yet.
    fn unprobed(&self, loss: &Loss, probed: &BTreeSet<u32>) -> Vec<u32> {
        let silent = loss.silent.iter().map(|(rank, _)| *rank);
        silent.filter(|rank| !probed.contains(rank)).collect()
    }

    /// Asks another rank to probe `rank`, one on another host if there is one; records when there is none.
    fn request_probe(&self, rank: u32, loss: &mut Loss) -> Result<(), MeasureError> {
        let host = self.fabric().rank(rank).map(|record| &record.host);
        let is_available = |record: &&RankRecord| {
            record.rank != rank && !self.absent.contains(&record.rank) && !loss.is_missing(record.rank)
        };
        let others = self.fabric().ranks.iter().filter(is_available);
        match others.min_by_key(|record| Some(&record.host) == host) {
            Some(prober) => self.order(prober.rank, &Order::ProbeRank(rank)),
            None => {
                loss.probes.push((rank, Liveness::Unknown));
                Ok(())
            }
        }
    }
}
