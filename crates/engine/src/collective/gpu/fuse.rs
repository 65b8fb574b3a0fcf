//! Fuses steps of a schedule into ops that receive, combine and send in one pass.
//!
//! On the host every step reads and writes memory. A GPU should touch a value once: a received value is combined with the rank's
//! own and sent on at once, and a partial result that this rank does not need again is never written to its memory.

use crate::collective::schedule::{Action, Schedule};

/// The most receives and the most sends of an op: what binary trees need.
const MOST_CONNECTIONS: usize = 2;

/// What an op takes from its own rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OwnValue {
    /// Nothing: the value comes from elsewhere.
    Nothing,
    /// The rank's input.
    Input,
    /// What an earlier op left in the rank's output.
    Output,
}

/// Steps on one block that are one op.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FusedOp {
    /// Index of the block.
    pub block: usize,
    pub own: OwnValue,
    /// Steps that receive, as indices into the schedule.
    pub receives: Vec<usize>,
    /// Steps that send.
    pub sends: Vec<usize>,
    /// Whether the value must be in the rank's output afterwards.
    pub keeps: bool,
    /// Whether this completes a reduction.
    pub completes: bool,
    /// Whether the value that arrives replaces the rank's own.
    pub copies: bool,
}

/// The ops of a schedule, in an executable order; none when a block has more receives or sends at once than an op can have.
pub(super) fn fuse(schedule: &Schedule) -> Option<Vec<FusedOp>> {
    let mut done: Vec<FusedOp> = Vec::new();
    // Per block: the current op, as an index into `done`.
    let mut open: Vec<Option<usize>> = vec![None; schedule.blocks.len()];
    for (at, step) in schedule.steps.iter().enumerate() {
        let block = step.block;
        let current = open[block].map(|index| &done[index]);
        let current_exists = current.is_some();
        let starts_anew = current.is_none_or(|current| match step.action {
            Action::RecvReduce | Action::RecvReduceLast => current.copies || !current.sends.is_empty(),
            Action::RecvCopy | Action::Keep => true,
            Action::Send => false,
            // It reads the input, whatever the current op makes of it.
            Action::SendInput => !(current.receives.is_empty() && current.own == OwnValue::Input),
        });
        if starts_anew {
            let written = current.is_some_and(|current| !current.receives.is_empty());
            let value = match (current, written) {
                (Some(current), false) => current.own,
                (Some(_), true) => OwnValue::Output,
                (None, _) => OwnValue::Input,
            };
            let own = match step.action {
                Action::RecvCopy => OwnValue::Nothing,
                Action::SendInput | Action::Keep => OwnValue::Input,
                _ => value,
            };
            // A value that is needed again must be kept by the op that made it.
            if own == OwnValue::Output
                && let Some(index) = open[block]
            {
                done[index].keeps = true;
            }
            // Sending the input beside the block's value leaves that value unchanged.
            if step.action == Action::SendInput && current_exists {
                done.push(FusedOp {
                    block,
                    own: OwnValue::Input,
                    receives: Vec::new(),
                    sends: vec![at],
                    keeps: false,
                    completes: false,
                    copies: false,
                });
                continue;
            }
            open[block] = Some(done.len());
            done.push(FusedOp {
                block,
                own,
                receives: Vec::new(),
                sends: Vec::new(),
                keeps: false,
                completes: false,
                copies: step.action == Action::RecvCopy,
            });
        }
        let index = open[block]?;
        let op = &mut done[index];
        match step.action {
            Action::Send | Action::SendInput => op.sends.push(at),
            Action::RecvReduceLast => {
                op.completes = true;
                op.receives.push(at);
            }
            Action::RecvReduce | Action::RecvCopy => op.receives.push(at),
            Action::Keep => {}
        }
        if op.sends.len() > MOST_CONNECTIONS || op.receives.len() > MOST_CONNECTIONS {
            return None;
        }
    }
    for &block in &schedule.results {
        if let Some(index) = open[block] {
            done[index].keeps = true;
        }
    }
    Some(done)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collective::{Shape, find};
    use record::{Algorithm, Collective};

    fn fused(collective: Collective, algorithm: Algorithm, rank: usize, ranks: usize) -> Vec<FusedOp> {
        let shape = Shape {
            rank,
            ranks,
            elements: 1000,
            root: 0,
        };
        fuse(&find(collective, algorithm).unwrap().schedule(shape)).unwrap()
    }

    #[test]
    fn a_ring_passes_partial_sums_on_without_keeping_them() {
        let ops = fused(Collective::AllReduce, Algorithm::Ring, 1, 4);
        let shape: Vec<_> = ops
            .iter()
            .map(|op| (op.own, op.receives.len(), op.sends.len(), op.keeps, op.completes))
            .collect();
        use OwnValue::{Input, Nothing};
        assert_eq!(
            shape,
            [
                (Input, 0, 1, false, false),
                (Input, 1, 1, false, false),
                (Input, 1, 1, false, false),
                (Input, 1, 1, true, true),
                (Nothing, 1, 1, true, false),
                (Nothing, 1, 1, true, false),
                (Nothing, 1, 0, true, false),
            ]
        );
    }

    #[test]
    fn the_root_of_a_tree_reduces_and_broadcasts_in_one_op() {
        let root = fused(Collective::AllReduce, Algorithm::Tree, 3, 7);
        assert_eq!(root.len(), 1);
        assert_eq!((root[0].receives.len(), root[0].sends.len()), (2, 2));
        assert!(root[0].completes && root[0].keeps);
        let inner = fused(Collective::AllReduce, Algorithm::Tree, 1, 7);
        let shape: Vec<_> = inner
            .iter()
            .map(|op| (op.receives.len(), op.sends.len(), op.keeps))
            .collect();
        assert_eq!(shape, [(2, 1, false), (1, 2, true)]);
    }
}
