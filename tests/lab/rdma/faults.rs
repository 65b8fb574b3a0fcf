//! Hosts, cables and devices that fail while queue pairs are at work: the run ends, names the culprit, and leaves nothing
//! behind on the hosts that live.

use std::time::Duration;

use record::{Finding, FindingKind};

use super::harness::{TestLab, guests, objects, said, until};
use crate::under_way::{UnderWay, endless};

/// A cell that goes on for some seconds and then is done.
const LASTING: &str = r#"
name = "lasting"
[run]
transport = "verbs"
[rule]
remeasure = 0
straggler_factor = 1000
[[test]]
name = "ring"
collective = "all-reduce"
algorithm = "ring"
sizes = ["256K"]
warmup = 1
iterations = { min = 100000, max = 1000000 }
budget = "8s"
"#;

/// A run across guests while it is measured, and what its hosts held before.
struct Running {
    run: UnderWay,
    held: Vec<(String, [usize; 4])>,
}

struct Ended {
    code: Option<i32>,
    findings: Vec<Finding>,
    said: String,
}

impl Running {
    /// Starts `suite` on every host, and waits until a few iterations are recorded.
    fn start(lab: &TestLab, hosts: usize, suite: &str, deadline: &str) -> Running {
        let hosts = (0..hosts).map(|host| format!("h{host}"));
        let held = hosts.map(|host| (host.clone(), held(lab, &host))).collect();
        let run = UnderWay::start(&lab.name, suite, &["--deadline", deadline]);
        Running { run, held }
    }

    /// Waits for the run to end.
    fn ends(self) -> (Ended, Vec<(String, [usize; 4])>) {
        let ended = self.run.ends();
        let ended = Ended {
            code: ended.output.status.code(),
            findings: ended.judgement().findings,
            said: said(&ended.output),
        };
        (ended, self.held)
    }
}

/// What programs hold on a host's devices.
fn held(lab: &TestLab, host: &str) -> [usize; 4] {
    ["qp", "mr", "cq", "pd"].map(|kind| objects(lab, host, kind))
}

/// Every host that lives holds what it held before the run.
fn all_is_released(lab: &TestLab, before: &[(String, [usize; 4])]) {
    for (host, before) in before {
        until(&format!("{host} has let go of everything"), || {
            held(lab, host) == *before
        });
    }
}

#[test]
fn a_host_that_loses_power_is_named_and_the_others_let_go_of_everything() {
    let Some(lab) = guests(&["3x1", "--leaves", "1", "--spines", "1"]) else {
        return;
    };
    let running = Running::start(&lab, 3, &endless("verbs", "1M"), "3s");
    lab.does("fault", &["kill:h2"]);
    let (ended, before) = running.ends();
    assert_eq!(ended.code, Some(21), "{}", ended.said);
    let lost = ended
        .findings
        .iter()
        .find(|finding| finding.kind == FindingKind::LostRank);
    assert_eq!(lost.expect("a lost rank").place.hosts, ["h2"], "{}", ended.said);
    all_is_released(&lab, &before);
}

#[test]
fn a_device_that_is_removed_is_named_with_its_host_and_rail() {
    let Some(lab) = guests(&["3x1", "--leaves", "1", "--spines", "1"]) else {
        return;
    };
    let running = Running::start(&lab, 3, &endless("verbs", "1M"), "3s");
    lab.on("h1", "rdma link delete rxe0");
    let (ended, before) = running.ends();
    assert_eq!(ended.code, Some(21), "{}", ended.said);
    let blamed = ended
        .findings
        .iter()
        .filter(|finding| finding.kind.exit_code() == 21);
    let blamed: Vec<&Finding> = blamed.collect();
    assert!(
        !blamed.is_empty()
            && blamed
                .iter()
                .all(|finding| finding.place.hosts.contains(&"h1".to_string())),
        "{}",
        ended.said
    );
    assert!(
        blamed.iter().any(|finding| finding.sentence.contains("rail0")),
        "{}",
        ended.said
    );
    lab.on("h1", "rdma link add rxe0 type rxe netdev rail0");
    all_is_released(&lab, &before);
}

#[test]
fn a_cable_that_is_down_for_two_seconds_ends_the_run_with_its_name_or_is_reported_as_a_flap() {
    let Some(lab) = guests(&["3x1", "--leaves", "1", "--spines", "1"]) else {
        return;
    };
    let running = Running::start(&lab, 3, LASTING, "10s");
    lab.does("fault", &["cut:h1-rail0-leaf0"]);
    std::thread::sleep(Duration::from_secs(2));
    lab.does("heal", &["--all"]);
    let (ended, before) = running.ends();
    let about = |finding: &&Finding| finding.place.hosts.contains(&"h1".to_string());
    match ended.code {
        Some(21) => {
            let mut blamed = ended
                .findings
                .iter()
                .filter(|finding| finding.kind.exit_code() == 21);
            assert!(blamed.all(|finding| about(&finding)), "{}", ended.said);
        }
        // It recovered, and there is nothing to compare the cell's speed with.
        Some(12 | 20) => {
            let flap = ended
                .findings
                .iter()
                .find(|finding| finding.kind == FindingKind::Flap);
            assert_eq!(flap.expect("a flap").place.hosts, ["h1"], "{}", ended.said);
        }
        code => panic!("{code:?}: {}", ended.said),
    }
    all_is_released(&lab, &before);
}
