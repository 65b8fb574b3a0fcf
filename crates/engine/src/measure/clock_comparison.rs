//! Comparing the clocks of ranks: all at the setup, and again between iterations when one is no longer known well enough.
//! Nothing is timed meanwhile. A rank that does not answer is noticed by the next order.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::error::MeasureError;
use super::protocol::{Answer, Order};
use super::session::Session;
use super::sink::Sink;
use crate::launch::clock::{self, Comparison, RoundTrip};
use crate::launch::clock_estimate::ClockEstimate;
use record::Event;
use record::units::Nanos;

/// Round trips of the first comparison with a rank.
const FIRST_ROUND_TRIPS: usize = 16;
/// Round trips of each later one.
const ROUND_TRIPS: usize = 8;
/// After so long without a comparison, clocks are compared at the end of measuring: nothing else would show that one was set.
const LONGEST_UNCHECKED: Nanos = Nanos::from_secs(1);

/// A clock that jumped: a rank that has it, and by how much at most.
pub(super) type Jump = (u32, u64);

impl Session {
    /// Compares all clocks for the first time; a rank that does not answer ends the run.
    pub(super) fn compare_first(&mut self) -> Result<(), MeasureError> {
        for rank in 0..self.coordinator.world() {
            let mut trips = Vec::with_capacity(FIRST_ROUND_TRIPS);
            for _ in 0..FIRST_ROUND_TRIPS {
                let sent = clock::now();
                self.order(rank, &Order::Ping)?;
                let until = Instant::now() + self.deadline();
                let remote = loop {
                    if let (_, Answer::Pong(remote)) = self.receive_during_setup(until, rank)? {
                        break remote;
                    }
                };
                trips.push(RoundTrip {
                    sent,
                    remote,
                    received: clock::now(),
                });
            }
            let comparison = Comparison::from_round_trips(&trips).ok_or_else(|| MeasureError::Protocol {
                rank,
                problem: "no clock reading arrived".to_string(),
            })?;
            self.set_clock(rank, comparison);
        }
        Ok(())
    }

    /// Compares with a rank that has rejoined; false when it does not answer. Losses are deferred.
    pub(super) fn compare_rejoined(&mut self, rank: u32) -> Result<bool, MeasureError> {
        let comparison = self.compare(rank, FIRST_ROUND_TRIPS)?;
        if let Some(comparison) = comparison {
            self.set_clock(rank, comparison);
        }
        Ok(comparison.is_some())
    }

    /// Compares the clocks of all hosts again, known or not.
    pub fn compare_clocks(&mut self) -> Result<(), MeasureError> {
        let everyone: Vec<u32> = (0..self.coordinator.world()).collect();
        let present = self
            .clocks
            .due(&self.present_among(&everyone), clock::now(), |_| true);
        for rank in present {
            if self.compare_again(rank)?.is_none() {
                break;
            }
        }
        Ok(())
    }

    /// Compares the clocks of `ranks` that are no longer known well enough, as far as there is time for it, and records it. Returns
    /// those that jumped.
    pub(super) fn keep_clocks_known(
        &mut self,
        ranks: &[u32],
        sink: &mut Sink,
    ) -> Result<Vec<Jump>, MeasureError> {
        let now = clock::now();
        self.compare_wanted(ranks, sink, |estimate| estimate.is_due(now))
    }

    /// Compares the clocks of `ranks` after the last measurement of several, so that one that was set meanwhile is noticed.
    pub(super) fn check_clocks(&mut self, ranks: &[u32], sink: &mut Sink) -> Result<(), MeasureError> {
        let now = clock::now();
        let is_wanted = |estimate: &ClockEstimate| now.since(estimate.compared_at()) > LONGEST_UNCHECKED;
        self.compare_wanted(ranks, sink, is_wanted).map(|_| ())
    }

    fn compare_wanted(
        &mut self,
        ranks: &[u32],
        sink: &mut Sink,
        is_wanted: impl Fn(&ClockEstimate) -> bool,
    ) -> Result<Vec<Jump>, MeasureError> {
        let mut jumps = Vec::new();
        for rank in self
            .clocks
            .due(&self.present_among(ranks), clock::now(), is_wanted)
        {
            if self.is_interrupted() || !self.clocks.may_compare(rank, clock::now()) {
                break;
            }
            match self.compare_again(rank)? {
                Some(0) => {}
                Some(by) => jumps.push((rank, by)),
                None => break,
            }
        }
        for comparison in self.clocks.take_unwritten() {
            sink.write(&Event::Clock(comparison))?;
        }
        Ok(jumps)
    }

    /// By how much the clock of `rank` jumped since the last comparison, at most; 0 when it did not, none when the rank does not answer.
    fn compare_again(&mut self, rank: u32) -> Result<Option<u64>, MeasureError> {
        let started = Instant::now();
        let Some(comparison) = self.compare(rank, ROUND_TRIPS)? else {
            return Ok(None);
        };
        let jump = self.clocks.add(rank, comparison, started.elapsed());
        if let Some(by) = jump {
            let by = Duration::from_nanos(by.unsigned_abs());
            tracing::warn!(
                rank,
                ?by,
                "its clock is not where it should be: it was set or runs at another rate"
            );
        }
        let at_most = |by: i64| by.unsigned_abs().saturating_add(comparison.offset.uncertainty);
        Ok(Some(jump.map_or(0, at_most)))
    }

    /// A comparison between measurements; none when the rank does not answer. Losses are deferred.
    fn compare(&mut self, rank: u32, round_trips: usize) -> Result<Option<Comparison>, MeasureError> {
        let mut trips = Vec::with_capacity(round_trips);
        while trips.len() < round_trips {
            let (sent, until) = (clock::now(), Instant::now() + self.deadline());
            let mut answered = None;
            let orders = BTreeMap::from([(rank, Order::Ping)]);
            self.request(orders, until, |from, answer| match answer {
                Answer::Pong(remote) if from == rank => {
                    answered = Some((remote, clock::now()));
                    None
                }
                other => Some(other),
            })?;
            let Some((remote, received)) = answered else {
                return Ok(None);
            };
            trips.push(RoundTrip {
                sent,
                remote,
                received,
            });
        }
        Ok(Comparison::from_round_trips(&trips))
    }

    fn set_clock(&mut self, rank: u32, comparison: Comparison) {
        let named = self
            .rank_infos
            .get(rank as usize)
            .and_then(|info| info.clock.clone());
        let ours = probe::host::clock();
        self.clocks
            .set(rank, named.as_deref(), ours.as_deref(), comparison);
    }

    fn present_among(&self, ranks: &[u32]) -> Vec<u32> {
        let present = ranks.iter().filter(|rank| !self.absent.contains(rank));
        present.copied().collect()
    }
}

#[cfg(test)]
mod tests;
