//! What a run could have found, and what a plan will be able to find.

use record::Judgement;
use serde_json::Value;

use crate::harness::{Bench, SMALL};

/// The smallest loss of every link of a simulated run, ascending.
fn losses(bench: &Bench, arguments: &str) -> Vec<f64> {
    let said = bench
        .railgauge(&format!("simulate 16x2 {arguments} --json"))
        .must_exit(0);
    let judgement: Judgement = serde_json::from_str(&said.stdout).unwrap();
    let links = judgement.coverage.links.iter();
    let mut losses: Vec<f64> = links.filter_map(|link| link.smallest_loss).collect();
    losses.sort_by(f64::total_cmp);
    losses
}

#[test]
fn a_run_that_passes_says_what_it_would_have_found_on_every_cable() {
    let bench = Bench::new(SMALL);
    let quiet = losses(&bench, "--seed 1 --noise quiet");
    assert_eq!(quiet.len(), 2 * (2 * 16 + 2 * 4 * 4), "every link");
    assert!(quiet[0] > 0.05 && quiet[quiet.len() - 1] < 0.2, "{quiet:?}");
    let noisy = losses(&bench, "--seed 1 --noise cells");
    let middle = |losses: &[f64]| losses[losses.len() / 2];
    assert!(middle(&noisy) > middle(&quiet) + 0.05, "noise hides losses");
    let said = bench
        .railgauge("simulate 16x2 --seed 1 --noise quiet")
        .must_exit(0);
    assert!(
        said.stdout.contains("would have been found with probability 0.9"),
        "{}",
        said.stdout
    );
}

#[test]
fn a_plan_says_what_it_will_find_on_every_kind_of_part() {
    let bench = Bench::new(SMALL);
    bench
        .railgauge("simulate 16x2 --out healthy --quiet")
        .must_exit(0);
    let plan = |arguments: &str| -> Value {
        let said = bench
            .railgauge(&format!(
                "plan links --topology healthy/topology.toml --power --json {arguments}"
            ))
            .must_exit(0);
        serde_json::from_str(&said.stdout).unwrap()
    };
    for arguments in ["", "--noise-of healthy", "--schedule adaptive"] {
        let whole = plan(arguments);
        let power = whole["power"].as_array().unwrap();
        let kinds: Vec<&str> = power.iter().map(|one| one["part"].as_str().unwrap()).collect();
        assert_eq!(
            kinds,
            ["host-cable", "fabric-cable", "host", "switch", "rail", "fabric"],
            "{arguments}"
        );
        for one in power {
            let loss = one["smallest_loss"][1]
                .as_f64()
                .unwrap_or_else(|| panic!("{arguments}: {one}"));
            assert!(loss > 0.02 && loss < 0.5, "{arguments}: {one}");
        }
    }
    // A slow rail is half of this fabric: who is compared with peers alone sees neither that nor what is slow everywhere.
    let suite = include_str!("../../suites/links.toml");
    let peers_alone: Vec<&str> = suite.lines().filter(|line| !line.starts_with("spec =")).collect();
    assert!(peers_alone.len() < suite.lines().count());
    std::fs::write(bench.path().join("peers.toml"), peers_alone.join("\n")).unwrap();
    let said = bench
        .railgauge("plan peers.toml --topology healthy/topology.toml --power --json")
        .must_exit(0);
    let whole: Value = serde_json::from_str(&said.stdout).unwrap();
    for one in whole["power"].as_array().unwrap() {
        let is_half = ["rail", "fabric"].contains(&one["part"].as_str().unwrap());
        assert_eq!(one["smallest_loss"].is_null(), is_half, "{one}");
    }
    let said = bench.railgauge("plan links --power").must_exit(2);
    assert!(said.stderr.contains("--topology"), "{}", said.stderr);
    bench
        .railgauge("plan links --topology healthy/topology.toml --power --noise-of nowhere")
        .must_exit(2);
}

#[test]
fn a_noisy_fabric_is_asked_on_about_single_suspects_and_not_for_ever() {
    let bench = Bench::new(SMALL);
    bench
        .railgauge("simulate 16x2 --noise all --seed 6 --quiet --out noisy")
        .must_exit(20);
    let record = std::fs::read_to_string(bench.path().join("noisy/samples.jsonl")).unwrap();
    let events = record
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let asked: Vec<String> = events
        .filter_map(|event| Some(event.get("added")?["why"].as_str()?.to_string()))
        .collect();
    assert!(asked.len() > 8 && asked.len() <= 16, "{asked:#?}");
    assert!(
        asked[..8].iter().any(|why| why.contains("which of")),
        "{asked:#?}"
    );
    assert!(
        asked[8..].iter().all(|why| why.starts_with("is it ")),
        "{asked:#?}"
    );
    assert!(
        !asked[8..].iter().any(|why| why.contains("which of")),
        "{asked:#?}"
    );
}
