//! The coordinator's state of a run, and its exchange of orders and answers with the ranks.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use super::cancellation::Cancellation;
use super::capabilities::Capabilities;
use super::clocks::Clocks;
use super::communicator_cache::CommunicatorCache;
use super::error::MeasureError;
use super::protocol::{Answer, Order, QuitReason, RankInfo, Setup};
use crate::collective::{gpu, planned_bytes};
use crate::launch::clock;
use crate::launch::{Coordinator, Incoming};
use crate::transport::Endpoint;
use probe::host;
use record::units::Nanos;
use record::{
    Cell, ClockRecord, DeviceKind, EndReason, LinkTraffic, LossCause, Lost, NcclRecord, ReachRecord,
};
use topology::Fabric;

/// How often a waiting coordinator checks whether it was interrupted.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// How a rank's process ended, as text; none while it runs or where that is not known.
pub type ExitLookup = Box<dyn FnMut(u32) -> Option<String>>;

/// A run in progress.
pub struct Session {
    pub(super) coordinator: Coordinator,
    pub(super) setup: Setup,
    exits: ExitLookup,
    stop: Cancellation,
    pub(super) fabric: Fabric,
    /// The machine of every rank; several hosts (containers, namespaces) may share one.
    pub(super) machines: Vec<String>,
    pub(super) rank_infos: Vec<RankInfo>,
    /// The endpoint of every rank.
    pub(super) ends: Vec<Endpoint>,
    pub(super) capabilities: Capabilities,
    pub(super) communicators: CommunicatorCache,
    pub(super) clocks: Clocks,
    pub(super) timer: Nanos,
    /// Ranks the run continues without.
    pub(super) absent: BTreeSet<u32>,
    /// Whether a rank was lost.
    pub(super) has_lost: bool,
    /// Received while waiting for something else; delivered again by the next receive.
    pub(super) deferred: RefCell<VecDeque<Received>>,
}

impl Session {
    /// A run whose ranks have joined but are not set up: their inventory can be requested, nothing can be measured.
    pub fn new(
        coordinator: Coordinator,
        setup: Setup,
        exits: ExitLookup,
        stop: impl Into<Cancellation>,
    ) -> Session {
        Session {
            coordinator,
            setup,
            exits,
            stop: stop.into(),
            fabric: Fabric {
                hosts: Vec::new(),
                ranks: Vec::new(),
            },
            machines: Vec::new(),
            rank_infos: Vec::new(),
            ends: Vec::new(),
            capabilities: Capabilities::unknown(),
            communicators: CommunicatorCache::default(),
            clocks: Clocks::default(),
            timer: Nanos(0),
            absent: BTreeSet::new(),
            has_lost: false,
            deferred: RefCell::default(),
        }
    }

    /// The hosts and ranks of the run.
    pub fn fabric(&self) -> &Fabric {
        &self.fabric
    }

    /// How ranks access each other's GPU memory.
    pub fn reach(&self) -> &[ReachRecord] {
        &self.capabilities.reach
    }

    /// The ranks' NCCL, or why it cannot be used; none when it was not requested.
    pub fn nccl(&self) -> Option<&Result<NcclRecord, String>> {
        self.capabilities.nccl.as_ref()
    }

    /// Whether the ranks can use RDMA, or which rank cannot and why.
    pub fn verbs(&self) -> &Result<(), String> {
        &self.capabilities.verbs
    }

    /// Whether GPUDirect RDMA works on all ranks, or which rank lacks it and why; none when it was not checked.
    pub fn gpudirect(&self) -> Option<&Result<(), String>> {
        self.capabilities.gpudirect.as_ref()
    }

    /// Whether every two ranks access each other's GPU memory directly.
    pub fn is_direct(&self) -> bool {
        self.capabilities.direct
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

    /// Offset and uncertainty of every rank's clock, now.
    pub fn clocks(&self) -> Vec<ClockRecord> {
        self.clocks.records(clock::now())
    }

    /// Tells every rank that the run is over.
    pub fn quit(&self) {
        let reason = match self.has_lost {
            true => QuitReason::WithLosses,
            false => QuitReason::Complete,
        };
        // A rank that is gone does not need it.
        let _ = self.order_all(&Order::Quit(reason));
    }

    pub(super) fn deadline(&self) -> Duration {
        self.setup.deadline.into()
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
        let reason = self.wait_for_exit(rank).unwrap_or(noticed);
        Lost {
            rank,
            host,
            cell,
            doing: doing.to_string(),
            reason,
            cause,
        }
    }

    /// How a process ended is known only a moment after its socket closes.
    fn wait_for_exit(&mut self, rank: u32) -> Option<String> {
        for _ in 0..10 {
            if let Some(exit) = (self.exits)(rank) {
                return Some(exit);
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
        if let Err(error) = self.coordinator.send(rank, message) {
            // Not an error here: the same loss arrives through the inbox.
            tracing::debug!(rank, %error, "order not delivered");
        }
        Ok(())
    }

    pub(super) fn order_all(&self, order: &Order) -> Result<(), MeasureError> {
        let present = (0..self.coordinator.world()).filter(|rank| !self.absent.contains(rank));
        present.into_iter().try_for_each(|rank| self.order(rank, order))
    }

    /// The number of ranks that take part.
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

    /// The next thing received before `until`; ends early when the run is cancelled.
    pub(super) fn receive(&self, until: Instant) -> Received {
        while !self.is_interrupted() {
            let poll_until = until.min(Instant::now() + POLL_INTERVAL);
            match self.receive_any(poll_until) {
                Received::Timeout if Instant::now() < until => {}
                received => return received,
            }
        }
        // A launcher may ask to stop because a rank is lost: the loss is reported first.
        loop {
            match self.receive_any(Instant::now()) {
                lost @ Received::Disconnected(..) => return lost,
                Received::Timeout => return Received::Interrupted,
                _ => {}
            }
        }
    }

    /// Sends every rank its order and receives answers until `until`. `take` keeps an expected answer and hands back any other.
    /// Those, and losses, are deferred to the next receive. Returns the ranks that did not answer.
    pub(super) fn request(
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
        let mut deferred = Vec::new();
        while !waiting.is_empty() {
            match self.receive(until) {
                Received::Answer(rank, answer) => match take(rank, answer) {
                    None => waiting.retain(|other| *other != rank),
                    Some(answer) => deferred.push(Received::Answer(rank, answer)),
                },
                lost @ (Received::Disconnected(rank, _) | Received::Silent(rank, _)) => {
                    waiting.retain(|other| *other != rank);
                    deferred.push(lost);
                }
                Received::Interrupted | Received::Timeout => break,
            }
        }
        self.deferred.borrow_mut().extend(deferred);
        Ok(waiting)
    }

    /// Whether the operator asked to stop, or the run's time is over.
    pub(super) fn is_interrupted(&self) -> bool {
        self.stop.is_cancelled()
    }

    /// Why a cancelled run ends.
    pub(super) fn why_stopped(&self) -> EndReason {
        match self.stop.is_requested() {
            true => EndReason::Interrupted,
            false => EndReason::Budget,
        }
    }

    /// The same before anything was measured.
    pub(super) fn stopped_early(&self) -> MeasureError {
        match self.stop.is_requested() {
            true => MeasureError::InterruptedEarly,
            false => MeasureError::BudgetEarly,
        }
    }

    /// The next thing received before `until`, even when the run is cancelled.
    pub(super) fn receive_any(&self, until: Instant) -> Received {
        if let Some(received) = self.deferred.borrow_mut().pop_front() {
            return received;
        }
        loop {
            match self.coordinator.receive(until) {
                // Late messages of a rank the run continues without are dropped.
                Some((rank, _)) if self.absent.contains(&rank) => {}
                Some((rank, Incoming::Message(message))) => match serde_json::from_slice(&message) {
                    Ok(answer) => return Received::Answer(rank, answer),
                    Err(error) => {
                        let problem = format!("malformed message of {} bytes: {error}", message.len());
                        return Received::Disconnected(rank, problem);
                    }
                },
                Some((rank, Incoming::Silent(how_long))) => return Received::Silent(rank, how_long),
                Some((rank, Incoming::Disconnected(reason))) => return Received::Disconnected(rank, reason),
                None => return Received::Timeout,
            }
        }
    }
}

/// What the coordinator receives while it waits.
pub(super) enum Received {
    Answer(u32, Answer),
    Disconnected(u32, String),
    Silent(u32, Duration),
    Interrupted,
    Timeout,
}

impl Received {
    /// The rank it came from.
    pub fn rank(&self) -> Option<u32> {
        match self {
            Received::Answer(rank, _) | Received::Disconnected(rank, _) | Received::Silent(rank, _) => {
                Some(*rank)
            }
            Received::Interrupted | Received::Timeout => None,
        }
    }
}
