//! Which switches flows go through: every sender is asked for the paths of its own, all at once.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use super::orders::{Answer, Order};
use super::session::{MeasureError, Session};
use crate::transport::{TraceWanted, Traced};

/// How much longer than a rank may look for paths the coordinator waits for it.
const GRACE: Duration = Duration::from_secs(2);

impl Session {
    /// The paths of `wanted`, in their order. What is not known is empty: switches may be silent, a rank may be lost (which is
    /// noticed by whoever measures next), and an operator may have asked to stop.
    pub fn trace(&mut self, wanted: &[TraceWanted]) -> Result<Vec<Traced>, MeasureError> {
        let mut of_rank: BTreeMap<u32, Vec<TraceWanted>> = BTreeMap::new();
        for flow in wanted {
            of_rank.entry(flow.from).or_default().push(flow.clone());
        }
        let orders = of_rank
            .into_iter()
            .map(|(rank, flows)| (rank, Order::Trace(flows)));
        let mut known: HashMap<TraceWanted, Vec<Option<IpAddr>>> = HashMap::new();
        let until = Instant::now() + self.deadline() + GRACE;
        self.ask(orders.collect(), until, |_, answer| match answer {
            Answer::Traced(traced) => {
                known.extend(traced.into_iter().map(|traced| (traced.flow, traced.hops)));
                None
            }
            other => Some(other),
        })?;
        let traced = |flow: &TraceWanted| Traced {
            flow: flow.clone(),
            hops: known.get(flow).cloned().unwrap_or_default(),
        };
        Ok(wanted.iter().map(traced).collect())
    }
}
