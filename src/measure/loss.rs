//! What is known when a rank is lost or everybody stands still: who is gone, who waited for whom, who knew nothing of it.

use std::time::Instant;

use super::orders::Answer;
use crate::record::Stalled;
use crate::units::Nanos;

/// What is known so far.
#[derive(Default)]
pub(super) struct Loss {
    /// Ranks that are gone, with how that was noticed.
    pub gone: Vec<(u32, String)>,
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
        let waits_for_it = |answer: &Answer| {
            matches!(answer, Answer::Stopped { waiting_for, .. } | Answer::CannotPrepare { waiting_for, .. }
                if *waiting_for == Some(rank))
        };
        let is_idle = self.idle.iter().any(|(known, _)| *known == rank);
        let is_waited_for = self.stopped.iter().any(|(_, answer)| waits_for_it(answer));
        self.is_in_trouble(rank) || is_idle && !is_waited_for
    }

    fn is_in_trouble(&self, rank: u32) -> bool {
        let gone = self.gone.iter().any(|(known, _)| *known == rank);
        gone || self.stopped.iter().any(|(known, _)| *known == rank)
    }

    /// Where the ranks that are still there were, in a slot whose first cell is `cell`.
    pub fn standstill(&self, cell: u32, deadline: Nanos) -> Vec<Stalled> {
        let hangs = |(_, answer): &(u32, Answer)| matches!(answer, Answer::Stopped { waited, aborted: false, .. } if *waited >= deadline);
        let part_of_hang = self.stopped.iter().any(hangs).then_some(Nanos(deadline.0 / 2));
        let stopped = self
            .stopped
            .iter()
            .filter_map(|(rank, answer)| stalled(*rank, answer, part_of_hang));
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
            });
        stopped.chain(idle).collect()
    }
}

/// The standstill an answer tells of. In a hang, a rank that was told to stop and had hardly waited by then was busy, or
/// frozen, or slow: it is what the others waited for, and waited for nobody. `part_of_hang` is the shortest wait that
/// counts; none when a rank was lost, which ends waits of any length.
fn stalled(rank: u32, answer: &Answer, part_of_hang: Option<Nanos>) -> Option<Stalled> {
    match answer {
        Answer::Stopped {
            cell,
            step,
            waiting_for,
            waited,
            problem,
            aborted,
        } => {
            let was_busy = *aborted && part_of_hang.is_some_and(|shortest| *waited < shortest);
            Some(Stalled {
                rank,
                cell: *cell,
                step: format!("{step} ({problem})"),
                waiting_for: waiting_for.filter(|_| !was_busy),
                waited_ns: *waited,
            })
        }
        Answer::CannotPrepare {
            cell,
            reason,
            waiting_for,
        } => Some(Stalled {
            rank,
            cell: *cell,
            step: format!("connecting ({reason})"),
            waiting_for: *waiting_for,
            waited_ns: Nanos(0),
        }),
        _ => None,
    }
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
        }
    }

    #[test]
    fn the_rank_a_hang_waited_for_is_not_said_to_have_waited_itself() {
        let waits_for = |waited, shortest| {
            stalled(0, &told_to_stop_after(waited), shortest)
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
