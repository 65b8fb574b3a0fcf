//! What arrives at the rendezvous is whatever anybody sends: ranks meet all the same, and what a rank says is either heard
//! as it was said or ends its link.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use proptest::prelude::*;
use railgauge_engine::launch::{Coordinator, Incoming, JoinConfig, Rendezvous, Token, join};

const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const PATIENCE: Duration = Duration::from_secs(120);

/// What a rank presents, written out here so that a change of the protocol is noticed.
fn greeting(token: &Token, rank: u32, world: u32) -> Vec<u8> {
    [
        b"RGJOIN01",
        &token.as_bytes()[..],
        &rank.to_le_bytes(),
        &world.to_le_bytes(),
    ]
    .concat()
}

/// A run of one rank, joined by hand: what the coordinator hears, and the rank's bare socket.
fn joined_by_hand() -> (Coordinator, TcpStream) {
    let token = Token::generate().unwrap();
    let door = Rendezvous::listen(LOOPBACK, 1, token).unwrap();
    let mut stream = TcpStream::connect(door.address().unwrap()).unwrap();
    stream.write_all(&greeting(&token, 0, 1)).unwrap();
    let coordinator = door.wait_for_ranks(PATIENCE, || None).unwrap();
    let mut welcome = [0; 23];
    stream.read_exact(&mut welcome).unwrap();
    assert_eq!(welcome[0], 1);
    (coordinator, stream)
}

fn knock(at: SocketAddr, bytes: &[u8]) {
    let mut stranger = TcpStream::connect(at).unwrap();
    // The door may be shut in its face while it talks.
    let _ = stranger.write_all(bytes);
}

/// A greeting with one thing wrong, or anything at all.
fn bad_greeting() -> impl Strategy<Value = (usize, u8, Vec<u8>)> {
    (0usize..48, 1u8.., proptest::collection::vec(any::<u8>(), 0..200))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn ranks_meet_whatever_strangers_say((at, flipped, noise) in bad_greeting(), cut in 0usize..48) {
        let token = Token::generate().unwrap();
        let door = Rendezvous::listen(LOOPBACK, 2, token).unwrap();
        let rendezvous = door.address().unwrap();
        let mut almost = greeting(&token, 0, 2);
        // The last eight bytes are rank and world; a changed rank may be a right one.
        almost[at.min(39)] ^= flipped;
        knock(rendezvous, &almost);
        knock(rendezvous, &almost[..cut]);
        knock(rendezvous, &noise);
        knock(rendezvous, &greeting(&token, 2, 2));
        knock(rendezvous, &greeting(&token, 0, 3));
        let ranks: Vec<_> = (0..2)
            .map(|rank| JoinConfig { rank, world: 2, rendezvous: rendezvous.into(), token })
            .map(|address| std::thread::spawn(move || join(&address, PATIENCE)))
            .collect();
        let coordinator = door.wait_for_ranks(PATIENCE, || None).unwrap();
        for (rank, joining) in (0..).zip(ranks) {
            let mut member = joining.join().unwrap().unwrap();
            coordinator.send(rank, vec![7, rank as u8]).unwrap();
            prop_assert_eq!(member.receive().unwrap(), [7, rank as u8]);
        }
    }

    #[test]
    fn a_message_is_heard_whole_or_ends_the_link(
        announced in prop_oneof![0u32..64, Just(u32::MAX), Just((16 << 20) + 1), any::<u32>()],
        sent in proptest::collection::vec(any::<u8>(), 0..64),
    ) {
        // An empty message is a sign of life and is not delivered.
        prop_assume!(announced > 0);
        let (coordinator, mut stream) = joined_by_hand();
        stream.write_all(&announced.to_le_bytes()).unwrap();
        // A length beyond the limit closes the link at once, maybe before the rest is written.
        let _ = stream.write_all(&sent);
        drop(stream);
        let whole = announced as usize <= sent.len();
        let (rank, incoming) = coordinator.receive(Instant::now() + PATIENCE).unwrap();
        prop_assert_eq!(rank, 0);
        match incoming {
            Incoming::Message(message) => {
                prop_assert!(whole);
                prop_assert_eq!(&message[..], &sent[..announced as usize]);
            }
            Incoming::Disconnected(reason) => {
                prop_assert!(!whole, "{}", reason);
                prop_assert!(!reason.is_empty());
            }
            Incoming::Silent(_) => prop_assert!(false, "nobody asked for signs of life"),
        }
    }
}
