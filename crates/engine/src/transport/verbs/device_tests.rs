//! Tests that need an RDMA device: run where there is one (a Soft-RoCE device will do), skipped with the reason elsewhere.

use std::net::{IpAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::super::link::{Link, LinkError, Received, Sink};
use super::connect::PendingQueuePair;
use super::context::device_names;
use super::entropy;
use super::memory::Registration;
use super::nic::Nic;
use super::queue_pair::{Opcode, PathAttributes, QueueDepths, QueuePair, WorkRequest};
use super::queue_pair_info::QueuePairInfo;
use super::request::QueuePairRequest;
use crate::device::Region;
use probe::rdma;
use probe::sysfs;
use record::{Completion, PortKnowledge, VerbsTerms};

/// The first device that can be used, with an address of its own; none, with the reason on the screen, elsewhere.
fn nic() -> Option<Arc<Nic>> {
    let ports = rdma::ports(Path::new(sysfs::SYS));
    let Some(port) = ports.first() else {
        eprintln!("skipped: {:?}", super::probe());
        return None;
    };
    Some(Nic::open(&port.record(), IpAddr::from([0, 0, 0, 0]), None).expect("an active port"))
}

fn request(me: u32, terms: VerbsTerms) -> QueuePairRequest {
    QueuePairRequest {
        me,
        peer: 1 - me,
        rail: "rail0".to_string(),
        flow: 0,
        flows: 1,
        source_port: None,
        placed: false,
        terms,
    }
}

fn streams() -> (TcpStream, TcpStream) {
    let door = TcpListener::bind("127.0.0.1:0").unwrap();
    let one = TcpStream::connect(door.local_addr().unwrap()).unwrap();
    (one, door.accept().unwrap().0)
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(20)
}

/// Two links that are each other's peer.
fn links(nic: &Arc<Nic>, terms: VerbsTerms, source_port: Option<u16>) -> [Box<dyn Link>; 2] {
    join(nic, |me| QueuePairRequest {
        source_port,
        ..request(me, terms)
    })
}

fn join(nic: &Arc<Nic>, wanted: impl Fn(u32) -> QueuePairRequest) -> [Box<dyn Link>; 2] {
    let (here, there) = streams();
    let one = PendingQueuePair::begin(here, nic, wanted(0)).unwrap();
    let other = PendingQueuePair::begin(there, nic, wanted(1)).unwrap();
    let (one, other) = (
        one.exchange_info(soon()).unwrap(),
        other.exchange_info(soon()).unwrap(),
    );
    [one.finish(soon()).unwrap(), other.finish(soon()).unwrap()]
}

fn fill(region: &Arc<Region>, seed: usize) {
    let mut memory = region.try_write(0..region.len()).unwrap();
    for (at, byte) in memory.iter_mut().enumerate() {
        *byte = (at.wrapping_mul(31) ^ seed ^ (at >> 8)) as u8;
    }
}

/// Sends `len` bytes at `offset` from one link to the other and returns what arrived.
fn pass(
    links: &mut [Box<dyn Link>; 2],
    region: &Arc<Region>,
    offset: usize,
    len: usize,
) -> Result<Vec<u8>, LinkError> {
    let [from, to] = links;
    let until = soon();
    let mut chunk = Some(region.try_read(offset..offset + len).unwrap());
    let mut got = vec![0; len];
    let mut arrived = false;
    while !arrived || chunk.is_some() || !from.flushed() {
        assert!(Instant::now() < until, "nothing arrived");
        from.advance()?;
        if let Some(lease) = chunk.take() {
            chunk = from.offer(lease)?;
        }
        to.advance()?;
        if !arrived {
            arrived = to.receive(len, Sink::Into(&mut got))? == Received::Chunk;
        }
    }
    Ok(got)
}

#[test]
fn every_size_arrives_as_it_was_sent_from_any_offset() {
    let Some(nic) = nic() else { return };
    for completion in [Completion::Poll, Completion::Event] {
        let terms = VerbsTerms {
            completion: Some(completion),
            ..VerbsTerms::default()
        };
        let mut links = links(&nic, terms, None);
        let region = Region::new((16 << 20) + 64);
        let sizes = (0..=24).flat_map(|power| [(1usize << power) - 1, 1 << power, (1 << power) + 1]);
        for (turn, len) in sizes.filter(|len| (1..=16 << 20).contains(len)).enumerate() {
            let offset = [0, 1, 3, 17, 63][turn % 5];
            fill(&region, turn);
            let got = pass(&mut links, &region, offset, len).unwrap();
            let sent = region.try_read(offset..offset + len).unwrap();
            assert!(got == *sent, "{len} bytes from offset {offset} arrived otherwise");
            links.reverse();
        }
    }
}

#[test]
fn chunks_that_have_a_place_arrive_there_from_any_offset() {
    let Some(nic) = nic() else { return };
    let [mut from, mut to] = join(&nic, |me| QueuePairRequest {
        placed: true,
        ..request(me, VerbsTerms::default())
    });
    let (source, target) = (Region::new(1 << 20), Region::new(1 << 20));
    for turn in 0..500usize {
        let len = 1 + (turn * 7919) % (512 << 10);
        let (out, into) = (turn % 61, (turn * 3) % 127);
        fill(&source, turn);
        let until = soon();
        let mut place = target.try_write(into..into + len);
        let mut chunk = source.try_read(out..out + len);
        let mut is_there = false;
        while !is_there || !from.flushed() || chunk.is_some() {
            assert!(Instant::now() < until, "chunk {turn} never arrived");
            from.advance().unwrap();
            to.advance().unwrap();
            if let Some(lease) = chunk.take() {
                chunk = from.offer(lease).unwrap();
                assert!(place.is_none() || chunk.is_some(), "sent before it had a place");
            }
            let receiving = to.direct().unwrap();
            if let Some(lease) = place.take() {
                place = receiving.expect_into(lease).unwrap();
            }
            is_there |= receiving
                .arrived()
                .unwrap()
                .is_some_and(|arrived| arrived.len == len);
        }
        let (sent, got) = (source.try_read(out..out + len), target.try_read(into..into + len));
        assert!(
            *sent.unwrap() == *got.unwrap(),
            "chunk {turn} of {len} bytes arrived otherwise"
        );
    }
}

#[test]
fn ten_thousand_messages_in_both_directions_all_arrive() {
    let Some(nic) = nic() else { return };
    let mut links = links(&nic, VerbsTerms::default(), None);
    let region = Region::new(1 << 16);
    for turn in 0..10_000usize {
        let len = 1 + turn * 37 % 5_000;
        let offset = turn % 61;
        region.try_write(offset..offset + len).unwrap().fill(turn as u8);
        let got = pass(&mut links, &region, offset, len).unwrap();
        assert!(got.iter().all(|byte| *byte == turn as u8), "message {turn}");
        links.reverse();
    }
}

#[test]
fn a_sender_stops_when_the_receiver_takes_nothing_out() {
    let Some(nic) = nic() else { return };
    let [mut from, mut to] = links(&nic, VerbsTerms::default(), None);
    let region = Region::new(1024);
    let mut taken = 0;
    for _ in 0..1000 {
        from.advance().unwrap();
        to.advance().unwrap();
        if from.offer(region.try_read(0..1024).unwrap()).unwrap().is_none() {
            taken += 1;
        }
    }
    assert_eq!(taken, 8, "as many messages as there are slots");
    let mut memory = [0; 1024];
    for _ in 0..8 {
        while to.receive(1024, Sink::Into(&mut memory)).unwrap() != Received::Chunk {}
    }
    let until = soon();
    while from.offer(region.try_read(0..1024).unwrap()).unwrap().is_some() {
        assert!(Instant::now() < until, "credit never came back");
        from.advance().unwrap();
        to.advance().unwrap();
    }
}

#[test]
fn a_queue_pair_forced_into_error_is_named_with_both_ends() {
    let Some(nic) = nic() else { return };
    let mut links = links(&nic, VerbsTerms::default(), None);
    let region = Region::new(1 << 20);
    links[0].abandon();
    let Err(LinkError::Failed(text)) = pass(&mut links, &region, 0, 1 << 20) else {
        panic!("a queue pair in error carried data");
    };
    assert!(text.contains("rank 0 (") && text.contains("rank 1 ("), "{text}");
    assert!(
        text.contains("flushed") || text.contains("retries exceeded"),
        "{text}"
    );
}

#[test]
fn a_peer_that_is_gone_is_noticed_by_a_rank_that_only_waits() {
    let Some(nic) = nic() else { return };
    let [waits, gone] = links(&nic, VerbsTerms::default(), None);
    drop(gone);
    let mut waits = waits;
    let until = soon();
    loop {
        assert!(Instant::now() < until, "nobody noticed");
        match waits.advance() {
            Ok(_) => {}
            Err(LinkError::Closed) => break,
            Err(other) => panic!("{other}"),
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_wrong_key_from_a_misbehaving_peer_is_refused_and_named_at_both_ends() {
    let Some(nic) = nic() else { return };
    let (here, mut there) = streams();
    let honest = PendingQueuePair::begin(here, &nic, request(0, VerbsTerms::default())).unwrap();
    // The other end speaks the protocol by hand, and writes with a key that it was never given.
    let depths = QueueDepths {
        sends: 4,
        receives: 4,
        inline: 0,
    };
    let mut rogue = QueuePair::new(nic.domain(), nic.port.port, depths).unwrap();
    let region = Region::new(4096);
    let memory = Registration::of_region(nic.domain(), &region).unwrap();
    let mine = QueuePairInfo {
        queue_pair: rogue.number(),
        psn: 7,
        lid: nic.state.lid,
        mtu: nic.state.mtu,
        infiniband: nic.state.infiniband,
        port: nic.port.port,
        gid: nic.gid,
        memory: memory.start(),
        key: memory.remote_key(),
        slots: 1,
        slot_bytes: 4096,
        device: "rogue".to_string(),
    };
    mine.send(&mut there).unwrap();
    let honest = honest.exchange_info(soon()).unwrap();
    let theirs = QueuePairInfo::receive(&mut there).unwrap();
    rogue
        .connect(&PathAttributes {
            port: nic.port.port,
            gid_index: nic.gid_index,
            global: true,
            to_gid: theirs.gid,
            to_lid: theirs.lid,
            to_queue_pair: theirs.queue_pair,
            psn: 7,
            peer_psn: theirs.psn,
            mtu: theirs.mtu,
            service_level: 0,
            traffic_class: 0,
            flow_label: 0,
            timeout: 14,
            retries: 1,
            rnr_retries: 1,
            reads: 1,
        })
        .unwrap();
    super::queue_pair_info::send_ready(&mut there).unwrap();
    let mut honest = honest.finish(soon()).unwrap();
    let request = WorkRequest {
        id: 1,
        work: Opcode::WriteWithImm(0),
        local: (memory.start(), 64, memory.local_key()),
        remote: (theirs.memory, theirs.key ^ 0x5a5a_5a00),
        signalled: true,
        inline: false,
    };
    // SAFETY: the region outlives the queue pair, and nobody else uses it.
    unsafe { rogue.post(&[request]) }.unwrap();
    let (mut refused, mut noticed) = (None, None);
    let until = soon();
    while refused.is_none() || noticed.is_none() {
        assert!(Instant::now() < until, "refused {refused:?}, noticed {noticed:?}");
        rogue
            .completions()
            .poll(|completion| refused = refused.or(completion.failure))
            .unwrap();
        if let Err(error) = honest.advance() {
            noticed = Some(error.to_string());
        }
    }
    assert_eq!(refused.unwrap().0, 10, "remote access error");
    let noticed = noticed.unwrap();
    assert!(noticed.contains("refused what the peer sent"), "{noticed}");
    assert!(noticed.contains("rank 1 (rogue port 1"), "{noticed}");
}

#[test]
fn a_completion_queue_cannot_be_overrun_because_requests_are_counted() {
    let Some(nic) = nic() else { return };
    let [mut from, mut to] = links(&nic, VerbsTerms::default(), None);
    let region = Region::new(256);
    // Messages so small that none of them needs memory, as many as will be taken; the sender looks only when it must.
    let (mut sent, until) = (0, soon());
    while sent < 2_000 {
        assert!(Instant::now() < until, "{sent} messages were taken");
        let mut taken = 0;
        while from.offer(region.try_read(0..8).unwrap()).unwrap().is_none() {
            taken += 1;
        }
        let mut memory = [0; 8];
        for _ in 0..taken {
            while to.receive(8, Sink::Into(&mut memory)).unwrap() != Received::Chunk {
                assert!(Instant::now() < until, "of {taken} messages one never arrived");
            }
        }
        sent += taken;
    }
    assert_eq!(from.moved(), sent * 8);
}

#[test]
fn packets_that_do_not_fit_the_port_are_refused_before_anything_is_sent() {
    let Some(nic) = nic() else { return };
    if nic.state.mtu == 4096 {
        eprintln!("the port carries the largest packets there are: asking for a size that does not exist");
    }
    let (here, there) = streams();
    let terms = VerbsTerms {
        path_mtu: Some(if nic.state.mtu == 4096 { 9000 } else { 4096 }),
        ..VerbsTerms::default()
    };
    let one = PendingQueuePair::begin(here, &nic, request(0, terms)).unwrap();
    let _other = PendingQueuePair::begin(there, &nic, request(1, terms)).unwrap();
    let error = one
        .exchange_info(soon())
        .err()
        .expect("no such packets")
        .to_string();
    assert!(error.contains("the ports carry at most"), "{error}");
}

#[test]
fn a_pinned_source_port_is_recorded_with_the_label_that_makes_it() {
    let Some(nic) = nic() else { return };
    let pinned = links(&nic, VerbsTerms::default(), Some(50_001));
    let flow = pinned[0].flow().unwrap();
    if nic.state.infiniband {
        assert_eq!((flow.source_port, flow.known), (None, PortKnowledge::None));
        return;
    }
    assert_eq!(flow.source_port, Some(50_001));
    assert_eq!(entropy::port_of_label(flow.flow_label), 50_001);
    let left_alone = links(&nic, VerbsTerms::default(), None);
    let flow = left_alone[0].flow().unwrap();
    assert_eq!(flow.known, PortKnowledge::Predicted);
    assert_eq!(
        flow.source_port,
        Some(entropy::port_of_pair(flow.queue_pair, flow.to_queue_pair))
    );
}

#[test]
fn a_device_that_does_not_exist_is_named() {
    let Ok(names) = device_names() else { return };
    let port = record::RdmaPort {
        device: "mlx5_77".to_string(),
        port: 1,
        link_layer: "Ethernet".to_string(),
        state: None,
    };
    let error = Nic::open(&port, IpAddr::from([127, 0, 0, 1]), None)
        .err()
        .unwrap();
    let text = error.to_string();
    assert!(
        text.contains("mlx5_77 cannot be opened: no such RDMA device"),
        "{text}; there are {names:?}"
    );
}
