//! A run whose every name tries to be more than a name.

use record::{Event, Recorded, Untested};

use crate::driver;
use crate::pages::{example, page_of};
use crate::sheet::{Sheet, View};

/// Names that would run, fetch, leave their attribute or reorder what is around them.
const NAMES: [&str; 6] = [
    "<script>window.pwned = 1; alert(1)</script>",
    "\"><img src=http://192.0.2.1/x onerror=\"window.pwned = 1\">",
    "'-alert(1)-' onmouseover='window.pwned=1' x='",
    "</title></style></textarea></script></svg><svg onload=window.pwned=1>",
    "javascript:window.pwned=1//<a href=javascript:alert(1)>x</a>",
    "\u{202e}evil\u{1b}[2J\0<iframe srcdoc='<script>parent.pwned=1</script>'>",
];

/// The example with hostile texts in front of everything that has a name.
fn hostile() -> Recorded {
    let mut recorded = example();
    let mut next = 0;
    let mut worse = |text: &mut String| {
        next += 1;
        *text = format!("{}{text}", NAMES[next % NAMES.len()]);
    };
    let run = &mut recorded.run;
    worse(&mut run.suite);
    worse(&mut run.description);
    run.command.iter_mut().for_each(&mut worse);
    run.tests
        .iter_mut()
        .for_each(|test| test.missing_references.push(NAMES[0].into()));
    run.injected = NAMES.map(String::from).to_vec();
    run.untested = NAMES
        .iter()
        .map(|name| Untested {
            what: name.to_string(),
            why: name.to_string(),
        })
        .collect();
    run.hosts
        .iter_mut()
        .for_each(|host| host.kernel = NAMES[1].into());
    // The same name everywhere it stands, so that what belongs together still does.
    let swap = |name: &mut String| *name = name.replace("rail1-leaf2", NAMES[3]).replace("h5", NAMES[1]);
    run.hosts.iter_mut().for_each(|host| swap(&mut host.name));
    run.ranks.iter_mut().for_each(|rank| swap(&mut rank.host));
    for cell in &mut run.cells {
        cell.path.iter_mut().for_each(swap);
    }
    recorded.events.push(Event::Intruder {
        what: NAMES.join(" "),
    });
    recorded
}

#[test]
fn nothing_that_came_from_a_run_is_ever_executed() {
    if !driver::is_there() {
        return;
    }
    let clean = "document.querySelectorAll('script, style, img, iframe, a[href^=javascript], [onerror], [onload], [onmouseover]').length";
    let wanted = Sheet::open(&page_of(&example()).file, View::DESK).evaluate(clean);
    let page = page_of(&hostile());
    assert!(!page.judgement.findings.is_empty());
    for print in [false, true] {
        let view = View { print, ..View::DESK };
        let mut sheet = Sheet::open(&page.file, view);
        sheet.unfold();
        if !print {
            sheet.type_into("#filter", NAMES[1]);
            sheet.picture("hostile");
        }
        assert_eq!(sheet.evaluate("typeof window.pwned"), "undefined");
        assert_eq!(sheet.evaluate(clean), wanted);
        assert_eq!(sheet.dialogs(), 0);
        assert_eq!(sheet.requests(), [""; 0]);
        assert_eq!(sheet.complaints(), [""; 0]);
        let text = sheet.text("document.body.textContent + document.title");
        assert!(text.contains("<script>window.pwned"), "it is still readable");
        assert!(!text.contains('\u{202e}') && !text.contains('\u{1b}'));
    }
}
