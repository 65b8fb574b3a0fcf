//! Burn-ins with known faults, and what must be said of them.

use proptest::prelude::*;

use super::fixture::{asked, clos, cycle, found, line, night, reading};
use super::*;
use crate::record::{EndReason, FindingKind, FoundPart, Journal, Place, Quantity, ReadPart};
use crate::units::Nanos;

const RATE: f64 = 25e6;

/// So many healthy cycles of the whole fabric.
fn healthy(known: &Known, count: u32) -> Vec<Night> {
    (1..=count).map(|number| cycle(known, number, |_| RATE)).collect()
}

fn host_place(host: &str, rail: Option<&str>) -> Place {
    Place {
        hosts: vec![host.to_string()],
        rail: rail.map(str::to_string),
        ..Place::default()
    }
}

fn slow_link(name: &str) -> FoundPart {
    let place = Place {
        link: Some(name.to_string()),
        rail: Some("rail1".to_string()),
        ..Place::default()
    };
    found(FindingKind::SlowLink, name, place)
}

fn slow_rail() -> FoundPart {
    let place = Place {
        rail: Some("rail1".to_string()),
        ..Place::default()
    };
    found(FindingKind::SlowRail, "rail1", place)
}

fn add(nights: &mut [Night], cycle: usize, finding: FoundPart) {
    nights[cycle - 1].readings.findings.push(finding);
}

fn ruling(decisions: &[PartDecision], part: &str) -> Ruling {
    decisions
        .iter()
        .find(|decision| decision.part == part)
        .unwrap()
        .ruling
}

const LINK: &str = "h2/rail1->leaf3/p0";
const BACK: &str = "leaf3/p0->h2/rail1";

#[test]
fn a_healthy_fabric_is_accepted_and_nothing_is_told() {
    let known = clos();
    let certificate = decide(&asked(), &[], &healthy(&known, 20), &known);
    assert_eq!(certificate.ruling, Ruling::Accept, "{}", certificate.summary);
    assert_eq!((certificate.exit_code, certificate.cycles), (0, 20));
    assert!(certificate.incidents.is_empty());
    assert_eq!((certificate.nodes.len(), certificate.links.len()), (4, 32));
    assert_eq!(certificate.load_ns, Nanos::from_secs(1200));
    assert_eq!((certificate.iterations, certificate.verified), (20_000, 5000));
}

#[test]
fn too_little_load_and_no_cycle_at_all_are_extended() {
    let known = clos();
    for count in [0, 4, 9] {
        let certificate = decide(&asked(), &[], &healthy(&known, count), &known);
        assert_eq!(
            (certificate.ruling, certificate.exit_code),
            (Ruling::Extend, 20),
            "{count} cycles"
        );
    }
    let nothing = decide(&asked(), &[], &[], &Known::default());
    assert_eq!(nothing.ruling, Ruling::Extend);
}

#[test]
fn a_cable_that_was_not_loaded_is_extended_and_its_neighbours_are_accepted() {
    let known = clos();
    let mut nights = healthy(&known, 20);
    for night in &mut nights {
        night
            .readings
            .loads
            .iter_mut()
            .filter(|load| load.link == LINK)
            .for_each(|load| {
                load.share = Some(0.4);
                load.why = Some("one flow alone does not fill it".to_string());
            });
    }
    let certificate = decide(&asked(), &[], &nights, &known);
    assert_eq!(ruling(&certificate.links, LINK), Ruling::Extend);
    assert_eq!(ruling(&certificate.links, BACK), Ruling::Accept);
    assert_eq!(certificate.ruling, Ruling::Extend);
    let listed: Vec<String> = certificate
        .untested
        .iter()
        .map(|one| format!("{}: {}", one.what, one.why))
        .collect();
    assert_eq!(
        listed,
        [
            "cable h2/rail1->leaf3/p0: carried 50 % of its rate in 0 of 20 cycles only: one flow alone does not fill it"
        ]
    );
}

#[test]
fn one_slow_cycle_is_told_and_not_counted_and_two_reject_that_direction() {
    let known = clos();
    let mut nights = healthy(&known, 20);
    add(&mut nights, 7, slow_link(LINK));
    let once = decide(&asked(), &[], &nights, &known);
    assert_eq!(
        (once.ruling, once.incidents.len()),
        (Ruling::Accept, 1),
        "13 clean cycles followed"
    );
    assert!(
        once.incidents[0].sentence.contains("seen once, not counted"),
        "{}",
        once.incidents[0].sentence
    );
    let recent = decide(&asked(), &[], &nights[..10], &known);
    assert_eq!(
        ruling(&recent.links, LINK),
        Ruling::Extend,
        "three clean cycles are too few"
    );

    add(&mut nights, 15, slow_link(LINK));
    let twice = decide(&asked(), &[], &nights, &known);
    assert_eq!((twice.ruling, twice.exit_code), (Ruling::Reject, 12));
    assert_eq!(ruling(&twice.links, LINK), Ruling::Reject);
    assert_eq!(ruling(&twice.links, BACK), Ruling::Accept);
    assert_eq!(ruling(&twice.nodes, "h2"), Ruling::Extend, "its NIC may be it");
    assert_eq!(ruling(&twice.nodes, "h1"), Ruling::Accept);
    assert_eq!(twice.incidents[0].cycles, [7, 15]);
    assert!(!twice.incidents[0].is_still_there);
}

#[test]
fn what_a_slow_link_explains_is_evidence_and_not_told() {
    let known = clos();
    let mut nights = healthy(&known, 20);
    for cycle in [5, 6, 7, 8] {
        add(&mut nights, cycle, slow_link(LINK));
        let pair = Place {
            hosts: vec!["h2".into(), "h0".into()],
            rail: Some("rail1".into()),
            ..Place::default()
        };
        add(
            &mut nights,
            cycle,
            found(FindingKind::SlowPair, "h2 and h0 on rail1", pair),
        );
        add(&mut nights, cycle, slow_rail());
        add(
            &mut nights,
            cycle,
            found(FindingKind::SlowCollective, "rings", Place::default()),
        );
    }
    // In one cycle only the rail was slow.
    add(&mut nights, 9, slow_rail());
    let certificate = decide(&asked(), &[], &nights, &known);
    assert_eq!(certificate.incidents.len(), 1, "{:#?}", certificate.incidents);
    let evidence = certificate.incidents[0].evidence.join("\n");
    assert!(
        evidence.contains("slow-pair of h2 and h0 on rail1 in cycles 5 to 8"),
        "{evidence}"
    );
    assert!(
        evidence.contains("slow-rail of rail1 in cycles 5 to 9"),
        "{evidence}"
    );
}

#[test]
fn a_slow_pair_elsewhere_is_a_matter_of_its_own() {
    let known = clos();
    let mut nights = healthy(&known, 20);
    for cycle in [5, 6] {
        add(&mut nights, cycle, slow_link(LINK));
        let pair = Place {
            hosts: vec!["h0".into(), "h1".into()],
            rail: Some("rail0".into()),
            ..Place::default()
        };
        add(
            &mut nights,
            cycle,
            found(FindingKind::SlowPair, "h0 and h1 on rail0", pair),
        );
    }
    let certificate = decide(&asked(), &[], &nights, &known);
    let parts: Vec<&str> = certificate
        .incidents
        .iter()
        .map(|one| one.part.as_str())
        .collect();
    assert_eq!(parts, [LINK, "h0 and h1 on rail0"]);
}

#[test]
fn a_flap_counts_from_the_first_and_explains_what_was_slow_on_its_rail_in_its_cycles() {
    let known = clos();
    let mut nights = healthy(&known, 20);
    for cycle in [4, 6, 8] {
        add(
            &mut nights,
            cycle,
            found(FindingKind::Flap, "h3 on rail1", host_place("h3", Some("rail1"))),
        );
        add(&mut nights, cycle, slow_link(LINK));
        add(&mut nights, cycle, slow_rail());
    }
    let certificate = decide(&asked(), &[], &nights, &known);
    assert_eq!(certificate.incidents.len(), 1, "{:#?}", certificate.incidents);
    let incident = &certificate.incidents[0];
    assert_eq!(
        (incident.kind, incident.part.as_str()),
        (FindingKind::Flap, "h3/rail1->leaf3/p1")
    );
    assert_eq!(incident.cycles, [4, 6, 8]);
    assert_eq!(certificate.exit_code, 12);
    for direction in ["h3/rail1->leaf3/p1", "leaf3/p1->h3/rail1"] {
        assert_eq!(ruling(&certificate.links, direction), Ruling::Reject);
    }
    assert_eq!(ruling(&certificate.links, LINK), Ruling::Accept);
    // Found slow without a flap, too: that is not the flap's doing.
    for cycle in [11, 13] {
        add(&mut nights, cycle, slow_link(LINK));
    }
    let certificate = decide(&asked(), &[], &nights, &known);
    assert_eq!(ruling(&certificate.links, LINK), Ruling::Reject);
}

#[test]
fn where_one_part_after_the_other_is_found_slow_once_two_of_one_are_no_surprise() {
    let known = clos();
    let mut nights = healthy(&known, 30);
    for (at, link) in known.links.iter().step_by(6).enumerate().take(5) {
        add(&mut nights, 2 + 3 * at, slow_link(&link.name));
    }
    add(&mut nights, 4, slow_link(LINK));
    add(&mut nights, 9, slow_link(LINK));
    let certificate = decide(&asked(), &[], &nights, &known);
    assert_eq!(certificate.ruling, Ruling::Accept, "{:#?}", certificate.incidents);
    for cycle in [11, 13, 15, 17] {
        add(&mut nights, cycle, slow_link(LINK));
    }
    let certificate = decide(&asked(), &[], &nights, &known);
    let rejected: Vec<&str> = certificate
        .links
        .iter()
        .filter(|link| link.ruling == Ruling::Reject)
        .map(|link| link.part.as_str())
        .collect();
    assert_eq!(rejected, [LINK]);
}

fn lost_and_returned(nights: &mut [Night], known: &Known) -> Vec<JournalLine> {
    let hosts = vec!["h2".to_string()];
    for night in &mut nights[12..13] {
        let is_of_host = |name: &str| {
            known
                .links
                .iter()
                .any(|link| link.name == name && link.host.as_deref() == Some("h2"))
        };
        night
            .readings
            .parts
            .retain(|part| !is_of_host(&part.part) && !part.part.starts_with("h2/"));
        night.readings.loads.retain(|load| !is_of_host(&load.link));
    }
    add(
        nights,
        12,
        found(FindingKind::LostRank, "h2", host_place("h2", None)),
    );
    add(
        nights,
        12,
        found(FindingKind::SlowCollective, "rings", Place::default()),
    );
    add(nights, 12, slow_rail());
    add(
        nights,
        14,
        found(FindingKind::Flap, "h2 on rail1", host_place("h2", Some("rail1"))),
    );
    vec![
        line(
            700,
            Journal::Lost {
                cycle: 12,
                hosts: hosts.clone(),
                reason: "its process ended".into(),
            },
        ),
        line(780, Journal::Returned { cycle: 14, hosts }),
        line(
            1200,
            Journal::Ended {
                reason: EndReason::Finished,
            },
        ),
    ]
}

#[test]
fn a_node_that_was_lost_and_came_back_is_one_incident_with_both_times() {
    let known = clos();
    let mut nights = healthy(&known, 20);
    let journal = lost_and_returned(&mut nights, &known);
    let certificate = decide(&asked(), &journal, &nights, &known);
    assert_eq!(certificate.incidents.len(), 1, "{:#?}", certificate.incidents);
    let incident = &certificate.incidents[0];
    assert_eq!(
        (incident.kind, incident.part.as_str()),
        (FindingKind::LostRank, "h2")
    );
    assert_eq!((incident.first.cycle, incident.last.cycle), (12, 14));
    assert!(incident.counts && !incident.is_still_there);
    assert_eq!(
        incident.sentence,
        "h2 was lost in cycle 12 (2026-11-03T04:11:40Z, after 11m 40s under load) and was back in cycle 14 \
         (2026-11-03T04:13:00Z, after 13m under load): its process ended"
    );
    assert_eq!((certificate.ruling, certificate.exit_code), (Ruling::Reject, 21));
    assert_eq!(ruling(&certificate.nodes, "h2"), Ruling::Reject);
    for host in ["h0", "h1", "h3"] {
        assert_eq!(ruling(&certificate.nodes, host), Ruling::Accept, "{host}");
    }
    assert!(
        certificate.links.iter().all(|link| link.ruling == Ruling::Accept),
        "{:#?}",
        certificate.links
    );
    assert_eq!(certificate.ended, Some(EndReason::Finished));
}

#[test]
fn a_loss_that_the_journal_does_not_tell_is_told_by_its_finding() {
    let known = clos();
    let mut nights = healthy(&known, 20);
    add(
        &mut nights,
        5,
        found(FindingKind::LostRank, "h1", host_place("h1", None)),
    );
    let certificate = decide(&asked(), &[], &nights, &known);
    assert_eq!(certificate.incidents.len(), 1);
    assert_eq!(certificate.incidents[0].last.cycle, 6);
    assert_eq!(certificate.exit_code, 21);
}

#[test]
fn wrong_data_and_errors_count_from_the_first_and_only_where_they_are() {
    let known = clos();
    let mut nights = healthy(&known, 20);
    add(
        &mut nights,
        3,
        found(FindingKind::Corruption, "h1", host_place("h1", None)),
    );
    add(
        &mut nights,
        4,
        found(
            FindingKind::PortErrors,
            "h0 on rail0",
            host_place("h0", Some("rail0")),
        ),
    );
    let certificate = decide(&asked(), &[], &nights, &known);
    assert_eq!((certificate.exit_code, certificate.incidents.len()), (22, 2));
    assert_eq!(ruling(&certificate.nodes, "h1"), Ruling::Reject);
    assert_eq!(ruling(&certificate.links, "h0/rail0->leaf0/p0"), Ruling::Reject);
    assert_eq!(
        certificate
            .links
            .iter()
            .filter(|link| link.ruling == Ruling::Reject)
            .count(),
        2
    );
}

#[test]
fn what_is_accepted_comes_from_the_suite() {
    let known = clos();
    let mut nights = healthy(&known, 20);
    add(
        &mut nights,
        4,
        found(FindingKind::Flap, "h3 on rail1", host_place("h3", Some("rail1"))),
    );
    let mut asked = asked();
    asked.criteria.flaps.value = 1;
    let certificate = decide(&asked, &[], &nights, &known);
    assert_eq!(certificate.ruling, Ruling::Accept);
    assert!(
        certificate.incidents[0]
            .sentence
            .contains("within what is accepted")
    );
}

#[test]
fn gpus_are_decided_on_by_their_errors_clocks_and_bandwidth() {
    let mut known = clos();
    let gpu = |host: u32| KnownGpu {
        name: format!("GPU-{host}"),
        host: format!("h{host}"),
        ranks: vec![host],
    };
    known.gpus = (0..4).map(gpu).collect();
    let mut nights = healthy(&known, 20);
    for (number, night) in nights.iter_mut().enumerate() {
        for gpu in &known.gpus {
            let clock = if gpu.name == "GPU-1" && number >= 9 {
                1400.0
            } else {
                1980.0
            };
            night
                .readings
                .parts
                .push(reading(ReadPart::Gpu, &gpu.name, Quantity::Clock, clock));
        }
    }
    let place = Place {
        hosts: vec!["h3".into()],
        ranks: vec![3],
        ..Place::default()
    };
    add(&mut nights, 6, found(FindingKind::GpuErrors, "h3", place));
    let certificate = decide(&asked(), &[], &nights, &known);
    assert_eq!(ruling(&certificate.gpus, "GPU-1"), Ruling::Reject);
    assert_eq!(ruling(&certificate.gpus, "GPU-3"), Ruling::Reject);
    assert_eq!(ruling(&certificate.gpus, "GPU-0"), Ruling::Accept);
    assert_eq!(ruling(&certificate.nodes, "h3"), Ruling::Extend);
    let clock = certificate
        .incidents
        .iter()
        .find(|incident| incident.part == "GPU-1")
        .unwrap();
    assert_eq!(clock.first.cycle, 10, "{}", clock.sentence);
}

#[test]
fn without_a_topology_ends_of_rails_are_decided_on() {
    let clos = clos();
    let mut nights = healthy(&clos, 20);
    for night in &mut nights {
        night.readings.parts.retain(|part| part.kind == ReadPart::RailEnd);
        // Latencies are of both directions.
        night
            .readings
            .parts
            .push(reading(ReadPart::RailEnd, "h3/rail1", Quantity::Latency, 9000.0));
        night.readings.loads.clear();
    }
    add(
        &mut nights,
        4,
        found(FindingKind::Flap, "h3 on rail1", host_place("h3", Some("rail1"))),
    );
    let known = Known {
        hosts: clos.hosts,
        ..Known::default()
    };
    let certificate = decide(&asked(), &[], &nights, &known);
    assert_eq!(certificate.links.len(), 16);
    assert_eq!(ruling(&certificate.links, "h3/rail1 out"), Ruling::Reject);
    assert_eq!(ruling(&certificate.links, "h2/rail1 out"), Ruling::Accept);
}

fn any_finding() -> impl Strategy<Value = FoundPart> {
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
        ReadPart::Link,
        ReadPart::RailEnd,
        ReadPart::Gpu,
        ReadPart::Node,
        ReadPart::Collective,
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
        let known = if is_known { clos() } else { Known::default() };
        let certificate = decide(&asked(), &journal, &nights, &known);
        let rejected = certificate.incidents.iter().any(|incident| incident.counts);
        prop_assert_eq!(certificate.ruling == Ruling::Reject, rejected);
        prop_assert_eq!(certificate.exit_code == 0, certificate.ruling == Ruling::Accept);
        let written = serde_json::to_string(&certificate).unwrap();
        let read: Certificate = serde_json::from_str(&written).unwrap();
        prop_assert_eq!(read.incidents.len(), certificate.incidents.len());
    }
}
