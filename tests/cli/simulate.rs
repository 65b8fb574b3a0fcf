//! What a user of the twin relies on.

use record::{FindingKind, LinkState, Recorded, TrafficOutcome};
use serde_json::Value;

use crate::harness::{Bench, SMALL};

#[test]
fn a_cable_made_slow_is_named_with_its_direction_and_the_run_can_be_judged_again() {
    let bench = Bench::new(SMALL);
    bench
        .railgauge("simulate 8x1 --slow h2-rail0-leaf1:away=60% --out out --quiet")
        .must_exit(12);
    let finding = bench.the_finding(FindingKind::SlowLink);
    assert_eq!(finding.place.link.as_deref(), Some("h2/rail0->rail0-leaf1/p0"));
    let recorded: Recorded = bench.recorded();
    assert_eq!(recorded.run.injected, ["slow:h2/rail0->rail0-leaf1/p0=60%"]);
    assert!(recorded.topology.is_some() && !recorded.truncated);
    bench.railgauge("report out --quiet").must_exit(12);
    let finding = bench.the_finding(FindingKind::SlowLink);
    assert_eq!(finding.suspects[0].cable.as_deref(), Some("h2-rail0-leaf1"));
}

#[test]
fn a_cable_that_is_slow_now_and_then_is_found_and_called_so() {
    let bench = Bench::new(SMALL);
    bench
        .railgauge("simulate 16x2 --slow h3-rail1-leaf0:away=50%@80% --seed 1 --out out --quiet")
        .must_exit(12);
    let finding = bench.the_finding(FindingKind::Intermittent);
    assert_eq!(finding.place.link.as_deref(), Some("h3/rail1->rail1-leaf0/p3"));
    assert!(finding.sentence.contains(" crossings: "), "{}", finding.sentence);
    let recorded: Recorded = bench.recorded();
    assert_eq!(recorded.run.injected, ["slow:h3/rail1->rail1-leaf0/p3=50%@80%"]);
}

/// Every flow of the leaf sends a share of its packets over each of its cables, so none of them can be told from the others: that is what is said.
#[test]
fn a_cable_that_loses_sprayed_packets_is_one_of_its_switch() {
    let bench = Bench::new(SMALL);
    bench
        .railgauge("simulate 16x1 --placement sprayed --suite probe --loss rail0-leaf1-spine0:away=2% --out out --quiet")
        .must_exit(12);
    let finding = bench.the_finding(FindingKind::LossyLink);
    let one_of_them = "one of 4 cables between rail0-leaf1 and the switches above it";
    assert!(finding.sentence.contains(one_of_them), "{}", finding.sentence);
    assert!(
        finding.next_step.contains("do not tell which"),
        "{}",
        finding.next_step
    );
    assert_eq!(
        (finding.place.switch.as_deref(), finding.place.links.len()),
        (Some("rail0-leaf1"), 4)
    );
}

/// They are as fast as any other, so only what TCP counted can show it, in suites that were not made for it.
#[test]
fn a_cable_that_loses_packets_is_named_by_every_suite_and_never_passes() {
    let bench = Bench::new(SMALL);
    bench
        .railgauge("simulate 16x2 --loss h3-rail1-leaf0:away=0.02% --out out --quiet")
        .must_exit(12);
    let finding = bench.the_finding(FindingKind::LossyLink);
    assert_eq!(finding.place.link.as_deref(), Some("h3/rail1->rail1-leaf0/p3"));
    let recorded: Recorded = bench.recorded();
    assert_eq!(recorded.run.injected, ["loss:h3/rail1->rail1-leaf0/p3=0.02%"]);
    bench.railgauge("report out --quiet").must_exit(12);
    for (suite, cable) in [
        ("links", "rail0-leaf1-spine1:towards"),
        ("nightly", "rail1-leaf0-spine1:away"),
    ] {
        let command = format!("simulate 16x2 --suite {suite} --loss {cable}=1% --repeat 6 --json");
        let tally: Value = serde_json::from_str(&bench.railgauge(&command).must_exit(0).stdout).unwrap();
        for run in tally["runs"].as_array().unwrap() {
            assert_eq!(run["exit_code"], 12, "{suite}: {run}");
            assert_eq!(run["missed"], serde_json::json!([]), "{suite}: {run}");
        }
    }
    for wrong in [
        "h3-rail1-leaf0=0%",
        "h3-rail1-leaf0=100%",
        "h3-rail1-leaf0",
        "nobody=1%",
    ] {
        bench
            .railgauge(&format!("simulate 16x2 --loss {wrong}"))
            .must_exit(2);
    }
}

#[test]
fn probes_name_a_cable_that_loses_one_packet_in_five_thousand_and_nobody_where_none_does() {
    let bench = Bench::new(SMALL);
    let tally = |arguments: &str| -> Value {
        let command = format!("simulate 16x2 --suite probe --json {arguments}");
        serde_json::from_str(&bench.railgauge(&command).must_exit(0).stdout).unwrap()
    };
    for cable in ["h3-rail1-leaf0:towards", "rail0-leaf1-spine1:away"] {
        for run in tally(&format!("--repeat 3 --loss {cable}=0.02%"))["runs"]
            .as_array()
            .unwrap()
        {
            assert_eq!(
                (&run["exit_code"], &run["missed"]),
                (&12.into(), &serde_json::json!([])),
                "{run}"
            );
            assert_eq!(run["accused"].as_array().unwrap().len(), 1, "{run}");
        }
    }
    for placement in ["steady", "per-connection", "sprayed"] {
        for run in tally(&format!("--repeat 3 --placement {placement}"))["runs"]
            .as_array()
            .unwrap()
        {
            assert_eq!(run["exit_code"], 0, "{placement}: {run}");
        }
    }
}

/// As fast as any other and loses nothing: only how long single packets waited shows a port that stops now and then.
#[test]
fn probes_name_a_cable_that_holds_packets_up_and_nobody_where_only_hosts_do() {
    let bench = Bench::new(SMALL);
    bench
        .railgauge("simulate 16x2 --suite probe --delay h3-rail1-leaf0:towards=20ms@50% --out out --quiet")
        .must_exit(12);
    let finding = bench.the_finding(FindingKind::SlowHop);
    assert_eq!(finding.place.link.as_deref(), Some("rail1-leaf0/p3->h3/rail1"));
    assert!(
        finding.sentence.contains("holds packets up"),
        "{}",
        finding.sentence
    );
    let recorded: Recorded = bench.recorded();
    assert_eq!(recorded.run.injected, ["delay:rail1-leaf0/p3->h3/rail1=20ms@50%"]);
    bench.railgauge("report out --quiet").must_exit(12);
    let tally = |arguments: &str| -> Value {
        let command = format!("simulate 16x2 --suite probe --json {arguments}");
        serde_json::from_str(&bench.railgauge(&command).must_exit(0).stdout).unwrap()
    };
    let cable = "rail0-leaf1-spine1:away=20ms@50%";
    for run in tally(&format!("--repeat 2 --delay {cable}"))["runs"]
        .as_array()
        .unwrap()
    {
        assert_eq!(run["missed"], serde_json::json!([]), "{run}");
        assert_eq!(run["wrong"], serde_json::json!([]), "{run}");
    }
    // A stop that the system's own delays hide is not found, and nobody else is named for it.
    for arguments in [
        "",
        "--noise os-jitter",
        "--noise os-jitter --delay rail0-leaf1-spine1:away=1ms@1%",
    ] {
        for run in tally(&format!("--repeat 2 {arguments}"))["runs"]
            .as_array()
            .unwrap()
        {
            assert_eq!(run["wrong"], serde_json::json!([]), "{arguments}: {run}");
        }
    }
    for wrong in [
        "h3-rail1-leaf0=0ms",
        "h3-rail1-leaf0=5ms@0%",
        "h3-rail1-leaf0",
        "nobody=5ms",
    ] {
        bench
            .railgauge(&format!("simulate 16x2 --suite probe --delay {wrong}"))
            .must_exit(2);
    }
}

#[test]
fn a_healthy_fabric_accuses_nobody() {
    let bench = Bench::new(SMALL);
    bench.railgauge("simulate 8x1 --out out --quiet").must_exit(0);
    assert!(bench.kinds().is_empty());
}

/// A fifth of all measurements takes a quarter longer: with iterations for evidence, one run in four accused somebody.
#[test]
fn measurements_of_two_speeds_accuse_nobody_and_hide_no_slow_cable() {
    let bench = Bench::new(SMALL);
    let tally = |arguments: &str| -> Value {
        let command = format!("simulate 16x2 --noise two-speed --json {arguments}");
        serde_json::from_str(&bench.railgauge(&command).must_exit(0).stdout).unwrap()
    };
    for run in tally("--repeat 12")["runs"].as_array().unwrap() {
        assert_eq!(run["accused"], serde_json::json!([]), "{run}");
    }
    for run in tally("--repeat 4 --slow h3-rail1-leaf0:away=80%")["runs"]
        .as_array()
        .unwrap()
    {
        assert_eq!(run["wrong"], serde_json::json!([]), "{run}");
        assert_eq!(
            run["found"],
            serde_json::json!(["h3/rail1->rail1-leaf0/p3"]),
            "{run}"
        );
    }
}

#[test]
fn a_noise_that_is_neither_model_nor_file_is_refused() {
    let bench = Bench::new(SMALL);
    let said = bench
        .railgauge("simulate 8x1 --noise no-such-noise --quiet")
        .must_exit(2);
    assert!(said.stderr.contains("two-speed, iterations"), "{}", said.stderr);
}

/// Hosts of two generations: the cables of some carry half of what those of the others do.
#[test]
fn slower_nics_are_held_to_their_own_rate_and_their_flows_to_the_slower_end() {
    let bench = Bench::new(SMALL);
    bench.railgauge("simulate 16x1 --out out --quiet").must_exit(0);
    let topology = std::fs::read_to_string(bench.path().join("out/topology.toml")).unwrap();
    let with_slow_nics = |hosts: &[&str]| {
        let blocks = topology.split("\n\n").map(|block| {
            let is_slower = hosts
                .iter()
                .any(|host| block.contains(&format!("\"{host}-rail0")));
            match is_slower {
                true => block.replace("400 Gb/s", "200 Gb/s"),
                false => block.to_string(),
            }
        });
        blocks.collect::<Vec<String>>().join("\n\n")
    };
    for hosts in [&["h5"][..], &["h5", "h9"], &["h2", "h5", "h6", "h9", "h12"]] {
        std::fs::write(bench.path().join("mixed.toml"), with_slow_nics(hosts)).unwrap();
        std::fs::remove_dir_all(bench.path().join("out")).unwrap();
        bench
            .railgauge("simulate mixed.toml --out out --quiet")
            .must_exit(0);
    }
    // The cable of a slower host, of a faster one, and one between switches.
    for (slow, link) in [
        ("h5-rail0-leaf1:away", "h5/rail0->rail0-leaf1/p1"),
        ("h3-rail0-leaf0:towards", "rail0-leaf0/p3->h3/rail0"),
        ("rail0-leaf1-spine0:away", "rail0-leaf1/u0->rail0-spine0/d1"),
    ] {
        std::fs::remove_dir_all(bench.path().join("out")).unwrap();
        bench
            .railgauge(&format!(
                "simulate mixed.toml --slow {slow}=60% --out out --quiet"
            ))
            .must_exit(12);
        let finding = bench.the_finding(FindingKind::SlowLink);
        assert_eq!(finding.place.link.as_deref(), Some(link));
    }
}

/// A cable that carries two hosts has lost much before what one of them sends shows it.
#[test]
fn a_slow_uplink_that_carries_two_hosts_is_named_by_what_both_send_at_once() {
    let bench = Bench::new(SMALL);
    bench.railgauge("simulate 8x1 --out out --quiet").must_exit(0);
    let topology = std::fs::read_to_string(bench.path().join("out/topology.toml")).unwrap();
    let faster = topology.split("\n\n").map(|block| {
        let is_uplink = block.contains("[[link]]") && block.contains("-spine");
        match is_uplink {
            true => block.replace("400 Gb/s", "800 Gb/s"),
            false => block.to_string(),
        }
    });
    let faster = faster.collect::<Vec<String>>().join("\n\n");
    std::fs::write(bench.path().join("faster.toml"), faster).unwrap();
    for seed in 1..=3 {
        std::fs::remove_dir_all(bench.path().join("out")).unwrap();
        bench
            .railgauge(&format!("simulate faster.toml --seed {seed} --out out --quiet"))
            .must_exit(0);
        let links = bench.judgement().coverage.links;
        assert!(
            links.iter().all(|link| link.state == LinkState::Healthy),
            "{links:?}"
        );
        std::fs::remove_dir_all(bench.path().join("out")).unwrap();
        bench
            .railgauge(&format!(
                "simulate faster.toml --slow rail0-leaf1-spine0:away=60% --seed {seed} --out out --quiet"
            ))
            .must_exit(12);
        let finding = bench.the_finding(FindingKind::SlowLink);
        assert_eq!(
            finding.place.link.as_deref(),
            Some("rail0-leaf1/u0->rail0-spine0/d1")
        );
    }
}

#[test]
fn repeating_counts_what_was_found_and_the_same_seeds_find_the_same() {
    let bench = Bench::new(SMALL);
    let power = || -> Value {
        let ended = bench
            .railgauge("simulate 8x1 --faults 1 --repeat 3 --seed 5 --json")
            .must_exit(0);
        let mut power: Value = serde_json::from_str(&ended.stdout).unwrap();
        for run in power["runs"].as_array_mut().unwrap() {
            run["judging_s"] = Value::Null;
        }
        power
    };
    let first = power();
    let runs = first["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 3);
    for run in runs {
        let count = |name: &str| run[name].as_array().unwrap().len();
        assert_eq!((count("slow"), count("found") + count("missed")), (1, 1), "{run}");
    }
    assert_eq!(first, power());
    assert!(
        !bench.out().exists(),
        "nothing is written when only counts are asked for"
    );
}

#[test]
fn what_cannot_be_simulated_is_said() {
    let bench = Bench::new(SMALL);
    let complaint = |words: &str| bench.railgauge(words).must_exit(2).stderr;
    let error = complaint("simulate 8y1");
    assert!(error.contains("HOSTSxRAILS such as 1024x8"), "{error}");
    let error = complaint("simulate 8x1 --slow h2-rial0-leaf1=60%");
    assert!(error.contains("did you mean `h2-rail0-leaf1`?"), "{error}");
    let error = complaint("simulate no/such.toml");
    assert!(error.contains("no/such.toml"), "{error}");
    assert!(!bench.out().exists());
}

/// Every flow is as fast as it should be alone: only flows at the same time show what a hash does to a group.
#[test]
fn the_worst_traffic_of_a_polarised_leaf_is_told_with_its_cable_and_fails_only_what_a_suite_asks_for() {
    let bench = Bench::new(SMALL);
    let command = "simulate 16x1 --suite worst-traffic --polarised rail0-leaf1 --out out --quiet";
    bench.railgauge(command).must_exit(0);
    let judgement = bench.judgement();
    assert!(judgement.findings.is_empty());
    let across = judgement
        .traffic
        .iter()
        .find(|row| row.pattern == "leaf-shift-1")
        .unwrap();
    assert_eq!(across.outcome, TrafficOutcome::Collides, "{across:?}");
    assert!(
        across
            .cable
            .as_ref()
            .is_some_and(|cable| cable.starts_with("rail0-leaf1/u"))
    );
    assert_eq!(across.sharing, 4);
    let recorded: Recorded = bench.recorded();
    assert_eq!(recorded.run.injected, ["polarised hash of rail0-leaf1"]);
    bench.railgauge("report out --quiet").must_exit(0);
    let page = std::fs::read_to_string(bench.out().join("report.md")).unwrap();
    assert!(page.contains("## Worst traffic") && page.contains("leaf-shift-1"));

    let suite = "name = \"floor\"\n[[test]]\nname = \"patterns\"\nkind = \"permutation\"\nworst = 0\n[test.expect]\nat_least = \"60%\"\n";
    std::fs::write(bench.path().join("floor.toml"), suite).unwrap();
    let command = "simulate 16x1 --suite floor.toml --polarised rail0-leaf1 --out floor --quiet";
    bench.railgauge(command).must_exit(12);
    let refused = bench.railgauge("simulate 16x1 --suite worst-traffic --polarised leaf9 --out none");
    assert!(refused.must_exit(2).stderr.contains("no such switch"));
}
