//! What is known when a rank is lost or everybody stands still: who is gone, who waited for whom, who knew nothing of it.

use std::time::{Duration, Instant};

use super::orders::Answer;
use crate::transport::Knock;
use record::units::{Bytes, Nanos};
use record::{LossCause, Stalled, Stuck};

/// What is known so far.
#[derive(Default)]
pub(super) struct Loss {
    /// Ranks whose link is broken, with how that was noticed.
    pub gone: Vec<(u32, String)>,
    /// Ranks that should have answered long ago and give signs of life all the same, with what they were waited for.
    pub mute: Vec<(u32, String)>,
    /// Ranks not heard for so long, although their link is not known to be broken.
    pub silent: Vec<(u32, Duration)>,
    /// What came of knocking at the doors of silent ranks.
    pub knocks: Vec<(u32, Knock)>,
    /// Answers that tell of a standstill.
    pub stopped: Vec<(u32, Answer)>,
    /// Ranks that had done what they were asked to, and when.
    pub idle: Vec<(u32, Instant)>,
    /// What the idle ones had done, in words.
    pub had_done: String,
}

impl Loss {
    /// Nothing lost yet; whoever is idle has `had_done`.
    pub fn after(had_done: &str) -> Loss {
        Loss {
            had_done: had_done.to_string(),
            ..Loss::default()
        }
    }

    /// Whether it is known where `rank` was. One that had done its part but is waited for may have been lost since.
    pub fn knows(&self, rank: u32) -> bool {
        self.is_in_trouble(rank) || self.is_idle(rank) && !self.is_waited_for(rank)
    }

    fn is_idle(&self, rank: u32) -> bool {
        self.idle.iter().any(|(known, _)| *known == rank)
    }

    /// Whether somebody stands still because of `rank`.
    fn is_waited_for(&self, rank: u32) -> bool {
        self.stopped.iter().any(|(_, answer)| {
            matches!(answer, Answer::Stopped { waiting_for, .. } | Answer::CannotPrepare { waiting_for, .. }
                if *waiting_for == Some(rank))
        })
    }

    /// The ranks that are lost, with how that was noticed and what it points to. `here` are the ranks of the coordinator's
    /// own host, of `world` in all.
    pub fn lost(&self, here: &[u32], world: usize) -> Vec<(u32, LossCause, String)> {
        let gone = self.gone.iter().cloned();
        let mut lost: Vec<_> = gone
            .map(|(rank, reason)| (rank, LossCause::Ended, reason))
            .collect();
        let mute = self.mute.iter().cloned();
        lost.extend(mute.map(|(rank, reason)| (rank, LossCause::Unclear, reason)));
        let unheard = |how_long: Duration| {
            format!(
                "not heard over the management network for {}",
                Nanos::from(how_long)
            )
        };
        if let (Some((_, how_long)), Some(own)) = (self.silent.first(), here.first())
            && self.silent.len() > 1
            && self.silent.len() + here.len() == world
        {
            let unheard = unheard(*how_long);
            let reason = format!("all other hosts are {unheard}: the management link of this host is cut");
            lost.push((*own, LossCause::ManagementCut, reason));
            return lost;
        }
        for (rank, how_long) in &self.silent {
            let knock = self.knocks.iter().find(|(knocked, _)| knocked == rank);
            let (cause, pointing) = points_to(knock.map(|(_, knock)| knock));
            lost.push((*rank, cause, unheard(*how_long) + &pointing));
        }
        lost
    }

    /// Whether nothing more can be heard from `rank`.
    pub fn is_missing(&self, rank: u32) -> bool {
        let gone = self.gone.iter().any(|(known, _)| *known == rank);
        let mute = self.mute.iter().any(|(known, _)| *known == rank);
        gone || mute || self.silent.iter().any(|(known, _)| *known == rank)
    }

    fn is_in_trouble(&self, rank: u32) -> bool {
        self.is_missing(rank) || self.stopped.iter().any(|(known, _)| *known == rank)
    }

    /// Where the ranks that are still there were, in a slot whose first cell is `cell`.
    pub fn standstill(&self, cell: u32, deadline: Nanos) -> Vec<Stalled> {
        let hangs = |(_, answer): &(u32, Answer)| matches!(answer, Answer::Stopped { waited, aborted: false, .. } if *waited >= deadline);
        let part_of_hang = self.stopped.iter().any(hangs).then_some(Nanos(deadline.0 / 2));
        let stopped = self
            .stopped
            .iter()
            .filter_map(|(rank, answer)| stalled(*rank, answer, part_of_hang, deadline));
        let idle = self
            .idle
            .iter()
            .filter(|(rank, _)| !self.is_in_trouble(*rank))
            .map(|(rank, since)| Stalled {
                rank: *rank,
                cell,
                step: format!("wait for the next order ({})", self.had_done),
                waiting_for: None,
                waited_ns: Nanos::from(since.elapsed()),
                stuck: Vec::new(),
                no_carrier: Vec::new(),
                broke: None,
            });
        stopped.chain(idle).collect()
    }
}

/// The standstill an answer tells of. In a hang, a rank that was told to stop and had hardly waited by then was busy, or
/// frozen, or slow: it is what the others waited for, and waited for nobody. `part_of_hang` is the shortest wait that
/// counts; none when a rank was lost, which ends waits of any length. Whoever had waited for less than the `deadline` and was
/// not told to stop was stopped by what it says.
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

/// What came of knocking at a silent rank's doors, and what that means.
fn points_to(knock: Option<&Knock>) -> (LossCause, String) {
    match knock {
        Some(Knock::Answered { rail }) => (
            LossCause::ManagementCut,
            format!(", but it answers on {rail}: its management link is cut"),
        ),
        Some(Knock::Mute { rail }) => (
            LossCause::Frozen,
            format!(", and on {rail} its machine answers but the process does not: it is frozen"),
        ),
        Some(Knock::Ended { rail }) => (
            LossCause::Ended,
            format!(", and on {rail} its machine answers that nobody is there: the process has ended"),
        ),
        Some(Knock::Unreachable) => (
            LossCause::Unreachable,
            ", and it cannot be reached on any rail: its host is down or cut off".to_string(),
        ),
        Some(Knock::Unknown) | None => (LossCause::Unclear, String::new()),
    }
}

/// A way on which not even a connection came about.
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
    fn a_rank_that_had_done_its_part_is_said_to_have() {
        let mut loss = Loss::after("iteration 4 done");
        loss.gone.push((1, "killed".to_string()));
        loss.idle = vec![(0, Instant::now()), (1, Instant::now())];
        assert!(loss.knows(0) && loss.knows(1) && !loss.knows(2));
        let mut waited_for = Loss::after("iteration 4 done");
        waited_for.idle = vec![(1, Instant::now())];
        waited_for.stopped = vec![(0, told_to_stop_after(Nanos(3)))];
        assert!(!waited_for.knows(1), "it may have been lost since");
        let standstill = loss.standstill(7, Nanos(1_000));
        let [idle] = standstill.as_slice() else {
            panic!("the lost rank is no survivor: {standstill:?}");
        };
        assert_eq!((idle.rank, idle.cell, idle.waiting_for), (0, 7, None));
        assert!(idle.step.contains("iteration 4 done"), "{}", idle.step);
    }

    fn told_to_stop_after(waited: Nanos) -> Answer {
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
    fn a_frozen_host_is_told_from_one_whose_management_link_is_cut() {
        let rail = || "rail0".to_string();
        let cases = [
            (Knock::Mute { rail: rail() }, "the process does not: it is frozen"),
            (Knock::Answered { rail: rail() }, "its management link is cut"),
            (Knock::Ended { rail: rail() }, "the process has ended"),
            (Knock::Unreachable, "its host is down or cut off"),
            (Knock::Unknown, "for 5.00 s"),
        ];
        for (knock, end) in cases {
            let mut loss = Loss::after("iteration 4 done");
            loss.silent = vec![(1, Duration::from_secs(5))];
            loss.knocks = vec![(1, knock)];
            let reason = reason_of(&loss, 1);
            assert!(reason.ends_with(end), "{reason}");
        }
    }

    #[test]
    fn a_rank_that_says_nothing_is_not_said_to_have_ended() {
        let mut loss = Loss::after("iteration 4 done");
        loss.mute = vec![(2, "no answer for 5.00 s, and nothing moved".to_string())];
        assert!(loss.knows(2));
        let lost = loss.lost(&[0], 4);
        assert_eq!((lost[0].0, lost[0].1), (2, LossCause::Unclear));
    }

    #[test]
    fn when_nobody_else_is_heard_the_link_at_fault_is_our_own() {
        let mut loss = Loss::after("iteration 4 done");
        loss.silent = [1, 2, 3].map(|rank| (rank, Duration::from_secs(5))).to_vec();
        let lost = loss.lost(&[0], 4);
        assert_eq!(lost.len(), 1);
        assert_eq!(lost[0].0, 0);
        assert!(lost[0].2.contains("this host"), "{}", lost[0].2);
        loss.silent.pop();
        assert_eq!(loss.lost(&[0], 4).len(), 2, "rank 3 is heard");
    }

    #[test]
    fn the_rank_a_hang_waited_for_is_not_said_to_have_waited_itself() {
        let waits_for = |waited, shortest| {
            stalled(0, &told_to_stop_after(waited), shortest, Nanos(1_000))
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
