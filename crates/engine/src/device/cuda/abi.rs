//! The interface of host and kernels: `kernels/abi.h` in Rust. A test compares the layouts.

use bytemuck::{Pod, Zeroable};

/// Flags of neighbouring workers lie this many 64-bit words apart.
pub const FLAG_STRIDE: usize = 16;
/// No port.
pub const NO_PORT: u32 = u32::MAX;
/// Ports a job may have.
pub const MOST_PORTS: usize = 64;
/// Ops a job may have.
pub const MOST_OPS: usize = 512;

/// See `RgMode`: how a port moves data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u32)]
pub enum Mode {
    /// Through slots.
    Fifo = 0,
    /// The receiver reads the sender's input where it lies.
    Pull = 1,
    /// The sender writes the receiver's output where it belongs.
    Push = 2,
    /// Data and flag in one store.
    Words = 3,
}

/// Port flag: this end receives.
pub const INCOMING: u32 = 1;
/// Port flag: the other end is not on this GPU.
pub const SYSTEM: u32 = 2;
/// Port flag: wait at the end until the peer has read everything.
pub const DRAIN: u32 = 4;

/// Op flag: one operand is this rank's input.
pub const OWN_INPUT: u32 = 1;
/// Op flag: one operand is this rank's output.
pub const OWN_OUTPUT: u32 = 2;
/// Op flag: the result is written to this rank's output.
pub const KEEP: u32 = 4;
/// Op flag: this completes an average.
pub const FINISH: u32 = 8;
/// Op flag: nothing is moved here; the peer puts it in place.
pub const COUNT_ONLY: u32 = 16;

/// Failure: a wait took too long.
pub const FAILED_DEADLINE: u32 = 1;
/// Failure: the run is being ended.
pub const FAILED_ABORTED: u32 = 2;

/// See `RgPort`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
#[allow(missing_docs)]
pub struct Port {
    pub data: u64,
    pub tail: u64,
    pub head: u64,
    pub mode: u32,
    pub flags: u32,
    pub slots: u32,
    pub slot_bytes: u32,
    pub peer: u32,
    pub half_bytes: u32,
}

/// See `RgOp`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
#[allow(missing_docs)]
pub struct Op {
    pub begin: u64,
    pub elements: u64,
    pub source_at: [u64; 2],
    pub target_at: [u64; 2],
    pub source: [u32; 2],
    pub target: [u32; 2],
    pub flags: u32,
    pub lag: u32,
    pub skew: u32,
    pub unused: u32,
}

/// See `RgStatus`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
#[allow(missing_docs)]
pub struct Status {
    pub arrived: u64,
    pub done: u64,
    pub started: u64,
    pub ended: u64,
    pub waited: u64,
    pub failed: u32,
    pub op: u32,
    pub chunk: u32,
    pub worker: u32,
    pub peer: u32,
    pub incoming: u32,
    pub stood: u64,
}

/// See `RgJob`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
#[allow(missing_docs)]
pub struct Job {
    pub input: u64,
    pub output: u64,
    pub ops: u64,
    pub ports: u64,
    pub status: u64,
    pub scratch: u64,
    pub op_count: u32,
    pub port_count: u32,
    pub workers: u32,
    pub blocks: u32,
    pub first_block: u32,
    pub chunk: u32,
    pub ranks: u32,
    pub iterations: u32,
}

/// See `RgScratch`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
#[allow(missing_docs)]
pub struct Scratch {
    pub go: u64,
    pub finished: u64,
    pub stop: u64,
    pub unused: u64,
}

/// See `RgLaunch`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
#[allow(missing_docs)]
pub struct Launch {
    pub jobs: u64,
    pub gate: u64,
    pub abort: u64,
    pub deadline: u64,
    pub sequence: u64,
    pub job_count: u32,
    pub unused: u32,
}

/// See `RgPattern`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
#[allow(missing_docs)]
pub struct PatternRule {
    pub seed: u64,
    pub iteration: u64,
    pub rank: u32,
    pub ranks: u32,
    pub least: u32,
    pub mask: u32,
    pub slots: u32,
    pub turns: u32,
}

/// See `RgFill`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
#[allow(missing_docs)]
pub struct Fill {
    pub to: u64,
    pub elements: u64,
    pub first: u64,
    pub pattern: PatternRule,
}

/// See `RgVerify`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
#[allow(missing_docs)]
pub struct Verify {
    pub found: u64,
    pub elements: u64,
    pub first: u64,
    pub result: u64,
    pub pattern: PatternRule,
    pub op: u32,
    pub unused: u32,
}

/// See `RgMismatch`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
#[allow(missing_docs)]
pub struct Mismatch {
    pub element: u64,
    pub wrong: u64,
}
