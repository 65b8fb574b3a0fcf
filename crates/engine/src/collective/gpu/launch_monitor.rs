//! LaunchMonitor launched kernels from the host: until all are done, or one says that it gave up, or the GPU says nothing.
//!
//! Kernels write what they did to pinned memory, so watching is reading memory. Every wait inside a kernel ends by itself at
//! the deadline; what is guarded against here is a kernel that never starts, and a GPU that fails.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::collective::Conditions;
use crate::device::cuda::{Pinned, Stream, abi};
use crate::launch::clock;
use record::units::Nanos;

/// How long kernels may take to end once they were told to; two processes on one GPU take turns of milliseconds.
/// The coordinator gives survivors two seconds to say where they were.
const TO_LEAVE: Duration = Duration::from_millis(1500);
/// How often the driver is asked whether the GPU is well.
const ASKING: Nanos = Nanos(5_000_000);
/// On a crowded host, looking turns into sleeping after this long.
const YIELDING: Nanos = Nanos(1_000_000);
const SLEEP: Duration = Duration::from_micros(50);

/// One rank's part of a launch.
pub(super) struct RankJob {
    pub job: abi::Job,
    pub status: Arc<Pinned>,
    /// Set when the run is being ended.
    pub abort: Arc<AtomicBool>,
    /// Set when something else makes it pointless to go on.
    pub trouble: Arc<AtomicBool>,
}

/// How a run ended for one rank.
#[derive(Debug, Clone)]
pub(super) struct LaunchEnd {
    /// When the gate was opened or the first kernel launched, on the host's clock.
    pub opened: Nanos,
    /// When the host saw that the rank was done.
    pub seen: Nanos,
    /// What the rank's last kernel said.
    pub status: abi::Status,
    /// What went wrong besides what the status says.
    pub problem: Option<String>,
}

impl LaunchEnd {
    /// Nothing was launched, or it went wrong altogether.
    pub fn broken(opened: Nanos, problem: String) -> LaunchEnd {
        LaunchEnd {
            opened,
            seen: clock::now(),
            status: bytemuck::Zeroable::zeroed(),
            problem: Some(problem),
        }
    }

    /// Whether the counts of host and kernels no longer agree.
    pub fn is_broken(&self) -> bool {
        self.problem.is_some() || self.status.failed != 0
    }
}

/// Kernels under way.
pub(super) struct LaunchMonitor<'a> {
    pub stream: &'a Stream,
    pub rank_jobs: &'a [RankJob],
    pub opened: Nanos,
    /// Launches of the cell that are over when all is done.
    pub goal: u64,
    /// Whether kernels say when they have started.
    pub gated: bool,
    /// Tells the kernels to give up.
    pub stop: &'a dyn Fn(),
}

impl LaunchMonitor<'_> {
    /// One answer per rank_job.
    pub fn until_done(&self, conditions: &Conditions<'_>) -> Vec<LaunchEnd> {
        let mut seen: Vec<Option<Nanos>> = vec![None; self.rank_jobs.len()];
        let mut progress = StallDetector::new(self.opened, conditions.deadline);
        let mut told_to_stop: Option<(Nanos, Option<String>)> = None;
        loop {
            for (rank_job, seen) in self.rank_jobs.iter().zip(&mut seen) {
                if seen.is_none() && self.launches_done(rank_job) >= self.goal {
                    *seen = Some(clock::now());
                }
            }
            let now = clock::now();
            if seen.iter().all(Option::is_some) {
                let problem = told_to_stop.and_then(|(_, problem)| problem);
                return self.ended(&seen, problem.as_deref());
            }
            match &told_to_stop {
                Some((since, problem)) => {
                    if Duration::from(now.since(*since)) > TO_LEAVE {
                        return self.ended(&seen, problem.as_deref());
                    }
                }
                None => {
                    if let Some(problem) = self.reason_to_stop(now, &mut progress, conditions) {
                        (self.stop)();
                        told_to_stop = Some((now, problem));
                    } else {
                        progress.say(now, conditions);
                    }
                }
            }
            self.pause(now, conditions.crowded);
        }
    }

    fn launches_done(&self, rank_job: &RankJob) -> u64 {
        rank_job.status.load_u64(std::mem::offset_of!(abi::Status, done))
    }

    /// Why the kernels should give up, if they should; with a problem when it is not somebody's order.
    fn reason_to_stop(
        &self,
        now: Nanos,
        progress: &mut StallDetector,
        conditions: &Conditions<'_>,
    ) -> Option<Option<String>> {
        let ordered =
            |rank_job: &RankJob| rank_job.abort.load(Ordering::Relaxed) || rank_job.trouble.load(Ordering::Relaxed);
        if conditions.abort.load(Ordering::Relaxed) || self.rank_jobs.iter().any(ordered) {
            return Some(None);
        }
        // One kernel that gave up leaves its peers nothing to wait for.
        let gave_up = |rank_job: &RankJob| rank_job.status.load_u32(std::mem::offset_of!(abi::Status, failed)) != 0;
        if self.rank_jobs.iter().any(gave_up) {
            return Some(None);
        }
        if now.since(progress.asked) > ASKING {
            progress.asked = now;
            if let Err(error) = self.stream.query() {
                return Some(Some(format!("the GPU failed: {error}")));
            }
        }
        let all_done = self.rank_jobs.iter().map(|rank_job| self.launches_done(rank_job)).sum();
        let arrived = |rank_job: &RankJob| {
            !self.gated || rank_job.status.load_u64(std::mem::offset_of!(abi::Status, arrived)) >= self.goal
        };
        if progress.stands_still(now, all_done) && !(self.gated && self.rank_jobs.iter().all(arrived)) {
            return Some(Some(
                "the GPU has not started the kernel within the deadline".to_string(),
            ));
        }
        None
    }

    fn pause(&self, now: Nanos, crowded: bool) {
        match crowded {
            false => std::hint::spin_loop(),
            true if now.since(self.opened) < YIELDING => std::thread::yield_now(),
            true => std::thread::sleep(SLEEP),
        }
    }

    fn ended(&self, seen: &[Option<Nanos>], problem: Option<&str>) -> Vec<LaunchEnd> {
        let each = self.rank_jobs.iter().zip(seen).map(|(rank_job, seen)| {
            let status: abi::Status = rank_job.status.read(0);
            // A kernel that has said where it stood need not have ended to be believed.
            let silent = seen.is_none() && status.failed == 0;
            let unended = silent.then_some("the GPU does not end its kernel");
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

/// Whether launches come to their end.
struct StallDetector {
    done: u64,
    since: Nanos,
    patience: Duration,
    asked: Nanos,
    said: Nanos,
}

impl StallDetector {
    fn new(now: Nanos, deadline: Duration) -> StallDetector {
        StallDetector {
            done: 0,
            since: now,
            // The kernels' own deadline comes first: they know whom they wait for.
            patience: 2 * deadline + Duration::from_secs(1),
            asked: now,
            said: now,
        }
    }

    fn stands_still(&mut self, now: Nanos, done: u64) -> bool {
        if done != self.done {
            (self.done, self.since) = (done, now);
        }
        Duration::from(now.since(self.since)) > self.patience
    }

    /// Kernels end by themselves when nothing moves; while they have not, something does.
    fn say(&mut self, now: Nanos, conditions: &Conditions<'_>) {
        if let Some(say) = conditions.moving
            && Duration::from(now.since(self.said)) > conditions.deadline / 2
        {
            say();
            self.said = now;
        }
    }
}
