//! A rank's side of a link measurement: connects, then runs the trials on a thread of its own, so that orders are read
//! meanwhile.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::super::protocol::{Answer, AnswerSender};
use super::job::{LinkJob, LinkReport};
use super::row::{LatencySummary, TrialResult};
use crate::transport::Mesh;
use crate::transport::verbs::stream::{RdmaStream, StreamEnds, StreamError};

/// How often a rank reports that messages move.
const REPORT_INTERVAL: Duration = Duration::from_millis(500);

/// A link measurement in progress on this rank.
pub(in super::super) struct LinkRun {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl LinkRun {
    /// Connects to the other end and starts; none for a rank that is not an end of it, or that cannot connect, which it reports.
    pub fn start(job: LinkJob, me: u32, mesh: &mut Mesh, answers: &AnswerSender) -> Option<LinkRun> {
        let peer = job.peer_of(me)?;
        let stop = Arc::new(AtomicBool::new(false));
        let stream = match connect(&job, me, peer, mesh, &stop) {
            Ok(stream) => stream,
            Err(error) => {
                send(answers, LinkReport::of(&error, &job, me));
                return None;
            }
        };
        let answers = answers.clone();
        let thread = std::thread::Builder::new()
            .name(format!("link {me}-{peer}"))
            .spawn(move || {
                let end = catch_unwind(AssertUnwindSafe(|| run(&job, me, stream, &answers)));
                send(
                    &answers,
                    end.unwrap_or_else(|_| LinkReport::Failed {
                        reason: format!("internal failure of rank {me}; its message is above"),
                        secondhand: false,
                    }),
                );
            });
        match thread {
            Ok(thread) => Some(LinkRun { stop, thread }),
            Err(error) => {
                tracing::error!(%error, "cannot start a thread for the link measurement");
                None
            }
        }
    }

    /// Stops it, and waits until it has stopped.
    pub fn stop(self) {
        self.stop.store(true, Ordering::Relaxed);
        // A panic was reported when it happened.
        let _ = self.thread.join();
    }
}

fn send(answers: &AnswerSender, report: LinkReport) {
    // A coordinator that is gone is noticed where orders are read.
    let _ = answers.send(&Answer::Link(Box::new(report)));
}

fn connect(
    job: &LinkJob,
    me: u32,
    peer: u32,
    mesh: &mut Mesh,
    stop: &Arc<AtomicBool>,
) -> Result<RdmaStream, StreamError> {
    let deadline = Instant::now() + Duration::from(job.terms.deadline);
    let line = mesh
        .out_of_band(peer, &job.rail, deadline, &|| false)
        .map_err(|error| StreamError::Failed(format!("rank {me}: {error}")))?;
    let between = StreamEnds {
        me,
        peer,
        is_first: me == job.first,
        rail: job.rail.clone(),
    };
    RdmaStream::open(line, between, job.terms.clone(), Arc::clone(stop))
}

/// Runs all trials; returns the last report.
fn run(job: &LinkJob, me: u32, mut stream: RdmaStream, answers: &AnswerSender) -> LinkReport {
    send(answers, LinkReport::Connected(stream.flows()));
    for (trial, wanted) in job.trials.iter().enumerate() {
        let mut reported = Instant::now();
        let outcome = stream.run(wanted, &mut || {
            if reported.elapsed() >= REPORT_INTERVAL {
                reported = Instant::now();
                send(answers, LinkReport::Moving);
            }
        });
        match outcome {
            Ok(outcome) => {
                let result = TrialResult {
                    sent: outcome.sent,
                    latency: LatencySummary::of(&outcome.samples),
                    checked: outcome.checked,
                };
                send(answers, LinkReport::Trial { trial, result });
            }
            Err(error) => return LinkReport::of(&error, job, me),
        }
    }
    LinkReport::Finished
}
