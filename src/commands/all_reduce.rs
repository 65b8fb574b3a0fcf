//! `railgauge all-reduce`: one collective over a range of sizes, with nccl-tests' flags and columns.
//!
//! Muscle memory and log scrapers must keep working: flags, column order and the two footer lines are nccl-tests'. The header
//! names the differences: times are medians of single, synchronised iterations instead of one mean, and the data of timed
//! iterations is checked. Wrong data and lost ranks have exit codes of their own.

use std::cell::RefCell;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};

use crate::error::CliError;
use crate::execution::execute_run;
use crate::flags::RunFlags;
use crate::launch::role::Role;
use crate::tables::nccl_tests::{self, CellRow, NcclTable};
use crate::terminal;
use engine::measure::{CellResult, Progress};
use plan::Plan;
use record::units::{Bytes, Nanos};
use record::{
    Algorithm, Cell, Collective, DType, Engine, FindingKind, Placement, ReduceOp, TestKind, exit_code,
};
use topology::suite::sweep::{Step, Sweep};
use topology::suite::{AlgorithmChoice, RunSettings, Striping, Suite, TestCase};

/// Below this size `auto` uses the tree, whose latency grows with the logarithm of the ranks.
const RING_FROM: Bytes = Bytes(256 << 10);

/// Which algorithm.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum AlgorithmFlag {
    /// The tree for small messages of more than two ranks, the ring otherwise.
    #[default]
    Auto,
    Ring,
    Tree,
    DoubleTree,
}

/// nccl-tests' flags, and ours.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  railgauge all-reduce -b 8 -e 64M -f 2 --ranks 2\n  \
railgauge all-reduce -b 1M -e 64M -f 4 --transport tcp --algorithm tree --percentiles\n\n\
Exit codes: 0 correct data; 20 incomplete; 21 hang or lost rank; 22 wrong data. Speed is not judged: use a suite for that."
)]
pub struct Arguments {
    /// Smallest size
    #[arg(short = 'b', long, value_name = "SIZE", default_value = "32M")]
    minbytes: Bytes,
    /// Largest size
    #[arg(short = 'e', long, value_name = "SIZE", default_value = "32M")]
    maxbytes: Bytes,
    /// Multiply the size by this from row to row
    #[arg(short = 'f', long, value_name = "N", conflicts_with = "stepbytes")]
    stepfactor: Option<u64>,
    /// Add this to the size from row to row [default: 1M]
    #[arg(short = 'i', long, value_name = "SIZE")]
    stepbytes: Option<Bytes>,
    /// Timed iterations of each size
    #[arg(short = 'n', long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    iters: u32,
    /// Iterations before timing starts
    #[arg(short = 'w', long, value_name = "N", default_value_t = 1)]
    warmup_iters: u32,
    /// Check the data of every n-th timed iteration; 0 checks none
    #[arg(short = 'c', long, value_name = "N", default_value_t = 1)]
    check: u32,
    /// Element type: f32 f64 f16 bf16 i32 i64 u32 u8, or NCCL's name, or all
    #[arg(short = 'd', long, value_name = "TYPE", default_value = "float", value_parser = nccl_tests::parse_types)]
    datatype: Types,
    /// Reduction: sum prod min max avg, or all
    #[arg(short = 'o', long, value_name = "OP", default_value = "sum", value_parser = nccl_tests::parse_ops)]
    op: Ops,
    /// End the run after so many seconds without progress
    #[arg(short = 'T', long, value_name = "SECONDS")]
    timeout: Option<u64>,
    /// Ranks per process, as nccl-tests counts threads; ranks are threads x gpus
    #[arg(short = 't', long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    nthreads: u32,
    /// Ranks per thread, as nccl-tests counts GPUs
    #[arg(short = 'g', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    ngpus: Option<u32>,
    /// Algorithm
    #[arg(long, value_enum, default_value_t)]
    algorithm: AlgorithmFlag,
    /// Time N collectives back to back, launches included, as nccl-tests does; reported times are per collective
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1000))]
    batch: u16,
    /// Add p50, p95, p99 and max of the out-of-place times
    #[arg(long)]
    percentiles: bool,
    #[command(flatten)]
    flags: RunFlags,
}

/// Element types of one run.
pub type Types = nccl_tests::OneOrAll<DType>;
/// Operators of one run.
pub type Ops = nccl_tests::OneOrAll<ReduceOp>;

/// Measures and prints.
pub fn run(arguments: &Arguments) -> Result<u8, CliError> {
    let flags = &arguments.flags;
    let role = match flags.launch.role()? {
        Role::Follower(follower) => return follower.take_part(),
        role => role,
    };
    let mut suite = arguments.suite(role.world())?;
    flags.apply_to(&mut suite, &role)?;
    let mut choices = flags.choices(&suite)?;
    choices.in_order = true;
    let (out, keep) = match &flags.out {
        Some(out) => (out.clone(), true),
        None => (scratch_folder(), false),
    };
    let printer = TablePrinter::new(arguments, suite.run.ranks());
    let executed = execute_run(&suite, role, flags, &choices, &out, &printer, &|plan| {
        printer.header(plan)
    });
    if !keep {
        discard(&out);
    }
    let executed = executed?;
    if flags.json {
        terminal::print_result(&executed.judgement, None, &executed.folder, true, false);
    } else {
        printer.footer();
    }
    let findings = executed.judgement.findings.iter();
    let serious = findings.filter(|finding| {
        matches!(
            finding.kind,
            FindingKind::Corruption
                | FindingKind::LostRank
                | FindingKind::SilentRail
                | FindingKind::IncompleteCoverage
                | FindingKind::Throttled
                | FindingKind::GpuErrors
                | FindingKind::Flap
        )
    });
    let mut code = executed.separate_worlds_code();
    for finding in serious {
        terminal::warn(&finding.sentence);
        code = exit_code::worst([code, finding.kind.exit_code()]);
    }
    Ok(code)
}

impl Arguments {
    /// The suite for `world` ranks that a launcher started, else for as many as the flags ask for.
    fn suite(&self, world: Option<u32>) -> Result<Suite, CliError> {
        let step = match (self.stepfactor, self.stepbytes) {
            (Some(factor), _) => Step::Factor(factor),
            (None, Some(bytes)) => Step::Add(bytes),
            (None, None) => Step::Add(Bytes(1 << 20)),
        };
        let sweep = Sweep::new(self.minbytes, self.maxbytes, step);
        let sizes = sweep
            .map_err(|error| CliError::Usage(format!("-b, -e, -f, -i: {error}")))?
            .sizes();
        let ranks = world
            .or(self.flags.ranks)
            .or(self.ngpus.map(|gpus| gpus * self.nthreads));
        let ranks = ranks.unwrap_or(if self.nthreads > 1 { self.nthreads } else { 2 });
        let (small, large): (Vec<Bytes>, Vec<Bytes>) = match self.algorithm {
            AlgorithmFlag::Auto if ranks > 2 => sizes.into_iter().partition(|size| *size < RING_FROM),
            _ => (Vec::new(), sizes),
        };
        let algorithm = match self.algorithm {
            AlgorithmFlag::Auto | AlgorithmFlag::Ring => Algorithm::Ring,
            AlgorithmFlag::Tree => Algorithm::Tree,
            AlgorithmFlag::DoubleTree => Algorithm::DoubleTree,
        };
        let parts = [
            ("small", small, Algorithm::Tree),
            ("all-reduce", large, algorithm),
        ];
        let parts = parts.into_iter().filter(|(_, sizes, _)| !sizes.is_empty());
        let tests = parts
            .map(|(name, sizes, algorithm)| self.test(name, sizes, algorithm))
            .collect();
        let mut suite = Suite::of("all-reduce", tests);
        suite.run = RunSettings {
            ranks: Some(ranks),
            deadline: self.timeout.map(Nanos::from_secs),
            rails: Some(vec![probe::rails::LOOPBACK_RAILS[0].to_string()]),
            ..RunSettings::default()
        };
        // Speed is not judged here, so nothing is measured again.
        suite.rule.remeasure = 0;
        Ok(suite)
    }

    fn test(&self, name: &str, sizes: Vec<Bytes>, algorithm: Algorithm) -> TestCase {
        TestCase {
            collectives: vec![Collective::AllReduce],
            algorithms: AlgorithmChoice::These(vec![algorithm]),
            dtypes: self.datatype.0.clone(),
            ops: self.op.0.clone(),
            placements: vec![Placement::OutOfPlace, Placement::InPlace],
            stripe: Striping::All,
            batch: self.batch,
            warmup: self.warmup_iters,
            min_iterations: self.iters,
            max_iterations: self.iters,
            budget: Nanos::from_secs(86_400),
            verify_every: self.check,
            ..TestCase::new(name, TestKind::Collective, sizes)
        }
    }
}

fn scratch_folder() -> PathBuf {
    std::env::temp_dir().join(format!("railgauge-{}", std::process::id()))
}

fn discard(folder: &Path) {
    if let Err(error) = std::fs::remove_dir_all(folder) {
        tracing::warn!(folder = %folder.display(), %error, "cannot remove a scratch folder");
    }
}

/// Prints rows as they are measured.
struct TablePrinter {
    percentiles: bool,
    silent: bool,
    /// Whether to warn about untested cells, because --engine was typed.
    warns_of_gaps: bool,
    ranks: u32,
    table: RefCell<NcclTable>,
}

impl TablePrinter {
    fn new(arguments: &Arguments, ranks: u32) -> TablePrinter {
        let silent = arguments.flags.json;
        TablePrinter {
            percentiles: arguments.percentiles,
            silent,
            warns_of_gaps: arguments.flags.engine.is_some(),
            ranks,
            table: RefCell::new(NcclTable::default()),
        }
    }

    fn header(&self, plan: &Plan) {
        for gap in plan.untested.iter().filter(|_| self.warns_of_gaps) {
            terminal::warn(format_args!("untested: {}: {}", gap.what, gap.why));
        }
        let Some(cell) = plan.cells.first().filter(|_| !self.silent) else {
            return;
        };
        let rails = if cell.rails.is_empty() {
            String::new()
        } else {
            format!(" on {}", cell.rails.join("+"))
        };
        let timed = match cell.batch {
            1 => "the median of single synchronised iterations".to_string(),
            batch => {
                format!(
                    "the median over batches of {batch} back to back, launches included, divided by {batch}"
                )
            }
        };
        let engines = plan.cells.iter().any(|cell| cell.engine != Engine::Ours);
        if engines {
            self.table.borrow_mut().name_engines();
        }
        println!(
            "# railgauge {} all-reduce: {} ranks over {}{rails}; time is {timed}",
            record::VERSION,
            self.ranks,
            cell.transport
        );
        print!("{}", nccl_tests::header(self.percentiles, engines));
    }

    fn footer(&self) {
        print!("{}", self.table.borrow().footer());
    }
}

impl Progress for TablePrinter {
    fn plan(&self, _cells: usize) {}

    fn slot(&self, _cells: &[&Cell], _round: u16) {}

    fn cell_done(&self, result: &CellResult<'_>) {
        let row = CellRow::of(result);
        if let Some(line) = self
            .table
            .borrow_mut()
            .add(row, self.percentiles)
            .filter(|_| !self.silent)
        {
            println!("{line}");
        }
    }

    fn note(&self, text: &str) {
        terminal::warn(text);
    }
}
