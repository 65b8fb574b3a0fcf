//! What the page's small script does, and that it does nothing else.

use serde_json::{Value, json};

use crate::driver;
use crate::pages::{example, page_of};
use crate::sheet::{Sheet, View};

/// Rows of tables that are shown.
fn shown(sheet: &mut Sheet) -> Vec<String> {
    let rows = sheet.evaluate(
        "[...document.querySelectorAll('#cells tbody tr')].filter(row => row.checkVisibility()).map(row => row.innerText)",
    );
    let rows: Vec<Value> = rows.as_array().unwrap().clone();
    rows.iter().map(|row| row.as_str().unwrap().to_string()).collect()
}

fn unfolded(view: View) -> (crate::pages::Page, Sheet) {
    let page = page_of(&example());
    let mut sheet = Sheet::open(&page.file, view);
    sheet.unfold();
    // All tables sort alike; the longest one of cells is tried.
    sheet.evaluate(
        "(() => { const tables = [...document.querySelectorAll('#cells table')]; \
           tables.sort((a, b) => b.rows.length - a.rows.length)[0].id = 'tried'; })()",
    );
    (page, sheet)
}

#[test]
fn the_filter_leaves_what_was_asked_for_says_how_many_and_gives_everything_back() {
    if !driver::is_there() {
        return;
    }
    let (_page, mut sheet) = unfolded(View::DESK);
    let all = shown(&mut sheet);
    let said = sheet.text("document.querySelector('#filtered').textContent");
    sheet.type_into("#filter", "rail1");
    let some = shown(&mut sheet);
    assert!(
        !some.is_empty() && some.len() < all.len(),
        "{} of {}",
        some.len(),
        all.len()
    );
    for row in &some {
        assert!(row.to_lowercase().contains("rail1"), "{row}");
    }
    let told = sheet.text("document.querySelector('#filtered').textContent");
    assert_ne!(told, said);
    assert!(told.chars().any(|letter| letter.is_ascii_digit()), "{told}");
    sheet.picture("filtered");
    sheet.type_into("#filter", "nothing has this name");
    assert_eq!(shown(&mut sheet).len(), 0);
    let empty = "(() => { const field = document.querySelector('#filter'); field.value = ''; \
                 field.dispatchEvent(new Event('input', {bubbles: true})); })()";
    sheet.evaluate(empty);
    assert_eq!(shown(&mut sheet), all);
    assert_eq!(sheet.complaints(), [""; 0]);
}

/// The texts of one column of the table of cells.
fn column(sheet: &mut Sheet, at: usize) -> Vec<String> {
    let cells = sheet.evaluate(&format!(
        "[...document.querySelectorAll('#tried tbody tr')].map(row => row.children[{at}].innerText)"
    ));
    let cells = cells.as_array().unwrap().clone();
    cells
        .iter()
        .map(|cell| cell.as_str().unwrap().to_string())
        .collect()
}

#[test]
fn a_click_on_a_head_sorts_and_another_turns_it_round() {
    if !driver::is_there() {
        return;
    }
    let (_page, mut sheet) = unfolded(View::DESK);
    let heads = sheet.evaluate("document.querySelectorAll('#tried thead th').length");
    let heads = heads.as_u64().unwrap() as usize;
    assert!(heads > 3);
    let mut changed = 0;
    for at in 0..heads {
        let before = column(&mut sheet, at);
        let head = format!("#tried thead th:nth-child({}) button", at + 1);
        sheet.click(&head);
        let once = column(&mut sheet, at);
        let order = sheet.text(&format!(
            "document.querySelectorAll('#tried thead th')[{at}].getAttribute('aria-sort')"
        ));
        assert!(
            ["ascending", "descending"].contains(&order.as_str()),
            "column {at}: {order}"
        );
        sheet.click(&head);
        let twice = column(&mut sheet, at);
        let mut sorted = [before.clone(), once.clone(), twice.clone()];
        sorted.iter_mut().for_each(|column| column.sort());
        assert!(sorted[0] == sorted[1] && sorted[1] == sorted[2], "rows are lost");
        let distinct = sorted[0].first() != sorted[0].last();
        if distinct {
            assert_ne!(once, twice, "column {at}");
            assert_ne!(once.first(), twice.first(), "column {at}");
            changed += 1;
        }
    }
    assert!(changed >= 3, "{changed} columns sort");
    assert_eq!(sheet.complaints(), [""; 0]);
}

#[test]
fn numbers_sort_as_numbers() {
    if !driver::is_there() {
        return;
    }
    let (_page, mut sheet) = unfolded(View::DESK);
    let at = sheet.evaluate(
        "[...document.querySelectorAll('#tried thead th')].findIndex(head => head.innerText.trim().toLowerCase() === 'cell')",
    );
    let at = usize::try_from(at.as_i64().unwrap()).expect("a column of cell numbers");
    let head = format!("#tried thead th:nth-child({}) button", at + 1);
    sheet.click(&head);
    let mut numbers: Vec<u32> = column(&mut sheet, at)
        .iter()
        .map(|text| text.trim().parse().unwrap())
        .collect();
    if numbers.first() > numbers.last() {
        numbers.reverse();
    }
    assert!(numbers.is_sorted(), "{numbers:?}");
    assert!(numbers.len() > 10);
}

#[test]
fn the_page_asks_nobody_for_anything_and_complains_of_nothing() {
    if !driver::is_there() {
        return;
    }
    for (scripts, dark) in [(true, false), (true, true), (false, false)] {
        let view = View {
            scripts,
            dark,
            ..View::DESK
        };
        let (_page, mut sheet) = unfolded(view);
        sheet.evaluate("scrollTo(0, document.body.scrollHeight)");
        assert_eq!(sheet.requests(), [""; 0]);
        assert_eq!(sheet.complaints(), [""; 0]);
    }
}

#[test]
fn headings_pictures_tables_and_ids_are_what_a_screen_reader_needs() {
    if !driver::is_there() {
        return;
    }
    let (_page, mut sheet) = unfolded(View::DESK);
    let faults = sheet.evaluate(
        "(() => { const faults = []; \
           if (!document.documentElement.lang) faults.push('no language'); \
           if (!document.title.trim()) faults.push('no title'); \
           if (document.querySelectorAll('h1').length !== 1) faults.push('not one h1'); \
           const ids = [...document.querySelectorAll('[id]')].map(found => found.id); \
           ids.filter((id, at) => ids.indexOf(id) !== at).forEach(id => faults.push('twice: ' + id)); \
           document.querySelectorAll('main svg').forEach(svg => { \
             if (svg.closest('[aria-hidden=true]')) return; \
             const named = svg.getAttribute('aria-label') || svg.getAttribute('aria-labelledby') || svg.querySelector('title') || svg.closest('[role=img][aria-label], figure'); \
             if (!named) faults.push('a drawing without words: ' + svg.outerHTML.slice(0, 80)); }); \
           document.querySelectorAll('table').forEach(table => { if (!table.querySelector('th')) faults.push('a table without heads'); }); \
           document.querySelectorAll('a[href^=\"#\"]').forEach(link => { \
             const id = decodeURIComponent(link.getAttribute('href').slice(1)); \
             if (id && !document.getElementById(id)) faults.push('leads nowhere: ' + id); }); \
           document.querySelectorAll('input').forEach(field => { if (!field.labels.length && !field.getAttribute('aria-label')) faults.push('a field without label'); }); \
           return faults; })()",
    );
    assert_eq!(faults, json!([]));
}
