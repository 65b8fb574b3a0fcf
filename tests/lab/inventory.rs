//! What hosts are made of, through every launch, and next to what was slow: both are said, and joined only when one explains
//! the other.

use record::{Finding, FindingKind, Inventory, Judgement, PartClass, Recorded};

use crate::harness::{TestLab, labs_can_be_made};
use crate::verdict::check_slow_parts;

/// Twelve NICs, so that three of them can be told from chance.
const SHAPE: [&str; 7] = ["6x2", "--leaves", "3", "--spines", "2", "--rate", "100mbit"];

/// Runs `diagnose` in the lab: what it came to, its exit code, and the record.
fn diagnose(lab: &TestLab) -> (Judgement, Option<i32>, Recorded) {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    let output = lab.run(
        "run",
        &["--", "diagnose", "--json", "--out", out.to_str().unwrap()],
    );
    let said = String::from_utf8_lossy(&output.stdout);
    let judgement = serde_json::from_str(&said)
        .unwrap_or_else(|error| panic!("{error}: {said}{}", String::from_utf8_lossy(&output.stderr)));
    (judgement, output.status.code(), Recorded::read(&out).unwrap())
}

fn of_kind(judgement: &Judgement, kind: FindingKind) -> Vec<&Finding> {
    judgement
        .findings
        .iter()
        .filter(|finding| finding.kind == kind)
        .collect()
}

#[test]
fn other_firmware_on_one_host_and_a_slow_cable_at_another_are_both_found_and_not_joined() {
    if !labs_can_be_made() {
        return;
    }
    let lab = TestLab::up(&SHAPE);
    lab.does("fault", &["firmware:h1=28.39.1002", "slow:rail1-leaf2/p1=50%"]);
    let (judgement, code, recorded) = diagnose(&lab);
    check_slow_parts(&judgement, code, &["rail1-leaf2/p1->h5/rail1"], 10);
    let inventory = recorded.inventory.unwrap();
    assert_eq!(
        (inventory.nodes.len(), inventory.troubles.as_slice()),
        (6, [].as_slice())
    );
    let [drift] = of_kind(&judgement, FindingKind::Drift)[..] else {
        panic!("{:?}", judgement.findings)
    };
    assert_eq!(drift.place.hosts, ["h1"], "{}", drift.sentence);
    assert!(
        drift.sentence.contains("28.39.1002") && drift.sentence.contains("28.42.1000"),
        "{}",
        drift.sentence
    );
    let effect = judgement.drift.as_ref().unwrap().deviations[0]
        .effect
        .clone()
        .unwrap();
    assert_eq!(
        (effect.slow_with, effect.with, effect.explains),
        (0, 2, false),
        "{effect:?}"
    );
    for slow in of_kind(&judgement, FindingKind::SlowLink) {
        assert!(
            slow.evidence.iter().all(|said| !said.contains("28.39.1002")),
            "the slow cable has nothing to do with it: {:?}",
            slow.evidence
        );
    }
}

/// The inventory that `lab run ... -- inventory` saves.
fn saved(lab: &TestLab, launch: &[&str], code: i32, more: &[&str]) -> (Inventory, String) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("all.json");
    let arguments = ["--", "inventory", "--save", file.to_str().unwrap()];
    let output = lab.run("run", &[launch, &arguments, more].concat());
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(
        output.status.code(),
        Some(code),
        "{said}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    (Inventory::read(&file).unwrap(), said)
}

fn firmware(inventory: &Inventory, host: &str) -> String {
    let part = inventory
        .node(host)
        .unwrap()
        .part(PartClass::Nic, "mlx5_0")
        .unwrap();
    part.value("firmware").unwrap().to_string()
}

#[test]
fn one_command_tells_of_all_hosts_once_each_and_names_who_differs_and_what_changed_since() {
    if !labs_can_be_made() {
        return;
    }
    let lab = TestLab::up(&["4x1"]);
    let (before, said) = saved(&lab, &["--per-host", "2"], 0, &[]);
    let names: Vec<&str> = before.nodes.iter().map(|node| node.node.as_str()).collect();
    assert_eq!(names, ["h0", "h1", "h2", "h3"], "two ranks of a host tell once");
    assert!(said.contains("nothing differs: 4 hosts and 4 switches"), "{said}");
    let folder = tempfile::tempdir().unwrap();
    let earlier = folder.path().join("earlier.json");
    std::fs::write(&earlier, serde_json::to_vec(&before).unwrap()).unwrap();

    lab.does("fault", &["firmware:h2=28.39.1002"]);
    let (after, said) = saved(&lab, &[], 10, &["--against", earlier.to_str().unwrap()]);
    assert_eq!(firmware(&after, "h2"), "28.39.1002");
    assert_eq!(firmware(&after, "h1"), "28.42.1000");
    let drift = said.lines().find(|line| line.starts_with("drift: ")).unwrap();
    assert!(drift.contains("h2") && drift.contains("28.39.1002"), "{said}");
    let changed = said.lines().find(|line| line.starts_with("changed: ")).unwrap();
    assert!(changed.contains("h2") && changed.contains("28.42.1000"), "{said}");
}

#[test]
fn of_two_hosts_that_differ_nobody_is_accused() {
    if !labs_can_be_made() {
        return;
    }
    let lab = TestLab::up(&["2x1"]);
    lab.does("fault", &["firmware:h1=28.39.1002"]);
    let (_, said) = saved(&lab, &[], 20, &[]);
    assert!(
        said.contains("unclear-drift: ") && !said.contains("\ndrift: "),
        "{said}"
    );
    let golden = tempfile::NamedTempFile::with_suffix(".toml").unwrap();
    std::fs::write(
        golden.path(),
        "[[nic]]\nboard = \"MT_0000000838\"\nfirmware = \">= 28.42\"\n",
    )
    .unwrap();
    let (_, said) = saved(&lab, &[], 10, &["--golden", golden.path().to_str().unwrap()]);
    let drift = said.lines().find(|line| line.starts_with("drift: ")).unwrap();
    // The name of the golden file is drawn by lot, and may have an `h0` in it.
    assert!(drift.contains("h1/") && !drift.contains("h0/"), "{said}");
}

#[cfg(feature = "mpi")]
#[test]
fn hosts_that_mpirun_started_tell_what_they_are_made_of_too() {
    if !labs_can_be_made() {
        return;
    }
    let lab = TestLab::up(&["3x1"]);
    lab.does("fault", &["firmware:h2=28.39.1002"]);
    let (inventory, said) = saved(&lab, &["--launch", "mpi", "--per-host", "2"], 10, &[]);
    let names: Vec<&str> = inventory.nodes.iter().map(|node| node.node.as_str()).collect();
    assert_eq!(names, ["h0", "h1", "h2"]);
    let drift = said.lines().find(|line| line.starts_with("drift: ")).unwrap();
    assert!(drift.contains("h2"), "{said}");
}
