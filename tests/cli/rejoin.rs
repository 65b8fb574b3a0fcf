//! Real processes that are killed or frozen in the middle of a run: the others go on, and whoever comes back is measured
//! again.

use std::net::{IpAddr, Ipv4Addr};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use engine::launch::{Rendezvous, Token};
use engine::measure::{CellResult, MeasureContext, Progress, RunFolder, Session, Setup, Sink, SwitchWatch};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use plan::{Choices, Plan};
use record::units::{Bytes, Nanos};
use record::{Cell, DeviceKind, EndReason, Event, Recorded, Run, Sample};
use topology::suite::Suite;

const WORLD: u32 = 3;
const PATIENCE: Duration = Duration::from_secs(120);

const SUITE: &str = r#"
name = "small"
[run]
transport = "TRANSPORT"
[[test]]
name = "ring"
collective = "all-reduce"
algorithm = "ring"
sizes = ["64K"]
warmup = 1
iterations = 5
[[test]]
name = "pairs"
kind = "pairs"
sizes = ["64K"]
warmup = 1
iterations = 5
"#;

/// Nobody watches.
struct Quiet;

impl Progress for Quiet {
    fn plan(&self, _: usize) {}
    fn slot(&self, _: &[&Cell], _: u16) {}
    fn cell_done(&self, _: &CellResult<'_>) {}
    fn note(&self, _: &str) {}
}

/// A rank's process. Dropping it ends it.
struct Rank(Child);

impl Rank {
    fn start(rank: u32, door: &Rendezvous, token: &Token) -> Rank {
        Rank(Rank::worker(rank, door, token).spawn().unwrap())
    }

    /// The same with a GPU, which the shim makes of the CPU.
    fn on_gpu(rank: u32, door: &Rendezvous, token: &Token) -> Rank {
        let mut command = Rank::worker(rank, door, token);
        Rank(
            command
                .env("LD_LIBRARY_PATH", crate::shim::folder())
                .spawn()
                .unwrap(),
        )
    }

    fn worker(rank: u32, door: &Rendezvous, token: &Token) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_railgauge"));
        command
            .arg("worker")
            .env("RAILGAUGE_RANK", rank.to_string())
            .env("RAILGAUGE_WORLD", WORLD.to_string())
            .env("RAILGAUGE_RENDEZVOUS", door.address().unwrap().to_string())
            .env("RAILGAUGE_TOKEN", token.to_hex())
            .stdin(Stdio::null());
        command
    }

    /// A rank as somebody starts one by hand, which calls again after a loss; the first would lead.
    fn follow(rank: u32, door: &Rendezvous, token: &Token) -> Rank {
        if rank == 0 {
            return Rank::start(rank, door, token);
        }
        let place = door.address().unwrap().to_string();
        let (rank, world) = (rank.to_string(), WORLD.to_string());
        let mut command = Command::new(env!("CARGO_BIN_EXE_railgauge"));
        command
            .args(["run", "smoke", "--launch", "env", "--rejoin", "60s"])
            .args(["--rank", &rank, "--world", &world, "--rendezvous", &place])
            .env("RAILGAUGE_TOKEN", token.to_hex())
            .stdin(Stdio::null());
        Rank(command.spawn().unwrap())
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.0.id() as i32), signal).unwrap();
    }

    /// Ends it as a power cut would.
    fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Rank {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn setup(device: DeviceKind, deadline: u64) -> Setup {
    Setup {
        rails: vec!["rail0=127.0.0.1".to_string(), "rail1=127.0.0.2".to_string()],
        device,
        largest: Bytes(1 << 20),
        nccl: false,
        verbs: false,
        gid_index: None,
        faults: Vec::new(),
        deadline: Nanos::from_secs(deadline),
        data_port: None,
    }
}

/// What is recorded before the first sample.
fn run_of(plan: &Plan, session: &Session) -> Run {
    let run = serde_json::json!({
        "schema": 1,
        "version": "0",
        "suite": "small",
        "description": "",
        "started": "2026-01-01T00:00:00Z",
        "seed": plan.seed,
        "command": [],
        "launch": "3 processes of one machine",
        "hosts": session.fabric().hosts,
        "ranks": session.fabric().ranks,
        "timer_ns": session.timer(),
        "clocks": session.clocks(),
        "rule": plan.rule,
        "tests": plan.tests,
        "cells": plan.cells,
        "untested": plan.untested,
        "injected": [],
    });
    serde_json::from_value(run).unwrap()
}

/// A run of three ranks that have met, and what it measures.
struct Running {
    folder: tempfile::TempDir,
    door: Rendezvous,
    token: Token,
    ranks: Vec<Rank>,
    session: Session,
    plan: Plan,
    sink: Sink,
}

impl Running {
    fn of(
        start: fn(u32, &Rendezvous, &Token) -> Rank,
        device: DeviceKind,
        transport: &str,
        deadline: u64,
    ) -> Running {
        let folder = tempfile::tempdir().unwrap();
        let suite_file = folder.path().join("suite.toml");
        std::fs::write(&suite_file, SUITE.replace("TRANSPORT", transport)).unwrap();
        let mut suite = Suite::load(suite_file.to_str().unwrap()).unwrap();
        suite.run.device = Some(device);
        let token = Token::generate().unwrap();
        let door = Rendezvous::listen(IpAddr::V4(Ipv4Addr::LOCALHOST), WORLD, token).unwrap();
        let ranks = (0..WORLD).map(|rank| start(rank, &door, &token)).collect();
        let coordinator = door.wait_for_ranks(PATIENCE, || None).unwrap();
        let interrupted = Arc::new(AtomicBool::new(false));
        let setup = setup(device, deadline);
        let session = Session::set_up(coordinator, setup, Box::new(|_| None), interrupted).unwrap();
        let choices = Choices {
            direct: session.is_direct(),
            ..Choices::default()
        };
        let plan = Plan::new(&suite, session.fabric(), &choices).unwrap();
        let out = RunFolder::create(&folder.path().join("out")).unwrap();
        let sink = out.start(&run_of(&plan, &session)).unwrap();
        Running {
            folder,
            door,
            token,
            ranks,
            session,
            plan,
            sink,
        }
    }

    /// Measures the cells of which `wanted` is true.
    fn measure(&mut self, round: u16, wanted: impl Fn(&Cell) -> bool) -> EndReason {
        let cells: Vec<&Cell> = self.plan.cells.iter().filter(|cell| wanted(cell)).collect();
        assert!(!cells.is_empty());
        let mut measuring = MeasureContext {
            sink: &mut self.sink,
            progress: &Quiet,
            seed: self.plan.seed,
            confidence: self.plan.rule.confidence,
            until: None,
            switches: SwitchWatch::default(),
        };
        let tests = &self.plan.tests;
        self.session
            .measure(&cells, tests, round, &mut measuring)
            .unwrap()
    }

    /// Rank 2 is lost: goes on without it, which must work.
    fn go_on_without_2(&mut self, round: u16) {
        self.session.continue_without(&[2]).unwrap();
        self.session.allow_rejoin(&self.door);
        let rest = self.measure(round, |cell| !cell.ranks.contains(&2));
        assert_eq!(rest, EndReason::Finished, "the others go on");
    }

    /// Waits until rank 2 is at the door, and lets it in.
    fn take_2_back(&mut self) {
        let until = Instant::now() + PATIENCE;
        while self.door.waiting_to_rejoin() != [2] {
            assert!(Instant::now() < until, "it never came back");
            std::thread::sleep(Duration::from_millis(5));
        }
        let readmission = self.session.rejoin(&self.door).unwrap();
        assert_eq!(readmission.rejoined, [2], "{readmission:?}");
        assert!(self.session.absent().is_empty());
    }

    /// Ends the run, which all ranks must notice; what was recorded.
    fn end(mut self) -> Recorded {
        self.session.quit();
        drop(self.session);
        for rank in &mut self.ranks {
            assert!(rank.0.wait().unwrap().success(), "the run was over for it");
        }
        self.sink.close().unwrap();
        assert!(self.door.join_conflicts().is_empty());
        Recorded::read(&self.folder.path().join("out")).unwrap()
    }
}

/// Samples of rank 2 in a round.
fn of_rank_2(recorded: &Recorded, round: u16) -> usize {
    let of_2 = |sample: &&Sample| sample.rank == 2 && sample.round == round;
    recorded.samples.iter().filter(of_2).count()
}

#[test]
fn a_killed_rank_is_left_out_started_again_let_in_and_measured_again() {
    let mut run = Running::of(Rank::start, DeviceKind::Host, "tcp", 20);
    assert_eq!(run.measure(0, |_| true), EndReason::Finished);
    // Twice: what was let in again can be lost again.
    for round in [1, 4] {
        let pid_before = run.session.fabric().ranks[2].pid;
        run.ranks[2].kill();
        assert_eq!(run.measure(round, |_| true), EndReason::Lost);
        run.go_on_without_2(round + 1);
        assert!(run.session.rejoin(&run.door).unwrap().rejoined.is_empty());
        run.ranks[2] = Rank::start(2, &run.door, &run.token);
        run.take_2_back();
        assert_ne!(run.session.fabric().ranks[2].pid, pid_before);
        run.session.compare_clocks().unwrap();
        assert_eq!(run.measure(round + 2, |_| true), EndReason::Finished);
    }
    let recorded = run.end();
    let lost = recorded
        .events
        .iter()
        .filter(|event| matches!(event, Event::Lost(_)));
    assert_eq!(lost.count(), 2);
    for (round, is_there) in [(0, true), (2, false), (3, true), (5, false), (6, true)] {
        assert_eq!(of_rank_2(&recorded, round) > 0, is_there, "round {round}");
    }
    assert_eq!(
        of_rank_2(&recorded, 6),
        of_rank_2(&recorded, 0),
        "everything is measured with it again"
    );
}

#[test]
fn a_frozen_rank_that_was_left_out_calls_again_by_itself_once_it_wakes_up() {
    let mut run = Running::of(Rank::follow, DeviceKind::Host, "tcp", 3);
    assert_eq!(run.measure(0, |_| true), EndReason::Finished);
    run.ranks[2].signal(Signal::SIGSTOP);
    assert_eq!(run.measure(1, |_| true), EndReason::Lost);
    run.go_on_without_2(2);
    assert!(run.door.waiting_to_rejoin().is_empty(), "it sleeps");
    run.ranks[2].signal(Signal::SIGCONT);
    run.take_2_back();
    assert_eq!(run.measure(3, |_| true), EndReason::Finished);
    let recorded = run.end();
    assert_eq!(of_rank_2(&recorded, 3), of_rank_2(&recorded, 0));
}

#[test]
fn the_memory_of_a_gpu_rank_that_is_started_again_is_found_where_it_is_now() {
    for transport in ["peer", "tcp"] {
        let mut run = Running::of(Rank::on_gpu, DeviceKind::Cuda, transport, 20);
        let is_ring = |cell: &Cell| cell.test == "ring";
        assert_eq!(run.measure(0, is_ring), EndReason::Finished);
        run.ranks[2].kill();
        assert_eq!(run.measure(1, is_ring), EndReason::Lost);
        run.go_on_without_2(2);
        run.ranks[2] = Rank::on_gpu(2, &run.door, &run.token);
        run.take_2_back();
        assert_eq!(run.measure(3, is_ring), EndReason::Finished, "over {transport}");
        let recorded = run.end();
        assert_eq!(of_rank_2(&recorded, 3), of_rank_2(&recorded, 0));
        let is_wrong = |event: &Event| matches!(event, Event::Corruption(_));
        assert!(!recorded.events.iter().any(is_wrong), "over {transport}");
    }
}
