//! The parts of a schedule.
//!
//! Every schedule guarantees: all ranks agree on the blocks; the sends of one rank to another match that rank's
//! receives from it, in order and in length; no step moves an empty block. The order of steps binds only per block and
//! per peer and direction, which lets an executor pipeline chunk by chunk; a schedule that needs more order than that
//! is wrong.

use std::collections::BTreeMap;
use std::ops::Range;

/// What a rank does in one step.
///
/// Steps on the same block happen in this order, steps with the same peer and direction happen in this order; nothing
/// else is ordered, so the executor pipelines chunk by chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// Send the block's current value: the input if nothing was written to it on this rank yet, else the output.
    Send,
    /// Send the block of the input, whatever was received into it. It reads nothing that is written, so where the input
    /// is not overwritten it need not wait for the block's earlier steps.
    SendInput,
    /// The output becomes the current value combined with what is received.
    RecvReduce,
    /// The same, and this completes the reduction over all ranks: an average divides here.
    RecvReduceLast,
    /// The output becomes what is received.
    RecvCopy,
    /// This rank's own input is the result for the block: copied when out of place. The peer is the rank itself.
    Keep,
}

impl Action {
    /// Whether the step moves data to the peer.
    pub fn sends(self) -> bool {
        matches!(self, Action::Send | Action::SendInput)
    }

    /// Whether the step takes data from the peer.
    pub fn receives(self) -> bool {
        matches!(
            self,
            Action::RecvReduce | Action::RecvReduceLast | Action::RecvCopy
        )
    }
}

/// One action on one block with one peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Step {
    /// What is done.
    pub action: Action,
    /// The peer.
    pub peer: usize,
    /// On which block: an index into [`Schedule::blocks`].
    pub block: usize,
}

impl Step {
    pub(super) fn new(action: Action, peer: usize, block: usize) -> Step {
        Step { action, peer, block }
    }
}

/// Everything one rank does in a collective.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule {
    /// Element ranges of the payload; all ranks agree on them.
    pub blocks: Vec<Range<usize>>,
    /// The steps, in the order explained at [`Action`].
    pub steps: Vec<Step>,
    /// Blocks of the output that are meaningful on this rank at the end.
    pub results: Vec<usize>,
}

impl Schedule {
    /// Drops what concerns empty blocks. All ranks agree on the blocks, so both ends of a message drop it.
    pub(super) fn new(
        blocks: Vec<Range<usize>>,
        steps: impl IntoIterator<Item = Step>,
        results: impl IntoIterator<Item = usize>,
    ) -> Schedule {
        let filled = |block: usize| !blocks[block].is_empty();
        let steps = steps.into_iter().filter(|step| filled(step.block)).collect();
        let results = results.into_iter().filter(|&block| filled(block)).collect();
        Schedule {
            blocks,
            steps,
            results,
        }
    }
}

/// What a schedule depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Shape {
    /// Whose schedule: a position in the cell's list of ranks.
    pub rank: usize,
    /// Ranks taking part, at least one.
    pub ranks: usize,
    /// Elements of the whole payload.
    pub elements: usize,
    /// Where the data of a broadcast comes from; others ignore it.
    pub root: usize,
}

impl Shape {
    /// The rank `distance` further along the ring.
    pub(super) fn ahead(self, distance: usize) -> usize {
        (self.rank + distance) % self.ranks
    }

    /// The rank `distance` back along the ring, for distances up to twice the ring.
    pub(super) fn behind(self, distance: usize) -> usize {
        (self.rank + 2 * self.ranks - distance) % self.ranks
    }
}

/// What one directed link carries in one collective.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkLoad {
    /// Sending rank.
    pub from: usize,
    /// Receiving rank.
    pub to: usize,
    /// Elements sent.
    pub elements: usize,
}

impl LinkLoad {
    /// One load per link that carries anything, sorted by sender and receiver.
    pub(super) fn per_link(messages: impl IntoIterator<Item = LinkLoad>) -> Vec<LinkLoad> {
        let mut links = BTreeMap::new();
        for LinkLoad { from, to, elements } in messages {
            *links.entry((from, to)).or_insert(0) += elements;
        }
        let loaded = links.into_iter().filter(|&(_, elements)| elements > 0);
        loaded
            .map(|((from, to), elements)| LinkLoad { from, to, elements })
            .collect()
    }
}

/// Splits any number of elements into `parts` ranges that differ by one at most, the longer ones first.
pub(super) fn near_equal(elements: usize, parts: usize) -> Vec<Range<usize>> {
    let (each, longer) = (elements / parts, elements % parts);
    let lengths = (0..parts).map(|part| each + usize::from(part < longer));
    lengths
        .scan(0, |end, length| {
            let start = *end;
            *end += length;
            Some(start..*end)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_element_is_lost_when_the_payload_does_not_divide() {
        assert_eq!(near_equal(7, 3), [0..3, 3..5, 5..7]);
        assert_eq!(near_equal(2, 4), [0..1, 1..2, 2..2, 2..2]);
        assert_eq!(near_equal(0, 2), [0..0, 0..0]);
    }

    #[test]
    fn a_link_used_twice_is_counted_once_with_both_loads() {
        let load = |from, to, elements| LinkLoad { from, to, elements };
        let messages = [load(1, 0, 5), load(0, 1, 0), load(0, 2, 1), load(1, 0, 2)];
        assert_eq!(LinkLoad::per_link(messages), [load(0, 2, 1), load(1, 0, 7)]);
    }
}
