//! What TCP counted of the flows of a cell: one flow is what one rank sends to another over one connection.

use serde::{Deserialize, Serialize};

use crate::units::Nanos;

/// What the sender's TCP counted of one flow during the timed iterations of a cell.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TcpFlow {
    /// Sending world rank.
    pub from: u32,
    /// Receiving world rank.
    pub to: u32,
    /// Rail by name.
    pub rail: String,
    /// Number of the flow between these two on this rail.
    pub flow: u16,
    /// Port its packets come from.
    pub source_port: u16,
    /// Port they go to.
    pub to_port: u16,
    /// Segments with data that were sent, retransmitted ones included.
    pub segments: u64,
    /// Of those, retransmitted ones.
    pub retransmitted: u64,
    /// Of those, the ones that had arrived already, as the receiver said (DSACK): packets that were late or overtaken, not lost.
    pub spurious: u64,
    /// How often packets were seen to overtake each other.
    pub reordered: u64,
    /// The smoothed round-trip time when the cell was done.
    pub rtt_ns: Nanos,
    /// The shortest one of the connection so far; none where the kernel does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_rtt_ns: Option<Nanos>,
    /// The iterations in which something was retransmitted, or found to have been so without need.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub iterations: Vec<Retransmissions>,
}

/// Retransmissions of a flow during one iteration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Retransmissions {
    /// The iteration.
    pub iter: u32,
    /// Segments retransmitted.
    pub retransmitted: u32,
    /// Segments the receiver said it had already.
    pub spurious: u32,
}

impl TcpFlow {
    /// Segments that were lost, as far as TCP knows: retransmitted, and not because an acknowledgement was late.
    pub fn lost(&self) -> u64 {
        self.retransmitted.saturating_sub(self.spurious)
    }

    /// In how many iterations segments were lost. The receiver says later that it had one already, so that is set against the retransmissions before.
    pub fn iterations_with_loss(&self) -> u32 {
        let mut spurious = 0u64;
        let mut lossy = 0;
        for one in self.iterations.iter().rev() {
            spurious += u64::from(one.spurious);
            let needless = spurious.min(u64::from(one.retransmitted));
            spurious -= needless;
            lossy += u32::from(u64::from(one.retransmitted) > needless);
        }
        lossy
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(iterations: &[(u32, u32, u32)]) -> TcpFlow {
        let sum = |part: fn(&(u32, u32, u32)) -> u32| iterations.iter().map(|one| u64::from(part(one))).sum();
        TcpFlow {
            retransmitted: sum(|one| one.1),
            spurious: sum(|one| one.2),
            iterations: iterations
                .iter()
                .map(|(iter, retransmitted, spurious)| Retransmissions {
                    iter: *iter,
                    retransmitted: *retransmitted,
                    spurious: *spurious,
                })
                .collect(),
            ..TcpFlow::default()
        }
    }

    #[test]
    fn what_was_retransmitted_without_need_is_no_loss_even_when_that_is_learnt_an_iteration_later() {
        for (iterations, lost, lossy) in [
            (&[(3, 2, 0)][..], 2, 1),
            (&[(3, 2, 2)], 0, 0),
            (&[(3, 1, 0), (4, 0, 1)], 0, 0),
            (&[(3, 2, 0), (7, 1, 1)], 2, 1),
            (&[(3, 2, 0), (7, 1, 2)], 1, 1),
            (&[(3, 0, 5), (7, 1, 0)], 0, 1),
            (&[], 0, 0),
        ] {
            assert_eq!(
                (of(iterations).lost(), of(iterations).iterations_with_loss()),
                (lost, lossy),
                "{iterations:?}"
            );
        }
    }
}
