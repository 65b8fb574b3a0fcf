//! Suite x fabric: the cells to measure, in order, and what stays unmeasured.
//!
//! A plan is a pure function of suite, fabric, choices and seed: the same four give the same plan, cell for cell. Whatever
//! was asked for and is not in the plan is in `untested` with the reason, or is an error; nothing is dropped or replaced
//! silently. Cells of one slot run at the same time and never share an end of a rail, but for those that show how it is shared.

pub mod adaptive;
pub mod baseline;
#[cfg(test)]
mod burn_in_tests;
mod congestion;
pub mod diagnose;
mod ecmp;
mod engines;
mod error;
pub mod estimate;
mod fairness;
pub mod filter;
pub mod fit;
pub mod flow;
pub mod fresh_streams;
mod groups;
pub mod interleave;
mod layout;
pub mod line_rate;
mod outline;
mod pairs;
pub mod placement;
pub mod power;
pub mod probes;
mod references;
pub mod remeasure;
pub mod replan;
pub mod schedule;
mod schedule_costs;
pub mod traffic;
mod transport;
pub mod twin;
mod verbs;

pub use error::PlanError;
pub use filter::{Filter, FilterError};
pub use outline::{Outline, TestOutline};
pub use schedule_costs::{ScheduleCost, ScheduleOutline, schedules};

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use record::units::{Nanos, Rate};
use record::{
    Cell, DecisionRule, DeviceKind, NcclRecord, ProbeFlow, Reference, TestKind, TestRecord, TransportKind,
    Untested,
};
use topology::Fabric;
use topology::Topology;
use topology::graph::{Graph, Miswiring, UnusedCable};
use topology::suite::{EngineChoice, Suite, TestCase, TransportChoice, nearest, spec};

use baseline::Baseline;
use engines::NcclAvailability;
use flow::PathTable;
use layout::TestLayout;
use line_rate::LineRates;
use placement::{ControlFlow, Placements};
use references::References;

/// What the command line decides about a plan; it wins over the suite.
#[derive(Debug, Clone, Default)]
pub struct Choices {
    /// The transport of every test.
    pub transport: Option<TransportChoice>,
    /// The engines of every test.
    pub engine: Option<EngineChoice>,
    /// What the ranks' NCCL is, or why it cannot be used; none when that is not known.
    pub nccl: Option<Result<NcclRecord, String>>,
    /// Whether the ranks can use RDMA, or why not; none when that is not known.
    pub verbs: Option<Result<(), String>>,
    /// Whether their NICs can use the memory of their GPUs, or why not; none when that is not known.
    pub gpudirect: Option<Result<(), String>>,
    /// The rails to use, by name.
    pub rails: Option<Vec<String>>,
    /// The cells to measure.
    pub only: Option<Filter>,
    /// `auto` or the id of the expected-rate row every test over rails is compared with.
    pub spec: Option<String>,
    /// Recorded runs that tests are compared with, by the names the suite gives them.
    pub baselines: BTreeMap<String, Baseline>,
    /// Which cable is where and how fast it should be, where the operator says so.
    pub topology: Option<Topology>,
    /// Hosts, switches or cables that adaptive tests look at; everything when none is named.
    pub focus: Vec<String>,
    /// The fabric as a graph and the paths through it, as far as they are known.
    pub known: FabricKnowledge,
    /// Whether cells run in the order of their sizes instead of a seeded one.
    pub in_order: bool,
    /// Whether all ranks are in one process, so that they can share memory.
    pub same_process: bool,
    /// Whether every two ranks use each other's GPU memory where it is.
    pub direct: bool,
}

/// What is known of the fabric's paths when ranks have met.
#[derive(Debug, Clone, Default)]
pub struct FabricKnowledge {
    /// The topology as a graph.
    pub graph: Option<Arc<Graph>>,
    /// Which source port leads over which path.
    pub paths: Arc<PathTable>,
    /// How switches choose among equal paths.
    pub placements: Placements,
    /// Cables that are elsewhere than the topology file says.
    pub miswiring: Miswiring,
    /// Cables that no traced flow takes.
    pub unused: Vec<UnusedCable>,
    /// Flows that carry nothing and are traced again during a run, to see whether paths stay.
    pub controls: Vec<ControlFlow>,
}

impl Choices {
    /// The fabric as a graph, where its cables are known.
    fn graph(&self, fabric: &Fabric) -> Option<Arc<Graph>> {
        let of_file = |topology: &Topology| Graph::of(topology, &fabric.ranks).ok().map(Arc::new);
        let known = self.known.graph.clone();
        known.or_else(|| self.topology.as_ref().and_then(of_file))
    }
}

impl FabricKnowledge {
    /// The fabric's graph; where nothing is known of it, every rail is one switch.
    pub fn graph_or_inferred(&self, ranks: &[record::RankRecord]) -> Arc<Graph> {
        let known = self.graph.clone();
        known.unwrap_or_else(|| Arc::new(Graph::inferred(ranks)))
    }

    /// Whether packets of these ranks are sprayed over a rail.
    fn is_sprayed(&self, ranks: &[u32], rail: &str) -> bool {
        let is_sprayed = |graph: &Graph, rank: &u32| self.paths.is_sprayed(graph, *rank, rail);
        let graph = self.graph.as_deref();
        graph.is_some_and(|graph| ranks.iter().any(|rank| is_sprayed(graph, rank)))
    }

    /// Whether packets are sprayed over any rail.
    fn is_any_sprayed(&self, fabric: &Fabric) -> bool {
        let mut rails = fabric
            .ranks
            .iter()
            .flat_map(|rank| rank.rails.iter().map(move |end| (rank.rank, &end.rail)));
        rails.any(|(rank, rail)| self.is_sprayed(&[rank], rail))
    }

    /// What the slowest cable of a host should carry, when a topology says so.
    fn slowest(&self) -> Option<Rate> {
        let graph = self.graph.as_ref()?;
        let rates = graph
            .links()
            .filter(|(_, link)| link.is_host)
            .map(|(_, link)| link.rate);
        rates
            .filter(|rate| rate.0 > 0.0)
            .min_by(|a, b| a.0.total_cmp(&b.0))
    }
}

/// What will be measured, in order.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The suite's tests with their references resolved.
    pub tests: Vec<TestRecord>,
    /// The cells in the order in which they run. Ids and slots count over the whole plan, so that `--only cell=17` means the
    /// same cell every time: after `--only` they have gaps, and `id` is not an index into this list.
    pub cells: Vec<Cell>,
    /// What stays unmeasured, and why.
    pub untested: Vec<Untested>,
    /// How verdicts are reached.
    pub rule: DecisionRule,
    /// Seed of patterns and order.
    pub seed: u64,
    /// Longest any single wait may take.
    pub deadline: Nanos,
    /// Longest the whole run may take.
    pub budget: Option<Nanos>,
    /// Per test of kind `probe` whose suite says so: how many flows cross every link.
    pub flows_per_link: BTreeMap<String, u16>,
    /// Flows of probes whose paths were traced and that are not sent: more of them are sent where it is open which link loses packets.
    pub spare_probes: Vec<ProbeFlow>,
    /// What links are assumed to carry when time is estimated: what the slowest cable of a host should, where that is known.
    pub wire: Rate,
}

impl Plan {
    /// Plans `suite` on `fabric`. The suite's run settings are those of the run: merge the command line into them first.
    pub fn new(suite: &Suite, fabric: &Fabric, choices: &Choices) -> Result<Plan, PlanError> {
        let device = one_device(fabric)?;
        let specs = spec::entries()?;
        let mut rng = ChaCha8Rng::seed_from_u64(suite.run.seed());
        let mut plan = Plan {
            tests: Vec::new(),
            cells: Vec::new(),
            untested: Vec::new(),
            rule: suite.rule.clone(),
            seed: suite.run.seed(),
            deadline: suite.run.deadline(),
            budget: suite.run.budget,
            flows_per_link: BTreeMap::new(),
            spare_probes: Vec::new(),
            wire: choices.known.slowest().unwrap_or(estimate::RATE),
        };
        let graph = choices.graph(fabric);
        let lines = LineRates::of_fabric(fabric, graph.as_deref());
        let mut slots = 0;
        // It is no gap that nothing is sprayed.
        let is_wanted = |test: &&TestCase| {
            test.kind != TestKind::Probe
                || !test.probe.sprayed_only
                || choices.focus.is_empty() && choices.known.is_any_sprayed(fabric)
        };
        for test in suite.tests.iter().filter(is_wanted) {
            let transport = transport::of(test, suite, device, fabric, choices, &mut plan.untested)?;
            let terms = verbs::terms(&test.name, transport, device, suite, choices, &mut plan.untested)?;
            let rails = rails_of(test, transport, fabric, choices, &mut plan.untested)?;
            let references = References {
                fabric,
                specs: &specs,
                transport,
                rails: &rails,
                topology: choices.topology.as_ref(),
                lines: &lines,
            };
            plan.tests.push(references.resolve(test, choices.spec.as_deref()));
            let per_link = test.probe.flows_per_link.filter(|_| test.kind == TestKind::Probe);
            plan.flows_per_link
                .extend(per_link.map(|flows| (test.name.clone(), flows)));
            let mut layout = TestLayout {
                test,
                fabric,
                transport,
                device,
                verbs: terms,
                rails: &rails,
                known: &choices.known,
                focus: &choices.focus,
                seed: suite.run.seed(),
                untested: &mut plan.untested,
            };
            let mut laid_out = layout.slots()?;
            if choices.in_order {
                laid_out.sort_by_key(|slot| {
                    slot.first()
                        .map(|cell| (cell.dtype, cell.op, cell.size, Reverse(cell.placement)))
                });
            } else {
                laid_out.shuffle(&mut rng);
            }
            let engine = choices.engine.or(test.engine).unwrap_or(suite.run.engine());
            let mut left_out = Vec::new();
            let nccl = NcclAvailability {
                fabric,
                rails: &rails,
                nccl: choices.nccl.as_ref(),
            };
            let planned = engines::per_engine(laid_out, engine, &nccl, |cell, why| {
                left_out.push((cell.collective, why));
            });
            for (collective, why) in left_out {
                note(
                    &mut plan.untested,
                    format!("test `{}`: {collective} by NCCL", test.name),
                    why,
                );
            }
            for slot in planned {
                for cell in slot {
                    let id = plan.cells.len() as u32;
                    plan.cells.push(Cell {
                        id,
                        slot: slots,
                        ..cell
                    });
                }
                slots += 1;
            }
        }
        if let Some(filter) = &choices.only {
            plan.keep_only(filter, fabric)?;
        }
        check_coresidency(&plan, fabric)?;
        lines.note(&mut plan.cells);
        references::name_missing_peers(&mut plan.tests, &plan.cells);
        let unread = Baseline::default();
        for test in &mut plan.tests {
            let named = test.references.iter().find_map(|reference| match reference {
                Reference::Baseline { run, .. } => Some(choices.baselines.get(run).unwrap_or(&unread)),
                _ => None,
            });
            if let Some(baseline) = named {
                baseline.resolve(test, &plan.cells, fabric);
            }
        }
        Ok(plan)
    }

    /// A cell by its id.
    pub fn cell(&self, id: u32) -> Option<&Cell> {
        let at = self.cells.binary_search_by_key(&id, |cell| cell.id).ok()?;
        self.cells.get(at)
    }

    /// The slots in order, each with the cells that run at the same time.
    pub fn slots(&self) -> impl Iterator<Item = &[Cell]> {
        self.cells.chunk_by(|a, b| a.slot == b.slot)
    }

    /// Keeps the slots with a matching cell, whole: a measurement of all rails together is none without the others.
    fn keep_only(&mut self, filter: &Filter, fabric: &Fabric) -> Result<(), PlanError> {
        let slots = self.slots();
        let kept = slots.filter(|slot| slot.iter().any(|cell| filter.matches(cell, fabric)));
        let kept: Vec<Cell> = kept.flatten().cloned().collect();
        if kept.is_empty() {
            return Err(PlanError::NothingLeft {
                filter: filter.to_string(),
                there_is: filter.what_there_is(&self.cells, fabric),
            });
        }
        let count = |cells: &[Cell], test: &str| cells.iter().filter(|cell| cell.test == test).count();
        for test in &self.tests {
            let (before, after) = (count(&self.cells, &test.name), count(&kept, &test.name));
            if after < before {
                self.untested.push(Untested {
                    what: format!("{} of {before} cells of test `{}`", before - after, test.name),
                    why: format!("left out by --only {filter}"),
                });
            }
        }
        self.tests.retain(|test| count(&kept, &test.name) > 0);
        self.cells = kept;
        Ok(())
    }
}

fn one_device(fabric: &Fabric) -> Result<DeviceKind, PlanError> {
    let first = fabric.ranks.first().ok_or(PlanError::NoRanks)?.device;
    match fabric.ranks.iter().find(|record| record.device != first) {
        None => Ok(first),
        Some(other) => Err(PlanError::MixedDevices(format!(
            "{} on {}, {} on {}",
            first,
            fabric.rank_name(fabric.ranks[0].rank),
            other.device,
            fabric.rank_name(other.rank)
        ))),
    }
}

/// The rails a test runs over; none for a transport without rails. Rails that stay unused are noted.
fn rails_of(
    test: &TestCase,
    transport: TransportKind,
    fabric: &Fabric,
    choices: &Choices,
    untested: &mut Vec<Untested>,
) -> Result<Vec<String>, PlanError> {
    if !transport.has_rails() {
        return Ok(Vec::new());
    }
    let common = fabric.common_rails();
    let mut lacks = Vec::new();
    for partial in fabric.partial_rails() {
        let who: Vec<String> = partial
            .lacking
            .iter()
            .map(|rank| fabric.rank_name(*rank))
            .collect();
        let why = format!("missing on {}", who.join(", "));
        lacks.push(format!("rail {} is {why}", partial.rail));
        note(untested, format!("rail {}", partial.rail), why);
    }
    if common.is_empty() {
        let why = if lacks.is_empty() {
            "no rank names one".to_string()
        } else {
            lacks.join("; ")
        };
        return Err(PlanError::NoRail {
            test: test.name.clone(),
            why,
        });
    }
    let Some(chosen) = &choices.rails else {
        return Ok(common.into_iter().map(String::from).collect());
    };
    if let Some(unknown) = chosen.iter().find(|rail| !common.contains(&rail.as_str())) {
        let near = nearest(unknown, common.iter().copied()).map(|near| format!("; did you mean `{near}`?"));
        return Err(PlanError::UnknownRail {
            rail: unknown.clone(),
            suggestion: format!("there are {}{}", common.join(", "), near.unwrap_or_default()),
        });
    }
    let (used, unused): (Vec<&str>, Vec<&str>) = common
        .into_iter()
        .partition(|rail| chosen.iter().any(|name| name == rail));
    for rail in unused {
        note(untested, format!("rail {rail}"), "left out by --rails");
    }
    Ok(used.into_iter().map(String::from).collect())
}

/// Adds to what stays untested, once.
fn note(untested: &mut Vec<Untested>, what: impl Into<String>, why: impl Into<String>) {
    let entry = Untested {
        what: what.into(),
        why: why.into(),
    };
    if !untested.contains(&entry) {
        untested.push(entry);
    }
}

/// Refuses a plan with a slot whose kernels are not co-resident on a GPU: a kernel that waits for one which has not started,
/// because there is no room for it, waits forever. Every rank needs room for one thread block at least.
fn check_coresidency(plan: &Plan, fabric: &Fabric) -> Result<(), PlanError> {
    plan.slots()
        .try_for_each(|slot| check_slot_coresidency(slot, fabric))
}

fn check_slot_coresidency(slot: &[Cell], fabric: &Fabric) -> Result<(), PlanError> {
    let mut kernels: BTreeMap<&str, (u32, u32)> = BTreeMap::new();
    let kernels_of = |cell: &&Cell| cell.collective.is_scheduled();
    let ranks = slot.iter().filter(kernels_of).flat_map(|cell| &cell.ranks);
    for gpu in ranks.filter_map(|rank| fabric.rank(*rank)?.gpu.as_ref()) {
        let (_, ranks) = kernels.entry(&gpu.uuid).or_insert((gpu.blocks, 0));
        *ranks += 1;
    }
    let overfull = kernels.iter().find(|(_, (blocks, ranks))| ranks > blocks);
    match (overfull, slot.first()) {
        (Some((gpu, (blocks, ranks))), Some(cell)) => Err(PlanError::NotTogether {
            test: cell.test.clone(),
            gpu: gpu.to_string(),
            ranks: *ranks,
            blocks: *blocks,
        }),
        _ => Ok(()),
    }
}
