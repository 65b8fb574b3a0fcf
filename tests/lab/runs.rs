//! `lab run` starts one process per rank where it belongs, passes signals on, and leaves nothing behind.

use std::process::{Output, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use record::Event;

use crate::harness::{TestLab, command, labs_can_be_made, until};

/// Runs a shell script as every rank.
fn run(lab: &TestLab, flags: &[&str], script: &str) -> Output {
    lab.run(
        "run",
        &[flags, &["--program", "/bin/sh", "--", "-c", script]].concat(),
    )
}

fn lines(bytes: &[u8]) -> Vec<String> {
    let mut lines: Vec<String> = String::from_utf8_lossy(bytes)
        .lines()
        .map(str::to_string)
        .collect();
    lines.sort();
    lines
}

fn busy(lab: &TestLab) -> bool {
    lab.does("status", &[]).contains("processes:")
}

#[test]
fn every_rank_runs_on_its_host_with_its_place_and_the_same_secret() {
    if !labs_can_be_made() {
        return;
    }
    let lab = TestLab::up(&["3x1"]);
    let script = "echo $(hostname) $RAILGAUGE_RANK/$RAILGAUGE_WORLD $RAILGAUGE_RENDEZVOUS ${#RAILGAUGE_TOKEN} >&2; \
        [ $RAILGAUGE_RANK = 0 ] && echo result; exit $((RAILGAUGE_RANK + 12))";
    let output = run(&lab, &["--per-host", "2"], script);
    assert_eq!(output.status.code(), Some(12), "the first rank's: {output:?}");
    assert_eq!(output.stdout, b"result\n", "the first rank's output, unchanged");
    let said = lines(&output.stderr);
    let rendezvous = said[0].split(' ').nth(2).unwrap();
    assert!(rendezvous.starts_with("10.255.0.1:"), "{said:?}");
    let wanted: Vec<String> = (0..6)
        .map(|rank| {
            let host = rank / 2;
            let prefix = if rank == 0 {
                String::new()
            } else {
                format!("h{host}: ")
            };
            format!("{prefix}h{host} {rank}/6 {rendezvous} 64")
        })
        .collect();
    let mut wanted = wanted;
    wanted.sort();
    assert_eq!(said, wanted);
    assert!(!busy(&lab));
}

#[test]
fn when_the_first_rank_is_killed_the_run_says_that_a_rank_was_lost_and_ends() {
    if !labs_can_be_made() {
        return;
    }
    let lab = TestLab::up(&["2x1"]);
    // The other rank would run for ever, ignores requests to end, and has a child in a session of its own.
    let script =
        "if [ $RAILGAUGE_RANK = 0 ]; then kill -9 $$; fi; trap '' TERM; setsid sleep 1000 & sleep 1000";
    let output = run(&lab, &[], script);
    assert_eq!(output.status.code(), Some(21), "{output:?}");
    assert!(!busy(&lab), "nothing is left behind");
}

#[test]
fn a_signal_reaches_all_ranks_and_a_killed_lab_run_takes_them_along() {
    if !labs_can_be_made() {
        return;
    }
    let lab = TestLab::up(&["2x1"]);
    let start = |script: &str| {
        let words = [
            "run",
            "--name",
            &lab.name,
            "--program",
            "/bin/sh",
            "--",
            "-c",
            script,
        ];
        command(&words)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    };
    let both_run = || lab.does("status", &[]).contains("processes: h0: 2, h1: 2");
    let polite = start("trap 'echo heard >&2; exit 5' TERM; sleep 1000 & wait");
    until("both ranks run", both_run);
    kill(Pid::from_raw(polite.id() as i32), Signal::SIGTERM).unwrap();
    let output = polite.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(5), "{output:?}");
    let said = lines(&output.stderr);
    assert!(
        said.contains(&"heard".to_string()) && said.contains(&"h1: heard".to_string()),
        "{said:?}"
    );
    until("nobody runs", || !busy(&lab));

    let mut killed = start("exec sleep 1000");
    until("both ranks run", || {
        lab.does("status", &[]).contains("processes: h0: 1, h1: 1")
    });
    killed.kill().unwrap();
    killed.wait().unwrap();
    until("the ranks went with it", || !busy(&lab));
}

#[test]
fn mpirun_starts_a_rank_on_every_host_through_the_lab() {
    if !labs_can_be_made() {
        return;
    }
    if !std::path::Path::new("/usr/bin/mpirun").exists() {
        crate::skip::skip("mpi", "mpirun is not installed");
        return;
    }
    let lab = TestLab::up(&["3x1"]);
    let output = run(
        &lab,
        &["--launch", "mpi", "--per-host", "2"],
        "echo $(hostname) $OMPI_COMM_WORLD_RANK",
    );
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(
        lines(&output.stdout),
        ["h0 0", "h0 1", "h1 2", "h1 3", "h2 4", "h2 5"]
    );
    assert!(!busy(&lab), "no daemon is left behind");
}

#[cfg(feature = "mpi")]
#[test]
fn a_run_through_mpi_is_one_world_and_survives_to_say_who_was_lost() {
    use record::{FindingKind, Recorded};
    if !labs_can_be_made() {
        return;
    }
    let lab = TestLab::up(&["3x2", "--leaves", "1", "--spines", "1"]);
    let folder = tempfile::tempdir().unwrap();
    let suite = folder.path().join("short.toml");
    let text = |iterations: &str| {
        format!(
            "name = \"short\"\n[run]\ntransport = \"tcp\"\ndeadline = \"20s\"\n[[test]]\nname = \"ring\"\n\
             collective = \"all-reduce\"\nsizes = [\"256K\"]\nwarmup = 0\niterations = {iterations}\nbudget = \"60s\"\n"
        )
    };
    std::fs::write(&suite, text("6")).unwrap();
    let out = folder.path().join("whole");
    let words = |out: &std::path::Path| {
        [
            "run",
            suite.to_str().unwrap(),
            "--out",
            out.to_str().unwrap(),
            "--only",
            "rail=rail1",
        ]
        .map(str::to_string)
    };
    let all = |out: &std::path::Path| {
        let start = [
            "run",
            "--name",
            &lab.name,
            "--launch",
            "mpi",
            "--per-host",
            "2",
            "--",
        ]
        .map(str::to_string);
        [start.to_vec(), words(out).to_vec()].concat()
    };
    let output = command(&all(&out)).output().unwrap();
    assert_eq!(
        output.status.code(),
        Some(20),
        "nothing to compare with: {output:?}"
    );
    let recorded = Recorded::read(&out).unwrap();
    let hosts: Vec<&str> = recorded
        .run
        .ranks
        .iter()
        .map(|record| record.host.as_str())
        .collect();
    assert_eq!(hosts, ["h0", "h0", "h1", "h1", "h2", "h2"]);
    assert!(
        recorded
            .run
            .launch
            .starts_with("6 processes on 3 hosts (Open MPI"),
        "{}",
        recorded.run.launch
    );

    std::fs::write(&suite, text("{ min = 100000, max = 100000 }")).unwrap();
    let out = folder.path().join("lost");
    let running = command(&all(&out))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    until("samples are recorded", || {
        std::fs::read_to_string(out.join("samples.jsonl")).is_ok_and(|text| text.lines().count() > 60)
    });
    // The ranks of a host, and not mpirun's own helper there: that would end everything at once.
    for record in Recorded::read(&out)
        .unwrap()
        .run
        .ranks
        .iter()
        .filter(|record| record.host == "h2")
    {
        kill(Pid::from_raw(record.pid as i32), Signal::SIGKILL).unwrap();
    }
    let output = running.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(21), "{output:?}");
    let judged = std::fs::read_to_string(out.join("findings.json")).unwrap();
    let judgement: record::Judgement = serde_json::from_str(&judged).unwrap();
    let lost = judgement
        .findings
        .iter()
        .find(|finding| finding.kind == FindingKind::LostRank);
    assert_eq!(lost.unwrap().place.hosts, ["h2"], "{judged}");
    assert!(!busy(&lab));
}

#[test]
fn rails_that_differ_between_hosts_are_named_before_anything_is_measured() {
    if !labs_can_be_made() {
        return;
    }
    let lab = TestLab::up(&["3x2", "--leaves", "1", "--spines", "1"]);
    lab.on("h2", "ip link set rail1 down");
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let output = lab.run("run", &["--", "run", "rails", "--out", out.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        said.contains("h2 has rail0; the other 2 hosts have rail0, rail1"),
        "{said}"
    );
}

#[test]
fn a_host_whose_clock_is_off_is_measured_like_the_others() {
    if !labs_can_be_made() {
        return;
    }
    let lab = TestLab::up(&["2x1", "--leaves", "1", "--spines", "1"]);
    lab.does("fault", &["clock:h1=+250ms"]);
    let folder = tempfile::tempdir().unwrap();
    let suite = folder.path().join("short.toml");
    let text = "name = \"short\"\n[run]\ntransport = \"tcp\"\n[rule]\nstraggler_factor = 1000\n[[test]]\nname = \"ring\"\ncollective = \"all-reduce\"\n\
        sizes = [\"64K\"]\nwarmup = 1\niterations = 8\n";
    std::fs::write(&suite, text).unwrap();
    let out = folder.path().join("out");
    let words = [
        "--",
        "run",
        suite.to_str().unwrap(),
        "--out",
        out.to_str().unwrap(),
    ];
    assert_eq!(
        lab.run("run", &words).status.code(),
        Some(20),
        "nothing to compare with"
    );
    let recorded = record::Recorded::read(&out).unwrap();
    let off = recorded
        .run
        .clocks
        .iter()
        .map(|clock| clock.offset_ns)
        .max()
        .unwrap();
    assert!(
        (240_000_000..260_000_000).contains(&off),
        "{:?}",
        recorded.run.clocks
    );
    // Both started at the agreed instant, each by its own clock: far closer together than the clocks are.
    let skews = recorded.events.iter().filter_map(|event| match event {
        Event::CellDone(done) => Some(done.max_skew_ns.0),
        _ => None,
    });
    assert!(skews.into_iter().all(|skew| skew < 200_000_000));
}

/// Every host's interface counters, read around every cell, against the bytes the schedule put on that rail: not one byte
/// less, and no more than headers and acknowledgements on top.
fn compare_counters(out: &std::path::Path) {
    let recorded = record::Recorded::read(out).unwrap();
    let mut compared = 0;
    for event in &recorded.events {
        let Event::Counter(counter) = event else { continue };
        if counter.name != "tx_bytes" {
            continue;
        }
        let done = recorded.events.iter().find_map(|event| match event {
            Event::CellDone(done) if (done.cell, done.round) == (counter.cell, counter.round) => Some(done),
            _ => None,
        });
        let done = done.unwrap();
        let sent = done.moved.iter().filter(|moved| moved.from == counter.rank);
        let per_iteration: u64 = sent
            .filter(|moved| moved.rail.as_ref() == Some(&counter.rail))
            .map(|moved| moved.bytes.0)
            .sum();
        let payload = per_iteration * u64::from(done.iterations);
        let counted = counter.after.unwrap() - counter.before.unwrap();
        let most = payload + payload / 20 + (64 << 10);
        assert!(
            (payload..=most).contains(&counted),
            "{counter:?}: {payload} bytes of payload"
        );
        compared += 1;
    }
    assert!(
        compared >= 2 * recorded.run.cells.len(),
        "both hosts in every cell"
    );
}

#[test]
fn a_whole_run_across_the_lab_keeps_its_traffic_on_the_rails() {
    if !labs_can_be_made() {
        return;
    }
    let lab = TestLab::up(&["2x2", "--leaves", "1", "--spines", "1"]);
    let folder = tempfile::tempdir().unwrap();
    let suite = folder.path().join("short.toml");
    let text = "name = \"short\"\n[run]\ntransport = \"tcp\"\n[rule]\nstraggler_factor = 1000\n[[test]]\nname = \"ring\"\nkind = \"rails\"\n\
        collective = \"all-reduce\"\nsizes = [\"256K\"]\nwarmup = 0\niterations = 6\n[test.expect]\npeers = \"50%\"\n";
    std::fs::write(&suite, text).unwrap();
    let out = folder.path().join("out");
    let management = || {
        lab.on("mgmt", "cat /sys/class/net/h1/statistics/rx_bytes")
            .trim()
            .parse::<u64>()
            .unwrap()
    };
    let rail = |rail: &str| lab.counter(&format!("{rail}-leaf0"), "p1", "rx_bytes");
    let before = (rail("rail0"), rail("rail1"), management());
    let arguments = [
        "--",
        "run",
        suite.to_str().unwrap(),
        "--out",
        out.to_str().unwrap(),
    ];
    let output = lab.run("run", &arguments);
    // A busy machine may leave a suspicion open; it must not accuse anybody.
    assert!(matches!(output.status.code(), Some(0 | 20)), "{output:?}");
    compare_counters(&out);
    // h1 sends 256 KiB per ring all-reduce of two ranks, at least 12 times on each rail.
    let least = 12 * (256 << 10);
    assert!(rail("rail0") - before.0 > least && rail("rail1") - before.1 > least);
    assert!(
        management() - before.2 < least / 4,
        "management carried {}",
        management() - before.2
    );
}
