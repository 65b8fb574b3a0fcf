//! `railgauge diagnose`: find the slow cable without a suite: start wide, narrow down, name the suspect.

use clap::Args;

use crate::error::CliError;
use crate::execution::execute_run;
use crate::flags::RunFlags;
use crate::launch::role::Role;
use crate::progress;
use crate::run_folders::default_folder;
use crate::terminal;
use record::units::{Bytes, Nanos};
use record::{DecisionRule, Placement, TestKind};
use topology::Topology;
use topology::suite::{
    Directions, Expectation, ProbeSettings, Schedule, SpecChoice, Suite, TestCase, TransportChoice, nearest,
};

/// Name of its test, and of the one that is added where packets are sprayed.
const TEST: &str = "links";
const PROBES: &str = "losses";
/// Sets of probes there: each of some seconds.
const SETS: u16 = 8;
/// Duration of a message: long enough that a loss of an eighth of the rate is well above the noise, bursts of a shaper included.
const SECONDS_PER_MESSAGE: f64 = 0.12;
const SMALLEST: u64 = 1 << 20;
const LARGEST: u64 = 256 << 20;
/// Message size when no topology file gives the rate of links.
const DEFAULT_SIZE: u64 = 64 << 20;
/// Margin below the peers: half of the smallest loss to find.
const MARGIN: f64 = 0.10;

/// What to look at.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  srun -N16 railgauge diagnose --topology fabric.toml\n  \
railgauge diagnose --topology fabric.toml --suspect node12 --rail rail3\n  \
railgauge lab run -- diagnose\n\nEvery cable is crossed twice in each direction, by flows that share no other link. Slow \
flows are measured again with other partners until one part is left that explains them."
)]
pub struct Arguments {
    /// Test only the cables of this host or switch, or this cable; may be given several times
    #[arg(long, value_name = "NAME")]
    suspect: Vec<String>,
    /// Test only this rail; may be given several times
    #[arg(long, value_name = "RAIL")]
    rail: Vec<String>,
    /// Payload of every flow [default: what the links move in 120 ms]
    #[arg(long, value_name = "SIZE")]
    size: Option<Bytes>,
    #[command(flatten)]
    flags: RunFlags,
}

/// Plans, measures, narrows down, judges, reports.
pub fn run(arguments: &Arguments) -> Result<u8, CliError> {
    let flags = &arguments.flags;
    let role = match flags.launch.role()? {
        Role::Follower(follower) => return follower.take_part(),
        role => role,
    };
    let topology = flags.topology()?;
    let mut suite = suite(arguments.size, topology.as_ref());
    flags.apply_to(&mut suite, &role)?;
    let mut choices = flags.choices(&suite)?;
    choices.focus = arguments.suspect.clone();
    if !arguments.rail.is_empty() {
        choices.rails = Some(arguments.rail.clone());
    }
    if let Some(topology) = &topology {
        arguments
            .suspect
            .iter()
            .try_for_each(|name| check_suspect(topology, name))?;
    }
    let out = flags.out.clone().unwrap_or_else(|| default_folder(&suite.name));
    let progress = progress::for_stderr(flags.quiet || flags.json);
    let executed = execute_run(&suite, role, flags, &choices, &out, progress.as_ref(), &|plan| {
        progress.plan(plan.cells.len());
    })?;
    drop(progress);
    terminal::print_result(
        &executed.judgement,
        None,
        &executed.folder,
        flags.json,
        flags.quiet,
    );
    Ok(executed.exit_code())
}

/// The suite that `diagnose` runs.
pub(super) fn suite(size: Option<Bytes>, topology: Option<&Topology>) -> Suite {
    let size = size.unwrap_or_else(|| default_size(topology));
    let mut test = TestCase::new(TEST, TestKind::Pairs, vec![size]);
    test.directions = Directions::OneWay;
    test.collectives = Directions::OneWay.collectives().to_vec();
    test.schedule = Schedule::Adaptive;
    test.placements = vec![Placement::OutOfPlace];
    test.warmup = 1;
    test.min_iterations = 8;
    test.max_iterations = 16;
    test.tight = 0.03;
    test.budget = Nanos::from_secs(3);
    test.verify_every = 4;
    test.expect = Expectation {
        spec: topology.map(|_| SpecChoice::Auto),
        peers: Some(MARGIN),
        ..Expectation::default()
    };
    let mut probes = TestCase::new(PROBES, TestKind::Probe, vec![ProbeSettings::SIZE]);
    probes.probe = ProbeSettings {
        sets: SETS,
        sprayed_only: true,
        ..ProbeSettings::default()
    };
    let mut suite = Suite::of("diagnose", vec![test, probes]);
    suite.description = "Every cable in each direction, then flows that separate the suspects".to_string();
    suite.run.transport = Some(TransportChoice::Auto);
    suite.rule = DecisionRule {
        remeasure: 2,
        ..DecisionRule::default()
    };
    suite
}

/// What the slowest cable of a host moves in 120 ms.
fn default_size(topology: Option<&Topology>) -> Bytes {
    let rates = topology
        .into_iter()
        .flat_map(|topology| &topology.links)
        .map(|link| link.rate.0)
        .filter(|rate| *rate > 0.0);
    match rates.reduce(f64::min) {
        Some(rate) => {
            let bytes = (rate * SECONDS_PER_MESSAGE) as u64;
            // In eighths of the next power of two: at most a quarter longer than it has to be, and a size that reads well.
            let step = (bytes.next_power_of_two() / 8).max(1);
            Bytes(bytes.next_multiple_of(step).clamp(SMALLEST, LARGEST))
        }
        None => Bytes(DEFAULT_SIZE),
    }
}

/// Refuses a name that no host, switch or cable of the topology has.
fn check_suspect(topology: &Topology, name: &str) -> Result<(), CliError> {
    let hosts = topology.hosts.iter().map(|host| host.name.as_str());
    let switches = topology.switches.iter().map(|switch| switch.name.as_str());
    let cables = topology.links.iter().map(|link| link.name.as_str());
    let mut known = hosts.chain(switches).chain(cables);
    if known.clone().any(|other| other == name) {
        return Ok(());
    }
    let near = nearest(name, &mut known).map(|near| format!("; did you mean `{near}`?"));
    Err(CliError::Usage(format!(
        "--suspect {name}: the topology file has no such host, switch or cable{}",
        near.unwrap_or_default()
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::units::Rate;
    use topology::{Link, Port};

    #[test]
    fn a_message_takes_hardly_longer_than_it_has_to() {
        let size = |rate: f64| {
            let port = |node: &str| Port {
                node: node.to_string(),
                interface: "p0".to_string(),
            };
            let link = Link {
                name: "cable".to_string(),
                ends: [port("h0"), port("leaf0")],
                rate: Rate(rate),
                rail: None,
                addresses: None,
            };
            let topology = Topology {
                links: vec![link],
                ..Topology::default()
            };
            default_size(Some(&topology)).0
        };
        for megabytes in 9..2000 {
            let (rate, wanted) = (f64::from(megabytes) * 1e6, f64::from(megabytes) * 12e4);
            let share = size(rate) as f64 / wanted;
            assert!((1.0..=1.25).contains(&share), "{megabytes} MB/s: {share}");
        }
        assert_eq!(size(50e9), LARGEST);
        assert_eq!(size(1e3), SMALLEST);
        assert_eq!(default_size(None).0, DEFAULT_SIZE);
    }
}
