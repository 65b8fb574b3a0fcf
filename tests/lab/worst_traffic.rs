//! Suite `worst-traffic` on real sockets: where a leaf puts all flows on one uplink, the patterns that cross it are told with that uplink, and nothing fails.

use record::{Event, Judgement, Recorded, TrafficOutcome, pairs_of_words};

use crate::harness::{TestLab, labs_can_be_made};

/// The shipped suite for as long as a test may take.
const SHORT: &str = "name = \"short\"\n[run]\ndeadline = \"30s\"\nseed = 5\n[[test]]\nname = \"patterns\"\nkind = \"permutation\"\nrandom = 1\nworst = 1\nwindow = \"200ms\"\niterations = 2\n";

/// Measures this suite in a lab; what is judged and what was recorded.
fn measured(lab: &TestLab, suite: &str) -> (Judgement, Recorded) {
    let folder = tempfile::tempdir().unwrap();
    let (path, out) = (folder.path().join("short.toml"), folder.path().join("run"));
    std::fs::write(&path, suite).unwrap();
    let arguments = [
        "--",
        "run",
        path.to_str().unwrap(),
        "--json",
        "--out",
        out.to_str().unwrap(),
    ];
    let output = lab.run("run", &arguments);
    let said = String::from_utf8_lossy(&output.stdout);
    let judgement = serde_json::from_str(&said)
        .unwrap_or_else(|error| panic!("{error}: {said}{}", String::from_utf8_lossy(&output.stderr)));
    (judgement, Recorded::read(&out).unwrap())
}

#[test]
fn traffic_that_shares_an_uplink_is_told_with_it_and_can_be_measured_alone() {
    if !labs_can_be_made() {
        return;
    }
    // Three hosts on a leaf, three spines: every permutation could be carried.
    let lab = TestLab::up(&["6x1", "--leaves", "2", "--spines", "3", "--rate", "100mbit"]);
    let (judgement, recorded) = measured(&lab, SHORT);
    assert!(!judgement.traffic.is_empty(), "{}", judgement.summary);
    assert!(
        judgement
            .findings
            .iter()
            .all(|finding| finding.kind.exit_code() == 20)
    );
    // All flows of a pattern are on the wire at the same time, those between leaves from ports whose paths were traced: within one there is no choice.
    for cells in recorded.run.cells.chunk_by(|a, b| a.slot == b.slot) {
        let names = cells.iter().map(|cell| {
            let terms = cell.streams.as_ref().unwrap();
            let is_traced = terms.ways.len() == 1 && terms.ways[0].whole;
            let is_between_leaves = cell.ranks[0] / 3 != cell.ranks[1] / 3;
            assert_eq!(is_traced, is_between_leaves, "{cell:?}");
            terms.pattern.clone().unwrap().name
        });
        let names: Vec<String> = names.collect();
        assert!(names.iter().all(|name| *name == names[0]), "{names:?}");
    }
    let collides = |rows: &Judgement| {
        let row = rows
            .traffic
            .iter()
            .find(|row| row.outcome == TrafficOutcome::Collides);
        row.cloned()
    };
    let row = collides(&judgement).expect("two of three flows meet on one of three uplinks in some pattern");
    assert!(
        row.sharing >= 2 && row.cable.as_ref().is_some_and(|cable| cable.contains("spine")),
        "{row:?}"
    );
    // It is measured twice from the same ports.
    let rounds = recorded.events.iter().filter_map(|event| match event {
        Event::CellDone(done) if done.cell == row.cells[0] => Some(done.round),
        _ => None,
    });
    assert_eq!(rounds.collect::<Vec<u16>>(), [0, 1]);
    // The pattern as it is told is measured alone. Its flows may have other ports, and meet elsewhere.
    assert!(
        pairs_of_words(&row.pairs).is_ok_and(|pairs| pairs.len() >= 2),
        "{row:?}"
    );
    let alone = SHORT.replace("random = 1\n", &format!("pairs = \"{}\"\n", row.pairs));
    let (judgement, _) = measured(&lab, &alone);
    let again = &judgement.traffic[0];
    let pairs = pairs_of_words(&row.pairs).unwrap().len();
    assert_eq!(
        (again.pattern.as_str(), again.flows as usize),
        ("listed", pairs),
        "{again:?}"
    );
}
