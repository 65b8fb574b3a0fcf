//! Launch groups: ranks of one process on one GPU run in one launch, so either all of their thread blocks are resident or none
//! is, and no block waits for one that cannot start.
//!
//! Ranks synchronise here twice. When the cell is prepared, each rank adds its job and the last one prepares the launch. For every
//! run, the last rank to arrive launches, opens the gate at the agreed instant and monitors the launch until all ranks are done;
//! the others wait for the outcome. Every wait ends at the deadline, and nothing here blocks in the driver while a kernel runs.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use super::launch_monitor::{LaunchEnd, LaunchMonitor, RankJob};
use crate::collective::Conditions;
use crate::device::cuda::{Allocation, Gpu, Kernel, Pinned, Stream, abi};
use crate::launch::clock;
use crate::sync::lock;
use record::units::Nanos;

/// How often a waiting rank checks whether the run is being ended.
const ABORT_CHECK: Duration = Duration::from_millis(20);

/// Offsets in the pinned memory that host and kernels share.
const GATE: usize = 0;
const ABORT: usize = 8;

/// What a launch group launches.
pub(super) struct LaunchShape {
    pub gpu: Arc<Gpu>,
    pub kernel: String,
    pub threads: u32,
    /// Cells that run on the GPU at the same time.
    pub at_once: u32,
}

/// A rank that did not join a launch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MissingRank {
    pub rank: Option<u32>,
    pub waited: Nanos,
    pub problem: String,
    pub aborted: bool,
}

/// Launches the kernels of a launch group.
pub(super) struct Launcher {
    members: Vec<u32>,
    state: Mutex<LaunchState>,
    changed: Condvar,
}

#[derive(Default)]
struct LaunchState {
    rank_jobs: Vec<Option<RankJob>>,
    ready: Option<Arc<PreparedLaunch>>,
    /// Why nothing can be launched, now or ever again.
    failed: Option<String>,
    /// Launches so far.
    sequence: u64,
    /// Which ranks have arrived for the next run, and the latest instant they agreed on.
    arrived: Vec<bool>,
    at: Nanos,
    /// Completed runs, and the outcome of the last one.
    runs: u64,
    ended: Vec<LaunchEnd>,
}

/// A launch that is ready to run.
struct PreparedLaunch {
    stream: Stream,
    kernel: Kernel,
    threads: u32,
    blocks: u32,
    jobs: Allocation,
    words: Pinned,
    rank_jobs: Vec<RankJob>,
}

/// A rank's reserved membership while it prepares; dropping it unused tells the others not to wait.
pub(super) struct Reservation {
    launcher: Arc<Launcher>,
    member: usize,
    used: bool,
}

impl Launcher {
    /// For ranks that have yet to join.
    pub fn new(members: Vec<u32>) -> Launcher {
        let count = members.len();
        Launcher {
            members,
            state: Mutex::new(LaunchState {
                rank_jobs: (0..count).map(|_| None).collect(),
                arrived: vec![false; count],
                ..LaunchState::default()
            }),
            changed: Condvar::new(),
        }
    }

    /// Reserves the membership of `rank`; none when it is not a member.
    pub fn reservation(self: Arc<Launcher>, rank: u32) -> Option<Reservation> {
        let member = self.members.iter().position(|member| *member == rank)?;
        Some(Reservation {
            launcher: self,
            member,
            used: false,
        })
    }

    /// Runs the collective `times` times with the other members.
    pub fn run(
        &self,
        member: usize,
        at: Nanos,
        times: u16,
        conditions: &Conditions<'_>,
    ) -> Result<LaunchEnd, MissingRank> {
        let since = clock::now();
        let mut state = lock(&self.state);
        if let Some(failed) = &state.failed {
            return Err(launch_failed(failed.clone(), since));
        }
        state.arrived[member] = true;
        state.at = state.at.max(at);
        let run = state.runs;
        if state.arrived.iter().all(|arrived| *arrived) {
            let (at, sequence, ready) = (state.at, state.sequence, state.ready.clone());
            drop(state);
            let ended = match ready {
                Some(ready) => ready.run(at, sequence, times, conditions),
                None => return Err(launch_failed("nothing was prepared".to_string(), since)),
            };
            let mut state = lock(&self.state);
            state.sequence += u64::from(times);
            state.arrived.fill(false);
            state.at = Nanos(0);
            state.runs += 1;
            if ended.iter().any(LaunchEnd::is_broken) {
                state.failed = Some("an earlier launch on this GPU failed".to_string());
            }
            state.ended = ended;
            self.changed.notify_all();
            return Ok(state.ended[member].clone());
        }
        loop {
            let (guard, _) = self
                .changed
                .wait_timeout(state, ABORT_CHECK)
                .unwrap_or_else(|poisoned| poisoned.into_inner());
            state = guard;
            if state.runs > run {
                return Ok(state.ended[member].clone());
            }
            let missing = state.arrived.iter().position(|arrived| !arrived);
            let Some(missing) = missing else {
                // All have arrived, and the launching rank bounds the wait.
                continue;
            };
            let waited = clock::now().since(since.max(at));
            let aborted = conditions.abort.load(Ordering::Relaxed);
            if aborted || Duration::from(waited) > conditions.deadline {
                let problem = match aborted {
                    true => "the run is being ended".to_string(),
                    false => "it did not join the launch within the deadline".to_string(),
                };
                // A rank that arrives later must not launch without this one.
                state.failed.get_or_insert_with(|| "a rank has left".to_string());
                return Err(MissingRank {
                    rank: Some(self.members[missing]),
                    waited,
                    problem,
                    aborted,
                });
            }
        }
    }
}

fn launch_failed(problem: String, since: Nanos) -> MissingRank {
    MissingRank {
        rank: None,
        waited: clock::now().since(since),
        problem,
        aborted: false,
    }
}

impl Reservation {
    /// Adds the rank's job and waits until all members have added theirs and the launch is ready.
    pub fn join(
        mut self,
        rank_job: RankJob,
        shape: &LaunchShape,
        patience: Duration,
    ) -> Result<(Arc<Launcher>, usize), String> {
        self.used = true;
        let launcher = Arc::clone(&self.launcher);
        let until = Instant::now() + patience;
        let mut state = lock(&launcher.state);
        state.rank_jobs[self.member] = Some(rank_job);
        if state.rank_jobs.iter().all(Option::is_some) {
            let rank_jobs = state.rank_jobs.drain(..).flatten().collect();
            match PreparedLaunch::new(rank_jobs, shape) {
                Ok(ready) => state.ready = Some(Arc::new(ready)),
                Err(problem) => state.failed = Some(problem),
            }
            launcher.changed.notify_all();
        }
        loop {
            if let Some(failed) = &state.failed {
                return Err(failed.clone());
            }
            if state.ready.is_some() {
                drop(state);
                return Ok((launcher, self.member));
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let missing = state.rank_jobs.iter().position(Option::is_none);
                let who = missing.map_or_else(String::new, |missing| {
                    format!(": rank {} is missing", launcher.members[missing])
                });
                let problem = format!("the ranks on this GPU did not all join the launch{who}");
                state.failed = Some(problem.clone());
                return Err(problem);
            }
            let (guard, _) = launcher
                .changed
                .wait_timeout(state, left.min(ABORT_CHECK))
                .unwrap_or_else(|poisoned| poisoned.into_inner());
            state = guard;
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if !self.used {
            let rank = self.launcher.members[self.member];
            let problem = format!("rank {rank}, which shares this GPU, could not prepare");
            lock(&self.launcher.state).failed.get_or_insert(problem);
            self.launcher.changed.notify_all();
        }
    }
}

impl PreparedLaunch {
    fn new(mut rank_jobs: Vec<RankJob>, shape: &LaunchShape) -> Result<PreparedLaunch, String> {
        let message = |error: crate::device::cuda::CudaError| error.to_string();
        let kernel = shape.gpu.kernel(&shape.kernel).map_err(message)?;
        let mut blocks = 0;
        for rank_job in &mut rank_jobs {
            rank_job.job.first_block = blocks;
            blocks += rank_job.job.blocks;
        }
        let info = shape.gpu.info();
        let fit = kernel.resident_blocks(shape.threads, 0).map_err(message)? * info.sms;
        if blocks * shape.at_once > fit {
            return Err(format!(
                "{} ranks on {} need {blocks} thread blocks at the same time for each of {} cells, and it runs {fit}: \
                 they would deadlock; use fewer ranks per GPU",
                rank_jobs.len(),
                info.name,
                shape.at_once
            ));
        }
        let list: Vec<abi::Job> = rank_jobs.iter().map(|rank_job| rank_job.job).collect();
        let jobs = shape
            .gpu
            .allocate(size_of_val(list.as_slice()))
            .map_err(message)?;
        jobs.upload(0, bytemuck::cast_slice(&list)).map_err(message)?;
        Ok(PreparedLaunch {
            stream: shape.gpu.stream().map_err(message)?,
            words: shape.gpu.pin(64).map_err(message)?,
            kernel,
            threads: shape.threads,
            blocks,
            jobs,
            rank_jobs,
        })
    }

    /// Launches, and monitors until all ranks are done or cannot finish.
    fn run(&self, at: Nanos, sequence: u64, times: u16, conditions: &Conditions<'_>) -> Vec<LaunchEnd> {
        let gated = times == 1;
        let mut launch = abi::Launch {
            jobs: self.jobs.address(),
            gate: if gated {
                self.words.address() + GATE as u64
            } else {
                0
            },
            abort: self.words.address() + ABORT as u64,
            deadline: Nanos::from(conditions.deadline).0,
            sequence,
            job_count: self.rank_jobs.len() as u32,
            unused: 0,
        };
        if !gated {
            clock::wait_until(at, conditions.crowded);
        }
        let mut opened = clock::now();
        for _ in 0..times {
            let launched = self
                .stream
                .launch(&self.kernel, self.blocks, self.threads, 0, &launch, false);
            if let Err(error) = launched {
                self.words.store_u32(ABORT, 1);
                let broken = LaunchEnd::broken(opened, format!("the launch failed: {error}"));
                return vec![broken; self.rank_jobs.len()];
            }
            launch.sequence += 1;
        }
        if gated {
            clock::wait_until(at, conditions.crowded);
            opened = clock::now();
            self.words.store_u64(GATE, sequence + 1);
        }
        LaunchMonitor {
            stream: &self.stream,
            rank_jobs: &self.rank_jobs,
            opened,
            goal: sequence + u64::from(times),
            gated,
            stop: &|| self.words.store_u32(ABORT, 1),
        }
        .until_done(conditions)
    }
}
