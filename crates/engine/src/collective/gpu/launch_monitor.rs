//! Monitoring launched kernels from the host until all are done, one gives up, or the GPU stops responding.
//!
//! Kernels write their status to pinned memory, so monitoring is reading memory. Every wait inside a kernel ends at the deadline;
//! the monitor guards against kernels that never start and against a failed GPU.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::collective::Conditions;
use crate::device::cuda::{Pinned, Stream, abi};
use crate::launch::clock;
use record::units::Nanos;

/// How long kernels may take to end after an abort; two processes on one GPU take turns of milliseconds.
/// The coordinator gives survivors two seconds to report where they were.
const ABORT_GRACE: Duration = Duration::from_millis(1500);
/// How often the driver is asked whether the GPU failed.
const HEALTH_CHECK: Nanos = Nanos(5_000_000);
/// On a crowded host, yielding turns into sleeping after this long.
const YIELD_TIME: Nanos = Nanos(1_000_000);
const SLEEP: Duration = Duration::from_micros(50);

/// One rank's part of a launch.
pub(super) struct RankJob {
    pub job: abi::Job,
    pub status: Arc<Pinned>,
    /// Set when the run is being ended.
    pub abort: Arc<AtomicBool>,
    /// Set when a proxy thread failed.
    pub trouble: Arc<AtomicBool>,
}

/// How a run ended for one rank.
#[derive(Debug, Clone)]
pub(super) struct LaunchEnd {
    /// When the gate was opened or the first kernel launched, on the host's clock.
    pub opened: Nanos,
    /// When the host noticed that the rank was done.
    pub seen: Nanos,
    /// The status of the rank's last kernel.
    pub status: abi::Status,
    /// A failure that the status does not show.
    pub problem: Option<String>,
}

impl LaunchEnd {
    /// The launch itself failed.
    pub fn broken(opened: Nanos, problem: String) -> LaunchEnd {
        LaunchEnd {
            opened,
            seen: clock::now(),
            status: bytemuck::Zeroable::zeroed(),
            problem: Some(problem),
        }
    }

    /// Whether host and kernels no longer agree on their counters.
    pub fn is_broken(&self) -> bool {
        self.problem.is_some() || self.status.failed != 0
    }
}

/// Monitors the kernels of one launch.
pub(super) struct LaunchMonitor<'a> {
    pub stream: &'a Stream,
    pub rank_jobs: &'a [RankJob],
    pub opened: Nanos,
    /// Completed launches of the cell at which the run is over.
    pub goal: u64,
    /// Whether kernels report when they have started.
    pub gated: bool,
    /// Aborts the kernels.
    pub stop: &'a dyn Fn(),
}

impl LaunchMonitor<'_> {
    /// The outcome of every rank.
    pub fn until_done(&self, conditions: &Conditions<'_>) -> Vec<LaunchEnd> {
        let mut seen: Vec<Option<Nanos>> = vec![None; self.rank_jobs.len()];
        let mut progress = StallDetector::new(self.opened, conditions.deadline);
        let mut aborted_since: Option<(Nanos, Option<String>)> = None;
        loop {
            for (rank_job, seen) in self.rank_jobs.iter().zip(&mut seen) {
                if seen.is_none() && self.launches_done(rank_job) >= self.goal {
                    *seen = Some(clock::now());
                }
            }
            let now = clock::now();
            if seen.iter().all(Option::is_some) {
                let problem = aborted_since.and_then(|(_, problem)| problem);
                return self.ended(&seen, problem.as_deref());
            }
            match &aborted_since {
                Some((since, problem)) => {
                    if Duration::from(now.since(*since)) > ABORT_GRACE {
                        return self.ended(&seen, problem.as_deref());
                    }
                }
                None => {
                    if let Some(problem) = self.reason_to_stop(now, &mut progress, conditions) {
                        (self.stop)();
                        aborted_since = Some((now, problem));
                    } else {
                        progress.report_moving(now, conditions);
                    }
                }
            }
            self.pause(now, conditions.crowded);
        }
    }

    fn launches_done(&self, rank_job: &RankJob) -> u64 {
        rank_job.status.load_u64(std::mem::offset_of!(abi::Status, done))
    }

    /// Whether to abort the kernels; with a problem when nobody ordered it.
    fn reason_to_stop(
        &self,
        now: Nanos,
        progress: &mut StallDetector,
        conditions: &Conditions<'_>,
    ) -> Option<Option<String>> {
        let ordered = |rank_job: &RankJob| {
            rank_job.abort.load(Ordering::Relaxed) || rank_job.trouble.load(Ordering::Relaxed)
        };
        if conditions.abort.load(Ordering::Relaxed) || self.rank_jobs.iter().any(ordered) {
            return Some(None);
        }
        // When one kernel gave up, its peers wait in vain.
        let gave_up = |rank_job: &RankJob| {
            rank_job
                .status
                .load_u32(std::mem::offset_of!(abi::Status, failed))
                != 0
        };
        if self.rank_jobs.iter().any(gave_up) {
            return Some(None);
        }
        if now.since(progress.health_checked) > HEALTH_CHECK {
            progress.health_checked = now;
            if let Err(error) = self.stream.query() {
                return Some(Some(format!("the GPU failed: {error}")));
            }
        }
        let all_done = self
            .rank_jobs
            .iter()
            .map(|rank_job| self.launches_done(rank_job))
            .sum();
        let arrived = |rank_job: &RankJob| {
            !self.gated
                || rank_job
                    .status
                    .load_u64(std::mem::offset_of!(abi::Status, arrived))
                    >= self.goal
        };
        if progress.is_stalled(now, all_done) && !(self.gated && self.rank_jobs.iter().all(arrived)) {
            return Some(Some(
                "the GPU has not started the kernel within the deadline".to_string(),
            ));
        }
        None
    }

    fn pause(&self, now: Nanos, crowded: bool) {
        match crowded {
            false => std::hint::spin_loop(),
            true if now.since(self.opened) < YIELD_TIME => std::thread::yield_now(),
            true => std::thread::sleep(SLEEP),
        }
    }

    fn ended(&self, seen: &[Option<Nanos>], problem: Option<&str>) -> Vec<LaunchEnd> {
        let each = self.rank_jobs.iter().zip(seen).map(|(rank_job, seen)| {
            let status: abi::Status = rank_job.status.read(0);
            // A kernel that has reported its position counts even when it has not ended.
            let unreported = seen.is_none() && status.failed == 0;
            let unended = unreported.then_some("the GPU did not end its kernel after an abort");
            LaunchEnd {
                opened: self.opened,
                seen: seen.unwrap_or_else(clock::now),
                status,
                problem: problem.or(unended).map(str::to_string),
            }
        });
        each.collect()
    }
}

/// Notices when launches stop completing.
struct StallDetector {
    done: u64,
    since: Nanos,
    patience: Duration,
    health_checked: Nanos,
    reported: Nanos,
}

impl StallDetector {
    fn new(now: Nanos, deadline: Duration) -> StallDetector {
        StallDetector {
            done: 0,
            since: now,
            // The kernels' own deadline comes first: they know which peer they wait for.
            patience: 2 * deadline + Duration::from_secs(1),
            health_checked: now,
            reported: now,
        }
    }

    fn is_stalled(&mut self, now: Nanos, done: u64) -> bool {
        if done != self.done {
            (self.done, self.since) = (done, now);
        }
        Duration::from(now.since(self.since)) > self.patience
    }

    /// Kernels end by themselves when nothing moves; until then, data moves.
    fn report_moving(&mut self, now: Nanos, conditions: &Conditions<'_>) {
        if let Some(say) = conditions.moving
            && Duration::from(now.since(self.reported)) > conditions.deadline / 2
        {
            say();
            self.reported = now;
        }
    }
}
