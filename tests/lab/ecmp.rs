//! Streams over real routers: chance is not accused, faults of path choice are called by their names, and a stream's path is the one
//! that its routers choose.

use std::collections::HashMap;
use std::path::PathBuf;

use record::{EcmpCause, FindingKind, Judgement, Recorded};
use topology::{Port, Topology};

use crate::harness::{TestLab, labs_can_be_made};
use crate::verdict::is_quiet_machine;

const RAIL: &str = "rail0";
/// Three leaves, so that what goes up to a spine does not always come down to the same leaf; uplinks that carry just what hosts send.
const SHAPE: [&str; 7] = ["6x1", "--leaves", "3", "--spines", "2", "--rate", "100mbit"];
/// Where rank 0 listens, as the suite says; rank r listens r further on.
const DATA_PORT: u32 = 30_000;
const SUITE: &str = r#"
name = "spread"
[run]
data_port = 30000
[[test]]
name = "spread"
kind = "ecmp"
flows = 32
sets = 2
window = "150ms"
iterations = 2
"#;

fn folder_of(lab: &TestLab) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("ecmp-{}", lab.name));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// Runs the suite: what it came to, its exit code, and the record.
fn spread(lab: &TestLab) -> (Judgement, Option<i32>, Recorded) {
    let folder = folder_of(lab);
    let (suite, out) = (folder.join("suite.toml"), folder.join("run"));
    std::fs::write(&suite, SUITE).unwrap();
    let (suite, out) = (suite.to_str().unwrap(), out.to_str().unwrap());
    let output = lab.run(
        "run",
        &["--", "run", suite, "--json", "--out", out, "--seed", "1"],
    );
    let said = String::from_utf8_lossy(&output.stdout);
    let judgement = serde_json::from_str(&said)
        .unwrap_or_else(|error| panic!("{error}: {said}{}", String::from_utf8_lossy(&output.stderr)));
    let recorded = Recorded::read(&folder.join("run")).unwrap();
    (judgement, output.status.code(), recorded)
}

/// Causes and parts of the verdicts that accuse somebody.
fn accused(judgement: &Judgement) -> Vec<(EcmpCause, String)> {
    let faults = judgement.ecmp.iter().filter(|verdict| verdict.cause.is_fault());
    let part = |verdict: &record::EcmpVerdict| {
        let part = verdict.part.clone().or_else(|| verdict.switch.clone());
        (verdict.cause, part.unwrap_or_default())
    };
    faults.map(part).collect()
}

#[test]
fn collisions_of_a_healthy_fabric_are_nobodys_fault_and_streams_go_where_routers_send_them() {
    if !labs_can_be_made() {
        return;
    }
    let lab = TestLab::up(&SHAPE);
    let (judgement, code, recorded) = spread(&lab);
    assert_eq!(accused(&judgement), [], "{}", judgement.summary);
    assert!(
        code == Some(0) || (code == Some(20) && !is_quiet_machine()),
        "{code:?}: {}",
        judgement.summary
    );
    let (agree, streams) = agreement(&lab, &recorded);
    assert!(
        streams > 300 && agree * 100 >= streams * 95,
        "{agree} of {streams} paths are as predicted"
    );
}

#[test]
fn a_hash_that_does_not_look_at_ports_is_polarised() {
    if !labs_can_be_made() {
        return;
    }
    let lab = TestLab::up(&SHAPE);
    lab.does("fault", &["hash-l3:all"]);
    let (judgement, code, _) = spread(&lab);
    let accused = accused(&judgement);
    assert!(
        accused.iter().all(|(cause, _)| *cause == EcmpCause::Polarised),
        "{accused:?}"
    );
    check_imbalance(&judgement, code, accused.len() == 3);
    assert!(
        judgement
            .findings
            .iter()
            .all(|finding| finding.kind == FindingKind::EcmpImbalance)
    );
}

#[test]
fn a_next_hop_that_swallows_packets_is_named() {
    if !labs_can_be_made() {
        return;
    }
    let lab = TestLab::up(&SHAPE);
    lab.does("fault", &["dead-hop:rail0-leaf1->rail0-spine1"]);
    let (judgement, code, _) = spread(&lab);
    let dead = (
        EcmpCause::DeadMember,
        "rail0-leaf1/u1->rail0-spine1/d1".to_string(),
    );
    let accused = accused(&judgement);
    assert!(accused.iter().all(|one| *one == dead), "{accused:?}");
    check_imbalance(&judgement, code, accused == [dead]);
}

/// Imbalance is found as a whole on a quiet machine, and may be left open on a busy one.
fn check_imbalance(judgement: &Judgement, code: Option<i32>, is_whole: bool) {
    let found = code == Some(11) && is_whole;
    let open = matches!(code, Some(11 | 20)) && !is_quiet_machine();
    assert!(found || open, "{code:?}: {}", judgement.summary);
}

/// How many streams were assigned the path that the routers predict, and how many there are.
fn agreement(lab: &TestLab, recorded: &Recorded) -> (usize, usize) {
    let topology = Topology::parse("topology", recorded.topology.as_deref().unwrap()).unwrap();
    let host = |rank: u32| &recorded.run.ranks[rank as usize].host;
    // Per port by which streams come into a leaf: what to ask there, and what was assigned.
    let mut asked: HashMap<Port, Vec<(String, Option<String>)>> = HashMap::new();
    for cell in &recorded.run.cells {
        let (from, to) = (host(cell.ranks[0]), host(cell.ranks[1]));
        let (source, target) = (lab.address(from, RAIL), lab.address(to, RAIL));
        let near = Port {
            node: from.clone(),
            interface: RAIL.to_string(),
        };
        let leaf = across(&topology, &near);
        for stream in 0..cell.flows {
            let port = cell.port_of(cell.ranks[0], stream).unwrap();
            let question = format!(
                "route get {target} from {source} iif {} ipproto tcp sport {port} dport {}",
                leaf.interface,
                DATA_PORT + cell.ranks[1],
            );
            let ways = &cell.streams.as_ref().unwrap().ways;
            let uplink = ways
                .get(usize::from(stream))
                .and_then(|way| way.links.get(1))
                .cloned();
            asked.entry(leaf.clone()).or_default().push((question, uplink));
        }
    }
    let (mut agree, mut streams) = (0, 0);
    for (leaf, questions) in asked {
        let lines: Vec<&str> = questions.iter().map(|(question, _)| question.as_str()).collect();
        let answers = lab.on(
            &leaf.node,
            &format!("printf '{}\\n' | ip -batch -", lines.join("\\n")),
        );
        let devices = answers.lines().filter_map(|line| {
            let mut words = line.split_whitespace().skip_while(|word| *word != "dev");
            words.nth(1).filter(|_| line.contains(" from "))
        });
        for (device, (_, uplink)) in devices.zip(&questions) {
            streams += 1;
            let start = format!("{}/{device}->", leaf.node);
            agree += usize::from(uplink.as_ref().is_some_and(|link| link.starts_with(&start)));
        }
    }
    (agree, streams)
}

/// The port at the other end of the cable in `port`.
fn across(topology: &Topology, port: &Port) -> Port {
    let link = topology.link_of(&port.node, &port.interface).unwrap();
    link.ends.iter().find(|end| *end != port).unwrap().clone()
}
