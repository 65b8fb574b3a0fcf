//! Certificates of burn-ins with known faults, as they are written.

use super::*;
use crate::hostile_tests::{attacks, check_lines, check_markdown, poisoned};
use crate::html::parser_tests::elements;
use judge::burn_in::fixture::{asked, clos, cycle, found, line};
use judge::burn_in::{PartCatalog, decide};
use record::{EndReason, FindingKind, Journal, Place, Ruling, Untested};

const BAD: &str = "h2/rail1->leaf3/p0";

/// A cable that loses 15 % in cycle 8, a flap elsewhere, a node lost and returned.
fn troubled() -> (Certificate, Vec<Night>) {
    let known: PartCatalog = clos();
    let rate = |number: u32, link: &str| if link == BAD && number >= 8 { 21.25e9 } else { 25e9 };
    let mut nights: Vec<Night> = (1..=20)
        .map(|number| cycle(&known, number, |link| rate(number, link)))
        .collect();
    let place = Place {
        hosts: vec!["h3".into()],
        rail: Some("rail0".into()),
        ..Place::default()
    };
    nights[4]
        .readings
        .findings
        .push(found(FindingKind::Flap, "h3 on rail0", place));
    nights[4].readings.untested.push(Untested {
        what: "rail9".into(),
        why: "missing on h1".into(),
    });
    let hosts = vec!["h1".to_string()];
    let journal = [
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
    ];
    (decide(&asked(), &journal, &nights, &known), nights)
}

fn healthy() -> (Certificate, Vec<Night>) {
    let known = clos();
    let nights: Vec<Night> = (1..=20).map(|number| cycle(&known, number, |_| 25e9)).collect();
    (decide(&asked(), &[], &nights, &known), nights)
}

fn written(certificate: &Certificate, cycles: &[Night]) -> [String; 3] {
    let folder = tempfile::tempdir().unwrap();
    write_all(folder.path(), certificate, cycles).unwrap();
    let names = [
        burn_in_files::CERTIFICATE,
        burn_in_files::CERTIFICATE_PAGE,
        burn_in_files::CERTIFICATE_TEXT,
    ];
    let count = std::fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(count, names.len(), "nothing is left beside the files");
    names.map(|name| std::fs::read_to_string(folder.path().join(name)).unwrap())
}

#[test]
fn the_page_says_what_where_and_when_and_shows_the_step() {
    let (certificate, cycles) = troubled();
    let [_, page, _] = written(&certificate, &cycles);
    elements(&page);
    for words in [
        "REJECTED",
        "h2/rail1-&gt;leaf3/p0 lost 15 % of its bandwidth in cycle 8 (",
        "h1 was lost in cycle 12 (",
        "and was back in cycle 14 (",
        "rail9",
        "least_covered",
        "20m of 30m asked for",
        "cycle 8: -15.0 %",
    ] {
        assert!(page.contains(words), "{words}");
    }
    assert_eq!(
        page.matches("<svg").count(),
        2,
        "the cable that fell, and the one that flapped"
    );
    let (certificate, cycles) = healthy();
    let [_, page, text] = written(&certificate, &cycles);
    assert!(page.contains("ACCEPTED") && page.contains("None.") && !page.contains("<svg"));
    assert!(text.starts_with("# Burn-in burn-in: ACCEPTED\n"), "{text}");
}

#[test]
fn markdown_and_terminal_are_short_and_name_every_incident_that_counts() {
    let (certificate, cycles) = troubled();
    assert_eq!(
        (certificate.ruling, certificate.incidents.len()),
        (Ruling::Reject, 3),
        "{:#?}",
        certificate.incidents
    );
    let [_, _, markdown] = written(&certificate, &cycles);
    let terminal = terminal(&certificate);
    assert!(markdown.lines().count() < 40, "{markdown}");
    assert!(terminal.lines().count() <= 24, "{terminal}");
    for part in ["h2/rail1-", "h3/rail0-", "h1 was lost"] {
        assert!(markdown.contains(part), "{part}: {markdown}");
        assert!(terminal.contains(part), "{part}: {terminal}");
    }
    assert!(terminal.ends_with("exit code 21\n"), "{terminal}");
}

#[test]
fn however_much_happened_a_terminal_has_24_lines() {
    let (mut certificate, _) = troubled();
    let one = certificate.incidents[0].clone();
    certificate.incidents.extend((0..200).map(|_| one.clone()));
    let terminal = terminal(&certificate);
    assert!(terminal.lines().count() <= 24, "{terminal}");
    assert!(terminal.contains("more in certificate.html"), "{terminal}");
}

#[test]
fn the_json_is_as_its_schema_says_and_reads_back_the_same() {
    let schema = serde_json::from_str(&crate::schema::certificate_schema()).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    for (certificate, cycles) in [troubled(), healthy()] {
        let [json, _, _] = written(&certificate, &cycles);
        let value: serde_json::Value = serde_json::from_str(&json).unwrap();
        let errors: Vec<String> = validator
            .iter_errors(&value)
            .map(|error| error.to_string())
            .collect();
        assert_eq!(errors, Vec::<String>::new());
        assert_eq!(serde_json::from_str::<Certificate>(&json).unwrap(), certificate);
    }
    assert!(!validator.is_valid(&serde_json::json!({ "schema": 1 })));
}

#[test]
fn no_name_from_another_machine_is_obeyed_in_any_format() {
    let (certificate, cycles) = troubled();
    for attack in attacks() {
        let hostile = poisoned(&certificate, &attack);
        let mut cycles = cycles.clone();
        for night in &mut cycles {
            night.readings = poisoned(&night.readings, &attack);
        }
        let [json, page, markdown] = written(&hostile, &cycles);
        elements(&page);
        check_lines("page", &page);
        check_lines("json", &json);
        check_markdown("markdown", &markdown);
        let terminal = terminal(&hostile);
        check_lines("terminal", &terminal);
        assert!(terminal.lines().count() <= 24);
        assert!(page.contains("<svg"), "{attack}");
    }
}
