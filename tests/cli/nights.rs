//! Nights in one folder: what is new, still there and gone, who is told, and who is left to sleep.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use record::{FindingKind, History, IssueStatus, Notice, Recorded, Severity, files};

use crate::harness::{Bench, Ended, SMALL};

/// Pairs over two rails: every end of a rail is measured, so that what is gone is known to be gone.
const NIGHT: &str = r#"
name = "night"
[run]
ranks = 2
transport = "tcp"
rails = ["loop0=127.0.1.1", "loop1=127.0.1.2"]
deadline = "10s"
[rule]
# Other tests run beside: who was slow here for a moment says nothing.
straggler_factor = 1000
[[test]]
name = "pairs"
kind = "pairs"
directions = "one-way"
sizes = ["64K"]
warmup = 1
iterations = 8
"#;

/// A folder of nights, and a program that writes down what it is told.
struct Nights(Bench);

impl Nights {
    fn new() -> Nights {
        let bench = Bench::new(NIGHT);
        let program = bench.path().join("tell");
        let script = format!(
            "#!/bin/sh\ncat >>{0}/told\necho >>{0}/told\n",
            bench.path().display()
        );
        std::fs::write(&program, script).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        Nights(bench)
    }

    /// One more night; its folder too.
    fn night(&self, words: &str) -> (Ended, PathBuf) {
        let before = self.folders();
        let tell = self.0.path().join("tell");
        let ended = self.0.railgauge(&format!(
            "run suite.toml --history nights --notify {} {words}",
            tell.display()
        ));
        let mut new = self.folders();
        new.retain(|folder| !before.contains(folder));
        assert_eq!(new.len(), 1, "{}", ended.stderr);
        (ended, new.remove(0))
    }

    fn folders(&self) -> Vec<PathBuf> {
        let Ok(entries) = std::fs::read_dir(self.0.path().join("nights")) else {
            return Vec::new();
        };
        entries.map(|entry| entry.unwrap().path()).collect()
    }

    /// What was told since the last time somebody asked.
    fn told(&self) -> Vec<Notice> {
        let file = self.0.path().join("told");
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        _ = std::fs::remove_file(&file);
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }
}

fn history(folder: &Path) -> History {
    let text = std::fs::read_to_string(folder.join(files::HISTORY)).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// Makes a negative control a night like others, as if the fault had been there by itself.
fn as_if_by_itself(folder: &Path) {
    for file in [files::RUN, files::READINGS] {
        let path = folder.join(file);
        let text = std::fs::read(&path).unwrap();
        let mut value: serde_json::Value = serde_json::from_slice(&text).unwrap();
        value["injected"] = serde_json::json!([]);
        std::fs::write(&path, serde_json::to_vec(&value).unwrap()).unwrap();
    }
}

#[test]
fn a_fault_is_new_once_then_old_then_gone_and_wakes_somebody_once() {
    let nights = Nights::new();
    for earlier in 0..2 {
        let (ended, folder) = nights.night("");
        ended.must_exit(20);
        let history = history(&folder);
        assert_eq!(
            (history.nights, history.issues.len()),
            (earlier, 0),
            "{}",
            history.summary
        );
    }
    assert_eq!(nights.told(), [], "nothing changed");

    let (ended, folder) = nights.night("--inject flip:rank=1");
    let ended = ended.must_exit(22);
    assert!(ended.stdout.contains("new tonight"), "{}", ended.stdout);
    let told = nights.told();
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(told[0].severity, Severity::Page);
    assert_eq!(told[0].issue.kind, Some(FindingKind::Corruption));
    assert_eq!(told[0].issue.status, IssueStatus::New);
    assert_eq!(told[0].suite, "night");
    assert_eq!(Path::new(&told[0].folder), folder.canonicalize().unwrap());
    for file in [files::MARKDOWN, files::HTML, files::SUMMARY] {
        let text = std::fs::read_to_string(folder.join(file)).unwrap();
        assert!(text.contains("Since earlier runs"), "{file}");
    }
    // Rendered again, it says the same.
    let again = nights
        .0
        .railgauge(&format!("report {}", folder.display()))
        .must_exit(22);
    assert!(again.stdout.contains("new tonight"), "{}", again.stdout);
    as_if_by_itself(&folder);

    let (ended, folder) = nights.night("--inject flip:rank=1");
    let ended = ended.must_exit(22);
    assert!(ended.stdout.contains("1 still there"), "{}", ended.stdout);
    assert_eq!(history(&folder).issues[0].status, IssueStatus::Still { night: 2 });
    assert_eq!(nights.told(), [], "told yesterday");
    as_if_by_itself(&folder);

    let (ended, folder) = nights.night("--notify-severity info");
    let ended = ended.must_exit(20);
    assert!(ended.stdout.contains("gone"), "{}", ended.stdout);
    assert!(
        matches!(history(&folder).issues[0].status, IssueStatus::Gone { nights: 2 }),
        "{:?}",
        history(&folder).issues
    );
    assert!(
        nights
            .told()
            .iter()
            .all(|notice| notice.severity == Severity::Info)
    );
}

#[test]
fn what_reached_nobody_is_told_the_next_night_if_it_is_still_there() {
    let nights = Nights::new();
    let tell = nights.0.path().join("tell");
    let can_run = |mode: u32| {
        std::fs::set_permissions(&tell, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    nights.night("").0.must_exit(20);
    can_run(0o644);
    let (ended, folder) = nights.night("--inject flip:rank=1");
    let ended = ended.must_exit(22);
    assert!(ended.stderr.contains("cannot start it"), "{}", ended.stderr);
    as_if_by_itself(&folder);
    assert_eq!(nights.told(), []);

    can_run(0o755);
    let (_, folder) = nights.night("--inject flip:rank=1");
    let told = nights.told();
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(
        (told[0].severity, &told[0].issue.status),
        (Severity::Page, &IssueStatus::Still { night: 2 })
    );
    as_if_by_itself(&folder);
    nights.night("--inject flip:rank=1").0.must_exit(22);
    assert_eq!(nights.told(), [], "once is enough");
}

#[test]
fn what_reached_nobody_and_is_gone_wakes_nobody() {
    let nights = Nights::new();
    let tell = nights.0.path().join("tell");
    nights.night("").0.must_exit(20);
    std::fs::set_permissions(&tell, std::fs::Permissions::from_mode(0o644)).unwrap();
    let (_, folder) = nights.night("--inject flip:rank=1");
    assert!(folder.join(files::UNSENT).exists());
    as_if_by_itself(&folder);
    std::fs::set_permissions(&tell, std::fs::Permissions::from_mode(0o755)).unwrap();
    let (_, folder) = nights.night("");
    assert_eq!(nights.told(), []);
    assert!(!folder.join(files::UNSENT).exists());
}

#[test]
fn a_program_that_fails_and_folders_that_cannot_be_read_change_nothing() {
    let bench = Bench::new(SMALL);
    let broken = bench.path().join("nights/broken");
    std::fs::create_dir_all(&broken).unwrap();
    std::fs::write(broken.join(files::RUN), "{").unwrap();
    let words = "run suite.toml --history nights --out out --inject flip:rank=1 --notify false";
    let ended = bench.railgauge(words).must_exit(22);
    assert!(
        ended.stderr.contains("not compared with broken: "),
        "{}",
        ended.stderr
    );
    assert!(
        ended.stderr.contains("--notify: false: exit status: 1"),
        "{}",
        ended.stderr
    );
    assert!(Recorded::read(&bench.out()).unwrap().history.is_some());
}

#[test]
fn telling_needs_a_history_and_an_address_is_not_recorded() {
    let bench = Bench::new(SMALL);
    let ended = bench
        .railgauge("run suite.toml --out out --notify true")
        .must_exit(2);
    assert!(ended.stderr.contains("--history"), "{}", ended.stderr);
    let ended = bench
        .railgauge("run suite.toml --history nights --notify ftp://x/y")
        .must_exit(2);
    assert!(ended.stderr.contains("is not supported"), "{}", ended.stderr);
    let words = "run suite.toml --out out --history nights --notify http://127.0.0.1:9/secret";
    bench.railgauge(words).must_exit(20);
    let recorded = std::fs::read_to_string(bench.out().join(files::RUN)).unwrap();
    assert!(
        !recorded.contains("secret") && recorded.contains("http://127.0.0.1:9/..."),
        "{recorded}"
    );
}
