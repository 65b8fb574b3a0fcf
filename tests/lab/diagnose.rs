//! `railgauge diagnose` on real sockets: the cable is named, a healthy fabric is not accused, a focus is kept.

use std::path::PathBuf;

use record::{Event, FindingKind, Judgement, LinkState, PathPlacement, Recorded, SuspectKind};

use crate::harness::{TestLab, labs_can_be_made};
use crate::verdict::{check_slow_parts, is_quiet_machine};

/// Three leaves, so that what goes up to a spine does not always come down to the same leaf.
const SHAPE: [&str; 7] = ["6x2", "--leaves", "3", "--spines", "2", "--rate", "200mbit"];

/// Runs `diagnose` with these arguments: what it came to, its exit code, and the record.
fn diagnose(lab: &TestLab, arguments: &[&str]) -> (Judgement, Option<i32>, Recorded) {
    let folder =
        PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("diagnose-{}-{}", lab.name, arguments.len()));
    let _ = std::fs::remove_dir_all(&folder);
    let out = folder.to_str().unwrap();
    let output = lab.run(
        "run",
        &[&["--", "diagnose", "--json", "--out", out], arguments].concat(),
    );
    let said = String::from_utf8_lossy(&output.stdout);
    let judgement = serde_json::from_str(&said)
        .unwrap_or_else(|error| panic!("{error}: {said}{}", String::from_utf8_lossy(&output.stderr)));
    (judgement, output.status.code(), Recorded::read(&folder).unwrap())
}

#[test]
fn a_degraded_cable_between_switches_is_named_with_its_direction_and_nothing_else_is() {
    if !labs_can_be_made() {
        return;
    }
    let lab = TestLab::up(&SHAPE);
    lab.does("fault", &["slow:rail1-leaf2/u1=60%"]);
    let (judgement, code, recorded) = diagnose(&lab, &[]);
    check_slow_parts(&judgement, code, &["rail1-leaf2/u1->rail1-spine1/d2"], 0);
    assert!(
        recorded.run.cells.iter().all(|cell| !cell.path.is_empty()),
        "every path is known and recorded"
    );
    let Some(finding) = judgement.findings.first() else {
        return;
    };
    assert_eq!(finding.kind, FindingKind::SlowLink);
    let suspect = &finding.suspects[0];
    assert_eq!(suspect.part, "rail1-leaf2/u1->rail1-spine1/d2");
    assert_eq!(
        (suspect.kind, suspect.direction.as_deref()),
        (SuspectKind::FabricCable, Some("away from the host"))
    );
    assert_eq!(suspect.cable.as_deref(), Some("rail1-leaf2-spine1"));
    let repeat = finding.repeat.as_deref().unwrap();
    assert!(
        repeat.ends_with("--suspect rail1-leaf2-spine1 --rail rail1"),
        "{repeat}"
    );
    let slow = judgement
        .coverage
        .links
        .iter()
        .filter(|link| link.state == LinkState::Slow);
    assert_eq!(slow.count(), 1);
}

/// Two cables lose one packet in a hundred: one between switches, one from a host, whose own TCP must not know it from anything but missing answers.
#[test]
fn cables_that_lose_packets_are_named_with_their_direction_and_share() {
    if !labs_can_be_made() {
        return;
    }
    let lab = TestLab::up(&SHAPE);
    lab.does("fault", &["loss:rail1-spine0/d1=1%", "loss:h5/rail0=1%"]);
    // Which flows meet at the cables is chosen by the seed. Where all that lost packets come from one host, that host explains them as well (docs/loss.md).
    let (judgement, code, recorded) = diagnose(&lab, &["--seed", "7"]);
    assert_eq!(code, Some(12), "{}", judgement.summary);
    let of_losses = || {
        judgement
            .findings
            .iter()
            .filter(|finding| finding.kind == FindingKind::LossyLink)
    };
    let mut parts: Vec<&str> = of_losses()
        .map(|finding| finding.suspects[0].part.as_str())
        .collect();
    parts.sort_unstable();
    assert_eq!(
        parts,
        ["h5/rail0->rail0-leaf2/p1", "rail1-spine0/d1->rail1-leaf1/u0"],
        "{:#?}",
        judgement.findings
    );
    for finding in of_losses() {
        assert!(
            finding.sentence.contains("of its packets ["),
            "{}",
            finding.sentence
        );
        assert!(finding.suspects[0].confidence > 0.5, "{finding:#?}");
    }
    let counted = recorded.events.iter().filter_map(|event| match event {
        Event::CellDone(done) => Some(done.tcp.len()),
        _ => None,
    });
    assert!(
        counted.min() >= Some(1),
        "what TCP counted is recorded with every cell"
    );
}

#[test]
fn a_degraded_cable_of_a_fabric_that_places_every_connection_anew_is_named_by_the_paths_they_took() {
    if !labs_can_be_made() {
        return;
    }
    let lab = TestLab::up(&["6x1", "--leaves", "3", "--spines", "2", "--rate", "200mbit"]);
    lab.does("fault", &["unpinned:all", "slow:rail0-leaf2/u1=60%"]);
    let (judgement, code, recorded) = diagnose(&lab, &[]);
    check_slow_parts(&judgement, code, &["rail0-leaf2/u1->rail0-spine1/d2"], 0);
    let placed = recorded.run.placement.iter().map(|switch| switch.placement);
    assert!(
        placed
            .into_iter()
            .all(|placement| placement == PathPlacement::PerConnection)
    );
    let seen = recorded.crossed_paths();
    let between_leaves = recorded.run.cells.iter().filter(|cell| cell.path.is_empty());
    for cell in between_leaves {
        let hops = seen.get(&cell.id).unwrap_or_else(|| panic!("{cell:?}"));
        let [_, Some(spine), ..] = hops.as_slice() else {
            panic!("{hops:?}");
        };
        // Answers come from the port by which the packet came in, and one switch follows another within a connection.
        assert!(spine.link.is_some(), "{hops:?}");
    }
}

#[test]
fn a_healthy_fabric_passes_with_every_cable_loaded_in_both_directions() {
    if !labs_can_be_made() {
        return;
    }
    let lab = TestLab::up(&SHAPE);
    let (judgement, code, _) = diagnose(&lab, &[]);
    check_slow_parts(&judgement, code, &[], 0);
    let links = &judgement.coverage.links;
    assert_eq!(links.len(), 2 * 2 * (6 + 3 * 2));
    for link in links.iter().filter(|_| is_quiet_machine()) {
        assert_eq!(link.state, LinkState::Healthy, "{link:?}");
        assert!(link.share.unwrap() > 0.85 && link.flows >= 2, "{link:?}");
    }
}

#[test]
fn a_focus_measures_flows_of_the_suspect_only_and_leaves_the_rest_untested() {
    if !labs_can_be_made() {
        return;
    }
    let lab = TestLab::up(&SHAPE);
    lab.does("fault", &["slow:rail0-leaf0/p1=50%"]);
    let (judgement, code, recorded) = diagnose(&lab, &["--suspect", "h1", "--rail", "rail0"]);
    check_slow_parts(&judgement, code, &["rail0-leaf0/p1->h1/rail0"], 0);
    assert!(recorded.run.cells.iter().all(|cell| cell.rails == ["rail0"]));
    let untested = judgement
        .coverage
        .untested
        .iter()
        .find(|gap| gap.what.contains("directed links"));
    assert!(untested.is_some(), "{:?}", judgement.coverage.untested);

    let nobody = lab.run("run", &["--", "diagnose", "--suspect", "h11"]);
    assert_eq!(nobody.status.code(), Some(2));
    let said = String::from_utf8_lossy(&nobody.stderr);
    assert!(
        said.contains("no such host, switch or cable") && said.contains("did you mean"),
        "{said}"
    );
}
