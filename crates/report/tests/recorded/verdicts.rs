//! Verdicts about speed, on runs that were recorded with known faults: judged again to the byte.
//!
//! A busy machine cannot spoil a record, so exact verdicts are tested here and live labs are held to less. How each run was made
//! stands in its `run.json` (command, faults injected) and in `tests/data/runs/README.md`. `RAILGAUGE_UPDATE=1` writes
//! `findings.json` anew; look at the difference before it is kept.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use judge::findings::judge;
use railgauge_report::writer_of;
use record::{EcmpCause, Finding, FindingKind, Judgement, LinkState, Recorded, files};

fn folder(name: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/runs")).join(name)
}

/// A recorded run and its verdict, which is the kept one to the byte.
fn judged(name: &str) -> (Recorded, Judgement) {
    let folder = folder(name);
    let recorded = Recorded::read(&folder).unwrap();
    let judgement = judge(&recorded);
    let today = writer_of(files::FINDINGS)
        .unwrap()
        .render(&recorded, &judgement)
        .unwrap();
    let file = folder.join(files::FINDINGS);
    if std::env::var_os("RAILGAUGE_UPDATE").is_some() {
        fs::write(&file, &today).unwrap();
    }
    let kept = fs::read_to_string(&file).unwrap_or_default();
    assert!(
        kept == today,
        "{name}: findings.json differs from today's verdict; look at it, then RAILGAUGE_UPDATE=1 cargo test --test recorded"
    );
    (recorded, judgement)
}

fn of_kind(judgement: &Judgement, kind: FindingKind) -> Vec<&Finding> {
    let findings = judgement.findings.iter();
    findings.filter(|finding| finding.kind == kind).collect()
}

/// The exit code, and the parts that findings of this kind accuse first.
fn accused(judgement: &Judgement, kind: FindingKind) -> (u8, Vec<String>) {
    let parts = of_kind(judgement, kind).into_iter().map(Finding::part);
    (judgement.exit_code, parts.collect())
}

#[test]
fn every_recorded_run_is_judged_by_a_test_here() {
    let source = include_str!("verdicts.rs");
    let runs: BTreeSet<String> = fs::read_dir(folder(""))
        .unwrap()
        .map(|entry| entry.unwrap())
        .filter(|entry| entry.path().is_dir())
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect();
    assert!(runs.len() >= 11, "{runs:?}");
    for run in runs {
        assert!(source.contains(&format!("judged(\"{run}\")")), "{run}");
    }
}

#[test]
fn a_healthy_fabric_passes_with_every_cable_loaded_in_both_directions() {
    let (_, judgement) = judged("healthy-fabric");
    assert_eq!(
        (judgement.exit_code, judgement.findings.len()),
        (0, 0),
        "{}",
        judgement.summary
    );
    let links = &judgement.coverage.links;
    assert_eq!(links.len(), 2 * 2 * (6 + 3 * 2));
    for link in links {
        assert_eq!(link.state, LinkState::Healthy, "{link:?}");
        assert!(link.share.unwrap() > 0.85 && link.flows >= 2, "{link:?}");
    }
}

#[test]
fn a_cable_slow_in_both_directions_is_one_finding_about_the_cable() {
    let (_, judgement) = judged("slow-cable-both-directions");
    let [finding] = judgement.findings.as_slice() else {
        panic!("{:?}", judgement.findings)
    };
    assert_eq!((judgement.exit_code, finding.kind), (12, FindingKind::SlowLink));
    let suspect = &finding.suspects[0];
    assert_eq!(suspect.cable.as_deref(), Some("h3-rail1-leaf1"));
    assert!(
        suspect.is_both_directions() && suspect.confidence > 0.9,
        "{suspect:?}"
    );
}

#[test]
fn a_focus_names_the_port_and_what_it_is_ambiguous_with() {
    let (recorded, judgement) = judged("slow-port-in-focus");
    assert_eq!(judgement.exit_code, 12, "{}", judgement.summary);
    assert_eq!(judgement.findings[0].suspects[0].part, "rail0-leaf0/p1->h1/rail0");
    assert!(recorded.run.cells.iter().all(|cell| cell.rails == ["rail0"]));
    let gaps = &judgement.coverage.untested;
    assert!(
        gaps.iter().any(|gap| gap.what.contains("directed links")),
        "{gaps:?}"
    );
}

#[test]
fn other_firmware_on_one_host_is_not_joined_with_a_slow_cable_at_another() {
    let (_, judgement) = judged("firmware-beside-slow-cable");
    let slow = accused(&judgement, FindingKind::SlowLink);
    assert_eq!(slow, (12, vec!["rail1-leaf2/p1->h5/rail1".to_string()]));
    let [drift] = of_kind(&judgement, FindingKind::Drift)[..] else {
        panic!("{:?}", judgement.findings)
    };
    assert_eq!(drift.place.hosts, ["h1"]);
    let effect = judgement.drift.as_ref().unwrap().deviations[0]
        .effect
        .clone()
        .unwrap();
    assert_eq!(
        (effect.slow_with, effect.with, effect.explains),
        (0, 2, false),
        "{effect:?}"
    );
    let evidence = &of_kind(&judgement, FindingKind::SlowLink)[0].evidence;
    assert!(
        evidence.iter().all(|line| !line.contains("28.39.1002")),
        "{evidence:?}"
    );
}

#[test]
fn cables_that_are_slow_exactly_where_the_firmware_differs_are_joined_with_it() {
    let (_, judgement) = judged("firmware-explains-slow-cables");
    let effect = judgement.drift.as_ref().unwrap().deviations[0]
        .effect
        .clone()
        .unwrap();
    assert_eq!(
        (
            effect.slow_with,
            effect.with,
            effect.slow_without,
            effect.without,
            effect.explains
        ),
        (3, 3, 0, 9, true),
        "{effect:?}"
    );
    let slow = of_kind(&judgement, FindingKind::SlowLink);
    assert_eq!(slow.len(), 3);
    for finding in slow {
        assert!(
            finding.evidence.iter().any(|line| line.contains("28.39.1002")),
            "{:?}",
            finding.evidence
        );
    }
}

/// Causes and parts of the ECMP verdicts that accuse something, each finding confirmed by two rounds.
fn ecmp_faults(judgement: &Judgement) -> Vec<(EcmpCause, String)> {
    for finding in of_kind(judgement, FindingKind::EcmpImbalance) {
        assert_eq!(finding.confirmation.as_ref().map(|sure| sure.rounds), Some(2));
    }
    let faults = judgement.ecmp.iter().filter(|verdict| verdict.cause.is_fault());
    let part = |verdict: &record::EcmpVerdict| {
        let part = verdict.part.clone().or_else(|| verdict.switch.clone());
        (verdict.cause, part.unwrap_or_default())
    };
    faults.map(part).collect()
}

#[test]
fn collisions_of_a_healthy_fabric_are_expected() {
    let (_, judgement) = judged("ecmp-healthy");
    assert_eq!((judgement.exit_code, ecmp_faults(&judgement)), (0, Vec::new()));
    let is_expected = |verdict: &record::EcmpVerdict| verdict.cause == EcmpCause::ExpectedCollision;
    assert!(judgement.ecmp.iter().any(is_expected));
}

#[test]
fn a_hash_that_does_not_look_at_ports_is_polarised() {
    let (_, judgement) = judged("ecmp-hash-without-ports");
    let faults = ecmp_faults(&judgement);
    assert_eq!((judgement.exit_code, faults.len()), (11, 3), "{faults:?}");
    assert!(
        faults.iter().all(|(cause, _)| *cause == EcmpCause::Polarised),
        "{faults:?}"
    );
}

#[test]
fn a_next_hop_that_swallows_packets_is_named() {
    let (_, judgement) = judged("ecmp-dead-next-hop");
    let link = "rail0-leaf1/u1->rail0-spine1/d1".to_string();
    assert_eq!(
        (judgement.exit_code, ecmp_faults(&judgement)),
        (11, vec![(EcmpCause::DeadMember, link)])
    );
}

#[test]
fn negative_controls_are_named_and_said_to_be_controls() {
    let (recorded, judgement) = judged("throttled-loopback-rail");
    let slow = of_kind(&judgement, FindingKind::SlowRail);
    assert_eq!(
        (judgement.exit_code, slow.len()),
        (12, 1),
        "{}",
        judgement.summary
    );
    assert_eq!(slow[0].place.rail.as_deref(), Some("loop1"));
    assert_eq!(recorded.run.injected.len(), 1);

    let (_, judgement) = judged("throttled-pair");
    let slow = of_kind(&judgement, FindingKind::SlowPair);
    assert_eq!(
        (judgement.exit_code, slow.len()),
        (12, 1),
        "{}",
        judgement.summary
    );
    assert_eq!(slow[0].place.ranks, [2, 0]);

    let (_, judgement) = judged("slow-rank");
    let slow = of_kind(&judgement, FindingKind::StragglerRank);
    assert_eq!(
        (judgement.exit_code, slow.len()),
        (12, 1),
        "{}",
        judgement.summary
    );
    assert_eq!(slow[0].place.ranks, [1]);
    assert!(
        judgement.summary.contains("negative control"),
        "{}",
        judgement.summary
    );
}

#[test]
fn flows_that_a_sprayed_slow_cable_slows_down_more_or_less_accuse_no_host() {
    let (_, judgement) = judged("sprayed-slow-downlink");
    let [finding] = judgement.findings.as_slice() else {
        panic!("{:?}", judgement.findings);
    };
    assert_eq!((finding.kind, judgement.exit_code), (FindingKind::SlowLink, 12));
    assert_eq!(finding.place.switch.as_deref(), Some("rail0-leaf2"));
    let suspected: Vec<&str> = judgement
        .coverage
        .links
        .iter()
        .filter(|link| matches!(link.state, LinkState::Suspected | LinkState::Slow))
        .map(|link| link.link.as_str())
        .collect();
    // How slow flows over these are depends on how many there are at a time; nothing else is needed to explain them.
    let downlinks = [
        "rail0-spine0/d4->rail0-leaf2/u0",
        "rail0-spine0/d5->rail0-leaf2/u1",
        "rail0-spine1/d4->rail0-leaf2/u2",
        "rail0-spine1/d5->rail0-leaf2/u3",
    ];
    assert_eq!(suspected, downlinks);
}
