//! The lines of `samples.jsonl`, in the order they happened.
//!
//! Every line is one event and stands alone: a file cut off at any byte still holds everything before the last line.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::{
    Cell, CrossedPath, FlowRecord, GpuReading, Movement, PortDelta, ProbeCounts, StreamRecord,
    SwitchPlacement, TcpFlow, counters,
};
use crate::units::{Bytes, Nanos};

/// One line of `samples.jsonl`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Event {
    /// One timed iteration of one cell on one rank.
    Sample(Sample),
    /// A cell's iterations are complete.
    CellDone(CellDone),
    /// A cell could not be measured.
    NotRun {
        /// Which.
        cell: u32,
        /// Why.
        reason: String,
    },
    /// Delivered data differed from what was computed to be right.
    Corruption(Corruption),
    /// A rank stopped answering.
    Lost(Lost),
    /// What a surviving rank was doing when the run stopped.
    Stalled(Stalled),
    /// A hardware or interface counter around a cell.
    Counter(CounterDelta),
    /// A counter of a switch port around a slot.
    Port(PortDelta),
    /// What the sensors of a rank's GPU said around a cell.
    Gpu(Box<GpuReading>),
    /// The run goes on without what was lost: cells that replace some that can no longer be measured.
    Replanned {
        /// What is left out from here on, in words.
        without: String,
        /// The new cells; their ids are new too.
        cells: Vec<Cell>,
    },
    /// Cells that the run decided on while it was measuring, because of what it had seen.
    Added {
        /// What they are to tell, in words.
        why: String,
        /// The new cells; their ids are new too.
        cells: Vec<Cell>,
    },
    /// How switches place flows, told from flows that were traced again during the run: this replaces what was known before.
    Placement {
        /// Every switch that has a choice.
        switches: Vec<SwitchPlacement>,
    },
    /// The paths of connections, asked for within them after they were measured.
    Crossed {
        /// One entry per cell.
        paths: Vec<CrossedPath>,
    },
    /// The clock of a host was compared with the coordinator's again.
    Clock(ClockComparison),
    /// Somebody who is not part of the run knocked at one of its ports.
    Intruder {
        /// What was seen.
        what: String,
    },
    /// The run ended in an orderly way; absent when it was killed.
    End {
        /// Why it ended.
        reason: EndReason,
        /// When, as RFC 3339 in UTC.
        at: String,
    },
}

/// One timed iteration of one cell, as one rank saw it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    /// Cell id.
    pub cell: u32,
    /// 0 for the first measurement, 1 and up for re-measurements of a suspect.
    pub round: u16,
    /// Iteration within the round, warm-up not counted.
    pub iter: u32,
    /// World rank.
    pub rank: u32,
    /// From this rank's start to its completion.
    pub ns: u64,
    /// Of that, spent waiting for a peer or the wire.
    pub wait_ns: u64,
    /// How much later than the agreed instant this rank started.
    pub late_ns: u64,
}

/// Why a cell stopped iterating.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum StopReason {
    /// The median's interval became tight enough.
    Tight,
    /// The iteration limit was reached.
    Iterations,
    /// The time budget was spent.
    Budget,
}

/// What one rank put on one link during one iteration, as its transport counted it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkTraffic {
    /// Sending world rank.
    pub from: u32,
    /// Receiving world rank.
    pub to: u32,
    /// Rail by name; none for transports without rails.
    pub rail: Option<String>,
    /// Payload bytes per iteration.
    pub bytes: Bytes,
}

impl LinkTraffic {
    /// What the busiest link carries of all this. On a rail the links are the ends of its ranks, each of which carries what they send to all
    /// others, or hear from them; without rails every pair of ranks has its own.
    pub fn busiest(entries: &[LinkTraffic]) -> Option<Bytes> {
        /// Sender, receiver, rail; of an end of a rail the other one is not named.
        type Link<'a> = (Option<u32>, Option<u32>, Option<&'a str>);
        let mut carried: HashMap<Link<'_>, u64> = HashMap::new();
        for entry in entries {
            let rail = entry.rail.as_deref();
            let (from, to) = (Some(entry.from), Some(entry.to));
            let links = match rail {
                Some(_) => vec![(from, None, rail), (None, to, rail)],
                None => vec![(from, to, None)],
            };
            for link in links {
                let bytes = carried.entry(link).or_default();
                *bytes = bytes.saturating_add(entry.bytes.0);
            }
        }
        carried.into_values().max().map(Bytes)
    }
}

/// A cell's iterations are complete.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CellDone {
    /// Cell id.
    pub cell: u32,
    /// Measurement round.
    pub round: u16,
    /// Timed iterations.
    pub iterations: u32,
    /// Timed iterations whose data was checked on every rank.
    pub verified: u32,
    /// Why it stopped.
    pub stop: StopReason,
    /// Largest distance between the first and the last rank's start.
    pub max_skew_ns: Nanos,
    /// By how much that may really have been more, because clocks are not known better; none in runs of railgauge before it was recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unseen_skew_ns: Option<Nanos>,
    /// Bytes the schedule puts on each link per iteration.
    pub planned: Vec<LinkTraffic>,
    /// Bytes the transport really moved per iteration.
    pub moved: Vec<LinkTraffic>,
    /// What its queue pairs were called on the wire, over RDMA.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flows: Vec<FlowRecord>,
    /// What TCP counted of its flows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tcp: Vec<TcpFlow>,
    /// What each of its streams delivered, for cells of many streams.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub streams: Vec<StreamRecord>,
    /// What became of its probes, flow by flow.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub probes: Vec<ProbeCounts>,
}

/// A comparison of a clock with the coordinator's, after those of the start in `run.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockComparison {
    /// The ranks that have this clock.
    pub ranks: Vec<u32>,
    /// When, on the coordinator's clock.
    pub at_ns: Nanos,
    /// The clock minus the coordinator's.
    pub offset_ns: i64,
    /// Half the shortest round trip.
    pub uncertainty_ns: u64,
    /// How long comparing took.
    pub took_ns: Nanos,
    /// How fast it runs ahead of the coordinator's, in parts per billion, by all comparisons so far.
    pub drift_ppb: i64,
    /// How well that is known.
    pub drift_uncertainty_ppb: u64,
    /// By how much it lies beside what was expected, where nothing explains that but a clock that was set or runs at another rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jump_ns: Option<i64>,
}

/// Delivered data differed from what was computed to be right.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Corruption {
    /// Cell id.
    pub cell: u32,
    /// Measurement round.
    pub round: u16,
    /// Iteration within the round.
    pub iter: u32,
    /// The rank whose result is wrong.
    pub rank: u32,
    /// First wrong element.
    pub element: u64,
    /// Where that element starts within the result, in bytes.
    pub byte_offset: u64,
    /// The element as it should be, bits in hex.
    pub expected_bits: String,
    /// The element as it is, bits in hex.
    pub found_bits: String,
    /// Wrong elements in this rank's result.
    pub wrong_elements: u64,
}

/// A rank stopped answering.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lost {
    /// World rank.
    pub rank: u32,
    /// Host it ran on.
    pub host: String,
    /// Cell in flight, if any.
    pub cell: Option<u32>,
    /// What it was asked to do last.
    pub doing: String,
    /// How the loss was noticed.
    pub reason: String,
    /// What it points to.
    #[serde(default)]
    pub cause: LossCause,
}

/// What the loss of a rank points to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LossCause {
    /// Its process ended.
    Ended,
    /// Its process is there and does nothing.
    Frozen,
    /// It works, and cannot be reached over the management network.
    ManagementCut,
    /// Its machine does not answer on any way.
    Unreachable,
    /// That cannot be told.
    #[default]
    Unclear,
}

/// What a surviving rank was doing when the run stopped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stalled {
    /// World rank.
    pub rank: u32,
    /// Cell in flight.
    pub cell: u32,
    /// Step of the schedule, in words.
    pub step: String,
    /// World rank it waited for, when it waited for one.
    pub waiting_for: Option<u32>,
    /// For how long.
    pub waited_ns: Nanos,
    /// Ways on which its packets did not get through.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stuck: Vec<Stuck>,
    /// Its rails whose interface had no carrier.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub no_carrier: Vec<String>,
    /// What ended it, when it had neither waited out its deadline nor was told to stop: a connection that broke, with both
    /// its ends and what may be the cause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broke: Option<String>,
}

/// A way on which packets did not get through: sent again and again, never acknowledged; or no connection at all.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stuck {
    /// World rank at the other end.
    pub to: u32,
    /// Rail by name.
    pub rail: String,
    /// Bytes sent and not acknowledged.
    pub bytes: Bytes,
    /// How often the oldest of them was sent again; 0 when there was no connection to send on.
    pub retransmits: u32,
}

/// Whether a counter is there.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CounterState {
    /// It was read before and after.
    #[default]
    Present,
    /// The device does not have it, or no longer.
    Absent,
    /// It is there and cannot be read, and why.
    Unreadable(String),
}

impl CounterState {
    fn is_present(&self) -> bool {
        *self == CounterState::Present
    }
}

/// A counter read before and after a cell.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CounterDelta {
    /// Cell id.
    pub cell: u32,
    /// Measurement round.
    pub round: u16,
    /// World rank whose host was read.
    pub rank: u32,
    /// Rail by name.
    pub rail: String,
    /// Counter name as the kernel writes it.
    pub name: String,
    /// Value before; none when absent or unreadable.
    pub before: Option<u64>,
    /// Value after; none when absent or unreadable.
    pub after: Option<u64>,
    /// Time between the two readings; none in runs of railgauge before it was recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ns: Option<Nanos>,
    /// How many bits it has where that is fewer than 64: it begins again at zero, or stands at its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bits: Option<u8>,
    /// Whether it is there.
    #[serde(default, skip_serializing_if = "CounterState::is_present")]
    pub state: CounterState,
}

impl CounterDelta {
    /// By how much it moved, as far as that can be told.
    pub fn movement(&self) -> Movement {
        // A name that two sources share is the one of that width.
        let exact = counters::alike(&self.name).find(|counter| counter.recorded_bits() == self.bits);
        let known = exact.or_else(|| counters::named(&self.name));
        Movement::of(self.before, self.after, self.bits, known)
    }

    /// How much that is at least; none when it is not known.
    pub fn moved(&self) -> Option<u64> {
        self.movement().at_least()
    }
}

/// Why a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum EndReason {
    /// Every planned cell was measured.
    Finished,
    /// The operator or the scheduler asked it to stop.
    Interrupted,
    /// The time budget of the run was spent.
    Budget,
    /// A rank was lost or a step passed its deadline.
    Lost,
    /// Something in railgauge or its environment failed.
    Failed,
}
