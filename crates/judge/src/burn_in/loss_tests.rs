//! Burn-ins with losses, wrong data, errors and GPUs, and who is rejected for them.

use super::fixture::{asked, clos, found, line, reading};
use super::tests::{add, healthy, host_place, ruling, slow_rail};
use super::*;
use record::{EndReason, FindingKind, Journal, PartKind, Place, Quantity};

fn lost_and_returned(nights: &mut [Night], known: &PartCatalog) -> Vec<JournalLine> {
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
    let gpu = |host: u32| CatalogGpu {
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
                .push(reading(PartKind::Gpu, &gpu.name, Quantity::Clock, clock));
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
        night.readings.parts.retain(|part| part.kind == PartKind::RailEnd);
        // Latencies are of both directions.
        night
            .readings
            .parts
            .push(reading(PartKind::RailEnd, "h3/rail1", Quantity::Latency, 9000.0));
        night.readings.loads.clear();
    }
    add(
        &mut nights,
        4,
        found(FindingKind::Flap, "h3 on rail1", host_place("h3", Some("rail1"))),
    );
    let known = PartCatalog {
        hosts: clos.hosts,
        ..PartCatalog::default()
    };
    let certificate = decide(&asked(), &[], &nights, &known);
    assert_eq!(certificate.links.len(), 16);
    assert_eq!(ruling(&certificate.links, "h3/rail1 out"), Ruling::Reject);
    assert_eq!(ruling(&certificate.links, "h2/rail1 out"), Ruling::Accept);
}
