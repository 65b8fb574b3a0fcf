//! A communicator and the thread that makes its NCCL calls.
//!
//! Any NCCL call may hang when a peer is gone, so the rank's own thread makes none: it waits here with a deadline and checks the
//! abort flag. On a timeout the NCCL thread is asked to stop; if it hangs in a call, the communicator is aborted; if that does not
//! help either, the thread is left behind together with all memory that its call may still touch.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::collective::{Stopped, Took};
use crate::device::cuda::nccl::{Communicator, CommunicatorConfig, Nccl, NcclError, Operation};
use crate::device::cuda::{Allocation, CudaError, Event, Gpu, Pinned, Progress, Stream};
use crate::launch::clock;
use crate::sync::lock;
use record::units::Nanos;

/// How often a wait checks whether the run is being ended.
const ABORT_CHECK: Duration = Duration::from_millis(10);
/// How long the thread may take to stop before its communicator is aborted.
const STOP_GRACE: Duration = Duration::from_millis(200);
/// How long it may take after the abort. Together they are shorter than the coordinator's patience with a silent rank.
const ABORT_GRACE: Duration = Duration::from_secs(1);
/// How often NCCL is asked for an asynchronous error.
const ERROR_CHECK: Nanos = Nanos(5_000_000);
/// On a crowded host, polling turns into yielding after this long.
const POLL_TIME: Nanos = Nanos(1_000_000);

/// A job for the thread.
pub(super) enum Job {
    /// Join a communicator.
    Make(CommunicatorConfig),
    /// Run once at an instant, timed by the GPU.
    Single { at: Nanos, operation: Operation },
    /// Run several times from an instant on, timed by the host.
    Batch {
        at: Nanos,
        times: u16,
        operation: Operation,
        crowded: bool,
    },
}

impl Job {
    fn in_words(&self) -> &'static str {
        match self {
            Job::Make(_) => "making an NCCL communicator",
            Job::Single { .. } | Job::Batch { .. } => "a collective of NCCL",
        }
    }
}

/// How long to wait for an answer.
pub(super) struct WaitLimit<'a> {
    pub deadline: Duration,
    pub abort: &'a AtomicBool,
}

/// A job, the memory it uses, and where its answer goes.
struct Request {
    job: Job,
    limit: Duration,
    /// Held until the job is over.
    memory: Arc<Allocation>,
    answer: Sender<Result<Took, String>>,
}

/// One rank's end of a communicator, with the thread that makes its calls.
pub struct NcclThread {
    communicator: Arc<Communicator>,
    /// Set to stop the current job.
    stop: Arc<AtomicBool>,
    /// Set when the communicator can no longer be used.
    broken: AtomicBool,
    requests: Mutex<Option<Sender<Request>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl NcclThread {
    /// Starts a thread on `gpu`, without a communicator yet.
    pub(super) fn open(nccl: &'static Nccl, gpu: &Arc<Gpu>) -> Result<NcclThread, CudaError> {
        let communicator = Arc::new(Communicator::new(nccl, Arc::clone(gpu)));
        let stop = Arc::new(AtomicBool::new(false));
        let (requests, inbox) = channel();
        let calls = CallLoop {
            stream: gpu.stream()?,
            before: gpu.event()?,
            after: gpu.event()?,
            gate: gpu.pin(size_of::<u64>())?,
            gate_ticket: 0,
            communicator: Arc::clone(&communicator),
            stop: Arc::clone(&stop),
        };
        let thread = std::thread::spawn(move || calls.run(&inbox));
        Ok(NcclThread {
            communicator,
            stop,
            broken: AtomicBool::new(false),
            requests: Mutex::new(Some(requests)),
            thread: Mutex::new(Some(thread)),
        })
    }

    /// Whether it can be used for another cell.
    pub fn is_sound(&self) -> bool {
        !self.broken.load(Ordering::Relaxed)
    }

    /// Runs a job on the thread and returns how long it took.
    pub(super) fn run_job(
        &self,
        job: Job,
        memory: &Arc<Allocation>,
        limit: &WaitLimit<'_>,
    ) -> Result<Took, Stopped> {
        let step = job.in_words();
        let since = Instant::now();
        let stopped = |problem: String, aborted: bool| Stopped {
            step: step.to_string(),
            waiting_for: None,
            waited: Nanos::from(since.elapsed()),
            problem,
            aborted,
        };
        let (answer, answered) = channel();
        let request = Request {
            job,
            limit: limit.deadline,
            memory: Arc::clone(memory),
            answer,
        };
        let sent = lock(&self.requests)
            .as_ref()
            .is_some_and(|requests| requests.send(request).is_ok());
        if !self.is_sound() || !sent {
            return Err(stopped(
                "the NCCL communicator was aborted earlier".to_string(),
                false,
            ));
        }
        loop {
            match answered.recv_timeout(ABORT_CHECK) {
                Ok(Ok(took)) => return Ok(took),
                Ok(Err(problem)) => {
                    self.broken.store(true, Ordering::Relaxed);
                    return Err(stopped(problem, limit.abort.load(Ordering::Relaxed)));
                }
                Err(RecvTimeoutError::Disconnected) => {
                    self.broken.store(true, Ordering::Relaxed);
                    return Err(stopped("NCCL's thread ended".to_string(), false));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
            let aborted = limit.abort.load(Ordering::Relaxed);
            if aborted || since.elapsed() > limit.deadline {
                self.stop_job(&answered);
                let problem = match aborted {
                    true => "the run is being ended".to_string(),
                    false => format!("NCCL was not done within {}", Nanos::from(limit.deadline)),
                };
                return Err(stopped(problem, aborted));
            }
        }
    }

    /// Stops the current job, by aborting the communicator if necessary.
    fn stop_job(&self, answered: &Receiver<Result<Took, String>>) {
        self.broken.store(true, Ordering::Relaxed);
        self.stop.store(true, Ordering::Relaxed);
        let has_stopped = |limit| !matches!(answered.recv_timeout(limit), Err(RecvTimeoutError::Timeout));
        if has_stopped(STOP_GRACE) {
            return;
        }
        // Aborting may block too, so it gets its own thread.
        let communicator = Arc::clone(&self.communicator);
        std::thread::spawn(move || communicator.abort());
        if !has_stopped(ABORT_GRACE) {
            tracing::warn!("NCCL did not return from a call after an abort; its thread is left behind");
            drop(lock(&self.thread).take());
        }
    }
}

impl Drop for NcclThread {
    fn drop(&mut self) {
        drop(lock(&self.requests).take());
        let Some(thread) = lock(&self.thread).take() else {
            return;
        };
        let until = Instant::now() + 4 * ABORT_GRACE;
        while !thread.is_finished() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
        if thread.is_finished() {
            // A panic was reported when it happened.
            let _ = thread.join();
        } else {
            tracing::warn!("NCCL did not destroy a communicator in time; its thread is left behind");
        }
    }
}

/// What the thread owns.
struct CallLoop {
    communicator: Arc<Communicator>,
    stream: Stream,
    before: Event,
    after: Event,
    /// The stream waits until this reaches the ticket it waits for.
    gate: Pinned,
    gate_ticket: u64,
    stop: Arc<AtomicBool>,
}

/// Why a job failed.
enum Failure {
    Nccl(NcclError),
    Aborted,
}

impl From<NcclError> for Failure {
    fn from(error: NcclError) -> Failure {
        Failure::Nccl(error)
    }
}

impl From<CudaError> for Failure {
    fn from(error: CudaError) -> Failure {
        Failure::Nccl(error.into())
    }
}

impl CallLoop {
    /// Executes jobs until the requests end.
    fn run(mut self, inbox: &Receiver<Request>) {
        while let Ok(request) = inbox.recv() {
            let answer = match self.execute(&request) {
                Ok(took) => Ok(took),
                Err(failure) => {
                    // Work in the stream must not wait for the gate any longer.
                    self.gate.store_u64(0, u64::MAX);
                    self.communicator.abort();
                    Err(match failure {
                        Failure::Nccl(error) => error.to_string(),
                        Failure::Aborted => "stopped on request".to_string(),
                    })
                }
            };
            // Released before the answer is sent.
            drop(request.memory);
            // The caller may have stopped waiting.
            let _ = request.answer.send(answer);
        }
        self.communicator.destroy();
    }

    fn execute(&mut self, request: &Request) -> Result<Took, Failure> {
        match &request.job {
            Job::Make(terms) => {
                let started = clock::now();
                self.communicator.make(terms, request.limit)?;
                Ok(took(started, clock::now().since(started)))
            }
            Job::Single { at, operation } => self.single(*at, operation),
            Job::Batch {
                at,
                times,
                operation,
                crowded,
            } => self.batch(*at, *times, operation, *crowded),
        }
    }

    fn single(&mut self, at: Nanos, operation: &Operation) -> Result<Took, Failure> {
        self.gate_ticket += 1;
        self.stream.hold(&self.gate, 0, self.gate_ticket)?;
        self.stream.record(&self.before)?;
        let given = self.communicator.enqueue(operation, &self.stream);
        self.stream.record(&self.after)?;
        clock::wait_until(at, false);
        let started = clock::now();
        self.gate.store_u64(0, self.gate_ticket);
        given?;
        self.until_done(started, false)?;
        Ok(took(started, self.after.since(&self.before)?))
    }

    fn batch(&self, at: Nanos, times: u16, operation: &Operation, crowded: bool) -> Result<Took, Failure> {
        clock::wait_until(at, crowded);
        let started = clock::now();
        for _ in 0..times {
            self.communicator.enqueue(operation, &self.stream)?;
        }
        let ended = self.until_done(started, crowded)?;
        let total = ended.since(started).0 / u64::from(times.max(1));
        Ok(took(started, Nanos(total)))
    }

    /// Waits until the stream is done, and returns when that was noticed.
    fn until_done(&self, started: Nanos, crowded: bool) -> Result<Nanos, Failure> {
        let mut asked = started;
        loop {
            let progress = self.stream.query()?;
            let now = clock::now();
            if progress == Progress::Ready {
                return Ok(now);
            }
            if self.stop.load(Ordering::Relaxed) {
                return Err(Failure::Aborted);
            }
            if now.since(asked) > ERROR_CHECK {
                self.communicator.async_error()?;
                asked = now;
            }
            if crowded && now.since(started) > POLL_TIME {
                std::thread::yield_now();
            }
        }
    }
}

/// NCCL does not report how long a rank waited for others.
fn took(started: Nanos, total: Nanos) -> Took {
    Took {
        started,
        total,
        waited: Nanos(0),
    }
}
