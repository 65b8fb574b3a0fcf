//! Suite files as users write them: every slip is placed and explained, and nothing they write brings railgauge down.

use proptest::prelude::*;
use record::TestKind;
use record::units::{Bytes, Nanos};
use record::{Algorithm, Collective, DType, Placement, ReduceOp};
use topology::suite::{AlgorithmChoice, Directions, Groups, SpecChoice, Striping, Suite, SuiteFile};

/// Parses and checks, errors as the user sees them.
fn check(text: &str) -> Result<Suite, String> {
    let file = SuiteFile::parse(text, "suites/x.toml").map_err(|error| error.to_string())?;
    file.check().map_err(|error| error.to_string())
}

/// The complaint about a test that has these lines, the first of which is line 4 of the file.
fn complaint(lines: &str) -> String {
    check(&format!("name = \"s\"\n[[test]]\nname = \"t\"\n{lines}\n")).unwrap_err()
}

#[test]
fn everything_a_test_says_arrives() {
    let text = r#"
name = "s"
[[test]]
name = "a"
collective = ["all-reduce", "broadcast"]
algorithm = "tree"
sizes = { from = "8", to = "1K", factor = 8 }
type = ["f32", "u8"]
op = "max"
placement = ["in-place", "out-of-place"]
groups = [[0, 1], [2, 3]]
stripe = true
flows = 4
source_port = 47000
root = 1
warmup = 0
iterations = { min = 5, max = 7 }
tight = 0.5
budget = "250ms"
verify = "1/8"
[test.expect]
spec = "ndr400"
peers = "12.5%"
[[test]]
name = "b"
kind = "pairs"
sizes = "1M"
directions = "one-way"
iterations = 9
verify = "never"
"#;
    let suite = check(text).unwrap();
    let a = &suite.tests[0];
    assert_eq!(a.collectives, [Collective::AllReduce, Collective::Broadcast]);
    assert_eq!(a.algorithms, AlgorithmChoice::These(vec![Algorithm::Tree]));
    assert_eq!(a.sizes, [Bytes(8), Bytes(64), Bytes(512)]);
    assert_eq!(a.dtypes, [DType::F32, DType::U8]);
    assert_eq!(a.ops, [ReduceOp::Max]);
    assert_eq!(a.placements, [Placement::InPlace, Placement::OutOfPlace]);
    assert_eq!(a.groups, Groups::Listed(vec![vec![0, 1], vec![2, 3]]));
    assert_eq!(
        (a.stripe, a.flows, a.source_port, a.root),
        (Striping::EachAndAll, 4, Some(47000), 1)
    );
    assert_eq!((a.warmup, a.min_iterations, a.max_iterations), (0, 5, 7));
    assert_eq!((a.tight, a.budget, a.verify_every), (0.5, Nanos(250_000_000), 8));
    assert_eq!(a.expect.spec, Some(SpecChoice::Row("ndr400".to_string())));
    assert_eq!(a.expect.peers, Some(0.125));
    let b = &suite.tests[1];
    assert_eq!((b.kind, b.directions), (TestKind::Pairs, Directions::OneWay));
    assert_eq!(b.collectives, [Collective::PointToPoint]);
    assert_eq!((b.min_iterations, b.max_iterations, b.verify_every), (9, 9, 0));
}

#[test]
fn a_wrong_value_in_a_test_is_placed_and_says_what_would_be_right() {
    let cases = [
        (
            "kind = \"rail\"",
            "4:8: unknown kind `rail`; known are collective, rails, pairs, latency, groups, incast, all-to-all, ecmp, fairness, permutation, probe; did you mean `rails`?",
        ),
        ("sizes = []", "4:9: `sizes` is an empty list"),
        (
            "sizes = [\"64X\"]",
            "4:10: `sizes`: `64X` is not a size; write it like 8, 64K",
        ),
        ("sizes = [true]", "4:10: `sizes` must be a text, found `true`"),
        (
            "sizes = [-8]",
            "4:10: `sizes` must be a size from 0 to 1 TiB, found `-8`",
        ),
        (
            "sizes = { from = \"1M\", to = \"1K\", factor = 2 }",
            "4:18: the sweep is empty: it starts at 1 MiB",
        ),
        (
            "sizes = { from = 8, to = 64, factor = 1 }",
            "4:39: `factor` must be a whole number from 2 to",
        ),
        (
            "sizes = { from = 0, to = 64, factor = 2 }",
            "4:39: the sweep never ends",
        ),
        (
            "sizes = { from = 8, to = 64, factor = 2, step = 8 }",
            "4:49: a sweep has either `factor` or `step`",
        ),
        (
            "sizes = { from = 8, to = 64 }",
            "4:9: a sweep needs `factor` or `step`",
        ),
        ("sizes = { to = 64, factor = 2 }", "4:9: `sizes` needs `from`"),
        (
            "sizes = { from = 8, to = \"1G\", step = 8 }",
            "4:39: the sweep has 134217728 sizes",
        ),
        (
            "sizes = \"8\"\ncollective = \"al-reduce\"",
            "5:14: unknown collective `al-reduce`; known are all-reduce, reduce-scatter, all-gather, broadcast, \
             all-to-all, point-to-point, bidirectional, round-trip, incast, streams, probes; did you mean `all-reduce`?",
        ),
        (
            "sizes = \"8\"\ncollective = \"bidirectional\"",
            "5:14: bidirectional takes exactly two ranks",
        ),
        (
            "sizes = \"8\"\ncollective = []",
            "5:14: `collective` is an empty list",
        ),
        (
            "sizes = \"8\"\ncollective = \"all-gather\"\nalgorithm = [\"ring\", \"tree\"]",
            "6:22: all-gather has no algorithm tree; use one of: ring",
        ),
        (
            "sizes = \"8\"\nalgorithm = \"rings\"",
            "5:13: unknown algorithm `rings`",
        ),
        (
            "sizes = \"8\"\ntype = [\"f32\", \"f32\"]",
            "5:16: `f32` is listed twice in `type`",
        ),
        (
            "sizes = \"8\"\ntype = \"float\"",
            "5:8: unknown type `float`; known are f32, f64, f16, bf16",
        ),
        ("sizes = \"8\"\nop = 3", "5:6: `op` must be a text, found `3`"),
        (
            "sizes = \"8\"\ngroups = \"half\"",
            "5:10: unknown groups `half`; known are world, pairs, halves",
        ),
        (
            "sizes = \"8\"\ngroups = [[0, 0]]",
            "5:15: rank 0 is in this group twice",
        ),
        ("sizes = \"8\"\ngroups = [[]]", "5:11: `groups` is an empty list"),
        (
            "sizes = \"8\"\nflows = 0",
            "5:9: `flows` must be a whole number from 1 to 256, found `0`",
        ),
        (
            "sizes = \"8\"\nsource_port = 99999",
            "5:15: `source_port` must be a whole number from 1024 to 65535",
        ),
        (
            "sizes = \"8\"\niterations = 0",
            "5:14: `iterations` must be a whole number from 1 to 1000000, found `0`",
        ),
        (
            "sizes = \"8\"\niterations = { min = 9, max = 3 }",
            "5:14: `min` (9) is more than `max` (3)",
        ),
        (
            "sizes = \"8\"\ntight = \"200%\"",
            "5:9: `tight` must be a percentage above 0% and below 100%",
        ),
        (
            "sizes = \"8\"\ntight = \"nan%\"",
            "5:9: `tight` must be a percentage",
        ),
        (
            "sizes = \"8\"\nverify = \"often\"",
            "5:10: `verify` must be \"every\", \"never\" or a fraction",
        ),
        ("sizes = \"8\"\nverify = \"1/0\"", "5:10: `verify` must be"),
        (
            "sizes = \"8\"\nexpect = 3",
            "5:10: `expect` must be a table, written [test.expect]",
        ),
        (
            "sizes = \"8\"\n[test.expect]\npeers = 25",
            "6:9: `peers` must be a percentage above 0% and below 100%",
        ),
        (
            "kind = \"rails\"\nsizes = \"8\"\ntransport = \"shm\"",
            "6:13: shared memory has no rails",
        ),
        (
            "kind = \"pairs\"\nsizes = \"8\"\ngroups = \"world\"",
            "6:10: a test of kind \"pairs\" does not use `groups`",
        ),
        (
            "sizes = \"8\"\ndirections = \"both\"",
            "5:14: a test of kind \"collective\" does not use `directions`",
        ),
    ];
    for (lines, wanted) in cases {
        let found = complaint(lines);
        let wanted = format!("suites/x.toml:{wanted}");
        assert!(
            found.starts_with(&wanted),
            "{lines}\n  found  {found}\n  wanted {wanted}"
        );
    }
}

#[test]
fn a_test_without_sizes_is_placed_at_its_header() {
    assert_eq!(complaint(""), "suites/x.toml:2:1: [[test]] needs `sizes`");
}

#[test]
fn a_test_whose_lists_multiply_beyond_reason_is_refused() {
    let lines = "sizes = { from = 4, to = \"16K\", step = 4 }\ntype = [\"f32\", \"i32\", \"u32\"]";
    assert!(
        complaint(lines).contains("12288 combinations"),
        "{}",
        complaint(lines)
    );
}

proptest! {
    #[test]
    fn any_text_at_all_gets_an_answer(text in "\\PC{0,200}|[a-z\\[\\]{}=\"',.\n0-9 #-]{0,200}") {
        if let Err(error) = check(&text) {
            prop_assert!(error.starts_with("suites/x.toml:"));
        }
    }

    #[test]
    fn a_built_in_suite_damaged_anywhere_gets_an_answer_with_a_place(
        which in 0..3usize,
        cuts in prop::collection::vec((any::<prop::sample::Index>(), 0..4usize, "[ -~\n]{0,3}"), 1..4),
    ) {
        let names = ["smoke", "all-reduce", "rails"];
        let mut text = std::fs::read(format!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../suites/{}.toml"), names[which])).unwrap();
        for (at, removed, inserted) in cuts {
            let from = at.index(text.len());
            let to = (from + removed).min(text.len());
            text.splice(from..to, inserted.bytes());
        }
        if let Err(error) = check(&String::from_utf8_lossy(&text)) {
            let place = error.strip_prefix("suites/x.toml:").and_then(|rest| rest.split_once(':'));
            prop_assert!(place.is_some_and(|(line, _)| line.parse::<usize>().is_ok()), "{}", error);
        }
    }

    #[test]
    fn any_size_text_gets_an_answer(text in "\\PC{0,20}|[0-9.]{0,30}[KMGTiB ]{0,4}") {
        if let Ok(bytes) = text.parse::<Bytes>() {
            prop_assert!(bytes.0 <= 1 << 53);
        }
    }
}
