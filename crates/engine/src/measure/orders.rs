//! What the coordinator and the ranks say to each other. Small JSON messages over the control link.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::link::{Job, Report};
use super::verbs::VerbsCard;
use crate::collective::WrongElement;
use crate::transport::{CrossWay, Endpoint, Fault, Knock, TraceWanted, Traced};
use probe::host::Identity;
use record::units::{Bytes, Nanos};
use record::{
    Cell, CounterDelta, DeviceKind, FlowRecord, GpuReading, HostRecord, LinkTraffic, NodeInventory, RailEnd,
    StreamRecord, Stuck,
};

/// See [`Setup::silence`].
const SHORTEST_SILENCE: Duration = Duration::from_secs(2);

/// See [`Setup::loneliness`].
const OUTLASTING: Duration = Duration::from_secs(3);

/// What a rank must know to take part.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Setup {
    /// Rails as the operator named them; when empty, each rank looks for its own.
    pub rails: Vec<String>,
    /// Where data lies.
    pub device: DeviceKind,
    /// The largest payload of the run: memory that others are told about is taken once.
    pub largest: Bytes,
    /// Whether NCCL will be asked for.
    pub nccl: bool,
    /// Whether RDMA was asked for.
    pub verbs: bool,
    /// Which address of their RDMA ports ranks were told to use.
    pub gid_index: Option<u8>,
    /// Faults to inject.
    pub faults: Vec<Fault>,
    /// Of every wait.
    pub deadline: Nanos,
    /// Rank r listens for data on this port + r; on any free port when none is named.
    pub data_port: Option<u16>,
}

impl Setup {
    /// How long a side may go unheard before it counts as silent: as long as any wait may take, but never so short that
    /// a busy machine looks dead.
    pub(super) fn silence(&self) -> Duration {
        Duration::from(self.deadline).max(SHORTEST_SILENCE)
    }

    /// How long a rank goes without the coordinator: longer than the coordinator without the rank, so that a rank that
    /// is only cut off is still there when its doors are knocked at.
    pub(super) fn loneliness(&self) -> Duration {
        self.silence() + OUTLASTING
    }
}

/// A cell of the slot that is to be prepared.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Assignment {
    pub cell: Cell,
    pub round: u16,
    pub seed: u64,
    /// Every n-th timed iteration is checked; 0 = never.
    pub verify_every: u32,
    /// Whether more ranks than cores share this host.
    pub crowded: bool,
    /// Cells of this slot that some rank runs at the same time, at most.
    pub at_once: u16,
    /// Which communicator, when NCCL runs the cell.
    pub nccl: Option<Communicator>,
}

/// A communicator of NCCL, as ranks are told to use one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Communicator {
    /// What its ranks have in common, in hexadecimal digits: a name for it, too.
    pub id: String,
    /// All that may be used again; the others are given back.
    pub live: Vec<String>,
}

/// NCCL on one rank.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) enum NcclCard {
    /// It is there.
    There {
        /// As NCCL counts: 2.28.9 is 22809.
        version: u32,
        /// What it was opened as.
        library: String,
    },
    /// It is not, and why.
    Missing(String),
}

impl Assignment {
    /// Seed of this cell's patterns: no two cells of a run share their data.
    pub fn seed_of_cell(&self) -> u64 {
        self.seed ^ u64::from(self.cell.id).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}

/// Who is there at the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum QuitReason {
    /// Everybody who met.
    Complete,
    /// Not everybody: nobody may wait for all.
    WithLosses,
    /// The others, who go on without the one who is told.
    LeftOut,
}

/// From the coordinator to a rank.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) enum Order {
    /// Find your rails, open your doors, say who you are.
    Meet(Setup),
    /// What does your clock say?
    Ping,
    /// This is where the others can be reached.
    Peers(Vec<Endpoint>),
    /// For each of these cells: if it is yours to do so, make what NCCL's ranks need to find each other.
    Introduce(Vec<(u32, bool)>),
    /// Connect and allocate for these cells, which will run at the same time.
    Prepare(Vec<Assignment>),
    /// Run once, starting at `at` on your clock. `iteration` counts timed iterations.
    Go { at: Nanos, iteration: Option<u32> },
    /// These cells are done: say what was moved, keep the connections.
    Finish,
    /// If you are an end of this link: measure it together with the other.
    Link(Box<Job>),
    /// Stop what you are doing and say where you were.
    Abort,
    /// Does anybody answer at the doors of this rank?
    Knock(u32),
    /// Which switches do these flows of yours go through?
    Trace(Vec<TraceWanted>),
    /// Does anybody answer at the ends of these ways of yours?
    Reach(Vec<CrossWay>),
    /// What is your host made of?
    Inventory(Teller),
    /// Drop what is in flight and every connection: others are lost, the rest goes on.
    Reset,
    /// The run is over.
    Quit(QuitReason),
}

/// Which ranks tell what their host is made of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Teller {
    /// The one that is asked, for the host that the run knows by this name.
    Named(String),
    /// The first of every host.
    FirstOfHost,
}

/// What one rank looks like to the others.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Card {
    pub host: HostRecord,
    pub identity: Identity,
    pub pid: u32,
    pub rails: Vec<RailEnd>,
    pub endpoint: Endpoint,
    pub timer_ns: Nanos,
    /// Its NCCL, when that was asked for.
    pub nccl: Option<NcclCard>,
    /// RDMA, when it was asked for or there is a device.
    pub verbs: Option<VerbsCard>,
}

impl Answer {
    /// The cell it is about.
    pub fn cell(&self) -> Option<u32> {
        match self {
            Answer::Prepared { cell }
            | Answer::Introduced { cell, .. }
            | Answer::Done { cell, .. }
            | Answer::Finished { cell, .. }
            | Answer::Stopped { cell, .. }
            | Answer::CannotPrepare { cell, .. } => Some(*cell),
            _ => None,
        }
    }
}

/// From a rank to the coordinator.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) enum Answer {
    /// This is who I am.
    Met(Box<Card>),
    /// I cannot take part.
    CannotMeet(String),
    /// My clock.
    Pong(Nanos),
    /// What NCCL's ranks need to find each other in this cell, from the one whose it is to say.
    Introduced { cell: u32, id: Option<String> },
    /// Connected and allocated.
    Prepared { cell: u32 },
    /// This cell cannot run here.
    CannotPrepare {
        cell: u32,
        reason: String,
        waiting_for: Option<u32>,
        /// The rail that did not get through, when it was one.
        rail: Option<String>,
        no_carrier: Vec<String>,
    },
    /// Data still moves in this cell, although its iteration takes long.
    Moving { cell: u32 },
    /// One iteration of one cell.
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
        /// Ways on which packets do not get through.
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
        /// What its streams came to, as this rank knows it.
        streams: Vec<StreamRecord>,
        counters: Vec<CounterDelta>,
        /// What the sensors of its GPU said, when it has one.
        gpu: Option<Box<GpuReading>>,
    },
    /// About the link this rank is an end of.
    Link(Box<Report>),
    /// What came of knocking at a rank's doors.
    Knocked { rank: u32, knock: Knock },
    /// The paths of this rank's flows.
    Traced(Vec<Traced>),
    /// For each way why nobody answers.
    Reached(Vec<Option<String>>),
    /// What its host is made of; none when another rank of that host tells.
    Inventory(Option<Box<(Identity, NodeInventory)>>),
    /// Nothing is in flight any more.
    Reset,
    /// Somebody who is not part of the run knocked.
    Intruder(String),
}
