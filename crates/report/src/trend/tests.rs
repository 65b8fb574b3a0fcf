use super::*;
use crate::terminal::Page;
use judge::history::fixture::nights;
use judge::history::trends;

fn changed() -> Trends {
    trends(&nights(4, 30, |number, part| {
        if part == "h1/rail0 out" && number >= 20 {
            0.94
        } else {
            1.0
        }
    }))
}

#[test]
fn what_changed_comes_first_with_its_course() {
    let text = terminal(&changed(), Page::log());
    let lines: Vec<&str> = text.lines().collect();
    assert!(
        lines[0].starts_with("CHANGED  nightly, 30 runs (exit code 12)"),
        "{text}"
    );
    let first = lines.iter().position(|line| line.starts_with("part ")).unwrap();
    assert!(lines[first + 1].starts_with("h1/rail0 out "), "{text}");
    assert!(
        lines[first + 1].contains("night20") && lines[first + 1].contains('█'),
        "{text}"
    );
    assert_eq!(lines.len(), first + 1 + 16);
    let short = terminal(&changed(), Page::terminal(false));
    assert!(
        short.lines().count() <= 24 && short.lines().all(|line| line.chars().count() <= 80),
        "{short}"
    );
}

#[test]
fn a_course_shows_rises_falls_and_gaps() {
    let values = [Some(50.0), Some(50.1), None, Some(25.0), Some(0.1)];
    assert_eq!(rows::spark(&values), "██·▄▁");
    // Noise below two percent is level.
    let level = rows::spark(&[Some(50.0), Some(50.2), Some(49.9)]);
    assert!(level.chars().all(|block| ('▃'..='▆').contains(&block)), "{level}");
    assert_eq!(rows::spark(&[]), "");
    assert_eq!(rows::spark(&[None]), "·");
}

#[test]
fn a_filter_keeps_what_it_names_and_the_verdict_of_all() {
    let only = |part: &str| {
        let part = Some(part.to_string());
        Filter {
            part,
            ..Filter::default()
        }
        .apply(changed())
    };
    let other = only("h2/");
    assert_eq!(
        (other.changed.len(), other.series.len(), other.exit_code),
        (0, 4, 12)
    );
    let same = only("h1/rail0");
    assert_eq!((same.changed.len(), same.series.len()), (1, 2));
    assert_eq!(
        same.series
            .iter()
            .filter(|series| series.change == Some(0))
            .count(),
        1
    );
    let latency = Filter {
        quantity: Some(Quantity::Latency),
        ..Filter::default()
    };
    assert_eq!(latency.apply(changed()).series, []);
}

#[test]
fn the_page_has_the_course_of_what_changed_and_is_inert_whatever_parts_are_called() {
    let page = html(&changed()).unwrap();
    assert!(
        page.contains("change") && page.contains("figure-course-0"),
        "no course"
    );
    let mut hostile = changed();
    let name = "<script>alert(1)</script>\u{1b}[31m|x".to_string();
    for series in &mut hostile.series {
        series.part = name.clone();
    }
    for change in &mut hostile.changed {
        change.part = name.clone();
        change.sentence = name.clone();
    }
    hostile.summary = name.clone();
    hostile.skipped = vec![name.clone()];
    let page = html(&hostile).unwrap();
    assert!(!page.contains("<script>alert") && !page.contains('\u{1b}'));
    assert!(!terminal(&hostile, Page::log()).contains('\u{1b}'));
    assert!(!json(&hostile).unwrap().contains('\u{1b}'));
}

#[test]
fn what_is_printed_is_as_the_schema_says() {
    let schema = serde_json::from_str(&crate::schema::trend_schema()).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    for trends in [changed(), trends(&[]), trends(&nights(2, 3, |_, _| 1.0))] {
        let value: serde_json::Value = serde_json::from_str(&json(&trends).unwrap()).unwrap();
        let errors: Vec<String> = validator
            .iter_errors(&value)
            .map(|error| error.to_string())
            .collect();
        assert_eq!(errors, Vec::<String>::new());
        assert!(html(&trends).is_ok());
    }
}
