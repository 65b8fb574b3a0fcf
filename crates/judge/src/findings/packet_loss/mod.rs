//! Which parts lose packets, by what TCP counted of every flow (docs/loss.md).
//!
//! `flows` lists what every flow lost and what it crossed, `model` finds the parts that explain it, this file decides which of them are accused, and `detector`
//! says so.

mod detector;
mod flows;
mod model;

#[cfg(test)]
mod tests;

pub(super) use detector::LossyLink;

use std::collections::BTreeSet;

use super::localise::{Element, Elements, fabric_of};
use super::summary::CellSummary;
use flows::{LossFlow, flows};
use model::{LossyPart, Model};
use record::stats::expected_of;
use record::text;
use record::{Event, Question, Recorded, Run, Suspect};
use topology::graph::{Graph, LinkId};

/// The highest confidence: causes outside the model are never ruled out.
const SUREST: f64 = 0.99;
/// Loss in fewer slots is no fault of a part: something may have disturbed one.
const FEWEST_SLOTS: usize = 2;

/// Segments lost, of those sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Lost {
    pub(super) lost: u64,
    pub(super) sent: u64,
}

impl Lost {
    fn of<'f>(flows: impl Iterator<Item = &'f LossFlow>) -> Lost {
        flows.fold(Lost::default(), |sum, flow| Lost {
            lost: sum.lost + flow.lost,
            sent: sum.sent + flow.segments,
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
    /// Why it is not accused, where it is not.
    pub why_not: Option<String>,
    /// What flows over it lost.
    pub(super) over_it: Lost,
}

/// What a run says about lost packets.
#[derive(Default)]
pub(super) struct PacketLoss {
    /// Parts that lose more than chance explains, the surest first.
    pub(super) causes: Vec<LossCause>,
    /// What flows over none of them lost.
    pub(super) elsewhere: Lost,
    /// The fabric; none where nothing was lost.
    fabric: Option<(Graph, Elements)>,
}

impl PacketLoss {
    /// Looks for parts that lose packets.
    pub(super) fn of(recorded: &Recorded, summaries: &[CellSummary<'_>]) -> PacketLoss {
        let is_lossy = |event: &Event| match event {
            Event::CellDone(done) => done.tcp.iter().any(|flow| flow.lost() > 0),
            _ => false,
        };
        if !recorded.events.iter().any(is_lossy) {
            return PacketLoss::default();
        }
        let (graph, elements) = fabric_of(recorded);
        let flows = flows(recorded, summaries, &graph, &elements);
        let mut model = Model::new(&flows);
        let parts = model.parts(|part| elements.prior(part));
        let elsewhere = Lost::of(model.unaccounted());
        let family = model.family();
        let cause = |part: &LossyPart| cause(part, family, elsewhere, &flows, &elements, recorded);
        PacketLoss {
            causes: parts.iter().map(cause).collect(),
            elsewhere,
            fabric: Some((graph, elements)),
        }
    }

    /// Causes that may be accused.
    pub(super) fn confirmed(&self) -> impl Iterator<Item = &LossCause> {
        self.causes.iter().filter(|cause| cause.why_not.is_none())
    }

    /// What is beyond chance and not settled, in words.
    pub(super) fn open(&self, run: &Run) -> Option<String> {
        let cause = self.causes.iter().find(|cause| cause.why_not.is_some())?;
        let name = match self.suspects(cause, run).into_iter().next() {
            Some(suspect) => suspect.part,
            None => "a part".to_string(),
        };
        let why = cause.why_not.as_deref().unwrap_or_default();
        Some(format!(
            "packets are lost, maybe by {name} ({} of {} segments): {why}",
            cause.over_it.lost, cause.over_it.sent
        ))
    }

    /// The suspects of a cause by their names.
    fn suspects(&self, cause: &LossCause, run: &Run) -> Vec<Suspect> {
        let Some((graph, elements)) = &self.fabric else {
            return Vec::new();
        };
        let why = format!(
            "{} of {} segments over it lost, in {} cell{} with {} different partner{}",
            cause.over_it.lost,
            cause.over_it.sent,
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

    /// The directed links of the likeliest suspect of a cause, and the fabric.
    fn links<'s>(&'s self, cause: &LossCause, run: &Run) -> Option<(Vec<LinkId>, &'s Graph)> {
        let (graph, elements) = self.fabric.as_ref()?;
        let (element, _) = cause.suspects.first()?;
        Some((elements.links_of(graph, *element, run), graph))
    }
}

fn cause(
    part: &LossyPart,
    family: usize,
    elsewhere: Lost,
    flows: &[LossFlow],
    elements: &Elements,
    recorded: &Recorded,
) -> LossCause {
    let rule = &recorded.run.rule;
    let own = || part.flows.iter().map(|flow| &flows[*flow]);
    let host = |rank: u32| {
        let record = recorded.run.ranks.iter().find(|record| record.rank == rank);
        record.map_or("", |record| record.host.as_str())
    };
    let senders: BTreeSet<&str> = own().map(|flow| host(flow.ends.0)).collect();
    let receivers: BTreeSet<&str> = own().map(|flow| host(flow.ends.1)).collect();
    let partners = senders.len().max(receivers.len());
    let all = flows
        .iter()
        .flat_map(|flow| [host(flow.ends.0), host(flow.ends.1)]);
    let possible = all.collect::<BTreeSet<&str>>().len().saturating_sub(1);
    let slots = own().map(|flow| flow.slot).collect::<BTreeSet<_>>().len();
    let budget = rule.budget_of(Question::Losses);
    let why_not = if slots < FEWEST_SLOTS {
        Some("seen in one slot only".to_string())
    } else if partners < possible.min(2) {
        Some("seen with one partner only".to_string())
    } else if part.p_value >= budget {
        Some(format!("not significant: {}", text::p_value(part.p_value)))
    } else {
        None
    };
    let sure = (1.0 - part.p_value).min(SUREST);
    let over_it = Lost::of(part.crossing.iter().map(|flow| &flows[*flow]));
    let (lower, upper) = expected_of(over_it.lost, rule.confidence);
    let less_others = |lost: f64| (lost / over_it.sent.max(1) as f64 - elsewhere.share()).max(0.0);
    let mut places: Vec<usize> = own().map(|flow| flow.place).collect();
    places.sort_unstable();
    places.dedup();
    LossCause {
        suspects: part
            .suspects
            .iter()
            .map(|(number, share)| (elements.element(*number), share * sure))
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
        why_not,
        over_it,
    }
}
