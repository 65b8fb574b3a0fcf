//! Suite `probe` on real sockets: what loses packets is named, what holds them up too, and the record says what was sent.

use record::{Event, FindingKind, Judgement, Recorded};

use crate::harness::{TestLab, labs_can_be_made};
use crate::verdict::is_quiet_machine;

/// Three leaves, so that what goes up to a spine does not always come down to the same leaf.
const SHAPE: [&str; 7] = ["6x2", "--leaves", "3", "--spines", "2", "--rate", "200mbit"];

/// The shipped suite for as long as a test may take.
const SHORT: &str = "name = \"short\"\n[run]\ndeadline = \"20s\"\n[[test]]\nname = \"probes\"\nkind = \"probe\"\nsets = 6\nwindow = \"500ms\"\niterations = 2\n";

/// Runs it in a lab: what it came to, its exit code, and the record.
fn probe(lab: &TestLab) -> (Judgement, Option<i32>, Recorded) {
    let folder = tempfile::tempdir().unwrap();
    let (suite, out) = (folder.path().join("short.toml"), folder.path().join("run"));
    std::fs::write(&suite, SHORT).unwrap();
    let (suite, out) = (suite.to_str().unwrap(), out.to_str().unwrap());
    let topology = format!("/run/railgauge/labs/{}/topology.toml", lab.name);
    let output = lab.run(
        "run",
        &[
            "--",
            "run",
            suite,
            "--topology",
            &topology,
            "--json",
            "--out",
            out,
        ],
    );
    let said = String::from_utf8_lossy(&output.stdout);
    let judgement = serde_json::from_str(&said)
        .unwrap_or_else(|error| panic!("{error}: {said}{}", String::from_utf8_lossy(&output.stderr)));
    (
        judgement,
        output.status.code(),
        Recorded::read(&folder.path().join("run")).unwrap(),
    )
}

/// Parts that findings of a kind name first.
fn named(judgement: &Judgement, kind: FindingKind) -> Vec<&str> {
    let findings = judgement.findings.iter().filter(|finding| finding.kind == kind);
    findings
        .map(|finding| finding.suspects[0].part.as_str())
        .collect()
}

#[test]
fn probes_name_the_cable_that_loses_packets_and_the_port_that_holds_them_up() {
    if !labs_can_be_made() {
        return;
    }
    let lab = TestLab::up(&SHAPE);
    lab.does(
        "fault",
        &["loss:rail1-spine0/d1=3%", "stall:h5/rail0=20ms,every=200ms"],
    );
    let (judgement, code, recorded) = probe(&lab);
    assert_eq!(code, Some(12), "{}", judgement.summary);
    assert_eq!(
        named(&judgement, FindingKind::LossyLink),
        ["rail1-spine0/d1->rail1-leaf1/u0"],
        "{:#?}",
        judgement.findings
    );
    let late = named(&judgement, FindingKind::SlowHop);
    let is_right = |part: &&str| part.starts_with("h5");
    // A busy machine holds everybody up.
    assert!(
        late.iter().all(is_right) && (late.len() == 1 || !is_quiet_machine()),
        "{late:?}"
    );
    assert_eq!(judgement.probes.len(), 2, "one row a rail");
    assert!(
        judgement.probes.iter().all(|row| row.links == 24),
        "{:?}",
        judgement.probes
    );
    let lost: Vec<bool> = judgement.probes.iter().map(|row| row.lost > 50).collect();
    assert_eq!(lost, [false, true], "{:?}", judgement.probes);
    let known = recorded.run.cells.iter().filter_map(|cell| cell.probes.as_ref());
    assert!(
        known
            .flat_map(|terms| &terms.flows)
            .all(|flow| flow.way.as_ref().is_some_and(|way| way.whole))
    );
    let iterations = recorded.events.iter().filter_map(|event| match event {
        Event::CellDone(done) => Some((
            done.probes.len(),
            done.probes.iter().all(|counts| counts.sent.len() == 2),
        )),
        _ => None,
    });
    assert!(
        iterations.clone().count() >= 6
            && iterations
                .clone()
                .all(|(flows, is_whole)| flows == 48 && is_whole)
    );
    lab.does("heal", &["stall:h5/rail0"]);
    let said = lab.on("h5", "tc qdisc show dev rail0");
    assert!(said.contains("rate 200Mbit"), "{said}");
}
