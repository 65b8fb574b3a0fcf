//! Pages that misbehave on purpose: were the driver blind, all other tests here would be worth nothing.

use std::path::PathBuf;

use crate::contrast;
use crate::driver;
use crate::sheet::{Sheet, View};

fn written(folder: &tempfile::TempDir, body: &str) -> PathBuf {
    let file = folder.path().join("page.html");
    let page = format!("<!doctype html><html lang=en><meta charset=utf-8><title>calm</title><body>{body}");
    std::fs::write(&file, page).unwrap();
    file
}

#[test]
fn a_page_that_misbehaves_is_noticed() {
    if !driver::is_there() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let bad = written(
        &folder,
        "<img src='http://192.0.2.1/spy.png' width=2000 height=10><img src=x onerror='window.pwned = 1'>\
         <script>console.error('woe'); undefined_name();</script>\
         <p style='color: #777; background: #666'>grey on grey</p>",
    );
    let mut sheet = Sheet::open(&bad, View::PHONE);
    let requests = sheet.requests();
    assert!(
        requests.iter().any(|url| url.contains("192.0.2.1")),
        "{requests:?}"
    );
    let complaints = sheet.complaints().join("\n");
    assert!(
        complaints.contains("woe") && complaints.contains("undefined_name"),
        "{complaints}"
    );
    assert_eq!(sheet.evaluate("window.pwned"), 1);
    assert!(sheet.evaluate("document.documentElement.scrollWidth").as_f64() > Some(1000.0));
    let faint = contrast::too_faint(&mut sheet);
    assert!(
        faint.iter().any(|text| text.contains("grey on grey")),
        "{faint:?}"
    );
}

#[test]
fn a_page_without_faults_is_not_accused_and_its_scripts_can_be_turned_off() {
    if !driver::is_there() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let good = written(
        &folder,
        "<p id=said>words</p><script>document.getElementById('said').textContent = 'script'</script>",
    );
    let mut sheet = Sheet::open(&good, View::DESK);
    assert_eq!(sheet.text("document.getElementById('said').innerText"), "script");
    assert_eq!(sheet.requests(), [""; 0]);
    assert_eq!(sheet.complaints(), [""; 0]);
    assert_eq!(contrast::too_faint(&mut sheet), [""; 0]);
    assert!(sheet.pdf().starts_with(b"%PDF-"));
    let off = View {
        scripts: false,
        ..View::DESK
    };
    let mut sheet = Sheet::open(&good, off);
    assert_eq!(sheet.text("document.getElementById('said').innerText"), "words");
}
