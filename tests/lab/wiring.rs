//! What traces say about the wiring: a topology from answers alone, and cables that are not where the file says.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use record::{Finding, FindingKind, Judgement};
use topology::{Tier, Topology};

use crate::harness::{TestLab, labs_can_be_made};
use crate::verdict::check_slow_parts;

const SHAPE: [&str; 9] = [
    "6x1", "--leaves", "3", "--spines", "2", "--trunk", "2", "--rate", "200mbit",
];

/// How many cables lead from each kind of node to each: hosts per leaf, and strands per leaf and spine.
fn shape(topology: &Topology) -> (Vec<usize>, Vec<usize>) {
    let tier = |node: &str| {
        topology
            .switches
            .iter()
            .find(|switch| switch.name == node)
            .map(|switch| switch.tier)
    };
    let mut hosts: BTreeMap<&str, usize> = BTreeMap::new();
    let mut strands: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for link in &topology.links {
        let [lower, upper] = link.ends.each_ref().map(|end| end.node.as_str());
        match (tier(lower), tier(upper)) {
            (None, Some(Tier::Leaf)) => *hosts.entry(upper).or_default() += 1,
            (Some(Tier::Leaf), Some(Tier::Spine)) => *strands.entry((lower, upper)).or_default() += 1,
            other => panic!("{}: {other:?}", link.name),
        }
    }
    (hosts.into_values().collect(), strands.into_values().collect())
}

#[test]
fn a_fabric_is_discovered_from_answers_alone() {
    if !labs_can_be_made() {
        return;
    }
    let lab = TestLab::up(&SHAPE);
    let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{}.toml", lab.name));
    lab.does(
        "run",
        &["--", "topology", "discover", "--out", file.to_str().unwrap()],
    );
    let found = Topology::read(&file).unwrap();
    let written = format!("/run/railgauge/labs/{}/topology.toml", lab.name);
    let truth = Topology::read(Path::new(&written)).unwrap();
    assert_eq!(shape(&found), shape(&truth));
    let addresses = |topology: &Topology| {
        let mut all: Vec<_> = topology.links.iter().map(|link| link.addresses).collect();
        all.sort();
        all
    };
    assert_eq!(addresses(&found), addresses(&truth));
}

/// Where a run in a lab is recorded.
fn folder_of(lab: &TestLab, word: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{word}-{}", lab.name))
}

/// What `diagnose` says in a lab.
fn diagnosed(lab: &TestLab, word: &str) -> Judgement {
    let folder = folder_of(lab, word);
    let _ = std::fs::remove_dir_all(&folder);
    let words = ["--", "diagnose", "--json", "--out", folder.to_str().unwrap()];
    let output = lab.run("run", &words);
    let said = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(&said)
        .unwrap_or_else(|error| panic!("{error}: {said}{}", String::from_utf8_lossy(&output.stderr)))
}

#[test]
fn swapped_cables_are_both_named_and_nothing_is_called_slow() {
    if !labs_can_be_made() {
        return;
    }
    let lab = TestLab::up(&["6x1", "--leaves", "3", "--spines", "2", "--rate", "200mbit"]);
    lab.does("fault", &["swap:h0-rail0-leaf0,h3-rail0-leaf1"]);
    let judgement = diagnosed(&lab, "swapped");
    let swapped: Vec<_> = judgement
        .findings
        .iter()
        .filter(|finding| finding.kind == FindingKind::Miscabled)
        .collect();
    let [finding] = swapped.as_slice() else {
        panic!("{:?}", judgement.findings);
    };
    assert_eq!(
        finding.place.cables,
        ["h0-rail0-leaf0", "h3-rail0-leaf1"],
        "{}",
        finding.sentence
    );
    // The run went on with the true wiring: its record has it.
    let recorded = Topology::read(&folder_of(&lab, "swapped").join(record::files::TOPOLOGY)).unwrap();
    assert_eq!(
        recorded.link_of("h0", "rail0").unwrap().ends[1].node,
        "rail0-leaf1"
    );
}

#[test]
fn a_cable_that_is_down_is_named_where_everything_else_passes() {
    if !labs_can_be_made() {
        return;
    }
    let lab = TestLab::up(&["9x1", "--leaves", "3", "--spines", "2", "--rate", "100mbit"]);
    lab.does("fault", &["cut:rail0-leaf1-spine1"]);
    let judgement = diagnosed(&lab, "unused");
    let unused = |finding: &&Finding| finding.kind == FindingKind::UnusedCable;
    let found: Vec<&Finding> = judgement.findings.iter().filter(unused).collect();
    let [finding] = found.as_slice() else {
        panic!("{:?}", judgement.findings);
    };
    assert_eq!(
        finding.place.cables,
        ["rail0-leaf1-spine1"],
        "{}",
        finding.sentence
    );
    check_slow_parts(&judgement, Some(judgement.exit_code.into()), &[], 10);
}
