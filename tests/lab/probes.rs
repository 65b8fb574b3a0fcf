//! Suite `probe` on real sockets: what loses packets is named, what holds them up too, and the record says what was sent.

use std::process::Stdio;
use std::time::{Duration, Instant};

use record::{Certificate, Check, Event, FindingKind, Judgement, Recorded, Ruling};

use crate::harness::{TestLab, command, labs_can_be_made};
use crate::verdict::is_quiet_machine;

/// Three leaves, so that what goes up to a spine does not always come down to the same leaf.
const SHAPE: [&str; 7] = ["6x2", "--leaves", "3", "--spines", "2", "--rate", "200mbit"];

/// The shipped suite for as long as a test may take.
const SHORT: &str = "name = \"short\"\n[run]\ndeadline = \"20s\"\n[[test]]\nname = \"probes\"\nkind = \"probe\"\nsets = 6\nwindow = \"500ms\"\niterations = 2\n";

/// Runs it in a lab: what it came to, its exit code, and the record.
fn probe(lab: &TestLab) -> (Judgement, Option<i32>, Recorded) {
    let folder = tempfile::tempdir().unwrap();
    let (suite, out) = (folder.path().join("short.toml"), folder.path().join("run"));
    std::fs::write(&suite, SHORT).unwrap();
    let (suite, out) = (suite.to_str().unwrap(), out.to_str().unwrap());
    let topology = format!("/run/railgauge/labs/{}/topology.toml", lab.name);
    let output = lab.run(
        "run",
        &[
            "--",
            "run",
            suite,
            "--topology",
            &topology,
            "--json",
            "--out",
            out,
        ],
    );
    let said = String::from_utf8_lossy(&output.stdout);
    let judgement = serde_json::from_str(&said)
        .unwrap_or_else(|error| panic!("{error}: {said}{}", String::from_utf8_lossy(&output.stderr)));
    (
        judgement,
        output.status.code(),
        Recorded::read(&folder.path().join("run")).unwrap(),
    )
}

/// Parts that findings of a kind name first.
fn named(judgement: &Judgement, kind: FindingKind) -> Vec<&str> {
    let findings = judgement.findings.iter().filter(|finding| finding.kind == kind);
    findings
        .map(|finding| finding.suspects[0].part.as_str())
        .collect()
}

#[test]
fn probes_name_the_cable_that_loses_packets_and_the_port_that_holds_them_up() {
    if !labs_can_be_made() {
        return;
    }
    let lab = TestLab::up(&SHAPE);
    lab.does(
        "fault",
        &["loss:rail1-spine0/d1=3%", "stall:h5/rail0=20ms,every=200ms"],
    );
    let (judgement, code, recorded) = probe(&lab);
    assert_eq!(code, Some(12), "{}", judgement.summary);
    assert_eq!(
        named(&judgement, FindingKind::LossyLink),
        ["rail1-spine0/d1->rail1-leaf1/u0"],
        "{:#?}",
        judgement.findings
    );
    let late = named(&judgement, FindingKind::SlowHop);
    let is_right = |part: &&str| part.starts_with("h5");
    // A busy machine holds everybody up.
    assert!(
        late.iter().all(is_right) && (late.len() == 1 || !is_quiet_machine()),
        "{late:?}"
    );
    assert_eq!(judgement.probes.len(), 2, "one row a rail");
    assert!(
        judgement.probes.iter().all(|row| row.links == 24),
        "{:?}",
        judgement.probes
    );
    let lost: Vec<bool> = judgement.probes.iter().map(|row| row.lost > 50).collect();
    assert_eq!(lost, [false, true], "{:?}", judgement.probes);
    let known = recorded.run.cells.iter().filter_map(|cell| cell.probes.as_ref());
    assert!(
        known
            .flat_map(|terms| &terms.flows)
            .all(|flow| flow.way.as_ref().is_some_and(|way| way.whole))
    );
    let iterations = recorded.events.iter().filter_map(|event| match event {
        Event::CellDone(done) => Some((
            done.probes.len(),
            done.probes.iter().all(|counts| counts.sent.len() == 2),
        )),
        _ => None,
    });
    assert!(
        iterations.clone().count() >= 6
            && iterations
                .clone()
                .all(|(flows, is_whole)| flows == 48 && is_whole)
    );
    lab.does("heal", &["stall:h5/rail0"]);
    let said = lab.on("h5", "tc qdisc show dev rail0");
    assert!(said.contains("rate 200Mbit"), "{said}");
}

/// Every cable in each direction and some probes, a cycle of some ten seconds: too short for one lost packet in a thousand.
const CYCLES: &str = "name = \"cycles\"\n[run]\ntransport = \"tcp\"\ndeadline = \"20s\"\n[rule]\nremeasure = 2\nstraggler_factor = 1000\n\
[burn-in]\nreason = \"a test has no day\"\nleast_load = \"1s\"\nleast_cycles = 2\nleast_share = \"1%\"\nleast_covered = \"50%\"\ndrift = \"90%\"\n\
slow_cycles = 1000\n[[test]]\nname = \"cables\"\nkind = \"pairs\"\ndirections = \"one-way\"\nschedule = \"cover\"\nsizes = [\"256K\"]\nwarmup = 1\n\
iterations = 6\nverify = \"never\"\n[[test]]\nname = \"probes\"\nkind = \"probe\"\nshare = \"1%\"\npackets_per_second = 500\npartners = 3\nsets = 2\n\
window = \"1s\"\niterations = 2\n";

/// Waits for what takes longer than most things in a lab; fails when it never comes.
fn until_within(patience: Duration, what: &str, is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + patience;
    while !is_so() {
        assert!(Instant::now() < deadline, "never happened: {what}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// How a check on a cable is decided, and what was seen.
fn lossy_check<'c>(certificate: &'c Certificate, cable: &str) -> &'c Check {
    let decision = certificate.links.iter().find(|link| link.part == cable);
    let checks = &decision
        .unwrap_or_else(|| panic!("no decision on {cable}: {}", certificate.summary))
        .checks;
    checks.iter().find(|check| check.criterion == "lossy").unwrap()
}

#[test]
fn a_cable_that_loses_one_packet_in_a_thousand_is_rejected_after_cycles_and_a_kill() {
    if !labs_can_be_made() {
        return;
    }
    const CABLE: &str = "rail0-leaf1/p0->h2/rail0";
    let lab = TestLab::up(&["4x2", "--rate", "200mbit"]);
    lab.does("fault", &["loss:rail0-leaf1/p0=0.1%"]);
    let folder = tempfile::tempdir().unwrap();
    let (suite, out) = (folder.path().join("suite.toml"), folder.path().join("out"));
    std::fs::write(&suite, CYCLES).unwrap();
    let topology = format!("/run/railgauge/labs/{}/topology.toml", lab.name);
    let ended_cycles = || {
        let journal = std::fs::read_to_string(out.join("journal.jsonl")).unwrap_or_default();
        journal.matches("\"cycle-ended\"").count()
    };
    let arguments = |words: &[&str]| {
        let fixed = ["run", "--name", &lab.name, "--", "burn-in"];
        let all = fixed.iter().chain(words).map(ToString::to_string);
        all.collect::<Vec<String>>()
    };
    let (suite, path) = (suite.to_str().unwrap(), out.to_str().unwrap());
    let begin = arguments(&[
        suite,
        "--topology",
        &topology,
        "--for",
        "1h",
        "--out",
        path,
        "--quiet",
    ]);
    let mut first = command(&begin).stdout(Stdio::null()).spawn().unwrap();
    until_within(Duration::from_secs(600), "three cycles", || ended_cycles() >= 3);
    first.kill().unwrap();
    first.wait().unwrap();
    // The cycle that was cut off goes on, and those before it still count.
    let resume = arguments(&["--resume", path, "--for", "1h", "--quiet"]);
    let mut again = command(&resume).stdout(Stdio::null()).spawn().unwrap();
    until_within(Duration::from_secs(900), "twelve cycles", || ended_cycles() >= 12);
    nix::sys::signal::kill(
        nix::unistd::Pid::from_raw(again.id() as i32),
        nix::sys::signal::Signal::SIGTERM,
    )
    .unwrap();
    again.wait().unwrap();
    let text = std::fs::read(out.join("certificate.json")).unwrap();
    let certificate: Certificate = serde_json::from_slice(&text).unwrap();
    let check = lossy_check(&certificate, CABLE);
    assert_eq!(
        check.ruling,
        Ruling::Reject,
        "{}\n{}",
        check.what,
        certificate.summary
    );
    assert!(check.what.contains("loses 0."), "{}", check.what);
    let incident = certificate
        .incidents
        .iter()
        .find(|incident| incident.part == CABLE);
    let incident = incident.unwrap_or_else(|| panic!("{:#?}", certificate.incidents));
    assert_eq!((incident.kind, incident.counts), (FindingKind::LossyLink, true));
    for link in certificate.links.iter().filter(|link| link.part != CABLE) {
        let check = lossy_check(&certificate, &link.part);
        assert_ne!(check.ruling, Ruling::Reject, "{}: {}", link.part, check.what);
    }
}
