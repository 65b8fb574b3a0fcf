//! The cells of one slot, which run at the same time: the barrier after every order, and what happens when a rank is lost.

use std::collections::{BTreeSet, HashSet};
use std::time::{Duration, Instant};

use super::cell_progress::CellProgress;
use super::error::MeasureError;
use super::loss::Loss;
use super::protocol::{Answer, Order};
use super::session::{Received, Session};
use super::sink::Sink;
use record::units::Nanos;
use record::{Cell, Event, Lost, TestRecord};

/// How much longer than the deadline a rank may take to report that it is stuck.
const GRACE: Duration = Duration::from_secs(2);

/// The cells of a slot and their ranks.
pub(super) struct Slot<'a> {
    pub(super) session: &'a mut Session,
    pub(super) cells: Vec<CellProgress<'a>>,
    pub(super) test: &'a TestRecord,
    pub(super) round: u16,
    pub(super) seed: u64,
    pub(super) ranks: Vec<u32>,
    /// The most cells that one rank runs at the same time.
    pub(super) at_once: u16,
    pub(super) run_until: Option<Instant>,
    pub(super) confidence: f64,
    pub(super) notes: Vec<String>,
}

/// Why a slot ends early.
pub(super) enum SlotAbort {
    Interrupted,
    Lost(Loss),
}

impl<'a> Slot<'a> {
    pub fn new(
        session: &'a mut Session,
        cells: &[&'a Cell],
        test: &'a TestRecord,
        round: u16,
        seed: u64,
        run_until: Option<Instant>,
        confidence: f64,
    ) -> Slot<'a> {
        let mut ranks: Vec<u32> = cells.iter().flat_map(|cell| cell.ranks.iter().copied()).collect();
        ranks.sort_unstable();
        ranks.dedup();
        let cells_of = |rank: &u32| cells.iter().filter(|cell| cell.ranks.contains(rank)).count();
        let at_once = ranks.iter().map(cells_of).max().unwrap_or(1) as u16;
        let planned = |cell: &Cell| session.planned_bytes(cell, at_once);
        let cells = cells
            .iter()
            .map(|cell| CellProgress::new(cell, planned(cell)))
            .collect();
        Slot {
            session,
            cells,
            test,
            round,
            seed,
            ranks,
            at_once,
            run_until,
            confidence,
            notes: Vec::new(),
        }
    }

    /// Waits until every rank has answered for every cell it takes part in. `expected` says whether an answer is the expected
    /// one; `milestone` what a rank has reached once it has given it.
    pub(super) fn collect(
        &mut self,
        milestone: &str,
        sink: &mut Sink,
        mut expected: impl FnMut(&mut Slot<'a>, u32, &Answer) -> bool,
    ) -> Result<Result<(), SlotAbort>, MeasureError> {
        let mut pending: HashSet<(u32, u32)> = HashSet::new();
        for running in &self.cells {
            pending.extend(running.cell.ranks.iter().map(|rank| (running.cell.id, *rank)));
        }
        let mut so_far = Loss::after(milestone);
        // A rank may be stuck for one deadline and reports it then; one that reports nothing gets a little longer. While its
        // data moves it reports that, and an iteration may take as long as it needs.
        let timeout = self.session.deadline() + GRACE;
        let mut until = Instant::now() + timeout;
        while !pending.is_empty() {
            match self.session.receive(until) {
                Received::Answer(_, Answer::Intruder(what)) => {
                    self.notes
                        .push(format!("refused a connection from outside the run {what}"));
                    sink.write(&Event::Intruder { what })?;
                }
                Received::Answer(_, Answer::Moving { .. }) => until = Instant::now() + timeout,
                Received::Answer(rank, answer) => {
                    if matches!(answer, Answer::Stopped { .. } | Answer::CannotPrepare { .. }) {
                        return Ok(Err(SlotAbort::Lost(Loss {
                            stopped: vec![(rank, answer)],
                            ..so_far
                        })));
                    }
                    if expected(self, rank, &answer)
                        && let Some(cell) = answer.cell()
                    {
                        pending.remove(&(cell, rank));
                        if !pending.iter().any(|(_, other)| *other == rank) {
                            so_far.idle.push((rank, Instant::now()));
                        }
                    }
                }
                Received::Disconnected(rank, reason) => {
                    return Ok(Err(SlotAbort::Lost(Loss {
                        disconnected: vec![(rank, reason)],
                        ..so_far
                    })));
                }
                Received::Silent(rank, how_long) => {
                    return Ok(Err(SlotAbort::Lost(Loss {
                        silent: vec![(rank, how_long)],
                        ..so_far
                    })));
                }
                Received::Interrupted => return Ok(Err(SlotAbort::Interrupted)),
                Received::Timeout => {
                    let unresponsive: BTreeSet<u32> = pending.iter().map(|(_, rank)| *rank).collect();
                    let reason = format!("no answer for {}, and nothing moved", Nanos::from(timeout));
                    return Ok(Err(SlotAbort::Lost(Loss {
                        unresponsive: unresponsive
                            .into_iter()
                            .map(|rank| (rank, reason.clone()))
                            .collect(),
                        ..so_far
                    })));
                }
            }
        }
        Ok(Ok(()))
    }

    /// Aborts all ranks, asks where they were, and records what is known. True when a rank was lost, false when the run was only
    /// interrupted.
    pub(super) fn abort(&mut self, why: SlotAbort, sink: &mut Sink) -> Result<bool, MeasureError> {
        self.session.communicators.clear();
        for &rank in &self.ranks {
            self.session.order(rank, &Order::Abort)?;
        }
        let mut loss = match why {
            SlotAbort::Interrupted => match self.session.losses_at_interrupt() {
                disconnected if disconnected.is_empty() => return Ok(false),
                disconnected => Loss {
                    disconnected,
                    ..Loss::default()
                },
            },
            SlotAbort::Lost(loss) => loss,
        };
        self.session
            .survey_loss(&mut loss, &self.ranks, self.cells.len() == 1)?;
        let cell = self.cells.first().map(|running| running.cell.id);
        let doing = self.cells.first().map(CellProgress::describe).unwrap_or_default();
        let present = self.session.present();
        let here: Vec<u32> = self.session.ranks_here();
        for (rank, cause, reason) in loss.lost(&here, present) {
            let lost: Lost = self.session.lost(rank, cause, cell, &doing, reason);
            self.notes.push(format!("rank {rank} is lost: {}", lost.reason));
            sink.write(&Event::Lost(lost))?;
        }
        let deadline = self.session.deadline().into();
        for stalled in loss.stalled(cell.unwrap_or_default(), deadline) {
            sink.write(&Event::Stalled(stalled))?;
        }
        sink.flush()?;
        Ok(true)
    }
}
