//! What a person who looks at many runs at once would lose.

use super::fleet::{self, Fleet, FleetRun};
use super::hostile_tests::{attacks, check_lines, check_markdown, poisoned};
use super::terminal::Page;
use judge::findings::fixture::{Fixture, HEALTHY};
use judge::findings::judge;
use record::{Cell, Judgement};

fn judged(seed: u64, started: &str, rail: &'static str) -> Judgement {
    let speed = move |cell: &Cell, _| match cell.rails[0] == rail {
        true => 0.5 * HEALTHY,
        false => HEALTHY,
    };
    let mut recorded = Fixture::rails(3).noise(0.02, seed).speed(speed).recorded();
    recorded.run.started = started.into();
    judge(&recorded)
}

fn nights() -> Fleet {
    Fleet::of(vec![
        FleetRun::of("third", &judged(3, "2026-11-03T01:00:00Z", "rail1")),
        FleetRun::unreadable("broken", "cannot read broken/run.json: no such file"),
        FleetRun::of("first", &judged(1, "2026-11-01T01:00:00Z", "rail1")),
        FleetRun::of("second", &judged(2, "2026-11-02T01:00:00Z", "none")),
    ])
}

#[test]
fn runs_stand_in_order_and_what_fails_twice_is_named_first() {
    let fleet = nights();
    let names: Vec<&str> = fleet.runs.iter().map(|run| run.name.as_str()).collect();
    assert_eq!(names, ["first", "second", "third", "broken"]);
    assert_eq!(fleet.exit_code, 12, "what was found wins");
    let healthy = FleetRun::of("second", &judged(2, "2026-11-02T01:00:00Z", "none"));
    let broken = FleetRun::unreadable("broken", "cannot read broken/run.json: no such file");
    assert_eq!(
        Fleet::of(vec![healthy, broken]).exit_code,
        20,
        "what cannot be read is not healthy"
    );
    let page = fleet::html(&fleet);
    assert!(
        page.contains("<h1 class=\"verdict bad\""),
        "runs that failed are not hidden by it: {page}"
    );
    let [part] = fleet.repeated.as_slice() else {
        panic!("{:?}", fleet.repeated);
    };
    assert!(part.part.contains("rail1"), "{part:?}");
    assert_eq!(part.runs, ["first", "third"]);
    assert!(
        fleet
            .summary
            .starts_with("4 runs: 1 passed, 2 failed, 0 inconclusive, 1 cannot be read, "),
        "{}",
        fleet.summary
    );
}

#[test]
fn every_format_has_every_run_with_its_part_and_its_error() {
    let fleet = nights();
    let json = fleet::json(&fleet).unwrap();
    let formats = [
        fleet::terminal(&fleet, Page::log()),
        fleet::terminal(&fleet, Page::terminal(false)),
        fleet::markdown(&fleet).unwrap(),
        fleet::html(&fleet),
        json.clone(),
    ];
    for text in &formats {
        for fact in [
            "first",
            "second",
            "third",
            "broken",
            "slow-rail",
            "rail1",
            "cannot read",
        ] {
            assert!(text.contains(fact), "{fact}: {text}");
        }
    }
    let value: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(
        (
            value["exit_code"].as_u64(),
            value["runs"].as_array().unwrap().len()
        ),
        (Some(12), 4)
    );
    assert_eq!(
        fleet::html(&fleet),
        fleet::html(&nights()),
        "the same runs give the same page"
    );
}

#[test]
fn the_page_asks_for_nothing_from_elsewhere() {
    let page = fleet::html(&nights());
    for outside in ["http:", "https:", "<script", "<link", "@import", "url(", " src="] {
        assert!(!page.contains(outside), "{outside}");
    }
    assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>\n"));
}

#[test]
fn a_hundred_runs_fit_the_terminal_and_failing_ones_come_first() {
    let (bad, good) = (
        judged(1, "2026-11-01T01:00:00Z", "rail1"),
        judged(2, "2026-11-02T01:00:00Z", "none"),
    );
    let runs = (0..100).map(|number| {
        let judgement = if number == 77 { &bad } else { &good };
        FleetRun::of(&format!("run{number:03}"), judgement)
    });
    let fleet = Fleet::of(runs.collect());
    let text = fleet::terminal(&fleet, Page::terminal(false));
    assert!(text.lines().count() <= 24, "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    assert!(text.lines().nth(1).unwrap().contains("run077"), "{text}");
    assert!(text.contains("more runs"), "{text}");
    assert_eq!(fleet::terminal(&fleet, Page::log()).lines().count(), 101);
}

#[test]
fn no_name_in_a_fleet_is_obeyed() {
    for attack in attacks() {
        let judgement = poisoned(&judged(1, "2026-11-01T01:00:00Z", "rail1"), &attack);
        let fleet = Fleet::of(vec![
            FleetRun::of(&format!("a{attack}"), &judgement),
            FleetRun::of(&format!("b{attack}"), &judgement),
            FleetRun::unreadable(&format!("c{attack}"), &attack),
        ]);
        assert_eq!(fleet.repeated.len(), 1);
        check_lines("terminal", &fleet::terminal(&fleet, Page::terminal(false)));
        check_lines("log", &fleet::terminal(&fleet, Page::log()));
        check_lines("json", &fleet::json(&fleet).unwrap());
        check_markdown("fleet.md", &fleet::markdown(&fleet).unwrap());
        let page = fleet::html(&fleet);
        check_lines("page", &page);
        for live in ["<img", "<script", "<!--", "</text>"] {
            assert!(!page.contains(live), "{live}");
        }
    }
}
