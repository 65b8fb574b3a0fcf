//! Dependencies point one way: a module uses only what the table below lets it use, and `unsafe` stays behind its fences.
//!
//! The table is the one of `docs/architecture.md`. An edge that is not in it is a decision, not a detail: change both, or
//! move the code. Parts that exist for tests only are not looked at.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Which module may use which. All may use [`VOCABULARY`] as well, except those that are named there as bare.
const MAY_USE: &[(&str, &[&str])] = &[
    ("units", &[]),
    ("record", &[]),
    ("stats", &[]),
    ("suite", &[]),
    ("fabric", &[]),
    ("plan", &["suite", "fabric"]),
    ("launch", &[]),
    ("device", &[]),
    ("transport", &["device", "fabric", "launch"]),
    ("collective", &["transport", "device", "launch"]),
    (
        "measure",
        &[
            "plan",
            "launch",
            "collective",
            "transport",
            "device",
            "fabric",
            "stats",
        ],
    ),
    ("findings", &["stats", "suite", "fabric"]),
    ("report", &["findings", "stats"]),
    ("twin", &["plan", "fabric", "stats"]),
    ("lab", &["fabric"]),
    ("cli", &["*"]),
];

/// The words everything is said in.
const VOCABULARY: &[&str] = &["units", "record"];

/// Modules that use less of the vocabulary than others, and what they do use.
const BARE: &[(&str, &[&str])] = &[
    ("units", &[]),
    ("record", &["units"]),
    ("launch", &["units"]),
    ("stats", &[]),
];

/// Where `unsafe` may be written, as the beginning of a path under `src`.
const FENCES: &[&str] = &[
    "device/region.rs",
    "device/cuda",
    "transport/verbs",
    "transport/shm",
];

/// One use of one module by another.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Edge {
    from: String,
    to: String,
    file: PathBuf,
    line: usize,
}

/// A source file below `src`.
struct Source {
    path: PathBuf,
    text: String,
}

impl Edge {
    fn is_allowed(&self) -> bool {
        let in_table = |table: &[(&str, &[&str])]| {
            let row = table.iter().find(|(module, _)| *module == self.from);
            row.map(|(_, may)| may.iter().any(|to| *to == "*" || *to == self.to))
        };
        let vocabulary = in_table(BARE).unwrap_or_else(|| VOCABULARY.contains(&self.to.as_str()));
        self.from == self.to || vocabulary || in_table(MAY_USE) == Some(true)
    }
}

/// All `.rs` files under `folder`, with paths relative to `root`.
fn read(folder: &Path, root: &Path) -> Vec<Source> {
    let mut sources = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources.extend(read(&path, root));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            sources.push(Source {
                text: std::fs::read_to_string(&path).unwrap(),
                path: path.strip_prefix(root).unwrap().to_path_buf(),
            });
        }
    }
    sources.sort_by(|a, b| a.path.cmp(&b.path));
    sources
}

/// The code of `text` with comments, strings and character literals blanked; line breaks stay.
fn code_of(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let starts = |at: usize, word: &str| {
        word.chars()
            .enumerate()
            .all(|(i, c)| chars.get(at + i) == Some(&c))
    };
    let mut code = String::with_capacity(text.len());
    let mut at = 0;
    while at < chars.len() {
        let after_word = at > 0 && (chars[at - 1].is_alphanumeric() || chars[at - 1] == '_');
        let end = if starts(at, "//") {
            (at..chars.len())
                .find(|i| chars[*i] == '\n')
                .unwrap_or(chars.len())
        } else if starts(at, "/*") {
            (at + 2..chars.len())
                .find(|i| starts(*i, "*/"))
                .map_or(chars.len(), |i| i + 2)
        } else if !after_word && (starts(at, "r\"") || starts(at, "r#")) {
            let hashes = chars[at + 1..].iter().take_while(|c| **c == '#').count();
            if chars.get(at + 1 + hashes) == Some(&'"') {
                let closing = format!("\"{}", "#".repeat(hashes));
                let body = at + hashes + 2;
                (body..chars.len())
                    .find(|i| starts(*i, &closing))
                    .map_or(chars.len(), |i| i + 1 + hashes)
            } else {
                at
            }
        } else if chars[at] == '"' {
            closing_quote(&chars, at + 1, '"')
        } else if chars[at] == '\'' && (chars.get(at + 1) == Some(&'\\') || chars.get(at + 2) == Some(&'\''))
        {
            closing_quote(&chars, at + 1, '\'')
        } else {
            at
        };
        if end == at {
            code.push(chars[at]);
            at += 1;
        } else {
            code.extend(chars[at..end].iter().map(|c| if *c == '\n' { '\n' } else { ' ' }));
            at = end;
        }
    }
    code
}

/// The position after the next `quote` that is not escaped.
fn closing_quote(chars: &[char], mut at: usize, quote: char) -> usize {
    while at < chars.len() && chars[at] != quote {
        at += if chars[at] == '\\' { 2 } else { 1 };
    }
    (at + 1).min(chars.len())
}

/// `code` with every item under `#[cfg(test)]` blanked, and the names of the files that hold such modules.
///
/// Formatted source is assumed, which the format check guarantees: a block ends at a brace indented like its beginning.
fn without_tests(code: &str) -> (String, Vec<String>) {
    let mut kept = Vec::new();
    let mut test_files = Vec::new();
    let mut lines = code.lines();
    while let Some(line) = lines.next() {
        kept.push(line);
        if line.trim() != "#[cfg(test)]" {
            continue;
        }
        let indent = &line[..line.len() - line.trim_start().len()];
        let ends = [format!("{indent}}}"), format!("{indent}}};")];
        for (index, line) in lines.by_ref().enumerate() {
            kept.push("");
            let words: Vec<&str> = line.trim().trim_start_matches("pub ").split([' ', ';']).collect();
            if let (0, ["mod", name, ..]) = (index, words.as_slice())
                && line.ends_with(';')
            {
                test_files.push(name.to_string());
            }
            let is_attribute = line.trim_start().starts_with("#[");
            if ends.iter().any(|end| line == end)
                || (line.starts_with(indent) && line.ends_with(';') && !is_attribute && index == 0)
            {
                break;
            }
        }
    }
    (kept.join("\n"), test_files)
}

/// The names after `crate::` in `code`, and after as many `super::` as lead out of the module, with their lines.
fn roots(code: &str, depth: usize) -> Vec<(String, usize)> {
    let supers = "super::".repeat(depth);
    let mut found = Vec::new();
    for prefix in ["crate::", supers.as_str()] {
        for (at, _) in code.match_indices(prefix) {
            let is_longer =
                code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':' || c == '$');
            if is_longer {
                continue;
            }
            let line = code[..at].matches('\n').count() + 1;
            names(&code[at + prefix.len()..])
                .into_iter()
                .for_each(|name| found.push((name, line)));
        }
    }
    found
}

/// The first name of a path, or of every path in a group such as `{a::b, c}`.
fn names(rest: &str) -> Vec<String> {
    let name = |text: &str| -> String {
        text.trim_start()
            .chars()
            .take_while(|c| c.is_alphanumeric() || *c == '_')
            .collect()
    };
    let Some(group) = rest.strip_prefix('{') else {
        return vec![name(rest)];
    };
    let mut names = vec![name(group)];
    let mut depth = 0;
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => names.push(name(&group[at + 1..])),
            _ => {}
        }
    }
    names.retain(|name| !name.is_empty());
    names
}

/// The folder in which the submodules of `path` lie.
fn folder_of_submodules(path: &Path) -> PathBuf {
    match path.file_stem().and_then(|stem| stem.to_str()) {
        Some("mod" | "lib" | "main") => path.parent().map(Path::to_path_buf).unwrap_or_default(),
        _ => path.with_extension(""),
    }
}

/// Every use of one top-level module by another, outside tests. `modules` are the names of the top-level modules.
fn edges(sources: &[Source], modules: &BTreeSet<String>) -> Vec<Edge> {
    let mut test_only = Vec::new();
    let mut code = Vec::new();
    for source in sources {
        let (kept, test_files) = without_tests(&code_of(&source.text));
        let folder = folder_of_submodules(&source.path);
        test_only.extend(test_files.iter().map(|name| folder.join(name)));
        code.push(kept);
    }
    let mut edges = Vec::new();
    for (source, code) in sources.iter().zip(&code) {
        let module = folder_of_submodules(&source.path);
        let Some(from) = module
            .components()
            .next()
            .map(|name| name.as_os_str().to_string_lossy().into_owned())
        else {
            continue; // the crate's root declares, it does not use
        };
        if test_only.iter().any(|test| module.starts_with(test)) {
            continue;
        }
        for (to, line) in roots(code, module.components().count()) {
            if modules.contains(&to) && to != from {
                let file = source.path.clone();
                edges.push(Edge {
                    from: from.clone(),
                    to,
                    file,
                    line,
                });
            }
        }
    }
    edges
}

/// Lines on which `unsafe` is written or allowed outside the fences.
fn unfenced(sources: &[Source]) -> Vec<String> {
    let mut found = Vec::new();
    for source in sources {
        let path = source.path.to_string_lossy();
        if FENCES.iter().any(|fence| path.starts_with(fence)) {
            continue;
        }
        for (number, line) in (1..).zip(code_of(&source.text).lines()) {
            let words: Vec<&str> = line.split(|c: char| !(c.is_alphanumeric() || c == '_')).collect();
            let allows =
                words.contains(&"unsafe_code") && (words.contains(&"allow") || words.contains(&"expect"));
            if words.contains(&"unsafe") || allows {
                found.push(format!("src/{path}:{number}"));
            }
        }
    }
    found
}

fn ours() -> (Vec<Source>, BTreeSet<String>) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let sources = read(&root, &root);
    let modules = sources.iter().filter_map(|source| {
        let module = folder_of_submodules(&source.path);
        module
            .components()
            .next()
            .map(|name| name.as_os_str().to_string_lossy().into_owned())
    });
    let modules = modules.collect();
    (sources, modules)
}

#[test]
fn no_module_uses_what_the_table_does_not_let_it_use() {
    let (sources, modules) = ours();
    let edges = edges(&sources, &modules);
    assert!(
        edges.len() > 50,
        "only {} uses were found: the reader is broken",
        edges.len()
    );
    let forbidden: Vec<String> = edges
        .iter()
        .filter(|edge| !edge.is_allowed())
        .map(|edge| {
            format!(
                "src/{}:{}: {} uses {}",
                edge.file.display(),
                edge.line,
                edge.from,
                edge.to
            )
        })
        .collect();
    assert!(
        forbidden.is_empty(),
        "not in the table:\n{}",
        forbidden.join("\n")
    );
}

#[test]
fn every_module_is_in_the_table() {
    let (_, modules) = ours();
    let known: BTreeSet<String> = MAY_USE.iter().map(|(module, _)| module.to_string()).collect();
    let unknown: Vec<&String> = modules.difference(&known).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}

#[test]
fn the_table_itself_has_no_circle() {
    let may_use = |module: &str| {
        let row = MAY_USE.iter().find(|(name, _)| *name == module);
        row.map_or(&[][..], |(_, may)| may)
            .iter()
            .filter(|to| **to != "*")
    };
    for (start, _) in MAY_USE {
        let mut reached: BTreeSet<&str> = BTreeSet::new();
        let mut next: Vec<&str> = may_use(start).copied().collect();
        while let Some(module) = next.pop() {
            assert_ne!(module, *start, "{start} reaches itself");
            if reached.insert(module) {
                next.extend(may_use(module));
            }
        }
    }
}

#[test]
fn unsafe_stays_behind_its_fences() {
    let (sources, _) = ours();
    let found = unfenced(&sources);
    assert!(found.is_empty(), "unsafe outside {FENCES:?}: {found:?}");
}

mod the_checker {
    use super::*;

    fn source(path: &str, text: &str) -> Source {
        Source {
            path: PathBuf::from(path),
            text: text.to_string(),
        }
    }

    /// Uses found in one made-up file, as `from -> to`.
    fn found(path: &str, text: &str) -> Vec<String> {
        let modules = MAY_USE.iter().map(|(module, _)| module.to_string()).collect();
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
        let edge = Edge {
            from: "stats".into(),
            to: "report".into(),
            file: PathBuf::new(),
            line: 1,
        };
        assert!(!edge.is_allowed());
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
    fn the_vocabulary_is_for_all_but_the_bare() {
        let edge = |from: &str, to: &str| Edge {
            from: from.into(),
            to: to.into(),
            file: PathBuf::new(),
            line: 1,
        };
        assert!(edge("plan", "record").is_allowed());
        assert!(edge("launch", "units").is_allowed());
        assert!(edge("cli", "measure").is_allowed());
        for (from, to) in [
            ("units", "record"),
            ("record", "suite"),
            ("launch", "record"),
            ("findings", "measure"),
        ] {
            assert!(!edge(from, to).is_allowed(), "{from} -> {to}");
        }
    }

    #[test]
    fn catches_unsafe_outside_its_fences() {
        let sources = [
            source(
                "plan/mod.rs",
                "// unsafe is fine in words\nfn f() {\n    unsafe { g() }\n}\n",
            ),
            source("plan/a.rs", "#![allow(unsafe_code)]\n"),
            source("lib.rs", "#![deny(unsafe_code)]\n"),
            source("transport/shm.rs", "unsafe impl Sync for X {}\n"),
            source("device/cuda/mod.rs", "unsafe fn f() {}\n"),
        ];
        assert_eq!(unfenced(&sources), ["src/plan/mod.rs:3", "src/plan/a.rs:1"]);
    }
}
