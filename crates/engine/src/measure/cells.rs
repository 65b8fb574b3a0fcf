//! The cells a rank has in hand: prepared, run on a thread of their own each, finished or given up.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::counters::{Counters, Written};
use super::lanes::Lanes;
use super::link::LinkRun;
use super::orders::{Answer, Assignment, Order, Setup};
use super::task::{Surroundings, Task, without_carrier};
use super::voice::Voice;
use crate::collective::gpu::nccl::NcclPreparation;
use crate::collective::gpu::{self, Preparation, RankGpu};
use crate::collective::{CellEngine, HostEngine, Oracle, Program, StreamEngine, is_placed};
use crate::device::cuda::nccl::UniqueId;
use crate::device::telemetry::{self, Watch};
use crate::launch::Disconnected;
use crate::transport::{Channel, ConnectError, Mesh, Wanted};
use probe::sysfs;
use record::units::Nanos;
use record::{RailEnd, TransportKind};

/// How long the doors of a rank that fell silent are knocked at.
const KNOCK_PATIENCE: Duration = Duration::from_millis(1500);

/// The longest a rank waits for the sensors of its GPU.
const SENSOR_PATIENCE: Duration = Duration::from_secs(1);

/// A bug of ours must not look like a lost rank.
fn failed_inside(cell: u32, panic: &(dyn Any + Send)) -> Answer {
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
struct Refused {
    reason: String,
    waiting_for: Option<u32>,
    rail: Option<String>,
}

impl Refused {
    fn because(reason: String) -> Refused {
        Refused {
            reason,
            waiting_for: None,
            rail: None,
        }
    }

    fn by(peer: u32, error: &ConnectError) -> Refused {
        Refused {
            reason: error.to_string(),
            waiting_for: Some(peer),
            rail: error.rail().map(str::to_string),
        }
    }
}

/// What a task is told.
enum Word {
    Go {
        at: record::units::Nanos,
        iteration: Option<u32>,
    },
    Finish,
}

/// A cell in flight.
pub(super) struct Running {
    cell: u32,
    round: u16,
    words: Sender<Word>,
    thread: JoinHandle<Task>,
    counters_before: Counters,
    watch: Option<Watch>,
}

/// Everything a rank has once it has met the others.
pub(super) struct Met {
    pub setup: Setup,
    pub rails: Vec<RailEnd>,
    /// This rank's place on a GPU.
    pub rank_gpu: Option<RankGpu>,
    /// NCCL's communicators.
    pub lanes: Lanes,
    pub mesh: Mesh,
    pub running: Vec<Running>,
    /// What the record says of counters already.
    pub written: Written,
    /// The link it is an end of.
    pub link: Option<LinkRun>,
    pub abort: Arc<AtomicBool>,
}

impl Met {
    pub fn obey(&mut self, order: Order, me: u32, voice: &Voice) -> Result<(), Disconnected> {
        match order {
            Order::Peers(peers) => {
                if let (Some(rank_gpu), true) = (&self.rank_gpu, self.setup.nccl) {
                    Lanes::settle(rank_gpu.endpoint(), &peers);
                }
                self.mesh.meet(peers);
            }
            Order::Introduce(cells) => {
                for (cell, leads) in cells {
                    voice.say(&Lanes::introduce(cell, leads))?;
                }
            }
            Order::Prepare(assignments) => {
                for assignment in assignments {
                    voice.say(&self.prepare(assignment, me, voice))?;
                }
            }
            Order::Go { at, iteration } => {
                for running in &self.running {
                    // A task that has ended says so itself when it is finished or aborted.
                    let _ = running.words.send(Word::Go { at, iteration });
                }
            }
            Order::Finish => {
                for answer in self.finish(me) {
                    voice.say(&answer)?;
                }
            }
            Order::Link(job) => {
                self.stop_link();
                self.link = LinkRun::start(*job, me, &mut self.mesh, voice);
            }
            Order::Abort => {
                self.abort.store(true, Ordering::Relaxed);
                self.stop_link();
            }
            Order::Knock(rank) => {
                let knock = self.mesh.knock(rank, KNOCK_PATIENCE);
                voice.say(&Answer::Knocked { rank, knock })?;
            }
            Order::Trace(wanted) => {
                let until = Instant::now() + Duration::from(self.setup.deadline) / 2;
                voice.say(&Answer::Traced(self.mesh.trace(&wanted, until)))?;
            }
            Order::Reach(ways) => {
                let until = Instant::now() + Duration::from(self.setup.deadline);
                voice.say(&Answer::Reached(self.mesh.reach(&ways, until)))?;
            }
            Order::Reset => {
                self.stop();
                self.lanes.clear();
                self.mesh.reset();
                self.abort = Arc::new(AtomicBool::new(false));
                voice.say(&Answer::Reset)?;
            }
            Order::Meet(_) | Order::Ping | Order::Inventory(_) | Order::Quit(_) => {}
        }
        for stranger in self.mesh.strangers() {
            voice.say(&Answer::Intruder(format!("on a port of rank {me}: {stranger}")))?;
        }
        Ok(())
    }

    fn prepare(&mut self, assignment: Assignment, me: u32, voice: &Voice) -> Answer {
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
        let around = Surroundings {
            rank: me,
            deadline: self.setup.deadline.into(),
            abort: Arc::clone(&self.abort),
            faults: self.setup.faults.clone(),
            interfaces: interfaces.clone(),
        };
        let engine = match self.engine(&assignment, me) {
            Ok(engine) => engine,
            Err(refused) => return refuse(refused.reason, refused.waiting_for, refused.rail.as_deref()),
        };
        let mut task = Task::new(assignment, engine, around);
        let counters_before = self.counters(&names);
        let watch = |gpu| telemetry::of_this_process().watch(&gpu, self.sensor_patience());
        let watch = task.gpu().map(watch);
        let (words, told) = channel();
        let voice = voice.clone();
        let thread = std::thread::spawn(move || {
            // A link that broke is noticed with the next answer.
            let moving = || drop(voice.say(&Answer::Moving { cell }));
            while let Ok(Word::Go { at, iteration }) = told.recv() {
                let answer = catch_unwind(AssertUnwindSafe(|| task.run(at, iteration, &moving)))
                    .unwrap_or_else(|panic| failed_inside(cell, panic.as_ref()));
                let stopped = matches!(answer, Answer::Stopped { .. });
                if voice.say(&answer).is_err() || stopped {
                    break;
                }
            }
            task
        });
        self.running.push(Running {
            cell,
            round,
            words,
            thread,
            counters_before,
            watch,
        });
        Answer::Prepared { cell }
    }

    /// What carries the cell out on this rank, made ready.
    fn engine(&mut self, assignment: &Assignment, me: u32) -> Result<Box<dyn CellEngine>, Refused> {
        let cell = &assignment.cell;
        if cell.engine == record::Engine::Nccl {
            return self.nccl(assignment, me).map_err(Refused::because);
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
            let streams = streams.map_err(|(peer, error)| Refused::by(peer, &error))?;
            let engine = StreamEngine::new(cell, terms, me, assignment.seed_of_cell(), streams);
            return Ok(Box::new(engine));
        }
        let program = Program::new(cell, me).map_err(|error| Refused::because(error.to_string()))?;
        let channels = self.connect(assignment, &program.peers())?;
        let oracle = Oracle::for_cell(cell, assignment.seed_of_cell());
        let (deadline, abort) = (self.setup.deadline.into(), Arc::clone(&self.abort));
        let Some(rank_gpu) = &self.rank_gpu else {
            let engine = HostEngine::new(cell, me, oracle, program, channels, deadline, abort);
            return match engine {
                Ok(engine) => Ok(Box::new(engine)),
                Err(error) => Err(Refused::because(error.to_string())),
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
            Refused::because(reason)
        })
    }

    /// NCCL, made ready for the cell.
    fn nccl(&mut self, assignment: &Assignment, me: u32) -> Result<Box<dyn CellEngine>, String> {
        let rank_gpu = self.rank_gpu.as_ref().ok_or("NCCL runs on GPUs only")?;
        let communicator = assignment.nccl.as_ref().ok_or("no communicator was named")?;
        let wanted = NcclPreparation {
            cell: &assignment.cell,
            rank: me,
            ends: self.mesh.peers(),
            oracle: Oracle::for_cell(&assignment.cell, assignment.seed_of_cell()),
            id: UniqueId::from_hex(&communicator.id).ok_or("the communicator's id makes no sense")?,
            thread: None,
            deadline: self.setup.deadline.into(),
            abort: &self.abort,
        };
        self.lanes.engine(rank_gpu, communicator, wanted)
    }

    fn connect(&mut self, assignment: &Assignment, peers: &[u32]) -> Result<Vec<Channel>, Refused> {
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
        channels.map_err(|(peer, error)| Refused::by(peer, &error))
    }

    fn finish(&mut self, me: u32) -> Vec<Answer> {
        let mut answers = Vec::new();
        for running in std::mem::take(&mut self.running) {
            let _ = running.words.send(Word::Finish);
            let Ok(mut task) = running.thread.join() else {
                continue;
            };
            let names: Vec<String> = task.cell().rails.clone();
            let streams = task.streams();
            let (runs, moved, channels) = task.finish();
            let flows = channels.iter().flat_map(Channel::flows).collect();
            for channel in channels {
                self.mesh.release(channel);
            }
            let seen = |watch: Watch| watch.finish(running.cell, running.round, me, self.sensor_patience());
            let gpu = running.watch.map(seen).map(Box::new);
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
                streams,
                counters,
                gpu,
            });
        }
        answers
    }

    /// Ends what is still running and gives its connections up.
    pub fn stop(&mut self) {
        self.abort.store(true, Ordering::Relaxed);
        self.stop_link();
        for running in self.running.drain(..) {
            drop(running.words);
            // A task that panicked has been reported by its silence.
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

    /// How long sensors are waited for: never so long that somebody thinks this rank stands still.
    fn sensor_patience(&self) -> Duration {
        SENSOR_PATIENCE.min(Duration::from(self.setup.deadline) / 4)
    }

    /// Rails with the interfaces behind them, where known.
    fn interfaces(&self) -> Vec<(String, String)> {
        let with_interface = |end: &RailEnd| Some((end.rail.clone(), end.interface.clone()?));
        self.rails.iter().filter_map(with_interface).collect()
    }

    /// The counters of the named rails now.
    fn counters(&self, names: &[String]) -> Counters {
        Counters::read(&self.rails, names, Path::new(sysfs::SYS), &self.written)
    }
}
