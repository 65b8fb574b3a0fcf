//! Questions to the ranks about paths: which switches a flow crosses, and which cross-rail paths exist.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use super::error::MeasureError;
use super::protocol::{Answer, Order};
use super::session::Session;
use crate::transport::{CrossRailPath, TraceWanted, TracedFlow};

/// How much longer than the deadline a rank may take to answer.
const GRACE: Duration = Duration::from_secs(2);

impl Session {
    /// Traces `wanted`, in their order; each sender traces its own flows, all ranks at once. Unknown paths are empty: switches may
    /// not answer, a rank may be lost (noticed by the next measurement), or the run may be cancelled.
    pub fn trace(&mut self, wanted: &[TraceWanted]) -> Result<Vec<TracedFlow>, MeasureError> {
        let mut of_rank: BTreeMap<u32, Vec<TraceWanted>> = BTreeMap::new();
        for flow in wanted {
            of_rank.entry(flow.from).or_default().push(flow.clone());
        }
        let orders = of_rank
            .into_iter()
            .map(|(rank, flows)| (rank, Order::Trace(flows)));
        let mut known: HashMap<TraceWanted, Vec<Option<IpAddr>>> = HashMap::new();
        let until = Instant::now() + self.deadline() + GRACE;
        self.request(orders.collect(), until, |_, answer| match answer {
            Answer::TracedFlow(traced) => {
                known.extend(traced.into_iter().map(|traced| (traced.flow, traced.hops)));
                None
            }
            other => Some(other),
        })?;
        let traced = |flow: &TraceWanted| TracedFlow {
            flow: flow.clone(),
            hops: known.get(flow).cloned().unwrap_or_default(),
        };
        Ok(wanted.iter().map(traced).collect())
    }

    /// For each cross-rail path why it does not exist; one without an answer counts as missing. All ranks are asked at once.
    pub fn check_cross_rail(
        &mut self,
        paths: &[CrossRailPath],
    ) -> Result<HashMap<CrossRailPath, Option<String>>, MeasureError> {
        let mut of_rank: BTreeMap<u32, Vec<CrossRailPath>> = BTreeMap::new();
        for path in paths {
            of_rank.entry(path.from).or_default().push(path.clone());
        }
        let orders = of_rank
            .iter()
            .map(|(rank, paths)| (*rank, Order::CheckCrossRail(paths.clone())))
            .collect();
        let mut known = HashMap::new();
        let until = Instant::now() + self.deadline() + GRACE;
        self.request(orders, until, |rank, answer| match answer {
            Answer::CrossRail(answers) => {
                let asked = of_rank.remove(&rank).unwrap_or_default();
                known.extend(asked.into_iter().zip(answers));
                None
            }
            other => Some(other),
        })?;
        for path in paths {
            let unanswered = || {
                Some(format!(
                    "rank {} did not report whether the path exists",
                    path.from
                ))
            };
            known.entry(path.clone()).or_insert_with(unanswered);
        }
        Ok(known)
    }
}
