//! What Cargo cannot say: which module of a crate may use which other one, and where `unsafe` may be written.
//!
//! Cargo enforces the edges between crates. The table below is the one of `docs/architecture.md`: an edge that is not in it is
//! a decision, not a detail: change both, or move the code. Code that exists for tests only is not looked at.

mod reading;
mod the_checker;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use reading::{Source, code_of, folder_of_submodules, read, roots, without_tests};

/// Modules, and for each the other modules that it may use.
type Table = &'static [(&'static str, &'static [&'static str])];

/// Per crate with an order inside: which of its modules may use which other ones.
const CRATES: &[(&str, Table)] = &[
    (
        "engine",
        &[
            ("sync", &[]),
            ("launch", &["sync"]),
            ("device", &["sync"]),
            ("transport", &["device", "launch", "sync"]),
            ("collective", &["transport", "device", "launch", "sync"]),
            (
                "measure",
                &["launch", "collective", "transport", "device", "sync"],
            ),
        ],
    ),
    (
        "judge",
        &[
            ("findings", &[]),
            ("compare", &["findings"]),
            ("tally", &[]),
            ("change_point", &[]),
            ("history", &["change_point", "findings"]),
            ("burn_in", &["change_point", "findings"]),
        ],
    ),
];

/// Where `unsafe` may be written, as the beginning of a path.
const FENCES: &[&str] = &[
    "crates/engine/src/device/region.rs",
    "crates/engine/src/device/heap.rs",
    "crates/engine/src/device/cuda",
    "crates/engine/src/device/telemetry/fabric_state.rs",
    "crates/engine/src/transport/tcp/counts.rs",
    "crates/engine/src/transport/verbs",
    "crates/probe/src/ethtool/ioctl.rs",
];

/// Crates that must never touch hardware, and the dependencies that would let them.
const PURE: [&str; 5] = ["record", "topology", "judge", "plan", "report"];
const HARDWARE: [&str; 8] = [
    "nix",
    "socket2",
    "cudarc",
    "mpi",
    "rdma-mummy-sys",
    "libloading",
    "nvml-wrapper",
    "signal-hook",
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
    fn is_allowed(&self, table: Table) -> bool {
        let row = table.iter().find(|(module, _)| *module == self.from);
        self.from == self.to || row.is_some_and(|(_, may)| may.contains(&self.to.as_str()))
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
                found.push(format!("{path}:{number}"));
            }
        }
    }
    found
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The sources of a crate, and its top-level modules.
fn sources_of(name: &str) -> (Vec<Source>, BTreeSet<String>) {
    let folder = root().join("crates").join(name).join("src");
    let sources = read(&folder, &folder);
    let modules = sources.iter().filter_map(|source| {
        let module = folder_of_submodules(&source.path);
        let first = module.components().next()?;
        Some(first.as_os_str().to_string_lossy().into_owned())
    });
    let modules = modules.collect();
    (sources, modules)
}

#[test]
fn no_module_uses_what_the_table_does_not_let_it_use() {
    for (name, table) in CRATES {
        let (sources, modules) = sources_of(name);
        let edges = edges(&sources, &modules);
        assert!(
            !edges.is_empty(),
            "{name}: no use was found: the reader is broken"
        );
        let forbidden: Vec<String> = edges
            .iter()
            .filter(|edge| !edge.is_allowed(table))
            .map(|edge| {
                format!(
                    "{name}: {}:{}: {} uses {}",
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
}

#[test]
fn every_module_is_in_the_table() {
    for (name, table) in CRATES {
        let (_, modules) = sources_of(name);
        let known: BTreeSet<String> = table.iter().map(|(module, _)| module.to_string()).collect();
        assert_eq!(modules, known, "{name}");
    }
}

#[test]
fn the_table_itself_has_no_circle() {
    for (_, table) in CRATES {
        let may_use = |module: &str| {
            let row = table.iter().find(|(name, _)| *name == module);
            row.map_or(&[][..], |(_, may)| may).iter()
        };
        for (start, _) in *table {
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
}

#[test]
fn what_judges_and_reports_cannot_touch_hardware() {
    for name in PURE {
        let manifest = std::fs::read_to_string(root().join(format!("crates/{name}/Cargo.toml"))).unwrap();
        let dependencies = manifest.split("[dev-dependencies]").next().unwrap();
        for hardware in HARDWARE {
            let needs = |line: &str| line.split(['.', ' ', '=']).next() == Some(hardware);
            assert!(!dependencies.lines().any(needs), "{name} depends on {hardware}");
        }
    }
}

#[test]
fn unsafe_stays_behind_its_fences() {
    let mut sources = read(&root().join("src"), root());
    sources.extend(read(&root().join("crates"), root()));
    assert!(sources.len() > 300, "only {} sources were found", sources.len());
    sources.retain(|source| !source.path.components().any(|part| part.as_os_str() == "tests"));
    let found = unfenced(&sources);
    assert!(found.is_empty(), "unsafe outside {FENCES:?}: {found:?}");
    for fence in FENCES {
        assert!(root().join(fence).exists(), "{fence} is gone");
    }
}
