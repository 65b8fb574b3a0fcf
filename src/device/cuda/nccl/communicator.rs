//! Communicators: ranks that run collectives with each other, and what they run.

use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::time::Duration;

use super::super::gpu::Gpu;
use super::super::stream::Stream;
use super::environment::Hold;
use super::library::{Comm, Config, IN_PROGRESS, Nccl, NcclError, RawId, SUCCESS};
use crate::record::{Algorithm, Cell, Collective, DType, Placement, ReduceOp};

/// What the ranks of one communicator must have in common to find each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UniqueId(pub [u8; 128]);

impl UniqueId {
    /// A new one. Whoever asks is the one the others will call first, so it must be one of the ranks.
    pub fn new(nccl: &'static Nccl) -> Result<UniqueId, NcclError> {
        let mut id = RawId { internal: [0; 128] };
        // SAFETY: writes 128 bytes.
        nccl.check("ncclGetUniqueId", unsafe { (nccl.call.ncclGetUniqueId)(&mut id) })?;
        Ok(UniqueId(id.internal))
    }

    /// In hexadecimal digits, as it is sent.
    pub fn to_hex(self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// From hexadecimal digits.
    pub fn from_hex(text: &str) -> Option<UniqueId> {
        let mut id = [0; 128];
        if text.len() != 2 * id.len() || !text.is_ascii() {
            return None;
        }
        for (at, byte) in id.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).ok()?;
        }
        Some(UniqueId(id))
    }
}

/// What one rank must know to become part of a communicator.
#[derive(Debug, Clone, Copy)]
pub struct Terms {
    /// Common to all its ranks.
    pub id: UniqueId,
    /// How many they are.
    pub ranks: u32,
    /// Which one this is.
    pub rank: u32,
    /// The algorithm NCCL is held to, in its own words; its own choice when none.
    pub algorithm: Option<&'static str>,
    /// Most thread blocks a kernel may have; NCCL's own choice when none.
    pub most_blocks: Option<u32>,
}

impl Terms {
    /// NCCL's name for the algorithm of a cell, where NCCL has the choice. It has one tree: two complementary ones between
    /// hosts, a chain within a host.
    pub fn algorithm_of(cell: &Cell) -> Option<&'static str> {
        match (cell.collective, cell.algorithm) {
            (Collective::AllReduce, Algorithm::Ring) => Some("Ring"),
            (Collective::AllReduce, Algorithm::Tree | Algorithm::DoubleTree) => Some("Tree"),
            (Collective::AllGather | Collective::ReduceScatter, Algorithm::Ring) => Some("Ring"),
            _ => None,
        }
    }
}

/// One rank's end of a communicator.
pub struct Communicator {
    nccl: &'static Nccl,
    gpu: Arc<Gpu>,
    /// Null before it is made and after it is gone. NCCL writes it early while it makes it, so that it can be aborted then.
    comm: AtomicPtr<c_void>,
}

impl Communicator {
    /// One that is still to be made.
    pub fn new(nccl: &'static Nccl, gpu: Arc<Gpu>) -> Communicator {
        Communicator {
            nccl,
            gpu,
            comm: AtomicPtr::new(null_mut()),
        }
    }

    /// Makes it. Returns when all ranks have done so, which may be never: see [`Communicator::abort`]. `limit` is how long
    /// other communicators of this process may be in the way.
    pub fn make(&self, terms: &Terms, limit: Duration) -> Result<(), NcclError> {
        let mut config = Config::new();
        config.blocking = 1;
        if let Some(most) = terms.most_blocks {
            config.max_ctas = most.clamp(1, 32) as c_int;
        }
        let id = RawId { internal: terms.id.0 };
        let _algorithm = Hold::of(terms.algorithm, limit)?;
        self.gpu.enter()?;
        // SAFETY: the configuration and the place for the handle outlive the call, and the GPU's context is current. The
        // place is atomic because another thread may look at it meanwhile.
        let code = unsafe {
            (self.nccl.call.ncclCommInitRankConfig)(
                self.comm.as_ptr(),
                terms.ranks as c_int,
                id,
                terms.rank as c_int,
                &mut config,
            )
        };
        self.nccl.check("ncclCommInitRankConfig", code).inspect_err(|_| {
            // What could not be made has been taken back by NCCL.
            self.comm.store(null_mut(), Ordering::Release);
        })
    }

    /// Gives `operation` to the stream. Returns when it is in the stream, which the first time may need all ranks.
    ///
    /// The addresses must be this rank's until the stream is done with them.
    pub fn enqueue(&self, operation: &Operation, stream: &Stream) -> Result<(), NcclError> {
        let comm = self.get()?;
        self.gpu.enter()?;
        let calls = operation.calls();
        let grouped = calls.len() > 1;
        let api = &self.nccl.call;
        if grouped {
            // SAFETY: takes nothing; ended below on this thread.
            self.nccl
                .check("ncclGroupStart", unsafe { (api.ncclGroupStart)() })?;
        }
        let each = calls
            .iter()
            .try_for_each(|call| self.one(call, operation, comm, stream));
        let end = match grouped {
            // SAFETY: ends what was started above, also when a call in between was refused.
            true => self.nccl.check("ncclGroupEnd", unsafe { (api.ncclGroupEnd)() }),
            false => Ok(()),
        };
        each.and(end)
    }

    fn one(&self, call: &Call, operation: &Operation, comm: Comm, stream: &Stream) -> Result<(), NcclError> {
        let api = &self.nccl.call;
        let (dtype, op, stream) = (data_type(operation.dtype), operator(operation.op), stream.raw());
        let at = |address: u64| address as *mut c_void;
        // SAFETY: the communicator is alive, the stream is one of its GPU, and the addresses and counts describe the rank's
        // own memory, which whoever made the operation keeps.
        let (name, code) = unsafe {
            match *call {
                Call::AllReduce { from, to, count } => (
                    "ncclAllReduce",
                    (api.ncclAllReduce)(at(from), at(to), count, dtype, op, comm, stream),
                ),
                Call::ReduceScatter { from, to, count } => (
                    "ncclReduceScatter",
                    (api.ncclReduceScatter)(at(from), at(to), count, dtype, op, comm, stream),
                ),
                Call::AllGather { from, to, count } => (
                    "ncclAllGather",
                    (api.ncclAllGather)(at(from), at(to), count, dtype, comm, stream),
                ),
                Call::Broadcast {
                    from,
                    to,
                    count,
                    root,
                } => (
                    "ncclBroadcast",
                    (api.ncclBroadcast)(at(from), at(to), count, dtype, root as c_int, comm, stream),
                ),
                Call::Send { from, count, peer } => (
                    "ncclSend",
                    (api.ncclSend)(at(from), count, dtype, peer as c_int, comm, stream),
                ),
                Call::Receive { to, count, peer } => (
                    "ncclRecv",
                    (api.ncclRecv)(at(to), count, dtype, peer as c_int, comm, stream),
                ),
            }
        };
        self.nccl.check(name, code)
    }

    /// Whether something went wrong behind the scenes: a connection broke, a peer is gone.
    pub fn trouble(&self) -> Result<(), NcclError> {
        let comm = self.get()?;
        let mut state = SUCCESS;
        // SAFETY: the communicator is alive; writes one int.
        let code = unsafe { (self.nccl.call.ncclCommGetAsyncError)(comm, &mut state) };
        self.nccl.check("ncclCommGetAsyncError", code)?;
        match state {
            IN_PROGRESS => Ok(()),
            state => self.nccl.check("in the background", state),
        }
    }

    /// Ends what its kernels and threads are doing, and it with them. May be called while another thread is in a call of it,
    /// which then returns with an error.
    pub fn abort(&self) {
        self.release("ncclCommAbort", self.nccl.call.ncclCommAbort);
    }

    /// Gives it back in an orderly way; the other ranks do so too.
    pub fn destroy(&self) {
        self.release("ncclCommDestroy", self.nccl.call.ncclCommDestroy);
    }

    fn release(&self, name: &'static str, release: unsafe extern "C" fn(Comm) -> c_int) {
        let comm = self.comm.swap(null_mut(), Ordering::AcqRel);
        if comm.is_null() {
            return;
        }
        let outcome = self.gpu.enter().map_err(NcclError::from).and_then(|()| {
            // SAFETY: made by `make`, and taken out of its place, so it is released once.
            self.nccl.check(name, unsafe { release(comm) })
        });
        if let Err(error) = outcome {
            tracing::warn!(%error, "an NCCL communicator was not released");
        }
    }

    fn get(&self) -> Result<Comm, NcclError> {
        let comm = self.comm.load(Ordering::Acquire);
        if comm.is_null() {
            return Err(NcclError::GivenUp);
        }
        Ok(comm)
    }
}

/// What one rank does in one collective, and where its memory is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation {
    collective: Collective,
    dtype: DType,
    op: ReduceOp,
    elements: u64,
    ranks: u64,
    rank: u64,
    root: u64,
    input: u64,
    output: u64,
}

/// One call of the library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Call {
    AllReduce {
        from: u64,
        to: u64,
        count: usize,
    },
    ReduceScatter {
        from: u64,
        to: u64,
        count: usize,
    },
    AllGather {
        from: u64,
        to: u64,
        count: usize,
    },
    Broadcast {
        from: u64,
        to: u64,
        count: usize,
        root: u64,
    },
    Send {
        from: u64,
        count: usize,
        peer: u64,
    },
    Receive {
        to: u64,
        count: usize,
        peer: u64,
    },
}

impl Operation {
    /// The part of the rank at position `rank` of `cell`, whose payload lies at `input` and `output`.
    pub fn new(cell: &Cell, rank: usize, input: u64, output: u64) -> Result<Operation, NcclError> {
        if (input == output) != (cell.placement == Placement::InPlace) {
            return Err(NcclError::Misuse("in place means one memory, out of place two"));
        }
        if cell.collective.is_blocked() && !cell.elements().is_multiple_of(cell.world()) {
            return Err(NcclError::Misuse("NCCL's blocks are all of one size"));
        }
        Ok(Operation {
            collective: cell.collective,
            dtype: cell.dtype,
            op: cell.op,
            elements: cell.elements() as u64,
            ranks: cell.world() as u64,
            rank: rank as u64,
            root: u64::from(cell.root),
            input,
            output,
        })
    }

    /// The calls that do it; several belong into one group.
    fn calls(&self) -> Vec<Call> {
        let whole = self.elements as usize;
        let block = (self.elements / self.ranks) as usize;
        let block_at = |base: u64, index: u64| base + index * block as u64 * self.dtype.size() as u64;
        let (input, output, me) = (self.input, self.output, self.rank);
        let send = |from: u64, count: usize, peer: u64| Call::Send { from, count, peer };
        let receive = |to: u64, count: usize, peer: u64| Call::Receive { to, count, peer };
        match self.collective {
            Collective::AllReduce => vec![Call::AllReduce {
                from: input,
                to: output,
                count: whole,
            }],
            Collective::ReduceScatter => vec![Call::ReduceScatter {
                from: input,
                to: block_at(output, me),
                count: block,
            }],
            Collective::AllGather => vec![Call::AllGather {
                from: block_at(input, me),
                to: output,
                count: block,
            }],
            Collective::Broadcast => vec![Call::Broadcast {
                from: input,
                to: output,
                count: whole,
                root: self.root,
            }],
            Collective::AllToAll => {
                let with = |peer: u64| {
                    let out = send(block_at(input, peer), block, peer);
                    [out, receive(block_at(output, peer), block, peer)]
                };
                (0..self.ranks).flat_map(with).collect()
            }
            Collective::PointToPoint => match me {
                0 => vec![send(input, whole, 1)],
                1 => vec![receive(output, whole, 0)],
                _ => Vec::new(),
            },
            Collective::Bidirectional => match me {
                0 | 1 => vec![send(input, whole, 1 - me), receive(output, whole, 1 - me)],
                _ => Vec::new(),
            },
        }
    }
}

/// `ncclDataType_t`.
fn data_type(dtype: DType) -> c_int {
    match dtype {
        DType::U8 => 1,
        DType::I32 => 2,
        DType::U32 => 3,
        DType::I64 => 4,
        DType::F16 => 6,
        DType::F32 => 7,
        DType::F64 => 8,
        DType::Bf16 => 9,
    }
}

/// `ncclRedOp_t`.
fn operator(op: ReduceOp) -> c_int {
    match op {
        ReduceOp::Sum => 0,
        ReduceOp::Prod => 1,
        ReduceOp::Max => 2,
        ReduceOp::Min => 3,
        ReduceOp::Avg => 4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{DeviceKind, Engine, Load, TransportKind};
    use crate::units::Bytes;

    const INPUT: u64 = 0x1000;
    const OUTPUT: u64 = 0x9000;

    /// Twelve f32 elements.
    fn cell(collective: Collective, ranks: u32) -> Cell {
        Cell {
            id: 0,
            test: "t".into(),
            slot: 0,
            load: Load::Alone,
            collective,
            algorithm: collective.algorithms()[0],
            ranks: (0..ranks).collect(),
            root: 1,
            rails: Vec::new(),
            flows: 1,
            source_port: None,
            transport: TransportKind::Peer,
            device: DeviceKind::Cuda,
            size: Bytes(48),
            dtype: DType::F32,
            op: ReduceOp::Sum,
            placement: Placement::OutOfPlace,
            engine: Engine::Nccl,
            batch: 1,
        }
    }

    fn calls(cell: &Cell, rank: usize) -> Vec<Call> {
        Operation::new(cell, rank, INPUT, OUTPUT).unwrap().calls()
    }

    #[test]
    fn blocks_lie_where_the_check_looks_for_them() {
        // Three ranks, blocks of four elements of four bytes.
        let scatter = calls(&cell(Collective::ReduceScatter, 3), 2);
        let (from, to, count) = (INPUT, OUTPUT + 32, 4);
        assert_eq!(scatter, [Call::ReduceScatter { from, to, count }]);
        let gather = calls(&cell(Collective::AllGather, 3), 2);
        let (from, to) = (INPUT + 32, OUTPUT);
        assert_eq!(gather, [Call::AllGather { from, to, count }]);
        let all = calls(&cell(Collective::AllToAll, 3), 0);
        assert_eq!(all.len(), 6);
        let (from, to, peer) = (INPUT + 16, OUTPUT + 16, 1);
        assert_eq!(
            all[2..4],
            [
                Call::Send { from, count, peer },
                Call::Receive { to, count, peer }
            ]
        );
        let broadcast = calls(&cell(Collective::Broadcast, 3), 0);
        let (from, to, count, root) = (INPUT, OUTPUT, 12, 1);
        assert_eq!(
            broadcast,
            [Call::Broadcast {
                from,
                to,
                count,
                root
            }]
        );
    }

    #[test]
    fn a_pair_sends_one_way_or_both() {
        let one_way = cell(Collective::PointToPoint, 2);
        let (from, to, count) = (INPUT, OUTPUT, 12);
        assert_eq!(calls(&one_way, 0), [Call::Send { from, count, peer: 1 }]);
        assert_eq!(calls(&one_way, 1), [Call::Receive { to, count, peer: 0 }]);
        let both = cell(Collective::Bidirectional, 2);
        for rank in 0..2u64 {
            let peer = 1 - rank;
            let wanted = [
                Call::Send { from, count, peer },
                Call::Receive { to, count, peer },
            ];
            assert_eq!(calls(&both, rank as usize), wanted);
        }
    }

    #[test]
    fn what_nccl_could_not_do_as_the_cell_says_is_refused() {
        let mut odd = cell(Collective::AllGather, 3);
        odd.size = Bytes(52);
        assert!(
            Operation::new(&odd, 0, INPUT, OUTPUT).is_err(),
            "13 elements over 3 ranks"
        );
        let out_of_place = cell(Collective::AllReduce, 2);
        assert!(Operation::new(&out_of_place, 0, INPUT, INPUT).is_err());
        assert!(Operation::new(&out_of_place, 0, INPUT, OUTPUT).is_ok());
    }

    #[test]
    fn an_id_survives_being_sent() {
        let id = UniqueId(std::array::from_fn(|at| (at * 7) as u8));
        assert_eq!(UniqueId::from_hex(&id.to_hex()), Some(id));
        assert_eq!(UniqueId::from_hex("00"), None);
        assert_eq!(UniqueId::from_hex(&"x".repeat(256)), None);
        assert_eq!(UniqueId::from_hex(&"\u{e9}".repeat(128)), None);
    }
}
