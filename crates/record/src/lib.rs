//! The one recorded vocabulary: what was run, between which ranks, what was seen, what it means.
//!
//! Everything after a measurement works on these types alone, so a run recorded anywhere can be judged again here and a
//! detector written tomorrow can be run on last year's samples. This module therefore knows no hardware and no statistics.
//! Numbers are bytes and nanoseconds; an absent value is `None`, never zero; what was not measured is never healthy.

mod atomic_file;
mod bandwidth;
pub mod binary_tree;
mod burn_in;
mod cell;
mod certificate;
mod comparison;
mod congestion;
mod counter_report;
pub mod counters;
mod coverage;
mod criteria;
mod drift;
mod ecmp;
mod event;
pub mod exit_code;
mod finding_builder;
mod gpu;
mod gpu_summary;
mod history;
mod inventory;
mod json;
mod judgement;
mod load;
mod part;
mod placement;
mod probe;
mod probe_readings;
mod readings;
mod run;
mod sample_line;
mod shape;
pub mod stats;
mod streams;
mod suspect;
mod tcp;
mod test_kind;
pub mod text;
mod traffic;
mod trends;
pub mod units;
mod verbs;
mod vocabulary;

pub use atomic_file::{cut_after_last_line, replace};
pub use bandwidth::Bandwidths;
pub use burn_in::{BurnIn, Journal, JournalLine, burn_in_files};
pub use cell::{Cell, Load};
pub use certificate::{BurnInTrend, Certificate, Check, Incident, Moment, PartDecision, Ruling};
pub use comparison::{
    CellComparison, CommonPart, ComparedRun, Comparison, ComparisonCounts, ComparisonRule, FindingChange,
    FindingState, OneSided, Outcome, Pace, RunChange, Shift, TestChange,
};
pub use congestion::{Congestion, UnderLoad, UnderLoadAnswer, UnderLoadQuestion};
pub use counter_report::{CounterReport, MovedCounter, UnreadCounter};
pub use counters::Movement;
pub use coverage::{Coverage, LinkCoverage, LinkState};
pub use criteria::{Criteria, Limit};
pub use drift::{
    Change, Deviation, Disagreement, Drift, DriftBasis, DriftEffect, EffectUnit, Trait, Unreadable,
};
pub use ecmp::{EcmpCause, EcmpVerdict, MemberLoad, PairSpread};
pub use event::{
    CellDone, ClockComparison, Corruption, CounterDelta, CounterState, EndReason, Event, LinkTraffic,
    LossCause, Lost, Sample, Stalled, StopReason, Stuck,
};
pub use gpu::{
    ClockLimit, Extremes, GpuCounter, GpuDuring, GpuLimits, GpuLinks, GpuMoment, GpuReading, gpu_counters,
};
pub use gpu_summary::{GpuSummary, ThrottleTotal};
pub use history::{ChangeShape, History, Issue, IssueStatus, Notice, PartChange, Replaced, Severity, Unsent};
pub use inventory::{Cable, Fact, Inventory, InventoryPart, NodeInventory, PartAt, PartClass};
pub use judgement::{
    CellVerdict, Confirmation, EngineComparison, FairShares, Finding, FindingKind, Interference, Interval,
    Judgement, Percentiles, Place, ShareOf, TestVerdict, Verdict,
};
pub use load::{LoadError, Recorded, files};
pub use part::{EndDirection, LinkName, Part, PortName, RailEndName};
pub use placement::{
    CrossedPath, CrossedSwitch, MiscabledRecord, PathPlacement, SwitchPlacement, UnusedCableRecord,
};
pub use probe::{ProbeCounts, ProbeFlow, ProbeSummary, ProbeTerms};
pub use probe_readings::{ProbeReading, ProbeReadings};
pub use readings::{FindingSummary, LinkLoad, Night, PartKind, PartReading, Quantity, Readings};
pub use run::{
    BaselineRate, ClockRecord, DecisionRule, GpuRecord, HostRecord, MOST_BUDGETS, MarksRule, NcclRecord,
    Question, RailEnd, RankRecord, ReachRecord, Reference, Run, SpecRow, TestRecord, Untested,
};
pub use shape::{CurvePoint, ShapeRule};
pub use streams::{MOST_UNKNOWN_PATHS, PortDelta, StreamPath, StreamRecord, StreamTerms};
pub use suspect::{BOTH_DIRECTIONS, Suspect, SuspectKind};
pub use tcp::{Retransmissions, TcpFlow};
pub use test_kind::TestKind;
pub use traffic::{PatternKind, TrafficOutcome, TrafficPattern, TrafficRow, pairs_in_words, pairs_of_words};
pub use trends::{PastChange, Trend, TrendRun, Trends};
pub use verbs::{Completion, DEVICE_GONE, FlowRecord, MemoryPath, PortKnowledge, RdmaPort, VerbsTerms};
pub use vocabulary::{
    Algorithm, Collective, DType, DeviceKind, Engine, GroupKind, Placement, Reach, ReduceOp, TransportKind,
};

/// The version of the recorded files. A reader accepts this and everything older.
pub const SCHEMA: u32 = 1;

/// Version of railgauge, the same for all its crates.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
