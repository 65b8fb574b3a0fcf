//! The checks themselves are checked: what they must catch, and what they must overlook.

use super::*;

fn source(path: &str, text: &str) -> Source {
    Source {
        path: PathBuf::from(path),
        text: text.to_string(),
    }
}

/// Uses found in one made-up file, as `from -> to`.
fn found(path: &str, text: &str) -> Vec<String> {
    let modules = ["stats", "report", "units", "record", "plan"]
        .map(str::to_string)
        .into();
    let edges = edges(&[source(path, text)], &modules);
    edges
        .iter()
        .map(|edge| format!("{} -> {}", edge.from, edge.to))
        .collect()
}

#[test]
fn catches_a_forbidden_use_however_it_is_written() {
    let ways = [
        ("stats/median.rs", "use crate::report::json;\n"),
        (
            "stats/median.rs",
            "fn f() {\n    crate::report::json::write();\n}\n",
        ),
        ("stats/median.rs", "use crate::{report, stats};\n"),
        (
            "stats/median.rs",
            "use crate::{\n    stats::{a, b},\n    report::json,\n};\n",
        ),
        ("stats/median.rs", "use super::super::report;\n"),
        ("stats/mod.rs", "use super::report::json;\n"),
        ("stats.rs", "use super::report::json;\n"),
        ("stats/deep/inner.rs", "use super::super::super::report;\n"),
        ("stats/median.rs", "pub(crate) use crate::report as r;\n"),
    ];
    for (path, text) in ways {
        assert_eq!(found(path, text), ["stats -> report"], "{path}: {text}");
    }
}

#[test]
fn names_the_line() {
    let modules = ["stats", "report"].map(str::to_string).into();
    let text = "//! use crate::report;\n\nuse crate::report;\n";
    let edges = edges(&[source("stats/a.rs", text)], &modules);
    assert_eq!(edges.iter().map(|edge| edge.line).collect::<Vec<_>>(), [3]);
}

#[test]
fn overlooks_comments_strings_tests_and_neighbours() {
    let fine = [
        "// use crate::report;\n/* crate::report::x */\n",
        "const S: &str = \"crate::report::x\";\nconst R: &str = r#\"crate::report \" \"#;\n",
        "use super::quantile;\nuse super::report;\n",
        "use other_crate::report;\n",
        "#[cfg(test)]\nmod tests {\n    use crate::report;\n    fn f() {\n    }\n}\n",
        "#[cfg(test)]\nuse crate::report;\n",
        "#[cfg(test)]\nuse crate::{\n    report,\n    units,\n};\n",
        "fn f<'a>(x: &'a str) -> char {\n    '\"'\n}\n// crate::report\n",
    ];
    for text in fine {
        assert_eq!(found("stats/median.rs", text), [""; 0], "{text}");
    }
    let after = "#[cfg(test)]\nuse crate::{\n    units,\n};\n#[cfg(test)]\nmod tests {\n    use crate::units;\n}\nuse crate::report;\n";
    assert_eq!(
        found("stats/median.rs", after),
        ["stats -> report"],
        "what follows tests counts"
    );
}

#[test]
fn overlooks_files_that_are_test_modules() {
    let modules = ["stats", "report"].map(str::to_string).into();
    let sources = [
        source("stats/mod.rs", "#[cfg(test)]\nmod proofs;\nmod median;\n"),
        source("stats/proofs.rs", "use crate::report;\n"),
        source("stats/median.rs", "use crate::report;\n"),
    ];
    let found = edges(&sources, &modules);
    let files: Vec<_> = found.iter().map(|edge| edge.file.display().to_string()).collect();
    assert_eq!(files, ["stats/median.rs"]);
}

#[test]
fn only_edges_of_the_table_are_allowed() {
    let edge = |from: &str, to: &str| Edge {
        from: from.into(),
        to: to.into(),
        file: PathBuf::new(),
        line: 1,
    };
    let (_, engine) = CRATES[0];
    assert!(edge("collective", "transport").is_allowed(engine));
    assert!(edge("transport", "transport").is_allowed(engine));
    for (from, to) in [
        ("transport", "collective"),
        ("launch", "device"),
        ("device", "measure"),
    ] {
        assert!(!edge(from, to).is_allowed(engine), "{from} -> {to}");
    }
}

#[test]
fn catches_unsafe_outside_its_fences() {
    let sources = [
        source(
            "crates/plan/src/lib.rs",
            "// unsafe is fine in words\nfn f() {\n    unsafe { g() }\n}\n",
        ),
        source("crates/plan/src/a.rs", "#![allow(unsafe_code)]\n"),
        source("lib.rs", "#![deny(unsafe_code)]\n"),
        source(
            "crates/engine/src/transport/verbs/x.rs",
            "unsafe impl Sync for X {}\n",
        ),
        source("crates/engine/src/device/cuda/mod.rs", "unsafe fn f() {}\n"),
    ];
    assert_eq!(
        unfenced(&sources),
        ["crates/plan/src/lib.rs:3", "crates/plan/src/a.rs:1"]
    );
}
