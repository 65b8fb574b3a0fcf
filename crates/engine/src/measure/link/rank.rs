//! A rank's side of a link: connects, then runs the trials on a thread of its own, so that orders are heard meanwhile.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::super::orders::Answer;
use super::super::voice::Voice;
use super::job::{Job, Report, Seen};
use super::row::Latency;
use crate::transport::Mesh;
use crate::transport::verbs::stream::{Between, Stream, StreamError};

/// How often a rank says that messages move.
const BETWEEN_SIGNS: Duration = Duration::from_millis(500);

/// A link in use.
pub(in super::super) struct LinkRun {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl LinkRun {
    /// Connects to the other end and starts; none for a rank that is not an end of it, or that cannot, which it says.
    pub fn start(job: Job, me: u32, mesh: &mut Mesh, voice: &Voice) -> Option<LinkRun> {
        let peer = job.peer_of(me)?;
        let stop = Arc::new(AtomicBool::new(false));
        let stream = match connect(&job, me, peer, mesh, &stop) {
            Ok(stream) => stream,
            Err(error) => {
                say(voice, Report::of(&error, &job, me));
                return None;
            }
        };
        let voice = voice.clone();
        let thread = std::thread::Builder::new()
            .name(format!("link {me}-{peer}"))
            .spawn(move || {
                let end = catch_unwind(AssertUnwindSafe(|| run(&job, me, stream, &voice)));
                say(
                    &voice,
                    end.unwrap_or_else(|_| Report::Failed {
                        reason: format!("internal failure of rank {me}; its message is above"),
                        secondhand: false,
                    }),
                );
            });
        match thread {
            Ok(thread) => Some(LinkRun { stop, thread }),
            Err(error) => {
                tracing::error!(%error, "no thread for a link");
                None
            }
        }
    }

    /// Tells it to stop, and waits until it has.
    pub fn stop(self) {
        self.stop.store(true, Ordering::Relaxed);
        // A panic was reported when it happened.
        let _ = self.thread.join();
    }
}

fn say(voice: &Voice, report: Report) {
    // A coordinator that is gone is noticed where orders are read.
    let _ = voice.say(&Answer::Link(Box::new(report)));
}

fn connect(
    job: &Job,
    me: u32,
    peer: u32,
    mesh: &mut Mesh,
    stop: &Arc<AtomicBool>,
) -> Result<Stream, StreamError> {
    let deadline = Instant::now() + Duration::from(job.terms.deadline);
    let line = mesh
        .line(peer, &job.rail, deadline, &|| false)
        .map_err(|error| StreamError::Failed(format!("rank {me}: {error}")))?;
    let between = Between {
        me,
        peer,
        is_first: me == job.first,
        rail: job.rail.clone(),
    };
    Stream::open(line, between, job.terms.clone(), Arc::clone(stop))
}

/// Runs all trials; what is to be said at the end.
fn run(job: &Job, me: u32, mut stream: Stream, voice: &Voice) -> Report {
    say(voice, Report::Connected(stream.flows()));
    for (trial, wanted) in job.trials.iter().enumerate() {
        let mut said = Instant::now();
        let outcome = stream.run(wanted, &mut || {
            if said.elapsed() >= BETWEEN_SIGNS {
                said = Instant::now();
                say(voice, Report::Moving);
            }
        });
        match outcome {
            Ok(outcome) => {
                let seen = Seen {
                    sent: outcome.sent,
                    latency: Latency::of(&outcome.samples),
                    checked: outcome.checked,
                };
                say(voice, Report::Seen { trial, seen });
            }
            Err(error) => return Report::of(&error, job, me),
        }
    }
    Report::Finished
}
