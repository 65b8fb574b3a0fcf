//! The coordinator's side of a run: ranks introduce themselves, clocks are compared, slots are measured one after another.

use std::cell::RefCell;
use std::collections::{BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use super::agreement::Agreement;
use super::communicators::Communicators;
use super::orders::{Answer, Card, Order, QuitReason, Setup};
use super::sink::{Sink, SinkError};
use super::slot::{Measured, Slot, SlotEnd};
use super::stop_sign::Cancellation;
use super::switches::SwitchWatch;
use crate::collective::{gpu, planned_bytes};
use crate::launch::clock::Offset;
use crate::launch::{Coordinator, Incoming};
use crate::transport::Endpoint;
use probe::host;
use record::units::{Nanos, Rate};
use record::{
    Cell, ClockRecord, DeviceKind, EndReason, Event, LinkTraffic, LossCause, Lost, NcclRecord, ReachRecord,
    TestRecord,
};
use topology::Fabric;

/// How often a waiting coordinator looks whether it was interrupted.
const GLANCE: Duration = Duration::from_millis(50);

/// The run cannot go on, through no fault of the fabric.
#[derive(Debug, thiserror::Error)]
pub enum MeasureError {
    /// A rank cannot take part.
    #[error("rank {rank} cannot take part: {reason}")]
    CannotMeet {
        /// The rank.
        rank: u32,
        /// What it said.
        reason: String,
    },
    /// A rank was lost before anything was measured.
    #[error("rank {rank} was lost while ranks were meeting: {reason}")]
    LostEarly {
        /// The rank.
        rank: u32,
        /// What was noticed.
        reason: String,
    },
    /// Hosts do not have the same rails.
    #[error("{}", .0.join("\n"))]
    RailsDiffer(Vec<String>),
    /// The operator asked to stop before anything was measured.
    #[error("interrupted while ranks were meeting")]
    InterruptedEarly,
    /// Its time was over before anything was measured.
    #[error("the run's time budget was spent while ranks were meeting")]
    BudgetEarly,
    /// The run cannot be written.
    #[error(transparent)]
    Sink(#[from] SinkError),
    /// A message makes no sense.
    #[error("rank {rank} and the coordinator do not understand each other: {problem}")]
    Protocol {
        /// The rank.
        rank: u32,
        /// What was wrong.
        problem: String,
    },
}

/// Told how the run goes.
pub trait Progress {
    /// So many cells will be measured; said again when suspects are measured again.
    fn plan(&self, cells: usize);
    /// A slot is about to be measured.
    fn slot(&self, cells: &[&Cell], round: u16);
    /// A cell is done.
    fn cell_done(&self, result: &CellResult<'_>);
    /// Something worth saying.
    fn note(&self, text: &str);
}

/// What a finished cell came to, for whoever watches.
pub struct CellResult<'a> {
    /// The cell.
    pub cell: &'a Cell,
    /// Measurement round.
    pub round: u16,
    /// Times of the timed iterations, ascending.
    pub times: &'a [u64],
    /// Wrong elements found, over all iterations and ranks; none when nothing was checked.
    pub wrong: Option<u64>,
    /// Median wire rate of the busiest link.
    pub rate: Option<Rate>,
}

/// Says how a rank's process ended, when it has.
pub type ExitLookup = Box<dyn FnMut(u32) -> Option<String>>;

/// A run in progress.
pub struct Session {
    pub(super) coordinator: Coordinator,
    pub(super) setup: Setup,
    end_of: ExitLookup,
    stop: Cancellation,
    pub(super) fabric: Fabric,
    /// The machine of every rank, which several hosts (containers, namespaces) may share.
    pub(super) machines: Vec<String>,
    /// What every rank said of itself.
    pub(super) cards: Vec<Card>,
    /// Where every rank can be reached.
    pub(super) ends: Vec<Endpoint>,
    pub(super) agreed: Agreement,
    pub(super) communicators: Communicators,
    pub(super) offsets: Vec<Offset>,
    timer: Nanos,
    /// Ranks the run goes on without.
    pub(super) absent: BTreeSet<u32>,
    /// Whether a rank was lost.
    pub(super) has_lost: bool,
    /// What was heard while something else was waited for, and is to be heard again.
    pub(super) overheard: RefCell<VecDeque<Heard>>,
}

impl Session {
    /// A world whose ranks have not introduced themselves: they can be asked, and nothing can be measured.
    pub fn new(
        coordinator: Coordinator,
        setup: Setup,
        end_of: ExitLookup,
        stop: impl Into<Cancellation>,
    ) -> Session {
        Session {
            coordinator,
            setup,
            end_of,
            stop: stop.into(),
            fabric: Fabric {
                hosts: Vec::new(),
                ranks: Vec::new(),
            },
            machines: Vec::new(),
            cards: Vec::new(),
            ends: Vec::new(),
            agreed: Agreement::of_strangers(),
            communicators: Communicators::default(),
            offsets: Vec::new(),
            timer: Nanos(0),
            absent: BTreeSet::new(),
            has_lost: false,
            overheard: RefCell::default(),
        }
    }

    /// Lets the ranks introduce themselves and compares their clocks.
    pub fn set_up(
        coordinator: Coordinator,
        setup: Setup,
        end_of: ExitLookup,
        stop: impl Into<Cancellation>,
    ) -> Result<Session, MeasureError> {
        let mut session = Session::new(coordinator, setup, end_of, stop);
        session.coordinator.start_heartbeat(session.setup.silence());
        let cards = session.alike()?;
        session.timer = cards.iter().map(|card| card.timer_ns).max().unwrap_or_default();
        session.agreed = Agreement::of(&cards, &session.fabric);
        session.ends = cards.iter().map(|card| card.endpoint.clone()).collect();
        session.cards = cards;
        session.order_all(&Order::Peers(session.ends.clone()))?;
        for rank in 0..session.coordinator.world() {
            let offset = session.compare_clock(rank)?;
            session.offsets.push(offset);
        }
        Ok(session)
    }

    /// The machines and ranks that met.
    pub fn fabric(&self) -> &Fabric {
        &self.fabric
    }

    /// How ranks get at each other's GPU memory.
    pub fn reach(&self) -> &[ReachRecord] {
        &self.agreed.reach
    }

    /// The ranks' NCCL, or why it cannot be used; none when nobody asked for it.
    pub fn nccl(&self) -> Option<&Result<NcclRecord, String>> {
        self.agreed.nccl.as_ref()
    }

    /// Whether the ranks can use RDMA, or whose fault it is that they cannot.
    pub fn verbs(&self) -> &Result<(), String> {
        &self.agreed.verbs
    }

    /// Whether the ranks' NICs can use the memory of their GPUs, or whose cannot; none when that was not asked.
    pub fn gpudirect(&self) -> Option<&Result<(), String>> {
        self.agreed.gpudirect.as_ref()
    }

    /// Whether every two ranks use each other's GPU memory where it is.
    pub fn is_direct(&self) -> bool {
        self.agreed.direct
    }

    /// What a cell's schedule puts on each link.
    pub(super) fn planned_bytes(&self, cell: &Cell, at_once: u16) -> Vec<LinkTraffic> {
        let planned = match cell.device {
            DeviceKind::Host => planned_bytes(cell).map_err(|error| error.to_string()),
            DeviceKind::Cuda => gpu::planned_bytes(cell, &self.ends, at_once),
        };
        planned.unwrap_or_default()
    }

    /// Cost of reading the clock on the slowest rank.
    pub fn timer(&self) -> Nanos {
        self.timer
    }

    /// How well clocks agree.
    pub fn clocks(&self) -> Vec<ClockRecord> {
        let record = |(rank, offset): (u32, &Offset)| ClockRecord {
            rank,
            offset_ns: offset.nanos,
            uncertainty_ns: offset.uncertainty,
        };
        (0..).zip(&self.offsets).map(record).collect()
    }

    /// Measures `cells` slot by slot as measurement round `round`. Returns why it ended.
    pub fn measure(
        &mut self,
        cells: &[&Cell],
        tests: &[TestRecord],
        round: u16,
        run: &mut MeasureContext<'_>,
    ) -> Result<EndReason, MeasureError> {
        for slot in cells.chunk_by(|a, b| a.slot == b.slot) {
            let test = tests.iter().find(|test| slot[0].test == test.name);
            let Some(test) = test else { continue };
            if run.is_spent() {
                return Ok(EndReason::Budget);
            }
            run.progress.slot(slot, round);
            let before = run.switches.before(slot, run.progress);
            let measured =
                Slot::new(self, slot, test, round, run.seed, run.until, run.confidence).measure(run.sink)?;
            if measured.is_complete() {
                run.switches.after(before, slot, round, run.sink, run.progress)?;
            }
            self.report(&measured, slot, round, run)?;
            match measured.end {
                SlotEnd::Complete => {}
                SlotEnd::Budget => return Ok(EndReason::Budget),
                SlotEnd::Interrupted => return Ok(self.why_stopped()),
                SlotEnd::Lost => return Ok(EndReason::Lost),
            }
        }
        Ok(EndReason::Finished)
    }

    /// Tells every rank that the run is over.
    pub fn quit(&self) {
        // Whoever is gone already does not need to be told.
        let parting = match self.has_lost {
            true => QuitReason::WithLosses,
            false => QuitReason::Complete,
        };
        let _ = self.order_all(&Order::Quit(parting));
    }

    fn report(
        &self,
        measured: &Measured,
        slot: &[&Cell],
        round: u16,
        run: &mut MeasureContext<'_>,
    ) -> Result<(), MeasureError> {
        for (cell, outcome) in slot.iter().zip(&measured.cells) {
            if measured.is_complete() {
                run.progress.cell_done(&CellResult {
                    cell,
                    round,
                    times: outcome.times.as_slice(),
                    wrong: outcome.wrong,
                    rate: outcome.rate,
                });
            }
        }
        for note in &measured.notes {
            run.progress.note(note);
        }
        run.sink.flush()?;
        Ok(())
    }

    pub(super) fn deadline(&self) -> Duration {
        self.setup.deadline.into()
    }

    pub(super) fn offset(&self, rank: u32) -> Offset {
        self.offsets.get(rank as usize).copied().unwrap_or(Offset {
            nanos: 0,
            uncertainty: 0,
        })
    }

    /// Whether more ranks than cores share the machine of `rank`.
    pub(super) fn is_crowded(&self, rank: u32) -> bool {
        let Some(record) = self.fabric.rank(rank) else {
            return true;
        };
        let machine = self.machines.get(rank as usize);
        let neighbours = self
            .machines
            .iter()
            .filter(|other| Some(*other) == machine)
            .count();
        let host = self.fabric.hosts.iter().find(|host| host.name == record.host);
        host.is_none_or(|host| neighbours > host.cores as usize)
    }

    pub(super) fn lost(
        &mut self,
        rank: u32,
        cause: LossCause,
        cell: Option<u32>,
        doing: &str,
        noticed: String,
    ) -> Lost {
        self.has_lost = true;
        let host = self
            .fabric
            .rank(rank)
            .map_or_else(String::new, |record| record.host.clone());
        let reason = match self.patiently_end_of(rank) {
            Some(end) => end,
            None => noticed,
        };
        Lost {
            rank,
            host,
            cell,
            doing: doing.to_string(),
            reason,
            cause,
        }
    }

    /// How a process ended is known a moment after its socket closes.
    fn patiently_end_of(&mut self, rank: u32) -> Option<String> {
        for _ in 0..10 {
            if let Some(end) = (self.end_of)(rank) {
                return Some(end);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        None
    }

    pub(super) fn order(&self, rank: u32, order: &Order) -> Result<(), MeasureError> {
        let message = serde_json::to_vec(order);
        let message = message.map_err(|error| MeasureError::Protocol {
            rank,
            problem: error.to_string(),
        })?;
        if let Err(gone) = self.coordinator.send(rank, message) {
            // Not an error here: the same loss arrives through the inbox, where it can be put in its place.
            tracing::debug!(rank, %gone, "order not delivered");
        }
        Ok(())
    }

    pub(super) fn order_all(&self, order: &Order) -> Result<(), MeasureError> {
        let present = (0..self.coordinator.world()).filter(|rank| !self.absent.contains(rank));
        present.into_iter().try_for_each(|rank| self.order(rank, order))
    }

    /// How many ranks take part.
    pub(super) fn present(&self) -> usize {
        self.coordinator.world() as usize - self.absent.len()
    }

    /// Ranks that take part on the coordinator's own host.
    pub(super) fn ranks_here(&self) -> Vec<u32> {
        let here = host::here().name;
        let ranks = self.fabric.ranks.iter();
        ranks
            .filter(|record| record.host == here && !self.absent.contains(&record.rank))
            .map(|record| record.rank)
            .collect()
    }

    /// The next thing heard before `until`, unless the operator asks to stop.
    pub(super) fn listen(&self, until: Instant) -> Heard {
        while !self.is_interrupted() {
            let glance = until.min(Instant::now() + GLANCE);
            match self.listen_on(glance) {
                Heard::Nothing if Instant::now() < until => {}
                heard => return heard,
            }
        }
        // Whoever asks to stop may do so because a rank is lost; that is worth more than the request.
        loop {
            match self.listen_on(Instant::now()) {
                gone @ Heard::Gone(..) => return gone,
                Heard::Nothing => return Heard::Interrupted,
                _ => {}
            }
        }
    }

    /// Whether the operator has asked to stop, or the run's time is over.
    pub(super) fn is_interrupted(&self) -> bool {
        self.stop.is_up()
    }

    /// Why a run ends that was told to stop.
    fn why_stopped(&self) -> EndReason {
        match self.stop.is_asked_for() {
            true => EndReason::Interrupted,
            false => EndReason::Budget,
        }
    }

    /// The same before anything was measured.
    pub(super) fn stopped_early(&self) -> MeasureError {
        match self.stop.is_asked_for() {
            true => MeasureError::InterruptedEarly,
            false => MeasureError::BudgetEarly,
        }
    }

    /// The next thing heard before `until`, whatever the operator asks.
    pub(super) fn listen_on(&self, until: Instant) -> Heard {
        if let Some(heard) = self.overheard.borrow_mut().pop_front() {
            return heard;
        }
        loop {
            match self.coordinator.receive(until) {
                // What comes late from a rank the run goes on without concerns nobody.
                Some((rank, _)) if self.absent.contains(&rank) => {}
                Some((rank, Incoming::Message(message))) => match serde_json::from_slice(&message) {
                    Ok(answer) => return Heard::Answer(rank, answer),
                    Err(error) => return Heard::Gone(rank, format!("it sent nonsense: {error}")),
                },
                Some((rank, Incoming::Silent(how_long))) => return Heard::Silent(rank, how_long),
                Some((rank, Incoming::Disconnected(reason))) => return Heard::Gone(rank, reason),
                None => return Heard::Nothing,
            }
        }
    }
}

/// What the coordinator hears.
pub(super) enum Heard {
    Answer(u32, Answer),
    Gone(u32, String),
    Silent(u32, Duration),
    Interrupted,
    Nothing,
}

impl Heard {
    /// Whom it came from.
    pub fn rank(&self) -> Option<u32> {
        match self {
            Heard::Answer(rank, _) | Heard::Gone(rank, _) | Heard::Silent(rank, _) => Some(*rank),
            Heard::Interrupted | Heard::Nothing => None,
        }
    }
}

/// What measuring writes to and obeys.
pub struct MeasureContext<'a> {
    /// Where events go.
    pub sink: &'a mut Sink,
    /// Who is told.
    pub progress: &'a dyn Progress,
    /// Seed of patterns.
    pub seed: u64,
    /// Confidence of the interval that the stop rule looks at.
    pub confidence: f64,
    /// When the run's budget is spent.
    pub until: Option<Instant>,
    /// Whoever reads the counters of switches.
    pub switches: SwitchWatch,
}

impl MeasureContext<'_> {
    fn is_spent(&self) -> bool {
        self.until.is_some_and(|until| Instant::now() >= until)
    }

    /// Writes how the run ended.
    pub fn end(&mut self, reason: EndReason, at: String) -> Result<(), SinkError> {
        self.sink.write(&Event::End { reason, at })?;
        self.sink.flush()
    }
}
