//! The coordinator's side of a link: two ranks are told what to measure, and both are heard until they are done.

use std::time::{Duration, Instant};

use super::super::orders::{Answer, Order};
use super::super::session::{Heard, MeasureError, Session};
use super::job::{Job, Report, Seen};
use super::row::Row;
use record::units::Nanos;
use record::{FlowRecord, LossCause};

/// A rank notices by its own deadline that nothing moves; the coordinator waits so much longer for it to say so.
const GRACE: Duration = Duration::from_secs(6);

/// Ranks are asked something so often: without orders for long, they would think that nobody leads them any more.
const BETWEEN_QUESTIONS: Duration = Duration::from_secs(20);

/// Told how a link goes.
pub trait LinkObserver {
    /// The queue pairs of both ends are connected.
    fn connected(&mut self, flows: &[FlowRecord]);
    /// A trial is over.
    fn row(&mut self, row: Row);
}

/// How a link ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LinkResult {
    /// All trials are over.
    Complete,
    /// It broke, and why.
    Broken(String),
    /// The operator asked to stop.
    Interrupted,
}

/// What is known of the two ends.
#[derive(Default)]
struct Progress {
    flows: [Option<Vec<FlowRecord>>; 2],
    seen: Vec<[Option<Seen>; 2]>,
    /// Rows that were shown.
    shown: usize,
    finished: [bool; 2],
}

impl Session {
    /// Measures a link.
    pub fn link(&mut self, job: &Job, watch: &mut dyn LinkObserver) -> Result<LinkResult, MeasureError> {
        for rank in [job.first, job.second] {
            self.order(rank, &Order::Link(Box::new(job.clone())))?;
        }
        let mut progress = Progress {
            seen: vec![[None, None]; job.trials.len()],
            ..Progress::default()
        };
        let end = self.hear_link(job, &mut progress, watch)?;
        if end != LinkResult::Complete {
            self.order(job.first, &Order::Abort)?;
            self.order(job.second, &Order::Abort)?;
        }
        Ok(end)
    }

    fn hear_link(
        &mut self,
        job: &Job,
        progress: &mut Progress,
        watch: &mut dyn LinkObserver,
    ) -> Result<LinkResult, MeasureError> {
        let patience = Duration::from(job.terms.deadline) + GRACE;
        let mut broken: Option<(String, bool)> = None;
        let (mut heard, mut asked) = (Instant::now(), Instant::now());
        while progress.finished != [true, true] {
            // The other end may know better what happened, or notice it a moment later.
            let patience = if broken.is_some() { GRACE } else { patience };
            if asked.elapsed() >= BETWEEN_QUESTIONS {
                asked = Instant::now();
                self.order_all(&Order::Ping)?;
            }
            match self.listen(Instant::now() + patience.min(BETWEEN_QUESTIONS)) {
                Heard::Answer(rank, Answer::Link(report)) => {
                    heard = Instant::now();
                    let Some(end) = [job.first, job.second].iter().position(|end| *end == rank) else {
                        continue;
                    };
                    match *report {
                        Report::Failed { reason, secondhand } => {
                            progress.finished[end] = true;
                            let is_better = broken.as_ref().is_none_or(|(_, known)| *known && !secondhand);
                            if is_better {
                                broken = Some((reason, secondhand));
                            }
                        }
                        report => progress.take(end, report, job, watch),
                    }
                }
                Heard::Answer(_, Answer::Intruder(what)) => tracing::warn!(what, "a stranger knocked"),
                Heard::Answer(..) => {}
                Heard::Gone(rank, reason) => {
                    let lost = self.lost(rank, LossCause::Unclear, None, "a link", reason);
                    let text = format!("rank {rank} on {} is gone: {}", lost.host, lost.reason);
                    return Ok(LinkResult::Broken(text));
                }
                Heard::Silent(rank, how_long) => {
                    let how_long = Nanos::from(how_long);
                    let text =
                        format!("rank {rank} was not heard over the management network for {how_long}");
                    return Ok(LinkResult::Broken(text));
                }
                Heard::Interrupted => return Ok(LinkResult::Interrupted),
                Heard::Nothing if heard.elapsed() < patience => {}
                Heard::Nothing if broken.is_some() => break,
                Heard::Nothing => {
                    let waiting: Vec<String> = [job.first, job.second]
                        .iter()
                        .zip(progress.finished)
                        .filter(|(_, finished)| !finished)
                        .map(|(rank, _)| format!("rank {rank}"))
                        .collect();
                    let seconds = patience.as_secs_f64();
                    let text = format!("no word of {} for {seconds:.1} s", waiting.join(" and "));
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

impl Progress {
    /// Takes in what an end said; shows what both have said all about.
    fn take(&mut self, end: usize, report: Report, job: &Job, watch: &mut dyn LinkObserver) {
        match report {
            Report::Connected(flows) => {
                self.flows[end] = Some(flows);
                if let [Some(first), Some(second)] = &self.flows {
                    watch.connected(&[first.as_slice(), second.as_slice()].concat());
                }
            }
            Report::Seen { trial, seen } => {
                if let Some(known) = self.seen.get_mut(trial) {
                    known[end] = Some(seen);
                }
                while let Some([Some(first), Some(second)]) = self.seen.get(self.shown) {
                    let trial = &job.trials[self.shown];
                    let ranks = (job.first, job.second);
                    let seen = [first.clone(), second.clone()];
                    watch.row(Row::of(trial, &job.rail, ranks, job.terms.queue_pairs, &seen));
                    self.shown += 1;
                }
            }
            Report::Finished => self.finished[end] = true,
            Report::Moving | Report::Failed { .. } => {}
        }
    }
}
