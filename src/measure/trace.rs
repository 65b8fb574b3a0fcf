//! Which switches flows go through: every sender is asked for the paths of its own, all at once.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use super::orders::{Answer, Order};
use super::session::{Heard, MeasureError, Session};
use crate::transport::{TraceWanted, Traced};

/// How much longer than a rank may look for paths the coordinator waits for it.
const GRACE: Duration = Duration::from_secs(2);

impl Session {
    /// The paths of `wanted`, in their order. What is not known is empty: switches may be silent, a rank may be lost (which is
    /// noticed by whoever measures next), and an operator may have asked to stop.
    pub fn trace(&mut self, wanted: &[TraceWanted]) -> Result<Vec<Traced>, MeasureError> {
        let mut of_rank: HashMap<u32, Vec<TraceWanted>> = HashMap::new();
        for flow in wanted.iter().filter(|flow| !self.absent.contains(&flow.from)) {
            of_rank.entry(flow.from).or_default().push(flow.clone());
        }
        let mut known: HashMap<TraceWanted, Vec<Option<IpAddr>>> = HashMap::new();
        let mut overheard = Vec::new();
        for (rank, flows) in &of_rank {
            self.order(*rank, &Order::Trace(flows.clone()))?;
        }
        let until = Instant::now() + self.deadline() + GRACE;
        while !of_rank.is_empty() {
            match self.listen(until) {
                Heard::Answer(rank, Answer::Traced(traced)) => {
                    of_rank.remove(&rank);
                    known.extend(traced.into_iter().map(|traced| (traced.flow, traced.hops)));
                }
                heard @ (Heard::Gone(rank, _) | Heard::Silent(rank, _)) => {
                    of_rank.remove(&rank);
                    overheard.push(heard);
                }
                heard @ Heard::Answer(..) => overheard.push(heard),
                Heard::Interrupted | Heard::Nothing => break,
            }
        }
        self.overheard.borrow_mut().extend(overheard);
        let traced = |flow: &TraceWanted| Traced {
            flow: flow.clone(),
            hops: known.get(flow).cloned().unwrap_or_default(),
        };
        Ok(wanted.iter().map(traced).collect())
    }
}
