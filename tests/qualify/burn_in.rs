//! A burn-in across a lab: a cable that degrades, another that flaps, a host that dies and comes back; and a coordinator that is killed.
//!
//! In minutes by default; `RAILGAUGE_BURN_IN=long`, as `ci/burn-in-report` sets it, for the tallies.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use record::{Certificate, Event, FindingKind, Incident, Journal, JournalLine, Ruling};

use crate::harness::{TestLab, command, labs_can_be_made};

/// How long things take.
struct Scale {
    /// Under load.
    whole: Duration,
    /// Until a cable degrades.
    degrades: Duration,
    /// Until a host dies, and until it is started again.
    dies: Duration,
    back: Duration,
    /// From flap to flap, half a second each.
    flaps_every: Duration,
    /// Kills of the coordinator.
    kills: u32,
    /// Under load in the run that is killed.
    killed_whole: Duration,
    /// What is wrong meanwhile.
    while_killed: &'static [&'static str],
    suite: String,
}

fn scale() -> Scale {
    let seconds = Duration::from_secs;
    let suite =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/ci/suites/burn-in-lab.toml")).unwrap();
    match std::env::var("RAILGAUGE_BURN_IN").as_deref() {
        Ok("long") => Scale {
            whole: seconds(1800),
            degrades: seconds(600),
            dies: seconds(1080),
            back: seconds(60),
            flaps_every: seconds(120),
            kills: 10,
            killed_whole: seconds(300),
            while_killed: &[
                "slow-cable:h1-rail0-leaf0=60%",
                "flap:h3-rail1-leaf1,period=30s,duty=98.4%",
            ],
            suite,
        },
        _ => Scale {
            whole: seconds(110),
            degrades: seconds(45),
            dies: seconds(65),
            back: seconds(5),
            flaps_every: seconds(20),
            kills: 3,
            killed_whole: seconds(50),
            while_killed: &["flap:h3-rail1-leaf1,period=8s,duty=93.75%"],
            // Shorter messages, fewer of them, and fewer probes: a cycle of about ten seconds.
            suite: suite
                .replace("window = \"1s\"\niterations = 2", "window = \"300ms\"\niterations = 1")
                .replace("[\"4M\"]", "[\"2M\"]")
                .replace("min = 6, max = 10", "min = 5, max = 6")
                .replace("min = 6, max = 12", "min = 5, max = 6")
                .replace("least_load = \"1m\"", "least_load = \"10s\"")
                .replace("least_cycles = 3", "least_cycles = 2")
                .replace("[\"2M\"]\nwarmup = 1\niterations = { min = 5, max = 6 }\ntight = \"2%\"\nbudget = \"3s\"", "[\"1M\"]\nwarmup = 1\niterations = { min = 5, max = 6 }\ntight = \"2%\"\nbudget = \"3s\""),
        },
    }
}

/// A lab, a suite and a folder of their own.
struct Setting {
    lab: TestLab,
    folder: tempfile::TempDir,
    suite: PathBuf,
}

impl Setting {
    fn new(suite: &str) -> Setting {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("suite.toml");
        std::fs::write(&file, suite).unwrap();
        Setting {
            // Uplinks are faster, so that pairs that share one by chance do not slow each other down.
            lab: TestLab::up(&["4x2", "--rate", "200mbit", "--uplink-rate", "300mbit"]),
            folder,
            suite: file,
        }
    }

    fn out(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Starts a burn-in on every host.
    fn start(&self, respawn: Option<Duration>, words: &[&str]) -> Child {
        let respawn = respawn.map(|after| format!("{}ms", after.as_millis()));
        let mut lab = vec!["run", "--name", &self.lab.name];
        if let Some(respawn) = &respawn {
            lab.extend(["--respawn", respawn]);
        }
        lab.extend(["--", "burn-in"]);
        let common = ["--keep-going", "--rejoin", "10m", "--quiet"];
        command(&[&lab, words, &common].concat())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }
}

fn read<T: serde::de::DeserializeOwned>(path: &Path) -> Option<T> {
    serde_json::from_slice(&std::fs::read(path).ok()?).ok()
}

fn journal(folder: &Path) -> Vec<JournalLine> {
    let text = std::fs::read_to_string(folder.join("journal.jsonl")).unwrap_or_default();
    text.lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect()
}

/// What `status.json` says.
fn status(folder: &Path, key: &str) -> Option<serde_json::Value> {
    let status: serde_json::Value = read(&folder.join("status.json"))?;
    Some(status[key].clone())
}

fn load(folder: &Path) -> Duration {
    Duration::from_nanos(
        status(folder, "load_ns")
            .and_then(|load| load.as_u64())
            .unwrap_or(0),
    )
}

/// Waits until the fabric was under load for so long, the burn-in still running.
fn until_load(folder: &Path, child: &mut Child, load_wanted: Duration) {
    let patience = Instant::now() + load_wanted * 3 + Duration::from_secs(120);
    while load(folder) < load_wanted {
        assert!(Instant::now() < patience, "never got to {load_wanted:?} of load");
        if let Some(status) = child.try_wait().unwrap() {
            panic!(
                "it ended before {load_wanted:?}, {status}\n{}\n{:#?}",
                said(child),
                journal(folder)
            );
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// What a process that has ended said.
fn said(child: &mut Child) -> String {
    let mut text = String::new();
    if let Some(stdout) = &mut child.stdout {
        stdout.read_to_string(&mut text).unwrap();
    }
    if let Some(stderr) = &mut child.stderr {
        stderr.read_to_string(&mut text).unwrap();
    }
    text
}

/// The most memory that the coordinator had while the fabric was under load for a twentieth of the whole: a few cycles with all that belongs to them.
fn most_resident(folder: &Path, child: &mut Child, from: Duration, whole: Duration) -> u64 {
    until_load(folder, child, from);
    let mut most = 0;
    while load(folder) < from + whole / 20 {
        until_load(folder, child, load(folder) + Duration::from_millis(1));
        let resident = status(folder, "resident").and_then(|bytes| bytes.as_u64());
        most = most.max(resident.unwrap());
    }
    most
}

/// The cycle that was measured at a time under load.
fn cycle_at(journal: &[JournalLine], load: Duration) -> u32 {
    let began = journal.iter().filter_map(|line| match line.what {
        Journal::CycleBegan { cycle, .. } if Duration::from(line.load_ns) <= load => Some(cycle),
        _ => None,
    });
    began.max().unwrap_or(1)
}

/// Adds a line to the tallies, when somebody keeps them.
fn tally(line: &str) {
    println!("{line}");
    if let Ok(path) = std::env::var("RAILGAUGE_TALLY") {
        let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
        writeln!(file.unwrap(), "{line}").unwrap();
    }
}

/// The only incident that counts with this kind.
fn only(certificate: &Certificate, is: impl Fn(FindingKind) -> bool) -> &Incident {
    let counting = certificate.incidents.iter().filter(|incident| incident.counts);
    let found: Vec<&Incident> = counting.filter(|incident| is(incident.kind)).collect();
    assert_eq!(found.len(), 1, "{:#?}", certificate.incidents);
    found[0]
}

#[test]
fn a_cable_that_degrades_one_that_flaps_and_a_host_that_comes_back_are_named_with_place_and_time() {
    if !labs_can_be_made() {
        return;
    }
    let scale = scale();
    let setting = Setting::new(&scale.suite);
    let out = setting.out("burn-in");
    let (suite, folder) = (setting.suite.to_str().unwrap(), out.to_str().unwrap());
    let whole = format!("{}s", scale.whole.as_secs());
    let words = [suite, "--for", &whole, "--out", folder];
    let mut child = setting.start(Some(scale.back), &words);

    let resident_early = most_resident(&out, &mut child, scale.whole / 10, scale.whole);
    until_load(&out, &mut child, scale.degrades / 2);
    let up = 100.0 * (1.0 - 0.5 / scale.flaps_every.as_secs_f64());
    let flap = format!(
        "flap:h3-rail1-leaf1,period={}s,duty={up}%",
        scale.flaps_every.as_secs()
    );
    setting.lab.does("fault", &[&flap]);
    let flapped_at = load(&out);
    until_load(&out, &mut child, scale.degrades);
    setting.lab.does("fault", &["slow-cable:h1-rail0-leaf0=85%"]);
    let degraded_at = load(&out);
    until_load(&out, &mut child, scale.dies);
    setting.lab.does("fault", &["kill:h2"]);
    let died_at = load(&out);
    let lost = Instant::now();
    while !matches!(status(&out, "lost"), Some(hosts) if hosts[0] == "h2") {
        assert!(
            lost.elapsed() < Duration::from_secs(60),
            "the loss was not noticed"
        );
        std::thread::sleep(Duration::from_millis(100));
    }
    let resident_late = most_resident(&out, &mut child, scale.whole.mul_f64(0.92), scale.whole);
    let ended = child.wait_with_output().unwrap();
    let said = format!(
        "{}{}",
        String::from_utf8_lossy(&ended.stdout),
        String::from_utf8_lossy(&ended.stderr)
    );

    let certificate: Certificate = read(&out.join("certificate.json")).expect(&said);
    let journal = journal(&out);
    let place_and_time = |incident: &Incident, at: Duration, part: &str| {
        let cycle = cycle_at(&journal, at);
        assert!(incident.part.contains(part), "{said}\n{incident:#?}");
        assert!(
            (cycle..=cycle + 1).contains(&incident.first.cycle),
            "in cycle {cycle}: {incident:#?}\n{journal:#?}"
        );
        cycle
    };
    let slow = only(&certificate, |kind| kind == FindingKind::SlowLink);
    let degraded = place_and_time(slow, degraded_at, "h1/rail0");
    let flap = only(&certificate, |kind| kind == FindingKind::Flap);
    let flapped = place_and_time(flap, flapped_at, "h3/rail1");
    let gone = only(&certificate, |kind| kind == FindingKind::LostRank);
    let died = place_and_time(gone, died_at, "h2");
    assert!(gone.sentence.contains("back in cycle"), "{}", gone.sentence);
    let counting = certificate.incidents.iter().filter(|incident| incident.counts);
    assert_eq!(counting.count(), 3, "{:#?}", certificate.incidents);
    assert_eq!(certificate.ruling, Ruling::Reject);
    assert_eq!(ended.status.code(), Some(21), "{said}");
    let rejected = |parts: &[record::PartDecision]| -> Vec<String> {
        let rejected = parts.iter().filter(|part| part.ruling == Ruling::Reject);
        rejected.map(|part| part.part.clone()).collect()
    };
    let links = rejected(&certificate.links);
    let of_accused = |link: &String| link.contains("h1/rail0") || link.contains("h3/rail1");
    assert!(!links.is_empty() && links.iter().all(of_accused), "{links:?}");
    assert_eq!(rejected(&certificate.nodes), ["h2"]);
    let grown = resident_late as f64 / resident_early as f64;
    if scale.kills == 10 {
        assert!(grown < 1.1, "{resident_early} bytes, then {resident_late}");
    }
    tally(&format!(
        "| a cable at 85 % in cycle {degraded}, a flap of 0.5 s every {} s from cycle {flapped}, a host killed in cycle {died} and started again {} s later; {} cycles, {whole} | slow link {} from cycle {}; flap {} from cycle {}; {} lost in cycle {}, back; nothing else counts | {:.1} MB, then {:.1} MB ({:+.1} %) |",
        scale.flaps_every.as_secs(),
        scale.back.as_secs(),
        certificate.cycles,
        slow.part,
        slow.first.cycle,
        flap.part,
        flap.first.cycle,
        gone.part,
        gone.first.cycle,
        resident_early as f64 / 1e6,
        resident_late as f64 / 1e6,
        (grown - 1.0) * 100.0,
    ));
}

/// What is decided on every part, and what is blamed.
fn verdicts(certificate: &Certificate) -> (BTreeMap<String, Ruling>, BTreeSet<(FindingKind, String)>) {
    let parts = certificate.nodes.iter().chain(&certificate.links);
    let counting = certificate.incidents.iter().filter(|incident| incident.counts);
    (
        parts.map(|part| (part.part.clone(), part.ruling)).collect(),
        counting
            .map(|incident| (incident.kind, incident.part.clone()))
            .collect(),
    )
}

/// The samples of every cycle, as they stand on disk.
fn samples(folder: &Path) -> BTreeMap<PathBuf, String> {
    let cycles = std::fs::read_dir(folder.join("cycles")).unwrap();
    let files = cycles.map(|cycle| cycle.unwrap().path().join("samples.jsonl"));
    files
        .filter_map(|file| Some((file.clone(), std::fs::read_to_string(file).ok()?)))
        .collect()
}

#[test]
fn a_coordinator_that_is_killed_again_and_again_loses_nothing_and_decides_the_same() {
    if !labs_can_be_made() {
        return;
    }
    let scale = scale();
    // Everything stays as it was recorded, to be looked at.
    let suite = scale
        .suite
        .replace("drift = \"7%\"", "drift = \"7%\"\nraw_cycles = 1000");
    let setting = Setting::new(&suite);
    setting.lab.does("fault", scale.while_killed);
    let whole = format!("{}s", scale.killed_whole.as_secs());
    let suite = setting.suite.to_str().unwrap();

    let unkilled = setting.out("unkilled");
    let only = ["--only", "test=cables"];
    let words = [
        &[suite, "--for", &whole, "--out", unkilled.to_str().unwrap()],
        &only[..],
    ]
    .concat();
    let ended = setting.start(None, &words).wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(12), "{ended:?}");

    let killed = setting.out("killed");
    let folder = killed.to_str().unwrap();
    let mut child = setting.start(
        None,
        &[&[suite, "--for", &whole, "--out", folder], &only[..]].concat(),
    );
    let mut before: BTreeMap<PathBuf, String> = BTreeMap::new();
    let mut random = std::process::id();
    for kill in 1..=scale.kills {
        // Somewhere between here and the next one.
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let share =
            (f64::from(kill) - f64::from(random >> 8) / f64::from(1u32 << 24)) / f64::from(scale.kills + 1);
        until_load(&killed, &mut child, scale.killed_whole.mul_f64(share.max(0.01)));
        setting
            .lab
            .does("exec", &["h0", "--", "pkill", "-9", "-f", "railgauge burn-in"]);
        child.wait().unwrap();
        for (file, text) in samples(&killed) {
            let whole_lines = &text[..text.rfind('\n').map_or(0, |end| end + 1)];
            before.insert(file, whole_lines.to_string());
        }
        child = setting.start(None, &["--resume", folder]);
        let resumed = Instant::now();
        let meetings = |journal: &[JournalLine]| {
            let met = journal
                .iter()
                .filter(|line| matches!(line.what, Journal::Met { .. }));
            met.count()
        };
        while meetings(&journal(&killed)) <= kill as usize {
            assert!(resumed.elapsed() < Duration::from_secs(90), "it was not resumed");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
    let ended = child.wait_with_output().unwrap();
    let incidents = || read::<Certificate>(&killed.join("certificate.json")).map(|all| all.incidents);
    assert_eq!(
        ended.status.code(),
        Some(12),
        "{ended:?}\n{:#?}\n{:#?}",
        incidents(),
        journal(&killed)
    );

    let after = samples(&killed);
    for (file, text) in &before {
        assert!(after[file].starts_with(text), "{} lost lines", file.display());
    }
    let mut all = 0;
    for (file, text) in &after {
        let (mut seen, mut done) = (BTreeSet::new(), BTreeSet::new());
        for line in text.lines() {
            match serde_json::from_str(line).unwrap() {
                Event::Sample(sample) => {
                    let key = (sample.cell, sample.round, sample.iter, sample.rank);
                    assert!(seen.insert(key), "{key:?} twice in {}", file.display());
                    all += 1;
                }
                Event::CellDone(cell) => {
                    assert!(done.insert((cell.cell, cell.round)), "{cell:?} twice");
                }
                _ => {}
            }
        }
    }
    let ended_twice: Vec<u32> = {
        let mut ended = BTreeSet::new();
        let cycles = journal(&killed).into_iter().filter_map(|line| match line.what {
            Journal::CycleEnded { cycle, .. } => Some(cycle),
            _ => None,
        });
        cycles.filter(|cycle| !ended.insert(*cycle)).collect()
    };
    assert!(ended_twice.is_empty(), "{ended_twice:?}");
    let [unkilled, killed] = [&unkilled, &killed].map(|folder| {
        let certificate: Certificate = read(&folder.join("certificate.json")).unwrap();
        certificate
    });
    assert_eq!(killed.resumed, scale.kills);
    assert_eq!(verdicts(&unkilled), verdicts(&killed));
    tally(&format!(
        "| coordinator killed {} times in {whole} of load, each time resumed | {all} samples, none lost, none twice; {} cycles against {} unkilled, the same verdicts | |",
        scale.kills, killed.cycles, unkilled.cycles
    ));
}
