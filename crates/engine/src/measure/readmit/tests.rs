//! Ranks on threads of their own, joined over real sockets, that leave and come back.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread::JoinHandle;
use std::time::Duration;

use super::super::orders::Setup;
use super::super::worker::{ProcessContext, serve};
use super::*;
use crate::collective::gpu::ProcessGpus;
use crate::launch::{Disconnected, JoinConfig, Member, Token, join, rejoin};
use crate::transport::CrossWay;
use crate::transport::shm::Hub;
use record::DeviceKind;
use record::units::{Bytes, Nanos};

const PATIENCE: Duration = Duration::from_secs(30);

/// How a rank's thread ended.
type Served = JoinHandle<Result<QuitReason, Disconnected>>;

struct Meeting {
    door: Rendezvous,
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

fn address(door: &Rendezvous, token: Token, rank: u32) -> JoinConfig {
    JoinConfig {
        rank,
        world: door.world(),
        rendezvous: door.address().unwrap().into(),
        token,
    }
}

/// A rank that joins and serves.
fn start(door: &Rendezvous, token: Token, rank: u32) -> Served {
    let address = address(door, token, rank);
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

impl Meeting {
    fn of(world: u32) -> Meeting {
        let token = Token::generate().unwrap();
        let door = Rendezvous::listen(IpAddr::V4(Ipv4Addr::LOCALHOST), world, token).unwrap();
        let ranks = (0..world).map(|rank| Some(start(&door, token, rank))).collect();
        let coordinator = door.wait_for_ranks(PATIENCE, || None).unwrap();
        let interrupted = Arc::new(AtomicBool::new(false));
        let session = Session::set_up(coordinator, setup(), Box::new(|_| None), interrupted).unwrap();
        Meeting {
            door,
            token,
            session,
            ranks,
        }
    }

    /// Leaves `rank` out; how it took that.
    fn leave_out(&mut self, rank: u32) -> Result<QuitReason, Disconnected> {
        let absent = self.session.continue_without(&[rank]).unwrap();
        assert!(absent.contains(&rank));
        self.session.allow_rejoin(&self.door);
        self.ranks[rank as usize].take().unwrap().join().unwrap()
    }

    /// Somebody who has taken the seat of `rank` and does as it pleases.
    fn somebody(&self, rank: u32) -> Member {
        join(&address(&self.door, self.token, rank), PATIENCE).unwrap()
    }

    fn start(&mut self, rank: u32) {
        self.ranks[rank as usize] = Some(start(&self.door, self.token, rank));
        while !self.door.waiting_to_rejoin().contains(&rank) {
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn readmit(&mut self) -> RejoinResult {
        self.session.rejoin(&self.door).unwrap()
    }

    /// Whether `from` reaches the doors that `to` has now.
    fn reaches(&mut self, from: u32, to: u32) -> bool {
        let rail = self.session.fabric().ranks[0].rails[0].rail.clone();
        let way = CrossWay {
            from,
            to,
            rail: rail.clone(),
            to_rail: rail,
        };
        let known = self.session.check_cross_rail(std::slice::from_ref(&way)).unwrap();
        known[&way].is_none()
    }

    /// Ends the run; all that take part must be told so.
    fn end(self) {
        self.session.quit();
        for rank in self.ranks.into_iter().flatten() {
            assert_eq!(rank.join().unwrap(), Ok(QuitReason::WithLosses));
        }
    }
}

#[test]
fn a_rank_that_was_left_out_learns_it_comes_back_and_everybody_finds_it() {
    let mut meeting = Meeting::of(3);
    assert_eq!(meeting.leave_out(2), Ok(QuitReason::LeftOut));
    assert_eq!(meeting.readmit(), RejoinResult::default(), "nobody is there");
    assert!(!meeting.reaches(0, 2), "its doors are closed");
    for _ in 0..2 {
        meeting.start(2);
        let outcome = meeting.readmit();
        assert_eq!(outcome.back, [2]);
        assert!(outcome.refused.is_empty(), "{outcome:?}");
        assert!(meeting.session.absent().is_empty());
        assert!(meeting.reaches(0, 2) && meeting.reaches(1, 2) && meeting.reaches(2, 0));
        meeting.session.compare_clocks().unwrap();
        assert_eq!(meeting.session.clocks().len(), 3);
        assert_eq!(meeting.leave_out(2), Ok(QuitReason::LeftOut));
    }
    meeting.session.has_lost = true;
    meeting.end();
}

#[test]
fn whoever_waits_when_the_run_ends_is_told_so() {
    let mut meeting = Meeting::of(2);
    meeting.leave_out(1).unwrap();
    meeting.start(1);
    meeting.session.dismiss_waiting(&meeting.door).unwrap();
    assert!(meeting.door.waiting_to_rejoin().is_empty());
    let waiting = meeting.ranks[1].take().unwrap();
    assert_eq!(waiting.join().unwrap(), Ok(QuitReason::WithLosses));
    meeting.session.has_lost = true;
    meeting.end();
}

#[test]
fn whoever_is_not_what_it_was_is_refused_with_a_reason_and_may_try_again() {
    let mut meeting = Meeting::of(2);
    meeting.leave_out(1).unwrap();
    let known = meeting.session.cards[1].clone();
    let mut elsewhere = known.clone();
    elsewhere.host.name = "another-host".to_string();
    let mut fewer = known.clone();
    fewer.rails.pop();
    let cases = [
        (Answer::Met(Box::new(elsewhere)), "it is on host another-host"),
        (Answer::Met(Box::new(fewer)), "is missing"),
        (Answer::CannotMeet("no GPU".to_string()), "no GPU"),
    ];
    for (answer, says) in cases {
        let mut member = meeting.somebody(1);
        let sender = std::thread::spawn(move || {
            let order: Order = serde_json::from_slice(&member.receive().unwrap()).unwrap();
            assert_eq!(order, Order::Meet(setup()));
            member
                .sender()
                .send(serde_json::to_vec(&answer).unwrap())
                .unwrap();
            let order: Order = serde_json::from_slice(&member.receive().unwrap()).unwrap();
            assert_eq!(order, Order::Quit(QuitReason::LeftOut));
            assert!(member.receive().is_err(), "its link is closed");
        });
        let outcome = meeting.readmit();
        sender.join().unwrap();
        assert!(outcome.back.is_empty());
        let [(1, why)] = outcome.refused.as_slice() else {
            panic!("{outcome:?}");
        };
        assert!(why.contains(says), "{why}");
        assert!(meeting.session.absent().contains(&1));
    }
    meeting.start(1);
    assert_eq!(meeting.readmit().back, [1]);
    meeting.session.has_lost = true;
    meeting.end();
}

#[test]
fn a_rank_that_dies_while_it_is_let_in_ends_nothing_and_stays_absent() {
    let mut meeting = Meeting::of(2);
    meeting.leave_out(1).unwrap();
    let mut member = meeting.somebody(1);
    let dying = std::thread::spawn(move || {
        member.receive().unwrap();
        drop(member);
    });
    let outcome = meeting.readmit();
    dying.join().unwrap();
    assert!(outcome.back.is_empty());
    assert!(outcome.refused[0].1.contains("lost again"), "{outcome:?}");
    // One that dies after it has introduced itself.
    let card = meeting.session.cards[1].clone();
    let mut member = meeting.somebody(1);
    let dying = std::thread::spawn(move || {
        member.receive().unwrap();
        let met = Answer::Met(Box::new(card));
        member.sender().send(serde_json::to_vec(&met).unwrap()).unwrap();
        let order: Order = serde_json::from_slice(&member.receive().unwrap()).unwrap();
        assert_eq!(order, Order::Reset);
        drop(member);
    });
    let outcome = meeting.readmit();
    dying.join().unwrap();
    assert!(outcome.back.is_empty());
    assert!(outcome.refused[0].1.contains("lost again"), "{outcome:?}");
    assert!(meeting.session.absent().contains(&1));
    assert!(
        meeting.session.overheard.borrow().is_empty(),
        "whoever measures next does not hear of it"
    );
    meeting.start(1);
    assert_eq!(meeting.readmit().back, [1]);
    meeting.session.has_lost = true;
    meeting.end();
}

#[test]
fn a_host_comes_back_as_a_whole() {
    let mut meeting = Meeting::of(3);
    meeting.leave_out(1).unwrap();
    meeting.leave_out(2).unwrap();
    meeting.start(1);
    assert_eq!(
        meeting.readmit(),
        RejoinResult::default(),
        "rank 2 of its host is missing"
    );
    let refusing = meeting.somebody(2);
    let sender = std::thread::spawn(move || {
        let mut member = refusing;
        member.receive().unwrap();
        let no = Answer::CannotMeet("no rails".to_string());
        member.sender().send(serde_json::to_vec(&no).unwrap()).unwrap();
        member.receive().unwrap();
    });
    let outcome = meeting.readmit();
    sender.join().unwrap();
    assert!(outcome.back.is_empty());
    assert_eq!(outcome.refused.len(), 2);
    assert!(outcome.refused[0].1.contains("rank 2 of its host"), "{outcome:?}");
    let left_out = meeting.ranks[1].take().unwrap().join().unwrap();
    assert_eq!(left_out, Ok(QuitReason::LeftOut));
    meeting.start(1);
    meeting.start(2);
    assert_eq!(meeting.readmit().back, [1, 2]);
    meeting.session.has_lost = true;
    meeting.end();
}

#[test]
fn a_survivor_that_is_lost_meanwhile_is_left_to_whoever_measures_next() {
    let mut meeting = Meeting::of(3);
    meeting.leave_out(1).unwrap();
    // Rank 2 is somebody who is there until all are told to start anew.
    meeting.leave_out(2).unwrap();
    meeting.start(1);
    let card = meeting.session.cards[2].clone();
    let mut member = meeting.somebody(2);
    let frail = std::thread::spawn(move || {
        let sender = member.sender();
        let say = |answer: &Answer| sender.send(serde_json::to_vec(answer).unwrap()).unwrap();
        let mut resets = 0;
        while let Ok(message) = member.receive() {
            match serde_json::from_slice(&message).unwrap() {
                Order::Meet(_) => say(&Answer::Met(Box::new(card.clone()))),
                Order::Ping => say(&Answer::Pong(Nanos(1))),
                Order::Reset if resets < 2 => {
                    resets += 1;
                    say(&Answer::Reset);
                }
                Order::Reset => return,
                _ => {}
            }
        }
    });
    assert_eq!(meeting.readmit().back, [1, 2]);
    assert_eq!(meeting.leave_out(1), Ok(QuitReason::LeftOut));
    meeting.start(1);
    let outcome = meeting.readmit();
    frail.join().unwrap();
    assert_eq!(outcome.back, [1], "{outcome:?}");
    let gone = meeting.session.listen(Instant::now() + PATIENCE);
    assert!(matches!(gone, Heard::Gone(2, _)));
    meeting.session.continue_without(&[2]).unwrap();
    meeting.session.has_lost = true;
    meeting.end();
}
