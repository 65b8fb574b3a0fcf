//! The state of a rank that is set up: it prepares cells, runs each on a thread of its own, finishes or aborts them.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::cell_task::{CellTask, TaskContext, without_carrier};
use super::counters::{CounterReadings, WrittenCounters};
use super::faulty_clock::FaultyClock;
use super::link::LinkRun;
use super::protocol::{Answer, AnswerSender, CellAssignment, Order, Setup};
use super::rank_communicators::RankCommunicators;
use crate::collective::gpu::nccl::NcclPreparation;
use crate::collective::gpu::{self, Preparation, RankGpu};
use crate::collective::{CellEngine, HostEngine, Oracle, ProbeEngine, Program, StreamEngine, is_placed};
use crate::device::cuda::nccl::UniqueId;
use crate::device::telemetry::{self, SensorRecording};
use crate::launch::Disconnected;
use crate::transport::{Channel, ConnectError, Mesh, Wanted};
use probe::sysfs;
use record::units::Nanos;
use record::{RailEnd, TransportKind};

/// How long a silent rank is probed.
const PROBE_TIMEOUT: Duration = Duration::from_millis(1500);

/// The longest wait for the sensors of the GPU.
const SENSOR_TIMEOUT: Duration = Duration::from_secs(1);

/// The answer after a panic: a bug of ours must not look like a lost rank.
fn internal_failure(cell: u32, panic: &(dyn Any + Send)) -> Answer {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("unknown");
    Answer::Stopped {
        cell,
        step: "internal failure".to_string(),
        waiting_for: None,
        waited: Nanos(0),
        problem: text.to_string(),
        aborted: false,
        stuck: Vec::new(),
        no_carrier: Vec::new(),
    }
}

/// Why a cell cannot be prepared.
struct PrepareError {
    reason: String,
    waiting_for: Option<u32>,
    rail: Option<String>,
}

impl PrepareError {
    fn new(reason: String) -> PrepareError {
        PrepareError {
            reason,
            waiting_for: None,
            rail: None,
        }
    }

    fn connect(peer: u32, error: &ConnectError) -> PrepareError {
        PrepareError {
            reason: error.to_string(),
            waiting_for: Some(peer),
            rail: error.rail().map(str::to_string),
        }
    }
}

/// A command to the thread of a cell.
enum TaskCommand {
    Go {
        at: record::units::Nanos,
        iteration: Option<u32>,
    },
    Finish,
}

/// A cell in flight on this rank.
pub(super) struct RunningCell {
    cell: u32,
    round: u16,
    commands: Sender<TaskCommand>,
    thread: JoinHandle<CellTask>,
    counters_before: CounterReadings,
    watch: Option<SensorRecording>,
}

/// Everything a rank has once it is set up.
pub(super) struct RankRuntime {
    pub setup: Setup,
    pub rails: Vec<RailEnd>,
    /// This rank's place on a GPU.
    pub rank_gpu: Option<RankGpu>,
    /// NCCL's communicators.
    pub communicators: RankCommunicators,
    pub mesh: Mesh,
    pub running: Vec<RunningCell>,
    /// The counter values written last.
    pub written: WrittenCounters,
    /// The link measurement it is an end of.
    pub link: Option<LinkRun>,
    pub abort: Arc<AtomicBool>,
    /// The clock as the coordinator sees it.
    pub clock: FaultyClock,
}

impl RankRuntime {
    pub fn execute(&mut self, order: Order, me: u32, answers: &AnswerSender) -> Result<(), Disconnected> {
        match order {
            Order::Peers(peers) => {
                if let (Some(rank_gpu), true) = (&self.rank_gpu, self.setup.nccl) {
                    RankCommunicators::set_host_ids(rank_gpu.endpoint(), &peers);
                }
                self.mesh.set_peers(peers);
            }
            Order::CreateNcclIds(cells) => {
                for (cell, is_creator) in cells {
                    answers.send(&RankCommunicators::create_id(cell, is_creator))?;
                }
            }
            Order::Prepare(assignments) => {
                for assignment in assignments {
                    answers.send(&self.prepare(assignment, me, answers))?;
                }
            }
            Order::Go { at, iteration } => {
                for running in &self.running {
                    // A task that has ended reports that when it is finished or aborted.
                    let _ = running.commands.send(TaskCommand::Go { at, iteration });
                }
            }
            Order::Finish => {
                for answer in self.finish(me) {
                    answers.send(&answer)?;
                }
            }
            Order::Link(job) => {
                self.stop_link();
                self.link = LinkRun::start(*job, me, &mut self.mesh, answers);
            }
            Order::Abort => {
                self.abort.store(true, Ordering::Relaxed);
                self.stop_link();
            }
            Order::ProbeRank(rank) => {
                let result = self.mesh.check_liveness(rank, PROBE_TIMEOUT);
                answers.send(&Answer::RankProbed { rank, result })?;
            }
            Order::Trace(wanted) => {
                let until = Instant::now() + Duration::from(self.setup.deadline) / 2;
                answers.send(&Answer::TracedFlow(self.mesh.trace(&wanted, true, until)))?;
            }
            Order::TracePatiently(wanted) => {
                let until = Instant::now() + Duration::from(self.setup.deadline) / 2;
                answers.send(&Answer::TracedFlow(self.mesh.trace(&wanted, false, until)))?;
            }
            Order::AskSwitches(questions) => {
                let until = Instant::now() + Duration::from(self.setup.deadline) / 2;
                answers.send(&Answer::TracedFlow(self.mesh.ask_switches(&questions, until)))?;
            }
            Order::TraceBursts(wanted) => {
                let until = Instant::now() + Duration::from(self.setup.deadline) / 2;
                answers.send(&Answer::TracedBursts(self.mesh.trace_bursts(&wanted, until)))?;
            }
            Order::TraceOpen(wanted) => {
                let until = Instant::now() + Duration::from(self.setup.deadline) / 2;
                answers.send(&Answer::TracedFlow(self.mesh.trace_open(&wanted, until)))?;
            }
            Order::CheckCrossRail(paths) => {
                let until = Instant::now() + Duration::from(self.setup.deadline);
                answers.send(&Answer::CrossRail(self.mesh.reach(&paths, until)))?;
            }
            Order::Reset => {
                self.stop();
                self.communicators.clear();
                self.mesh.reset();
                self.abort = Arc::new(AtomicBool::new(false));
                answers.send(&Answer::Reset)?;
            }
            Order::SetUp(_) | Order::Ping | Order::Inventory(_) | Order::Quit(_) => {}
        }
        for stranger in self.mesh.rejected_callers() {
            answers.send(&Answer::Intruder(format!("on a port of rank {me}: {stranger}")))?;
        }
        Ok(())
    }

    fn prepare(&mut self, assignment: CellAssignment, me: u32, answers: &AnswerSender) -> Answer {
        let (cell, round) = (assignment.cell.id, assignment.round);
        let names = assignment.cell.rails.clone();
        let interfaces = self.interfaces();
        let refuse = |reason: String, waiting_for, rail: Option<&str>| Answer::CannotPrepare {
            cell,
            reason,
            waiting_for,
            rail: rail.map(str::to_string),
            no_carrier: without_carrier(&interfaces),
        };
        let context = TaskContext {
            rank: me,
            deadline: self.setup.deadline.into(),
            abort: Arc::clone(&self.abort),
            faults: self.setup.faults.clone(),
            clock: self.clock,
            interfaces: interfaces.clone(),
        };
        let engine = match self.engine(&assignment, me) {
            Ok(engine) => engine,
            Err(error) => return refuse(error.reason, error.waiting_for, error.rail.as_deref()),
        };
        let mut task = CellTask::new(assignment, engine, context);
        let counters_before = self.counters(&names);
        let watch = |gpu| telemetry::process_monitor().start_recording(&gpu, self.sensor_timeout());
        let watch = task.gpu().map(watch);
        let (commands, received) = channel();
        let answers = answers.clone();
        let thread = std::thread::spawn(move || {
            // A broken control connection is noticed with the next answer.
            let moving = || drop(answers.send(&Answer::Moving { cell }));
            while let Ok(TaskCommand::Go { at, iteration }) = received.recv() {
                let answer = catch_unwind(AssertUnwindSafe(|| task.run(at, iteration, &moving)))
                    .unwrap_or_else(|panic| internal_failure(cell, panic.as_ref()));
                let stopped = matches!(answer, Answer::Stopped { .. });
                if answers.send(&answer).is_err() || stopped {
                    break;
                }
            }
            task
        });
        self.running.push(RunningCell {
            cell,
            round,
            commands,
            thread,
            counters_before,
            watch,
        });
        Answer::Prepared { cell }
    }

    /// Prepares the engine that runs the cell on this rank.
    fn engine(&mut self, assignment: &CellAssignment, me: u32) -> Result<Box<dyn CellEngine>, PrepareError> {
        let cell = &assignment.cell;
        if cell.engine == record::Engine::Nccl {
            return self.nccl(assignment, me).map_err(PrepareError::new);
        }
        if let Some(terms) = &cell.streams {
            let abort = Arc::clone(&self.abort);
            let wanted = Wanted {
                cell,
                placed: false,
                deadline: Instant::now() + Duration::from(self.setup.deadline),
                give_up: &move || abort.load(Ordering::Relaxed),
            };
            let streams = self.mesh.streams(&wanted);
            let streams = streams.map_err(|(peer, error)| PrepareError::connect(peer, &error))?;
            let engine = StreamEngine::new(cell, terms, me, assignment.seed_of_cell(), streams);
            return Ok(Box::new(engine));
        }
        if let Some(terms) = &cell.probes {
            let sockets = self.mesh.probes(cell, terms, assignment.round);
            let sockets = sockets.map_err(PrepareError::new)?;
            return Ok(Box::new(ProbeEngine::new(terms, sockets)));
        }
        let program = Program::new(cell, me).map_err(|error| PrepareError::new(error.to_string()))?;
        let channels = self.connect(assignment, &program.peers())?;
        let oracle = Oracle::for_cell(cell, assignment.seed_of_cell());
        let (deadline, abort) = (self.setup.deadline.into(), Arc::clone(&self.abort));
        let Some(rank_gpu) = &self.rank_gpu else {
            let engine = HostEngine::new(cell, me, oracle, program, channels, deadline, abort);
            return match engine {
                Ok(engine) => Ok(Box::new(engine)),
                Err(error) => Err(PrepareError::new(error.to_string())),
            };
        };
        let wanted = Preparation {
            cell,
            round: assignment.round,
            rank: me,
            ends: self.mesh.peers(),
            at_once: assignment.at_once,
            oracle,
            channels,
            deadline,
            abort,
            flip: self.mesh.flip().cloned(),
            crowded: assignment.crowded,
        };
        gpu::prepare(rank_gpu, wanted).map_err(|(reason, channels)| {
            channels
                .into_iter()
                .for_each(|channel| self.mesh.release(channel));
            PrepareError::new(reason)
        })
    }

    /// Prepares NCCL for the cell.
    fn nccl(&mut self, assignment: &CellAssignment, me: u32) -> Result<Box<dyn CellEngine>, String> {
        let rank_gpu = self
            .rank_gpu
            .as_ref()
            .ok_or("NCCL runs on GPUs only; use --device cuda")?;
        let communicator = assignment
            .nccl
            .as_ref()
            .ok_or("the coordinator named no NCCL communicator")?;
        let wanted = NcclPreparation {
            cell: &assignment.cell,
            rank: me,
            ends: self.mesh.peers(),
            oracle: Oracle::for_cell(&assignment.cell, assignment.seed_of_cell()),
            id: UniqueId::from_hex(&communicator.id)
                .ok_or("malformed NCCL unique id from the coordinator")?,
            thread: None,
            deadline: self.setup.deadline.into(),
            abort: &self.abort,
        };
        self.communicators.engine(rank_gpu, communicator, wanted)
    }

    fn connect(&mut self, assignment: &CellAssignment, peers: &[u32]) -> Result<Vec<Channel>, PrepareError> {
        if assignment.cell.transport == TransportKind::Peer {
            return Ok(Vec::new());
        }
        let abort = Arc::clone(&self.abort);
        let give_up = move || abort.load(Ordering::Relaxed);
        let deadline = Instant::now() + Duration::from(self.setup.deadline);
        let wanted = Wanted {
            cell: &assignment.cell,
            placed: is_placed(&assignment.cell),
            deadline,
            give_up: &give_up,
        };
        let channels = self.mesh.connect(peers, &wanted);
        channels.map_err(|(peer, error)| PrepareError::connect(peer, &error))
    }

    fn finish(&mut self, me: u32) -> Vec<Answer> {
        let mut answers = Vec::new();
        for running in std::mem::take(&mut self.running) {
            let _ = running.commands.send(TaskCommand::Finish);
            let Ok(mut task) = running.thread.join() else {
                continue;
            };
            let names: Vec<String> = task.cell().rails.clone();
            let (streams, probes) = (task.streams(), task.probes());
            let (runs, moved, mut channels) = task.finish();
            let flows = channels.iter().flat_map(Channel::flows).collect();
            let tcp = channels
                .iter_mut()
                .flat_map(|channel| channel.tcp_flows(me))
                .collect();
            for channel in channels {
                self.mesh.release(channel);
            }
            let readings =
                |watch: SensorRecording| watch.finish(running.cell, running.round, me, self.sensor_timeout());
            let gpu = running.watch.map(readings).map(Box::new);
            let around = (running.cell, running.round, me);
            let counters_after = self.counters(&names);
            let counters = running
                .counters_before
                .until(counters_after, around, &mut self.written);
            answers.push(Answer::Finished {
                cell: running.cell,
                runs,
                moved,
                flows,
                tcp,
                streams,
                probes,
                counters,
                gpu,
            });
        }
        answers
    }

    /// Aborts what is still running and closes its connections.
    pub fn stop(&mut self) {
        self.abort.store(true, Ordering::Relaxed);
        self.stop_link();
        for running in self.running.drain(..) {
            drop(running.commands);
            // A panic was reported when it happened.
            if let Ok(task) = running.thread.join() {
                task.finish().2.into_iter().for_each(Channel::abandon);
            }
        }
    }

    fn stop_link(&mut self) {
        if let Some(link) = self.link.take() {
            link.stop();
        }
    }

    /// How long to wait for sensors: never so long that this rank looks stuck.
    fn sensor_timeout(&self) -> Duration {
        SENSOR_TIMEOUT.min(Duration::from(self.setup.deadline) / 4)
    }

    /// Rails with the interfaces behind them, where known.
    fn interfaces(&self) -> Vec<(String, String)> {
        let with_interface = |end: &RailEnd| Some((end.rail.clone(), end.interface.clone()?));
        self.rails.iter().filter_map(with_interface).collect()
    }

    /// The counters of the named rails now.
    fn counters(&self, names: &[String]) -> CounterReadings {
        CounterReadings::read(&self.rails, names, Path::new(sysfs::SYS), &self.written)
    }
}
