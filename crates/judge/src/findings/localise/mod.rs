//! From flows to the part at fault.
//!
//! The rate of a flow is that of the slowest part on its path. `flow` lists what every measured flow crossed, `loads`
//! what every part was shown to carry, `explain` finds as few parts as possible that explain the slow flows, and this
//! file decides which of those are accused. A cause is *confirmed* when
//!
//! 1. every flow it explains missed its threshold, further than healthy ones do (`speed`);
//! 2. those flows were measured `1 + remeasure` times or more, counting rounds;
//! 3. they have at least two different far ends, where the fabric has that many: one slow partner is not a fault of
//!    the link;
//! 4. the p-value of these flows (`evidence`), corrected for every directed link and every rank that was crossed, stays below
//!    the false-positive budget.
//!
//! The confidence of a suspect is its share among all parts that explain the same flows, times one minus that p-value.

mod alike;
mod chance;
mod element;
mod evidence;
mod explain;
mod faulty_parts;
mod flow;
mod intermittent;
mod loads;
mod names;
mod settle;
mod smallest_loss;

pub use element::Element;
pub(super) use element::Elements;
pub(super) use faulty_parts::{ExplainedBy, FaultyPart};
pub(super) use flow::{CrossedLinks, CrossedParts};
pub(super) use names::{ALIKE, uplinks_alike};

use std::collections::{BTreeMap, BTreeSet, HashSet};

use evidence::Evidence;
use explain::explain;
use flow::{FlowState, MeasuredFlow, flows, has_flows};
use loads::Loads;

use super::speed::Speed;
use super::summary::CellSummary;
use record::text;
use record::units::Rate;
use record::{Cell, DecisionRule, Interval, LinkState, Question, Recorded};
use topology::Topology;
use topology::graph::{Graph, LinkId};

/// A link that carried this fraction of its rate is healthy; the rest is headers and the hosts.
const LOADED: f64 = 0.85;
/// A link counts as crossed when the probability that all flows which may have crossed it missed it is below this.
const MISSED: f64 = 0.01;
/// The highest confidence: causes outside the model are never ruled out.
pub(super) const SUREST: f64 = 0.99;

/// A part that slows flows down.
#[derive(Debug, Clone, PartialEq)]
pub struct Cause {
    /// The suspects, the likeliest first, with confidences that add up to less than 1.
    pub suspects: Vec<(Element, f64)>,
    /// Positions of the cells it explains.
    pub places: Vec<usize>,
    /// Number of different far ends of those flows, as seen from the suspect.
    pub partners: usize,
    /// How often they were measured.
    pub measurements: u32,
    /// How many more measurements would settle it, if they are as slow.
    pub missing: u32,
    /// P-value of this data for a healthy part, corrected for all parts.
    pub p_value: f64,
    /// How many parts the correction covers.
    pub family: u32,
    /// What the part carried.
    pub carried: Interval<Rate>,
    /// Whether it is certain that those flows crossed the part.
    pub is_crossing_certain: bool,
    /// How many crossings of it were slow, and how many there were, where it is slow now and then.
    pub intermittent: Option<(u32, u32)>,
    /// Whether it may be accused.
    pub confirmed: bool,
    /// Why not, when it may not.
    pub why_not: Option<String>,
}

/// What the flows of a run say about its parts.
pub struct Localisation {
    /// The fabric, as the topology file says or as inferred from the rails.
    pub graph: Graph,
    /// The parts at fault, the one that explains most first.
    pub causes: Vec<Cause>,
    /// Positions of flows that were slow by chance: everything they crossed carried more at another time.
    pub transient: Vec<usize>,
    /// Positions of slow flows that may have shared a link with others by chance.
    pub contended: Vec<usize>,
    elements: Elements,
    loads: Loads,
    flows: Vec<MeasuredFlow>,
    /// What is known of every link.
    states: Vec<LinkState>,
    /// Whether a flow crossed it at the speed expected of the flow.
    good: Vec<bool>,
    /// The share of what varies between measurements that a part has for good.
    of_levels: f64,
    /// How many parts were crossed.
    family: u32,
}

/// What would settle a cause that is not significant.
fn how_long(enough: Option<u32>) -> String {
    match enough {
        Some(more) => format!(
            "{more} more measurement{} over it in other slots that {} as slow would settle it",
            text::plural(more as usize),
            if more == 1 { "is" } else { "are" }
        ),
        None => {
            "more measurements would not settle it: healthy ones of this run differ by as much, or are slow as often".to_string()
        }
    }
}

/// The fabric, as the topology file says or as inferred from the rails, and its parts.
pub(super) fn fabric_of(recorded: &Recorded) -> (Graph, Elements) {
    let ranks = &recorded.run.ranks;
    let known = recorded.topology.as_ref().and_then(|text| {
        let topology = Topology::parse(record::files::TOPOLOGY, text).ok()?;
        Graph::of(&topology, ranks).ok()
    });
    let graph = known.unwrap_or_else(|| Graph::inferred(ranks));
    let elements = Elements::of(&graph, ranks);
    (graph, elements)
}

impl Localisation {
    /// Localises the slow flows of a run; none when it has no flows between hosts. `is_explained` says which cells
    /// are slow for a known reason outside the fabric.
    pub(super) fn of(
        recorded: &Recorded,
        summaries: &[CellSummary<'_>],
        speeds: &[Speed],
        is_explained: impl Fn(usize) -> bool,
    ) -> Option<Localisation> {
        // The fabric of many thousand hosts takes seconds to read.
        if !has_flows(summaries) {
            return None;
        }
        let (graph, elements) = fabric_of(recorded);
        let rule = &recorded.run.rule;
        let flows = flows(
            &graph,
            &elements,
            CrossedLinks::new(&graph, recorded),
            summaries,
            speeds,
            rule.confidence,
        );
        if flows.is_empty() {
            return None;
        }
        let loads = Loads::of(&flows, &elements);
        let is_evidence = |flow: &MeasuredFlow| !is_explained(flow.place);
        let mut explained = explain(&flows, &loads, &elements, is_evidence, |flow| {
            slack(&speeds[flow.place])
        });
        let family = crossed_parts(&flows);
        let evidence = Evidence::new(&flows, &elements, summaries, speeds, rule);
        let (answers, accounted) = evidence.answers(&explained.causes, family);
        let of_levels = evidence.of_levels();
        let now_and_then = intermittent::parts(&flows, &explained.transient, &accounted, &elements);
        for part in &now_and_then {
            explained.transient.retain(|flow| !part.flows.contains(flow));
        }
        let place = |flow: &usize| flows[*flow].place;
        let slow = |flow: &&MeasuredFlow| flow.state == FlowState::Slow && flow.contended;
        let mut localisation = Localisation {
            transient: explained.transient.iter().map(place).collect(),
            contended: flows.iter().filter(slow).map(|flow| flow.place).collect(),
            causes: Vec::new(),
            states: vec![LinkState::Untested; graph.link_count()],
            good: vec![false; graph.link_count()],
            of_levels,
            family,
            elements,
            loads,
            graph,
            flows,
        };
        // Where flows only may have crossed it, it is not their number that is missing.
        let is_open =
            |cause: &Cause| cause.is_crossing_certain && cause.p_value >= rule.budget_of(Question::Parts);
        for (explanation, answer) in explained.causes.into_iter().zip(answers) {
            let question = (Question::Parts, answer.p_value);
            let cause = localisation.cause(explanation, summaries, rule, question, family);
            let is_open = is_open(&cause);
            let with_how_long = |why_not: String| match is_open {
                true => format!("{why_not}; {}", how_long(answer.enough)),
                false => why_not,
            };
            localisation.causes.push(Cause {
                missing: cause.missing.max(answer.missing()),
                why_not: cause.why_not.map(with_how_long),
                ..cause
            });
        }
        for part in now_and_then {
            let explanation = explain::Explanation {
                suspects: part.suspects,
                flows: part.flows,
                by_chance: Some(part.p_value),
            };
            let p_value = (part.p_value * f64::from(family)).min(1.0);
            let answer = (Question::IntermittentParts, p_value);
            let cause = localisation.cause(explanation, summaries, rule, answer, family);
            localisation.causes.push(Cause {
                is_crossing_certain: true,
                intermittent: Some(part.crossings),
                ..cause
            });
        }
        localisation.merge_alike();
        localisation.set_link_states();
        Some(localisation)
    }

    fn cause(
        &self,
        explanation: explain::Explanation,
        summaries: &[CellSummary<'_>],
        rule: &DecisionRule,
        (question, p_value): (Question, f64),
        family: u32,
    ) -> Cause {
        let flows: Vec<&MeasuredFlow> = explanation.flows.iter().map(|flow| &self.flows[*flow]).collect();
        let rounds = flows.iter().map(|flow| summaries[flow.place].rounds.len() as u32);
        let measurements: u32 = rounds.sum();
        let nic = |rank: u32, flow: &MeasuredFlow| self.nic(rank, summaries[flow.place].cell);
        let senders: BTreeSet<(&str, u32)> = flows.iter().map(|flow| nic(flow.ends.0, flow)).collect();
        let receivers: BTreeSet<(&str, u32)> = flows.iter().map(|flow| nic(flow.ends.1, flow)).collect();
        let partners = senders.len().max(receivers.len());
        let wanted = u32::from(rule.remeasure) + 1;
        let ends = self.flows.iter();
        let nics: BTreeSet<(&str, u32)> = ends
            .flat_map(|flow| [nic(flow.ends.0, flow), nic(flow.ends.1, flow)])
            .collect();
        let possible = nics.len().saturating_sub(1);
        let why_not = if measurements < wanted {
            Some(format!("measured {measurements} of {wanted} times"))
        } else if partners < possible.min(2) {
            Some("seen with one partner only".to_string())
        } else if p_value >= rule.budget_of(question) {
            Some(format!("not significant: {}", text::p_value(p_value)))
        } else {
            None
        };
        let sure = (1.0 - p_value).min(SUREST);
        let suspects = explanation.suspects.into_iter();
        let middle = |value: fn(&Interval<Rate>) -> f64| {
            let mut rates: Vec<f64> = flows.iter().map(|flow| value(&flow.rate)).collect();
            rates.sort_by(f64::total_cmp);
            Rate(rates.get(rates.len() / 2).copied().unwrap_or_default())
        };
        Cause {
            suspects: suspects.map(|(element, share)| (element, share * sure)).collect(),
            places: flows.iter().map(|flow| flow.place).collect(),
            partners,
            measurements,
            missing: wanted.saturating_sub(measurements),
            p_value,
            family,
            carried: Interval {
                median: middle(|rate| rate.median.0),
                lower: middle(|rate| rate.lower.0),
                upper: middle(|rate| rate.upper.0),
            },
            is_crossing_certain: explanation.by_chance.is_none(),
            intermittent: None,
            confirmed: why_not.is_none(),
            why_not,
        }
    }

    /// What counts as one partner: ranks of one host send over the same NIC of a rail. A rank that the topology does not attach is one by
    /// itself.
    fn nic(&self, rank: u32, cell: &Cell) -> (&str, u32) {
        let up = cell.rails.first().and_then(|rail| self.graph.up(rank, rail));
        match up {
            Some(up) => (&self.graph.link(up).from.node, 0),
            None => ("", rank),
        }
    }

    fn set_link_states(&mut self) {
        let links = self.graph.link_count();
        for (number, state) in self.states.iter_mut().enumerate() {
            if self.loads.flows(number) > 0 {
                *state = LinkState::Underloaded;
            }
        }
        let good = self.flows.iter().filter(|flow| flow.state == FlowState::Good);
        for number in good
            .flat_map(|flow| &flow.certain)
            .filter(|number| **number < links)
        {
            let rate = self.graph.link(LinkId(*number as u32)).rate.0;
            self.good[*number] = true;
            if self
                .loads
                .most(*number)
                .is_some_and(|most| most.0 >= LOADED * rate)
            {
                self.states[*number] = LinkState::Healthy;
            }
        }
        self.set_states_of_possible_links();
        for cause in &self.causes {
            let first = cause.suspects.first();
            // Where another suspect is almost as likely, neither is called slow.
            let rival = cause.suspects.get(1).map_or(0.0, |(_, share)| *share);
            let is_clear = first.is_some_and(|(_, share)| rival < share / 2.0);
            for (number, (element, _)) in cause.suspects.iter().enumerate() {
                let is_accused = cause.confirmed && is_clear && number == 0;
                let links = match *element {
                    Element::Link(link) => vec![link],
                    // As another explanation than the likeliest it says little about each of its links.
                    Element::Whole(whole) if number == 0 => {
                        self.elements.wholes()[whole as usize].links.clone()
                    }
                    Element::Whole(_) | Element::Out(_) | Element::In(_) => Vec::new(),
                };
                for link in links {
                    // Of a whole part, what nothing crossed is still unknown.
                    let is_crossed = element.link().is_some() || self.loads.flows(link.index()) > 0;
                    let state = &mut self.states[link.index()];
                    *state = match is_accused && is_crossed {
                        true => LinkState::Slow,
                        false if is_crossed => (*state).max(LinkState::Suspected),
                        false => *state,
                    };
                }
            }
        }
    }

    /// Links that no flow is known to have crossed, but some may have: healthy when it is improbable that all good flows
    /// at its rate missed it.
    fn set_states_of_possible_links(&mut self) {
        // The probability that a link was missed: by all flows, by the good ones, and by those of them that filled it.
        let mut missed: BTreeMap<usize, [f64; 3]> = BTreeMap::new();
        for flow in &self.flows {
            let is_good = flow.state == FlowState::Good;
            for (number, probability) in flow
                .possible
                .iter()
                .filter(|(number, _)| *number < self.graph.link_count())
            {
                let rate = self.graph.link(LinkId(*number as u32)).rate.0;
                let is_loaded = is_good && flow.rate.median.0 >= LOADED * rate;
                let missed = missed.entry(*number).or_insert([1.0; 3]);
                for (missed, counts) in missed.iter_mut().zip([true, is_good, is_loaded]) {
                    *missed *= 1.0 - probability * f64::from(u8::from(counts));
                }
            }
        }
        for (number, missed) in missed {
            let [crossed, passed, loaded] = missed.map(|missed| missed < MISSED);
            self.good[number] |= passed;
            let state = match (crossed, loaded) {
                (_, true) => LinkState::Healthy,
                (true, false) => LinkState::Underloaded,
                (false, false) => LinkState::Untested,
            };
            self.states[number] = self.states[number].max(state);
        }
    }

    /// Whether a cable at a host is accused by flows of unknown paths alone: all of them may have met further on by chance, as long as no
    /// flow of known path has crossed the cable.
    pub fn rests_on_draws(&self, cause: &Cause) -> bool {
        let Some((first, _)) = cause.suspects.first() else {
            return false;
        };
        let Some(part) = self.elements.number(*first) else {
            return false;
        };
        let is_between_switches = first.link().is_some_and(|link| !self.graph.link(link).is_host);
        let crosses = |flow: &&MeasuredFlow| flow.certain.contains(&part);
        let is_known = |flow: &MeasuredFlow| flow.possible.is_empty();
        let has_unknown = cause.places.iter().any(|place| {
            let mut flows = self.flows.iter();
            flows.any(|flow| flow.place == *place && !is_known(flow))
        });
        has_unknown && !is_between_switches && !self.flows.iter().filter(crosses).any(is_known)
    }

    /// Links between switches that no flow has crossed, as far as is known.
    pub fn untested_between_switches(&self) -> Vec<LinkId> {
        let links = self.graph.links().filter(|(_, link)| !link.is_host);
        links
            .map(|(link, _)| link)
            .filter(|link| self.state(*link) == LinkState::Untested)
            .collect()
    }

    /// The links that the flow at a place of the plan may have crossed, where that is not certain.
    pub fn possible_links(&self, place: usize) -> Vec<LinkId> {
        let flow = self.flows.iter().find(|flow| flow.place == place);
        let possible = flow.into_iter().flat_map(|flow| &flow.possible);
        let links = possible.filter(|(number, _)| *number < self.graph.link_count());
        links.map(|(number, _)| LinkId(*number as u32)).collect()
    }

    /// The directed links of a whole part, and its name.
    pub fn whole(&self, number: u32) -> (&[LinkId], String) {
        let whole = &self.elements.wholes()[number as usize];
        (&whole.links, whole.kind.to_string())
    }

    /// What is known of a link.
    pub fn state(&self, link: LinkId) -> LinkState {
        self.states[link.index()]
    }

    /// Whether a flow crossed a link at the speed expected of the flow. A link that should carry several at once may
    /// still be slow.
    pub fn lets_flows_pass(&self, link: LinkId) -> bool {
        self.good[link.index()]
    }

    /// The most a link carried at one time, and how many flows crossed it.
    pub fn load(&self, link: LinkId) -> (Option<Rate>, u32) {
        (self.loads.most(link.index()), self.loads.flows(link.index()))
    }
}

/// How many parts were crossed by a flow whose speed was judged.
fn crossed_parts(flows: &[MeasuredFlow]) -> u32 {
    let judged = flows.iter().filter(|flow| flow.state != FlowState::Unjudged);
    let crossed: HashSet<usize> = judged.flat_map(MeasuredFlow::crossed).collect();
    crossed.len() as u32
}

/// Relative difference from which two rates count as different: half of the margin, and not less than measurements of one link differ.
fn slack(speed: &Speed) -> f64 {
    let margin = speed.comparison().map_or(0.1, |comparison| {
        1.0 - comparison.threshold.0 / comparison.expected.0
    });
    (margin / 2.0).clamp(0.05, 0.1)
}
