//! One test of a suite after checking, with the defaults filled in.

use std::fmt;
use std::str::FromStr;

use strum::{Display, EnumString, IntoEnumIterator, VariantNames};

use super::{EcmpSettings, EngineChoice, ProbeSettings, TrafficSettings, TransportChoice};
use record::units::{Bytes, Nanos};
use record::{Algorithm, Collective, DType, GroupKind, Placement, ReduceOp, TestKind};

/// Which algorithms run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum AlgorithmChoice {
    /// Each collective's first.
    #[default]
    First,
    /// Every one there is.
    All,
    /// These; they exist for every collective of the test.
    These(Vec<Algorithm>),
}

/// Which ranks run a collective with each other. Groups run one after another.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Groups {
    /// All of them.
    #[default]
    World,
    /// Neighbours: 0 with 1, 2 with 3, ...
    Pairs,
    /// The lower half, then the upper half.
    Halves,
    /// As listed.
    Listed(Vec<Vec<u32>>),
}

/// How a collective uses several rails.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Striping {
    /// Each rail by itself, so that rails can be compared.
    #[default]
    Each,
    /// Each rail by itself, and the payload striped over all of them.
    EachAndAll,
    /// The payload striped over all of them only.
    All,
}

/// Which pairs are measured, and which of them at the same time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Schedule {
    /// Every pair, in rounds of disjoint pairs.
    #[default]
    Tournament,
    /// So many rounds of seeded random pairs.
    Random(u32),
    /// Pairs on one leaf, pairs across leaves, over every spine: every cable is crossed, none by more than it carries.
    Topology,
    /// The same where a topology is known; where none is, a few rounds of seeded random pairs, which cross every cable of a host.
    Cover,
    /// Every cable a few times, then the pairs that distinguish the suspects.
    Adaptive,
}

impl fmt::Display for Schedule {
    /// As a suite file says it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Schedule::Tournament => f.write_str("tournament"),
            Schedule::Random(rounds) => write!(f, "random = {rounds}"),
            Schedule::Topology => f.write_str("topology"),
            Schedule::Cover => f.write_str("cover"),
            Schedule::Adaptive => f.write_str("adaptive"),
        }
    }
}

impl FromStr for Schedule {
    type Err = String;

    /// As the command line says it: `tournament`, `random=8`, `topology`, `cover`, `adaptive`.
    fn from_str(text: &str) -> Result<Schedule, String> {
        match text.split_once('=') {
            None => match text {
                "tournament" => Ok(Schedule::Tournament),
                "topology" => Ok(Schedule::Topology),
                "cover" => Ok(Schedule::Cover),
                "adaptive" => Ok(Schedule::Adaptive),
                _ => Err(Schedule::KNOWN.to_string()),
            },
            Some((word, rounds)) if word.trim() == "random" => match rounds.trim().parse() {
                Ok(rounds) if (1..=Schedule::MOST_ROUNDS).contains(&rounds) => Ok(Schedule::Random(rounds)),
                _ => Err(format!("random takes 1 to {} rounds", Schedule::MOST_ROUNDS)),
            },
            Some(_) => Err(Schedule::KNOWN.to_string()),
        }
    }
}

impl Schedule {
    /// Whether it chooses the path of every flow, so that paths are discovered first.
    pub fn needs_paths(self) -> bool {
        matches!(self, Schedule::Topology | Schedule::Cover | Schedule::Adaptive)
    }

    /// The most rounds of random pairs.
    pub const MOST_ROUNDS: u32 = 10_000;
    /// What there is.
    const KNOWN: &str = "known are tournament, random=ROUNDS, topology, cover, adaptive";
}

/// In which directions a pair is measured.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Display, EnumString, VariantNames)]
#[strum(serialize_all = "kebab-case")]
pub enum Directions {
    /// Each direction by itself.
    OneWay,
    /// Both directions at the same time.
    Bidirectional,
    /// Each direction by itself, then both at the same time.
    #[default]
    Both,
}

impl Directions {
    /// What the two ranks of a pair do.
    pub fn collectives(self) -> &'static [Collective] {
        match self {
            Directions::OneWay => &[Collective::PointToPoint],
            Directions::Bidirectional => &[Collective::Bidirectional],
            Directions::Both => &[Collective::PointToPoint, Collective::Bidirectional],
        }
    }
}

/// Whether the two ranks of a pair use the same rail.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Display, EnumString, VariantNames)]
#[strum(serialize_all = "kebab-case")]
pub enum RailPairing {
    /// Both use the same one.
    #[default]
    Same,
    /// Each uses another one.
    Cross,
    /// The same one, then each another one.
    Both,
}

impl RailPairing {
    /// Whether pairs on one rail are measured.
    pub fn has_same(self) -> bool {
        self != RailPairing::Cross
    }

    /// Whether pairs across rails are measured.
    pub fn has_cross(self) -> bool {
        self != RailPairing::Same
    }
}

/// Which expected rate a test is compared with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SpecChoice {
    /// The row for the link speed of the rails.
    Auto,
    /// The row with this id.
    Row(String),
}

/// A recorded run that a test is compared with.
#[derive(Debug, Clone, PartialEq)]
pub struct BaselineChoice {
    /// Its folder.
    pub run: String,
    /// Accepted distance below it (0.05 = 5 %).
    pub margin: f64,
}

/// What a test's speed is compared with. Without any, its verdict is `inconclusive`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Expectation {
    /// An absolute figure.
    pub spec: Option<SpecChoice>,
    /// Accepted distance below peers of the same run (0.1 = 10 %).
    pub peers: Option<f64>,
    /// The same cells of a recorded run.
    pub baseline: Option<BaselineChoice>,
}

/// One test of a suite.
#[derive(Debug, Clone, PartialEq)]
pub struct TestCase {
    /// Unique name.
    pub name: String,
    /// What it is about.
    pub kind: TestKind,
    /// What is done; for pairs this follows from `directions`.
    pub collectives: Vec<Collective>,
    /// How it is done.
    pub algorithms: AlgorithmChoice,
    /// Payloads, before rounding to whole elements.
    pub sizes: Vec<Bytes>,
    /// Element types.
    pub dtypes: Vec<DType>,
    /// Reduction operators, for the collectives that reduce.
    pub ops: Vec<ReduceOp>,
    /// In place, out of place or both.
    pub placements: Vec<Placement>,
    /// What carries the bytes, if it is not left to the run.
    pub transport: Option<TransportChoice>,
    /// The engine that runs the cells, if it is not left to the run.
    pub engine: Option<EngineChoice>,
    /// Collectives run back to back and timed as one.
    pub batch: u16,
    /// Which ranks run a collective together.
    pub groups: Groups,
    /// Which groups of the fabric run, in a test of kind `groups`.
    pub fabric_groups: Vec<GroupKind>,
    /// Ranks that send to one in an incast, at most; all that are left when it is not said.
    pub senders: Option<u32>,
    /// Whether the payload is striped over rails.
    pub stripe: Striping,
    /// Connections per peer and rail.
    pub flows: u16,
    /// First of the pinned source ports, when they are pinned.
    pub source_port: Option<u16>,
    /// Position of the root within its group.
    pub root: u32,
    /// In which directions a pair is measured.
    pub directions: Directions,
    /// Whether the two ranks of a pair use the same rail.
    pub pairing: RailPairing,
    /// Which pairs are measured.
    pub schedule: Schedule,
    /// Iterations before timing starts.
    pub warmup: u32,
    /// At least this many timed iterations.
    pub min_iterations: u32,
    /// At most this many.
    pub max_iterations: u32,
    /// Half width of the interval over the median at which a cell is done.
    pub tight: f64,
    /// Time budget of one cell.
    pub budget: Nanos,
    /// The data of every n-th timed iteration is checked; 0 = never.
    pub verify_every: u32,
    /// What its speed is compared with.
    pub expect: Expectation,
    /// Its streams, in a test of kind `ecmp`.
    pub ecmp: EcmpSettings,
    /// Its probes, in a test of kind `probe`.
    pub probe: ProbeSettings,
    /// Its patterns, in a test of kind `permutation`.
    pub traffic: TrafficSettings,
}

impl TestCase {
    /// The most collectives that are timed as one.
    pub const MOST_IN_A_BATCH: u16 = 1000;

    /// A test with everything left at its default.
    pub fn new(name: impl Into<String>, kind: TestKind, sizes: Vec<Bytes>) -> TestCase {
        TestCase {
            name: name.into(),
            kind,
            collectives: match kind {
                TestKind::Collective | TestKind::Rails | TestKind::Groups => vec![Collective::AllReduce],
                TestKind::Pairs => Directions::default().collectives().to_vec(),
                TestKind::Latency => vec![Collective::RoundTrip],
                TestKind::Incast => vec![Collective::Incast],
                TestKind::AllToAll => vec![Collective::AllToAll],
                TestKind::Ecmp | TestKind::Fairness | TestKind::Permutation => vec![Collective::Streams],
                TestKind::Probe => vec![Collective::Probes],
            },
            algorithms: AlgorithmChoice::default(),
            sizes,
            dtypes: vec![if kind == TestKind::Probe {
                DType::U8
            } else {
                DType::F32
            }],
            ops: vec![ReduceOp::Sum],
            placements: vec![Placement::OutOfPlace],
            transport: None,
            engine: None,
            batch: 1,
            groups: Groups::default(),
            stripe: Striping::default(),
            // Several, so that no sender depends on one path.
            flows: if kind == TestKind::Fairness { 4 } else { 1 },
            source_port: None,
            root: 0,
            directions: Directions::default(),
            pairing: RailPairing::default(),
            schedule: Schedule::default(),
            fabric_groups: GroupKind::iter().collect(),
            senders: None,
            // Streams need a while to share fairly, and are watched for a while.
            warmup: match kind {
                TestKind::Ecmp | TestKind::Fairness | TestKind::Permutation => 1,
                TestKind::Probe => 0,
                _ => 3,
            },
            // A 99th percentile takes hundreds of samples.
            min_iterations: match kind {
                TestKind::Latency => 200,
                TestKind::Ecmp => 6,
                TestKind::Fairness | TestKind::Permutation | TestKind::Probe => 3,
                _ => 10,
            },
            max_iterations: match kind {
                TestKind::Latency => 2000,
                TestKind::Ecmp => 6,
                TestKind::Fairness | TestKind::Permutation | TestKind::Probe => 3,
                _ => 200,
            },
            tight: 0.02,
            budget: Nanos::from_secs(match kind {
                TestKind::Ecmp | TestKind::Fairness | TestKind::Permutation | TestKind::Probe => 10,
                _ => 2,
            }),
            // Datagrams carry checksums: what is damaged does not arrive.
            verify_every: if kind == TestKind::Probe { 0 } else { 1 },
            expect: Expectation::default(),
            ecmp: EcmpSettings::default(),
            probe: ProbeSettings::default(),
            traffic: TrafficSettings::default(),
        }
    }

    /// Whether it chooses flows by the paths that they take, so that paths are discovered first.
    pub fn needs_paths(&self) -> bool {
        self.schedule.needs_paths() || self.kind == TestKind::Permutation
    }

    /// The algorithms that run for one of its collectives.
    pub fn algorithms_of(&self, collective: Collective) -> &[Algorithm] {
        let exist = collective.algorithms();
        match &self.algorithms {
            AlgorithmChoice::First => &exist[..1],
            AlgorithmChoice::All => exist,
            AlgorithmChoice::These(these) => these,
        }
    }

    /// The operators that run for one of its collectives: a single one where nothing is reduced.
    pub fn ops_of(&self, collective: Collective) -> &[ReduceOp] {
        if collective.reduces() {
            &self.ops
        } else {
            &[ReduceOp::Sum]
        }
    }

    /// What is measured per group of ranks and set of rails: every combination of its lists.
    pub fn combinations(&self) -> usize {
        let variants: usize = self
            .collectives
            .iter()
            .map(|collective| self.algorithms_of(*collective).len() * self.ops_of(*collective).len())
            .sum();
        variants * self.dtypes.len() * self.placements.len() * self.sizes.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_do_not_multiply_measurements_that_reduce_nothing() {
        let mut test = TestCase::new("t", TestKind::Collective, vec![Bytes(8), Bytes(64)]);
        test.collectives = vec![Collective::AllReduce, Collective::AllGather];
        test.ops = vec![ReduceOp::Sum, ReduceOp::Max];
        test.algorithms = AlgorithmChoice::All;
        assert_eq!(test.combinations(), 2 * (3 * 2 + 1));
    }
}
