//! Counters from a run to its report: read around cells, judged by rules, and by rules of one's own.

use std::collections::BTreeMap;
use std::io::Write;

use record::{CounterState, Event, FindingKind};

use crate::harness::{Bench, SMALL};

const OWN_RULES: &str = "[[rule]]\nname = \"mine\"\ncounters = \"local_link_integrity_errors\"\nbound = \"1000 per second\"\n\
                         severity = \"bad\"\nmeans = \"m\"\ndo = \"d\"\nsource = \"s\"\n";

#[test]
fn counters_are_read_around_cells_and_what_stands_still_costs_a_line_once() {
    let bench = Bench::new(SMALL);
    bench.run("--transport tcp").must_exit(20);
    let recorded = bench.recorded();
    let mut lines: BTreeMap<(u32, &str, &str), Vec<u32>> = BTreeMap::new();
    for event in &recorded.events {
        let Event::Counter(counter) = event else { continue };
        assert!(counter.ns.is_some_and(|ns| ns.0 > 0), "{counter:?}");
        let key = (counter.rank, counter.rail.as_str(), counter.name.as_str());
        lines.entry(key).or_default().push(counter.cell);
        if counter.name == "pcie/*" {
            assert_eq!(counter.state, CounterState::Absent, "loopback is on no bus");
        }
    }
    let of = |name: &str| lines.get(&(0, "loop0", name)).map_or(0, Vec::len);
    assert_eq!((of("carrier_changes"), of("pcie/*")), (1, 1), "{lines:?}");
    let over_it = recorded.run.cells.iter().filter(|cell| cell.rails == ["loop0"]);
    assert_eq!(of("tx_bytes"), over_it.count(), "{lines:?}");
    let page = std::fs::read_to_string(bench.out().join("report.md")).unwrap();
    assert!(page.contains("## Port counters that changed"), "{page}");
}

#[test]
fn a_port_that_makes_errors_is_found_when_a_run_is_judged_again_and_rules_of_ones_own_decide() {
    let bench = Bench::new(SMALL);
    bench.run("--transport tcp").must_exit(20);
    let line = r#"{"counter":{"cell":0,"round":0,"rank":1,"rail":"loop0","name":"local_link_integrity_errors","before":0,"after":1,"ns":1000000000,"bits":4}}"#;
    let mut samples = std::fs::OpenOptions::new()
        .append(true)
        .open(bench.out().join("samples.jsonl"))
        .unwrap();
    writeln!(samples, "{line}").unwrap();
    // The suite states no expectation, which is inconclusive; what was found wins.
    bench.railgauge("report out").must_exit(12);
    let finding = bench.the_finding(FindingKind::PortErrors);
    assert!(finding.sentence.starts_with("loop0 at "), "{}", finding.sentence);
    assert!(
        finding.sentence.contains("local_link_integrity_errors +1"),
        "{}",
        finding.sentence
    );
    std::fs::write(bench.out().join("counters.toml"), OWN_RULES).unwrap();
    bench.railgauge("report out").must_exit(20);
    let found = bench.judgement().findings;
    assert!(
        found
            .iter()
            .all(|finding| finding.kind != FindingKind::PortErrors),
        "{found:?}"
    );
}

#[test]
fn rules_with_a_slip_are_refused_before_anything_is_measured() {
    let bench = Bench::new(SMALL);
    let path = bench.path().join("mine.toml");
    std::fs::write(&path, OWN_RULES.replace("per second", "per secnd")).unwrap();
    let error = bench.run("--counter-rules mine.toml").must_exit(2).stderr;
    assert!(
        error.contains("mine.toml:4:9: `bound` is per `secnd`; did you mean `second`?"),
        "{error}"
    );
    assert!(!bench.out().exists());
    std::fs::write(&path, OWN_RULES).unwrap();
    bench.run("--counter-rules mine.toml").must_exit(20);
    assert_eq!(
        std::fs::read_to_string(bench.out().join("counters.toml")).unwrap(),
        OWN_RULES
    );
}
