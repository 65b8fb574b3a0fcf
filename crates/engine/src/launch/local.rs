//! Ranks as threads of this process: links are channels.

use std::sync::mpsc::channel;

use super::link::{Answers, Coordinator, Member, Orders, Post};
use super::wire::Inlet;

/// A coordinator and `world` members that are already joined, each to be moved into its own thread.
pub fn threads(world: u32) -> (Coordinator, Vec<Member>) {
    let (arrivals, inbox) = channel();
    let (posts, members) = (0..world)
        .map(|rank| {
            let (post, orders) = channel();
            let answers = Answers::Channel(Inlet {
                rank,
                turn: 0,
                to: arrivals.clone(),
            });
            let member = Member::new(rank, world, Orders::Channel(orders), answers);
            (Post::Channel(post), member)
        })
        .unzip();
    (Coordinator::new(posts, arrivals, inbox), members)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::super::Incoming;
    use super::*;

    #[test]
    fn an_order_reaches_its_rank_and_the_answer_names_it() {
        let (coordinator, mut members) = threads(3);
        coordinator.send(2, b"go".to_vec()).unwrap();
        assert_eq!(members[2].receive().unwrap(), b"go");
        members[2].answering().send(b"done".to_vec()).unwrap();
        let (rank, incoming) = coordinator
            .receive(Instant::now() + Duration::from_secs(1))
            .unwrap();
        assert_eq!(rank, 2);
        assert!(matches!(incoming, Incoming::Message(message) if message == b"done"));
        assert!(coordinator.send(3, Vec::new()).is_err());
    }

    #[test]
    fn a_coordinator_that_has_ended_is_not_waited_for() {
        let (coordinator, mut members) = threads(1);
        drop(coordinator);
        assert!(members[0].receive().is_err());
    }
}
