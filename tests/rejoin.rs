//! A rank that is killed in the middle of a run and started again is measured again.

use std::net::{IpAddr, Ipv4Addr};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use railgauge::launch::{Rendezvous, Token};
use railgauge::measure::{CellResult, Measuring, Progress, RunFolder, Session, Setup, SwitchWatch};
use railgauge::plan::{Choices, Plan};
use railgauge::record::{Cell, DeviceKind, EndReason, Event, Recorded, Run};
use railgauge::suite::Suite;
use railgauge::units::{Bytes, Nanos};

const WORLD: u32 = 3;
const PATIENCE: Duration = Duration::from_secs(60);

const SUITE: &str = r#"
name = "small"
[run]
transport = "tcp"
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
        let mut command = Command::new(env!("CARGO_BIN_EXE_railgauge"));
        command
            .arg("worker")
            .env("RAILGAUGE_RANK", rank.to_string())
            .env("RAILGAUGE_WORLD", WORLD.to_string())
            .env("RAILGAUGE_RENDEZVOUS", door.address().unwrap().to_string())
            .env("RAILGAUGE_TOKEN", token.to_hex())
            .stdin(Stdio::null());
        Rank(command.spawn().unwrap())
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

fn setup() -> Setup {
    Setup {
        rails: Vec::new(),
        device: DeviceKind::Host,
        largest: Bytes(1 << 20),
        nccl: false,
        verbs: false,
        gid_index: None,
        faults: Vec::new(),
        deadline: Nanos::from_secs(20),
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

#[test]
fn a_killed_rank_is_left_out_started_again_let_in_and_measured_again() {
    let folder = tempfile::tempdir().unwrap();
    let suite_file = folder.path().join("suite.toml");
    std::fs::write(&suite_file, SUITE).unwrap();
    let suite = Suite::load(suite_file.to_str().unwrap()).unwrap();

    let token = Token::generate().unwrap();
    let door = Rendezvous::open(IpAddr::V4(Ipv4Addr::LOCALHOST), WORLD, token).unwrap();
    let mut ranks: Vec<Rank> = (0..WORLD).map(|rank| Rank::start(rank, &door, &token)).collect();
    let coordinator = door.meet(PATIENCE, || None).unwrap();
    let interrupted = Arc::new(AtomicBool::new(false));
    let mut session = Session::meet(coordinator, setup(), Box::new(|_| None), interrupted).unwrap();
    let plan = Plan::new(&suite, session.fabric(), &Choices::default()).unwrap();
    let all: Vec<&Cell> = plan.cells.iter().collect();
    let without_2: Vec<&Cell> = plan
        .cells
        .iter()
        .filter(|cell| !cell.ranks.contains(&2))
        .collect();
    assert!(!without_2.is_empty() && without_2.len() < all.len());

    let out = RunFolder::create(&folder.path().join("out")).unwrap();
    let mut sink = out.start(&run_of(&plan, &session)).unwrap();
    let mut measuring = Measuring {
        sink: &mut sink,
        progress: &Quiet,
        seed: plan.seed,
        confidence: plan.rule.confidence,
        until: None,
        switches: SwitchWatch::default(),
    };
    let measure = |session: &mut Session, cells: &[&Cell], round, measuring: &mut Measuring<'_>| {
        session.measure(cells, &plan.tests, round, measuring).unwrap()
    };
    assert_eq!(
        measure(&mut session, &all, 0, &mut measuring),
        EndReason::Finished
    );

    // Twice: what was let in again can be lost again.
    for cycle in [1, 4] {
        let pid_before = session.fabric().ranks[2].pid;
        ranks[2].kill();
        assert_eq!(
            measure(&mut session, &all, cycle, &mut measuring),
            EndReason::Lost
        );
        session.go_on_without(&[2]).unwrap();
        session.vacate(&door);
        let rest = measure(&mut session, &without_2, cycle + 1, &mut measuring);
        assert_eq!(rest, EndReason::Finished, "the others go on");
        assert!(session.readmit(&door).unwrap().back.is_empty());

        ranks[2] = Rank::start(2, &door, &token);
        let until = Instant::now() + PATIENCE;
        while door.returned() != [2] {
            assert!(Instant::now() < until, "it never came back");
            std::thread::sleep(Duration::from_millis(5));
        }
        let readmission = session.readmit(&door).unwrap();
        assert_eq!(readmission.back, [2], "{readmission:?}");
        assert_ne!(session.fabric().ranks[2].pid, pid_before);
        session.compare_clocks().unwrap();
        let again = measure(&mut session, &all, cycle + 2, &mut measuring);
        assert_eq!(again, EndReason::Finished);
    }
    session.quit();
    drop(session);
    for rank in &mut ranks {
        assert!(rank.0.wait().unwrap().success(), "the run was over for it");
    }
    sink.close().unwrap();
    assert!(door.evidence_of_separate_worlds().is_empty());

    let recorded = Recorded::read(out.path()).unwrap();
    let lost = recorded
        .events
        .iter()
        .filter(|event| matches!(event, Event::Lost(_)));
    assert_eq!(lost.count(), 2);
    let of_rank_2 = |round| {
        let samples = recorded.samples.iter();
        samples
            .filter(|sample| sample.rank == 2 && sample.round == round)
            .count()
    };
    for (round, is_there) in [(0, true), (2, false), (3, true), (5, false), (6, true)] {
        assert_eq!(of_rank_2(round) > 0, is_there, "round {round}");
    }
    assert_eq!(of_rank_2(6), of_rank_2(0), "everything is measured with it again");
}
