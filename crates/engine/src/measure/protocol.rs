//! The control protocol: orders of the coordinator and answers of the ranks, as small JSON messages over the control
//! connection.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::link::{LinkJob, LinkReport};
use crate::collective::{ProbeReport, WrongElement};
use crate::launch::{Disconnected, MessageSender};
use crate::transport::{
    CrossRailPath, Endpoint, Fault, Liveness, PathQuestion, TraceWanted, TracedBurst, TracedFlow,
};
use probe::host::Identity;
use record::units::{Bytes, Nanos};
use record::{
    Cell, CounterDelta, DeviceKind, FlowRecord, GpuReading, HostRecord, LinkTraffic, NodeInventory, RailEnd,
    StreamRecord, Stuck, TcpFlow,
};

/// See [`Setup::heartbeat_timeout`].
const SHORTEST_TIMEOUT: Duration = Duration::from_secs(2);

/// See [`Setup::coordinator_timeout`].
const RANK_WAITS_LONGER: Duration = Duration::from_secs(3);

/// The setup of a run, the same for every rank.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Setup {
    /// Rails as the operator named them; when empty, each rank discovers its own.
    pub rails: Vec<String>,
    /// Where the data is.
    pub device: DeviceKind,
    /// The largest payload of the run: memory shared with other ranks is allocated once.
    pub largest: Bytes,
    /// Whether NCCL will be used.
    pub nccl: bool,
    /// Whether RDMA was requested.
    pub verbs: bool,
    /// Index of the GID that ranks use on their RDMA ports, if the operator chose one.
    pub gid_index: Option<u8>,
    /// Faults to inject.
    pub faults: Vec<Fault>,
    /// Deadline of every wait.
    pub deadline: Nanos,
    /// Rank r listens for data on this port + r; on any free port when none is named.
    pub data_port: Option<u16>,
}

impl Setup {
    /// How long a rank may be silent before the coordinator counts it as lost: as long as any wait may take, but never so short
    /// that a busy machine looks dead.
    pub(super) fn heartbeat_timeout(&self) -> Duration {
        Duration::from(self.deadline).max(SHORTEST_TIMEOUT)
    }

    /// How long the coordinator may be silent before a rank gives up: longer than the reverse, so that a rank whose management
    /// link is cut is still there when another rank probes it.
    pub(super) fn coordinator_timeout(&self) -> Duration {
        self.heartbeat_timeout() + RANK_WAITS_LONGER
    }
}

/// A cell that a rank is to prepare.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct CellAssignment {
    pub cell: Cell,
    pub round: u16,
    pub seed: u64,
    /// Every n-th timed iteration is checked; 0 = never.
    pub verify_every: u32,
    /// Whether more ranks than cores share this host.
    pub crowded: bool,
    /// The most cells of this slot that one rank runs at the same time.
    pub at_once: u16,
    /// The communicator, when NCCL runs the cell.
    pub nccl: Option<Communicator>,
}

/// The NCCL communicator that ranks are to use.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Communicator {
    /// Its NCCL unique id in hexadecimal digits.
    pub id: String,
    /// Ids of all that will be reused; ranks destroy the others.
    pub live: Vec<String>,
}

/// NCCL on one rank.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) enum NcclSupport {
    /// It can be used.
    #[serde(rename = "There")]
    Available {
        /// As NCCL counts: 2.28.9 is 22809.
        version: u32,
        /// What it was opened as.
        library: String,
    },
    /// It cannot, and why.
    Missing(String),
}

/// RDMA on one rank.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum VerbsSupport {
    /// It can be used.
    #[serde(rename = "Ready")]
    Available,
    /// It cannot, and why.
    Missing(String),
}

impl CellAssignment {
    /// Seed of this cell's patterns: no two cells of a run share their data.
    pub fn seed_of_cell(&self) -> u64 {
        self.seed ^ u64::from(self.cell.id).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}

/// How a rank's part in the run ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum QuitReason {
    /// The run is over, and no rank was lost.
    Complete,
    /// The run is over, and ranks were lost: no rank may wait for all others.
    WithLosses,
    /// The run continues without this rank.
    #[serde(rename = "LeftOut")]
    Excluded,
}

/// An order of the coordinator to a rank.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) enum Order {
    /// Find the rails, listen for data, report the rank info.
    #[serde(rename = "Meet")]
    SetUp(Setup),
    /// Report the clock.
    Ping,
    /// The endpoints of all ranks.
    Peers(Vec<Endpoint>),
    /// For each of these cells: create the NCCL unique id, if the flag says so.
    #[serde(rename = "Introduce")]
    CreateNcclIds(Vec<(u32, bool)>),
    /// Connect and allocate for these cells, which will run at the same time.
    Prepare(Vec<CellAssignment>),
    /// Run once, starting at `at` on the rank's clock. `iteration` counts timed iterations.
    Go { at: Nanos, iteration: Option<u32> },
    /// The cells are done: report what was moved, keep the connections.
    Finish,
    /// Measure this link together with its other end.
    Link(Box<LinkJob>),
    /// Stop and report where the rank was.
    Abort,
    /// Probe the data ports of this rank.
    #[serde(rename = "Knock")]
    ProbeRank(u32),
    /// Trace the paths of these flows, which the rank sends; sparingly where answers are rationed.
    Trace(Vec<TraceWanted>),
    /// The same, but ask every switch, and again where it was silent, however seldom they answer.
    TracePatiently(Vec<TraceWanted>),
    /// Ask some of the switches of these flows, which the rank sends.
    AskSwitches(Vec<PathQuestion>),
    /// Trace several packets of one connection for each of these flows, which the rank sends.
    TraceBursts(Vec<TraceWanted>),
    /// Trace these connections of the rank, which are open.
    TraceOpen(Vec<PathQuestion>),
    /// Check whether these cross-rail paths, which start at the rank, exist.
    #[serde(rename = "Reach")]
    CheckCrossRail(Vec<CrossRailPath>),
    /// Report the inventory of the host.
    Inventory(InventoryReporter),
    /// Drop every cell in flight and every connection.
    Reset,
    /// Leave the run.
    Quit(QuitReason),
}

/// Which ranks report the inventory of their host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum InventoryReporter {
    /// The one that gets the order, under this host name.
    Named(String),
    /// The first rank of every host.
    FirstOfHost,
}

/// What a rank reports about itself at setup.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct RankInfo {
    pub host: HostRecord,
    pub identity: Identity,
    pub pid: u32,
    pub rails: Vec<RailEnd>,
    pub endpoint: Endpoint,
    pub timer_ns: Nanos,
    /// What names its clock: ranks with the same read the same one.
    pub clock: Option<String>,
    /// Its NCCL, when requested.
    pub nccl: Option<NcclSupport>,
    /// RDMA, when requested or when there is a device.
    pub verbs: Option<VerbsSupport>,
}

impl Answer {
    /// The cell that the answer is about.
    pub fn cell(&self) -> Option<u32> {
        match self {
            Answer::Prepared { cell }
            | Answer::NcclId { cell, .. }
            | Answer::Done { cell, .. }
            | Answer::Finished { cell, .. }
            | Answer::Stopped { cell, .. }
            | Answer::CannotPrepare { cell, .. } => Some(*cell),
            _ => None,
        }
    }
}

/// An answer of a rank to the coordinator.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) enum Answer {
    /// The rank is set up.
    #[serde(rename = "Met")]
    RankInfo(Box<RankInfo>),
    /// The rank cannot take part.
    #[serde(rename = "CannotMeet")]
    SetUpFailed(String),
    /// The rank's clock.
    Pong(Nanos),
    /// The NCCL unique id for this cell, from the rank that was to create it.
    #[serde(rename = "Introduced")]
    NcclId { cell: u32, id: Option<String> },
    /// Connected and allocated.
    Prepared { cell: u32 },
    /// This cell cannot run here.
    CannotPrepare {
        cell: u32,
        reason: String,
        waiting_for: Option<u32>,
        /// The rail on which the connection failed, when it was one.
        rail: Option<String>,
        no_carrier: Vec<String>,
    },
    /// Data still moves in this cell, although the iteration takes long.
    Moving { cell: u32 },
    /// One iteration of one cell is complete.
    Done {
        cell: u32,
        iteration: Option<u32>,
        /// When it started, on this rank's clock.
        started: Nanos,
        ns: Nanos,
        wait_ns: Nanos,
        late_ns: Nanos,
        /// Whether the data was checked, and what was wrong with it.
        checked: bool,
        wrong: Option<WrongElement>,
    },
    /// An iteration did not complete.
    Stopped {
        cell: u32,
        step: String,
        waiting_for: Option<u32>,
        waited: Nanos,
        problem: String,
        aborted: bool,
        /// Connections with unacknowledged data.
        stuck: Vec<Stuck>,
        /// Own rails without a carrier.
        no_carrier: Vec<String>,
    },
    /// A cell is done here: bytes sent over all its iterations, warm-up included, and counters.
    Finished {
        cell: u32,
        runs: u64,
        moved: Vec<LinkTraffic>,
        /// Its queue pairs, over RDMA.
        flows: Vec<FlowRecord>,
        /// What TCP counted of what it sent.
        tcp: Vec<TcpFlow>,
        /// Its streams, as this rank sees them.
        streams: Vec<StreamRecord>,
        /// Its probes, as this rank sees them.
        probes: Vec<ProbeReport>,
        counters: Vec<CounterDelta>,
        /// Readings of the GPU's sensors, when it has one.
        gpu: Option<Box<GpuReading>>,
    },
    /// From an end of a link that is measured.
    Link(Box<LinkReport>),
    /// The result of probing a rank.
    #[serde(rename = "Knocked")]
    RankProbed {
        rank: u32,
        #[serde(rename = "knock")]
        result: Liveness,
    },
    /// The paths of this rank's flows.
    TracedFlow(Vec<TracedFlow>),
    /// Who answered several packets of each of this rank's flows.
    TracedBursts(Vec<TracedBurst>),
    /// For each cross-rail path why it does not exist.
    #[serde(rename = "Reached")]
    CrossRail(Vec<Option<String>>),
    /// The inventory of the host; none when another rank of that host reports it.
    Inventory(Option<Box<(Identity, NodeInventory)>>),
    /// Nothing is in flight any more.
    Reset,
    /// A process outside the run connected to a data port.
    Intruder(String),
}

/// Sends a rank's answers to the coordinator.
#[derive(Clone)]
pub(super) struct AnswerSender(pub MessageSender);

impl AnswerSender {
    /// Sends `answer`; an error when the coordinator is gone.
    pub fn send(&self, answer: &Answer) -> Result<(), Disconnected> {
        let message = serde_json::to_vec(answer).map_err(|error| Disconnected(error.to_string()))?;
        self.0.send(message)
    }
}
