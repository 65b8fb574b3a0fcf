//! Which parts lose packets, by what TCP counted of every flow (docs/loss.md).
//!
//! `flows` lists what every flow lost and what it crossed, `model` finds the parts that explain it, this file decides which of them are accused, and `detector`
//! says so, with what `optics` knows of the cable.

mod detector;
mod flows;
mod model;
mod open;
mod optics;
mod over_cycles;
mod ratios;
mod readings;
pub(super) mod summary;
mod tally;

#[cfg(test)]
mod model_tests;
#[cfg(test)]
mod over_cycles_tests;
#[cfg(test)]
mod probe_tests;
#[cfg(test)]
mod tests;

pub(crate) use detector::percent;
pub(super) use detector::{LossyLink, SlowHop};
pub use open::OpenProbes;
pub(crate) use over_cycles::{FlowOfCycles, LossOverCycles, Outcome, parts_that_lose};
pub(crate) use readings::probe_readings;

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use super::localise::{ALIKE, Element, Elements, SUREST, fabric_of, uplinks_alike};
use super::summary::CellSummary;
use flows::{LossFlow, flows};
use model::{LossyPart, Model};
use open::Questions;
use record::stats::expected_of;
use record::text;
use record::units::Nanos;
use record::{Event, Question, Recorded, Run, Suspect};
use topology::graph::{Graph, LinkId};

/// A part that is less likely than this among all that explain the same is not accused, unless the others are alike.
const LEAST_SHARE: f64 = 0.3;
/// A suspect that is less sure than this is worth more probes.
const TOLD_APART: f64 = 0.9;
/// Loss in fewer slots is no fault of a part: something may have disturbed one.
const FEWEST_SLOTS: usize = 2;

/// A second is late in which a packet waited so many times longer than the worst of a second usually does. On a busy machine many seconds are a little late, and what is very late
/// stands out of them: each is looked at, at its share of the budget.
const LATE: [u64; 3] = [4, 16, 64];

/// What may happen to flows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Symptom {
    /// Packets are lost.
    Lost,
    /// Packets wait so many times longer than usual, now and then, with nobody else on the wire.
    Late(u64),
}

/// Segments lost, of those sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Lost {
    pub(super) lost: u64,
    pub(super) sent: u64,
}

impl Lost {
    /// Of flows, of each of which a share is meant.
    fn of<'f>(flows: impl Iterator<Item = (&'f LossFlow, f64)>) -> Lost {
        flows.fold(Lost::default(), |sum, (flow, share)| Lost {
            lost: sum.lost + flow.lost,
            sent: sum.sent + (flow.segments as f64 * share) as u64,
        })
    }

    fn share(self) -> f64 {
        self.lost as f64 / self.sent.max(1) as f64
    }
}

/// A part that loses packets.
#[derive(Debug, Clone)]
pub struct LossCause {
    /// The suspects, the likeliest first, with confidences that add up to less than 1.
    pub suspects: Vec<(Element, f64)>,
    /// Places in the plan of the cells whose flows it explains.
    pub places: Vec<usize>,
    /// Slots in which they lost packets.
    pub slots: usize,
    /// Different far ends of those flows.
    pub partners: usize,
    /// How likely losses like these are if it is healthy, corrected for all parts.
    pub p_value: f64,
    /// How many parts the correction covers.
    pub family: usize,
    /// The share of its packets that it loses: most likely, at least and at most.
    pub share: (f64, f64, f64),
    /// Whether the first suspect stands out, or is one of several cables that are alike.
    pub is_clear: bool,
    /// Why it is not accused, where it is not.
    pub why_not: Option<String>,
    /// What flows over it lost.
    pub(super) over_it: Lost,
    /// What is counted: segments, packets or seconds.
    pub(super) unit: &'static str,
    /// The longest that a packet over it waited, where that is what is looked at.
    pub(super) waited: Nanos,
}

/// What a run says about lost packets.
#[derive(Default)]
pub(super) struct PacketLoss {
    /// Parts that lose more than chance explains, the surest first.
    pub(super) causes: Vec<LossCause>,
    /// What flows over none of them lost.
    pub(super) elsewhere: Lost,
    /// Places in the plan of cells that are worth measuring again: they lost packets, and why is open.
    pub(super) suspected: BTreeSet<usize>,
    /// Links that could explain what is open about probes, the likeliest first.
    open_links: Vec<LinkId>,
    /// The same by question.
    questions: Questions,
    /// Flows that lose packets whenever they are measured, which no part explains: sender, receiver, and how often.
    persistent: Vec<((u32, u32), usize)>,
    /// What was looked for, and what a wrong accusation may cost.
    symptom: Option<Symptom>,
    budget: f64,
    /// The fabric; none where nothing was lost.
    fabric: Option<Fabric>,
}

/// Read once for losses and stalls: that of a large fabric takes a second.
type Fabric = Arc<(Graph, Elements)>;

/// Whether any segment or probe of any flow was lost.
pub(super) fn is_any_lost(recorded: &Recorded) -> bool {
    recorded.events.iter().any(|event| match event {
        Event::CellDone(done) => {
            done.tcp.iter().any(|flow| flow.lost() > 0) || done.probes.iter().any(|flow| flow.losses() > 0)
        }
        _ => false,
    })
}

/// Whether there were probes.
fn has_probes(recorded: &Recorded) -> bool {
    recorded.run.cells.iter().any(|cell| cell.probes.is_some())
}

impl PacketLoss {
    /// Looks for parts that lose packets.
    fn lost(recorded: &Recorded, summaries: &[CellSummary<'_>], fabric: &OnceCell<Fabric>) -> PacketLoss {
        if !is_any_lost(recorded) {
            return PacketLoss::default();
        }
        let fabric = fabric.get_or_init(|| Arc::new(fabric_of(recorded)));
        let found = PacketLoss::by(Symptom::Lost, budget(recorded), recorded, summaries, fabric);
        PacketLoss {
            fabric: Some(Arc::clone(fabric)),
            ..found
        }
    }

    /// Parts that lose packets, and parts that hold them up.
    pub(super) fn both(recorded: &Recorded, summaries: &[CellSummary<'_>]) -> [PacketLoss; 2] {
        let fabric = OnceCell::new();
        [
            PacketLoss::lost(recorded, summaries, &fabric),
            PacketLoss::late(recorded, summaries, &fabric),
        ]
    }

    /// Looks for parts that hold packets up: whatever is late, and what is very late. What shows more parts counts, or shows them more surely.
    fn late(recorded: &Recorded, summaries: &[CellSummary<'_>], fabric: &OnceCell<Fabric>) -> PacketLoss {
        if !has_probes(recorded) {
            return PacketLoss::default();
        }
        let fabric = fabric.get_or_init(|| Arc::new(fabric_of(recorded)));
        let budget = budget(recorded) / LATE.len() as f64;
        let looks =
            LATE.map(|times| PacketLoss::by(Symptom::Late(times), budget, recorded, summaries, fabric));
        let shown = |look: &PacketLoss| {
            let surest = look.confirmed().map(|cause| cause.p_value).fold(1.0, f64::min);
            (look.confirmed().count(), -surest)
        };
        let better = |best: PacketLoss, next: PacketLoss| {
            let ((some, sure), (more, surer)) = (shown(&best), shown(&next));
            match more > some || more == some && surer > sure {
                true => next,
                false => best,
            }
        };
        let best = looks.into_iter().reduce(better).unwrap_or_default();
        PacketLoss {
            fabric: Some(Arc::clone(fabric)),
            ..best
        }
    }

    fn by(
        symptom: Symptom,
        budget: f64,
        recorded: &Recorded,
        summaries: &[CellSummary<'_>],
        fabric: &(Graph, Elements),
    ) -> PacketLoss {
        let (graph, elements) = fabric;
        let flows = flows(recorded, summaries, symptom, graph, elements);
        let mut model = Model::new(&flows);
        let parts = model.parts(|part| elements.prior(part));
        let hosts = HostOfRank::of(&recorded.run, &flows);
        let elsewhere = Lost::of(model.unaccounted().map(|flow| (flow, 1.0)));
        let unexplained = model.unexplained();
        let all = AllFlows {
            flows: &flows,
            hosts: &hosts,
            symptom,
            budget,
            family: model.family(),
            elsewhere,
        };
        let cause = |part: &LossyPart| cause(part, &all, (graph, elements), recorded);
        let causes: Vec<LossCause> = parts.iter().map(cause).collect();
        let open = causes.iter().filter(|cause| cause.why_not.is_some());
        let of_open = open.flat_map(|cause| cause.places.iter().copied());
        let suspected = of_open.chain(unexplained.iter().map(|flow| flow.place)).collect();
        PacketLoss {
            open_links: open_links(&flows, &causes, &unexplained, (graph, elements), &recorded.run),
            questions: Questions::of(
                &model,
                &causes,
                &unexplained,
                symptom,
                (graph, elements),
                &recorded.run,
            ),
            causes,
            suspected,
            persistent: persistent(&flows, &unexplained),
            elsewhere,
            symptom: Some(symptom),
            budget,
            fabric: None,
        }
    }

    /// What is counted as late, in words.
    fn what_is_late(&self) -> String {
        match self.symptom {
            Some(Symptom::Late(times)) => format!(
                " (late: in a second, one waited longer than {times} times the worst wait of a usual second)"
            ),
            _ => String::new(),
        }
    }

    /// Causes that may be accused.
    pub(super) fn confirmed(&self) -> impl Iterator<Item = &LossCause> {
        self.causes.iter().filter(|cause| cause.why_not.is_none())
    }

    /// What is beyond chance and not settled, in words.
    pub(super) fn open(&self, run: &Run) -> Option<String> {
        let Some(cause) = self.causes.iter().find(|cause| cause.why_not.is_some()) else {
            let ((from, to), times) = self.persistent.first()?;
            return Some(format!(
                "packets from {} to {} are lost in each of {times} measurements, and no part that they cross explains it",
                run.rank_name(*from),
                run.rank_name(*to)
            ));
        };
        let name = match self.suspects(cause, run).into_iter().next() {
            Some(suspect) => suspect.part,
            None => "a part".to_string(),
        };
        let why = cause.why_not.as_deref().unwrap_or_default();
        let what = match cause.waited {
            Nanos(0) => "packets are lost, maybe by",
            _ => "packets are held up, maybe by",
        };
        Some(format!(
            "{what} {name} ({} of {} {}): {why}",
            cause.over_it.lost, cause.over_it.sent, cause.unit
        ))
    }

    /// Names of the links that could explain what is open about probes, the likeliest first.
    pub(super) fn open_links(&self) -> impl Iterator<Item = String> {
        let graph = self.fabric.as_ref().map(|fabric| &fabric.0);
        self.open_links
            .iter()
            .filter_map(move |link| Some(graph?.name(*link)))
    }

    /// The suspects of a cause by their names.
    fn suspects(&self, cause: &LossCause, run: &Run) -> Vec<Suspect> {
        let Some((graph, elements)) = self.fabric.as_deref() else {
            return Vec::new();
        };
        let what = if cause.waited == Nanos(0) { "lost" } else { "late" };
        let why = format!(
            "{} of {} {} over it {what}, in {} cell{} with {} different partner{}",
            cause.over_it.lost,
            cause.over_it.sent,
            cause.unit,
            cause.places.len(),
            text::plural(cause.places.len()),
            cause.partners,
            text::plural(cause.partners)
        );
        let suspects = cause.suspects.iter();
        suspects
            .map(|(element, confidence)| elements.suspect(graph, *element, run, *confidence, why.clone()))
            .collect()
    }

    /// The directed links of the likeliest suspect of a cause, or of all where it is one of several cables of a switch; and the fabric.
    fn links<'s>(&'s self, cause: &LossCause, run: &Run) -> Option<(Vec<LinkId>, &'s Graph)> {
        let (graph, elements) = self.fabric.as_deref()?;
        let (element, _) = cause.suspects.first()?;
        let alike = uplinks_alike(&cause.suspects, graph);
        Some((
            alike.unwrap_or_else(|| elements.links_of(graph, *element, run)),
            graph,
        ))
    }
}

/// Links that could explain what is open about probes of known paths: those of causes that are not confirmed, or not told apart, and of flows that lost packets which
/// no part explains. The ones that the fewest other flows speak for come first.
fn open_links(
    flows: &[LossFlow],
    causes: &[LossCause],
    unexplained: &[&LossFlow],
    (graph, elements): (&Graph, &Elements),
    run: &Run,
) -> Vec<LinkId> {
    let is_probed = |flow: &&LossFlow| flow.is_probe && flow.parts.possible.is_empty();
    let of_cause = |cause: &LossCause| -> BTreeSet<LinkId> {
        let is_unsure = cause.suspects.first().is_some_and(|(_, sure)| *sure < TOLD_APART);
        let links = cause
            .suspects
            .iter()
            .map(|(element, _)| elements.links_of(graph, *element, run));
        let links: BTreeSet<LinkId> = links.filter(|links| links.len() <= 2).flatten().collect();
        // Where all suspects are one link, more probes over it would not tell them apart.
        match cause.why_not.is_some() || is_unsure && links.len() > 1 {
            true => links,
            false => BTreeSet::new(),
        }
    };
    let of_causes = causes.iter().flat_map(of_cause);
    let links_of = |flow: &LossFlow| -> Vec<LinkId> {
        let links = flow
            .parts
            .certain
            .iter()
            .filter(|part| **part < graph.link_count());
        links.map(|part| LinkId(*part as u32)).collect()
    };
    let of_flows = unexplained.iter().copied().filter(is_probed).flat_map(links_of);
    let open: BTreeSet<LinkId> = of_causes.chain(of_flows).collect();
    let mut clean: BTreeMap<LinkId, usize> = open.iter().map(|link| (*link, 0)).collect();
    for link in flows
        .iter()
        .filter(|flow| flow.lossy <= 0.0 && is_probed(flow))
        .flat_map(links_of)
    {
        clean.entry(link).and_modify(|count| *count += 1);
    }
    let mut open: Vec<LinkId> = open.into_iter().collect();
    open.sort_by_key(|link| clean[link]);
    open
}

/// Flows between the same ranks on a rail that lost packets whenever they were measured, at least twice.
fn persistent(flows: &[LossFlow], unexplained: &[&LossFlow]) -> Vec<((u32, u32), usize)> {
    let rail_of = |flow: &LossFlow| flow.parts.certain.first().copied();
    let mut pairs: BTreeMap<((u32, u32), Option<usize>), usize> = BTreeMap::new();
    for flow in unexplained {
        *pairs.entry((flow.ends, rail_of(flow))).or_default() += 1;
    }
    let is_always = |(pair, lossy): &(&((u32, u32), Option<usize>), &usize)| {
        let all = flows.iter().filter(|flow| (flow.ends, rail_of(flow)) == **pair);
        **lossy >= FEWEST_SLOTS && all.count() == **lossy
    };
    let always = pairs.iter().filter(is_always);
    always.map(|((ends, _), times)| (*ends, *times)).collect()
}

/// What parts are judged by.
struct AllFlows<'f> {
    flows: &'f [LossFlow],
    hosts: &'f HostOfRank<'f>,
    symptom: Symptom,
    budget: f64,
    family: usize,
    elsewhere: Lost,
}

/// The hosts of a run, looked up once for all parts.
struct HostOfRank<'r> {
    of: HashMap<u32, &'r str>,
    /// How many of them sent or received.
    with_flows: usize,
}

impl<'r> HostOfRank<'r> {
    fn of(run: &'r Run, flows: &[LossFlow]) -> HostOfRank<'r> {
        let of: HashMap<u32, &str> = run
            .ranks
            .iter()
            .map(|record| (record.rank, record.host.as_str()))
            .collect();
        let ends = flows.iter().flat_map(|flow| [flow.ends.0, flow.ends.1]);
        let with_flows: HashSet<&str> = ends.map(|rank| of.get(&rank).copied().unwrap_or("")).collect();
        HostOfRank {
            with_flows: with_flows.len(),
            of,
        }
    }
}

fn cause(
    part: &LossyPart,
    &AllFlows {
        flows,
        hosts,
        symptom,
        budget,
        family,
        elsewhere,
    }: &AllFlows<'_>,
    (graph, elements): (&Graph, &Elements),
    recorded: &Recorded,
) -> LossCause {
    let rule = &recorded.run.rule;
    let own = || part.flows.iter().map(|flow| &flows[*flow]);
    let host = |rank: u32| hosts.of.get(&rank).copied().unwrap_or("");
    let senders: BTreeSet<&str> = own().map(|flow| host(flow.ends.0)).collect();
    let receivers: BTreeSet<&str> = own().map(|flow| host(flow.ends.1)).collect();
    let partners = senders.len().max(receivers.len());
    let possible = hosts.with_flows.saturating_sub(1);
    let slots = own().map(|flow| flow.slot).collect::<BTreeSet<_>>().len();
    let named: Vec<(Element, f64)> = part
        .suspects
        .iter()
        .map(|(number, share)| (elements.element(*number), *share))
        .collect();
    let alike = uplinks_alike(&named, graph);
    let rival = named.get(1).map_or(0.0, |(_, share)| *share);
    let share_of_first = named.first().map_or(0.0, |(_, share)| *share);
    let why_not = if slots < FEWEST_SLOTS {
        Some("seen in one slot only".to_string())
    } else if partners < possible.min(2) {
        Some("seen with one partner only".to_string())
    } else if share_of_first < LEAST_SHARE && alike.is_none() {
        Some(format!("which of {} parts it is cannot be told", named.len()))
    } else if part.p_value >= budget {
        Some(format!("not significant: {}", text::p_value(part.p_value)))
    } else {
        None
    };
    let sure = (1.0 - part.p_value).min(SUREST);
    let over_it = Lost::of(part.crossing.iter().map(|(flow, share)| (&flows[*flow], *share)));
    let (lower, upper) = expected_of(over_it.lost, rule.confidence);
    let less_others = |lost: f64| (lost / over_it.sent.max(1) as f64 - elsewhere.share()).max(0.0);
    let mut places: Vec<usize> = own().map(|flow| flow.place).collect();
    places.sort_unstable();
    places.dedup();
    LossCause {
        suspects: named
            .into_iter()
            .map(|(element, share)| (element, share * sure))
            .collect(),
        places,
        slots,
        partners,
        p_value: part.p_value,
        family,
        share: (
            less_others(over_it.lost as f64),
            less_others(lower),
            less_others(upper),
        ),
        is_clear: rival < ALIKE * share_of_first || alike.is_some(),
        why_not,
        over_it,
        unit: match symptom {
            Symptom::Late(_) => "seconds of flows",
            Symptom::Lost if own().all(|flow| flow.is_probe) => "packets",
            Symptom::Lost => "segments",
        },
        waited: Nanos(own().map(|flow| flow.waited).max().unwrap_or(0)),
    }
}

/// What a wrong accusation may cost: losses and stalls share it where both are looked for.
fn budget(recorded: &Recorded) -> f64 {
    let questions = if has_probes(recorded) { 2.0 } else { 1.0 };
    recorded.run.rule.budget_of(Question::Losses) / questions
}
