//! Narrowing down: measure, find the suspects, measure what distinguishes them, until one is left.
//!
//! The measurer is a parameter: the ranks of a real run, or a simulated fabric. Held true: every step measures something that was
//! not measured before or confirms a suspect; there are at most [`MOST_STEPS`] steps, and as many more that only ask whether single
//! suspects are slow; no finding is made here; `findings` judges the record afterwards.

mod ambiguities;

use std::borrow::Cow;
use std::collections::HashMap;

use crate::adaptive::{Adaptive, Ambiguity};
use crate::flow::{Flow, PathTable, load_of};
use crate::line_rate::LineRates;
use judge::findings::{Element, Localisation, LostPackets, localise, lost_packets};
use record::{Cell, EndReason, LinkState, Load, Recorded};
use topology::graph::{Graph, LinkId};

pub use ambiguities::name_of;

/// More steps than this tell no suspects apart. As many more may ask whether one of them is slow at all: on noisy fabrics that takes many measurements.
pub const MOST_STEPS: usize = 8;

/// A question that was asked so often has no answer.
const MOST_ASKED: usize = 3;

/// A link that connections missed in so many searches may never be chosen.
const MOST_SOUGHT: usize = 2;

/// What is asked where no flow was slow, and some links were not crossed.
const UNTESTED: &str = "what do links carry that no connection has crossed?";

/// Measures cells and keeps the record.
pub trait Measurer {
    /// Why measuring failed.
    type Error;
    /// Measures cells that the record does not have yet, slot by slot. `why` is the question they answer.
    fn measure(&mut self, why: &str, cells: &[Cell]) -> Result<EndReason, Self::Error>;
    /// Everything recorded so far.
    fn recorded(&mut self) -> Result<Recorded, Self::Error>;
}

/// What is narrowed down, and on which fabric.
pub struct DiagnosisContext<'a> {
    /// The fabric.
    pub graph: &'a Graph,
    /// Which source port leads where.
    pub table: &'a PathTable,
    /// Name of the test whose cells these are.
    pub test: &'a str,
    /// Seed of every choice.
    pub seed: u64,
}

/// What is known before a step.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// Counted from 1; the first is what the opening showed.
    pub number: usize,
    /// Cells measured so far.
    pub measured: usize,
    /// Links in each direction that carried what they should, of how many.
    pub healthy: (usize, usize),
    /// The suspects: for every cause its parts, the likeliest first, and whether it is confirmed.
    pub suspects: Vec<(Vec<(String, f64)>, bool)>,
    /// Parts that were suspected before and are not any more.
    pub ruled_out: Vec<String>,
    /// Flows that were slow once and by chance.
    pub transient: usize,
    /// What will be measured next, in cells and slots; nothing when it is over.
    pub next: Option<(usize, usize)>,
}

/// How it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    /// Steps taken after the opening.
    pub steps: usize,
    /// Slots measured in them.
    pub slots: usize,
    /// Cells measured in them.
    pub cells: usize,
    /// Why it ended.
    pub end: EndReason,
}

/// Narrows down what slows the flows of a test whose opening was measured. `tell` hears what is known before every step.
pub fn narrow<B: Measurer>(
    measurer: &mut B,
    context: &DiagnosisContext<'_>,
    tell: &mut dyn FnMut(&Step),
) -> Result<Outcome, B::Error> {
    let mut outcome = Outcome {
        steps: 0,
        slots: 0,
        cells: 0,
        end: EndReason::Finished,
    };
    let mut recorded = measurer.recorded()?;
    let of_test = || recorded.run.cells.iter().filter(|cell| cell.test == context.test);
    let Some(template) = of_test()
        .find(|cell| !cell.load.is_filling())
        .or(of_test().next())
    else {
        return Ok(outcome);
    };
    let template = template.clone();
    let mut adaptive = resumed(context, &recorded);
    let mut suspected: Vec<Element> = Vec::new();
    let mut asked: HashMap<Ambiguity, usize> = HashMap::new();
    let mut sought: HashMap<LinkId, usize> = HashMap::new();
    for number in 1.. {
        let Some(seen) = localise(&recorded) else { break };
        let lost = lost_packets(&recorded);
        let of_losses = ambiguities::of_losses(&lost, &recorded).into_iter();
        let mut ambiguities = Vec::new();
        for (ambiguity, likeliest) in ambiguities::of(&seen, &recorded)
            .into_iter()
            .chain(of_losses.map(|ambiguity| (ambiguity, None)))
        {
            let question = Ambiguity {
                wanted: 0,
                ..ambiguity.clone()
            };
            let times = asked.entry(question).or_insert(0);
            *times += 1;
            // What was not told apart at once may take long: whether it is slow at all is asked beside it.
            if *times > 1 {
                ambiguities.extend(likeliest);
            }
            // Every draw adds to the evidence, however often it is the same question, and so does every measurement of a single suspect.
            if *times <= MOST_ASKED || ambiguity.by_draws || (ambiguity.wanted > 0 && ambiguity.parts() == 1)
            {
                ambiguities.push(ambiguity);
            }
        }
        if number > MOST_STEPS {
            let is_over = number > 2 * MOST_STEPS;
            let is_one = |ambiguity: &Ambiguity| ambiguity.parts() == 1 && !ambiguity.by_draws;
            ambiguities.retain(|ambiguity| !is_over && ambiguity.wanted > 0 && is_one(ambiguity));
        }
        let is_good = |link: LinkId| seen.lets_flows_pass(link) && seen.state(link) < LinkState::Suspected;
        let mut why = ambiguities::in_words(&ambiguities, context.graph);
        let mut slots = Vec::new();
        slots.extend(adaptive.narrowing(&ambiguities, is_good));
        if number <= MOST_STEPS {
            slots.extend(adaptive.again(to_repeat(&seen, &lost, &recorded, context)));
            let mut untested = seen.untested_between_switches();
            untested.retain(|link| {
                let times = sought.entry(*link).or_insert(0);
                *times += 1;
                *times <= MOST_SOUGHT
            });
            let further = adaptive.over_untested(&untested);
            if slots.is_empty() && !further.is_empty() {
                why = UNTESTED.to_string();
            }
            slots.extend(further);
        }
        let cells = cells_of(&slots, &template, &recorded, context);
        tell(&step(
            number,
            &seen,
            &recorded,
            context,
            &suspected,
            (cells.len(), slots.len()),
        ));
        if cells.is_empty() {
            break;
        }
        suspected = suspects_of(&seen);
        outcome.end = measurer.measure(&why, &cells)?;
        outcome.steps += 1;
        outcome.slots += slots.len();
        outcome.cells += cells.len();
        if outcome.end != EndReason::Finished {
            break;
        }
        recorded = measurer.recorded()?;
    }
    Ok(outcome)
}

/// Flows that were slow once although no link on their path is, or lost packets for an unknown reason: they are measured again unchanged, as often as it takes for one that is
/// always slow to be confirmed.
fn to_repeat(
    seen: &Localisation,
    lost: &LostPackets,
    recorded: &Recorded,
    context: &DiagnosisContext<'_>,
) -> Vec<Flow> {
    let measured = |place: &usize| {
        let wanted = &recorded.run.cells[*place];
        let is_same = |cell: &&Cell| {
            (&cell.ranks, &cell.rails, cell.source_port) == (&wanted.ranks, &wanted.rails, wanted.source_port)
        };
        recorded.run.cells.iter().filter(is_same).count()
    };
    let lossy = lost
        .places
        .iter()
        .copied()
        .filter(|place| measured(place) < MOST_ASKED);
    let cells = seen
        .slow_once()
        .into_iter()
        .chain(lossy)
        .filter_map(|place| recorded.run.cells.get(place));
    let of_test = cells.filter(|cell| cell.test == context.test);
    let flows = of_test.filter_map(|cell| Flow::of(cell, context.graph));
    let times = usize::from(recorded.run.rule.remeasure).max(1);
    flows.flat_map(|flow| vec![flow; times]).collect()
}

/// The schedule, knowing what was measured already.
fn resumed<'a>(context: &DiagnosisContext<'a>, recorded: &Recorded) -> Adaptive<'a> {
    let of_test = || recorded.run.cells.iter().filter(|cell| cell.test == context.test);
    let mut ranks: Vec<u32> = of_test().flat_map(|cell| cell.ranks.iter().copied()).collect();
    ranks.sort_unstable();
    ranks.dedup();
    let mut rails: Vec<String> = of_test().flat_map(|cell| cell.rails.iter().cloned()).collect();
    rails.sort_unstable();
    rails.dedup();
    let mut adaptive = Adaptive::new(context.graph, context.table, &ranks, &rails, context.seed);
    for cell in of_test() {
        if let Some(flow) = Flow::of(cell, context.graph) {
            adaptive.remember(&flow);
        }
    }
    adaptive
}

/// The cells of some slots, numbered after all that are recorded.
fn cells_of(
    slots: &[Vec<Flow>],
    template: &Cell,
    recorded: &Recorded,
    context: &DiagnosisContext<'_>,
) -> Vec<Cell> {
    let graph = context.graph;
    let known = &recorded.run.cells;
    let mut id = known.iter().map(|cell| cell.id).max().map_or(0, |last| last + 1);
    let first_slot = known
        .iter()
        .map(|cell| cell.slot)
        .max()
        .map_or(0, |last| last + 1);
    let mut cells = Vec::new();
    for (slot, flows) in (first_slot..).zip(slots) {
        // Flows that fill nothing are compared with those of the opening, however many share a slot.
        let load = match load_of(flows, graph, context.table) {
            filling if filling.is_filling() => filling,
            _ if template.load.is_filling() => Load::Together,
            _ => template.load,
        };
        for flow in flows {
            let cell = Cell {
                id,
                slot,
                load,
                ..template.clone()
            };
            cells.push(flow.as_cell(cell, graph));
            id += 1;
        }
    }
    LineRates::of(Cow::Borrowed(graph)).note(&mut cells);
    cells
}

fn suspects_of(seen: &Localisation) -> Vec<Element> {
    let suspects = seen.causes.iter().flat_map(|cause| &cause.suspects);
    suspects.map(|(element, _)| *element).collect()
}

fn step(
    number: usize,
    seen: &Localisation,
    recorded: &Recorded,
    context: &DiagnosisContext<'_>,
    before: &[Element],
    next: (usize, usize),
) -> Step {
    let of_test = recorded.run.cells.iter().filter(|cell| cell.test == context.test);
    let name = |element: &Element| name_of(*element, seen, &recorded.run);
    let states = seen.graph.links().map(|(link, _)| seen.state(link));
    let now = suspects_of(seen);
    Step {
        number,
        measured: of_test.count(),
        healthy: (
            states.filter(|state| *state == LinkState::Healthy).count(),
            seen.graph.link_count(),
        ),
        suspects: seen
            .causes
            .iter()
            .map(|cause| {
                let parts = cause
                    .suspects
                    .iter()
                    .map(|(element, share)| (name(element), *share));
                (parts.collect(), cause.confirmed)
            })
            .collect(),
        ruled_out: before
            .iter()
            .filter(|element| !now.contains(element))
            .map(name)
            .collect(),
        transient: seen.transient.len(),
        next: (next.0 > 0).then_some(next),
    }
}
