//! What is known when a rank is lost or a collective hangs: which ranks are gone, and which waited for which.

use std::time::{Duration, Instant};

use super::protocol::Answer;
use crate::transport::Liveness;
use record::units::{Bytes, Nanos};
use record::{LossCause, Stalled, Stuck};

/// What is known of a loss or a hang so far.
#[derive(Default)]
pub(super) struct Loss {
    /// Ranks whose control connection broke, with the reason.
    pub disconnected: Vec<(u32, String)>,
    /// Ranks that did not answer in time although their heartbeat arrives, with the reason.
    pub unresponsive: Vec<(u32, String)>,
    /// Ranks without a heartbeat for this long, although their connection is not known to be broken.
    pub silent: Vec<(u32, Duration)>,
    /// The results of probing silent ranks over the rails.
    pub probes: Vec<(u32, Liveness)>,
    /// Answers of ranks that stopped.
    pub stopped: Vec<(u32, Answer)>,
    /// Ranks that had completed their order, and when.
    pub idle: Vec<(u32, Instant)>,
    /// What the idle ranks had completed.
    pub milestone: String,
}

impl Loss {
    /// Nothing lost yet; idle ranks have reached `milestone`.
    pub fn after(milestone: &str) -> Loss {
        Loss {
            milestone: milestone.to_string(),
            ..Loss::default()
        }
    }

    /// Whether it is known where `rank` was. One that had completed its order but is waited for may have been lost since.
    pub fn is_located(&self, rank: u32) -> bool {
        self.is_missing_or_stopped(rank) || self.is_idle(rank) && !self.is_waited_for(rank)
    }

    fn is_idle(&self, rank: u32) -> bool {
        self.idle.iter().any(|(known, _)| *known == rank)
    }

    /// Whether a stopped rank waits for `rank`.
    fn is_waited_for(&self, rank: u32) -> bool {
        self.stopped.iter().any(|(_, answer)| {
            matches!(answer, Answer::Stopped { waiting_for, .. } | Answer::CannotPrepare { waiting_for, .. }
                if *waiting_for == Some(rank))
        })
    }

    /// The lost ranks with cause and reason. `here` are the ranks of the coordinator's own host, of `world` in all.
    pub fn lost(&self, here: &[u32], world: usize) -> Vec<(u32, LossCause, String)> {
        let disconnected = self.disconnected.iter().cloned();
        let mut lost: Vec<_> = disconnected
            .map(|(rank, reason)| (rank, LossCause::Ended, reason))
            .collect();
        let unresponsive = self.unresponsive.iter().cloned();
        lost.extend(unresponsive.map(|(rank, reason)| (rank, LossCause::Unclear, reason)));
        let not_heard = |how_long: Duration| {
            format!(
                "not heard over the management network for {}",
                Nanos::from(how_long)
            )
        };
        if let (Some((_, how_long)), Some(own)) = (self.silent.first(), here.first())
            && self.silent.len() > 1
            && self.silent.len() + here.len() == world
        {
            let not_heard = not_heard(*how_long);
            let reason = format!("all other hosts are {not_heard}: the management link of this host is cut");
            lost.push((*own, LossCause::ManagementCut, reason));
            return lost;
        }
        for (rank, how_long) in &self.silent {
            let probe = self.probes.iter().find(|(probed, _)| probed == rank);
            let (cause, conclusion) = conclude(probe.map(|(_, result)| result));
            lost.push((*rank, cause, not_heard(*how_long) + &conclusion));
        }
        lost
    }

    /// Whether nothing more will come from `rank`.
    pub fn is_missing(&self, rank: u32) -> bool {
        let disconnected = self.disconnected.iter().any(|(known, _)| *known == rank);
        let unresponsive = self.unresponsive.iter().any(|(known, _)| *known == rank);
        disconnected || unresponsive || self.silent.iter().any(|(known, _)| *known == rank)
    }

    fn is_missing_or_stopped(&self, rank: u32) -> bool {
        self.is_missing(rank) || self.stopped.iter().any(|(known, _)| *known == rank)
    }

    /// Where the surviving ranks were, in a slot whose first cell is `cell`.
    pub fn stalled(&self, cell: u32, deadline: Nanos) -> Vec<Stalled> {
        let hangs = |(_, answer): &(u32, Answer)| matches!(answer, Answer::Stopped { waited, aborted: false, .. } if *waited >= deadline);
        let part_of_hang = self.stopped.iter().any(hangs).then_some(Nanos(deadline.0 / 2));
        let stopped = self
            .stopped
            .iter()
            .filter_map(|(rank, answer)| stalled(*rank, answer, part_of_hang, deadline));
        let idle = self
            .idle
            .iter()
            .filter(|(rank, _)| !self.is_missing_or_stopped(*rank))
            .map(|(rank, since)| Stalled {
                rank: *rank,
                cell,
                step: format!("wait for the next order ({})", self.milestone),
                waiting_for: None,
                waited_ns: Nanos::from(since.elapsed()),
                stuck: Vec::new(),
                no_carrier: Vec::new(),
                broke: None,
            });
        stopped.chain(idle).collect()
    }
}

/// Where a rank was according to its answer. In a hang, a rank that was aborted and had hardly waited by then was busy, frozen
/// or slow: the others waited for it, and it waited for no rank. `part_of_hang` is the shortest wait that counts; none when a
/// rank was lost, which ends waits of any length. A rank that was not aborted and had waited for less than the `deadline` was
/// stopped by the problem it reports.
fn stalled(rank: u32, answer: &Answer, part_of_hang: Option<Nanos>, deadline: Nanos) -> Option<Stalled> {
    match answer {
        Answer::Stopped {
            cell,
            step,
            waiting_for,
            waited,
            problem,
            aborted,
            stuck,
            no_carrier,
        } => {
            let was_busy = *aborted && part_of_hang.is_some_and(|shortest| *waited < shortest);
            Some(Stalled {
                rank,
                cell: *cell,
                step: format!("{step} ({problem})"),
                waiting_for: waiting_for.filter(|_| !was_busy),
                waited_ns: *waited,
                stuck: stuck.clone(),
                no_carrier: no_carrier.clone(),
                broke: (!aborted && *waited < deadline).then(|| problem.clone()),
            })
        }
        Answer::CannotPrepare {
            cell,
            reason,
            waiting_for,
            rail,
            no_carrier,
        } => Some(Stalled {
            rank,
            cell: *cell,
            step: format!("connecting ({reason})"),
            waiting_for: *waiting_for,
            waited_ns: Nanos(0),
            stuck: unconnected(*waiting_for, rail.as_deref()).into_iter().collect(),
            no_carrier: no_carrier.clone(),
            broke: None,
        }),
        _ => None,
    }
}

/// The cause of a silent rank's loss, from the result of probing it over the rails.
fn conclude(probe: Option<&Liveness>) -> (LossCause, String) {
    match probe {
        Some(Liveness::Answered { rail }) => (
            LossCause::ManagementCut,
            format!(", but it answers on {rail}: its management link is cut"),
        ),
        Some(Liveness::Mute { rail }) => (
            LossCause::Frozen,
            format!(", and on {rail} its machine answers but the process does not: it is frozen"),
        ),
        Some(Liveness::Ended { rail }) => (
            LossCause::Ended,
            format!(", and on {rail} its machine refuses the connection: the process has ended"),
        ),
        Some(Liveness::Unreachable) => (
            LossCause::Unreachable,
            ", and it cannot be reached on any rail: its host is down or cut off".to_string(),
        ),
        Some(Liveness::Unknown) | None => (LossCause::Unclear, String::new()),
    }
}

/// A connection that could not be made.
fn unconnected(peer: Option<u32>, rail: Option<&str>) -> Option<Stuck> {
    Some(Stuck {
        to: peer?,
        rail: rail?.to_string(),
        bytes: Bytes(0),
        retransmits: 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rank_that_had_completed_its_order_is_reported_as_idle() {
        let mut loss = Loss::after("finished iteration 4");
        loss.disconnected.push((1, "killed".to_string()));
        loss.idle = vec![(0, Instant::now()), (1, Instant::now())];
        assert!(loss.is_located(0) && loss.is_located(1) && !loss.is_located(2));
        let mut waited_for = Loss::after("finished iteration 4");
        waited_for.idle = vec![(1, Instant::now())];
        waited_for.stopped = vec![(0, aborted_after(Nanos(3)))];
        assert!(!waited_for.is_located(1), "it may have been lost since");
        let stalled = loss.stalled(7, Nanos(1_000));
        let [idle] = stalled.as_slice() else {
            panic!("the lost rank is not a survivor: {stalled:?}");
        };
        assert_eq!((idle.rank, idle.cell, idle.waiting_for), (0, 7, None));
        assert!(idle.step.contains("finished iteration 4"), "{}", idle.step);
    }

    fn aborted_after(waited: Nanos) -> Answer {
        Answer::Stopped {
            cell: 0,
            step: "step 1".to_string(),
            waiting_for: Some(1),
            waited,
            problem: "the run is being ended".to_string(),
            aborted: true,
            stuck: Vec::new(),
            no_carrier: Vec::new(),
        }
    }

    fn reason_of(loss: &Loss, rank: u32) -> String {
        let lost = loss.lost(&[0], 4);
        lost.into_iter().find(|(lost, ..)| *lost == rank).unwrap().2
    }

    #[test]
    fn a_frozen_host_is_distinguished_from_a_cut_management_link() {
        let rail = || "rail0".to_string();
        let cases = [
            (
                Liveness::Mute { rail: rail() },
                "the process does not: it is frozen",
            ),
            (Liveness::Answered { rail: rail() }, "its management link is cut"),
            (Liveness::Ended { rail: rail() }, "the process has ended"),
            (Liveness::Unreachable, "its host is down or cut off"),
            (Liveness::Unknown, "for 5.00 s"),
        ];
        for (probe, end) in cases {
            let mut loss = Loss::after("finished iteration 4");
            loss.silent = vec![(1, Duration::from_secs(5))];
            loss.probes = vec![(1, probe)];
            let reason = reason_of(&loss, 1);
            assert!(reason.ends_with(end), "{reason}");
        }
    }

    #[test]
    fn an_unresponsive_rank_is_not_reported_as_ended() {
        let mut loss = Loss::after("finished iteration 4");
        loss.unresponsive = vec![(2, "no answer for 5.00 s, and nothing moved".to_string())];
        assert!(loss.is_located(2));
        let lost = loss.lost(&[0], 4);
        assert_eq!((lost[0].0, lost[0].1), (2, LossCause::Unclear));
    }

    #[test]
    fn when_all_other_hosts_are_silent_our_own_management_link_is_cut() {
        let mut loss = Loss::after("finished iteration 4");
        loss.silent = [1, 2, 3].map(|rank| (rank, Duration::from_secs(5))).to_vec();
        let lost = loss.lost(&[0], 4);
        assert_eq!(lost.len(), 1);
        assert_eq!(lost[0].0, 0);
        assert!(lost[0].2.contains("this host"), "{}", lost[0].2);
        loss.silent.pop();
        assert_eq!(loss.lost(&[0], 4).len(), 2, "rank 3 is heard");
    }

    #[test]
    fn the_rank_a_hang_waited_for_is_not_reported_as_waiting() {
        let waits_for = |waited, shortest| {
            stalled(0, &aborted_after(waited), shortest, Nanos(1_000))
                .unwrap()
                .waiting_for
        };
        assert_eq!(waits_for(Nanos(3), Some(Nanos(500))), None);
        assert_eq!(waits_for(Nanos(900), Some(Nanos(500))), Some(1));
        assert_eq!(
            waits_for(Nanos(3), None),
            Some(1),
            "a lost rank ends waits of any length"
        );
    }
}
