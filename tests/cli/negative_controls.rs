//! Faults injected on purpose: each is found, named, and nothing else is blamed.

use record::{Finding, FindingKind, Judgement};

use crate::harness::{Bench, SMALL};
use crate::verdict::is_quiet_machine;

/// Rails, and both directions of the only pair, each with a margin that loopback's own unevenness stays within.
const RAILS: &str = r#"
name = "controls"
[run]
ranks = 2
transport = "tcp"
rails = ["loop0=127.0.1.1", "loop1=127.0.1.2"]
deadline = "10s"
[[test]]
name = "rails"
kind = "rails"
collective = "all-reduce"
algorithm = "ring"
sizes = ["1M"]
warmup = 2
iterations = 16
[test.expect]
peers = "30%"
"#;

const PAIRS: &str = r#"
name = "controls"
[run]
ranks = 3
transport = "tcp"
rails = ["loop0=127.0.1.1"]
deadline = "10s"
[[test]]
name = "pairs"
kind = "pairs"
directions = "one-way"
sizes = ["1M"]
warmup = 2
iterations = 16
[test.expect]
peers = "60%"
"#;

/// The same two ranks in both orders are each other's reference, so that speed is judged at all.
const ARITHMETIC: &str = r#"
name = "controls"
[run]
ranks = 2
transport = "shm"
deadline = "20s"
[rule]
straggler_factor = 2.0
[[test]]
name = "ring"
collective = "all-reduce"
algorithm = "ring"
groups = [[0, 1], [1, 0]]
sizes = ["1M", "4M"]
warmup = 2
iterations = 20
[test.expect]
peers = "99%"
"#;

fn accusations(judgement: &Judgement) -> Vec<&str> {
    judgement
        .findings
        .iter()
        .map(|finding| finding.sentence.as_str())
        .collect()
}

#[test]
fn a_flipped_bit_is_found_with_rank_offset_and_bits() {
    for words in ["--transport shm", "--transport tcp", "--procs"] {
        let bench = Bench::new(SMALL);
        let ended = bench.run(&format!("--inject flip:rank=1 {words}")).must_exit(22);
        let judgement = bench.judgement();
        let corrupt = judgement
            .findings
            .iter()
            .find(|finding| finding.kind == FindingKind::Corruption);
        let sentence = &corrupt.expect("no corruption found").sentence;
        for text in ["rank ", "byte ", "bit", "0x"] {
            assert!(sentence.contains(text), "`{text}` is missing: {sentence}");
            assert!(
                ended.stdout.contains(text),
                "`{text}` is missing: {}",
                ended.stdout
            );
        }
        assert!(ended.words().contains("wrong"), "{}", ended.stdout);
        assert!(bench.recorded().run.injected[0].contains("received by rank 1"));
        assert!(
            ended.words().contains("injected"),
            "the report does not say it is a control: {}",
            ended.stdout
        );
    }
}

#[test]
fn a_flip_is_named_at_the_rank_and_byte_where_it_struck() {
    // The second block is only copied to rank 1 in the gathering half, so that its result alone is wrong.
    let suite = SMALL.replace("collective = \"all-reduce\"", "collective = \"all-gather\"");
    let bench = Bench::new(&suite);
    bench
        .run("--only size=1K --inject flip:rank=1,iteration=4,byte=5,bit=3")
        .must_exit(22);
    let corrupt = bench.the_finding(FindingKind::Corruption);
    assert_eq!(corrupt.place.ranks, [1]);
    assert!(corrupt.sentence.contains("iteration 4"), "{}", corrupt.sentence);
    assert!(corrupt.sentence.contains("bit"), "{}", corrupt.sentence);
    let recorded = bench.recorded();
    let seen = recorded.events.iter().filter_map(|event| match event {
        record::Event::Corruption(corruption) => Some(corruption),
        _ => None,
    });
    let [seen] = seen.collect::<Vec<_>>()[..] else {
        panic!("one wrong result was asked for");
    };
    let bits = |text: &str| u32::from_str_radix(text.trim_start_matches("0x"), 16).unwrap();
    let flipped = bits(&seen.expected_bits) ^ bits(&seen.found_bits);
    assert_eq!(
        flipped,
        1 << (8 + 3),
        "byte 5 is byte 1 of element 1, which starts at byte 4"
    );
    assert_eq!(
        (seen.rank, seen.element, seen.byte_offset, seen.wrong_elements),
        (1, 1, 4, 1)
    );
}

/// The findings about speed of a control, each of which must be about what was throttled; there is one on a quiet machine.
fn slow(bench: &Bench, words: &str, is_right: impl Fn(&Finding) -> bool) -> Vec<Finding> {
    let ended = bench.railgauge_alone(words);
    let judgement = bench.judgement();
    let is_slow = |finding: &&Finding| finding.kind.exit_code() == 12;
    let slow: Vec<Finding> = judgement.findings.iter().filter(is_slow).cloned().collect();
    assert!(slow.iter().all(is_right), "{:?}", accusations(&judgement));
    let left_open = ended.code == Some(20) && slow.len() <= 1 && !is_quiet_machine();
    let found = ended.code == Some(12) && slow.len() == 1;
    assert!(
        found || left_open,
        "{:?}: {}{}",
        ended.code,
        ended.stdout,
        ended.stderr
    );
    slow
}

#[test]
fn a_throttled_rail_is_named_and_its_neighbour_is_not() {
    let bench = Bench::new(RAILS);
    let words = "run suite.toml --out out --inject throttle:rail=loop1,rate=20MB/s";
    slow(&bench, words, |finding| {
        finding.kind == FindingKind::SlowRail && finding.place.rail.as_deref() == Some("loop1")
    });
}

#[test]
fn a_throttled_pair_is_named_with_its_direction_and_no_other_is() {
    let bench = Bench::new(PAIRS);
    let words = "run suite.toml --out out --inject throttle:pair=2:0,rate=10MB/s";
    slow(&bench, words, |finding| {
        finding.kind == FindingKind::SlowPair
            && finding.place.ranks == [2, 0]
            && finding.sentence.contains("rank 2 ")
    });
}

#[test]
fn a_slow_rank_is_named_and_no_rail_or_pair_is_blamed_for_it() {
    let bench = Bench::new(ARITHMETIC);
    let words = "run suite.toml --out out --inject slow-rank:rank=1,factor=8";
    slow(&bench, words, |finding| {
        finding.kind == FindingKind::StragglerRank && finding.place.ranks == [1]
    });
}

#[test]
fn a_clock_that_drifts_and_jumps_is_recorded_and_no_part_is_blamed_for_it() {
    let suite = RAILS.replace(
        "iterations = 16",
        "iterations = { min = 50, max = 100000 }\ntight = \"0.001%\"\nbudget = \"800ms\"",
    );
    let bench = Bench::new(&suite);
    let ended = bench.railgauge_alone(
        "run suite.toml --out out --procs --inject clock:rank=1,drift=100ppm,jump=20ms,after=1s",
    );
    let judgement = bench.judgement();
    assert!(judgement.findings.is_empty(), "{:?}", accusations(&judgement));
    assert!(
        matches!(ended.code, Some(0 | 20)),
        "{:?}: {}",
        ended.code,
        ended.stdout
    );
    let recorded = bench.recorded();
    let comparisons = recorded.events.iter().filter_map(|event| match event {
        record::Event::Clock(comparison) => Some(comparison),
        _ => None,
    });
    let comparisons: Vec<_> = comparisons.collect();
    assert!(
        comparisons.iter().all(|comparison| comparison.ranks == [1]),
        "rank 0 has the coordinator's clock"
    );
    let jumps: Vec<i64> = comparisons
        .iter()
        .filter_map(|comparison| comparison.jump_ns)
        .collect();
    let [jump] = jumps[..] else {
        panic!("{comparisons:?}");
    };
    assert!(jump.abs_diff(20_000_000) < 2_000_000, "{jump}");
    let before = comparisons
        .iter()
        .take_while(|comparison| comparison.jump_ns.is_none());
    let known = before.last().expect("compared before the jump, too");
    assert!(
        known.drift_ppb.abs_diff(100_000) <= known.drift_uncertainty_ppb,
        "{known:?}"
    );
}
