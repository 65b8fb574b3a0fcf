//! Ranks that were lost and come back: their seats are made free again, and whoever takes one waits until it is let in.
//!
//! A seat is free only when the coordinator has said so. Until then a caller for it is told to call again when the link of
//! the one before is known to be broken, and is refused as a second one otherwise.

use std::sync::Arc;

use super::door::{Seat, has_ended};
use super::link::{Coordinator, Gone};
use super::rendezvous::Rendezvous;
use super::wire::Wire;

impl Rendezvous {
    /// Makes the seat of a lost rank free for one that comes back. Whoever called for it before was early, and is no
    /// evidence of another world. Does nothing for a seat that is free, or whose new owner waits already.
    pub fn vacate(&self, rank: u32) {
        let mut seats = self.state.lock();
        if let Some(seat @ Seat::Given(_, Some(_))) = seats.seats.get_mut(rank as usize) {
            *seat = Seat::Free;
            seats.evidence.retain(|one| one.taken != Some(rank));
        }
    }

    /// Ranks that have come back and wait to be let in.
    pub fn returned(&self) -> Vec<u32> {
        let mut seats = self.state.lock();
        let mut returned = Vec::new();
        for (rank, seat) in (0..).zip(&mut seats.seats) {
            match seat {
                Seat::Remote(stream, _) if has_ended(stream) => *seat = Seat::Free,
                Seat::Remote(..) => returned.push(rank),
                _ => {}
            }
        }
        returned
    }

    /// Lets a rank in that has come back: from now on it is the one the coordinator speaks to. What the link before it still
    /// has to say is not heard any more.
    pub fn readmit(&self, rank: u32, coordinator: &mut Coordinator) -> Result<(), Gone> {
        let mut seats = self.state.lock();
        seats.returns += 1;
        let turn = seats.returns;
        let nobody = || Gone("nobody waits for its seat".to_string());
        let seat = seats.seats.get_mut(rank as usize).ok_or_else(nobody)?;
        match std::mem::replace(seat, Seat::Free) {
            Seat::Remote(stream, from) => {
                let wire = Wire::open(stream, self.inlet(rank, turn));
                *seat = Seat::Given(from, Some(Arc::clone(&wire)));
                coordinator.replace(wire);
                Ok(())
            }
            other => {
                *seat = other;
                Err(nobody())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};
    use std::time::{Duration, Instant};

    use super::super::{Incoming, JoinAddress, JoinError, Member, Token, join, join_again};
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(20);

    /// A run of two ranks that have met.
    fn met() -> (Rendezvous, JoinAddress, Coordinator, Member, Member) {
        let token = Token::generate().unwrap();
        let door = Rendezvous::open(IpAddr::V4(Ipv4Addr::LOCALHOST), 2, token).unwrap();
        let address = JoinAddress {
            rank: 1,
            world: 2,
            rendezvous: door.address().unwrap().into(),
            token,
        };
        let own = door.sit(0).unwrap();
        let other = join(&address, PATIENCE).unwrap();
        let coordinator = door.meet(PATIENCE, || None).unwrap();
        (door, address, coordinator, own, other)
    }

    fn soon() -> Instant {
        Instant::now() + PATIENCE
    }

    fn wait_for(what: impl Fn() -> bool) {
        let until = soon();
        while !what() {
            assert!(Instant::now() < until, "waited in vain");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn a_lost_rank_comes_back_once_its_seat_is_free() {
        let (door, address, mut coordinator, _own, lost) = met();
        drop(lost);
        let (rank, what) = coordinator.receive(soon()).unwrap();
        assert!(rank == 1 && matches!(what, Incoming::Gone(_)));
        // Started again at once: it is told to call again, and that is no sign of a second world.
        let caller = address.clone();
        let calling = std::thread::spawn(move || join(&caller, PATIENCE).unwrap());
        std::thread::sleep(Duration::from_millis(300));
        assert!(door.returned().is_empty() && !calling.is_finished());
        door.vacate(1);
        wait_for(|| door.returned() == [1]);
        let mut back = calling.join().unwrap();
        door.readmit(1, &mut coordinator).unwrap();
        assert!(door.returned().is_empty());
        coordinator.send(1, b"again".to_vec()).unwrap();
        assert_eq!(back.receive().unwrap(), b"again");
        back.answering().send(b"here".to_vec()).unwrap();
        let (rank, what) = coordinator.receive(soon()).unwrap();
        assert!(rank == 1 && matches!(what, Incoming::Message(text) if text == b"here"));
        assert!(door.evidence_of_separate_worlds().is_empty());
    }

    #[test]
    fn what_an_old_link_has_to_say_is_not_taken_for_the_new_one() {
        let (door, address, mut coordinator, _own, mut lost) = met();
        lost.answering().send(b"late".to_vec()).unwrap();
        coordinator.dismiss(1);
        assert!(lost.receive().is_err(), "it learns that its link is closed");
        door.vacate(1);
        let mut back = join(&address, PATIENCE).unwrap();
        // Nobody has listened meanwhile: message and end of the old link are still to be heard.
        door.readmit(1, &mut coordinator).unwrap();
        drop(lost);
        back.answering().send(b"new".to_vec()).unwrap();
        let (rank, what) = coordinator.receive(soon()).unwrap();
        assert!(
            rank == 1 && matches!(&what, Incoming::Message(text) if text == b"new"),
            "{what:?}"
        );
        let more = coordinator.receive(Instant::now() + Duration::from_millis(300));
        assert!(more.is_none(), "{more:?}");
        coordinator.send(1, b"alive".to_vec()).unwrap();
        assert_eq!(back.receive().unwrap(), b"alive");
    }

    #[test]
    fn signs_of_life_go_both_ways_with_a_rank_that_is_back() {
        let (door, address, mut coordinator, _own, lost) = met();
        let patience = Duration::from_millis(1500);
        coordinator.keep_alive(patience);
        drop(lost);
        assert!(matches!(
            coordinator.receive(soon()),
            Some((1, Incoming::Gone(_)))
        ));
        door.vacate(1);
        let mut back = join(&address, PATIENCE).unwrap();
        door.readmit(1, &mut coordinator).unwrap();
        back.keep_alive(patience, PATIENCE);
        let quiet = coordinator.receive(Instant::now() + 3 * patience);
        assert!(quiet.is_none(), "both are heard: {quiet:?}");
        // Without its own signs it is missed, although its link is open.
        back.fall_silent();
        let missed = coordinator.receive(soon());
        assert!(matches!(missed, Some((1, Incoming::Silent(_)))), "{missed:?}");
    }

    #[test]
    fn a_seat_that_is_taken_stays_taken_and_a_second_caller_is_evidence_until_the_first_is_lost() {
        let (door, address, mut coordinator, _own, first) = met();
        assert!(matches!(
            join(&address, PATIENCE),
            Err(JoinError::Taken { rank: 1, .. })
        ));
        assert!(matches!(
            join_again(&address, Duration::from_millis(300)),
            Err(JoinError::Taken { .. } | JoinError::Unreachable { .. })
        ));
        assert_eq!(door.evidence_of_separate_worlds().len(), 1, "said once");
        assert!(door.readmit(1, &mut coordinator).is_err(), "nobody waits");
        door.vacate(0);
        let rank_0 = JoinAddress {
            rank: 0,
            ..address.clone()
        };
        let error = join(&rank_0, PATIENCE).map(|_| ());
        assert!(
            matches!(error, Err(JoinError::Taken { rank: 0, .. })),
            "the coordinator's own rank cannot come back"
        );
        // A host that froze and was started again: the coordinator learns late that the first one is lost.
        let caller = address.clone();
        let calling = std::thread::spawn(move || join_again(&caller, PATIENCE).unwrap());
        std::thread::sleep(Duration::from_millis(200));
        coordinator.dismiss(1);
        door.vacate(1);
        calling.join().unwrap();
        let evidence = door.evidence_of_separate_worlds();
        assert!(
            evidence.iter().all(|text| text.contains("rank 0")),
            "{evidence:?}"
        );
        drop(first);
    }

    #[test]
    fn whoever_leaves_again_before_it_is_let_in_frees_its_seat() {
        let (door, address, mut coordinator, _own, lost) = met();
        drop(lost);
        coordinator.receive(soon()).unwrap();
        door.vacate(1);
        drop(join(&address, PATIENCE).unwrap());
        wait_for(|| door.returned().is_empty());
        let mut back = join(&address, PATIENCE).unwrap();
        assert_eq!(door.returned(), [1]);
        door.readmit(1, &mut coordinator).unwrap();
        coordinator.send(1, b"in".to_vec()).unwrap();
        assert_eq!(back.receive().unwrap(), b"in");
    }
}
