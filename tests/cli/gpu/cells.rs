//! Every collective, algorithm and way between ranks yields what the oracle says.

use record::{DeviceKind, Engine, FindingKind, Reach, TransportKind};

use super::{all_is_right, bench};
use crate::harness::Bench;

/// All collectives by all their algorithms, in small; and pairs by kernels and copy engine.
const EVERYTHING: &str = r#"
name = "everything"
[run]
ranks = 3
rails = ["loop0=127.0.1.1", "loop1=127.0.1.2"]
deadline = "20s"
[rule]
straggler_factor = 1000
[[test]]
name = "collectives"
collective = ["all-reduce", "reduce-scatter", "all-gather", "broadcast", "all-to-all"]
algorithm = "all"
sizes = ["999", "50K"]
type = ["f32", "u8"]
placement = ["in-place", "out-of-place"]
warmup = 1
iterations = 2
[[test]]
name = "pairs"
kind = "pairs"
algorithm = "all"
sizes = ["9999"]
warmup = 1
iterations = 2
"#;

/// One all-reduce of a size that kernels walk through in chunks.
const ONE: &str = r#"
name = "one"
[run]
ranks = 2
rails = ["loop0=127.0.1.1", "loop1=127.0.1.2"]
deadline = "20s"
[rule]
straggler_factor = 1000
[[test]]
name = "ring"
collective = "all-reduce"
algorithm = "ring"
sizes = ["600K"]
placement = ["in-place", "out-of-place"]
warmup = 1
iterations = 2
"#;

#[test]
fn every_collective_is_right_on_a_shared_gpu() {
    let bench = bench(EVERYTHING);
    bench.run("--device cuda").must_exit(20);
    let recorded = bench.recorded();
    let cells = &recorded.run.cells;
    assert!(cells.iter().all(|cell| cell.transport == TransportKind::Peer));
    all_is_right(&recorded, cells.len());
    assert_eq!(recorded.run.reach.len(), 1);
    assert_eq!(recorded.run.reach[0].reach, Reach::SameGpu);
    assert_eq!(recorded.run.reach[0].pairs, [(0, 1), (0, 2), (1, 2)]);
    let gpu = recorded.run.ranks[2].gpu.as_ref().unwrap();
    assert!(
        gpu.name.contains("CPU shim"),
        "nobody takes it for a GPU: {}",
        gpu.name
    );
}

#[test]
fn the_same_suite_runs_on_the_cpu_and_says_what_only_a_gpu_can() {
    let bench = Bench::new(EVERYTHING);
    bench.run("--device host").must_exit(20);
    let recorded = bench.recorded();
    assert!(
        recorded
            .run
            .cells
            .iter()
            .all(|cell| cell.device == DeviceKind::Host)
    );
    let untested: Vec<&str> = recorded
        .run
        .untested
        .iter()
        .map(|gap| gap.what.as_str())
        .collect();
    assert!(
        untested.contains(&"test `pairs`: point-to-point by copy engine"),
        "{untested:?}"
    );
}

#[test]
fn proxies_carry_the_same_cells_over_the_network_and_count_what_they_carry() {
    let bench = bench(&ONE.replace("algorithm = \"ring\"", "algorithm = \"ring\"\nstripe = true"));
    bench.run("--device cuda --transport tcp").must_exit(20);
    let recorded = bench.recorded();
    all_is_right(&recorded, recorded.run.cells.len());
    let striped = recorded.run.cells.iter().filter(|cell| cell.rails.len() == 2);
    assert!(striped.count() > 0, "chunks also go over two rails in turn");
}

#[test]
fn two_processes_use_each_others_memory_on_one_gpu() {
    let bench = bench(ONE);
    bench.run("--device cuda --procs").must_exit(20);
    let recorded = bench.recorded();
    all_is_right(&recorded, 2);
    assert_eq!(recorded.run.reach[0].reach, Reach::Ipc);
}

#[test]
fn every_operator_and_a_batch_of_collectives_are_right() {
    let bench = bench(ONE);
    let ended = bench.railgauge(
        "all-reduce --device cuda --ranks 3 -b 3000 -e 3000 -n 2 -o all -d half --batch 3 --deadline 20s --out out",
    );
    ended.must_exit(0);
    let recorded = bench.recorded();
    assert_eq!(
        recorded.run.cells.len(),
        10,
        "five operators, in place and out of place"
    );
    let batched = |cell: &&record::Cell| cell.batch == 3 && cell.engine == Engine::Ours;
    assert_eq!(recorded.run.cells.iter().filter(batched).count(), 10);
    all_is_right(&recorded, 10);
}

#[test]
fn a_driver_that_takes_long_to_translate_kernels_leaves_the_cell_its_budget() {
    let quick = ONE.replace("sizes = [\"600K\"]", "sizes = [\"999\"]\nbudget = \"1s\"");
    let quick = quick.replace("iterations = 2", "iterations = { min = 6, max = 6 }");
    let bench = bench(&quick).with("RAILGAUGE_SHIM_TRANSLATION_MS", "600");
    bench.run("--device cuda").must_exit(20);
    let recorded = bench.recorded();
    all_is_right(&recorded, 2);
    for cell in crate::harness::done(&recorded) {
        assert_eq!(cell.iterations, 6, "cell {}", cell.cell);
    }
}

#[test]
fn a_flipped_bit_in_gpu_memory_is_found_with_rank_offset_and_bits() {
    let bench = bench(ONE);
    bench
        .run("--device cuda --inject flip:rank=1,iteration=1,byte=4099,bit=6")
        .must_exit(22);
    let finding = bench.the_finding(FindingKind::Corruption);
    assert_eq!(finding.place.ranks, [1]);
    assert!(
        finding.sentence.contains("element 1024 at byte 4096"),
        "{}",
        finding.sentence
    );
    assert!(
        finding.sentence.contains("bit 30 flipped"),
        "{}",
        finding.sentence
    );
}
