//! "How many flows do I need?", from the command line.

use serde_json::Value;

use crate::harness::{Bench, SMALL};

#[test]
fn the_number_of_flows_that_cover_all_paths_is_the_published_one() {
    let bench = Bench::new(SMALL);
    let asked = "ecmp-plan --paths 16 --coverage 0.99 --flows 64,256 --goodput 0.8 --json";
    let answers: Value = serde_json::from_str(&bench.railgauge(asked).must_exit(0).stdout).unwrap();
    assert_eq!(answers["coverage"]["flows"], 115);
    let rows = answers["outlook"].as_array().unwrap();
    assert_eq!(rows.len(), 2);
    let mean = |row: &Value, of: &str| row[of]["mean"].as_f64().unwrap();
    // The field's rule: the busiest of 16 paths has 1.47 times the mean of 256 flows.
    assert!(
        (mean(&rows[1], "collective") - 1.0 / 1.47).abs() < 0.02,
        "{rows:?}"
    );
    assert!(mean(&rows[0], "independent") < mean(&rows[1], "independent"));
    let needed = &answers["goodput"];
    let flows = |of: &str| needed[of]["mean"].as_u64().unwrap();
    assert!(
        flows("independent") < 256 && flows("collective") > 256,
        "{needed}"
    );

    let text = bench.railgauge("ecmp-plan --paths 4").must_exit(0).stdout;
    assert!(
        text.contains("all of them used with probability 0.99: 21 flows"),
        "{text}"
    );
}

#[test]
fn a_share_that_is_none_is_refused_with_an_example() {
    let bench = Bench::new(SMALL);
    for asked in [
        "--paths 16 --coverage 1",
        "--paths 16 --goodput 150%",
        "--paths 0",
    ] {
        let said = bench.railgauge(&format!("ecmp-plan {asked}")).must_exit(2).stderr;
        assert!(
            said.contains("between 0 and 1") || said.contains("not in 1..="),
            "{asked}: {said}"
        );
    }
}
