//! Ranks, hosts and cables that fail in the middle of a collective, for real: the run ends, names the culprit, and keeps
//! what was measured.
//!
//! `RAILGAUGE_REPEAT=20 cargo test --test lab liveness -- --nocapture` repeats every fault and prints how long each took.

use std::collections::BTreeSet;
use std::time::Duration;

use record::{EndReason, Event, Finding, FindingKind, Judgement, Recorded};

use crate::harness::{TestLab, labs_can_be_made};
use crate::under_way::{self, UnderWay};

/// Longest any wait of these runs may take.
const DEADLINE: &str = "3s";

/// The cell that is under way when something fails.
fn endless() -> String {
    under_way::endless("tcp", "2M")
}

/// A ring over all hosts on each rail, alone and together, then every pair: most of it is left when a host is lost early.
const MUCH: &str = r#"
name = "much"
[run]
transport = "tcp"
[rule]
remeasure = 0
[[test]]
name = "first"
collective = "all-reduce"
algorithm = "ring"
sizes = ["512K"]
warmup = 1
iterations = { min = 60, max = 60 }
[[test]]
name = "rails"
kind = "rails"
collective = "all-reduce"
algorithm = "ring"
sizes = ["256K"]
warmup = 1
iterations = 6
[[test]]
name = "pairs"
kind = "pairs"
sizes = ["256K"]
directions = "one-way"
warmup = 1
iterations = 6
"#;

/// A run on four hosts with two rails that has met with a fault.
struct Ended {
    took: Duration,
    code: Option<i32>,
    /// Samples that were there before the fault.
    samples: usize,
    judgement: Judgement,
    recorded: Recorded,
}

/// Starts `suite`, puts faults into force while it is measured, one right after the other, and waits for it to end.
fn suffering(suite: &str, more: &[&str], faults: &str) -> Ended {
    let lab = TestLab::up(&["4x2", "--leaves", "2", "--spines", "2"]);
    let run = UnderWay::start(&lab.name, suite, &[&["--deadline", DEADLINE], more].concat());
    let samples = run.samples();
    for fault in faults.split_whitespace() {
        lab.does("fault", &[fault]);
    }
    let ended = run.ends();
    Ended {
        took: ended.took,
        code: ended.output.status.code(),
        samples,
        judgement: ended.judgement(),
        recorded: ended.recorded(),
    }
}

impl Ended {
    /// The one finding about a loss, in a record that lost nothing.
    fn the_loss(&self) -> &Finding {
        assert_eq!(self.code, Some(21), "{}", self.judgement.summary);
        assert_eq!(self.judgement.ended, Some(EndReason::Lost));
        assert!(self.recorded.samples.len() >= self.samples && !self.recorded.truncated);
        let is_loss =
            |finding: &&Finding| matches!(finding.kind, FindingKind::LostRank | FindingKind::SilentRail);
        let losses: Vec<&Finding> = self.judgement.findings.iter().filter(is_loss).collect();
        let [loss] = losses.as_slice() else {
            panic!("{losses:#?}")
        };
        loss
    }
}

/// How often each fault is tried.
fn times() -> u32 {
    std::env::var("RAILGAUGE_REPEAT").map_or(1, |times| times.parse().unwrap())
}

/// Tries `fault` in the middle of a collective on rail1; `blames` says whether the finding names the culprit.
fn is_named(fault: &str, blames: impl Fn(&Finding) -> bool) {
    if !labs_can_be_made() {
        return;
    }
    for time in 1..=times() {
        let ended = suffering(&endless(), &["--only", "rail=rail1"], fault);
        let loss = ended.the_loss();
        println!(
            "{fault} {time}: exit 21 after {:.2} s: {}",
            ended.took.as_secs_f64(),
            loss.sentence
        );
        assert!(blames(loss), "{loss:#?}");
    }
}

#[test]
fn a_killed_host_is_named() {
    is_named("kill:h2", |loss| {
        loss.place.hosts == ["h2"] && loss.sentence.contains("ended")
    });
}

#[test]
fn a_frozen_host_is_named_and_said_to_be_frozen() {
    is_named("freeze:h2", |loss| {
        loss.place.hosts == ["h2"] && loss.sentence.contains("it is frozen")
    });
}

#[test]
fn a_cut_management_link_is_named_and_no_rail_is_blamed() {
    is_named("management-cut:h2", |loss| {
        loss.place.hosts == ["h2"] && loss.sentence.contains("management link is cut")
    });
}

#[test]
fn a_cut_management_link_of_the_first_host_is_not_blamed_on_all_others() {
    is_named("management-cut:h0", |loss| {
        loss.place.hosts == ["h0"] && loss.sentence.contains("management link of this host is cut")
    });
}

#[test]
fn a_cut_rail_is_named_with_its_host_and_no_rank_is_called_lost() {
    is_named("cut:h2-rail1-leaf1", |loss| {
        let place = &loss.place;
        loss.kind == FindingKind::SilentRail
            && place.hosts == ["h2"]
            && place.rail.as_deref() == Some("rail1")
    });
}

#[test]
fn without_a_lost_node_the_rest_is_still_measured() {
    if !labs_can_be_made() {
        return;
    }
    let ended = suffering(MUCH, &["--keep-going"], "kill:h2");
    assert_eq!(ended.the_loss().place.hosts, ["h2"]);
    let replanned = |event: &Event| matches!(event, Event::Replanned { cells, .. } if !cells.is_empty());
    assert!(ended.recorded.events.iter().any(replanned));
    for verdict in &ended.judgement.cells {
        let cell = &verdict.cell;
        let concerns_lost = cell.ranks.contains(&2);
        let measured = verdict.iterations >= 6;
        assert!(
            measured || concerns_lost || cell.test == "first",
            "{}: {:?}",
            cell.describe(),
            verdict.verdict
        );
    }
    let rings = ended
        .judgement
        .cells
        .iter()
        .filter(|verdict| verdict.cell.ranks == [0, 1, 3] && verdict.iterations >= 6);
    assert!(
        rings.count() >= 4,
        "each rail alone and together, without the lost host"
    );
}

#[test]
fn without_two_hosts_that_are_lost_one_right_after_the_other_the_rest_is_still_measured() {
    if !labs_can_be_made() {
        return;
    }
    for _ in 0..times() {
        let ended = suffering(MUCH, &["--keep-going"], "kill:h2 kill:h3");
        assert_eq!(ended.code, Some(21), "{}", ended.judgement.summary);
        let lost: BTreeSet<&str> = ended
            .recorded
            .events
            .iter()
            .filter_map(|event| match event {
                Event::Lost(lost) => Some(lost.host.as_str()),
                _ => None,
            })
            .collect();
        assert_eq!(lost, BTreeSet::from(["h2", "h3"]));
        let left = ended.judgement.cells.iter();
        let left = left.filter(|verdict| {
            verdict.cell.test == "pairs" && verdict.cell.ranks.iter().all(|rank| *rank < 2)
        });
        let measured: Vec<bool> = left.map(|verdict| verdict.iterations >= 6).collect();
        assert!(
            measured.len() >= 4 && measured.iter().all(|is| *is),
            "{measured:?}"
        );
    }
}

#[test]
fn without_a_silent_rail_the_host_is_still_measured_on_its_other_rail() {
    if !labs_can_be_made() {
        return;
    }
    // The cable is cut while the other rail is measured, so the next cell on rail1 cannot even connect.
    let ended = suffering(MUCH, &["--keep-going"], "cut:h2-rail1-leaf1");
    let loss = ended.the_loss();
    assert_eq!(
        (loss.kind, loss.place.rail.as_deref()),
        (FindingKind::SilentRail, Some("rail1"))
    );
    assert_eq!(loss.place.hosts, ["h2"]);
    let measured = |ranks: &[u32], rail: &str| {
        let cells = ended.judgement.cells.iter();
        let same = cells.filter(|verdict| verdict.cell.ranks == ranks && verdict.cell.rails == [rail]);
        same.filter(|verdict| verdict.cell.test == "pairs")
            .any(|verdict| verdict.iterations >= 6)
    };
    assert!(measured(&[2, 3], "rail0") && measured(&[0, 1], "rail1"));
    assert!(!measured(&[2, 3], "rail1"));
}

#[test]
fn an_iteration_may_take_longer_than_the_deadline_while_data_moves() {
    if !labs_can_be_made() {
        return;
    }
    // 2 hosts, 16 MiB at 40 Mbit/s: each iteration takes more than three seconds, no single wait takes one.
    let lab = TestLab::up(&["2x1", "--leaves", "1", "--spines", "1", "--rate", "40mbit"]);
    let folder = tempfile::tempdir().unwrap();
    let suite = endless()
        .replace("\"2M\"", "\"16M\"")
        .replace("warmup = 1", "warmup = 0");
    let suite = suite.replace("{ min = 100000, max = 1000000 }", "1");
    let file = folder.path().join("suite.toml");
    std::fs::write(&file, suite).unwrap();
    let out = folder.path().join("out");
    let (file, out_folder) = (file.to_str().unwrap(), out.to_str().unwrap());
    lab.run(
        "run",
        &["--", "run", file, "--out", out_folder, "--deadline", "500ms"],
    );
    let recorded = Recorded::read(&out).unwrap();
    let end = |event: &&Event| {
        matches!(
            event,
            Event::End {
                reason: EndReason::Finished,
                ..
            }
        )
    };
    assert!(
        recorded.events.iter().any(|event| end(&event)),
        "{:?}",
        recorded.events
    );
    assert!(recorded.samples.iter().all(|sample| sample.ns > 2_600_000_000));
}
