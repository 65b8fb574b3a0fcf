//! One rail over all its rounds: each round is judged by itself, and what all of them agree on is stated.
//!
//! The numbers of a verdict and of a fault are those of the round that shows it least, the one with the largest p-value.

use std::collections::{HashMap, HashSet};

use super::accusations::{self, Accused};
use super::agreement::{Agreement, RoundAccusations, agreements};
use super::assemble::{self, Bands};
use super::faults::{self, EcmpFault};
use super::flows::RailFlows;
use super::rail_view::{DecisionContext, RailView};
use super::{slow, unknown_paths};
use record::text::{list, p_value};
use record::{EcmpCause, EcmpVerdict};
use topology::graph::{Graph, LinkId};

/// What the rounds of a rail come to.
#[derive(Debug, Default)]
pub(super) struct RailConclusion {
    /// One verdict per switch that had a choice.
    pub(super) verdicts: Vec<EcmpVerdict>,
    /// What every round shows.
    pub(super) faults: Vec<EcmpFault>,
    /// Ids of the cells whose flows could be judged.
    pub(super) judged: HashSet<u32>,
    /// Ids of cells that cannot be called healthy, and why.
    pub(super) doubted: HashMap<u32, String>,
    /// Ids of the cells that another round may settle.
    pub(super) suspected: HashSet<u32>,
    /// Links that some switch could choose.
    pub(super) members: HashSet<LinkId>,
    /// Links of which is known whether they carry what they should.
    pub(super) compared: HashSet<LinkId>,
}

/// One round of a rail.
enum RoundView<'r, 'a> {
    KnownPaths(RailView<'r, 'a>),
    UnknownPaths(&'r RailFlows<'a>, EcmpVerdict),
}

impl<'r, 'a> RoundView<'r, 'a> {
    /// Judged by the paths of its flows where they are known, at `level` by what they deliver where not.
    fn of(
        rail: &'r RailFlows<'a>,
        graph: Option<&'r Graph>,
        context: &mut DecisionContext<'_>,
        level: f64,
    ) -> RoundView<'r, 'a> {
        let view = graph
            .filter(|_| !rail.choosers.all.is_empty())
            .map(|graph| RailView::of(rail, graph, context));
        let is_judged = |view: &RailView<'_, '_>| {
            let mut causes = view.causes.iter();
            causes.any(|cause| *cause != EcmpCause::Unjudged) || !view.dead.is_empty()
        };
        match view.filter(|view| rail.chosen || is_judged(view)) {
            Some(view) => RoundView::KnownPaths(view),
            None => {
                let verdict = unknown_paths::verdict(rail, graph, level, context.seed);
                RoundView::UnknownPaths(rail, verdict)
            }
        }
    }

    fn rail(&self) -> &'r RailFlows<'a> {
        match self {
            RoundView::KnownPaths(view) => view.rail,
            RoundView::UnknownPaths(rail, _) => rail,
        }
    }

    fn accusations(&self, planned: usize) -> RoundAccusations {
        RoundAccusations {
            accusations: match self {
                RoundView::KnownPaths(view) => accusations::of_view(view),
                RoundView::UnknownPaths(rail, verdict) => accusations::of_unknown_paths(rail, verdict),
            },
            is_complete: self.rail().cells.len() >= planned,
        }
    }

    /// Takes back what the rounds do not agree on.
    fn keep_confirmed(&mut self, agreements: &[Agreement]) {
        match self {
            RoundView::KnownPaths(view) => view.keep_confirmed(agreements),
            RoundView::UnknownPaths(_, verdict) if verdict.cause.is_fault() => {
                let own = || agreements.iter().filter(|about| about.cause == verdict.cause);
                let suspicion = own().next().map(Agreement::suspicion);
                if !own().any(Agreement::is_confirmed) {
                    verdict.cause = EcmpCause::Unjudged;
                    verdict.part = None;
                    verdict.sentence = format!("{}; {}", verdict.sentence, suspicion.unwrap_or_default());
                }
            }
            RoundView::UnknownPaths(..) => {}
        }
    }

    fn faults(&self, agreements: &[Agreement]) -> Vec<EcmpFault> {
        match self {
            RoundView::KnownPaths(view) => faults::faults(view),
            RoundView::UnknownPaths(rail, verdict) => {
                let mut fault = faults::of_unknown_paths(rail, verdict);
                if let Some(fault) = &mut fault {
                    let accused = |host: &String| {
                        let host = Accused::Host(host.clone());
                        let mut confirmed = agreements.iter().filter(|about| about.is_confirmed());
                        confirmed.any(|about| about.parts.contains(&host))
                    };
                    fault.hosts.retain(accused);
                }
                fault.into_iter().collect()
            }
        }
    }

    /// Links of which is known whether they carry what they should.
    fn links_compared(&self) -> HashSet<LinkId> {
        let RoundView::KnownPaths(view) = self else {
            return HashSet::new();
        };
        let model = view.healthy.iter().filter(|model| model.can_tell_links());
        let asked = model.flat_map(slow::links_asked);
        let dead = view.dead.iter().map(|dead| dead.link);
        asked.chain(dead).collect()
    }

    /// Ids of the cells whose flows were judged.
    fn judged(&self) -> Vec<u32> {
        match self {
            RoundView::KnownPaths(view) if view.rail.chosen => view.rail.cells.clone(),
            RoundView::KnownPaths(view) => {
                let is_judged = |flow: &&super::flows::Flow| {
                    let mut choices = flow.choices.iter();
                    choices.any(|choice| view.causes[choice.chooser] != EcmpCause::Unjudged)
                };
                let flows = view.rail.flows.iter().filter(is_judged);
                flows.map(|flow| flow.cell).collect()
            }
            RoundView::UnknownPaths(_, verdict) if verdict.cause == EcmpCause::Unjudged => Vec::new(),
            RoundView::UnknownPaths(rail, _) => rail.cells.clone(),
        }
    }

    /// The verdict on every switch that had a choice.
    fn verdicts(&self, context: &mut DecisionContext<'_>, bands: &mut Bands) -> Vec<EcmpVerdict> {
        match self {
            RoundView::KnownPaths(view) => assemble::verdicts(view, context, bands),
            RoundView::UnknownPaths(_, verdict) => vec![verdict.clone()],
        }
    }

    /// Switches, with the tier of their choice, that are suspected and not confirmed.
    fn suspected(&self) -> HashSet<(&str, u8)> {
        let RoundView::KnownPaths(view) = self else {
            return HashSet::new();
        };
        let choosers = view.rail.choosers.all.iter().zip(&view.suspicions);
        let suspected = choosers.filter(|(_, suspicion)| suspicion.is_some());
        suspected
            .map(|(chooser, _)| (chooser.switch.as_str(), chooser.tier))
            .collect()
    }
}

/// Judges all rounds of a rail, the planned one first.
pub(super) fn conclude(
    rounds: &[&RailFlows<'_>],
    graph: Option<&Graph>,
    context: &mut DecisionContext<'_>,
    bands: &mut Bands,
    (level, wanted): (f64, u16),
) -> RailConclusion {
    let mut conclusion = RailConclusion::default();
    let mut views: Vec<RoundView<'_, '_>> = rounds
        .iter()
        .map(|rail| RoundView::of(rail, graph, context, level))
        .collect();
    for view in &views {
        let choosers = view.rail().choosers.all.iter();
        conclusion
            .members
            .extend(choosers.flat_map(|chooser| chooser.members()));
        conclusion.compared.extend(view.links_compared());
        conclusion.doubt_dead(view.rail());
        if let RoundView::KnownPaths(view) = view
            && let Some(why) = view.shortfall()
        {
            let cells = view.rail.cells.iter().map(|cell| (*cell, why.clone()));
            conclusion.doubted.extend(cells);
        }
    }
    let planned = rounds.first().map_or(0, |rail| rail.cells.len());
    let accusations: Vec<RoundAccusations> = views.iter().map(|view| view.accusations(planned)).collect();
    let agreements = agreements(&accusations, wanted);
    let mut unconfirmed = agreements
        .iter()
        .filter(|agreement| !agreement.is_confirmed())
        .peekable();
    if unconfirmed.peek().is_some() {
        let pairs = PairCells::of(rounds);
        unconfirmed.for_each(|agreement| conclusion.doubt(&pairs, agreement));
    }
    if agreements.iter().any(Agreement::is_open) {
        let planned = rounds.iter().filter(|rail| rail.round == 0);
        conclusion.suspected.extend(planned.flat_map(|rail| &rail.cells));
    }
    for view in &mut views {
        view.keep_confirmed(&agreements);
        conclusion.judged.extend(view.judged());
    }
    // The first round of chosen flows only says where to look.
    let decides = |view: &&RoundView<'_, '_>| !view.rail().is_first_of_chosen();
    let deciding = views.iter().filter(decides).map(|view| view.faults(&agreements));
    conclusion.faults = merged_faults(deciding);
    for fault in conclusion
        .faults
        .iter_mut()
        .filter(|_| rounds.iter().any(|rail| rail.chosen))
    {
        fault.rounds = rounds.len() as u16;
    }
    conclusion.verdicts = merged_verdicts(&views, context, bands);
    if rounds.iter().any(|rail| rail.chosen) {
        // Of switches they only say what is wrong with a link.
        conclusion.verdicts.retain(|verdict| verdict.cause.is_fault());
    }
    conclusion
}

impl RailConclusion {
    /// A flow that could not be connected, or broke, and delivered nothing is never healthy.
    fn doubt_dead(&mut self, rail: &RailFlows<'_>) {
        let mut dead: HashMap<u32, usize> = HashMap::new();
        for flow in rail.flows.iter().filter(|flow| flow.dead) {
            *dead.entry(flow.cell).or_default() += 1;
        }
        let why = |count: usize| format!("{} delivered nothing", record::text::counted(count, "stream"));
        self.doubted
            .extend(dead.into_iter().map(|(cell, count)| (cell, why(count))));
    }

    /// Flows between the same ranks are not healthy in any round.
    fn doubt(&mut self, pairs: &PairCells, agreement: &Agreement) {
        let why = agreement.suspicion();
        let ranks = agreement.cells.iter().filter_map(|cell| pairs.ranks_of.get(cell));
        let concerned: HashSet<(u32, u32)> = ranks.copied().collect();
        let cells = concerned.iter().filter_map(|ranks| pairs.cells_of.get(ranks));
        for cell in cells.flatten() {
            self.doubted.insert(*cell, why.clone());
        }
    }
}

/// Which cells of all rounds have flows between the same ranks.
#[derive(Default)]
struct PairCells {
    ranks_of: HashMap<u32, (u32, u32)>,
    cells_of: HashMap<(u32, u32), Vec<u32>>,
}

impl PairCells {
    fn of(rounds: &[&RailFlows<'_>]) -> PairCells {
        let mut pairs = PairCells::default();
        for flow in rounds.iter().flat_map(|rail| &rail.flows) {
            if pairs.ranks_of.insert(flow.cell, flow.ranks).is_none() {
                pairs.cells_of.entry(flow.ranks).or_default().push(flow.cell);
            }
        }
        pairs
    }
}

/// The faults of all rounds, each once, with the cells of all of them.
fn merged_faults(rounds: impl Iterator<Item = Vec<EcmpFault>>) -> Vec<EcmpFault> {
    let mut same: Vec<Vec<EcmpFault>> = Vec::new();
    for fault in rounds.flatten() {
        let is_same = |known: &&mut Vec<EcmpFault>| {
            let known = &known[0];
            let what = |fault: &EcmpFault| (fault.cause, fault.link.clone(), fault.switches.is_empty());
            what(known) == what(&fault)
        };
        match same.iter_mut().find(is_same) {
            Some(known) => known.push(fault),
            None => same.push(vec![fault]),
        }
    }
    let merged = same.into_iter().filter_map(|rounds| {
        let p_values: Vec<String> = rounds
            .iter()
            .map(|fault| p_value(fault.measured.p_value))
            .collect();
        let mut cells: Vec<u32> = rounds.iter().flat_map(|fault| fault.cells.clone()).collect();
        cells.sort_unstable();
        cells.dedup();
        let count = rounds.len();
        let mut stated = rounds.into_iter().max_by(|a, b| {
            let parts = |fault: &EcmpFault| fault.switches.len();
            let p_values = a.measured.p_value.total_cmp(&b.measured.p_value);
            parts(a).cmp(&parts(b)).then(p_values)
        })?;
        stated.rounds = count as u16;
        stated.cells = cells;
        if count > 1 {
            let same = format!("the same in each of {count} rounds: {}", list(&p_values));
            stated.evidence.push(same);
        }
        Some(stated)
    });
    merged.collect()
}

/// The verdict on every switch: of what all rounds show, the weakest; else what is suspected; else the first that says something.
fn merged_verdicts(
    views: &[RoundView<'_, '_>],
    context: &mut DecisionContext<'_>,
    bands: &mut Bands,
) -> Vec<EcmpVerdict> {
    type Place = (Option<String>, u8, Option<String>);
    let mut order: Vec<Place> = Vec::new();
    let mut same: HashMap<Place, Vec<(u8, EcmpVerdict)>> = HashMap::new();
    for view in views {
        let suspected = view.suspected();
        for verdict in view.verdicts(context, bands) {
            let switch = verdict.switch.as_deref().unwrap_or_default();
            let says = match verdict.cause {
                cause if cause.is_fault() => 3,
                EcmpCause::Unjudged if suspected.contains(&(switch, verdict.tier)) => 2,
                EcmpCause::Unjudged => 0,
                _ => 1,
            };
            // A link behind a switch without a choice has a verdict of its own.
            let link = verdict.part.clone().filter(|_| verdict.paths == 1);
            let place = (verdict.switch.clone(), verdict.tier, link);
            let known = same.entry(place.clone()).or_insert_with(|| {
                order.push(place);
                Vec::new()
            });
            known.push((says, verdict));
        }
    }
    let merged = order.into_iter().filter_map(|place| {
        let rounds = same.remove(&place)?;
        let mut cells: Vec<u32> = rounds
            .iter()
            .flat_map(|(_, verdict)| verdict.cells.clone())
            .collect();
        cells.sort_unstable();
        cells.dedup();
        // The first of equals.
        let (_, mut stated) = rounds.into_iter().reduce(|kept, next| {
            let weaker = next.0 == 3 && next.1.p_value > kept.1.p_value;
            let says_more = next.0 > kept.0;
            if says_more || next.0 == kept.0 && weaker {
                next
            } else {
                kept
            }
        })?;
        stated.cells = cells;
        Some(stated)
    });
    merged.collect()
}
