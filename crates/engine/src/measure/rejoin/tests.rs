//! Ranks as threads, joined over real sockets, that are excluded and rejoin.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread::JoinHandle;
use std::time::Duration;

use super::super::protocol::Setup;
use super::super::worker::{ProcessContext, serve};
use super::*;
use crate::collective::gpu::ProcessGpus;
use crate::launch::{Disconnected, JoinConfig, Member, Token, join, rejoin};
use crate::transport::CrossRailPath;
use crate::transport::shm::Hub;
use record::DeviceKind;
use record::units::{Bytes, Nanos};

const PATIENCE: Duration = Duration::from_secs(30);

/// How a rank's thread ended.
type Served = JoinHandle<Result<QuitReason, Disconnected>>;

struct TestRun {
    rendezvous: Rendezvous,
    token: Token,
    session: Session,
    /// By rank.
    ranks: Vec<Option<Served>>,
}

fn setup() -> Setup {
    Setup {
        rails: Vec::new(),
        device: DeviceKind::Host,
        largest: Bytes(1 << 16),
        nccl: false,
        verbs: false,
        gid_index: None,
        faults: Vec::new(),
        deadline: Nanos::from_secs(20),
        data_port: None,
    }
}

fn address(rendezvous: &Rendezvous, token: Token, rank: u32) -> JoinConfig {
    JoinConfig {
        rank,
        world: rendezvous.world(),
        rendezvous: rendezvous.address().unwrap().into(),
        token,
    }
}

/// A rank that joins and serves.
fn start(rendezvous: &Rendezvous, token: Token, rank: u32) -> Served {
    let address = address(rendezvous, token, rank);
    std::thread::spawn(move || {
        let shared = ProcessContext {
            token,
            hub: Hub::new(),
            process_gpus: ProcessGpus::new(),
            local_rank: None,
            management: None,
        };
        serve(rejoin(&address, PATIENCE).unwrap(), &shared)
    })
}

impl TestRun {
    fn of(world: u32) -> TestRun {
        let token = Token::generate().unwrap();
        let rendezvous = Rendezvous::listen(IpAddr::V4(Ipv4Addr::LOCALHOST), world, token).unwrap();
        let ranks = (0..world)
            .map(|rank| Some(start(&rendezvous, token, rank)))
            .collect();
        let coordinator = rendezvous.wait_for_ranks(PATIENCE, || None).unwrap();
        let interrupted = Arc::new(AtomicBool::new(false));
        let session = Session::set_up(coordinator, setup(), Box::new(|_| None), interrupted).unwrap();
        TestRun {
            rendezvous,
            token,
            session,
            ranks,
        }
    }

    /// Excludes `rank`; how it ended.
    fn exclude(&mut self, rank: u32) -> Result<QuitReason, Disconnected> {
        let absent = self.session.continue_without(&[rank]).unwrap();
        assert!(absent.contains(&rank));
        self.session.allow_rejoin(&self.rendezvous);
        self.ranks[rank as usize].take().unwrap().join().unwrap()
    }

    /// A process that joins as `rank` and is driven by the test.
    fn join_by_hand(&self, rank: u32) -> Member {
        join(&address(&self.rendezvous, self.token, rank), PATIENCE).unwrap()
    }

    fn start(&mut self, rank: u32) {
        self.ranks[rank as usize] = Some(start(&self.rendezvous, self.token, rank));
        while !self.rendezvous.waiting_to_rejoin().contains(&rank) {
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn rejoin(&mut self) -> RejoinResult {
        self.session.rejoin(&self.rendezvous).unwrap()
    }

    /// Whether `from` reaches the endpoint that `to` has now.
    fn reaches(&mut self, from: u32, to: u32) -> bool {
        let rail = self.session.fabric().ranks[0].rails[0].rail.clone();
        let way = CrossRailPath {
            from,
            to,
            rail: rail.clone(),
            to_rail: rail,
        };
        let known = self.session.check_cross_rail(std::slice::from_ref(&way)).unwrap();
        known[&way].is_none()
    }

    /// Ends the run; all ranks that take part must be told so.
    fn end(self) {
        self.session.quit();
        for rank in self.ranks.into_iter().flatten() {
            assert_eq!(rank.join().unwrap(), Ok(QuitReason::WithLosses));
        }
    }
}

#[test]
fn an_excluded_rank_rejoins_and_all_others_reach_it() {
    let mut run = TestRun::of(3);
    assert_eq!(run.exclude(2), Ok(QuitReason::Excluded));
    assert_eq!(run.rejoin(), RejoinResult::default(), "no rank waits");
    assert!(!run.reaches(0, 2), "it does not listen any more");
    for _ in 0..2 {
        run.start(2);
        let result = run.rejoin();
        assert_eq!(result.rejoined, [2]);
        assert!(result.refused.is_empty(), "{result:?}");
        assert!(run.session.absent().is_empty());
        assert!(run.reaches(0, 2) && run.reaches(1, 2) && run.reaches(2, 0));
        run.session.compare_clocks().unwrap();
        assert_eq!(run.session.clocks().len(), 3);
        assert_eq!(run.exclude(2), Ok(QuitReason::Excluded));
    }
    run.session.has_lost = true;
    run.end();
}

#[test]
fn a_rank_that_waits_when_the_run_ends_is_told_so() {
    let mut run = TestRun::of(2);
    run.exclude(1).unwrap();
    run.start(1);
    run.session.dismiss_waiting(&run.rendezvous).unwrap();
    assert!(run.rendezvous.waiting_to_rejoin().is_empty());
    let waiting = run.ranks[1].take().unwrap();
    assert_eq!(waiting.join().unwrap(), Ok(QuitReason::WithLosses));
    run.session.has_lost = true;
    run.end();
}

#[test]
fn a_rank_that_differs_from_before_is_refused_with_a_reason_and_may_try_again() {
    let mut run = TestRun::of(2);
    run.exclude(1).unwrap();
    let known = run.session.rank_infos[1].clone();
    let mut elsewhere = known.clone();
    elsewhere.host.name = "another-host".to_string();
    let mut fewer = known.clone();
    fewer.rails.pop();
    let cases = [
        (
            Answer::RankInfo(Box::new(elsewhere)),
            "it is on host another-host",
        ),
        (Answer::RankInfo(Box::new(fewer)), "is missing"),
        (Answer::SetUpFailed("no GPU".to_string()), "no GPU"),
    ];
    for (answer, says) in cases {
        let mut member = run.join_by_hand(1);
        let sender = std::thread::spawn(move || {
            let order: Order = serde_json::from_slice(&member.receive().unwrap()).unwrap();
            assert_eq!(order, Order::SetUp(setup()));
            member
                .sender()
                .send(serde_json::to_vec(&answer).unwrap())
                .unwrap();
            let order: Order = serde_json::from_slice(&member.receive().unwrap()).unwrap();
            assert_eq!(order, Order::Quit(QuitReason::Excluded));
            assert!(member.receive().is_err(), "its connection is closed");
        });
        let result = run.rejoin();
        sender.join().unwrap();
        assert!(result.rejoined.is_empty());
        let [(1, why)] = result.refused.as_slice() else {
            panic!("{result:?}");
        };
        assert!(why.contains(says), "{why}");
        assert!(run.session.absent().contains(&1));
    }
    run.start(1);
    assert_eq!(run.rejoin().rejoined, [1]);
    run.session.has_lost = true;
    run.end();
}

#[test]
fn a_rank_that_dies_while_it_rejoins_ends_nothing_and_stays_absent() {
    let mut run = TestRun::of(2);
    run.exclude(1).unwrap();
    let mut member = run.join_by_hand(1);
    let dying = std::thread::spawn(move || {
        member.receive().unwrap();
        drop(member);
    });
    let result = run.rejoin();
    dying.join().unwrap();
    assert!(result.rejoined.is_empty());
    assert!(result.refused[0].1.contains("lost again"), "{result:?}");
    // One that dies after it was set up.
    let info = run.session.rank_infos[1].clone();
    let mut member = run.join_by_hand(1);
    let dying = std::thread::spawn(move || {
        member.receive().unwrap();
        let met = Answer::RankInfo(Box::new(info));
        member.sender().send(serde_json::to_vec(&met).unwrap()).unwrap();
        let order: Order = serde_json::from_slice(&member.receive().unwrap()).unwrap();
        assert_eq!(order, Order::Reset);
        drop(member);
    });
    let result = run.rejoin();
    dying.join().unwrap();
    assert!(result.rejoined.is_empty());
    assert!(result.refused[0].1.contains("lost again"), "{result:?}");
    assert!(run.session.absent().contains(&1));
    assert!(
        run.session.deferred.borrow().is_empty(),
        "the next measurement does not see it"
    );
    run.start(1);
    assert_eq!(run.rejoin().rejoined, [1]);
    run.session.has_lost = true;
    run.end();
}

#[test]
fn a_host_rejoins_as_a_whole() {
    let mut run = TestRun::of(3);
    run.exclude(1).unwrap();
    run.exclude(2).unwrap();
    run.start(1);
    assert_eq!(
        run.rejoin(),
        RejoinResult::default(),
        "rank 2 of its host is missing"
    );
    let refusing = run.join_by_hand(2);
    let sender = std::thread::spawn(move || {
        let mut member = refusing;
        member.receive().unwrap();
        let no = Answer::SetUpFailed("no rails".to_string());
        member.sender().send(serde_json::to_vec(&no).unwrap()).unwrap();
        member.receive().unwrap();
    });
    let result = run.rejoin();
    sender.join().unwrap();
    assert!(result.rejoined.is_empty());
    assert_eq!(result.refused.len(), 2);
    assert!(result.refused[0].1.contains("rank 2 of its host"), "{result:?}");
    let left_out = run.ranks[1].take().unwrap().join().unwrap();
    assert_eq!(left_out, Ok(QuitReason::Excluded));
    run.start(1);
    run.start(2);
    assert_eq!(run.rejoin().rejoined, [1, 2]);
    run.session.has_lost = true;
    run.end();
}

#[test]
fn a_survivor_that_is_lost_meanwhile_is_noticed_by_the_next_measurement() {
    let mut run = TestRun::of(3);
    run.exclude(1).unwrap();
    // Rank 2 is driven by hand, and ends at the third reset.
    run.exclude(2).unwrap();
    run.start(1);
    let info = run.session.rank_infos[2].clone();
    let mut member = run.join_by_hand(2);
    let frail = std::thread::spawn(move || {
        let sender = member.sender();
        let send = |answer: &Answer| sender.send(serde_json::to_vec(answer).unwrap()).unwrap();
        let mut resets = 0;
        while let Ok(message) = member.receive() {
            match serde_json::from_slice(&message).unwrap() {
                Order::SetUp(_) => send(&Answer::RankInfo(Box::new(info.clone()))),
                Order::Ping => send(&Answer::Pong(Nanos(1))),
                Order::Reset if resets < 2 => {
                    resets += 1;
                    send(&Answer::Reset);
                }
                Order::Reset => return,
                _ => {}
            }
        }
    });
    assert_eq!(run.rejoin().rejoined, [1, 2]);
    assert_eq!(run.exclude(1), Ok(QuitReason::Excluded));
    run.start(1);
    let result = run.rejoin();
    frail.join().unwrap();
    assert_eq!(result.rejoined, [1], "{result:?}");
    let gone = run.session.receive(Instant::now() + PATIENCE);
    assert!(matches!(gone, Received::Disconnected(2, _)));
    run.session.continue_without(&[2]).unwrap();
    run.session.has_lost = true;
    run.end();
}
