//! Fabrics that choose paths in other ways than by ports, and parts with many cables, on the twin: nothing healthy is accused.

use record::{FindingKind, Judgement, SuspectKind};

use crate::harness::{Bench, SMALL};

/// Simulates `diagnose` on a fabric; what it came to and its exit code.
fn simulate(bench: &Bench, arguments: &str, code: i32) -> Judgement {
    let said = bench
        .railgauge(&format!("simulate 12x2 {arguments} --json"))
        .must_exit(code);
    serde_json::from_str(&said.stdout).unwrap_or_else(|error| panic!("{error}: {}", said.stdout))
}

#[test]
fn a_healthy_fabric_passes_however_it_places_flows() {
    let bench = Bench::new(SMALL);
    for placement in ["steady", "per-connection", "sprayed", "unknown"] {
        for seed in 1..4 {
            let judgement = simulate(&bench, &format!("--placement {placement} --seed {seed}"), 0);
            assert_eq!(judgement.findings, [], "{placement}");
        }
    }
}

#[test]
fn a_slow_uplink_of_a_fabric_that_places_connections_anew_is_named_by_the_paths_they_took() {
    let bench = Bench::new(SMALL);
    for (cable, link) in [
        ("rail1-leaf2-spine1:away", "rail1-leaf2/u1->rail1-spine1/d2"),
        ("rail0-leaf1-spine0:towards", "rail0-spine0/d1->rail0-leaf1/u0"),
    ] {
        let judgement = simulate(
            &bench,
            &format!("--placement per-connection --slow {cable}=60%"),
            12,
        );
        let [finding] = judgement.findings.as_slice() else {
            panic!("{:?}", judgement.findings);
        };
        assert_eq!(finding.suspects[0].part, link);
        assert!(finding.suspects[0].confidence > 0.9, "{:?}", finding.suspects);
    }
}

#[test]
fn a_slow_uplink_of_a_fabric_whose_switches_are_silent_is_named_with_its_leaf_and_its_like() {
    let bench = Bench::new(SMALL);
    let judgement = simulate(
        &bench,
        "--placement unknown --slow rail1-leaf2-spine1:away=60%",
        12,
    );
    let [finding] = judgement.findings.as_slice() else {
        panic!("{:?}", judgement.findings);
    };
    assert_eq!(finding.place.switch.as_deref(), Some("rail1-leaf2"));
    let parts: Vec<&str> = finding
        .suspects
        .iter()
        .map(|suspect| suspect.part.as_str())
        .collect();
    assert!(parts.contains(&"rail1-leaf2/u1->rail1-spine1/d2"), "{parts:?}");
    assert!(
        finding.suspects.iter().all(|suspect| suspect.confidence < 0.9),
        "{:?}",
        finding.suspects
    );
}

#[test]
fn a_host_cable_is_named_whatever_the_paths_are() {
    let bench = Bench::new(SMALL);
    for placement in ["per-connection", "sprayed", "unknown"] {
        let judgement = simulate(
            &bench,
            &format!("--placement {placement} --slow h5-rail0-leaf2:towards=60%"),
            12,
        );
        let suspects: Vec<&str> = judgement
            .findings
            .iter()
            .map(|finding| finding.suspects[0].part.as_str())
            .collect();
        assert_eq!(suspects, ["rail0-leaf2/p1->h5/rail0"], "{placement}");
    }
}

#[test]
fn a_part_with_many_cables_gets_one_finding() {
    let bench = Bench::new(SMALL);
    let one = |slow: &str| {
        let mut judgement = simulate(&bench, &format!("--slow {slow}=60%"), 12);
        assert_eq!(judgement.findings.len(), 1, "{slow}: {:?}", judgement.findings);
        judgement.findings.remove(0)
    };
    let cable = one("h5-rail0-leaf2");
    assert_eq!(
        cable.place.links,
        ["h5/rail0->rail0-leaf2/p1", "rail0-leaf2/p1->h5/rail0"]
    );
    assert_eq!(one("rail0-spine1").place.switch.as_deref(), Some("rail0-spine1"));
    assert_eq!(one("rail1-leaf3").place.switch.as_deref(), Some("rail1-leaf3"));
    let host = one("h7");
    assert_eq!(host.suspects[0].part, "h7");
    assert_eq!(host.place.links.len(), 4, "two rails, both directions");
    let rail = one("rail1");
    assert_eq!(
        (rail.kind, rail.place.rail.as_deref()),
        (FindingKind::SlowRail, Some("rail1"))
    );
    let fabric = one("all");
    assert_eq!((fabric.kind, fabric.place.rail), (FindingKind::SlowRail, None));
}

/// Switches that all forward too slowly, each a little differently: none of them stands out, and what stays within a leaf is fast.
#[test]
fn everything_between_switches_is_one_finding_and_no_switch_is_accused() {
    let bench = Bench::new(SMALL);
    let spines = |rail: u8| format!("--slow rail{rail}-spine0=78% --slow rail{rail}-spine1=74%");
    let all = format!("{} {}", spines(0), spines(1));
    for (noise, slow, kind) in [
        ("recorded", &spines(1), SuspectKind::Rail),
        ("recorded", &all, SuspectKind::Fabric),
        ("cells", &all, SuspectKind::Fabric),
    ] {
        let judgement = simulate(&bench, &format!("--noise {noise} {slow}"), 12);
        let [finding] = judgement.findings.as_slice() else {
            panic!("{noise}, {slow}: {:?}", judgement.findings);
        };
        assert_eq!(finding.suspects[0].kind, kind, "{}", finding.sentence);
        assert!(
            finding.sentence.contains("everything between switches"),
            "{}",
            finding.sentence
        );
        let repeat = finding.repeat.as_deref().unwrap();
        assert!(!repeat.contains("--suspect"), "{repeat}");
    }
}

/// Hosts behind two leaves with eight parallel cables to each of two spines.
fn parallel_cables(hosts: usize) -> String {
    let mut text = String::new();
    for host in 0..hosts {
        text += &format!("[[host]]\nname = \"h{host}\"\n");
    }
    for (switch, tier) in [
        ("leaf0", "leaf"),
        ("leaf1", "leaf"),
        ("spine0", "spine"),
        ("spine1", "spine"),
    ] {
        text += &format!("[[switch]]\nname = \"{switch}\"\ntier = \"{tier}\"\nrail = \"rail0\"\n");
    }
    let mut link = |name: String, low: String, high: String| {
        text += &format!(
            "[[link]]\nname = \"{name}\"\nends = [\"{low}\", \"{high}\"]\nrate = \"100gbit\"\nrail = \"rail0\"\n"
        );
    };
    for host in 0..hosts {
        let leaf = host * 2 / hosts;
        link(
            format!("h{host}-leaf{leaf}"),
            format!("h{host}/rail0"),
            format!("leaf{leaf}/p{host}"),
        );
    }
    for (leaf, spine, strand) in (0..32).map(|number: usize| (number / 16, number / 8 % 2, number % 8)) {
        link(
            format!("leaf{leaf}-spine{spine}-{strand}"),
            format!("leaf{leaf}/u{}", spine * 8 + strand),
            format!("spine{spine}/d{}", leaf * 8 + strand),
        );
    }
    text
}

#[test]
fn cables_that_no_connection_has_crossed_are_sought_twice_and_not_for_ever() {
    let bench = Bench::new(SMALL);
    std::fs::write(bench.path().join("parallel.toml"), parallel_cables(4)).unwrap();
    for seed in 1..6 {
        let said = bench
            .railgauge(&format!(
                "simulate parallel.toml --placement per-connection --seed {seed} --repeat 1 --json"
            ))
            .must_exit(0);
        let whole: serde_json::Value = serde_json::from_str(&said.stdout).unwrap();
        let steps = whole["runs"][0]["steps"].as_u64().unwrap();
        assert!(steps <= 2, "{steps} steps: {}", whole["runs"][0]);
    }
}
