//! Burn-ins with slow parts and flaps, and what must be said of them.

use super::fixture::{asked, clos, cycle, found};
use super::*;
use record::units::Nanos;
use record::{FindingKind, FindingSummary, Place};

pub(super) const RATE: f64 = 25e6;

/// So many healthy cycles of the whole fabric.
pub(super) fn healthy(known: &PartCatalog, count: u32) -> Vec<Night> {
    (1..=count).map(|number| cycle(known, number, |_| RATE)).collect()
}

pub(super) fn host_place(host: &str, rail: Option<&str>) -> Place {
    Place {
        hosts: vec![host.to_string()],
        rail: rail.map(str::to_string),
        ..Place::default()
    }
}

fn slow_link(name: &str) -> FindingSummary {
    let place = Place {
        link: Some(name.to_string()),
        rail: Some("rail1".to_string()),
        ..Place::default()
    };
    found(FindingKind::SlowLink, name, place)
}

pub(super) fn slow_rail() -> FindingSummary {
    let place = Place {
        rail: Some("rail1".to_string()),
        ..Place::default()
    };
    found(FindingKind::SlowRail, "rail1", place)
}

pub(super) fn add(nights: &mut [Night], cycle: usize, finding: FindingSummary) {
    nights[cycle - 1].readings.findings.push(finding);
}

pub(super) fn ruling(decisions: &[PartDecision], part: &str) -> Ruling {
    decisions
        .iter()
        .find(|decision| decision.part == part)
        .unwrap()
        .ruling
}

pub(super) const LINK: &str = "h2/rail1->leaf3/p0";
pub(super) const BACK: &str = "leaf3/p0->h2/rail1";

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
fn what_all_cables_lose_together_is_not_accepted() {
    let known = clos();
    let falling = |share: f64| -> Certificate {
        let nights: Vec<Night> = (1..=20)
            .map(|number| {
                cycle(&known, number, |_| {
                    RATE * (1.0 - share * f64::from(number - 1) / 19.0)
                })
            })
            .collect();
        decide(&asked(), &[], &nights, &known)
    };
    let little = falling(0.02);
    assert_eq!(little.ruling, Ruling::Accept, "{}", little.summary);
    let much = falling(0.08);
    assert_eq!(
        (much.ruling, much.exit_code),
        (Ruling::Reject, 12),
        "{}",
        much.summary
    );
    let [incident] = much.incidents.as_slice() else {
        panic!("{:?}", much.incidents)
    };
    assert_eq!(incident.part, "all cables");
    assert!(incident.sentence.contains("fell by 8"), "{}", incident.sentence);
    // At once, from cycle 11 on.
    let nights: Vec<Night> = (1..=20)
        .map(|number| cycle(&known, number, |_| if number > 10 { 0.9 * RATE } else { RATE }))
        .collect();
    let stepped = decide(&asked(), &[], &nights, &known);
    let [incident] = stepped.incidents.as_slice() else {
        panic!("{:?}", stepped.incidents)
    };
    assert_eq!((incident.first.cycle, incident.last.cycle), (11, 20));
    assert!(incident.sentence.contains("fell by 10"), "{}", incident.sentence);
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
    let nothing = decide(&asked(), &[], &[], &PartCatalog::default());
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

#[test]
fn a_cable_whose_directions_degrade_at_different_times_is_one_incident_from_the_first_on() {
    let known = clos();
    let rate = |number: u32, link: &str| match link {
        LINK if number >= 8 => 0.85 * RATE,
        BACK if number >= 20 => 0.8 * RATE,
        _ => RATE,
    };
    let nights: Vec<Night> = (1..=30)
        .map(|number| cycle(&known, number, |link| rate(number, link)))
        .collect();
    let certificate = decide(&asked(), &[], &nights, &known);
    assert_eq!(certificate.incidents.len(), 1, "{:#?}", certificate.incidents);
    assert_eq!(certificate.incidents[0].first.cycle, 8);
    for link in [LINK, BACK] {
        assert_eq!(ruling(&certificate.links, link), Ruling::Reject, "{link}");
    }
}

#[test]
fn a_cable_that_is_slow_in_both_directions_from_the_beginning_is_rejected_in_both() {
    let known = clos();
    let mut nights = healthy(&known, 20);
    for number in 1..=20 {
        let both_directions = true;
        add(
            &mut nights,
            number,
            FindingSummary {
                both_directions,
                ..slow_link(LINK)
            },
        );
    }
    let certificate = decide(&asked(), &[], &nights, &known);
    assert_eq!(certificate.incidents.len(), 1);
    for link in [LINK, BACK] {
        assert_eq!(ruling(&certificate.links, link), Ruling::Reject, "{link}");
    }
}
