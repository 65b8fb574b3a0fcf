//! What a reader of the page would lose, each as one judged run.

use super::parser_tests::{self, Element};
use super::{FIRST, Html, SECTIONS, Section};
use crate::history_tests::nights;
use crate::writer::Writer;
use judge::findings::fixture::{Fixture, HEALTHY};
use judge::findings::judge;
use record::{Cell, Event, Judgement, Recorded, Suspect, SuspectKind, Untested};

pub(super) fn page(recorded: &Recorded, judgement: &Judgement) -> String {
    Html.render(recorded, judgement).unwrap()
}

pub(super) fn with_slow_rail() -> Recorded {
    let slow = |cell: &Cell, _| match cell.rails[0].as_str() {
        "rail1" => 0.6 * HEALTHY,
        _ => HEALTHY,
    };
    Fixture::rails(3).speed(slow).recorded()
}

/// What stands in a section without its markup, entities as they are.
pub(super) fn words_of(page: &str, id: &str) -> String {
    let start = page
        .find(&format!("<section id=\"{id}\""))
        .unwrap_or_else(|| panic!("{id}"));
    let section = page[start..].split("</section>").next().unwrap();
    let mut words = String::new();
    for piece in section.split('<') {
        let text = piece.split_once('>').map_or("", |(_, text)| text).trim();
        if !text.is_empty() {
            words.push_str(text);
            words.push(' ');
        }
    }
    words
}

pub(super) fn assert_says(page: &str, id: &str, facts: &[&str]) {
    let words = words_of(page, id);
    for fact in facts {
        assert!(words.contains(fact), "#{id} lacks {fact}: {words}");
    }
}

fn count(elements: &[Element], name: &str) -> usize {
    elements.iter().filter(|element| element.name == name).count()
}

#[test]
fn the_first_screen_says_what_is_wrong_how_sure_and_what_to_do() {
    let recorded = with_slow_rail();
    let mut judgement = judge(&recorded);
    let finding = &mut judgement.findings[0];
    finding.suspects = vec![Suspect {
        part: "h1/rail1->leaf1/p0".to_string(),
        kind: SuspectKind::HostCable,
        cable: Some("cable 7".to_string()),
        direction: Some("away from the host".to_string()),
        confidence: 0.93,
        why: "all that crosses it is slow".to_string(),
    }];
    finding.not_told_apart_from = vec!["port p0 of leaf1".to_string()];
    let page = page(&recorded, &judgement);
    assert_says(&page, "verdict", &["FAIL: ", "rail1", "12 of 12 planned cells"]);
    let repeat = "railgauge run smoke --only test=rails,rail=rail1";
    let facts = [
        "slow-rail",
        "h1/rail1-&gt;leaf1/p0",
        "measured 0.6",
        " of 1.0",
        " expected (6",
        "confidence 0.93, the only suspect",
        "confirmed in 3 rounds",
        "ambiguous with port p0 of leaf1",
        "next",
        repeat,
    ];
    assert_says(&page, "worst", &facts);
    assert!(
        page.contains(&format!("<code>{repeat}</code>")),
        "it can be copied"
    );
    let evidence = [
        "rule",
        "cable 7",
        "away from the host",
        "all that crosses it is slow",
        "cells",
    ];
    assert_says(&page, "findings", &evidence);
}

#[test]
fn every_section_is_there_and_says_so_where_nothing_is_known() {
    let recorded = Recorded {
        history: Some(nights()),
        ..with_slow_rail()
    };
    let page = page(&recorded, &judge(&recorded));
    let is_there =
        |section: &Section| page.contains(&format!("<a href=\"#{}\">{}</a>", section.id, section.title));
    // Without probes there is nothing that could be unknown about them.
    let (of_probes, others): (Vec<&Section>, Vec<&Section>) = FIRST
        .iter()
        .chain(SECTIONS)
        .partition(|section| section.id == "probes");
    assert!(of_probes.len() == 1 && !is_there(of_probes[0]));
    for section in others {
        assert!(is_there(section), "{}", section.id);
        assert!(!words_of(&page, section.id).is_empty(), "{}", section.id);
    }
    let unknown = [
        ("ecmp", "is unknown"),
        ("links", "The run has no topology"),
        ("nodes", "No inventory was taken"),
        ("counters", "No port counter was read"),
        ("gpus", "No GPU was monitored"),
    ];
    for (id, words) in unknown {
        assert_says(&page, id, &[words]);
    }
}

#[test]
fn a_page_that_passes_says_what_was_measured_and_what_was_not() {
    let mut recorded = Fixture::rails(2).recorded();
    recorded.run.untested = vec![Untested {
        what: "rail7".to_string(),
        why: "no rank has it".to_string(),
    }];
    let judgement = judge(&recorded);
    let page = page(&recorded, &judgement);
    let facts = [
        "PASS: 1 of 1 tests passed",
        "Measured: 8 of 8 planned cells of 1 test on 2 rails",
        "Not measured: rail7 (no rank has it)",
    ];
    assert_says(&page, "verdict", &facts);
    assert_says(&page, "worst", &["every measurement is as expected"]);
    assert_says(&page, "coverage", &["rail7", "no rank has it"]);
}

#[test]
fn the_page_needs_nothing_but_itself_and_is_the_same_every_time() {
    let recorded = with_slow_rail();
    let judgement = judge(&recorded);
    let page = page(&recorded, &judgement);
    assert_eq!(page, super::tests::page(&recorded, &judgement));
    for outside in [
        "http:", "https:", "src=", "@import", "url(", "//www", "<link", "<img", "<iframe",
    ] {
        assert!(!page.contains(outside), "{outside}");
    }
    let policy = "default-src &#39;none&#39;; style-src &#39;unsafe-inline&#39;; script-src &#39;sha256-";
    assert!(page.contains(policy), "and a browser makes sure of it");
}

#[test]
fn those_who_hear_the_page_find_their_way() {
    let recorded = with_slow_rail();
    let page = page(&recorded, &judge(&recorded));
    let elements = parser_tests::elements(&page);
    for (name, wanted) in [("h1", 1), ("main", 1), ("nav", 1), ("header", 1), ("footer", 1)] {
        assert_eq!(count(&elements, name), wanted, "{name}");
    }
    assert!(page.contains("<html lang=\"en\">"));
    let first_link = elements.iter().find(|element| element.name == "a").unwrap();
    assert_eq!(
        first_link.attribute("href"),
        Some("#verdict"),
        "a link past the sections"
    );
    let tables = count(&elements, "table");
    assert!(tables > 5 && count(&elements, "caption") == tables);
    for head in elements.iter().filter(|element| element.name == "th") {
        assert!(matches!(head.attribute("scope"), Some("col" | "row")), "{head:?}");
    }
    let ids: Vec<&str> = elements
        .iter()
        .filter_map(|element| element.attribute("id"))
        .collect();
    let distinct: std::collections::BTreeSet<&str> = ids.iter().copied().collect();
    assert_eq!(ids.len(), distinct.len(), "ids are distinct: {ids:?}");
    for element in &elements {
        for name in ["aria-labelledby", "aria-describedby"] {
            let mut named = element
                .attribute(name)
                .into_iter()
                .flat_map(str::split_whitespace);
            assert!(named.all(|id| distinct.contains(id)), "{element:?}");
        }
        if let Some(target) = element.attribute("href") {
            assert!(distinct.contains(&target[1..]), "{target}");
        }
    }
    let drawings = elements
        .iter()
        .filter(|element| element.name == "svg" && element.around.iter().all(|around| around != "svg"));
    for drawing in drawings {
        assert_eq!(drawing.attribute("role"), Some("img"));
        assert!(drawing.attribute("aria-labelledby").is_some());
    }
}

#[test]
fn without_the_script_every_fact_is_there_and_no_control_that_needs_it() {
    let recorded = with_slow_rail();
    let judgement = judge(&recorded);
    let page = page(&recorded, &judgement);
    let (before, script) = page.split_once("<script>").unwrap();
    let elements = parser_tests::elements(&page);
    assert_eq!(count(&elements, "button"), 0, "the script makes them");
    let tools = elements
        .iter()
        .find(|element| element.attribute("id") == Some("tools"));
    assert_eq!(tools.unwrap().attribute("hidden"), Some(""));
    let controls = elements.iter().filter(|element| element.name == "input");
    assert!(
        controls
            .into_iter()
            .all(|element| element.around.contains(&"div".to_string()))
    );
    assert!(before.contains("</main>"), "the script stands behind all of it");
    for fact in ["rail1", "0.6", "smoke"] {
        assert!(before.contains(fact) && !script.contains(fact), "{fact}");
    }
}

#[test]
fn a_run_without_a_sample_and_one_that_was_cut_off_say_what_they_are() {
    let mut recorded = with_slow_rail();
    recorded
        .events
        .retain(|event| !matches!(event, Event::End { .. }));
    recorded.truncated = true;
    let cut_off = page(&recorded, &judge(&recorded));
    assert_says(&cut_off, "verdict", &["The run was interrupted"]);
    assert_says(&cut_off, "method", &["incomplete, left out"]);
    recorded.samples.clear();
    recorded.events.clear();
    let empty = page(&recorded, &judge(&recorded));
    parser_tests::elements(&empty);
    assert_says(
        &empty,
        "verdict",
        &["INCONCLUSIVE", "Measured: 0 of 12 planned cells"],
    );
    assert_says(
        &empty,
        "coverage",
        &["0 of 12 planned cells measured", "Planned but not measured"],
    );
    assert_says(&empty, "cells", &["0 passed, 12 did not", "not run"]);
}
