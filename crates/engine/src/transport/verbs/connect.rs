//! Two ranks bring a queue pair up between them, over a TCP connection that both have greeted.
//!
//! In two moves, so that a rank can begin with all its peers before it waits for any: otherwise ranks that wait for each
//! other in a circle would never meet.

use std::io;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::super::Link;
use super::card::{self, Card};
use super::direct::VerbsDirectLink;
use super::entropy;
use super::failure::End;
use super::introduction::Introduction;
use super::landing::{CHUNK_BYTES, GRANT_BYTES, Landing};
use super::link::VerbsLink;
use super::nic::{Nic, ip_of};
use super::queue_pair::{Depths, Path, QueuePair};
use super::wire::{Settings, Wire};
use record::{Completion, FlowRecord, PortKnowledge};

/// Packets that are not acknowledged are sent again after 4.096 us times two to the power of this: 0.54 s. With seven tries
/// a flap of two seconds is survived, and a dead path is noticed after four.
pub const ACK_TIMEOUT: u8 = 17;
/// How often. Soft-RoCE takes 7 for "for ever".
const RETRIES: u8 = 6;
/// How often a peer without room is asked again. It always has room unless it misbehaves.
const NOT_READY_RETRIES: u8 = 6;
/// Bytes that may lie within a request.
const INLINE: u32 = 220;
/// Most and fewest messages a queue pair has room for, and what all of a peer's together have.
const MOST_SLOTS: u32 = 8;
const FEWEST_SLOTS: u32 = 2;
const SLOTS_OF_A_PEER: u32 = 32;

/// A queue pair that has introduced itself and waits for its peer.
pub struct Pending {
    stream: TcpStream,
    nic: Arc<Nic>,
    pair: QueuePair,
    landing: Landing,
    card: Card,
    wanted: Introduction,
}

impl Pending {
    /// Makes a queue pair and tells the peer about it; when that is not possible, tells the peer that.
    pub fn begin(mut stream: TcpStream, nic: &Arc<Nic>, wanted: Introduction) -> io::Result<Pending> {
        match prepare(nic, &wanted) {
            Ok((pair, landing, card)) => {
                card.send(&mut stream)?;
                Ok(Pending {
                    stream,
                    nic: Arc::clone(nic),
                    pair,
                    landing,
                    card,
                    wanted,
                })
            }
            Err(error) => {
                card::apologise(&mut stream, &error.to_string());
                Err(error)
            }
        }
    }

    /// Hears of the peer's queue pair and connects to it.
    pub fn meet(mut self, deadline: Instant) -> io::Result<Meeting> {
        patience(&self.stream, deadline)?;
        let theirs = Card::receive(&mut self.stream)?;
        match self.connect(&theirs) {
            Ok(flow) => {
                card::say_ready(&mut self.stream)?;
                Ok(Meeting {
                    pending: self,
                    theirs,
                    flow,
                })
            }
            Err(error) => {
                card::apologise(&mut self.stream, &error.to_string());
                Err(error)
            }
        }
    }

    fn connect(&mut self, theirs: &Card) -> io::Result<FlowRecord> {
        let tuning = Tuning {
            not_ready_retries: NOT_READY_RETRIES,
            reads: 1,
        };
        let flow = bring_up(
            &mut self.pair,
            &self.nic,
            &self.card,
            theirs,
            &self.wanted,
            tuning,
        )?;
        self.pair.expect_numbers(self.landing.expected())?;
        Ok(flow)
    }
}

/// What differs between uses of a queue pair.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tuning {
    /// How often a peer without room is asked again; 7 is for ever.
    pub not_ready_retries: u8,
    /// RDMA reads under way at a time.
    pub reads: u8,
}

/// Connects a queue pair to its peer, on the terms both were told; what it is called on the wire.
pub(super) fn bring_up(
    pair: &mut QueuePair,
    nic: &Nic,
    mine: &Card,
    theirs: &Card,
    wanted: &Introduction,
    tuning: Tuning,
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
    let path = Path {
        port: nic.port.port,
        gid_index: nic.gid_index,
        // On InfiniBand a global header is needed between subnets only.
        global: !mine.infiniband || mine.gid[..8] != theirs.gid[..8],
        to_gid: theirs.gid,
        to_lid: theirs.lid,
        to_queue_pair: theirs.queue_pair,
        first_packet: mine.first_packet,
        peers_first_packet: theirs.first_packet,
        mtu: wanted.terms.path_mtu.unwrap_or(mtu),
        service_level: wanted.terms.service_level,
        traffic_class: wanted.terms.traffic_class,
        flow_label: flow_label.unwrap_or(0),
        timeout: ACK_TIMEOUT,
        retries: RETRIES,
        not_ready_retries: tuning.not_ready_retries,
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
pub struct Meeting {
    pending: Pending,
    theirs: Card,
    flow: FlowRecord,
}

impl Meeting {
    /// Waits until the peer is connected too.
    pub fn finish(self, deadline: Instant) -> io::Result<Box<dyn Link>> {
        let Meeting {
            pending,
            theirs,
            flow,
        } = self;
        let mut stream = pending.stream;
        patience(&stream, deadline)?;
        card::hear_ready(&mut stream)?;
        stream.set_nonblocking(true)?;
        let wanted = pending.wanted;
        let with = Settings {
            here: end_of(wanted.me, &pending.card),
            there: end_of(wanted.peer, &theirs),
            peer: theirs,
            flow,
            sleeps: wanted.terms.completion.unwrap_or_else(default_completion) == Completion::Event,
            nic: pending.nic,
        };
        let wire = Wire::new(pending.pair, stream, with);
        Ok(match wanted.placed {
            true => Box::new(VerbsDirectLink::new(wire, pending.landing)),
            false => Box::new(VerbsLink::new(wire, pending.landing)),
        })
    }
}

/// One end of a queue pair, by the card it was introduced with.
pub(super) fn end_of(rank: u32, card: &Card) -> End {
    End {
        rank,
        device: card.device.clone(),
        port: card.port,
        queue_pair: card.queue_pair,
        address: if card.infiniband {
            format!("LID {}", card.lid)
        } else {
            ip_of(&card.gid).to_string()
        },
    }
}

/// How completions are noticed when nobody says: with few cores, whoever spins takes the time of the peer it waits for.
pub(super) fn default_completion() -> Completion {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    if cores <= 2 {
        Completion::Event
    } else {
        Completion::Poll
    }
}

/// Reading waits until the deadline at most.
pub(super) fn patience(stream: &TcpStream, deadline: Instant) -> io::Result<()> {
    let left = deadline.saturating_duration_since(Instant::now());
    stream.set_read_timeout(Some(left.max(Duration::from_millis(1))))
}

fn prepare(nic: &Arc<Nic>, wanted: &Introduction) -> io::Result<(QueuePair, Landing, Card)> {
    let slots = (SLOTS_OF_A_PEER / u32::from(wanted.flows.max(1))).clamp(FEWEST_SLOTS, MOST_SLOTS);
    let slot_bytes = if wanted.placed { GRANT_BYTES } else { CHUNK_BYTES };
    let landing = Landing::new(nic, slots, slot_bytes)?;
    let depths = Depths {
        sends: Wire::REQUESTS,
        receives: landing.expected() as u32,
        inline: INLINE,
    };
    let pair = QueuePair::new(nic.domain(), nic.port.port, depths)?;
    let opened = Opened {
        memory: landing.start(),
        key: landing.key(),
        slots: landing.slots(),
        slot_bytes: landing.slot_bytes(),
    };
    let card = introduce(nic, &pair, opened)?;
    Ok((pair, landing, card))
}

/// Memory that a side has opened to the other.
pub(super) struct Opened {
    pub memory: u64,
    pub key: u32,
    pub slots: u32,
    pub slot_bytes: u32,
}

/// The card of a queue pair.
pub(super) fn introduce(nic: &Nic, pair: &QueuePair, opened: Opened) -> io::Result<Card> {
    let mut random = [0; 4];
    getrandom::fill(&mut random).map_err(|error| io::Error::other(error.to_string()))?;
    Ok(Card {
        queue_pair: pair.number(),
        // Packet numbers have 24 bits.
        first_packet: u32::from_le_bytes(random) & 0x00ff_ffff,
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
