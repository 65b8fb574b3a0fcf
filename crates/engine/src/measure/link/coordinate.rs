//! The coordinator's side of a link measurement: two ranks get the job, and report until they are done.

use std::time::{Duration, Instant};

use super::super::error::MeasureError;
use super::super::protocol::{Answer, Order};
use super::super::session::{Received, Session};
use super::job::{LinkJob, LinkReport};
use super::row::{LinkRow, TrialResult};
use record::units::Nanos;
use record::{FlowRecord, LossCause};

/// How much longer than the deadline a rank may take to report that nothing moves.
const GRACE: Duration = Duration::from_secs(6);

/// How often ranks get an order: without one for long, they would take the coordinator for gone.
const PING_INTERVAL: Duration = Duration::from_secs(20);

/// Receives the progress of a link measurement.
pub trait LinkObserver {
    /// The queue pairs of both ends are connected.
    fn connected(&mut self, flows: &[FlowRecord]);
    /// A trial is over.
    fn row(&mut self, row: LinkRow);
}

/// How a link measurement ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LinkResult {
    /// All trials are over.
    Complete,
    /// It broke, and why.
    Broken(String),
    /// The operator asked to stop.
    Interrupted,
}

/// What the two ends have reported.
#[derive(Default)]
struct LinkProgress {
    flows: [Option<Vec<FlowRecord>>; 2],
    results: Vec<[Option<TrialResult>; 2]>,
    /// Rows emitted so far.
    shown: usize,
    finished: [bool; 2],
}

impl Session {
    /// Measures a link.
    pub fn link(&mut self, job: &LinkJob, watch: &mut dyn LinkObserver) -> Result<LinkResult, MeasureError> {
        for rank in [job.first, job.second] {
            self.order(rank, &Order::Link(Box::new(job.clone())))?;
        }
        let mut progress = LinkProgress {
            results: vec![[None, None]; job.trials.len()],
            ..LinkProgress::default()
        };
        let end = self.receive_reports(job, &mut progress, watch)?;
        if end != LinkResult::Complete {
            self.order(job.first, &Order::Abort)?;
            self.order(job.second, &Order::Abort)?;
        }
        Ok(end)
    }

    fn receive_reports(
        &mut self,
        job: &LinkJob,
        progress: &mut LinkProgress,
        watch: &mut dyn LinkObserver,
    ) -> Result<LinkResult, MeasureError> {
        let patience = Duration::from(job.terms.deadline) + GRACE;
        let mut broken: Option<(String, bool)> = None;
        let (mut heard, mut pinged) = (Instant::now(), Instant::now());
        while progress.finished != [true, true] {
            // The other end may report the cause a moment later.
            let patience = if broken.is_some() { GRACE } else { patience };
            if pinged.elapsed() >= PING_INTERVAL {
                pinged = Instant::now();
                self.order_all(&Order::Ping)?;
            }
            match self.receive(Instant::now() + patience.min(PING_INTERVAL)) {
                Received::Answer(rank, Answer::Link(report)) => {
                    heard = Instant::now();
                    let Some(end) = [job.first, job.second].iter().position(|end| *end == rank) else {
                        continue;
                    };
                    match *report {
                        LinkReport::Failed { reason, secondhand } => {
                            progress.finished[end] = true;
                            let is_better = broken.as_ref().is_none_or(|(_, known)| *known && !secondhand);
                            if is_better {
                                broken = Some((reason, secondhand));
                            }
                        }
                        report => progress.take(end, report, job, watch),
                    }
                }
                Received::Answer(_, Answer::Intruder(what)) => {
                    tracing::warn!(what, "refused a connection from outside the run");
                }
                Received::Answer(..) => {}
                Received::Disconnected(rank, reason) => {
                    let lost = self.lost(rank, LossCause::Unclear, None, "a link", reason);
                    let text = format!("rank {rank} ({}) is lost: {}", lost.host, lost.reason);
                    return Ok(LinkResult::Broken(text));
                }
                Received::Silent(rank, how_long) => {
                    let how_long = Nanos::from(how_long);
                    let text =
                        format!("rank {rank} was not heard over the management network for {how_long}");
                    return Ok(LinkResult::Broken(text));
                }
                Received::Interrupted => return Ok(LinkResult::Interrupted),
                Received::Timeout if heard.elapsed() < patience => {}
                Received::Timeout if broken.is_some() => break,
                Received::Timeout => {
                    let waiting: Vec<String> = [job.first, job.second]
                        .iter()
                        .zip(progress.finished)
                        .filter(|(_, finished)| !finished)
                        .map(|(rank, _)| format!("rank {rank}"))
                        .collect();
                    let seconds = patience.as_secs_f64();
                    let text = format!("no report from {} for {seconds:.1} s", waiting.join(" and "));
                    return Ok(LinkResult::Broken(text));
                }
            }
        }
        Ok(match broken {
            Some((reason, _)) => LinkResult::Broken(reason),
            None => LinkResult::Complete,
        })
    }
}

impl LinkProgress {
    /// Takes a report of one end; emits rows that both ends have completed.
    fn take(&mut self, end: usize, report: LinkReport, job: &LinkJob, watch: &mut dyn LinkObserver) {
        match report {
            LinkReport::Connected(flows) => {
                self.flows[end] = Some(flows);
                if let [Some(first), Some(second)] = &self.flows {
                    watch.connected(&[first.as_slice(), second.as_slice()].concat());
                }
            }
            LinkReport::Trial { trial, result } => {
                if let Some(known) = self.results.get_mut(trial) {
                    known[end] = Some(result);
                }
                while let Some([Some(first), Some(second)]) = self.results.get(self.shown) {
                    let trial = &job.trials[self.shown];
                    let ranks = (job.first, job.second);
                    let results = [first.clone(), second.clone()];
                    watch.row(LinkRow::of(
                        trial,
                        &job.rail,
                        ranks,
                        job.terms.queue_pairs,
                        &results,
                    ));
                    self.shown += 1;
                }
            }
            LinkReport::Finished => self.finished[end] = true,
            LinkReport::Moving | LinkReport::Failed { .. } => {}
        }
    }
}
