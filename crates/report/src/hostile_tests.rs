//! Names, versions and serials come from other machines: whatever is in them, nothing that is written obeys it.
//!
//! Every free text of a run, its events, its inventory and its judgement is made hostile, one attack at a time, and everything
//! that is written from it is looked at: files, terminal, tables, and the commands that a reader is told to paste.

use std::collections::HashMap;
use std::path::Path;
use std::process::Command;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::html::parser_tests;
use super::terminal::{self, Page};
use super::{ON_REQUEST, WRITERS, escape, inventory, metrics};
use judge::findings::fixture::{Fixture, HEALTHY, spec};
use judge::findings::{drift, judge};
use record::{
    Cable, Cell, CounterDelta, CounterState, Event, Fact, Inventory, InventoryPart, Judgement, NodeInventory,
    PartAt, PartClass, Readings, Recorded, files,
};

/// Each does something somewhere, where it is obeyed.
pub(super) fn attacks() -> Vec<String> {
    let mut attacks: Vec<String> = [
        "<img src=x onerror=alert(1)><script>alert(1)</script></text></svg>",
        "'; touch PWNED; echo \"$(touch PWNED)`touch PWNED`\" && touch PWNED #",
        "\u{1b}[2J\u{1b}]8;;http://evil.example/\u{7}click\u{1b}]8;;\u{7}\u{9b}31m",
        "\nrailgauge: PASS\r\n# EVIL\n| EVIL | EVIL |\n",
        "\u{202e}gpj.exe\u{2066}\u{200b}\u{feff}\u{e0041}",
        "| EVIL | `EVIL` ``` [EVIL](http://evil.example) ![EVIL](x) **EVIL** ~~~ $EVIL$ <!-- EVIL --> @evil",
        "\0\u{1}\u{7f}\u{85}\u{2028}\u{2029}",
        "\\u{1b}[2J \\' \\\" %s %n {} {0} ${EVIL} &lt; &#60;",
        "-- --out=/etc/passwd",
        "]]>--><![CDATA[EVIL]]><!ENTITY EVIL SYSTEM \"file:///etc/passwd\">&EVIL; [[ATTACHMENT|/etc/passwd]]",
        "\",suite=\"EVIL\"} 1\nEVIL{suite=\"EVIL\"} 1 # {} 1\n# EOF\n",
        "\",=HYPERLINK(\"http://evil.example\";\"EVIL\"),@EVIL;=EVIL\t+EVIL",
        "\u{fffe}\u{ffff}\u{fdd0}\u{10ffff}\u{d7ff}\u{e000}",
    ]
    .map(String::from)
    .to_vec();
    attacks.push("x".repeat(5000));
    attacks
}

/// The same with an attack behind every text that may be anything; texts that mean something, such as addresses and kinds, stay.
pub(super) fn poisoned<T: Serialize + DeserializeOwned>(value: &T, attack: &str) -> T {
    let mut json = serde_json::to_value(value).unwrap();
    let mut places = Vec::new();
    find_texts(&json, String::new(), &mut places);
    let mut is_free: HashMap<String, bool> = HashMap::new();
    for place in places {
        let is_index = |word: &&str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
        let shape: Vec<&str> = place
            .split('/')
            .map(|word| if is_index(&word) { "*" } else { word })
            .collect();
        let shape = shape.join("/");
        let Some(Value::String(text)) = json.pointer(&place).cloned() else {
            continue;
        };
        let hostile = Value::String(format!("{text}{attack}"));
        *json.pointer_mut(&place).unwrap() = hostile;
        let may = *is_free
            .entry(shape)
            .or_insert_with(|| serde_json::from_value::<T>(json.clone()).is_ok());
        if !may {
            *json.pointer_mut(&place).unwrap() = Value::String(text);
        }
    }
    serde_json::from_value(json).unwrap()
}

fn find_texts(value: &Value, place: String, places: &mut Vec<String>) {
    match value {
        Value::String(_) => places.push(place),
        Value::Array(list) => {
            let entries = list.iter().enumerate();
            entries.for_each(|(index, value)| find_texts(value, format!("{place}/{index}"), places));
        }
        Value::Object(fields) => fields.iter().for_each(|(key, value)| {
            let key = key.replace('~', "~0").replace('/', "~1");
            find_texts(value, format!("{place}/{key}"), places);
        }),
        _ => {}
    }
}

/// What a cluster is made of, one NIC with another firmware than the rest, one fact that nobody could read.
fn inventory(attack: &str, firmware: &str) -> Inventory {
    let value = |text: &str| Fact::Value(text.to_string());
    let node = |number: u32| {
        let odd = if number == 0 { firmware } else { "28.43.2026" };
        let nic = InventoryPart::new(PartClass::Nic, "mlx5_0")
            .with("board", value("MT_0000000838"))
            .with("type", value("MT4129"))
            .with("firmware", value(odd))
            .with(attack, value(odd))
            .with(
                "driver",
                Fact::Unreadable {
                    why: "denied".to_string(),
                    needs: Some("root".to_string()),
                },
            );
        NodeInventory {
            node: format!("node{number:02}"),
            parts: vec![
                InventoryPart::new(PartClass::Host, format!("node{number:02}")),
                nic,
            ],
        }
    };
    let end = |node: &str, part: &str| PartAt {
        node: node.to_string(),
        part: part.to_string(),
    };
    let switch = |name: &str, firmware: &str| NodeInventory {
        node: name.to_string(),
        parts: vec![
            InventoryPart::new(PartClass::Switch, name)
                .with("tier", value("leaf"))
                .with("type", value("MQM9700"))
                .with("firmware", value(firmware)),
        ],
    };
    let inventory = Inventory {
        nodes: (0..4).map(node).collect(),
        switches: vec![switch("leaf0", "1"), switch("leaf1", "1"), switch("leaf2", "2")],
        cables: vec![Cable {
            name: "c0".to_string(),
            ends: [end("node00", "mlx5_0/1"), end("leaf0", "p1")],
            facts: [("serial".to_string(), value("MT1"))].into(),
        }],
        troubles: vec!["leaf9: no answer".to_string()],
        ..Inventory::default()
    };
    poisoned(&inventory, attack)
}

/// Runs with as many kinds of findings as fixtures can make.
pub(super) fn runs() -> Vec<Recorded> {
    let slow_rail = |cell: &Cell, _| {
        if cell.rails[0] == "rail1" {
            0.6 * HEALTHY
        } else {
            HEALTHY
        }
    };
    let slow_pair = |cell: &Cell, _| {
        if cell.ranks.contains(&1) {
            0.5 * HEALTHY
        } else {
            HEALTHY
        }
    };
    let references = vec![spec(HEALTHY, 1 << 10)];
    vec![
        Fixture::rails(3).speed(slow_rail).recorded(),
        Fixture::rails(2)
            .references(references)
            .speed(|_, _| 0.4 * HEALTHY)
            .recorded(),
        Fixture::pairs(4).speed(slow_pair).recorded(),
        Fixture::incast().recorded(),
        Fixture::sweep(2).recorded(),
    ]
}

/// The run with hostile names, judged.
pub(super) fn hostile(recorded: &Recorded, attack: &str) -> (Recorded, Judgement) {
    let mut recorded = recorded.clone();
    recorded.run.command = ["railgauge", "run", "smoke", "--quiet"]
        .map(String::from)
        .to_vec();
    let rail = recorded.run.cells[0].rails[0].clone();
    for (name, state) in [
        ("symbol_error", CounterState::Present),
        ("link_downed", CounterState::Unreadable("no".to_string())),
    ] {
        recorded.events.push(Event::Counter(CounterDelta {
            cell: recorded.run.cells[0].id,
            round: 0,
            rank: 0,
            rail: rail.clone(),
            name: name.to_string(),
            before: Some(0),
            after: Some(4112),
            ns: None,
            bits: None,
            state,
        }));
    }
    recorded.run = poisoned(&recorded.run, attack);
    recorded.events = poisoned(&recorded.events, attack);
    recorded.inventory = Some(inventory(attack, "28.39.1002"));
    recorded.inventory_before = Some(inventory(attack, "28.38.1000"));
    recorded.history = Some(poisoned(&super::history_tests::nights(), attack));
    let judgement = judge(&recorded);
    (recorded, judgement)
}

fn is_live(c: char) -> bool {
    (c.is_control() && c != '\n')
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
}

/// No control character, no mark that reorders, and no line that another machine began.
pub(super) fn check_lines(what: &str, text: &str) {
    let live = text.chars().find(|c| is_live(*c));
    assert_eq!(live, None, "{what}");
    for line in text.lines() {
        let words = ["railgauge: PASS", "# EVIL", "| EVIL"];
        assert!(!words.iter().any(|word| line.starts_with(word)), "{what}: {line}");
    }
}

/// Nothing in it is markup that somebody else wrote, and every row of a table has the columns of its head.
pub(super) fn check_markdown(what: &str, text: &str) {
    check_lines(what, text);
    let mut fence: Option<String> = None;
    let mut columns: Option<usize> = None;
    for line in text.lines() {
        let ticks = line.chars().take_while(|c| *c == '`').count();
        match &fence {
            Some(open) if line == open => fence = None,
            None if ticks >= 3 => {
                assert_eq!(ticks, line.len(), "a fence and nothing else: {line}");
                fence = Some(line.to_string());
            }
            _ => {}
        }
        if fence.is_some() {
            continue;
        }
        for live in [
            "<img",
            "<script",
            "<!--",
            "[EVIL]",
            "http://evil",
            "**EVIL",
            "`EVIL`",
            "~~~",
            "@evil",
        ] {
            assert!(!line.contains(live), "{live}: {line}");
        }
        let pipes = unescaped_pipes(line);
        match columns {
            _ if !line.starts_with('|') => columns = None,
            None => columns = Some(pipes),
            Some(columns) => assert_eq!(pipes, columns, "{line}"),
        }
    }
    assert_eq!(fence, None, "a fence stays open");
}

fn unescaped_pipes(line: &str) -> usize {
    let mut escaped = false;
    let mut pipes = 0;
    for c in line.chars() {
        pipes += usize::from(c == '|' && !escaped);
        escaped = c == '\\' && !escaped;
    }
    pipes
}

/// Only our own elements, and no text that ends one.
fn check_svg(what: &str, text: &str) {
    check_lines(what, text);
    let known = [
        "svg", "rect", "text", "polyline", "circle", "line", "path", "polygon", "g", "title",
    ];
    for piece in text.split('<').skip(1) {
        let name = piece
            .trim_start_matches('/')
            .split([' ', '>', '/', '\n'])
            .next()
            .unwrap_or_default();
        assert!(
            known.contains(&name) || piece.starts_with("?xml"),
            "{what}: <{piece}"
        );
        let after = piece.split_once('>').map_or("", |(_, after)| after);
        for entity in after.split('&').skip(1) {
            assert!(entity.contains(';'), "{what}: &{entity}");
        }
    }
    assert_eq!(text.matches("</svg>").count(), 1, "{what}");
}

/// A reader of XML takes it, finds our elements only, and nothing but text in them.
fn check_xml(what: &str, text: &str) {
    check_lines(what, text);
    let document = roxmltree::Document::parse(text).unwrap_or_else(|error| panic!("{what}: {error}"));
    let known = [
        "testsuites",
        "testsuite",
        "properties",
        "property",
        "testcase",
        "failure",
        "error",
        "skipped",
    ];
    for node in document.descendants() {
        assert!(!node.is_comment() && !node.is_pi(), "{what}");
        if node.is_element() {
            assert!(known.contains(&node.tag_name().name()), "{what}: {node:?}");
            let names = node.attributes().map(|attribute| attribute.name());
            assert!(
                names
                    .clone()
                    .all(|name| name.bytes().all(|byte| byte.is_ascii_lowercase()))
            );
        }
    }
}

/// Every line is a series of ours, with our labels and no others.
fn check_metrics(what: &str, text: &str) {
    check_lines(what, text);
    let series = metrics::parser_tests::read(text).unwrap_or_else(|why| panic!("{what}: {why}"));
    let suites: std::collections::BTreeSet<&String> = series.iter().map(|one| &one.labels["suite"]).collect();
    assert_eq!(suites.len(), 1, "{what}: {suites:?}");
    for one in &series {
        assert!(one.name.starts_with("railgauge_"), "{what}: {one:?}");
        let longest = one.labels.values().map(|value| value.chars().count()).max();
        assert!(longest < Some(2000), "{what}: a label without an end");
    }
}

/// Rows of one length, and no field in which a spreadsheet sees a formula, whatever it separates fields by.
fn check_csv(what: &str, text: &str, rows: usize) {
    check_lines(what, &text.replace("\r\n", "\n"));
    let mut reader = ::csv::Reader::from_reader(text.as_bytes());
    let columns = reader.headers().unwrap().len();
    let records: Vec<::csv::StringRecord> = reader.records().map(Result::unwrap).collect();
    assert_eq!(records.len(), rows, "{what}");
    let begins_formula = |field: &str| {
        field
            .trim_start_matches([' ', '"'])
            .starts_with(['=', '+', '-', '@'])
    };
    for record in &records {
        assert_eq!(record.len(), columns, "{what}");
        for field in record.iter().flat_map(|field| field.split([',', ';', '|', '\t'])) {
            assert!(!begins_formula(field), "{what}: {field}");
        }
    }
}

/// Only our own elements with our own attributes, every one of them closed; links lead nowhere but within the page.
fn check_page(text: &str) {
    check_lines("report.html", text);
    let elements = parser_tests::elements(text);
    assert!(elements.len() > 100);
    for element in elements {
        for (name, value) in &element.attributes {
            assert!(
                !name.starts_with("on") && name != "src" && !value.contains('<'),
                "{element:?}"
            );
            assert!(name != "href" || value.starts_with('#'), "{element:?}");
        }
    }
    assert_eq!(text.matches("<script").count(), 1);
}

/// Pasted into a shell, it is words and nothing else.
pub(super) fn check_command(command: &str) {
    assert!(!command.contains(is_live), "{command:?}");
    let folder = tempfile::tempdir().unwrap();
    let arguments = command
        .strip_prefix("railgauge ")
        .unwrap_or_else(|| panic!("{command}"));
    for shell in ["sh", "bash"] {
        let line = format!("printf '%s\\n' {arguments}");
        let output = Command::new(shell)
            .args(["-c", &line])
            .current_dir(folder.path())
            .output();
        let output = output.unwrap();
        assert!(output.status.success(), "{shell}: {command}: {output:?}");
        let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
        assert!(left.is_empty(), "{shell} ran something: {command}");
    }
}

/// Everything that is written of a judged run. A format that is added must say here what makes it inert.
fn check_all(recorded: &Recorded, judgement: &Judgement) {
    let writers = WRITERS.iter().chain(ON_REQUEST);
    for writer in writers.filter(|writer| writer.is_wanted(judgement)) {
        let text = writer.render(recorded, judgement).unwrap();
        match writer.file() {
            markdown if markdown.ends_with(".md") => check_markdown(markdown, &text),
            files::JUNIT => check_xml(files::JUNIT, &text),
            files::METRICS => check_metrics(files::METRICS, &text),
            files::CSV => check_csv(files::CSV, &text, judgement.cells.len()),
            files::HTML => check_page(&text),
            files::FINDINGS => {
                check_lines(writer.file(), &text);
                assert_eq!(&serde_json::from_str::<Judgement>(&text).unwrap(), judgement);
            }
            files::READINGS => {
                check_lines(writer.file(), &text);
                serde_json::from_str::<Readings>(&text).unwrap();
            }
            svg if svg.ends_with(".svg") => check_svg(svg, &text),
            other => panic!("nothing says what makes {other} inert"),
        }
        if writer.file() == files::SUMMARY {
            assert!(text.len() < 1 << 20, "{} bytes for a pipeline's page", text.len());
        }
    }
    let folder = Path::new("reports/x\u{1b}[2J\u{202e}");
    for page in [Page::log(), Page::terminal(false)] {
        let summary = terminal::summary_with_history(judgement, recorded.history.as_ref(), folder, page);
        check_lines("summary", &summary);
    }
}

#[test]
fn no_name_of_a_host_rail_or_test_is_obeyed_anywhere() {
    let runs = runs();
    let mut kinds = std::collections::BTreeSet::new();
    let mut commands = 0;
    for attack in attacks() {
        for run in &runs {
            let (recorded, judgement) = hostile(run, &attack);
            kinds.extend(judgement.findings.iter().map(|finding| finding.kind.to_string()));
            check_all(&recorded, &judgement);
            // Whoever reads such a folder elsewhere trusts no text of it either.
            check_all(&recorded, &poisoned(&judgement, &attack));
            for repeat in judgement
                .findings
                .iter()
                .filter_map(|finding| finding.repeat.as_ref())
            {
                check_command(repeat);
                commands += 1;
            }
        }
    }
    assert!(
        kinds.len() >= 4 && commands >= 30,
        "{kinds:?}, {commands} commands"
    );
    assert!(kinds.contains("drift") && kinds.contains("changed"), "{kinds:?}");
}

#[test]
fn no_firmware_serial_or_node_is_obeyed_in_the_tables_of_an_inventory() {
    for attack in attacks() {
        let (now, before) = (inventory(&attack, "28.39.1002"), inventory(&attack, "28.38.1000"));
        let drift = drift::judge(&now, None, Some(&before));
        let findings = drift::findings(&drift);
        assert!(findings.len() >= 2, "{findings:?}");
        let verdict = inventory::terminal::verdict(&now, &drift, &findings);
        check_lines("verdict", &verdict);
        for all in [false, true] {
            let tables = inventory::terminal::tables(&now, all);
            check_lines("tables", &tables);
            let is_note = |line: &&str| line.starts_with("? ") || line.starts_with("not read: ");
            let rows = tables.lines().filter(|line| !is_note(line));
            let endless: Vec<String> = rows
                .filter(|line| line.chars().count() > 1000)
                .map(|line| line.chars().take(60).collect())
                .collect();
            assert!(
                all || endless.is_empty(),
                "a name without an end makes no table: {endless:?}"
            );
        }
        let text = escape::json(&serde_json::to_string_pretty(&now).unwrap());
        check_lines("inventory.json", &text);
        assert_eq!(serde_json::from_str::<Inventory>(&text).unwrap(), now);
    }
}

#[test]
fn no_error_puts_words_into_our_mouth() {
    for attack in attacks() {
        let said = format!(
            "railgauge: {}",
            escape::block(&format!("no answer from h1{attack}"))
        );
        check_lines("error", &said.replacen("railgauge: ", "", 1));
        assert!(
            said.lines()
                .skip(1)
                .all(|line| line.is_empty() || line.starts_with(' ')),
            "{said}"
        );
    }
}
