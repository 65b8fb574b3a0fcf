//! How long it takes to read, judge and render a run of one million samples, and in how much memory.
//!
//! `cargo bench --bench judge`. The aim is 2 s and 500 MB; the last line says whether it is met.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::time::Instant;

use judge::findings::judge;
use record::units::{Bytes, Nanos};
use record::{
    Algorithm, Cell, CellDone, Collective, DType, DecisionRule, DeviceKind, EndReason, Engine, Event,
    HostRecord, LinkTraffic, Load, Placement, RankRecord, Recorded, ReduceOp, Reference, Run, SCHEMA, Sample,
    StopReason, TestRecord, TransportKind, files,
};

const CELLS: u32 = 500;
const RANKS: u32 = 4;
const ITERATIONS: u32 = 500;
const RAILS: u32 = 5;

const SECONDS: f64 = 2.0;
const MEGABYTES: f64 = 500.0;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    record(folder.path())?;
    let size = std::fs::metadata(folder.path().join(files::SAMPLES))?.len();
    println!(
        "{} samples, {:.0} MB of samples.jsonl",
        CELLS * RANKS * ITERATIONS,
        size as f64 / 1e6
    );

    let start = Instant::now();
    let recorded = Recorded::read(folder.path())?;
    let read = start.elapsed();
    let judgement = judge(&recorded);
    let judged = start.elapsed();
    report::write_all(folder.path(), &recorded, &judgement)?;
    let text = report::terminal::summary(&judgement, folder.path(), report::terminal::Page::terminal(false));
    let took = start.elapsed().as_secs_f64();

    println!("{text}");
    println!("read    {:.3} s", read.as_secs_f64());
    println!("judge   {:.3} s", (judged - read).as_secs_f64());
    println!("render  {:.3} s", took - judged.as_secs_f64());
    let memory = peak_megabytes();
    let is_met = took < SECONDS && memory.is_some_and(|memory| memory < MEGABYTES);
    println!(
        "{}: {took:.3} s of {SECONDS} s, peak {} of {MEGABYTES} MB",
        if is_met { "OK" } else { "MISSED" },
        memory.map_or("unknown".into(), |memory| format!("{memory:.0}"))
    );
    Ok(())
}

/// The largest amount of memory this process ever held; writing the record streams, so it is reading and judging.
fn peak_megabytes() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: f64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib * 1024.0 / 1e6)
}

/// Writes a run with one slow rail, so that comparisons, correction and findings all have work to do.
fn record(folder: &Path) -> std::io::Result<()> {
    let run = plan();
    serde_json::to_writer(File::create(folder.join(files::RUN))?, &run)?;
    let mut out = BufWriter::new(File::create(folder.join(files::SAMPLES))?);
    let mut noise = 1u64;
    let mut line = |event: Event| -> std::io::Result<()> {
        serde_json::to_writer(&mut out, &event)?;
        out.write_all(b"\n")
    };
    for cell in &run.cells {
        let slow = if cell.rails[0] == "rail3" { 2 } else { 1 };
        for i in 0..ITERATIONS {
            for rank in 0..RANKS {
                noise = noise
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                let ns = slow * (cell.size.0 + (noise >> 40) % (cell.size.0 / 10 + 1));
                let (round, iter) = ((i / (ITERATIONS / 2)) as u16, i % (ITERATIONS / 2));
                line(Event::Sample(Sample {
                    cell: cell.id,
                    round,
                    iter,
                    rank,
                    ns,
                    wait_ns: ns / 2,
                    late_ns: 90,
                }))?;
            }
        }
        let link = |from: u32| LinkTraffic {
            from,
            to: (from + 1) % RANKS,
            rail: cell.rails.first().cloned(),
            bytes: Bytes(cell.size.0),
        };
        for round in 0..2 {
            line(Event::CellDone(CellDone {
                cell: cell.id,
                round,
                iterations: ITERATIONS / 2,
                verified: ITERATIONS / 2,
                stop: StopReason::Iterations,
                max_skew_ns: Nanos(100),
                unseen_skew_ns: None,
                planned: (0..RANKS).map(link).collect(),
                moved: (0..RANKS).map(link).collect(),
                flows: Vec::new(),
                tcp: Vec::new(),
                streams: Vec::new(),
                probes: Vec::new(),
            }))?;
        }
    }
    line(Event::End {
        reason: EndReason::Finished,
        at: "2026-11-14T23:51:00Z".into(),
    })?;
    out.flush()
}

fn plan() -> Run {
    let cell = |id: u32| Cell {
        id,
        test: "rails".into(),
        slot: id,
        load: if id.is_multiple_of(2) {
            Load::Alone
        } else {
            Load::Together
        },
        collective: Collective::AllReduce,
        algorithm: Algorithm::Ring,
        ranks: (0..RANKS).collect(),
        root: 0,
        rails: vec![format!("rail{}", id / 2 % RAILS)],
        flows: 1 + (id / 2 / RAILS / 10) as u16,
        source_port: None,
        transport: TransportKind::Tcp,
        device: DeviceKind::Host,
        size: Bytes(1024 << (id / 2 / RAILS % 10)),
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
    };
    let rank = |rank: u32| RankRecord {
        rank,
        host: format!("node{rank}"),
        pid: 1,
        device: DeviceKind::Host,
        rails: Vec::new(),
        gpu: None,
    };
    Run {
        schema: SCHEMA,
        version: record::VERSION.into(),
        suite: "million".into(),
        description: "one million samples".into(),
        started: "2026-11-14T23:50:12Z".into(),
        seed: 1,
        command: ["railgauge", "run", "million"].map(String::from).to_vec(),
        pattern_seed: None,
        started_as: None,
        launch: "local threads".into(),
        hosts: (0..RANKS)
            .map(|r| HostRecord {
                name: format!("node{r}"),
                cores: 8,
                kernel: "6.1".into(),
                machine: None,
            })
            .collect(),
        ranks: (0..RANKS).map(rank).collect(),
        reach: Vec::new(),
        nccl: None,
        timer_ns: Nanos(20),
        clocks: Vec::new(),
        rule: DecisionRule::default(),
        tests: vec![TestRecord {
            name: "rails".into(),
            kind: record::TestKind::Rails,
            references: vec![Reference::Peers { margin: 0.25 }],
            missing_references: Vec::new(),
            warmup: 5,
            min_iterations: 10,
            max_iterations: ITERATIONS,
            tight: 0.02,
            budget: Nanos::from_secs(10),
            verify_every: 1,
            adaptive: false,
        }],
        cells: (0..CELLS).map(cell).collect(),
        untested: Vec::new(),
        placement: Vec::new(),
        miscabled: Vec::new(),
        unused: Vec::new(),
        injected: Vec::new(),
    }
}
