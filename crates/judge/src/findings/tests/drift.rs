//! Drift beside speed: joined where it explains what is slow, and nowhere else.

use super::links::{flows, sends};
use crate::findings::drift::fixture::{inventory, node, part};
use crate::findings::fixture::HEALTHY;
use crate::findings::judge;
use record::{Finding, FindingKind, Inventory, Judgement, PartClass, Recorded};

const OLD: &str = "28.39.1002";
const NEW: &str = "28.43.2026";

/// Eight hosts with a NIC and a transceiver on each of two rails; `is` says which firmware and whose optics an end has.
fn fleet(is: impl Fn(u32, u32) -> (&'static str, &'static str)) -> Inventory {
    let hosts = (0..8).map(|host| {
        let ends = (0..2).flat_map(|rail| {
            let (firmware, vendor) = is(host, rail);
            let (nic, interface) = (format!("mlx5_{rail}"), format!("eth{rail}"));
            vec![
                part(
                    PartClass::Nic,
                    &nic,
                    &[("board", "MT_0000000838"), ("firmware", firmware)],
                ),
                part(
                    PartClass::Port,
                    &format!("{nic}/1"),
                    &[("interface", &interface), ("link-layer", "Ethernet")],
                ),
                part(PartClass::Interface, &interface, &[("mtu", "9000")]),
                part(PartClass::Module, &interface, &[("vendor", vendor)]),
            ]
        });
        node(&format!("node{host:02}"), ends.collect())
    });
    inventory(hosts.collect())
}

/// The run in which these ends are slow, with that inventory.
fn run(slow: &'static [(u32, &'static str)], inventory: Inventory) -> Recorded {
    let is_slow = move |cell: &record::Cell, _: u16| {
        let at_fault = slow.iter().any(|(host, rail)| sends(cell, *host, rail));
        if at_fault { 0.5 * HEALTHY } else { HEALTHY }
    };
    let mut recorded = flows(is_slow).recorded();
    recorded.inventory = Some(inventory);
    recorded
}

fn of_kind(judgement: &Judgement, kind: FindingKind) -> Vec<&Finding> {
    let findings = judgement.findings.iter();
    findings.filter(|finding| finding.kind == kind).collect()
}

fn says_inventory(finding: &Finding) -> Option<&String> {
    let mut evidence = finding.evidence.iter();
    evidence.find(|line| line.contains("the inventory"))
}

#[test]
fn drift_on_one_host_is_not_joined_with_a_slow_cable_on_another() {
    let drifted = fleet(|host, _| (if host == 1 { OLD } else { NEW }, "A"));
    let judgement = judge(&run(&[(5, "rail0")], drifted));
    assert_eq!(judgement.exit_code, 12);
    let (drift, slow) = (
        of_kind(&judgement, FindingKind::Drift),
        of_kind(&judgement, FindingKind::SlowLink),
    );
    assert_eq!((drift.len(), slow.len()), (1, 1), "{:?}", judgement.findings);
    assert_eq!(says_inventory(slow[0]), None, "{:?}", slow[0].evidence);
    assert_eq!(
        drift[0].sentence,
        "nic firmware 28.39.1002 on node01/mlx5_0 and node01/mlx5_1; 28.43.2026 on 14 of 16 like it (board MT_0000000838); \
         the 2 NICs with firmware 28.39.1002 are not slow; the one slow rail is elsewhere"
    );
    assert!(
        !judgement.drift.unwrap().deviations[0]
            .effect
            .as_ref()
            .unwrap()
            .explains
    );
}

#[test]
fn slow_rails_that_are_exactly_the_nics_on_old_firmware_are_explained_by_it() {
    const SLOW: &[(u32, &str)] = &[(0, "rail0"), (2, "rail1"), (4, "rail0"), (6, "rail1")];
    let is_old = |host: u32, rail: u32| SLOW.contains(&(host, if rail == 0 { "rail0" } else { "rail1" }));
    let drifted = fleet(move |host, rail| (if is_old(host, rail) { OLD } else { NEW }, "A"));
    let judgement = judge(&run(SLOW, drifted));
    let slow = of_kind(&judgement, FindingKind::SlowLink);
    assert_eq!(slow.len(), 4, "{:?}", judgement.findings);
    for finding in slow {
        assert_eq!(
            says_inventory(finding).map(String::as_str),
            Some(
                "explained by the inventory: the 4 slow rails are exactly the 4 NICs with firmware 28.39.1002; none of the 12 others is \
                 slow (p = 5.5e-4)"
            )
        );
        assert!(
            finding.next_step.starts_with("first bring its firmware"),
            "{}",
            finding.next_step
        );
    }
    let drift = of_kind(&judgement, FindingKind::Drift);
    assert!(
        drift[0].sentence.contains("the 4 slow rails are exactly"),
        "{}",
        drift[0].sentence
    );
    let effect = judgement.drift.as_ref().unwrap().deviations[0]
        .effect
        .clone()
        .unwrap();
    assert_eq!(
        (effect.slow_with, effect.with, effect.slow_without, effect.without),
        (4, 4, 0, 12)
    );
    assert!((effect.p_value - 1.0 / 1820.0).abs() < 1e-9 && effect.explains);
}

#[test]
fn one_drifted_host_that_is_the_slow_one_is_called_a_coincidence_with_its_odds() {
    let drifted = fleet(|host, _| (if host == 4 { OLD } else { NEW }, "A"));
    let judgement = judge(&run(&[(4, "rail0"), (4, "rail1")], drifted));
    let slow = of_kind(&judgement, FindingKind::SlowLink);
    assert_eq!(slow.len(), 1, "{:?}", judgement.findings);
    let said = "the 2 slow rails are at the 2 NICs with firmware 28.39.1002; that happens by chance in 1 of 8 cases, counted by hosts: \
                a coincidence to look at, not proven";
    assert_eq!(
        says_inventory(slow[0]).map(String::as_str),
        Some(format!("possibly related in the inventory: {said}").as_str())
    );
    assert!(!slow[0].next_step.contains("firmware"), "{}", slow[0].next_step);
    let drift = judgement.drift.unwrap();
    assert!(!drift.deviations[0].effect.as_ref().unwrap().explains);
}

#[test]
fn drift_in_a_run_where_nothing_is_slow_says_that_it_does_no_harm_there() {
    let drifted = fleet(|host, _| (if host == 1 { OLD } else { NEW }, "A"));
    let judgement = judge(&run(&[], drifted));
    assert_eq!(judgement.exit_code, 10);
    let drift = of_kind(&judgement, FindingKind::Drift);
    assert!(
        drift[0]
            .sentence
            .ends_with("the 2 NICs with firmware 28.39.1002 are not slow, and none of the 14 others is"),
        "{}",
        drift[0].sentence
    );
}

#[test]
fn slow_rails_with_the_optics_of_one_vendor_are_told_though_that_is_no_drift() {
    const SLOW: &[(u32, &str)] = &[(0, "rail0"), (2, "rail1"), (4, "rail0"), (6, "rail1")];
    let is_slow = |host: u32, rail: u32| SLOW.contains(&(host, if rail == 0 { "rail0" } else { "rail1" }));
    let mixed = fleet(move |host, rail| (NEW, if is_slow(host, rail) { "B" } else { "A" }));
    let judgement = judge(&run(SLOW, mixed));
    assert_eq!(of_kind(&judgement, FindingKind::Drift).len(), 0);
    for finding in of_kind(&judgement, FindingKind::SlowLink) {
        let said = says_inventory(finding).unwrap();
        assert!(
            said.contains("exactly the 4 transceivers with vendor B"),
            "{said}"
        );
        assert!(said.contains("corrected for 2 values tried"), "{said}");
    }
}

#[test]
fn a_golden_file_that_cannot_be_read_is_told_and_the_rest_is_judged() {
    let mut recorded = run(&[], fleet(|host, _| (if host == 1 { OLD } else { NEW }, "A")));
    recorded.golden = Some("[[nic]]\nfirmwear = \"1\"\n".into());
    let judgement = judge(&recorded);
    let unclear = of_kind(&judgement, FindingKind::UnclearDrift);
    assert!(
        unclear[0]
            .sentence
            .contains("golden.toml:2:1: unknown key `firmwear`"),
        "{unclear:?}"
    );
    assert_eq!(of_kind(&judgement, FindingKind::Drift).len(), 1);
    assert_eq!(judgement.exit_code, 10, "what was found wins");
}
