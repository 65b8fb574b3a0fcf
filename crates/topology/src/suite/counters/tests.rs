use proptest::prelude::*;

use super::*;
use record::units::Nanos;

const RULE: &str = "[[rule]]\nname = \"r\"\ncounters = [\"symbol_error\"]\nbound = \"10 per hour\"\nseverity = \"bad\"\n\
                    means = \"m\"\ndo = \"d\"\nsource = \"s\"\n";

fn error(text: &str) -> String {
    parse(text, "mine.toml").unwrap_err().to_string()
}

#[test]
fn the_built_in_rules_can_be_read_and_every_counter_that_means_trouble_has_one() {
    let rules = read(BUILT_IN).unwrap();
    for counter in COUNTERS
        .iter()
        .filter(|counter| counter.kind != CounterKind::Traffic)
    {
        // Frames are counted beside the time they take, which is what is judged.
        let is_judged_by_time = counter.name.contains("pause") && counter.unit == CounterUnit::Packets;
        let has_rule = rules.iter().any(|rule| rule.is_about(counter.name));
        assert!(has_rule || is_judged_by_time, "{}", counter.name);
    }
    assert_eq!(built_in(), rules);
}

#[test]
fn the_documentation_lists_every_rule_with_its_bound_and_source() {
    let page = include_str!("../../../../../docs/inventory.md");
    for rule in built_in() {
        let row = page
            .lines()
            .find(|line| line.starts_with(&format!("| `{}` |", rule.name)));
        let row = row.unwrap_or_else(|| panic!("{} is not in docs/inventory.md", rule.name));
        let rest = format!("| {} | {} | {} |", rule.bound, rule.severity, rule.source);
        assert!(row.ends_with(&rest), "{row}");
        assert!(
            rule.counters
                .iter()
                .all(|counter| row.contains(&format!("`{}`", counter.name))),
            "{row}"
        );
    }
}

#[test]
fn a_rule_without_a_source_or_any_other_field_is_refused() {
    for key in RULE_KEYS {
        let text = RULE.replace(&format!("\n{key} ="), "\n# ");
        assert!(
            error(&text).contains(&format!("[[rule]] needs `{key}`")),
            "{}",
            error(&text)
        );
    }
    assert!(error(&RULE.replace("\"s\"", "\" \"")).contains("a text that is not empty"));
    assert!(error("").contains("needs `rule`"));
}

#[test]
fn a_slip_is_named_with_its_line_and_the_nearest_word() {
    let slip = error(&RULE.replace("symbol_error", "symbol_eror"));
    assert!(
        slip.starts_with("mine.toml:3:13: unknown counter `symbol_eror`"),
        "{slip}"
    );
    assert!(slip.ends_with("did you mean `symbol_error`?"), "{slip}");
    let slip = error(&RULE.replace("source", "sourse"));
    assert!(
        slip.contains("unknown key `sourse` in [[rule]]; did you mean `source`?"),
        "{slip}"
    );
    let slip = error(&RULE.replace("per hour", "per hur"));
    assert!(
        slip.starts_with("mine.toml:4:9: `bound` is per `hur`; did you mean `hour`?"),
        "{slip}"
    );
    let slip = error(&RULE.replace("\"bad\"", "\"evil\""));
    assert!(slip.contains("known are suspicious, bad"), "{slip}");
    assert!(error(&format!("{RULE}{RULE}")).contains("two rules have the name `r`"));
}

#[test]
fn a_bound_that_makes_no_sense_for_its_counter_is_refused() {
    let with = |bound: &str, counter: &str| {
        let text = RULE
            .replace("10 per hour", bound)
            .replace("symbol_error", counter);
        parse(&text, "mine.toml").map(|rules| rules[0].bound)
    };
    let hours = |hours: u64| Nanos::from_secs(3600 * hours);
    assert_eq!(with("any", "link_downed"), Ok(Bound::Any));
    assert_eq!(
        with("3 within 12h", "link_downed"),
        Ok(Bound::Within {
            count: 3,
            window: hours(12)
        })
    );
    assert_eq!(
        with("1% of time", "rx_prio*_pause_duration"),
        Ok(Bound::ShareOfTime(0.01))
    );
    for (bound, counter) in [
        ("1% of time", "symbol_error"),
        ("3 within 12h", "symbol_error"),
        ("3 per hour", "link_downed"),
        ("any", "rx_bytes"),
        ("0 per hour", "symbol_error"),
        ("-1 per hour", "symbol_error"),
        ("NaN per hour", "symbol_error"),
        ("many", "symbol_error"),
        ("0 within 12h", "link_downed"),
        ("3 within 0s", "link_downed"),
        ("100% of time", "rx_prio3_pause_duration"),
    ] {
        assert!(with(bound, counter).is_err(), "{bound} {counter}");
    }
}

#[test]
fn a_bound_reads_as_it_was_written() {
    for text in [
        "any",
        "10 per second",
        "1e-12 per bit",
        "0.001 per packet",
        "120 per hour",
        "3 within 12h",
        "1% of time",
    ] {
        assert_eq!(Bound::parse(text).unwrap().to_string(), text);
    }
    let short = |number: f64| bound::in_short(number);
    assert_eq!(
        [short(4.12e-9), short(0.25), short(1234.0), short(7.0)],
        ["4.1e-9", "0.25", "1234", "7"]
    );
}

#[test]
fn a_file_of_ones_own_is_read_and_checked_before_anything_is_measured() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("counters.toml");
    std::fs::write(&path, RULE).unwrap();
    assert_eq!(load(&path).unwrap(), RULE);
    std::fs::write(&path, "rules = 3").unwrap();
    assert!(
        load(&path)
            .unwrap_err()
            .to_string()
            .contains("did you mean `rule`?")
    );
    assert!(
        load(folder.path())
            .unwrap_err()
            .to_string()
            .contains("not a file of counter rules")
    );
    assert!(
        load(&folder.path().join("none"))
            .unwrap_err()
            .to_string()
            .contains("cannot be read")
    );
}

proptest! {
    #[test]
    fn no_file_makes_the_reader_fail(text in "\\PC{0,300}", bound in "\\PC{0,30}") {
        let _ = parse(&text, "x");
        let _ = Bound::parse(&bound);
        let _ = parse(&RULE.replace("10 per hour", &bound), "x");
    }

    #[test]
    fn any_rate_comes_back_as_the_rate_it_was(most in 1e-15f64..1e9) {
        let text = format!("{most:e} per packet");
        let Bound::Rate { most: read, per: Per::Packet } = Bound::parse(&text).unwrap() else { panic!("a rate") };
        prop_assert_eq!(read, most);
    }
}
