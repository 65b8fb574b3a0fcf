//! Malformed and contradictory records: every one of them is decided on.

use proptest::prelude::*;

use super::fixture::{asked, clos, found, line, night, reading};
use super::tests::{BACK, LINK, RATE};
use super::*;
use record::units::Nanos;
use record::{FindingKind, FindingSummary, Journal, PartKind, Place, Quantity};

fn any_finding() -> impl Strategy<Value = FindingSummary> {
    let kinds: Vec<FindingKind> = <FindingKind as strum::IntoEnumIterator>::iter().collect();
    let names = || {
        prop::sample::select(vec![
            "h0", "h2", "", "h2/rail1", LINK, "nobody", "leaf3", "\u{0}<b>",
        ])
    };
    let place = (
        prop::collection::vec(names(), 0..3),
        prop::option::of(names()),
        prop::option::of(names()),
        prop::option::of(names()),
    );
    (prop::sample::select(kinds), names(), place).prop_map(|(kind, part, (hosts, rail, link, switch))| {
        let text = |name: &str| name.to_string();
        let place = Place {
            hosts: hosts.into_iter().map(text).collect(),
            ranks: vec![7],
            rail: rail.map(text),
            link: link.map(text),
            switch: switch.map(text),
            ..Place::default()
        };
        found(kind, part, place)
    })
}

fn any_night() -> impl Strategy<Value = Night> {
    let value = prop_oneof![
        Just(RATE),
        Just(f64::NAN),
        Just(0.0),
        Just(f64::INFINITY),
        1.0f64..1e12,
        Just(-1.0)
    ];
    let kind = prop::sample::select(vec![
        PartKind::Link,
        PartKind::RailEnd,
        PartKind::Gpu,
        PartKind::Node,
        PartKind::Collective,
    ]);
    let part = prop::sample::select(vec![LINK, BACK, "h2/rail1 out", "h0", "", "odd", "GPU-0"]);
    let readings = prop::collection::vec((kind, part, value), 0..8);
    (
        0u32..40,
        readings,
        prop::collection::vec(any_finding(), 0..4),
        prop::option::of(0u64..200),
    )
        .prop_map(|(number, parts, findings, took)| {
            let mut night = night(number);
            night.took = took.map(Nanos::from_secs);
            night.readings.parts = parts
                .into_iter()
                .map(|(kind, part, value)| reading(kind, part, Quantity::Bandwidth, value))
                .collect();
            night.readings.findings = findings;
            night
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn nothing_that_was_recorded_is_too_odd_and_every_decision_can_be_written_and_read(
        nights in prop::collection::vec(any_night(), 0..25),
        losses in prop::collection::vec((0u32..40, prop::bool::ANY), 0..4),
        is_known in prop::bool::ANY,
    ) {
        let hosts = vec!["h2".to_string(), "nobody".to_string()];
        let journal: Vec<JournalLine> = losses
            .into_iter()
            .map(|(cycle, back)| {
                let hosts = hosts.clone();
                let what = match back {
                    true => Journal::Returned { cycle, hosts },
                    false => Journal::Lost { cycle, hosts, reason: String::new() },
                };
                line(u64::from(cycle) * 60, what)
            })
            .collect();
        let known = if is_known { clos() } else { PartCatalog::default() };
        let certificate = decide(&asked(), &journal, &nights, &known);
        let rejected = certificate.incidents.iter().any(|incident| incident.counts);
        prop_assert_eq!(certificate.ruling == Ruling::Reject, rejected);
        prop_assert_eq!(certificate.exit_code == 0, certificate.ruling == Ruling::Accept);
        let written = serde_json::to_string(&certificate).unwrap();
        let read: Certificate = serde_json::from_str(&written).unwrap();
        prop_assert_eq!(read.incidents.len(), certificate.incidents.len());
    }
}
