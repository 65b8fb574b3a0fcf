//! How the page looks: the first screen, on a phone, on paper, in the dark, without scripts.

use record::Judgement;
use serde_json::json;

use crate::contrast;
use crate::driver;
use crate::pages::{Page, example, example_folder, page_of};
use crate::sheet::{Sheet, View};

/// The heaviest picture that is kept.
const HEAVIEST: usize = 300_000;

/// Text with runs of white space as one blank, as a browser shows it.
fn flat(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Whether some element within the window, as it is now, shows this text.
fn is_in_window(sheet: &mut Sheet, text: &str) -> bool {
    let found = sheet.evaluate(&format!(
        "[...document.querySelectorAll('body *')].some(element => {{ \
           if (!element.textContent.replace(/\\s+/g, ' ').includes({}) || !element.checkVisibility({{visibilityProperty: true}})) return false; \
           const box = element.getBoundingClientRect(); \
           return box.height > 0 && box.top >= 0 && box.bottom <= innerHeight && box.left >= 0 && box.right <= innerWidth; }})",
        json!(flat(text))
    ));
    found == true
}

fn worst_part(judgement: &Judgement) -> String {
    judgement.findings.first().unwrap().part()
}

#[test]
fn kept_picture_of_the_first_screen_has_verdict_suspect_numbers_and_next_step() {
    if !driver::is_there() {
        return;
    }
    let page = page_of(&example());
    for (name, view) in [
        ("first-screen", View::DESK),
        (
            "first-screen-dark",
            View {
                dark: true,
                ..View::DESK
            },
        ),
    ] {
        let mut sheet = Sheet::open(&page.file, view);
        let picture = sheet.picture(name);
        let worst = page.judgement.findings.first().unwrap();
        assert!(
            is_in_window(&mut sheet, "FAIL") || is_in_window(&mut sheet, "fail"),
            "verdict"
        );
        let part = worst_part(&page.judgement);
        assert!(is_in_window(&mut sheet, &part), "{part}");
        let next: String = worst.next_step.chars().take(40).collect();
        assert!(is_in_window(&mut sheet, &next), "{next}");
        let measured = worst.measured.unwrap().median.to_string();
        let number = measured.split(' ').next().unwrap();
        assert!(is_in_window(&mut sheet, number), "{number} measured");
        if std::env::var_os("RAILGAUGE_UPDATE").is_some() && !view.dark {
            let bytes = std::fs::read(picture).unwrap();
            assert!(bytes.len() < HEAVIEST, "{} bytes", bytes.len());
            std::fs::write(example_folder().join("page.png"), bytes).unwrap();
        }
    }
}

/// What each section says, without what only scripts can serve.
fn facts(sheet: &mut Sheet) -> Vec<(String, String)> {
    sheet.unfold();
    let sections = sheet.evaluate(
        "(() => { const controls = 'input, select, button.copy, label, output, #filter, #filtered, [data-control], script, style, noscript'; \
           return [...document.querySelectorAll('section[id]')].map(section => { \
             const hidden = [...section.querySelectorAll(controls)].filter(found => !found.closest('th')); \
             const before = hidden.map(found => found.style.display); \
             hidden.forEach(found => found.style.display = 'none'); \
             const text = section.innerText; \
             hidden.forEach((found, at) => found.style.display = before[at]); \
             return [section.id, text]; }); })()",
    );
    let sections = sections.as_array().unwrap();
    sections
        .iter()
        .map(|section| {
            let (id, text) = (section[0].as_str().unwrap(), section[1].as_str().unwrap());
            (id.to_string(), flat(text))
        })
        .collect()
}

#[test]
fn a_reader_without_scripts_gets_the_same_facts() {
    if !driver::is_there() {
        return;
    }
    let page = page_of(&example());
    let with = facts(&mut Sheet::open(&page.file, View::DESK));
    let view = View {
        scripts: false,
        ..View::DESK
    };
    let mut sheet = Sheet::open(&page.file, view);
    sheet.picture("without-scripts");
    let without = facts(&mut sheet);
    assert_eq!(without, with);
    let ids: Vec<&str> = with.iter().map(|(id, _)| id.as_str()).collect();
    for id in [
        "verdict", "worst", "findings", "tests", "figures", "links", "nodes", "cells", "coverage", "method",
    ] {
        assert!(ids.contains(&id), "{id} in {ids:?}");
    }
    let all: String = with.iter().map(|(_, text)| text.as_str()).collect();
    for finding in &page.judgement.findings {
        assert!(all.contains(&flat(&finding.sentence)), "{}", finding.sentence);
    }
}

#[test]
fn a_phone_never_scrolls_sideways_and_shows_the_suspect() {
    if !driver::is_there() {
        return;
    }
    let page = page_of(&example());
    let mut sheet = Sheet::open(&page.file, View::PHONE);
    sheet.whole_picture("phone");
    let width =
        sheet.evaluate("[document.documentElement.scrollWidth, document.body.scrollWidth, innerWidth]");
    assert_eq!(width, json!([360, 360, 360]), "{}", wide_parts(&mut sheet));
    let part = worst_part(&page.judgement);
    assert!(
        sheet
            .text("document.querySelector('#worst').innerText")
            .contains(&part),
        "{part}"
    );
}

/// What sticks out of the window, for whoever has to mend it.
fn wide_parts(sheet: &mut Sheet) -> String {
    sheet.text(
        "[...document.querySelectorAll('body *')].filter(e => e.getBoundingClientRect().right > innerWidth + 1) \
           .slice(0, 12).map(e => e.tagName + '#' + e.id + '.' + e.className).join(' ')",
    )
}

#[test]
fn on_paper_everything_that_was_folded_is_there() {
    if !driver::is_there() {
        return;
    }
    let page = page_of(&example());
    for scripts in [true, false] {
        let view = View {
            scripts,
            print: true,
            ..View::DESK
        };
        let mut sheet = Sheet::open(&page.file, view);
        // What is folded on the screen has a height on paper.
        let folded = sheet.evaluate(
            "[...document.querySelectorAll('details')].filter(details => { \
               const inside = [...details.children].filter(child => child.tagName !== 'SUMMARY'); \
               return inside.length && !inside.some(child => child.checkVisibility() && child.getBoundingClientRect().height > 0); \
             }).map(details => details.outerHTML.slice(0, 120))",
        );
        assert_eq!(folded, json!([]), "scripts {scripts}");
        let width = sheet.evaluate("document.documentElement.scrollWidth <= innerWidth");
        assert_eq!(width, true, "{}", wide_parts(&mut sheet));
        let controls = sheet.evaluate(
            "[...document.querySelectorAll('#filter')].filter(control => control.checkVisibility()).length",
        );
        assert_eq!(controls, 0, "nobody types on paper");
        let pdf = sheet.pdf();
        assert!(
            pdf.starts_with(b"%PDF-") && pdf.len() > 10_000,
            "{} bytes",
            pdf.len()
        );
        std::fs::write(
            concat!(env!("CARGO_MANIFEST_DIR"), "/target/browser/printed.pdf"),
            pdf,
        )
        .unwrap();
    }
}

fn must_be_readable(page: &Page, name: &str, view: View) {
    let mut sheet = Sheet::open(&page.file, view);
    sheet.whole_picture(name);
    let faint = contrast::too_faint(&mut sheet);
    assert!(
        faint.is_empty(),
        "{name}: {} too faint:\n{}",
        faint.len(),
        faint.join("\n")
    );
}

#[test]
fn every_text_stands_out_from_what_is_behind_it_by_day_and_by_night() {
    if !driver::is_there() {
        return;
    }
    let page = page_of(&example());
    must_be_readable(&page, "light", View::DESK);
    let dark = View {
        dark: true,
        ..View::DESK
    };
    must_be_readable(&page, "dark", dark);
    let background = Sheet::open(&page.file, dark).text("getComputedStyle(document.body).backgroundColor");
    assert_ne!(background, "rgb(255, 255, 255)", "dark is dark");
}
