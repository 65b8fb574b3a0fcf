//! What the golden file says goes before the majority, and what it does not cover is compared as before.

use super::fixture::{at, inventory, nics, node, part};
use super::tests::{sentences, three};
use super::*;
use record::{DriftBasis, Fact, PartClass};

pub(super) fn golden(text: &str) -> Golden {
    Golden::parse(text, "golden.toml").unwrap()
}

#[test]
fn the_golden_file_is_right_even_against_the_majority() {
    let golden =
        golden("[[nic]]\nboard = \"MT_0000000838\"\nfirmware = \"28.43.2026\"\nbecause = \"qualified\"\n");
    let drift = judge(
        &nics(&["28.39.1002", "28.39.1002", "28.43.2026"]),
        Some(&golden),
        None,
    );
    assert_eq!(
        sentences(&drift),
        [
            "nic firmware 28.39.1002 on n0/mlx5_0 and n1/mlx5_0; golden.toml line 3 requires 28.43.2026: nic firmware = 28.43.2026"
        ]
    );
    assert!(findings(&drift)[0].rule.contains("qualified"));
    let fine = judge(&nics(&["28.43.2026", "28.43.2026"]), Some(&golden), None);
    assert_eq!(sentences(&fine), Vec::<String>::new());
}

#[test]
fn a_golden_range_accepts_a_fleet_in_the_middle_of_an_upgrade() {
    let golden = golden("[[nic]]\nfirmware = \">= 28.39, < 28.44\"\n");
    let drift = judge(&nics(&["28.39.1002", "28.43.2026"]), Some(&golden), None);
    assert_eq!(sentences(&drift), Vec::<String>::new());
    let drift = judge(&nics(&["28.39.1002", "28.44.1000"]), Some(&golden), None);
    assert_eq!(drift.deviations[0].parts, [at("n1", "mlx5_0")]);
}

#[test]
fn facts_without_a_golden_line_are_still_compared_with_their_like() {
    let golden = golden("[[nic]]\ndriver = \"mlx5_core\"\n");
    let drift = judge(
        &nics(&["28.39.1002", "28.43.2026", "28.43.2026"]),
        Some(&golden),
        None,
    );
    assert_eq!(
        drift.deviations[0].basis,
        DriftBasis::Majority { agree: 2, of: 3 }
    );
    assert_eq!(drift.unused, Vec::<String>::new());
}

#[test]
fn a_golden_line_about_nothing_is_told_and_what_could_not_be_read_is_no_drift() {
    let golden = golden(
        "[[nic]]\nboard = \"MT_0000000012\"\nfirmware = \"1\"\n\n[[nic]]\nfirmware = \"28.43.2026\"\n",
    );
    let mut inventory = nics(&["28.43.2026"]);
    let hidden = Fact::Unreadable {
        why: "not permitted".into(),
        needs: Some("root".into()),
    };
    inventory.nodes[0].parts[0]
        .facts
        .insert("firmware".into(), hidden);
    let drift = judge(&inventory, Some(&golden), None);
    assert_eq!(drift.unused, ["golden.toml:3: nic firmware = 1"]);
    assert!(drift.deviations.is_empty());
    let [unreadable] = drift.unreadable.as_slice() else {
        panic!("{drift:?}");
    };
    assert_eq!(
        (unreadable.fact.as_str(), unreadable.nodes.as_slice()),
        ("firmware", ["n0".to_string()].as_slice())
    );
    assert_eq!(unreadable.needs.as_deref(), Some("root"));
}

#[test]
fn a_part_that_lacks_what_the_golden_file_wants_deviates() {
    let golden = golden("[[host]]\nnccl = \">= 2.28\"\n");
    let host = part(PartClass::Host, "n0", &[]).with("nccl", Fact::Absent);
    let drift = judge(&inventory(vec![node("n0", vec![host])]), Some(&golden), None);
    assert_eq!(
        sentences(&drift),
        ["host nccl missing on n0; golden.toml line 2 requires >= 2.28: host nccl = >= 2.28"]
    );
}

#[test]
fn what_must_go_together_is_checked_on_each_node_by_itself() {
    let golden = golden(
        "[[compatible]]\nwhen = { nic.firmware = \">= 28.42\" }\nrequires = { host.mlx5-driver = \">= 24.07\" }\n\
         because = \"older drivers do not know its commands\"\n",
    );
    let machine = |name: &str, firmware: &str, driver: &str| {
        let nic = part(PartClass::Nic, "mlx5_0", &[("firmware", firmware)]);
        node(
            name,
            vec![part(PartClass::Host, name, &[("mlx5-driver", driver)]), nic],
        )
    };
    let fleet = vec![
        machine("n0", "28.43.2026", "24.10-0.7.0"),
        machine("n1", "28.43.2026", "23.10-1.1.9"),
        machine("n2", "28.39.1002", "23.10-1.1.9"),
    ];
    let drift = judge(&inventory(fleet), Some(&golden), None);
    assert_eq!(
        sentences(&drift),
        [
            "host mlx5-driver 23.10-1.1.9 on n1; golden.toml line 1 requires >= 24.07: nic firmware >= 28.42 requires \
          host mlx5-driver >= 24.07"
        ]
    );
}

#[test]
fn whatever_a_rule_compares_can_be_pinned_in_a_golden_file() {
    for rule in RULES {
        for fact in rule.agree {
            let text = format!("[[{}]]\n{fact} = \"a\"\n", rule.class);
            let golden = golden(&text);
            let drift = judge(&three(rule, fact, ["a", "b", "b"]), Some(&golden), None);
            let accused: Vec<&str> = drift.deviations.iter().map(|found| found.rule.as_str()).collect();
            assert_eq!(accused, ["golden"], "{} {fact}: {drift:?}", rule.name);
            assert_eq!(drift.deviations[0].parts.len(), 2, "{} {fact}", rule.name);
        }
    }
}
