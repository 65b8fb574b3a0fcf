//! Engines: NCCL's cells stand right behind ours, and what NCCL cannot run is said.

use super::*;
use record::{Cell, Engine};
use topology::suite::EngineChoice;

fn gpus(ranks: u32, rails: usize) -> Fabric {
    let mut fabric = fabric(ranks, rails, None);
    for record in &mut fabric.ranks {
        record.device = DeviceKind::Cuda;
    }
    fabric
}

fn with(engine: EngineChoice) -> Choices {
    Choices {
        engine: Some(engine),
        ..threads()
    }
}

#[test]
fn both_engines_measure_the_same_cells_one_right_after_the_other() {
    let suite = suite("sizes = [\"1M\", \"64M\"]\nalgorithm = \"all\"\nengine = \"both\"\nbatch = 20");
    let plan = Plan::new(&suite, &gpus(2, 1), &threads()).unwrap();
    assert_eq!(plan.cells.len(), 2 * 2 * 3);
    assert_eq!(plan.untested, []);
    for pair in plan.cells.chunks(2) {
        let [ours, nccl] = pair else {
            panic!("an odd number of cells")
        };
        assert_eq!((ours.engine, nccl.engine), (Engine::Ours, Engine::Nccl));
        assert!(ours.is_counterpart_of(nccl) && nccl.is_counterpart_of(ours));
        assert!(!ours.is_peer_of(nccl), "engines are no peers of each other");
        assert_eq!((ours.batch, nccl.batch), (20, 20));
        assert_ne!(ours.slot, nccl.slot, "they never run at the same time");
    }
    let [one, other] = [&plan.cells[0], &plan.cells[3]];
    assert!(
        !one.is_counterpart_of(other),
        "{} / {}",
        one.describe(),
        other.describe()
    );
}

#[test]
fn the_command_line_decides_over_the_test_and_the_test_over_the_run() {
    let mut suite = suite("sizes = [\"1M\"]\nengine = \"nccl\"");
    suite.run.engine = Some(EngineChoice::Both);
    let engines = |choices: &Choices| -> Vec<Engine> {
        let plan = Plan::new(&suite, &gpus(2, 1), choices).unwrap();
        plan.cells.iter().map(|cell| cell.engine).collect()
    };
    assert_eq!(engines(&threads()), [Engine::Nccl]);
    assert_eq!(engines(&with(EngineChoice::Ours)), [Engine::Ours]);
    assert_eq!(engines(&with(EngineChoice::Both)), [Engine::Ours, Engine::Nccl]);
}

#[test]
fn a_suite_for_both_engines_runs_ours_on_cpus_and_says_what_is_left_out() {
    let suite = suite("sizes = [\"1M\"]\nengine = \"both\"");
    let plan = Plan::new(&suite, &fabric(2, 1, None), &threads()).unwrap();
    assert_eq!(plan.cells.len(), 1);
    assert_eq!(plan.cells[0].engine, Engine::Ours);
    assert_eq!(
        untested(&plan),
        "test `t`: all-reduce by NCCL: NCCL runs on GPUs only; use --device cuda"
    );
}

#[test]
fn nccl_does_not_run_what_it_would_run_differently() {
    // 1/4 is exact, 1/3 is not.
    let averages = suite("sizes = [\"1M\"]\nop = [\"avg\", \"sum\"]\nengine = \"nccl\"");
    let ops = |ranks| {
        let plan = Plan::new(&averages, &gpus(ranks, 1), &threads()).unwrap();
        let mut ops: Vec<String> = plan.cells.iter().map(|cell| cell.op.to_string()).collect();
        ops.sort();
        (ops.join(" "), untested(&plan))
    };
    assert_eq!(ops(4).0, "avg sum");
    let (left, why) = ops(3);
    assert_eq!(left, "sum");
    assert!(why.contains("NCCL multiplies by 1/3 before it adds"), "{why}");

    let rails = suite("kind = \"rails\"\nsizes = [\"1M\"]\nengine = \"both\"");
    let plan = Plan::new(&rails, &gpus(2, 2), &threads()).unwrap();
    let by_nccl = |cell: &&Cell| cell.engine == Engine::Nccl;
    assert_eq!(plan.cells.iter().filter(by_nccl).count(), 0);
    assert!(
        untested(&plan).contains("chooses its network interfaces itself"),
        "{}",
        untested(&plan)
    );
}

#[test]
fn a_finding_can_ask_for_one_engines_cells_again() {
    let suite = suite("sizes = [\"1M\", \"2M\"]\nengine = \"both\"");
    let only: Filter = "engine=nccl,size=2M".parse().unwrap();
    let choices = Choices {
        only: Some(only),
        direct: true,
        ..threads()
    };
    let plan = Plan::new(&suite, &gpus(2, 1), &choices).unwrap();
    assert_eq!(plan.cells.len(), 1);
    assert_eq!(
        plan.cells[0].describe(),
        "NCCL ring all-reduce 2 MiB f32, ranks 0:1 over peer"
    );
}
