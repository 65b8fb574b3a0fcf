//! A completion queue and the descriptor of its channel.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::Arc;

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use rdma_mummy_sys as ib;

use super::context::{Context, checked};

/// Completions taken from the queue at a time.
const AT_ONCE: usize = 16;

/// A completion: a posted request is done, or a message has arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Completion {
    /// The id it was posted with.
    pub id: u64,
    /// Whether it is a message that arrived, rather than one that was sent.
    pub arrived: bool,
    /// Bytes of a message that arrived.
    pub bytes: u32,
    /// Its immediate data.
    pub immediate: u32,
    /// Why it failed: the status as verbs number it, and the vendor's own code.
    pub failure: Option<(u32, u32)>,
}

/// A completion queue with its channel.
pub struct CompletionQueue {
    raw: NonNull<ib::ibv_cq>,
    channel: NonNull<ib::ibv_comp_channel>,
    _context: Arc<Context>,
    /// Events that were taken and must be acknowledged before the queue can be given back.
    unacknowledged: u32,
}

// SAFETY: used by one thread at a time (`&mut self` or calls that libibverbs makes thread-safe).
unsafe impl Send for CompletionQueue {}

impl CompletionQueue {
    /// A queue with room for `entries`.
    pub fn new(context: &Arc<Context>, entries: u32) -> io::Result<CompletionQueue> {
        // SAFETY: the context is open.
        let channel = unsafe { ib::ibv_create_comp_channel(context.raw()) };
        let channel = NonNull::new(channel).ok_or_else(io::Error::last_os_error)?;
        let entries = i32::try_from(entries).unwrap_or(i32::MAX);
        let none = std::ptr::null_mut();
        // SAFETY: context and channel are alive; any completion vector 0 exists.
        let raw = unsafe { ib::ibv_create_cq(context.raw(), entries, none, channel.as_ptr(), 0) };
        let Some(raw) = NonNull::new(raw) else {
            let error = io::Error::last_os_error();
            // SAFETY: made above, and nothing uses it.
            unsafe { ib::ibv_destroy_comp_channel(channel.as_ptr()) };
            return Err(error);
        };
        let queue = CompletionQueue {
            raw,
            channel,
            _context: Arc::clone(context),
            unacknowledged: 0,
        };
        fcntl(queue.descriptor(), FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        Ok(queue)
    }

    /// Polls completions and passes each on, in order; how many there were.
    pub fn poll(&mut self, mut each: impl FnMut(Completion)) -> io::Result<usize> {
        let mut taken = 0;
        loop {
            // SAFETY: completions are plain numbers, for which zero is a value.
            let mut entries: [ib::ibv_wc; AT_ONCE] = unsafe { std::mem::zeroed() };
            // SAFETY: the queue is alive and there is room for as many entries as are asked for.
            let count = unsafe { ib::ibv_poll_cq(self.raw.as_ptr(), AT_ONCE as i32, entries.as_mut_ptr()) };
            let count = usize::try_from(count).map_err(|_| io::Error::from_raw_os_error(-count))?;
            entries[..count].iter().map(read).for_each(&mut each);
            taken += count;
            if count < AT_ONCE {
                return Ok(taken);
            }
        }
    }

    /// Requests a notification for the next completion. An earlier one does not notify: poll once more after this.
    pub fn arm(&self) -> io::Result<()> {
        // SAFETY: the queue is alive.
        checked(unsafe { ib::ibv_req_notify_cq(self.raw.as_ptr(), 0) })
    }

    /// Takes the events that made the descriptor readable.
    pub fn drain_events(&mut self) {
        loop {
            let (mut queue, mut context) = (std::ptr::null_mut(), std::ptr::null_mut());
            // SAFETY: the channel is alive and does not block; both places are valid for writing.
            let answer = unsafe { ib::ibv_get_cq_event(self.channel.as_ptr(), &mut queue, &mut context) };
            if answer != 0 {
                return;
            }
            self.unacknowledged += 1;
        }
    }

    /// What to sleep on.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        // SAFETY: the channel is alive for as long as the borrow, and so is its descriptor.
        unsafe { BorrowedFd::borrow_raw((*self.channel.as_ptr()).fd) }
    }

    pub(super) fn raw(&self) -> *mut ib::ibv_cq {
        self.raw.as_ptr()
    }
}

impl AsFd for CompletionQueue {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor()
    }
}

impl Drop for CompletionQueue {
    fn drop(&mut self) {
        // SAFETY: made in `new`; queue pairs hold the queue, so none uses it any more. Giving the queue back waits for
        // events that were taken and not acknowledged, so they are acknowledged first.
        unsafe {
            ib::ibv_ack_cq_events(self.raw.as_ptr(), self.unacknowledged);
            ib::ibv_destroy_cq(self.raw.as_ptr());
            ib::ibv_destroy_comp_channel(self.channel.as_ptr());
        }
    }
}

fn read(entry: &ib::ibv_wc) -> Completion {
    let failed = entry.status != ib::ibv_wc_status::IBV_WC_SUCCESS;
    // SAFETY: four bytes are a number whatever they are.
    let immediate = unsafe { entry.imm_data_invalidated_rkey_union.imm_data };
    Completion {
        id: entry.wr_id,
        // Of a failure, only id and status mean anything: ids say what it was.
        arrived: !failed && entry.opcode & ib::ibv_wc_opcode::IBV_WC_RECV != 0,
        bytes: entry.byte_len,
        immediate: u32::from_be(immediate),
        failure: failed.then_some((entry.status, entry.vendor_err)),
    }
}
