//! Cables that lose too little for any one cycle, and who is rejected, extended and accepted for it.

use super::fixture::{Noise, asked, clos, found};
use super::tests::{add, healthy, host_place, ruling};
use super::*;
use record::{FindingKind, PartKind, Place, ProbeReading, ProbeReadings};

/// Seconds of a flow in a cycle, and its packets in each.
const SECONDS: u32 = 2;
const PACKETS: u64 = 250;

fn position(names: &mut Vec<String>, name: &str) -> u32 {
    match names.iter().position(|known| known == name) {
        Some(known) => known as u32,
        None => {
            names.push(name.to_string());
            names.len() as u32 - 1
        }
    }
}

/// Probes over every path there is, of which a link loses what `loss` says.
fn probes(known: &PartCatalog, noise: &mut Noise, loss: impl Fn(&str) -> f64) -> ProbeReadings {
    let mut readings = ProbeReadings {
        tests: vec!["probes 32 B".to_string()],
        ..ProbeReadings::default()
    };
    for (number, path) in known.flows.iter().enumerate() {
        let host = |link: &str| {
            let link = known.links.iter().find(|known| known.name == link).unwrap();
            (link.host.clone().unwrap(), link.rail.clone().unwrap())
        };
        let ((from, rail), (to, _)) = (host(&path[0]), host(&path[path.len() - 1]));
        let arrives: f64 = path.iter().map(|link| 1.0 - loss(link)).product();
        let lost: Vec<u64> = (0..SECONDS)
            .map(|_| (0..PACKETS).map(|_| u64::from(noise.uniform() >= arrives)).sum())
            .collect();
        readings.flows.push(ProbeReading {
            slot: (number % 4) as u32,
            from: position(&mut readings.hosts, &from),
            to: position(&mut readings.hosts, &to),
            rail: position(&mut readings.rails, &rail),
            port: 17_000 + number as u16,
            links: path
                .iter()
                .map(|link| position(&mut readings.links, link))
                .collect(),
            seconds: SECONDS,
            lossy: lost.iter().filter(|lost| **lost > 0).count() as u32,
            sent: PACKETS * u64::from(SECONDS),
            lost: lost.iter().sum(),
            ..ProbeReading::default()
        });
    }
    readings
}

/// So many healthy cycles with probes, of which a link loses what `loss` says in a cycle.
fn cycles(known: &PartCatalog, count: u32, seed: u64, loss: impl Fn(&str, u32) -> f64) -> Vec<Night> {
    let mut noise = Noise::new(seed);
    let mut nights = healthy(known, count);
    for (number, night) in (1..).zip(&mut nights) {
        night.readings.probes = Some(probes(known, &mut noise, |link| loss(link, number)));
    }
    nights
}

fn check_of<'c>(certificate: &'c Certificate, part: &str) -> &'c record::Check {
    let decision = certificate.links.iter().find(|link| link.part == part).unwrap();
    decision
        .checks
        .iter()
        .find(|check| check.criterion == "lossy")
        .unwrap()
}

const CABLE: &str = "h2/rail1->leaf3/p0";

#[test]
fn a_cable_that_loses_one_packet_in_five_thousand_is_rejected_after_an_hour_and_nothing_else_is() {
    let known = clos();
    for seed in 0..5 {
        let nights = cycles(
            &known,
            60,
            seed,
            |link, _| if link == CABLE { 0.0002 } else { 0.0 },
        );
        let certificate = decide(&asked(), &[], &nights, &known);
        let [incident] = certificate.incidents.as_slice() else {
            panic!("{seed}: {:#?}", certificate.incidents);
        };
        assert_eq!(
            (
                incident.kind,
                incident.part.as_str(),
                incident.counts,
                incident.is_still_there
            ),
            (FindingKind::LossyLink, CABLE, true, true),
            "{seed}"
        );
        assert!(
            incident.sentence.contains("of its packets ["),
            "{}",
            incident.sentence
        );
        assert_eq!((certificate.ruling, certificate.exit_code), (Ruling::Reject, 12));
        for link in &certificate.links {
            let wanted = if link.part == CABLE {
                Ruling::Reject
            } else {
                Ruling::Accept
            };
            assert_eq!(link.ruling, wanted, "{seed}: {link:#?}");
        }
        assert_eq!(check_of(&certificate, CABLE).ruling, Ruling::Reject);
        assert_eq!(
            ruling(&certificate.nodes, "h2"),
            Ruling::Extend,
            "its NIC may be at fault"
        );
        assert_eq!(ruling(&certificate.nodes, "h0"), Ruling::Accept);
    }
}

#[test]
fn a_cable_between_switches_that_loses_packets_is_told_from_its_neighbours() {
    let known = clos();
    let cable = "leaf0/u1->spine1/d0";
    let nights = cycles(&known, 60, 7, |link, _| if link == cable { 0.0005 } else { 0.0 });
    let certificate = decide(&asked(), &[], &nights, &known);
    let rejected: Vec<&str> = certificate
        .links
        .iter()
        .filter(|link| link.ruling == Ruling::Reject)
        .map(|link| link.part.as_str())
        .collect();
    assert_eq!(rejected, [cable], "{:#?}", certificate.incidents);
}

#[test]
fn a_healthy_fabric_is_accepted_whatever_its_queues_lose_now_and_then() {
    let known = clos();
    for seed in 0..40 {
        // Some lose nothing, some one packet in a million, some one in twenty thousand, on every link alike.
        let rate = [0.0, 1e-6, 5e-5][seed as usize % 3];
        let nights = cycles(&known, 40, 1000 + seed, |_, _| rate);
        let certificate = decide(&asked(), &[], &nights, &known);
        assert_eq!(
            certificate.ruling,
            Ruling::Accept,
            "{seed}: {:#?}",
            certificate.incidents
        );
    }
}

#[test]
fn a_cable_that_begins_to_lose_packets_after_hours_is_found_in_what_came_since() {
    let known = clos();
    let begins = 300;
    let nights = cycles(&known, 380, 3, |link, cycle| {
        match link == CABLE && cycle > begins {
            true => 0.0005,
            false => 0.0,
        }
    });
    let certificate = decide(&asked(), &[], &nights, &known);
    let incident = &certificate.incidents[0];
    assert_eq!((incident.part.as_str(), certificate.incidents.len()), (CABLE, 1));
    assert!(incident.first.cycle > begins, "{}", incident.sentence);
    assert_eq!(ruling(&certificate.links, CABLE), Ruling::Reject);
}

#[test]
fn what_is_agreed_to_be_lost_rejects_nothing() {
    let known = clos();
    let nights = cycles(&known, 60, 1, |link, _| if link == CABLE { 0.0005 } else { 0.0 });
    let mut asked = asked();
    asked.criteria.lossy.value = 0.01;
    let certificate = decide(&asked, &[], &nights, &known);
    assert!(certificate.incidents.is_empty(), "{:#?}", certificate.incidents);
    assert_eq!(ruling(&certificate.links, CABLE), Ruling::Accept);
}

#[test]
fn what_cycles_and_all_probes_together_say_of_one_cable_is_one_incident() {
    let known = clos();
    let mut nights = cycles(&known, 60, 2, |link, _| if link == CABLE { 0.002 } else { 0.0 });
    for number in [5, 9, 31] {
        let mut place = host_place("h2", Some("rail1"));
        place.link = Some(CABLE.to_string());
        add(&mut nights, number, found(FindingKind::LossyLink, CABLE, place));
        // A ring over a cable that loses packets is slow; nothing else is wrong with it.
        add(
            &mut nights,
            number,
            found(FindingKind::SlowCollective, "rings", Place::default()),
        );
    }
    let certificate = decide(&asked(), &[], &nights, &known);
    assert_eq!(certificate.incidents.len(), 1, "{:#?}", certificate.incidents);
    let incident = &certificate.incidents[0];
    assert_eq!(
        (incident.kind, incident.part.as_str()),
        (FindingKind::LossyLink, CABLE)
    );
    assert!(incident.cycles.contains(&5) && incident.evidence.iter().any(|fact| fact.starts_with("cycle 5")));
}

#[test]
fn a_cable_that_no_probe_crossed_is_not_accepted_while_others_were_probed() {
    let known = clos();
    let mut nights = cycles(&known, 30, 4, |_, _| 0.0);
    for night in &mut nights {
        let probes = night.readings.probes.as_mut().unwrap();
        let spared = probes.links.iter().position(|link| link == CABLE).unwrap() as u32;
        probes.flows.retain(|flow| !flow.links.contains(&spared));
    }
    let certificate = decide(&asked(), &[], &nights, &known);
    assert_eq!(check_of(&certificate, CABLE).ruling, Ruling::Extend);
    assert_eq!(ruling(&certificate.links, "leaf3/p0->h2/rail1"), Ruling::Accept);
    // Where nothing is probed at all, losses were not asked about.
    nights.iter_mut().for_each(|night| night.readings.probes = None);
    let certificate = decide(&asked(), &[], &nights, &known);
    assert_eq!(ruling(&certificate.links, CABLE), Ruling::Accept);
}

#[test]
fn without_a_topology_the_end_of_a_rail_is_rejected_for_what_it_loses() {
    let clos = clos();
    let name = |path: &[String]| {
        // What railgauge makes of rails where no cabling is known.
        let host = |link: &str| clos.links.iter().find(|known| known.name == link).unwrap();
        let (out, back) = (host(&path[0]), host(&path[path.len() - 1]));
        let (from, to, rail) = (
            out.host.clone().unwrap(),
            back.host.clone().unwrap(),
            out.rail.clone().unwrap(),
        );
        vec![
            format!("{from}/{rail}->{rail}-fabric/{from}.{rail}"),
            format!("{rail}-fabric/{to}.{rail}->{to}/{rail}"),
        ]
    };
    let mut nights = cycles(&clos, 60, 5, |link, _| if link == CABLE { 0.0005 } else { 0.0 });
    for night in &mut nights {
        night.readings.parts.retain(|part| part.kind == PartKind::RailEnd);
        night.readings.loads.clear();
        let probes = night.readings.probes.as_mut().unwrap();
        let paths: Vec<Vec<String>> = clos.flows.iter().map(|path| name(path)).collect();
        probes.links.clear();
        for (flow, path) in probes.flows.iter_mut().zip(&paths) {
            flow.links = path
                .iter()
                .map(|link| position(&mut probes.links, link))
                .collect();
        }
    }
    let known = PartCatalog {
        hosts: clos.hosts,
        ..PartCatalog::default()
    };
    let certificate = decide(&asked(), &[], &nights, &known);
    assert_eq!(
        ruling(&certificate.links, "h2/rail1 out"),
        Ruling::Reject,
        "{:#?}",
        certificate.incidents
    );
    assert_eq!(ruling(&certificate.links, "h2/rail1 in"), Ruling::Accept);
    assert_eq!(ruling(&certificate.links, "h1/rail1 out"), Ruling::Accept);
}

#[test]
fn a_host_that_drops_what_it_receives_on_both_rails_is_rejected_itself() {
    let known = clos();
    let nights = cycles(&known, 80, 6, |link, _| {
        match link.ends_with("->h1/rail0") || link.ends_with("->h1/rail1") {
            true => 0.0005,
            false => 0.0,
        }
    });
    let certificate = decide(&asked(), &[], &nights, &known);
    assert_eq!(
        ruling(&certificate.nodes, "h1"),
        Ruling::Reject,
        "{:#?}",
        certificate.incidents
    );
    assert!(
        certificate
            .incidents
            .iter()
            .all(|incident| !incident.counts || incident.part == "h1")
    );
}

#[test]
fn a_cable_that_flaps_while_probes_are_sent_is_one_incident() {
    let known = clos();
    let goes_down = |cycle: u32| cycle % 6 == 3;
    let mut nights = cycles(&known, 60, 9, |link, cycle| {
        match goes_down(cycle) && link == CABLE {
            true => 0.3,
            false => 0.0,
        }
    });
    for number in (1..=60).filter(|number| goes_down(*number)) {
        let flap = found(FindingKind::Flap, "h2 on rail1", host_place("h2", Some("rail1")));
        add(&mut nights, number as usize, flap);
    }
    let certificate = decide(&asked(), &[], &nights, &known);
    let incidents: Vec<FindingKind> = certificate
        .incidents
        .iter()
        .map(|incident| incident.kind)
        .collect();
    assert_eq!(incidents, [FindingKind::Flap], "{:#?}", certificate.incidents);
}

#[test]
fn cycles_read_again_after_a_kill_decide_the_same() {
    let known = clos();
    let nights = cycles(&known, 40, 8, |link, _| if link == CABLE { 0.0005 } else { 0.0 });
    let all = decide(&asked(), &[], &nights, &known);
    let mut again = CycleStore::default();
    // A cycle that is handed in twice counts once.
    nights
        .iter()
        .chain(&nights[30..])
        .for_each(|night| again.add(night));
    let text = serde_json::to_string(&nights[0].readings).unwrap();
    assert_eq!(
        record::Readings::from_json(text.as_bytes()).unwrap(),
        nights[0].readings
    );
    assert_eq!(decide_on(&asked(), &[], &again, &known).incidents, all.incidents);
}
