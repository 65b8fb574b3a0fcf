//! Two ranks connect a queue pair, over a TCP connection after its handshake.
//!
//! In two steps, so that a rank can begin with all its peers before it waits for any: otherwise ranks that wait for each other in
//! a cycle would deadlock.

use std::io;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::super::link::Link;
use super::direct_link::VerbsDirectLink;
use super::entropy;
use super::failure::QpEnd;
use super::link::VerbsLink;
use super::nic::{Nic, ip_of};
use super::qp_connection::{ACK_TIMEOUT, ConnectionInfo, QpConnection};
use super::queue_pair::{PathAttributes, QueueDepths, QueuePair};
use super::queue_pair_info::{self, QueuePairInfo};
use super::receive_slots::{CHUNK_BYTES, GRANT_BYTES, ReceiveSlots};
use super::request::QueuePairRequest;
use record::{Completion, FlowRecord, PortKnowledge};

/// How often. Soft-RoCE takes 7 for "for ever".
const RETRIES: u8 = 6;
/// RNR retries. The peer always has receives posted unless it misbehaves.
const RNR_RETRIES: u8 = 6;
/// Bytes that may lie within a request.
const INLINE: u32 = 220;
/// Most and fewest receive slots of a queue pair, and those of all queue pairs of a peer together.
const MOST_SLOTS: u32 = 8;
const FEWEST_SLOTS: u32 = 2;
const SLOTS_OF_A_PEER: u32 = 32;

/// A queue pair that has sent its info and waits for its peer's.
pub struct PendingQueuePair {
    stream: TcpStream,
    nic: Arc<Nic>,
    pair: QueuePair,
    receive_slots: ReceiveSlots,
    queue_pair_info: QueuePairInfo,
    wanted: QueuePairRequest,
}

impl PendingQueuePair {
    /// Creates a queue pair and sends its info to the peer, or the reason why it cannot.
    pub fn begin(
        mut stream: TcpStream,
        nic: &Arc<Nic>,
        wanted: QueuePairRequest,
    ) -> io::Result<PendingQueuePair> {
        match prepare(nic, &wanted) {
            Ok((pair, receive_slots, queue_pair_info)) => {
                queue_pair_info.send(&mut stream)?;
                Ok(PendingQueuePair {
                    stream,
                    nic: Arc::clone(nic),
                    pair,
                    receive_slots,
                    queue_pair_info,
                    wanted,
                })
            }
            Err(error) => {
                queue_pair_info::send_failure(&mut stream, &error.to_string());
                Err(error)
            }
        }
    }

    /// Receives the info of the peer's queue pair and connects to it.
    pub fn exchange_info(mut self, deadline: Instant) -> io::Result<ConnectedQueuePair> {
        set_read_deadline(&self.stream, deadline)?;
        let theirs = QueuePairInfo::receive(&mut self.stream)?;
        match self.connect(&theirs) {
            Ok(flow) => {
                queue_pair_info::send_ready(&mut self.stream)?;
                Ok(ConnectedQueuePair {
                    pending: self,
                    theirs,
                    flow,
                })
            }
            Err(error) => {
                queue_pair_info::send_failure(&mut self.stream, &error.to_string());
                Err(error)
            }
        }
    }

    fn connect(&mut self, theirs: &QueuePairInfo) -> io::Result<FlowRecord> {
        let tuning = QpTuning {
            rnr_retries: RNR_RETRIES,
            reads: 1,
        };
        let flow = bring_up(
            &mut self.pair,
            &self.nic,
            &self.queue_pair_info,
            theirs,
            &self.wanted,
            tuning,
        )?;
        self.pair.post_receives(self.receive_slots.expected())?;
        Ok(flow)
    }
}

/// What differs between uses of a queue pair.
#[derive(Debug, Clone, Copy)]
pub(super) struct QpTuning {
    /// RNR retries; 7 means forever.
    pub rnr_retries: u8,
    /// RDMA reads in flight.
    pub reads: u8,
}

/// Connects a queue pair to its peer as requested; returns how it appears on the wire.
pub(super) fn bring_up(
    pair: &mut QueuePair,
    nic: &Nic,
    mine: &QueuePairInfo,
    theirs: &QueuePairInfo,
    wanted: &QueuePairRequest,
    tuning: QpTuning,
) -> io::Result<FlowRecord> {
    if mine.infiniband != theirs.infiniband {
        let layer = |infiniband| if infiniband { "InfiniBand" } else { "Ethernet" };
        return Err(io::Error::other(format!(
            "{} is on {}, {} on {}",
            mine.device,
            layer(mine.infiniband),
            theirs.device,
            layer(theirs.infiniband)
        )));
    }
    let mtu = mine.mtu.min(theirs.mtu);
    if let Some(asked) = wanted.terms.path_mtu.filter(|asked| *asked > mtu) {
        return Err(io::Error::other(format!(
            "packets of {asked} bytes were asked for, but the ports carry at most {mtu}"
        )));
    }
    let flow_label = wanted.source_port.and_then(entropy::label_of_port);
    let path = PathAttributes {
        port: nic.port.port,
        gid_index: nic.gid_index,
        // On InfiniBand a global header is needed between subnets only.
        global: !mine.infiniband || mine.gid[..8] != theirs.gid[..8],
        to_gid: theirs.gid,
        to_lid: theirs.lid,
        to_queue_pair: theirs.queue_pair,
        psn: mine.psn,
        peer_psn: theirs.psn,
        mtu: wanted.terms.path_mtu.unwrap_or(mtu),
        service_level: wanted.terms.service_level,
        traffic_class: wanted.terms.traffic_class,
        flow_label: flow_label.unwrap_or(0),
        timeout: ACK_TIMEOUT,
        retries: RETRIES,
        rnr_retries: tuning.rnr_retries,
        reads: tuning.reads,
    };
    pair.connect(&path)?;
    let by_provider = wanted.source_port.is_some_and(|port| pair.set_source_port(port));
    let (source_port, known) = match (mine.infiniband, wanted.source_port) {
        (true, _) => (None, PortKnowledge::None),
        (false, Some(port)) if by_provider => (Some(port), PortKnowledge::Provider),
        (false, Some(port)) => (Some(port), PortKnowledge::FlowLabel),
        (false, None) => {
            let port = entropy::port_of_pair(mine.queue_pair, theirs.queue_pair);
            (Some(port), PortKnowledge::Predicted)
        }
    };
    Ok(FlowRecord {
        from: wanted.me,
        to: wanted.peer,
        rail: wanted.rail.clone(),
        flow: wanted.flow,
        queue_pair: mine.queue_pair,
        to_queue_pair: theirs.queue_pair,
        source: (!mine.infiniband).then(|| ip_of(&mine.gid)),
        destination: (!theirs.infiniband).then(|| ip_of(&theirs.gid)),
        flow_label: path.flow_label,
        source_port,
        known,
    })
}

/// A connected queue pair whose peer may not be connected yet.
pub struct ConnectedQueuePair {
    pending: PendingQueuePair,
    theirs: QueuePairInfo,
    flow: FlowRecord,
}

impl ConnectedQueuePair {
    /// Waits until the peer is connected too.
    pub fn finish(self, deadline: Instant) -> io::Result<Box<dyn Link>> {
        let ConnectedQueuePair {
            pending,
            theirs,
            flow,
        } = self;
        let mut stream = pending.stream;
        set_read_deadline(&stream, deadline)?;
        queue_pair_info::wait_ready(&mut stream)?;
        stream.set_nonblocking(true)?;
        let wanted = pending.wanted;
        let with = ConnectionInfo {
            here: qp_end(wanted.me, &pending.queue_pair_info),
            there: qp_end(wanted.peer, &theirs),
            peer: theirs,
            flow,
            sleeps: wanted.terms.completion.unwrap_or_else(default_completion) == Completion::Event,
            nic: pending.nic,
        };
        let connection = QpConnection::new(pending.pair, stream, with);
        Ok(match wanted.placed {
            true => Box::new(VerbsDirectLink::new(connection, pending.receive_slots)),
            false => Box::new(VerbsLink::new(connection, pending.receive_slots)),
        })
    }
}

/// One end of a queue pair, from its info.
pub(super) fn qp_end(rank: u32, queue_pair_info: &QueuePairInfo) -> QpEnd {
    QpEnd {
        rank,
        device: queue_pair_info.device.clone(),
        port: queue_pair_info.port,
        queue_pair: queue_pair_info.queue_pair,
        address: if queue_pair_info.infiniband {
            format!("LID {}", queue_pair_info.lid)
        } else {
            ip_of(&queue_pair_info.gid).to_string()
        },
    }
}

/// The default way to notice completions: with few cores, spinning takes time from the peer that is waited for.
pub(super) fn default_completion() -> Completion {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    if cores <= 2 {
        Completion::Event
    } else {
        Completion::Poll
    }
}

/// Reads fail after the deadline.
pub(super) fn set_read_deadline(stream: &TcpStream, deadline: Instant) -> io::Result<()> {
    let left = deadline.saturating_duration_since(Instant::now());
    stream.set_read_timeout(Some(left.max(Duration::from_millis(1))))
}

fn prepare(
    nic: &Arc<Nic>,
    wanted: &QueuePairRequest,
) -> io::Result<(QueuePair, ReceiveSlots, QueuePairInfo)> {
    let slots = (SLOTS_OF_A_PEER / u32::from(wanted.flows.max(1))).clamp(FEWEST_SLOTS, MOST_SLOTS);
    let slot_bytes = if wanted.placed { GRANT_BYTES } else { CHUNK_BYTES };
    let receive_slots = ReceiveSlots::new(nic, slots, slot_bytes)?;
    let depths = QueueDepths {
        sends: QpConnection::REQUESTS,
        receives: receive_slots.expected() as u32,
        inline: INLINE,
    };
    let pair = QueuePair::new(nic.domain(), nic.port.port, depths)?;
    let opened = ExposedMemory {
        memory: receive_slots.start(),
        key: receive_slots.key(),
        slots: receive_slots.slots(),
        slot_bytes: receive_slots.slot_bytes(),
    };
    let queue_pair_info = local_info(nic, &pair, opened)?;
    Ok((pair, receive_slots, queue_pair_info))
}

/// Memory that a side exposes to the other.
pub(super) struct ExposedMemory {
    pub memory: u64,
    pub key: u32,
    pub slots: u32,
    pub slot_bytes: u32,
}

/// The info of a queue pair.
pub(super) fn local_info(nic: &Nic, pair: &QueuePair, opened: ExposedMemory) -> io::Result<QueuePairInfo> {
    let mut random = [0; 4];
    getrandom::fill(&mut random).map_err(|error| io::Error::other(error.to_string()))?;
    Ok(QueuePairInfo {
        queue_pair: pair.number(),
        // PSNs have 24 bits.
        psn: u32::from_le_bytes(random) & 0x00ff_ffff,
        lid: nic.state.lid,
        mtu: nic.state.mtu,
        infiniband: nic.state.infiniband,
        port: nic.port.port,
        gid: nic.gid,
        memory: opened.memory,
        key: opened.key,
        slots: opened.slots,
        slot_bytes: opened.slot_bytes,
        device: nic.port.device.clone(),
    })
}
