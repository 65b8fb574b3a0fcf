//! Ranks that were lost and rejoin: a new process may join as the lost rank, and waits until the coordinator accepts it.
//!
//! A rank may rejoin only when the coordinator allows it. Until then a process that tries is told to retry if the connection
//! of the one before is known to be broken, and is refused as a duplicate otherwise.

use std::sync::Arc;

use super::connection::{ControlConnection, Disconnected};
use super::control::Coordinator;
use super::listener::{MemberState, has_closed};
use super::rendezvous::Rendezvous;

impl Rendezvous {
    /// Allows a lost rank to rejoin. A process that tried before was early, which is not a conflict. Does nothing for a rank
    /// that may rejoin already, or that waits to be accepted.
    pub fn allow_rejoin(&self, rank: u32) {
        let mut membership = self.state.lock();
        if let Some(member @ MemberState::Connected(_, Some(_))) = membership.members.get_mut(rank as usize) {
            *member = MemberState::Missing;
            membership
                .conflicts
                .retain(|conflict| conflict.duplicate != Some(rank));
        }
    }

    /// Lost ranks whose new processes have joined and wait to be accepted.
    pub fn waiting_to_rejoin(&self) -> Vec<u32> {
        let mut membership = self.state.lock();
        let mut waiting = Vec::new();
        for (rank, member) in (0..).zip(&mut membership.members) {
            match member {
                MemberState::Joined(stream, _) if has_closed(stream) => *member = MemberState::Missing,
                MemberState::Joined(..) => waiting.push(rank),
                _ => {}
            }
        }
        waiting
    }

    /// Hands a rank that waits to rejoin to the coordinator. What still comes over its old connection is dropped.
    pub fn accept_rejoin(&self, rank: u32, coordinator: &mut Coordinator) -> Result<(), Disconnected> {
        let mut membership = self.state.lock();
        membership.rejoins += 1;
        let generation = membership.rejoins;
        let nobody = || Disconnected(format!("no process waits to rejoin as rank {rank}"));
        let member = membership.members.get_mut(rank as usize).ok_or_else(nobody)?;
        match std::mem::replace(member, MemberState::Missing) {
            MemberState::Joined(stream, from) => {
                let connection = ControlConnection::open(stream, self.inbox_sender(rank, generation));
                *member = MemberState::Connected(from, Some(Arc::clone(&connection)));
                coordinator.replace_connection(connection);
                Ok(())
            }
            other => {
                *member = other;
                Err(nobody())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};
    use std::time::{Duration, Instant};

    use super::super::{Incoming, JoinConfig, JoinError, Member, Token, join, rejoin};
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(20);

    /// A run of two ranks that have joined.
    fn joined() -> (Rendezvous, JoinConfig, Coordinator, Member, Member) {
        let token = Token::generate().unwrap();
        let rendezvous = Rendezvous::listen(IpAddr::V4(Ipv4Addr::LOCALHOST), 2, token).unwrap();
        let address = JoinConfig {
            rank: 1,
            world: 2,
            rendezvous: rendezvous.address().unwrap().into(),
            token,
        };
        let own = rendezvous.join_local(0).unwrap();
        let other = join(&address, PATIENCE).unwrap();
        let coordinator = rendezvous.wait_for_ranks(PATIENCE, || None).unwrap();
        (rendezvous, address, coordinator, own, other)
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
    fn a_lost_rank_rejoins_once_it_is_allowed_to() {
        let (rendezvous, address, mut coordinator, _own, lost) = joined();
        drop(lost);
        let (rank, what) = coordinator.receive(soon()).unwrap();
        assert!(rank == 1 && matches!(what, Incoming::Disconnected(_)));
        // Restarted at once: it is told to retry, and that is not a conflict.
        let caller = address.clone();
        let calling = std::thread::spawn(move || join(&caller, PATIENCE).unwrap());
        std::thread::sleep(Duration::from_millis(300));
        assert!(rendezvous.waiting_to_rejoin().is_empty() && !calling.is_finished());
        rendezvous.allow_rejoin(1);
        wait_for(|| rendezvous.waiting_to_rejoin() == [1]);
        let mut back = calling.join().unwrap();
        rendezvous.accept_rejoin(1, &mut coordinator).unwrap();
        assert!(rendezvous.waiting_to_rejoin().is_empty());
        coordinator.send(1, b"again".to_vec()).unwrap();
        assert_eq!(back.receive().unwrap(), b"again");
        back.sender().send(b"here".to_vec()).unwrap();
        let (rank, what) = coordinator.receive(soon()).unwrap();
        assert!(rank == 1 && matches!(what, Incoming::Message(text) if text == b"here"));
        assert!(rendezvous.join_conflicts().is_empty());
    }

    #[test]
    fn a_late_message_of_the_old_connection_is_not_taken_for_one_of_the_new() {
        let (rendezvous, address, mut coordinator, _own, mut lost) = joined();
        lost.sender().send(b"late".to_vec()).unwrap();
        coordinator.disconnect(1);
        assert!(lost.receive().is_err(), "it sees its connection close");
        rendezvous.allow_rejoin(1);
        let mut back = join(&address, PATIENCE).unwrap();
        // Message and end of the old connection are still in the inbox.
        rendezvous.accept_rejoin(1, &mut coordinator).unwrap();
        drop(lost);
        back.sender().send(b"new".to_vec()).unwrap();
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
    fn heartbeats_go_both_ways_with_a_rank_that_rejoined() {
        let (rendezvous, address, mut coordinator, _own, lost) = joined();
        let timeout = Duration::from_millis(1500);
        coordinator.start_heartbeat(timeout);
        drop(lost);
        assert!(matches!(
            coordinator.receive(soon()),
            Some((1, Incoming::Disconnected(_)))
        ));
        rendezvous.allow_rejoin(1);
        let mut back = join(&address, PATIENCE).unwrap();
        rendezvous.accept_rejoin(1, &mut coordinator).unwrap();
        back.start_heartbeat(timeout, PATIENCE);
        let quiet = coordinator.receive(Instant::now() + 3 * timeout);
        assert!(quiet.is_none(), "both are heard: {quiet:?}");
        // Without its heartbeat it is reported, although its connection is open.
        back.fall_silent();
        let missed = coordinator.receive(soon());
        assert!(matches!(missed, Some((1, Incoming::Silent(_)))), "{missed:?}");
    }

    #[test]
    fn a_second_process_of_a_rank_is_a_conflict_until_the_first_is_lost() {
        let (rendezvous, address, mut coordinator, _own, first) = joined();
        assert!(matches!(
            join(&address, PATIENCE),
            Err(JoinError::RankTaken { rank: 1, .. })
        ));
        assert!(matches!(
            rejoin(&address, Duration::from_millis(300)),
            Err(JoinError::RankTaken { .. } | JoinError::Unreachable { .. })
        ));
        assert_eq!(rendezvous.join_conflicts().len(), 1, "reported once");
        assert!(
            rendezvous.accept_rejoin(1, &mut coordinator).is_err(),
            "no process waits"
        );
        rendezvous.allow_rejoin(0);
        let rank_0 = JoinConfig {
            rank: 0,
            ..address.clone()
        };
        let error = join(&rank_0, PATIENCE).map(|_| ());
        assert!(
            matches!(error, Err(JoinError::RankTaken { rank: 0, .. })),
            "the coordinator's own rank cannot rejoin"
        );
        // A host that froze and was restarted: the coordinator notices late that the first process is lost.
        let caller = address.clone();
        let calling = std::thread::spawn(move || rejoin(&caller, PATIENCE).unwrap());
        std::thread::sleep(Duration::from_millis(200));
        coordinator.disconnect(1);
        rendezvous.allow_rejoin(1);
        calling.join().unwrap();
        let conflicts = rendezvous.join_conflicts();
        assert!(
            conflicts.iter().all(|text| text.contains("rank 0")),
            "{conflicts:?}"
        );
        drop(first);
    }

    #[test]
    fn a_process_that_ends_before_it_is_accepted_makes_room_for_another() {
        let (rendezvous, address, mut coordinator, _own, lost) = joined();
        drop(lost);
        coordinator.receive(soon()).unwrap();
        rendezvous.allow_rejoin(1);
        drop(join(&address, PATIENCE).unwrap());
        wait_for(|| rendezvous.waiting_to_rejoin().is_empty());
        let mut back = join(&address, PATIENCE).unwrap();
        assert_eq!(rendezvous.waiting_to_rejoin(), [1]);
        rendezvous.accept_rejoin(1, &mut coordinator).unwrap();
        coordinator.send(1, b"in".to_vec()).unwrap();
        assert_eq!(back.receive().unwrap(), b"in");
    }
}
