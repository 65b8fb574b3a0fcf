//! Questions to the ranks about paths: which switches a flow crosses, and which cross-rail paths exist.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use super::error::MeasureError;
use super::protocol::{Answer, Order};
use super::session::Session;
use crate::transport::{CrossRailPath, PathQuestion, TraceWanted, TracedBurst, TracedFlow};

/// How much longer than the deadline a rank may take to answer.
const GRACE: Duration = Duration::from_secs(2);

impl Session {
    /// Traces `wanted`, in their order; each sender traces its own flows, all ranks at once. Unknown paths are empty: switches may
    /// not answer, a rank may be lost (noticed by the next measurement), or the run may be cancelled.
    pub fn trace(&mut self, wanted: &[TraceWanted]) -> Result<Vec<TracedFlow>, MeasureError> {
        let orders = by_rank(wanted, |flow| flow.from, Order::Trace);
        self.ask_for_hops(wanted.iter(), orders)
    }

    /// The same, but asks every switch, and again where it was silent, however seldom they answer.
    pub fn trace_patiently(&mut self, wanted: &[TraceWanted]) -> Result<Vec<TracedFlow>, MeasureError> {
        let orders = by_rank(wanted, |flow| flow.from, Order::TracePatiently);
        self.ask_for_hops(wanted.iter(), orders)
    }

    /// Asks some of the switches of these flows, each once. Only what they say now is returned.
    pub fn ask_switches(&mut self, questions: &[PathQuestion]) -> Result<Vec<TracedFlow>, MeasureError> {
        self.put(questions, Order::AskSwitches)
    }

    /// Traces connections that are open, in their order: who answers within the very connection. Empty where nobody does, or the
    /// ranks may not ask.
    pub fn trace_open(&mut self, questions: &[PathQuestion]) -> Result<Vec<TracedFlow>, MeasureError> {
        self.put(questions, Order::TraceOpen)
    }

    /// Puts questions to the ranks that send the flows.
    fn put(
        &mut self,
        questions: &[PathQuestion],
        order: fn(Vec<PathQuestion>) -> Order,
    ) -> Result<Vec<TracedFlow>, MeasureError> {
        let orders = by_rank(questions, |question| question.flow.from, order);
        self.ask_for_hops(questions.iter().map(|question| &question.flow), orders)
    }

    fn ask_for_hops<'w>(
        &mut self,
        wanted: impl Iterator<Item = &'w TraceWanted>,
        orders: BTreeMap<u32, Order>,
    ) -> Result<Vec<TracedFlow>, MeasureError> {
        let mut known: HashMap<TraceWanted, TracedFlow> = HashMap::new();
        let until = Instant::now() + self.deadline() + GRACE;
        self.request(orders, until, |_, answer| match answer {
            Answer::TracedFlow(traced) => {
                known.extend(traced.into_iter().map(|traced| (traced.flow.clone(), traced)));
                None
            }
            other => Some(other),
        })?;
        let traced = wanted.map(|flow| {
            known.remove(flow).unwrap_or_else(|| TracedFlow {
                flow: flow.clone(),
                hops: Vec::new(),
                arrived: false,
            })
        });
        Ok(traced.collect())
    }

    /// Traces several packets of one connection for each of `wanted`, in their order. Those without an answer are empty.
    pub fn trace_bursts(&mut self, wanted: &[TraceWanted]) -> Result<Vec<TracedBurst>, MeasureError> {
        let orders = by_rank(wanted, |flow| flow.from, Order::TraceBursts);
        let mut traced = Vec::new();
        let until = Instant::now() + self.deadline() + GRACE;
        self.request(orders, until, |_, answer| match answer {
            Answer::TracedBursts(of_rank) => {
                traced.extend(of_rank);
                None
            }
            other => Some(other),
        })?;
        let place = |burst: &TracedBurst| wanted.iter().position(|flow| *flow == burst.flow);
        traced.sort_by_key(place);
        Ok(traced)
    }

    /// For each cross-rail path why it does not exist; one without an answer counts as missing. All ranks are asked at once.
    pub fn check_cross_rail(
        &mut self,
        paths: &[CrossRailPath],
    ) -> Result<HashMap<CrossRailPath, Option<String>>, MeasureError> {
        let orders = by_rank(paths, |path| path.from, Order::CheckCrossRail);
        let mut of_rank = by_rank(paths, |path| path.from, |paths| paths);
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

/// What the ranks are asked, made of what each of them sends.
fn by_rank<T: Clone, O>(
    wanted: &[T],
    sender: impl Fn(&T) -> u32,
    order: impl Fn(Vec<T>) -> O,
) -> BTreeMap<u32, O> {
    let mut of_rank: BTreeMap<u32, Vec<T>> = BTreeMap::new();
    for one in wanted {
        of_rank.entry(sender(one)).or_default().push(one.clone());
    }
    of_rank
        .into_iter()
        .map(|(rank, wanted)| (rank, order(wanted)))
        .collect()
}
