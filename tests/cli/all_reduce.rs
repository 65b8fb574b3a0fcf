//! `railgauge all-reduce` as scripts written for nccl-tests read it.

use crate::harness::{Bench, SMALL};

/// Lines that are rows, cut into columns.
fn rows(stdout: &str) -> Vec<Vec<String>> {
    let rows = stdout
        .lines()
        .filter(|line| !line.starts_with('#') && !line.trim().is_empty());
    rows.map(|line| line.split_whitespace().map(str::to_string).collect())
        .collect()
}

fn all_reduce(words: &str) -> crate::harness::Ended {
    Bench::new(SMALL).railgauge(&format!("all-reduce {words}"))
}

#[test]
fn columns_and_footer_are_those_of_nccl_tests() {
    let ended = all_reduce("-b 1K -e 16K -f 4 -n 4 -w 1").must_exit(0);
    let header: Vec<&str> = ended
        .stdout
        .lines()
        .filter(|line| line.starts_with('#'))
        .collect();
    let names = header
        .iter()
        .find(|line| line.contains("redop"))
        .expect("no column names");
    let names: Vec<&str> = names.trim_start_matches('#').split_whitespace().collect();
    let columns = "size count type redop root time algbw busbw #wrong time algbw busbw #wrong";
    assert_eq!(names.join(" "), columns);
    assert!(ended.stdout.contains("out-of-place") && ended.stdout.contains("in-place"));

    let rows = rows(&ended.stdout);
    let sizes: Vec<&str> = rows.iter().map(|row| row[0].as_str()).collect();
    assert_eq!(sizes, ["1024", "4096", "16384"], "one row per size, ascending");
    for row in &rows {
        assert_eq!(row.len(), 13, "{row:?}");
        assert_eq!(row[1].parse::<u64>().unwrap() * 4, row[0].parse::<u64>().unwrap());
        assert_eq!(
            (row[2].as_str(), row[3].as_str(), row[4].as_str()),
            ("float", "sum", "-1")
        );
        for time in [&row[5], &row[9]] {
            assert!(time.parse::<f64>().unwrap() > 0.0);
        }
        assert_eq!((row[8].as_str(), row[12].as_str()), ("0", "0"), "wrong elements");
    }
    assert!(
        ended.stdout.contains("\n# Out of bounds values : 0 OK\n"),
        "{}",
        ended.stdout
    );
    let average = ended
        .stdout
        .lines()
        .find_map(|line| line.strip_prefix("# Avg bus bandwidth    : "));
    let average: f64 = average.expect("no average").trim().parse().unwrap();
    let of_rows = rows
        .iter()
        .flat_map(|row| [&row[7], &row[11]])
        .map(|bus| bus.parse::<f64>().unwrap());
    let expected = of_rows.sum::<f64>() / (2 * rows.len()) as f64;
    assert!(
        (average - expected).abs() <= 0.005 + 1e-9,
        "{average} is not the mean of the column, {expected}"
    );
}

#[test]
fn unchecked_data_is_not_called_right() {
    let ended = all_reduce("-b 1K -e 1K -n 4 -c 0").must_exit(0);
    let row = &rows(&ended.stdout)[0];
    assert_eq!((row[8].as_str(), row[12].as_str()), ("N/A", "N/A"));
}

#[test]
fn percentiles_come_after_the_usual_columns() {
    let ended = all_reduce("-b 1K -e 1K -n 8 --percentiles").must_exit(0);
    let row = &rows(&ended.stdout)[0];
    assert!(row.len() > 13, "{row:?}");
    let values: Vec<f64> = row[13..17].iter().map(|value| value.parse().unwrap()).collect();
    assert!(values.is_sorted(), "p50, p95, p99, max: {values:?}");
    for name in ["p50", "p95", "p99", "max"] {
        assert!(ended.stdout.contains(name));
    }
}

#[test]
fn every_algorithm_transport_and_launch_gives_right_data() {
    let algorithms =
        ["auto", "ring", "tree", "double-tree"].map(|name| format!("--algorithm {name} --ranks 3"));
    let ways = ["--transport tcp", "--transport shm", "--procs", "-t 2 -g 1"].map(str::to_string);
    for words in algorithms.iter().chain(&ways) {
        let ended = all_reduce(&format!("-b 1000 -e 3000 -i 2000 -n 3 {words}")).must_exit(0);
        let rows = rows(&ended.stdout);
        assert_eq!(rows.len(), 2, "{words}: {}", ended.stdout);
        assert!(
            rows.iter().all(|row| row[8] == "0" && row[12] == "0"),
            "{words}: {rows:?}"
        );
        assert!(ended.stdout.contains("# Out of bounds values : 0 OK"), "{words}");
    }
}

#[test]
fn types_and_operators_are_all_measured_when_asked() {
    let ended = all_reduce("-b 64 -e 64 -n 2 -d all -o all").must_exit(0);
    assert_eq!(rows(&ended.stdout).len(), 8 * 5, "{}", ended.stdout);
}

#[test]
fn wrong_data_is_counted_in_the_row_and_in_the_exit_code() {
    let ended = all_reduce("-b 1K -e 1K -n 4 --inject flip:rank=1").must_exit(22);
    let row = &rows(&ended.stdout)[0];
    let wrong: u64 = row[8].parse::<u64>().unwrap() + row[12].parse::<u64>().unwrap();
    assert!(wrong > 0, "{row:?}");
    let line = ended
        .stdout
        .lines()
        .find(|line| line.starts_with("# Out of bounds values : "));
    assert!(
        line.is_some_and(|line| line.ends_with("FAILED")),
        "{}",
        ended.stdout
    );
}

#[test]
fn a_machine_can_read_it_and_nothing_is_left_behind_unless_asked() {
    let bench = Bench::new(SMALL);
    let ended = bench
        .railgauge("all-reduce -b 1K -e 4K -f 2 -n 3 --json")
        .must_exit(0);
    let judgement: record::Judgement = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(judgement.cells.len(), 3 * 2);
    assert!(
        judgement
            .cells
            .iter()
            .all(|cell| cell.iterations == 3 && cell.verified == 3)
    );
    let left: Vec<_> = std::fs::read_dir(bench.path()).unwrap().collect();
    assert_eq!(left.len(), 1, "only the suite: {left:?}");
    bench
        .railgauge("all-reduce -b 1K -e 1K -n 3 --out kept")
        .must_exit(0);
    assert!(bench.path().join("kept/samples.jsonl").exists());
}
