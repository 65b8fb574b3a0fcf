use std::net::{IpAddr, Ipv4Addr};

use super::super::shm::Hub;
use super::rationing::AnswerHabits;
use super::*;

fn address(last: u8) -> IpAddr {
    Ipv4Addr::new(10, 0, 0, last).into()
}

/// Follows a path on which every packet meets what stands there, and says how many packets that took.
fn path(most_silence: usize, echoes: &[Option<u8>], arrives: bool) -> (Vec<Option<u8>>, usize) {
    let mut sent = 0;
    let hops = follow(
        |ttl| {
            sent += 1;
            match echoes.get(usize::from(ttl) - 1) {
                Some(Some(last)) => ProbeReply::Expired(address(*last)),
                None if arrives => ProbeReply::Arrived,
                _ => ProbeReply::Silence,
            }
        },
        most_silence,
        false,
    );
    let last = |hop: Option<IpAddr>| match hop {
        Some(IpAddr::V4(v4)) => Some(v4.octets()[3]),
        _ => None,
    };
    (hops.unwrap().hops.into_iter().map(last).collect(), sent)
}

#[test]
fn a_path_is_followed_to_its_end_and_silent_switches_keep_their_place() {
    assert_eq!(
        path(3, &[Some(1), Some(2), Some(3)], true).0,
        [Some(1), Some(2), Some(3)]
    );
    assert_eq!(path(3, &[None, Some(2), None], true).0, [None, Some(2), None]);
    assert_eq!(
        path(3, &[], true),
        (vec![], 1),
        "no switch between two ranks of a host"
    );
    // Nothing arrives: what is known ends with the last answer.
    assert_eq!(
        path(3, &[Some(1), None, Some(3)], false).0,
        [Some(1), None, Some(3)]
    );
    assert_eq!(path(2, &[None, None, Some(3)], true).0, [], "given up before");
}

#[test]
fn where_nobody_answers_only_a_few_packets_are_sent_and_nothing_is_known() {
    assert_eq!(path(MOST_SILENCE, &[], false), (vec![], 4));
    let endless: Vec<Option<u8>> = (1..100).map(Some).collect();
    assert_eq!(path(3, &endless, false).0.len(), usize::from(MOST_HOPS));
}

#[test]
fn a_packet_that_was_lost_is_sent_again_before_a_switch_counts_as_silent() {
    let mut lost = false;
    let hops = follow(
        |ttl| match ttl {
            1 => ProbeReply::Expired(address(1)),
            2 if !lost => {
                lost = true;
                ProbeReply::Silence
            }
            2 => ProbeReply::Expired(address(2)),
            _ => ProbeReply::Arrived,
        },
        3,
        false,
    );
    assert_eq!(hops.unwrap().hops, [Some(address(1)), Some(address(2))]);
}

#[test]
fn a_path_ends_at_the_switch_that_knows_no_way_on() {
    let hops = follow(
        |ttl| match ttl {
            1 => ProbeReply::Expired(address(1)),
            _ => ProbeReply::Unreachable(address(2)),
        },
        3,
        false,
    );
    assert_eq!(hops.unwrap().hops, [Some(address(1)), Some(address(2))]);
}

#[test]
fn following_a_flow_leaves_its_port_free_and_no_stranger_at_the_door() {
    let rails = || vec![("rail0".to_string(), IpAddr::from([127, 0, 1, 2]).into())];
    let token = Token::generate().unwrap();
    let open = |rank| Mesh::open(rank, rails(), token, Hub::new(), Vec::new()).unwrap();
    let (mut low, mut high) = (open(0), open(1));
    let endpoints = vec![low.endpoint(), high.endpoint()];
    low.set_peers(endpoints.clone());
    high.set_peers(endpoints);
    let first = 20_000 + (std::process::id() % 10_000) as u16;
    let wanted: Vec<TraceWanted> = (0..100)
        .map(|flow| TraceWanted {
            from: 0,
            to: 1,
            rail: "rail0".to_string(),
            port: first + flow,
            transport: TransportKind::Tcp,
        })
        .collect();
    let until = Instant::now() + Duration::from_secs(60);
    for _ in 0..3 {
        let traced = low.trace(&wanted, true, until);
        let flows: Vec<&TraceWanted> = traced.iter().map(|traced| &traced.flow).collect();
        assert_eq!(flows, wanted.iter().collect::<Vec<_>>(), "in their order");
        assert!(traced.iter().all(|traced| traced.hops.is_empty()));
    }
    let reply = |flow: &TraceWanted| {
        let connection = Connection {
            from: 0,
            to: 1,
            rail: 0,
            to_rail: 0,
            flow: PROBE,
            source_port: flow.port,
        };
        let door = high.endpoint().listeners[0];
        syn::probe(&connection, &low.rails[0].1, door, &token, 1, RETRY_PATIENCE)
    };
    assert!(
        matches!(reply(&wanted[0]), ProbeReply::Arrived),
        "{:?}",
        reply(&wanted[0])
    );
    assert_eq!(high.rejected_callers(), Vec::<String>::new());
}

#[test]
fn a_flow_that_cannot_exist_has_no_path() {
    let token = Token::generate().unwrap();
    let rails = vec![("rail0".to_string(), IpAddr::from([127, 0, 1, 3]).into())];
    let mut alone = Mesh::open(0, rails, token, Hub::new(), Vec::new()).unwrap();
    for (to, rail, transport) in [
        (1, "rail0", TransportKind::Tcp),
        (0, "rail9", TransportKind::Tcp),
        (1, "rail0", TransportKind::Shm),
    ] {
        let wanted = [TraceWanted {
            from: 0,
            to,
            rail: rail.to_string(),
            port: 47_000,
            transport,
        }];
        let traced = alone.trace(&wanted, true, Instant::now() + Duration::from_secs(5));
        assert_eq!(traced[0].hops, []);
    }
}

fn flow(to: u32, port: u16) -> TraceWanted {
    TraceWanted {
        from: 0,
        to,
        rail: "rail0".to_string(),
        port,
        transport: TransportKind::Tcp,
    }
}

/// A path of which these switches answered; 0 for one that did not.
fn seen(last: &[u8], whole: bool) -> Option<PartialPath> {
    let hops = last.iter().map(|last| (*last > 0).then(|| address(*last)));
    Some(PartialPath {
        hops: hops.collect(),
        whole,
    })
}

#[test]
fn flows_that_are_known_less_well_than_others_to_the_same_receiver_are_asked_for_again() {
    let wanted = [flow(1, 1), flow(1, 2), flow(1, 3), flow(2, 1), flow(2, 2)];
    assert_eq!(
        gaps(&wanted, &vec![None; 5]),
        [0, 1, 2, 3, 4],
        "all are asked for once"
    );
    let of_two = [seen(&[1, 2], true), seen(&[1], true), seen(&[1, 0], true)];
    assert_eq!(gaps(&wanted[..3], &of_two), [1, 2]);
    let of_one = [seen(&[1], true), seen(&[1], false)];
    assert_eq!(gaps(&wanted[3..], &of_one), [1], "the receiver was not reached");
}

#[test]
fn switches_that_answer_some_questions_and_not_as_many_others_answer_only_so_often() {
    let answered = |count: usize, of: usize| -> Vec<Option<PartialPath>> {
        let of_flow = |number| seen(&[u8::from(number < count), 2, 3], true);
        (0..of).map(of_flow).collect()
    };
    let rationed = |traced: &[Option<PartialPath>]| {
        let mut answers = AnswerHabits::default();
        answers.note(traced.iter().map(|one| ("rail0", one)));
        answers.are_rationed()
    };
    assert!(rationed(&answered(6, 16)), "six at once, as Linux");
    assert!(!rationed(&answered(0, 16)), "silent");
    assert!(!rationed(&answered(16, 16)));
    assert!(!rationed(&answered(14, 16)), "two packets were lost");
    assert!(!rationed(&answered(2, 8)), "too few questions");
}

#[test]
fn a_path_is_traced_sparingly_without_the_first_switch_and_asking_nobody_twice() {
    let mut asked = Vec::new();
    let path = follow(
        |ttl| {
            asked.push(ttl);
            match ttl {
                2 => ProbeReply::Expired(address(2)),
                4.. => ProbeReply::Arrived,
                _ => ProbeReply::Silence,
            }
        },
        MOST_SILENCE,
        true,
    );
    assert_eq!(path.unwrap().hops, [None, Some(address(2)), None]);
    assert_eq!(asked, [2, 3, 4]);
}
