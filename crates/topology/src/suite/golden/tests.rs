use proptest::prelude::*;

use super::*;
use record::Fact;

const TEXT: &str = r#"
description = "an example"

[[nic]]
board = "MT_0000000838"
firmware = ">= 28.39.1002, < 28.44"

[[nic]]
board = "MT_0000000838"
node = ["gpu1*", "login0"]
firmware = ["28.43.2026", "28.42.1000"]
because = "the new ones"

[[interface]]
part = "rail*"
mtu = 9000

[[compatible]]
when = { nic.firmware = ">= 28.42" }
requires = { host.mlx5-driver = ">= 24.07" }
because = "older drivers do not know its commands"
source = "release notes"
"#;

fn nic(board: &str) -> InventoryPart {
    InventoryPart::new(PartClass::Nic, "mlx5_0").with("board", Fact::Value(board.to_string()))
}

fn refused(text: &str) -> String {
    Golden::parse(text, "g.toml").unwrap_err().to_string()
}

#[test]
fn a_golden_file_says_which_parts_and_what_they_should_be() {
    let golden = Golden::parse(TEXT, "g.toml").unwrap();
    let [all, some, rails] = golden.entries.as_slice() else {
        panic!("{golden:?}");
    };
    assert!(
        all.selects("anything", &nic("MT_0000000838")) && !all.selects("anything", &nic("MT_0000000012"))
    );
    assert!(some.selects("gpu17", &nic("MT_0000000838")) && !some.selects("gpu2", &nic("MT_0000000838")));
    assert!(rails.selects("x", &InventoryPart::new(PartClass::Interface, "rail3")));
    assert!(!rails.selects("x", &InventoryPart::new(PartClass::Interface, "eth0")));
    let line = &all.lines[0];
    assert_eq!((line.fact.as_str(), line.line), ("firmware", 6));
    assert_eq!(line.text, "firmware = >= 28.39.1002, < 28.44");
    for (value, is_fine) in [
        ("28.39.1002", true),
        ("28.43.2026", true),
        ("28.44", false),
        ("28.5", false),
        ("?", false),
    ] {
        assert_eq!(line.wanted.is_met_by(value), is_fine, "{value}");
    }
    assert!(some.lines[0].wanted.is_met_by("28.42.1000") && !some.lines[0].wanted.is_met_by("28.42"));
    assert!(rails.lines[0].wanted.is_met_by("9000"));
    let rule = &golden.compatible[0];
    assert_eq!(
        (rule.when[0].fact.as_str(), rule.requires[0].fact.as_str()),
        ("firmware", "mlx5-driver")
    );
    assert_eq!(
        rule.because,
        "older drivers do not know its commands (release notes)"
    );
}

#[test]
fn a_slip_is_told_with_its_line_and_what_was_meant() {
    assert_eq!(
        refused("[[nic]]\nboard = \"x\"\nfirmwear = \"1\"\n"),
        "g.toml:3:1: unknown key `firmwear` in [[nic]]; did you mean `firmware`?"
    );
    assert_eq!(
        refused("[[nics]]\nfirmware = \"1\"\n"),
        "g.toml:1:3: unknown key `nics` in a golden file; did you mean `nic`?"
    );
    let error = refused(
        "[[compatible]]\nwhen = { nic.firmwar = \"1\" }\nrequires = { host.kernel = \"6\" }\nbecause = \"x\"\n",
    );
    assert!(
        error.starts_with("g.toml:2:") && error.ends_with("did you mean `firmware`?"),
        "{error}"
    );
}

#[test]
fn a_file_that_would_accept_anything_is_refused() {
    for (text, why) in [
        ("", "requires nothing"),
        ("[[nic]]\nboard = \"x\"\n", "[[nic]] requires nothing"),
        ("[[nic]]\nfirmware = \"\"\n", "a text that is not empty"),
        ("[[nic]]\nfirmware = \">= new\"\n", "is not a version"),
        ("[[nic]]\nfirmware = \">= 1, 2\"\n", "must begin with one of"),
        ("[[nic]]\nfirmware = []\n", "empty list"),
        ("[[nic]]\nfirmware = true\n", "must be a text"),
        ("[nic]\nfirmware = \"1\"\n", "must be a list of tables"),
        (
            "[[compatible]]\nwhen = { }\nrequires = { host.kernel = \"6\" }\nbecause = \"x\"\n",
            "names no fact",
        ),
        (
            "[[compatible]]\nwhen = { nic.firmware = \"1\" }\nrequires = { host.kernel = \"6\" }\n",
            "needs `because`",
        ),
    ] {
        let error = refused(text);
        assert!(error.contains(why), "{text}: {error}");
    }
}

#[test]
fn names_fit_patterns_from_both_ends() {
    for (pattern, name, fits_it) in [
        ("node07", "node07", true),
        ("node07", "node071", false),
        ("node*", "node", true),
        ("*-a", "x-a", true),
        ("a*b*c", "a-b-c", true),
        ("a*b*c", "acb", false),
        ("ab*ba", "aba", false),
        ("*", "", true),
    ] {
        assert_eq!(fits(pattern, name), fits_it, "{pattern} {name}");
    }
}

#[test]
fn every_golden_file_that_is_shipped_can_be_used_and_says_why_for_every_table() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../suites/golden");
    let mut seen = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let golden = Golden::parse(&text, &path.display().to_string()).unwrap();
        for entry in &golden.entries {
            assert!(entry.because.is_some(), "{}: {entry:?}", path.display());
        }
        seen += 1;
    }
    assert!(seen > 0);
}

proptest! {
    #[test]
    fn no_text_makes_the_reader_panic(text in ".{0,200}") {
        _ = Golden::parse(&text, "g.toml");
    }

    #[test]
    fn no_damage_to_a_real_file_makes_the_reader_panic(at in 0..TEXT.len(), with in ".{0,4}") {
        let text = format!("{}{with}{}", &TEXT[..at], &TEXT[(at + 1).min(TEXT.len())..]);
        _ = Golden::parse(&text, "g.toml");
    }
}
