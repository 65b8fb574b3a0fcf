//! `lab demo`: a fabric, one bad cable, a run that names it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use signal_hook::consts::{SIGINT, SIGTERM};

use super::{Fault, Lab, LabError, LabName, Launch, Run, Shape, down, fault, run, up};
use record::exit_code::INCONCLUSIVE;
use record::units::Rate;
use record::{Finding, Judgement};

/// The cable that is degraded, and where it is.
const CABLE: &str = "h2-rail1-leaf1";
const HOST: &str = "h2";
const RAIL: &str = "rail1";
/// What is left of it, in percent.
const LEFT: f64 = 50.0;

/// Short, but with everything that names a cable: each rail alone, then every pair of hosts on it.
const SUITE: &str = r#"
name = "lab-demo"
description = "Each rail, then every pair of hosts"

[run]
transport = "tcp"
deadline = "20s"
budget = "40s"

[rule]
remeasure = 1

[[test]]
name = "rails"
kind = "rails"
collective = "all-reduce"
algorithm = "ring"
sizes = ["1M"]
source_port = 47000
warmup = 1
iterations = { min = 6, max = 8 }
budget = "2s"
[test.expect]
peers = "15%"

[[test]]
name = "pairs"
kind = "pairs"
sizes = ["512K"]
directions = "one-way"
source_port = 48000
warmup = 1
iterations = { min = 6, max = 8 }
budget = "1s"
[test.expect]
peers = "15%"
"#;

/// Takes the demo's lab down, however the demo ends.
struct Guard(LabName);

impl Drop for Guard {
    fn drop(&mut self) {
        if let Err(error) = down(&self.0) {
            eprintln!(
                "railgauge: {error}; remove what is left with: railgauge lab down --name {}",
                self.0
            );
        }
    }
}

/// Builds a fabric, degrades a cable, runs, and tears down; 0 when the run named the cable's host and rail.
pub fn demo() -> Result<u8, LabError> {
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&interrupted))
            .map_err(LabError::system("cannot listen for signals"))?;
    }
    let started = Instant::now();
    let name: LabName = format!("demo-{}", std::process::id()).parse()?;
    // Twice the rate between switches: flows that happen to share a spine then share no shortage.
    let shape = Shape {
        uplink: Rate(50e6),
        ..Shape::parse("4x2")?
    };
    println!("Building a fabric in a box: {}.", shape.describe());
    let guard = Guard(name.clone());
    let lab = up(&name, &shape)?;
    println!("Degrading one cable, {CABLE}, to {LEFT} % of its rate in both directions.");
    let slow = Fault::SlowCable {
        cable: CABLE.to_string(),
        percent: LEFT,
    };
    fault(&name, &[slow])?;
    if interrupted.load(Ordering::Relaxed) {
        return Ok(INCONCLUSIVE);
    }
    println!(
        "Running a short suite on all {} hosts; it knows nothing of the fault.\n",
        shape.hosts
    );
    let out = lab.folder().path().join("demo-run");
    let code = run(&lab, &suite_run(&lab, &out)?)?;
    let findings = read_findings(&out);
    drop(guard);
    println!();
    if interrupted.load(Ordering::Relaxed) {
        println!("Interrupted; the lab is gone.");
        return Ok(INCONCLUSIVE);
    }
    let seconds = started.elapsed().as_secs_f64();
    let wrong: Vec<&Finding> = findings
        .iter()
        .filter(|finding| accuses_the_innocent(finding))
        .collect();
    for finding in &wrong {
        println!("Wrongly accused: {}", finding.sentence);
    }
    match findings.iter().find(|finding| names_the_cable(finding)) {
        Some(finding) if wrong.is_empty() => {
            println!("Found on {RAIL}: {}", finding.sentence);
            println!("That is the degraded cable, {CABLE}. The lab is gone; all of it took {seconds:.0} s.");
            Ok(0)
        }
        None if wrong.is_empty() && code == INCONCLUSIVE => {
            println!(
                "The run is inconclusive after {seconds:.0} s: this machine was too busy to compare speeds. Try again when it is quiet."
            );
            Ok(INCONCLUSIVE)
        }
        _ => {
            println!(
                "The run (exit code {code}) did not name {HOST} on {RAIL} and nothing else: the demo failed after {seconds:.0} s."
            );
            Ok(1)
        }
    }
}

fn suite_run(lab: &Lab, out: &Path) -> Result<Run, LabError> {
    let suite: PathBuf = lab.folder().path().join("demo.toml");
    lab.folder().write(&suite, SUITE)?;
    Ok(Run {
        launch: Launch::Env,
        per_host: 1,
        respawn: None,
        program: None,
        arguments: vec!["run".into(), suite.into(), "--out".into(), out.into()],
        built_with_mpi: false,
    })
}

fn read_findings(out: &Path) -> Vec<Finding> {
    let text = std::fs::read(out.join("findings.json")).unwrap_or_default();
    Judgement::from_json(&text)
        .map(|judgement| judgement.findings)
        .unwrap_or_default()
}

/// Whether a finding points at the degraded cable: its rail, its host, and no other host.
fn names_the_cable(finding: &Finding) -> bool {
    finding.place.rail.as_deref() == Some(RAIL) && finding.place.hosts == [HOST]
}

/// Whether a finding accuses what is healthy: another rail, or another host alone.
fn accuses_the_innocent(finding: &Finding) -> bool {
    let place = &finding.place;
    let other_host = place.hosts.len() == 1 && place.hosts != [HOST];
    place.rail.as_deref().is_some_and(|rail| rail != RAIL) || other_host
}
