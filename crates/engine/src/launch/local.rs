//! Ranks as threads of this process: control connections are channels.

use std::sync::mpsc::channel;

use super::connection::InboxSender;
use super::control::{AnswerSink, Coordinator, Member, OrderSender, OrderSource};

/// A coordinator and `world` members that have joined it, each to be moved into its own thread.
pub fn in_process(world: u32) -> (Coordinator, Vec<Member>) {
    let (deliveries, inbox) = channel();
    let (senders, members) = (0..world)
        .map(|rank| {
            let (sender, orders) = channel();
            let answers = AnswerSink::Channel(InboxSender {
                rank,
                generation: 0,
                to: deliveries.clone(),
            });
            let member = Member::new(rank, world, OrderSource::Channel(orders), answers);
            (OrderSender::Channel(sender), member)
        })
        .unzip();
    (Coordinator::new(senders, deliveries, inbox), members)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::super::Incoming;
    use super::*;

    #[test]
    fn an_order_reaches_its_rank_and_the_answer_names_it() {
        let (coordinator, mut members) = in_process(3);
        coordinator.send(2, b"go".to_vec()).unwrap();
        assert_eq!(members[2].receive().unwrap(), b"go");
        members[2].sender().send(b"done".to_vec()).unwrap();
        let (rank, incoming) = coordinator
            .receive(Instant::now() + Duration::from_secs(1))
            .unwrap();
        assert_eq!(rank, 2);
        assert!(matches!(incoming, Incoming::Message(message) if message == b"done"));
        assert!(coordinator.send(3, Vec::new()).is_err());
    }

    #[test]
    fn a_coordinator_that_has_ended_is_not_waited_for() {
        let (coordinator, mut members) = in_process(1);
        drop(coordinator);
        assert!(members[0].receive().is_err());
    }
}
