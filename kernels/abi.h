// What host and GPU tell each other. `src/device/cuda/abi.rs` says the same in Rust; a test compares the layouts.
//
// All addresses are 64-bit integers and valid where the kernel runs: device memory, a peer's device memory, or pinned host
// memory. Nothing here has hidden padding.
#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef int i32;
typedef long long i64;

// Flags of neighbouring workers lie this many 64-bit words apart: one to a cache line.
constexpr u32 RG_FLAG_STRIDE = 16;
constexpr u32 RG_NO_PORT = 0xffffffffu;
constexpr u32 RG_MOST_PORTS = 64;
constexpr u32 RG_MOST_OPS = 512;

// How a port moves data.
enum RgMode : u32 {
    RG_FIFO = 0,   // through slots: in the receiver's memory, or in pinned host memory where a proxy carries them on
    RG_PULL = 1,   // the receiver reads the sender's input where it lies
    RG_PUSH = 2,   // the sender writes the receiver's output where it belongs
    RG_WORDS = 3,  // low latency: 4 bytes of data and 4 bytes of flag in one store
};

enum RgPortFlags : u32 {
    RG_INCOMING = 1,  // this end receives
    RG_SYSTEM = 2,    // the other end is not on this GPU: flags need system scope
    RG_DRAIN = 4,     // at the end wait until the peer has read everything (pull, outgoing)
};

// One end of a way from one rank to another, for one mode. Flags are arrays: worker w's is word w * RG_FLAG_STRIDE.
struct RgPort {
    u64 data;        // where payload is put to or taken from: slots, or the base of the peer's (or own) buffer, or words
    u64 tail;        // chunks the sender has made available; lies with the receiver
    u64 head;        // chunks the receiver has taken (fifo, pull) or allows (push); lies with the sender
    u32 mode;        // RgMode
    u32 flags;       // RgPortFlags
    u32 slots;       // fifo: slots per worker
    u32 slot_bytes;  // fifo: bytes per slot, a multiple of 128
    u32 peer;        // world rank at the other end, for reports
    u32 half_bytes;  // words: bytes of one of the two halves that take turns
};

enum RgOpFlags : u32 {
    RG_OWN_INPUT = 1,    // one operand is this rank's input
    RG_OWN_OUTPUT = 2,   // one operand is this rank's output (not both)
    RG_KEEP = 4,         // the result is written to this rank's output
    RG_FINISH = 8,       // this completes an average: divide
    RG_COUNT_ONLY = 16,  // nothing is moved here: the peer puts it in place, the end of the launch waits for it
};

// One step on one block, chunk by chunk: operands are combined, and the result goes to all destinations.
//
// The block is cut into chunks along a grid of `RgJob.chunk` elements that starts `skew` elements before it, so that
// chunks begin at multiples of 128 bytes; grid cell g belongs to worker g % workers. Iteration i of a worker does chunk i - lag of each op, in the order of ops.
struct RgOp {
    u64 begin;          // first element
    u64 elements;
    u64 source_at[2];   // where the chunk with `begin` lies at the peer, in elements (pull, push) or in words' units of 8 bytes
    u64 target_at[2];
    u32 source[2];      // incoming ports, or RG_NO_PORT
    u32 target[2];      // outgoing ports, or RG_NO_PORT
    u32 flags;          // RgOpFlags
    u32 lag;
    u32 skew;           // elements; the same at both ends of every message
    u32 unused;
};

// What a rank says about a launch; in pinned host memory.
struct RgStatus {
    u64 arrived;    // launches whose kernel has started and waits at its gate
    u64 done;       // launches that are over, well or not
    u64 started;    // of the last launch, in nanoseconds of the GPU's clock
    u64 ended;
    u64 waited;     // nanoseconds worker 0 spent waiting for others
    u32 failed;     // RgFailure
    u32 op;         // where the first failing worker stood; RG_MOST_OPS: at the end of the launch
    u32 chunk;
    u32 worker;
    u32 peer;       // whom it waited for
    u32 incoming;   // whether for data (1) or for room (0)
    u64 stood;      // for how long, in nanoseconds
};

enum RgFailure : u32 { RG_FINE = 0, RG_DEADLINE = 1, RG_ABORTED = 2 };

// One rank's part of a cell. Lies in device memory and stays the same for all launches of the cell.
struct RgJob {
    u64 input;
    u64 output;
    u64 ops;        // RgOp[]
    u64 ports;      // RgPort[]
    u64 status;     // RgStatus*, pinned host memory
    u64 scratch;    // RgScratch*, device memory of this rank
    u32 op_count;
    u32 port_count;
    u32 workers;    // the same on all ranks of the cell
    u32 blocks;     // thread blocks of this rank: `workers`, or 1 when it only watches (no op moves data)
    u32 first_block;// of this rank in the launch
    u32 chunk;      // elements
    u32 ranks;      // divisor of an average
    u32 iterations; // most iterations of a worker, lag included
};

// Counters of one rank between its thread blocks; zero before the first launch.
struct RgScratch {
    u64 go;         // launches whose gate is open
    u64 finished;   // thread blocks that are done, over all launches
    u64 stop;       // not zero: give up
    u64 unused;
};

// One launch: all ranks of this process on this GPU that take part. Passed by value.
struct RgLaunch {
    u64 jobs;         // RgJob[]
    u64 gate;         // u64 in pinned host memory: launches that may begin; 0: no gate
    u64 abort;        // u32 in pinned host memory: not zero when the run is being ended
    u64 deadline;     // nanoseconds any wait may take
    u64 sequence;     // launches of this cell before this one
    u32 job_count;
    u32 unused;
};

// Test data: what `device::pattern` defines.
struct RgPattern {
    u64 seed;
    u64 iteration;
    u32 rank;        // first rank
    u32 ranks;       // ranks reduced over: [rank, rank + ranks) (verification), or 1
    u32 least;
    u32 mask;
    u32 slots;       // ranks that contribute at a time
    u32 turns;       // ranks that share a slot
};

// Writes a pattern: element i of `to` is element first + i of the pattern.
struct RgFill {
    u64 to;
    u64 elements;
    u64 first;
    RgPattern pattern;
};

// Compares elements with the reduction of a pattern over its ranks.
struct RgVerify {
    u64 found;       // the elements
    u64 elements;
    u64 first;       // of the pattern
    u64 result;      // RgMismatch*, device memory: zero it, and set `element` to all ones, before
    RgPattern pattern;
    u32 op;          // RgReduce; what an average divides by is the number of ranks
    u32 unused;
};

enum RgReduce : u32 { RG_SUM = 0, RG_PROD = 1, RG_MIN = 2, RG_MAX = 3, RG_AVG = 4 };

struct RgMismatch {
    u64 element;     // lowest wrong index within this call; all ones: none
    u64 wrong;       // wrong elements
};
