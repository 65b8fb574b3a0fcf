//! What is not about speed: wrong data, lost ranks, runs cut short, strange records.

use super::kinds;
use crate::findings::fixture::{Fixture, spec};
use crate::findings::{judge, suspects};
use record::units::Nanos;
use record::{
    Corruption, EndReason, Event, FindingKind, LossCause, Lost, Reference, Stalled, UnusedCableRecord,
    Verdict,
};

#[test]
fn wrong_data_names_rank_place_and_bits() {
    let mut recorded = Fixture::rails(2).recorded();
    let wrong = |rank, iter| {
        Event::Corruption(Corruption {
            cell: 3,
            round: 0,
            iter,
            rank,
            element: 513,
            byte_offset: 2053,
            expected_bits: "0x40400000".into(),
            found_bits: "0x40400100".into(),
            wrong_elements: 1,
        })
    };
    recorded.events.extend([wrong(1, 7), wrong(1, 8), wrong(2, 7)]);
    let judgement = judge(&recorded);
    assert_eq!(kinds(&judgement), [FindingKind::Corruption; 2]);
    assert_eq!(judgement.exit_code, 22);
    let finding = &judgement.findings[0];
    for part in [
        "rank 1 (node01)",
        "iteration 7",
        "element 513",
        "byte 2053",
        "0x40400100",
        "bit 8 flipped",
        "16 MiB",
    ] {
        assert!(finding.sentence.contains(part), "{part}: {}", finding.sentence);
    }
    assert!(
        finding
            .evidence
            .iter()
            .any(|line| line.contains("wrong on rank 2")),
        "{:?}",
        finding.evidence
    );
    assert_eq!(finding.place.rail.as_deref(), Some("rail1"));
    assert!(matches!(judgement.cells[3].verdict, Verdict::Fail(_)));
}

#[test]
fn a_lost_rank_is_named_with_those_who_waited_for_it() {
    let mut recorded = Fixture::rails(2).recorded();
    recorded.events.retain(|event| match event {
        Event::CellDone(done) => done.cell < 7,
        Event::End { .. } => false,
        _ => true,
    });
    recorded
        .samples
        .retain(|sample| sample.cell < 7 || sample.iter < 5);
    let stalled = |rank, waiting_for| {
        Event::Stalled(Stalled {
            rank,
            cell: 7,
            step: "step 3 of 6 (receive)".into(),
            waiting_for: Some(waiting_for),
            waited_ns: Nanos(2_100_000_000),
            stuck: Vec::new(),
            no_carrier: Vec::new(),
            broke: None,
        })
    };
    recorded.events.extend([stalled(3, 2), stalled(0, 3)]);
    let hang = judge(&recorded);
    assert_eq!(
        kinds(&hang),
        [FindingKind::LostRank, FindingKind::IncompleteCoverage]
    );
    assert!(
        hang.findings[0]
            .sentence
            .contains("all ranks waited for rank 2 (node02)"),
        "{}",
        hang.findings[0].sentence
    );
    recorded.events.push(Event::Lost(Lost {
        rank: 2,
        host: "node02".into(),
        cell: Some(7),
        doing: "run an iteration".into(),
        reason: "its process was killed by signal 9".into(),
        cause: LossCause::Ended,
    }));
    recorded.events.push(Event::End {
        reason: EndReason::Lost,
        at: "2026-11-14T23:51:00Z".into(),
    });
    let judgement = judge(&recorded);
    assert_eq!(judgement.exit_code, 21);
    let sentence = &judgement.findings[0].sentence;
    for part in [
        "rank 2 (node02) lost after iteration 4",
        "killed by signal 9",
        "waited for rank 2",
        "2.10 s",
    ] {
        assert!(sentence.contains(part), "{part}: {sentence}");
    }
}

#[test]
fn an_interrupted_run_is_incomplete_and_judges_what_is_there() {
    let mut recorded = Fixture::rails(2).recorded();
    recorded
        .events
        .retain(|event| !matches!(event, Event::CellDone(done) if done.cell > 5));
    recorded.samples.retain(|sample| sample.cell < 6);
    recorded.events.pop();
    recorded.events.push(Event::End {
        reason: EndReason::Interrupted,
        at: String::new(),
    });
    let judgement = judge(&recorded);
    assert_eq!(kinds(&judgement), [FindingKind::IncompleteCoverage]);
    assert_eq!(
        (judgement.exit_code, judgement.coverage.not_measured.len()),
        (20, 2)
    );
    assert!(
        judgement.findings[0]
            .sentence
            .starts_with("6 of 8 cells measured; the run was interrupted")
    );
    assert_eq!(judgement.cells[0].verdict, Verdict::Pass);
    assert!(matches!(judgement.cells[6].verdict, Verdict::NotRun(_)));
}

#[test]
fn a_negative_control_says_so() {
    let mut recorded = Fixture::rails(2).recorded();
    recorded.run.injected = vec!["rail1 throttled to 60 %".into()];
    assert!(judge(&recorded).summary.contains("negative control"));
}

#[test]
fn strange_numbers_are_judged_without_a_panic() {
    let mut recorded = Fixture::rails(2).recorded();
    for (i, sample) in recorded.samples.iter_mut().enumerate() {
        match i % 7 {
            0 => sample.ns = 0,
            1 => (sample.ns, sample.wait_ns) = (u64::MAX, u64::MAX),
            2 => sample.cell = u32::MAX,
            3 => sample.rank = u32::MAX,
            _ => {}
        }
    }
    for event in &mut recorded.events {
        if let Event::CellDone(done) = event {
            done.planned[0].bytes.0 = u64::MAX;
            done.moved = done.planned.clone();
            done.verified = u32::MAX;
        }
    }
    recorded.run.cells[1].ranks.clear();
    recorded.run.cells[2].id = 0;
    recorded.run.ranks.clear();
    for value in [f64::NAN, f64::INFINITY, -1.0, 0.0, 1.0] {
        recorded.run.rule.confidence = value;
        recorded.run.rule.straggler_factor = value;
        recorded.run.rule.false_positive_budget = value;
        recorded.run.tests[0].references = vec![Reference::Peers { margin: value }, spec(value, 0)];
        let judgement = judge(&recorded);
        assert_ne!(judgement.verdict, Verdict::Pass);
        suspects(&recorded);
    }
}

#[test]
fn cables_that_no_flow_takes_are_one_finding_and_no_pass() {
    let mut recorded = Fixture::rails(2).recorded();
    let unused = |cable: &str, expected| UnusedCableRecord {
        cable: cable.to_string(),
        flows: 144,
        expected,
    };
    recorded.run.unused = vec![unused("leaf0-spine1", 36.0), unused("leaf1-spine1", 30.0)];
    let judgement = judge(&recorded);
    let [finding] = judgement.findings.as_slice() else {
        panic!("{:?}", judgement.findings);
    };
    assert_eq!(finding.kind, FindingKind::UnusedCable);
    assert_eq!(finding.place.cables, ["leaf0-spine1", "leaf1-spine1"]);
    assert_eq!(
        finding.sentence,
        "no flow takes cables leaf0-spine1 and leaf1-spine1: of 144 traced flows about 30 should have taken each"
    );
    assert!(
        judgement.verdict != Verdict::Pass && judgement.exit_code == 10,
        "{:?}",
        judgement.verdict
    );
}
