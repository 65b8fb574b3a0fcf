//! How long it takes to judge a run of 2,048 nodes with 8 rails each and to write its page, and how large that is.
//!
//! `cargo bench --bench report [-- PAGE]`. A simulated fabric with 24 slow links and 20 nodes whose NICs have other firmware; every
//! node sends to two others on every rail. The aim is 3 s to write and 5 MB; the last line says whether it is met. PAGE is where the
//! page is put, for whoever wants to look at it.

use std::time::Instant;

use judge::findings::{judge, suspects};
use plan::twin::{Noise, Shape, SlowLink, Twin, TwinRun, clos, random_faults};
use record::units::{Bytes, Nanos};
use record::{
    Algorithm, Cell, Collective, DType, DecisionRule, DeviceKind, Engine, Fact, Inventory, InventoryPart,
    Load, NodeInventory, PartClass, Placement, Recorded, ReduceOp, Reference, Run, SCHEMA, SpecRow,
    TestRecord, TransportKind, Verdict, files,
};
use report::WRITERS;
use topology::Fabric;
use topology::graph::Graph;

const FABRIC: &str = "2048x8";
const FAULTS: usize = 24;
const SEED: u64 = 1;
/// How far away the receivers of a node are: behind other leaves.
const STRIDES: [u32; 2] = [97, 1031];

const SECONDS: f64 = 3.0;
const MEGABYTES: f64 = 5.0;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Cargo passes --bench along.
    let wanted = std::env::args().skip(1).find(|word| word != "--bench");
    let recorded = record()?;
    println!(
        "{FABRIC}: {} cells, {} samples, {FAULTS} slow links",
        recorded.run.cells.len(),
        recorded.samples.len()
    );

    let start = Instant::now();
    let judgement = judge(&recorded);
    println!(
        "judged     {:.3} s: {} findings, {} cells failed",
        start.elapsed().as_secs_f64(),
        judgement.findings.len(),
        judgement
            .cells
            .iter()
            .filter(|cell| matches!(cell.verdict, Verdict::Fail(_)))
            .count()
    );

    let mut is_met = false;
    for writer in WRITERS.iter().filter(|writer| writer.is_wanted(&judgement)) {
        let start = Instant::now();
        let text = writer.render(&recorded, &judgement)?;
        let (took, size) = (start.elapsed().as_secs_f64(), text.len() as f64 / 1e6);
        println!("{:<15} {took:.3} s, {size:.2} MB", writer.file());
        if writer.file() == files::HTML {
            is_met = took < SECONDS && size < MEGABYTES;
            if let Some(path) = &wanted {
                std::fs::write(path, text)?;
            }
        }
    }
    println!(
        "{}: the aim for {} is {SECONDS} s and {MEGABYTES} MB",
        if is_met { "OK" } else { "MISSED" },
        files::HTML
    );
    Ok(())
}

/// The run, what looked slow measured again as a runner does.
fn record() -> Result<Recorded, Box<dyn std::error::Error>> {
    let shape: Shape = FABRIC.parse()?;
    let (topology, ranks) = clos(&shape);
    let graph = Graph::of(&topology, &ranks)?;
    let slow = random_faults(&graph, FAULTS, SEED);
    let twin = Twin::new(&graph, &slow, Noise::recorded(), SEED);
    let fabric = Fabric::of(&topology);
    let run = plan(&shape, &graph, &twin, &fabric, &slow);
    let cells = run.cells.clone();
    let rounds = run.rule.remeasure;
    let mut bench = TwinRun::new(twin, run, Some(topology.to_toml()));
    bench.measure_round(&cells, 0);
    for round in 1..=rounds {
        let suspected: std::collections::HashSet<u32> =
            suspects(bench.recorded_so_far()).into_iter().collect();
        let again: Vec<Cell> = cells
            .iter()
            .filter(|cell| suspected.contains(&cell.id))
            .cloned()
            .collect();
        bench.measure_round(&again, round);
    }
    let (mut recorded, _) = bench.end("2026-11-14T23:51:00Z".to_string());
    recorded.inventory = Some(inventory(&shape));
    Ok(recorded)
}

/// Every node sends to two others on every rail, one flow at a time, so that nothing is slow but what is made slow.
fn plan(shape: &Shape, graph: &Graph, twin: &Twin<'_>, fabric: &Fabric, slow: &[SlowLink]) -> Run {
    let mut cells: Vec<Cell> = Vec::new();
    for stride in STRIDES {
        for rail in 0..shape.rails {
            for from in 0..shape.hosts {
                let to = (from + stride) % shape.hosts;
                let cell = cell(cells.len() as u32, [from, to], format!("rail{rail}"));
                let port = cell.port_of(from, 0).unwrap_or_default();
                let path = twin.route(from, to, &cell.rails[0], port).unwrap_or_default();
                let path = path.into_iter().map(|link| graph.name(link)).collect();
                cells.push(Cell { path, ..cell });
            }
        }
    }
    Run {
        schema: SCHEMA,
        version: record::VERSION.into(),
        suite: "fleet".into(),
        description: "every node sends to two others on every rail".into(),
        started: "2026-11-14T23:50:12Z".into(),
        seed: SEED,
        command: ["railgauge", "run", "fleet"].map(String::from).to_vec(),
        pattern_seed: None,
        started_as: None,
        launch: format!("simulated: {} hosts", shape.hosts),
        hosts: fabric.hosts.clone(),
        ranks: fabric.ranks.clone(),
        reach: Vec::new(),
        nccl: None,
        timer_ns: Nanos(20),
        clocks: Vec::new(),
        rule: DecisionRule::default(),
        tests: vec![TestRecord {
            name: "pairs".into(),
            kind: record::TestKind::Pairs,
            references: vec![expected(shape)],
            missing_references: Vec::new(),
            warmup: 2,
            min_iterations: 10,
            max_iterations: 20,
            tight: 0.02,
            budget: Nanos::from_secs(1),
            verify_every: 1,
            adaptive: false,
        }],
        cells,
        untested: Vec::new(),
        placement: Vec::new(),
        miscabled: Vec::new(),
        unused: Vec::new(),
        injected: slow.iter().map(|slow| slow.injected(graph)).collect(),
    }
}

/// What a cable of this fabric carries.
fn expected(shape: &Shape) -> Reference {
    Reference::Spec(SpecRow {
        id: "made-to-order".into(),
        title: "a cable of the simulated fabric".into(),
        rate: shape.rate,
        tolerance: 0.15,
        algorithm: None,
        from_size: Bytes(0),
        scale: "one flow at a time".into(),
        source: "this benchmark".into(),
        line_mbit: None,
    })
}

fn cell(id: u32, ranks: [u32; 2], rail: String) -> Cell {
    Cell {
        id,
        test: "pairs".into(),
        slot: id,
        load: Load::Alone,
        collective: Collective::PointToPoint,
        algorithm: Algorithm::Direct,
        ranks: ranks.to_vec(),
        root: 0,
        rails: vec![rail],
        flows: 1,
        source_port: Some(20_000),
        transport: TransportKind::Tcp,
        device: DeviceKind::Host,
        size: Bytes(64 << 20),
        dtype: DType::F32,
        op: ReduceOp::Sum,
        placement: Placement::OutOfPlace,
        engine: Engine::Ours,
        batch: 1,
        verbs: None,
        path: Vec::new(),
        to_rail: None,
        group: None,
        streams: None,
        probes: None,
        line_mbit: None,
    }
}

/// Eight NICs in every node; every hundredth node has other firmware on one of them.
fn inventory(shape: &Shape) -> Inventory {
    let nic = |node: u32, rail: u32| {
        let is_odd = node % 100 == 7 && rail == 3;
        let firmware = if is_odd { "28.39.1002" } else { "28.43.2026" };
        InventoryPart::new(PartClass::Nic, format!("mlx5_{rail}"))
            .with("board", Fact::Value("MT_0000000838".into()))
            .with("type", Fact::Value("MT4129".into()))
            .with("firmware", Fact::Value(firmware.into()))
    };
    let node = |node: u32| NodeInventory {
        node: format!("h{node}"),
        parts: (0..shape.rails).map(|rail| nic(node, rail)).collect(),
    };
    Inventory {
        schema: SCHEMA,
        nodes: (0..shape.hosts).map(node).collect(),
        ..Inventory::default()
    }
}
