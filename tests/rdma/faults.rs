//! Hosts, cables and devices that fail while queue pairs are at work: the run ends, names the culprit, and leaves nothing
//! behind on the hosts that live.

use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use railgauge::record::{Finding, FindingKind, Judgement};

use crate::harness::{GuestLab, command, guests, objects, said, until};

/// One cell that does not end by itself within any test.
const ENDLESS: &str = r#"
name = "endless"
[run]
transport = "verbs"
[[test]]
name = "ring"
collective = "all-reduce"
algorithm = "ring"
sizes = ["1M"]
warmup = 1
iterations = { min = 100000, max = 1000000 }
budget = "100s"
"#;

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

/// Longest a run may take to end after a fault.
const PATIENCE: Duration = Duration::from_secs(40);

/// A run across guests while it is measured.
struct Running {
    folder: tempfile::TempDir,
    child: Child,
    held: Vec<(String, [usize; 4])>,
}

struct Ended {
    took: Duration,
    code: Option<i32>,
    findings: Vec<Finding>,
    said: String,
}

impl Running {
    /// Starts `suite` on every host, and waits until a few iterations are recorded.
    fn start(lab: &GuestLab, hosts: usize, suite: &str, deadline: &str) -> Running {
        let hosts = (0..hosts).map(|host| format!("h{host}"));
        let held = hosts.map(|host| (host.clone(), held(lab, &host))).collect();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("suite.toml");
        std::fs::write(&file, suite).unwrap();
        let out = folder.path().join("out");
        let words = ["run", "--name", &lab.name, "--", "run", file.to_str().unwrap()];
        let more = ["--out", out.to_str().unwrap(), "--deadline", deadline];
        let child = command(&[&words[..], &more].concat())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut running = Running { folder, child, held };
        let until = Instant::now() + PATIENCE;
        while running.samples() < 12 {
            assert!(
                running.child.try_wait().unwrap().is_none() && Instant::now() < until,
                "it never got going: {}",
                said(&running.child.wait_with_output().unwrap())
            );
            std::thread::sleep(Duration::from_millis(20));
        }
        running
    }

    fn out(&self) -> PathBuf {
        self.folder.path().join("out")
    }

    fn samples(&self) -> usize {
        let text = std::fs::read_to_string(self.out().join("samples.jsonl")).unwrap_or_default();
        text.matches("\"sample\"").count()
    }

    /// Waits for the run to end.
    fn ends(mut self) -> (Ended, Vec<(String, [usize; 4])>) {
        let since = Instant::now();
        while self.child.try_wait().unwrap().is_none() {
            if since.elapsed() > PATIENCE {
                let _ = self.child.kill();
                panic!("the run hangs");
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let out = self.out();
        let output = self.child.wait_with_output().unwrap();
        let ended = Ended {
            took: since.elapsed(),
            code: output.status.code(),
            findings: findings(&out),
            said: said(&output),
        };
        (ended, self.held)
    }
}

fn findings(out: &Path) -> Vec<Finding> {
    let text = std::fs::read_to_string(out.join("findings.json")).unwrap_or_default();
    serde_json::from_str::<Judgement>(&text).map_or_else(|_| Vec::new(), |judgement| judgement.findings)
}

/// What programs hold on a host's devices.
fn held(lab: &GuestLab, host: &str) -> [usize; 4] {
    ["qp", "mr", "cq", "pd"].map(|kind| objects(lab, host, kind))
}

/// Every host that lives holds what it held before the run.
fn all_is_released(lab: &GuestLab, before: &[(String, [usize; 4])]) {
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
    let running = Running::start(&lab, 3, ENDLESS, "3s");
    lab.does("fault", &["kill:h2"]);
    let (ended, before) = running.ends();
    assert_eq!(ended.code, Some(21), "{}", ended.said);
    let lost = ended
        .findings
        .iter()
        .find(|finding| finding.kind == FindingKind::LostRank);
    assert_eq!(lost.expect("a lost rank").place.hosts, ["h2"], "{}", ended.said);
    assert!(ended.took < Duration::from_secs(15), "{:?}", ended.took);
    all_is_released(&lab, &before);
}

#[test]
fn a_device_that_is_removed_is_named_with_its_host_and_rail() {
    let Some(lab) = guests(&["3x1", "--leaves", "1", "--spines", "1"]) else {
        return;
    };
    let running = Running::start(&lab, 3, ENDLESS, "3s");
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
    assert!(ended.took < Duration::from_secs(20), "{:?}", ended.took);
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
