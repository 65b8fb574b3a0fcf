//! What TCP counted of a connection while a cell used it, iteration by iteration.

use super::super::link::TcpCounts;
use record::{Retransmissions, TcpFlow};

/// The counts of one connection during one cell.
pub struct TcpTally {
    /// What was counted up to now.
    last: TcpCounts,
    segments: u64,
    retransmitted: u64,
    spurious: u64,
    reordered: u64,
    iterations: Vec<Retransmissions>,
    /// The last timed iteration, while nothing else was sent since.
    current: Option<u32>,
}

impl From<TcpCounts> for TcpTally {
    /// Nothing was sent yet beyond these counts.
    fn from(last: TcpCounts) -> TcpTally {
        TcpTally {
            last,
            segments: 0,
            retransmitted: 0,
            spurious: 0,
            reordered: 0,
            iterations: Vec::new(),
            current: None,
        }
    }
}

impl TcpTally {
    /// Assigns what was counted since the last call to an iteration; to none when it was not timed.
    pub fn note(&mut self, iteration: Option<u32>, now: TcpCounts) {
        let before = std::mem::replace(&mut self.last, now);
        self.current = iteration;
        let Some(iter) = iteration else {
            return;
        };
        let since = |count: fn(&TcpCounts) -> u32| count(&now).wrapping_sub(count(&before));
        let (retransmitted, spurious) = (since(|count| count.retransmitted), since(|count| count.spurious));
        self.segments += u64::from(since(|count| count.segments));
        self.reordered += u64::from(since(|count| count.reordered));
        self.retransmitted += u64::from(retransmitted);
        self.spurious += u64::from(spurious);
        if retransmitted == 0 && spurious == 0 {
            return;
        }
        match self.iterations.last_mut().filter(|last| last.iter == iter) {
            Some(last) => {
                last.retransmitted += retransmitted;
                last.spurious += spurious;
            }
            None => self.iterations.push(Retransmissions {
                iter,
                retransmitted,
                spurious,
            }),
        }
    }

    /// What is recorded of it. Ranks and rail are the caller's to fill in.
    pub fn flow(&mut self, now: TcpCounts) -> TcpFlow {
        self.note(self.current, now);
        TcpFlow {
            segments: self.segments,
            retransmitted: self.retransmitted,
            spurious: self.spurious,
            reordered: self.reordered,
            rtt_ns: now.rtt,
            min_rtt_ns: now.min_rtt,
            iterations: self.iterations.clone(),
            ..TcpFlow::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::units::Nanos;

    fn counts(segments: u32, retransmitted: u32, spurious: u32) -> TcpCounts {
        TcpCounts {
            segments,
            retransmitted,
            spurious,
            reordered: 0,
            rtt: Nanos(1000),
            min_rtt: None,
        }
    }

    #[test]
    fn warm_up_does_not_count_and_what_is_learnt_last_belongs_to_the_last_iteration() {
        let mut tally = TcpTally::from(counts(u32::MAX - 4, 7, 7));
        tally.note(None, counts(u32::MAX, 9, 7));
        tally.note(Some(0), counts(9, 9, 7));
        tally.note(Some(1), counts(19, 11, 7));
        let flow = tally.flow(counts(19, 11, 8));
        assert_eq!((flow.segments, flow.retransmitted, flow.spurious), (20, 2, 1));
        let only = Retransmissions {
            iter: 1,
            retransmitted: 2,
            spurious: 1,
        };
        assert_eq!(flow.iterations, [only]);
        assert_eq!(flow.lost(), 1);
    }

    #[test]
    fn a_cell_that_was_only_warmed_up_has_counts_of_nothing() {
        let mut tally = TcpTally::from(counts(0, 0, 0));
        tally.note(None, counts(100, 5, 0));
        assert_eq!(tally.flow(counts(110, 9, 0)).segments, 0);
    }
}
