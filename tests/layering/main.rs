//! Dependencies point one way: a module uses only what the table below lets it use, and `unsafe` stays behind its fences.
//!
//! The table is the one of `docs/architecture.md`. An edge that is not in it is a decision, not a detail: change both, or
//! move the code. Parts that exist for tests only are not looked at.

mod reading;
mod the_checker;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use reading::{Source, code_of, folder_of_submodules, read, roots, without_tests};

/// Which module may use which. All may use [`VOCABULARY`] as well, except those that are named there as bare.
const MAY_USE: &[(&str, &[&str])] = &[
    ("units", &[]),
    ("record", &[]),
    ("stats", &[]),
    ("suite", &[]),
    ("command", &[]),
    ("fabric", &["command", "launch"]),
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
    ("history", &["findings", "stats"]),
    ("burn_in", &["stats"]),
    ("report", &["findings", "history", "stats"]),
    ("diagnose", &["plan", "findings", "fabric"]),
    ("twin", &["plan", "fabric", "stats", "diagnose", "history"]),
    ("notify", &["command"]),
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
    ("command", &[]),
];

/// Where `unsafe` may be written, as the beginning of a path under `src`.
const FENCES: &[&str] = &[
    "device/region.rs",
    "device/heap.rs",
    "device/cuda",
    "fabric/ethtool/ioctl.rs",
    "device/telemetry/fabric_state.rs",
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
