//! A reliable connected (RC) queue pair.

use std::io;
use std::ptr::{NonNull, null_mut};
use std::sync::Arc;

use rdma_mummy_sys as ib;
use rdma_mummy_sys::ibv_qp_attr_mask as mask;

use super::completion::CompletionQueue;
use super::context::{Gid, checked, mtu_number};
use super::memory::ProtectionDomain;

/// Queue depths of a queue pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueDepths {
    /// Work requests in flight.
    pub sends: u32,
    /// Posted receives.
    pub receives: u32,
    /// Inline bytes of a work request.
    pub inline: u32,
}

/// How a queue pair reaches its peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PathAttributes {
    /// Port of this side's device.
    pub port: u8,
    /// Address of this side, by its index.
    pub gid_index: u8,
    /// Whether packets carry a global address; always on Ethernet.
    pub global: bool,
    /// Address of the peer.
    pub to_gid: Gid,
    /// Local identifier of the peer, on InfiniBand.
    pub to_lid: u16,
    /// Queue pair of the peer.
    pub to_queue_pair: u32,
    /// Initial PSN of this side.
    pub psn: u32,
    /// Initial PSN of the peer.
    pub peer_psn: u32,
    /// Largest packet payload in bytes.
    pub mtu: u16,
    /// Service level.
    pub service_level: u8,
    /// Traffic class.
    pub traffic_class: u8,
    /// Flow label; 0 leaves the choice to the kernel.
    pub flow_label: u32,
    /// A packet that is not acknowledged is sent again after 4.096 us times two to the power of this.
    pub timeout: u8,
    /// How often it is sent again.
    pub retries: u8,
    /// RNR retries; 7 means forever.
    pub rnr_retries: u8,
    /// RDMA reads in flight.
    pub reads: u8,
}

/// What a work request does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opcode {
    /// RDMA write without notification.
    Write,
    /// RDMA write with immediate data, which completes a receive at the peer.
    WriteWithImm(u32),
    /// Send into a posted receive.
    Send,
    /// RDMA read.
    Read,
}

/// A work request.
#[derive(Debug, Clone, Copy)]
pub struct WorkRequest {
    /// Comes back with its completion.
    pub id: u64,
    /// What it does.
    pub work: Opcode,
    /// This side's memory: address, bytes, key. Without bytes there need not be any.
    pub local: (u64, u32, u32),
    /// The peer's memory: address and key.
    pub remote: (u64, u32),
    /// Whether it generates a completion.
    pub signalled: bool,
    /// Whether its bytes are inlined, so that their memory is free at once.
    pub inline: bool,
}

/// A queue pair. It holds its completion queue, through which both of its queues report.
pub struct QueuePair {
    raw: NonNull<ib::ibv_qp>,
    inline: u32,
    /// The requests of a call, kept so as not to be made anew.
    sends: Vec<ib::ibv_send_wr>,
    pieces: Vec<ib::ibv_sge>,
    receives: Vec<ib::ibv_recv_wr>,
    /// Behind `raw`, which is given back first.
    completions: CompletionQueue,
    _domain: Arc<ProtectionDomain>,
}

// SAFETY: used by one thread at a time; the pointers within its lists are set anew by every call.
unsafe impl Send for QueuePair {}

impl QueuePair {
    /// A queue pair that is not connected yet, on a port.
    pub fn new(domain: &Arc<ProtectionDomain>, port: u8, depths: QueueDepths) -> io::Result<QueuePair> {
        let completions = CompletionQueue::new(domain.context(), depths.sends + depths.receives + 1)?;
        // SAFETY: zero is a value for every field: null pointers and numbers.
        let mut wanted: ib::ibv_qp_init_attr = unsafe { std::mem::zeroed() };
        wanted.send_cq = completions.raw();
        wanted.recv_cq = completions.raw();
        wanted.qp_type = ib::ibv_qp_type::IBV_QPT_RC;
        wanted.cap.max_send_wr = depths.sends;
        wanted.cap.max_recv_wr = depths.receives;
        wanted.cap.max_send_sge = 1;
        wanted.cap.max_recv_sge = 1;
        wanted.cap.max_inline_data = depths.inline;
        // SAFETY: domain and completion queue are alive and are held by the queue pair.
        let raw = unsafe { ib::ibv_create_qp(domain.raw(), &mut wanted) };
        let mut made = QueuePair {
            raw: NonNull::new(raw).ok_or_else(io::Error::last_os_error)?,
            inline: wanted.cap.max_inline_data,
            sends: Vec::new(),
            pieces: Vec::new(),
            receives: Vec::new(),
            completions,
            _domain: Arc::clone(domain),
        };
        let mut attributes = blank();
        attributes.qp_state = ib::ibv_qp_state::IBV_QPS_INIT;
        attributes.port_num = port;
        let access =
            ib::ibv_access_flags::IBV_ACCESS_REMOTE_WRITE.0 | ib::ibv_access_flags::IBV_ACCESS_REMOTE_READ.0;
        attributes.qp_access_flags = access;
        made.modify(
            &mut attributes,
            mask::IBV_QP_STATE | mask::IBV_QP_PKEY_INDEX | mask::IBV_QP_PORT | mask::IBV_QP_ACCESS_FLAGS,
        )?;
        Ok(made)
    }

    /// Connects it: after this it takes what the peer sends, and can send as soon as the peer is connected too.
    pub fn connect(&mut self, path: &PathAttributes) -> io::Result<()> {
        let mut attributes = blank();
        attributes.qp_state = ib::ibv_qp_state::IBV_QPS_RTR;
        attributes.path_mtu = mtu_number(path.mtu).ok_or_else(|| {
            io::Error::other(format!(
                "{} bytes is not an RDMA path MTU; use 256, 512, 1024, 2048 or 4096",
                path.mtu
            ))
        })?;
        attributes.dest_qp_num = path.to_queue_pair;
        attributes.rq_psn = path.peer_psn;
        attributes.max_dest_rd_atomic = path.reads;
        // 0.64 ms: the RNR timer.
        attributes.min_rnr_timer = 12;
        let address = &mut attributes.ah_attr;
        address.port_num = path.port;
        address.sl = path.service_level;
        address.dlid = path.to_lid;
        if path.global {
            address.is_global = 1;
            address.grh.dgid.raw = path.to_gid;
            address.grh.sgid_index = path.gid_index;
            address.grh.flow_label = path.flow_label;
            address.grh.traffic_class = path.traffic_class;
            address.grh.hop_limit = 64;
        }
        self.modify(
            &mut attributes,
            mask::IBV_QP_STATE
                | mask::IBV_QP_AV
                | mask::IBV_QP_PATH_MTU
                | mask::IBV_QP_DEST_QPN
                | mask::IBV_QP_RQ_PSN
                | mask::IBV_QP_MAX_DEST_RD_ATOMIC
                | mask::IBV_QP_MIN_RNR_TIMER,
        )?;
        let mut attributes = blank();
        attributes.qp_state = ib::ibv_qp_state::IBV_QPS_RTS;
        attributes.sq_psn = path.psn;
        attributes.timeout = path.timeout;
        attributes.retry_cnt = path.retries;
        attributes.rnr_retry = path.rnr_retries;
        attributes.max_rd_atomic = path.reads;
        self.modify(
            &mut attributes,
            mask::IBV_QP_STATE
                | mask::IBV_QP_SQ_PSN
                | mask::IBV_QP_TIMEOUT
                | mask::IBV_QP_RETRY_CNT
                | mask::IBV_QP_RNR_RETRY
                | mask::IBV_QP_MAX_QP_RD_ATOMIC,
        )
    }

    /// Sets the UDP source port by the provider's own call; false where the provider has none.
    pub fn set_source_port(&self, port: u16) -> bool {
        // SAFETY: the queue pair is alive; the call answers with an error for devices of other makers.
        unsafe { ib::mlx5dv_modify_qp_udp_sport(self.raw.as_ptr(), port) == 0 }
    }

    /// Moves it to the error state: requests in flight are flushed, and the peer can no longer write.
    pub fn fail(&mut self) {
        let mut attributes = blank();
        attributes.qp_state = ib::ibv_qp_state::IBV_QPS_ERR;
        if let Err(error) = self.modify(&mut attributes, mask::IBV_QP_STATE) {
            tracing::debug!(%error, "a queue pair could not be moved to the error state");
        }
    }

    /// Its number.
    pub fn number(&self) -> u32 {
        // SAFETY: the queue pair is alive; its number never changes.
        unsafe { (*self.raw.as_ptr()).qp_num }
    }

    /// Inline bytes of a work request.
    pub fn inline(&self) -> u32 {
        self.inline
    }

    /// Where both of its queues report.
    pub fn completions(&mut self) -> &mut CompletionQueue {
        &mut self.completions
    }

    /// What to sleep on.
    pub fn completions_ref(&self) -> &CompletionQueue {
        &self.completions
    }

    /// Posts requests with one doorbell.
    ///
    /// # Safety
    ///
    /// The local memory of every request stays valid, and is written by nobody (by nobody but the NIC, for reads), until the
    /// request or a later signalled one has completed or the queue pair is gone. Memory of inline requests is free at once.
    pub unsafe fn post(&mut self, requests: &[WorkRequest]) -> io::Result<()> {
        self.sends.clear();
        self.pieces.clear();
        for request in requests {
            let (addr, length, lkey) = request.local;
            self.pieces.push(ib::ibv_sge { addr, length, lkey });
        }
        for (request, piece) in requests.iter().zip(&mut self.pieces) {
            let (opcode, immediate) = match request.work {
                Opcode::Write => (ib::ibv_wr_opcode::IBV_WR_RDMA_WRITE, 0),
                Opcode::WriteWithImm(number) => (ib::ibv_wr_opcode::IBV_WR_RDMA_WRITE_WITH_IMM, number),
                Opcode::Send => (ib::ibv_wr_opcode::IBV_WR_SEND, 0),
                Opcode::Read => (ib::ibv_wr_opcode::IBV_WR_RDMA_READ, 0),
            };
            let mut flags = 0;
            if request.signalled {
                flags |= ib::ibv_send_flags::IBV_SEND_SIGNALED.0;
            }
            if request.inline {
                flags |= ib::ibv_send_flags::IBV_SEND_INLINE.0;
            }
            // SAFETY: zero is a value for every field: null pointers and numbers.
            let mut send: ib::ibv_send_wr = unsafe { std::mem::zeroed() };
            send.wr_id = request.id;
            if request.local.1 > 0 {
                send.sg_list = piece;
                send.num_sge = 1;
            }
            send.opcode = opcode;
            send.send_flags = flags;
            send.imm_data_invalidated_rkey_union.imm_data = immediate.to_be();
            let (remote_addr, rkey) = request.remote;
            send.wr.rdma = ib::rdma_t { remote_addr, rkey };
            self.sends.push(send);
        }
        let first = self.sends.as_mut_ptr();
        for at in 1..self.sends.len() {
            // SAFETY: both lie within the list, which does not grow until it was posted.
            unsafe { (*first.add(at - 1)).next = first.add(at) };
        }
        if self.sends.is_empty() {
            return Ok(());
        }
        let mut bad = null_mut();
        // SAFETY: a linked list of requests, alive during the call; their memory is the caller's promise.
        checked(unsafe { ib::ibv_post_send(self.raw.as_ptr(), first, &mut bad) })
    }

    /// Posts `count` receives for messages with immediate data only.
    pub fn post_receives(&mut self, count: usize) -> io::Result<()> {
        // SAFETY: no memory is named.
        unsafe { self.post_receives_into(count, None) }
    }

    /// Posts `count` receives, all into the same memory (address, bytes, key), if any.
    ///
    /// # Safety
    ///
    /// The memory stays valid, and is used by nobody, until the messages have arrived or the queue pair is gone.
    pub unsafe fn post_receives_into(
        &mut self,
        count: usize,
        memory: Option<(u64, u32, u32)>,
    ) -> io::Result<()> {
        self.receives.clear();
        let (addr, length, lkey) = memory.unwrap_or_default();
        let mut piece = ib::ibv_sge { addr, length, lkey };
        for _ in 0..count {
            // SAFETY: zero is a value for every field: null pointers and numbers.
            let mut receive: ib::ibv_recv_wr = unsafe { std::mem::zeroed() };
            receive.wr_id = ARRIVAL;
            if memory.is_some() {
                receive.sg_list = &mut piece;
                receive.num_sge = 1;
            }
            self.receives.push(receive);
        }
        let first = self.receives.as_mut_ptr();
        for at in 1..self.receives.len() {
            // SAFETY: both lie within the list, which does not grow until it was posted.
            unsafe { (*first.add(at - 1)).next = first.add(at) };
        }
        if count == 0 {
            return Ok(());
        }
        let mut bad = null_mut();
        // SAFETY: a linked list of requests, alive during the call; their memory is the caller's promise.
        checked(unsafe { ib::ibv_post_recv(self.raw.as_ptr(), first, &mut bad) })
    }

    fn modify(&mut self, attributes: &mut ib::ibv_qp_attr, what: mask) -> io::Result<()> {
        // SAFETY: the queue pair is alive and the attributes are valid.
        checked(unsafe { ib::ibv_modify_qp(self.raw.as_ptr(), attributes, what.0 as i32) })
    }
}

/// The id of messages that arrive; what is sent has others.
pub const ARRIVAL: u64 = u64::MAX;

/// Attributes of which none is set.
fn blank() -> ib::ibv_qp_attr {
    // SAFETY: zero is a value for every field: all are numbers.
    unsafe { std::mem::zeroed() }
}

impl Drop for QueuePair {
    fn drop(&mut self) {
        // SAFETY: made in `new` and not given back before.
        let answer = unsafe { ib::ibv_destroy_qp(self.raw.as_ptr()) };
        if answer != 0 {
            tracing::debug!(answer, "a queue pair could not be destroyed");
        }
    }
}
