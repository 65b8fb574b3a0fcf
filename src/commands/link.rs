//! `railgauge link`: one link over RDMA, with perftest's tests, flags and columns.

use std::path::Path;

use clap::Args;

use crate::error::CliError;
use crate::flags::rdma::RdmaFlags;
use crate::launch::LaunchFlags;
use crate::launch::ranks::start_ranks;
use crate::launch::role::Role;
use crate::signals::interrupt_flag;
use crate::tables::perftest::{LinkPrinter, TableStyle};
use crate::terminal;
use engine::measure::{LinkJob, LinkResult, Session, Setup};
use engine::transport::verbs;
use engine::transport::verbs::stream::{
    Check, Extent, LARGEST, OFFSETS, Operation, StreamConfig, Trial, TrialKind,
};
use probe::rdma;
use probe::sysfs;
use record::units::{Bytes, Nanos};
use record::{DeviceKind, MemoryPath, RailEnd};
use topology::suite::sweep::{Step, Sweep};
use topology::suite::{GpuDirectChoice, RunSettings};

/// Bytes of memory that all queue pairs of one end may take.
const MAX_MEMORY: u64 = 8 << 30;
/// The sizes of perftest's `-a`.
const ALL_SIZES: (Bytes, Bytes) = (Bytes(2), Bytes(8 << 20));

/// perftest's flags, and ours.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  railgauge link --loopback                         this host's NICs, each looped back to itself\n  \
railgauge lab run -- railgauge link -s 4K,64K,1M -q 4   write bandwidth from the first rank to the last\n  \
railgauge link --latency --op send -s 8 --rank 0 --world 2 --rendezvous h0:29400   (and --rank 1 on the other host)\n\n\
Exit codes: 0 measured, data correct; 3 no RDMA; 20 interrupted; 21 the link broke; 22 wrong data. Speed is not judged: use a \
suite for that."
)]
pub struct Arguments {
    /// RDMA operation: write, send or read
    #[arg(long, value_name = "OP", default_value_t)]
    op: Operation,
    /// Measure latency: one message at a time, there and back
    #[arg(long)]
    latency: bool,
    /// Both directions at once
    #[arg(short, long, conflicts_with = "latency")]
    bidirectional: bool,
    /// Message sizes: a list (4K,64K,1M) or a range of doublings (2..8M) [default: 64K; 8 for latency]
    #[arg(short, long, value_name = "SIZES", value_parser = parse_sizes)]
    size: Option<Sizes>,
    /// All sizes from 2 to 8M, like perftest's -a
    #[arg(short, long, conflicts_with = "size")]
    all: bool,
    /// Queue pairs
    #[arg(short, long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    qps: u16,
    /// Messages of each size on every queue pair [default: 5000; 1000 for latency]
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    iterations: Option<u64>,
    /// Measure each size for this long, such as 10s
    #[arg(short = 'D', long, value_name = "DUR", conflicts_with = "iterations")]
    duration: Option<Nanos>,
    /// Outstanding requests on every queue pair
    #[arg(short, long, value_name = "N", default_value_t = 128, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    tx_depth: u32,
    /// Send messages up to this size inline [default: 0; 220 for latency]
    #[arg(short = 'I', long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(0..=1024))]
    inline: Option<u32>,
    /// Offset of messages within a page
    #[arg(long, value_name = "BYTES", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..i64::from(OFFSETS)))]
    offset: u32,
    /// Which data is verified: last (after the last message) or every (each message; needs --latency, and counts in its times)
    #[arg(long, value_name = "WHICH", default_value_t)]
    check: Check,
    /// UDP source port of the first queue pair, 49152 to 65535; the others and those of the other rank follow
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(49_152..))]
    source_port: Option<u16>,
    /// The two ranks to measure; the others are idle [default: the first and the last]
    #[arg(long, value_name = "A:B", value_parser = parse_pair)]
    pair: Option<(u32, u32)>,
    /// Measure this host's devices: two queue pairs of one device, connected to each other
    #[arg(long, conflicts_with = "pair")]
    loopback: bool,
    /// Print perftest's columns and units, in which a MB has 2^20 bytes
    #[arg(long)]
    perftest: bool,
    /// Rails to measure, as NAME=ADDRESS, NAME=SUBNET, address, interface or RDMA device, separated by commas
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    rails: Option<Vec<String>>,
    /// Run the two ranks of this machine as processes instead of threads
    #[arg(long)]
    procs: bool,
    /// Seed of the data
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Longest any single wait may take
    #[arg(long, value_name = "DUR", default_value = "20s")]
    deadline: Nanos,
    #[command(flatten)]
    rdma: RdmaFlags,
    #[command(flatten)]
    launch: LaunchFlags,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// Sizes of messages.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Sizes(Vec<Bytes>);

/// Measures and prints.
pub fn run(arguments: &Arguments) -> Result<u8, CliError> {
    arguments.check()?;
    let role = match arguments.loopback {
        true => Role::Local,
        false => arguments.launch.role()?,
    };
    if let Role::Follower(follower) = role {
        return follower.take_part();
    }
    if matches!(role, Role::Local) {
        verbs::probe().map_err(|missing| CliError::Environment(missing.to_string()))?;
    }
    let settings = arguments.settings(&role)?;
    let interrupted = interrupt_flag()?;
    let started = start_ranks(role, &settings, &interrupted)?;
    let setup = Setup {
        rails: settings.rails.clone().unwrap_or_default(),
        device: DeviceKind::Host,
        largest: Bytes(0),
        nccl: false,
        verbs: true,
        gid_index: arguments.rdma.gid_index,
        faults: Vec::new(),
        deadline: arguments.deadline,
        data_port: settings.data_port,
    };
    let mut session = Session::set_up(started.coordinator, setup, started.exit_lookup, interrupted)?;
    let result = arguments.measure(&mut session);
    session.quit();
    drop((session, started.threads));
    if let Some(mpi) = started.mpi {
        mpi.leave(matches!(result, Ok(0 | 22)));
    }
    result
}

impl Arguments {
    /// Refuses combinations that cannot be measured.
    fn check(&self) -> Result<(), CliError> {
        let refuse = |problem: &str| Err(CliError::Usage(problem.to_string()));
        if self.check == Check::Every && (!self.latency || self.op == Operation::Read) {
            return refuse(
                "--check every verifies messages one at a time; add --latency, with --op write or send",
            );
        }
        if self.latency && self.qps > 1 {
            return refuse("--latency has one outstanding message, so one queue pair; leave --qps out");
        }
        if self.rdma.gpudirect == Some(GpuDirectChoice::On) {
            return refuse("--gpudirect on: `link` measures with CPU memory only");
        }
        if self.deadline < Nanos(100_000_000) {
            return refuse("--deadline must be at least 100ms");
        }
        if self
            .sizes()
            .iter()
            .any(|size| *size == Bytes(0) || *size > LARGEST)
        {
            return refuse("--size: a message must have 1 byte to 256 MiB");
        }
        let terms = self.terms();
        let memory = 3 * terms.area() as u64 * u64::from(self.qps);
        if memory > MAX_MEMORY {
            return refuse(
                "--size times --qps takes more than 8 GiB of memory at each end; reduce one of them",
            );
        }
        if self.source_port.is_some() && terms.source_port(true, self.qps - 1).is_none() {
            return refuse("--source-port: the ports of both ends' queue pairs exceed 65535; start lower");
        }
        Ok(())
    }

    fn sizes(&self) -> Vec<Bytes> {
        match &self.size {
            Some(Sizes(sizes)) => sizes.clone(),
            None if self.all => doublings(ALL_SIZES.0, ALL_SIZES.1),
            None if self.latency => vec![Bytes(8)],
            None => vec![Bytes(64 << 10)],
        }
    }

    fn question(&self) -> TrialKind {
        match (self.latency, self.bidirectional) {
            (true, _) => TrialKind::Latency,
            (false, true) => TrialKind::Bidirectional,
            (false, false) => TrialKind::Bandwidth,
        }
    }

    fn terms(&self) -> StreamConfig {
        StreamConfig {
            queue_pairs: self.qps,
            depth: self.tx_depth,
            inline: self.inline.unwrap_or(if self.latency { 220 } else { 0 }),
            source_port: self.source_port,
            verbs: self.rdma.settings().terms(MemoryPath::Host),
            largest: self.sizes().into_iter().max().unwrap_or_default(),
            offset: self.offset,
            deadline: self.deadline,
        }
    }

    fn trials(&self) -> Vec<Trial> {
        let iterations = self.iterations.unwrap_or(if self.latency { 1000 } else { 5000 });
        let extent = match self.duration {
            Some(time) => Extent::Lasting(time),
            None => Extent::Iterations(iterations),
        };
        let trial = |(number, size): (u64, &Bytes)| Trial {
            operation: self.op,
            question: self.question(),
            size: *size,
            extent,
            check: self.check,
            // Both ends identify a trial by its seed.
            seed: self.seed.wrapping_add(number.wrapping_mul(0x9e37_79b9_7f4a_7c15)),
        };
        (0..).zip(&self.sizes()).map(trial).collect()
    }

    /// Ranks and rails.
    fn settings(&self, role: &Role) -> Result<RunSettings, CliError> {
        let mut settings = RunSettings {
            ranks: Some(2),
            procs: Some(self.procs),
            rails: self.rails.clone(),
            deadline: Some(self.deadline),
            join_deadline: self.launch.join_deadline,
            data_port: self.launch.data_port,
            ..RunSettings::default()
        };
        role.apply_to(&mut settings, self.rails.is_some());
        if matches!(role, Role::Local) && self.rails.is_none() {
            settings.rails = Some(devices_here()?);
        }
        Ok(settings)
    }

    /// Measures every rail, one after the other; the exit code.
    fn measure(&self, session: &mut Session) -> Result<u8, CliError> {
        let world = session.fabric().ranks.len() as u32;
        let (first, second) = self.pair.unwrap_or((0, world.saturating_sub(1)));
        if first == second || first.max(second) >= world {
            let problem = format!(
                "--pair {first}:{second}: the ranks are 0 to {}, and the two must differ",
                world.saturating_sub(1)
            );
            return Err(CliError::Usage(problem));
        }
        let rails = self.rails_between(session, first, second)?;
        let style = if self.perftest {
            TableStyle::Perftest
        } else {
            TableStyle::Ours
        };
        let mut printer = LinkPrinter::new(self.json, style);
        let mut broken = None;
        for rail in rails {
            let job = LinkJob {
                rail: rail.rail.clone(),
                first,
                second,
                terms: self.terms(),
                trials: self.trials(),
            };
            printer.header(&self.title(session, &job), self.question());
            match session.link(&job, &mut printer)? {
                LinkResult::Complete => {}
                LinkResult::Interrupted => return Ok(20),
                LinkResult::Broken(reason) => {
                    terminal::warn(&reason);
                    broken = Some(reason);
                    break;
                }
            }
        }
        Ok(printer.finish(broken))
    }

    /// The rails on which both ranks have an RDMA device. An error if there is none, or if a named rail has none.
    fn rails_between(&self, session: &Session, first: u32, second: u32) -> Result<Vec<RailEnd>, CliError> {
        session.verbs().clone().map_err(CliError::Environment)?;
        let fabric = session.fabric();
        let ends = |rank: u32| fabric.rank(rank).map_or(&[][..], |record| &record.rails[..]);
        let lacks = |rail: &RailEnd| {
            [first, second].into_iter().find(|rank| {
                let end = ends(*rank).iter().find(|end| end.rail == rail.rail);
                end.is_none_or(|end| end.rdma.is_none())
            })
        };
        let mut usable = Vec::new();
        for rail in ends(first) {
            match lacks(rail) {
                None => usable.push(rail.clone()),
                Some(rank) if self.rails.is_some() => {
                    let problem = format!("{} has no RDMA device on {}", rail.rail, fabric.rank_name(rank));
                    return Err(CliError::Environment(problem));
                }
                Some(_) => {}
            }
        }
        match usable.is_empty() {
            true => Err(CliError::Environment(format!(
                "no rail has an RDMA device on both {} and {}",
                fabric.rank_name(first),
                fabric.rank_name(second)
            ))),
            false => Ok(usable),
        }
    }

    /// The test and its two ends in one line.
    fn title(&self, session: &Session, job: &LinkJob) -> String {
        let fabric = session.fabric();
        let end = |rank: u32| {
            let record = fabric.rank(rank);
            let rail = record.and_then(|record| record.rails.iter().find(|end| end.rail == job.rail));
            let port = rail.and_then(|end| end.rdma.as_ref());
            let device = port.map_or_else(String::new, |port| format!(" {} port {}", port.device, port.port));
            format!("{}{device}", fabric.rank_name(rank))
        };
        let arrow = if self.bidirectional { "<->" } else { "->" };
        let plural = if self.qps == 1 { "" } else { "s" };
        format!(
            "# railgauge {} link: RDMA {} {} on {}, {} {arrow} {}; {} queue pair{plural}, depth {}",
            record::VERSION,
            self.op,
            self.question(),
            job.rail,
            end(job.first),
            end(job.second),
            self.qps,
            self.tx_depth,
        )
    }
}

/// The active RDMA ports of this host, as rails.
fn devices_here() -> Result<Vec<String>, CliError> {
    let ports = rdma::ports(Path::new(sysfs::SYS));
    let active: Vec<String> = ports
        .iter()
        .filter(|port| port.is_active())
        .map(|port| match port.number {
            1 => port.device.clone(),
            number => format!("{}:{number}", port.device),
        })
        .collect();
    match active.is_empty() {
        true => Err(CliError::Environment(
            "no RDMA port of this host is active; check cables and interfaces with `rdma link`".to_string(),
        )),
        false => Ok(active),
    }
}

fn doublings(from: Bytes, to: Bytes) -> Vec<Bytes> {
    Sweep::new(from, to, Step::Factor(2)).map_or_else(|_| vec![from], |sweep| sweep.sizes())
}

fn parse_sizes(text: &str) -> Result<Sizes, String> {
    let size = |text: &str| text.trim().parse::<Bytes>().map_err(|error| error.to_string());
    let mut sizes = Vec::new();
    for part in text.split(',') {
        match part.split_once("..") {
            Some((from, to)) => {
                let (from, to) = (size(from)?, size(to)?);
                if from > to || from == Bytes(0) {
                    return Err(format!("`{part}` is not an ascending range; write it as 2..8M"));
                }
                sizes.extend(doublings(from, to));
            }
            None => sizes.push(size(part)?),
        }
    }
    Ok(Sizes(sizes))
}

fn parse_pair(text: &str) -> Result<(u32, u32), String> {
    let two = text.split_once(':');
    let two = two.and_then(|(first, second)| Some((first.parse().ok()?, second.parse().ok()?)));
    two.ok_or_else(|| "write two ranks as 0:1".to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_typed_as_lists_and_ranges() {
        let sizes =
            |text: &str| parse_sizes(text).map(|Sizes(sizes)| sizes.iter().map(|size| size.0).collect());
        assert_eq!(sizes("4K,64K"), Ok(vec![4096, 65_536]));
        assert_eq!(sizes("1..8,3"), Ok(vec![1, 2, 4, 8, 3]));
        let all: Vec<u64> = sizes("2..8M").unwrap();
        assert_eq!((all.len(), all[0], all[22]), (23, 2, 8 << 20));
        for wrong in ["", "8..2", "0..4", "x", "4K,"] {
            assert!(parse_sizes(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_pair_is_two_ranks() {
        assert_eq!(parse_pair("3:0"), Ok((3, 0)));
        for wrong in ["3", "3:", "a:b", "1:2:3"] {
            assert!(parse_pair(wrong).is_err(), "{wrong}");
        }
    }
}
