//! Recorded runs as they lie on disk: complete, cut off, damaged. Reading and judging one never panics.

use std::fs;
use std::path::Path;

use judge::findings::judge;
use proptest::prelude::*;
use record::units::{Bytes, Nanos};
use record::{
    Algorithm, Cell, CellDone, Collective, DType, DecisionRule, DeviceKind, EndReason, Engine, Event,
    HostRecord, LinkTraffic, Load, LoadError, LossCause, Lost, Placement, RankRecord, Recorded, ReduceOp,
    Reference, Run, SCHEMA, Sample, Stalled, StopReason, Stuck, TestRecord, TransportKind, Verdict, files,
};

/// Two ranks, two rails, eight iterations: small enough to cut at every byte.
fn run() -> Run {
    let cell = |id: u32| Cell {
        id,
        test: "rails".into(),
        slot: id,
        load: Load::Alone,
        collective: Collective::AllReduce,
        algorithm: Algorithm::Ring,
        ranks: vec![0, 1],
        root: 0,
        rails: vec![format!("rail{id}")],
        flows: 1,
        source_port: None,
        transport: TransportKind::Tcp,
        device: DeviceKind::Host,
        size: Bytes(1 << 20),
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
    Run {
        schema: SCHEMA,
        version: "0.1.0".into(),
        suite: "small".into(),
        description: String::new(),
        started: "2026-11-14T23:50:12Z".into(),
        seed: 1,
        command: vec!["railgauge".into(), "run".into(), "small".into()],
        pattern_seed: None,
        started_as: None,
        launch: "local threads".into(),
        hosts: vec![HostRecord {
            name: "here".into(),
            cores: 2,
            kernel: "6.1".into(),
            machine: None,
        }],
        ranks: (0..2)
            .map(|rank| RankRecord {
                rank,
                host: "here".into(),
                pid: 1,
                device: DeviceKind::Host,
                rails: vec![],
                gpu: None,
            })
            .collect(),
        reach: Vec::new(),
        nccl: None,
        timer_ns: Nanos(20),
        clocks: vec![],
        rule: DecisionRule::default(),
        tests: vec![TestRecord {
            name: "rails".into(),
            kind: record::TestKind::Rails,
            references: vec![Reference::Peers { margin: 0.25 }],
            missing_references: vec![],
            warmup: 1,
            min_iterations: 6,
            max_iterations: 8,
            tight: 0.05,
            budget: Nanos::from_secs(1),
            verify_every: 1,
            adaptive: false,
        }],
        cells: vec![cell(0), cell(1)],
        untested: vec![],
        placement: Vec::new(),
        miscabled: Vec::new(),
        unused: Vec::new(),
        injected: vec![],
    }
}

fn lines() -> Vec<String> {
    let mut events = Vec::new();
    for cell in 0..2 {
        for iter in 0..8 {
            for rank in 0..2 {
                let ns = 1_000_000 + u64::from(iter * 1000 + rank * 10);
                events.push(Event::Sample(Sample {
                    cell,
                    round: 0,
                    iter,
                    rank,
                    ns,
                    wait_ns: ns / 2,
                    late_ns: 0,
                }));
            }
        }
        let link = |from, to| LinkTraffic {
            from,
            to,
            rail: Some(format!("rail{cell}")),
            bytes: Bytes(1 << 20),
        };
        events.push(Event::CellDone(CellDone {
            cell,
            round: 0,
            iterations: 8,
            verified: 8,
            stop: StopReason::Iterations,
            max_skew_ns: Nanos(50),
            unseen_skew_ns: None,
            planned: vec![link(0, 1), link(1, 0)],
            moved: vec![link(1, 0), link(0, 1)],
            flows: Vec::new(),
            tcp: Vec::new(),
            streams: Vec::new(),
            probes: Vec::new(),
        }));
    }
    events.push(Event::End {
        reason: EndReason::Finished,
        at: "2026-11-14T23:51:00Z".into(),
    });
    events
        .iter()
        .map(|event| serde_json::to_string(event).unwrap())
        .collect()
}

fn write(folder: &Path, samples: &[u8]) {
    fs::write(folder.join(files::RUN), serde_json::to_vec(&run()).unwrap()).unwrap();
    fs::write(folder.join(files::SAMPLES), samples).unwrap();
}

fn render_all(recorded: &Recorded) -> u8 {
    let judgement = judge(recorded);
    for writer in railgauge_report::WRITERS {
        assert!(!writer.render(recorded, &judgement).unwrap().is_empty());
    }
    assert!(
        !railgauge_report::terminal::summary(
            &judgement,
            Path::new("x"),
            railgauge_report::terminal::Page::terminal(true)
        )
        .is_empty()
    );
    judgement.exit_code
}

#[test]
fn a_run_cut_off_at_any_byte_is_still_read_judged_and_reported() {
    let folder = tempfile::tempdir().unwrap();
    let text = lines().join("\n") + "\n";
    let (mut last_samples, last_line) = (0, text.trim_end().len());
    for cut in 0..=text.len() {
        write(folder.path(), &text.as_bytes()[..cut]);
        let recorded = Recorded::read(folder.path()).unwrap_or_else(|error| panic!("cut at {cut}: {error}"));
        assert!(
            recorded.samples.len() >= last_samples,
            "cut at {cut} lost a sample"
        );
        last_samples = recorded.samples.len();
        let expected = if cut < last_line { 20 } else { 0 };
        let judgement = judge(&recorded);
        assert_eq!(
            judgement.exit_code, expected,
            "cut at {cut}: {}",
            judgement.summary
        );
        if cut % 16 == 0 {
            render_all(&recorded);
        }
    }
    assert_eq!(last_samples, 32);
}

#[test]
fn a_damaged_line_in_the_middle_is_an_error_that_names_it() {
    let folder = tempfile::tempdir().unwrap();
    let mut lines = lines();
    lines[10] = lines[10].replace("\"ns\"", "\"n");
    write(folder.path(), (lines.join("\n") + "\n").as_bytes());
    let error = Recorded::read(folder.path()).unwrap_err();
    assert!(matches!(error, LoadError::Parse { line: 11, .. }), "{error}");
    assert!(error.to_string().contains("samples.jsonl, line 11"), "{error}");
}

#[test]
fn a_damaged_line_is_named_right_in_a_file_of_many_megabytes() {
    let folder = tempfile::tempdir().unwrap();
    let mut many: Vec<String> = (0..30_000).map(|_| lines()[0].clone()).collect();
    many[29_000] = "{".into();
    write(folder.path(), (many.join("\n") + "\n").as_bytes());
    let error = Recorded::read(folder.path()).unwrap_err();
    assert!(matches!(error, LoadError::Parse { line: 29_001, .. }), "{error}");
}

#[test]
fn a_run_from_the_future_says_which_tool_to_use() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), b"");
    let newer = serde_json::to_string(&run())
        .unwrap()
        .replace("\"schema\":1", "\"schema\":99");
    fs::write(folder.path().join(files::RUN), newer).unwrap();
    let error = Recorded::read(folder.path()).unwrap_err().to_string();
    assert!(error.contains("use a newer one"), "{error}");
}

#[test]
fn a_run_killed_before_its_first_sample_is_inconclusive() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), b"");
    fs::remove_file(folder.path().join(files::SAMPLES)).unwrap();
    let recorded = Recorded::read(folder.path()).unwrap();
    let judgement = judge(&recorded);
    assert!(matches!(judgement.verdict, Verdict::Inconclusive(_)));
    assert_eq!(render_all(&recorded), 20);
}

/// Events with every number and name a record could hold.
fn any_event() -> impl Strategy<Value = Event> {
    let number = || prop_oneof![0u32..4, Just(u32::MAX)];
    let long = prop_oneof![0u64..4, Just(u64::MAX), 1_000_000u64..2_000_000];
    let sample = (number(), 0u16..3, 0u32..9, 0u32..3, long.clone(), long.clone()).prop_map(
        |(cell, round, iter, rank, ns, wait_ns)| {
            Event::Sample(Sample {
                cell,
                round,
                iter,
                rank,
                ns,
                wait_ns,
                late_ns: ns,
            })
        },
    );
    let done = (number(), 0u16..3, number(), long.clone(), long.clone()).prop_map(
        |(cell, round, count, planned, moved)| {
            let link = |bytes| {
                vec![LinkTraffic {
                    from: 0,
                    to: 1,
                    rail: None,
                    bytes: Bytes(bytes),
                }]
            };
            Event::CellDone(CellDone {
                cell,
                round,
                iterations: count,
                verified: count,
                stop: StopReason::Tight,
                max_skew_ns: Nanos(planned),
                unseen_skew_ns: None,
                planned: link(planned),
                moved: link(moved),
                flows: Vec::new(),
                tcp: Vec::new(),
                streams: Vec::new(),
                probes: Vec::new(),
            })
        },
    );
    let lost = (number(), proptest::option::of(0u32..3), ".*").prop_map(|(rank, cell, text)| {
        Event::Lost(Lost {
            rank,
            host: text.clone(),
            cell,
            doing: text.clone(),
            reason: text,
            cause: LossCause::Unclear,
        })
    });
    let not_run = (0u32..3, ".*").prop_map(|(cell, reason)| Event::NotRun { cell, reason });
    let stuck = (number(), "rail[01]", 0u64..3, 0u32..4).prop_map(|(to, rail, bytes, retransmits)| Stuck {
        to,
        rail,
        bytes: Bytes(bytes),
        retransmits,
    });
    let stuck = proptest::collection::vec(stuck, 0..4);
    let dark = proptest::collection::vec("rail[01]", 0..2);
    let broke = proptest::option::of(".*");
    let stalled = (
        number(),
        0u32..4,
        proptest::option::of(number()),
        stuck,
        dark,
        broke,
    )
        .prop_map(|(rank, cell, waiting_for, stuck, no_carrier, broke)| {
            Event::Stalled(Stalled {
                rank,
                cell,
                step: "step".to_string(),
                waiting_for,
                waited_ns: Nanos(1),
                stuck,
                no_carrier,
                broke,
            })
        });
    prop_oneof![20 => sample, 4 => done, 1 => lost, 1 => not_run, 2 => stalled]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn garbage_between_the_lines_is_an_error_and_never_a_panic(garbage in "[^\n]{0,60}", at in 0usize..30) {
        let folder = tempfile::tempdir().unwrap();
        let mut lines = lines();
        lines.insert(at, garbage.clone());
        write(folder.path(), (lines.join("\n") + "\n").as_bytes());
        match Recorded::read(folder.path()) {
            Ok(recorded) => _ = render_all(&recorded),
            Err(LoadError::Parse { line, .. }) => prop_assert_eq!(line, at + 1),
            Err(error) => return Err(TestCaseError::fail(error.to_string())),
        }
    }

    #[test]
    fn events_in_any_order_with_any_numbers_are_judged(events in proptest::collection::vec(any_event(), 0..300)) {
        let mut recorded = Recorded::new(run());
        for event in events {
            match event {
                Event::Sample(sample) => recorded.samples.push(sample),
                event => recorded.events.push(event),
            }
        }
        render_all(&recorded);
    }
}
