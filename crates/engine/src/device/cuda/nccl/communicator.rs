//! Communicators: ranks that run collectives with each other.

use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::time::Duration;

use super::super::gpu::Gpu;
use super::super::stream::Stream;
use super::environment::AlgorithmHold;
use super::library::{Comm, Config, IN_PROGRESS, Nccl, NcclError, RawId, SUCCESS};
use super::operation::{Call, Operation};
use record::{Algorithm, Cell, Collective};

/// `ncclUniqueId`: what the ranks of one communicator share to find each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UniqueId(pub [u8; 128]);

impl UniqueId {
    /// A new one. The caller must be one of the ranks: the others connect to it first.
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

/// What one rank needs to join a communicator.
#[derive(Debug, Clone, Copy)]
pub struct CommunicatorConfig {
    /// The same on all ranks.
    pub id: UniqueId,
    /// How many they are.
    pub ranks: u32,
    /// Which one this is.
    pub rank: u32,
    /// The algorithm NCCL must use, by its own name; none leaves the choice to NCCL.
    pub algorithm: Option<&'static str>,
    /// Most thread blocks of a kernel; none leaves the choice to NCCL.
    pub most_blocks: Option<u32>,
}

impl CommunicatorConfig {
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
    /// Null before it is created and after it was released. NCCL sets it early during creation, so that it can be aborted then.
    comm: AtomicPtr<c_void>,
}

impl Communicator {
    /// One that is not created yet.
    pub fn new(nccl: &'static Nccl, gpu: Arc<Gpu>) -> Communicator {
        Communicator {
            nccl,
            gpu,
            comm: AtomicPtr::new(null_mut()),
        }
    }

    /// Creates it. Returns when all ranks have done so, which may be never: see [`Communicator::abort`]. `limit` is how long
    /// other communicators of this process may block `NCCL_ALGO`.
    pub fn make(&self, terms: &CommunicatorConfig, limit: Duration) -> Result<(), NcclError> {
        let mut config = Config::new();
        config.blocking = 1;
        if let Some(most) = terms.most_blocks {
            config.max_ctas = most.clamp(1, 32) as c_int;
        }
        let id = RawId { internal: terms.id.0 };
        let _algorithm = AlgorithmHold::of(terms.algorithm, limit)?;
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

    /// Enqueues `operation` on the stream. The first time this may need all ranks.
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
        let (dtype, op) = operation.codes();
        let stream = stream.raw();
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

    /// Asynchronous errors: a connection broke, a peer is gone.
    pub fn async_error(&self) -> Result<(), NcclError> {
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

    /// Aborts its kernels and threads and releases it. Another thread may be in a call, which then returns with an error.
    pub fn abort(&self) {
        self.release("ncclCommAbort", self.nccl.call.ncclCommAbort);
    }

    /// Destroys it; the other ranks do so too.
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
            return Err(NcclError::Aborted);
        }
        Ok(comm)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_survives_being_sent() {
        let id = UniqueId(std::array::from_fn(|at| (at * 7) as u8));
        assert_eq!(UniqueId::from_hex(&id.to_hex()), Some(id));
        assert_eq!(UniqueId::from_hex("00"), None);
        assert_eq!(UniqueId::from_hex(&"x".repeat(256)), None);
        assert_eq!(UniqueId::from_hex(&"\u{e9}".repeat(128)), None);
    }
}
