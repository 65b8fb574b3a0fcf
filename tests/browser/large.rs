//! The page of a large fabric: still a page, and nobody who fails is lost on it.
//!
//! `RAILGAUGE_PAGE_OF=2048x8 cargo test --release --test browser large -- --nocapture` says how long the largest takes to open.

use std::process::Command;

use record::Recorded;
use serde_json::json;

use crate::driver;
use crate::pages::page_of;
use crate::sheet::{Sheet, View};

/// What `simulate` records of a fabric of this shape with so many slow links.
fn simulated(shape: &str, faults: u32) -> Recorded {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    let ended = Command::new(env!("CARGO_BIN_EXE_railgauge"))
        .args([
            "simulate",
            shape,
            "--faults",
            &faults.to_string(),
            "--quiet",
            "--out",
        ])
        .arg(&out)
        .output()
        .unwrap();
    assert_eq!(
        ended.status.code(),
        Some(12),
        "{}",
        String::from_utf8_lossy(&ended.stderr)
    );
    Recorded::read(&out).unwrap()
}

#[test]
fn every_part_that_fails_in_a_large_fabric_is_on_its_page() {
    if !driver::is_there() {
        return;
    }
    let shape = std::env::var("RAILGAUGE_PAGE_OF").unwrap_or_else(|_| "64x4".to_string());
    let page = page_of(&simulated(&shape, 5));
    let parts: Vec<String> = page
        .judgement
        .findings
        .iter()
        .map(|finding| finding.part())
        .collect();
    assert!(parts.len() >= 4, "{parts:?}");
    let mut sheet = Sheet::open(&page.file, View::DESK);
    let text = sheet.text("document.body.textContent");
    for part in &parts {
        assert!(text.contains(part.as_str()), "{part} is not on the page");
    }
    let first = sheet.text("document.querySelector('#worst').innerText");
    assert!(first.contains(&parts[0]), "{first}");
    assert_eq!(sheet.complaints(), [""; 0]);
    let took = sheet.evaluate("Math.round(performance.getEntriesByType('navigation')[0].loadEventEnd)");
    let bytes = std::fs::metadata(&page.file).unwrap().len();
    println!("{shape}: {bytes} bytes, open after {took} ms");
    sheet.whole_picture("large");

    let mut phone = Sheet::open(&page.file, View::PHONE);
    phone.unfold();
    let width = phone.evaluate("[document.documentElement.scrollWidth, innerWidth]");
    assert_eq!(width, json!([360, 360]));
}
