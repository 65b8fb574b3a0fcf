//! From rates to an outcome: which full link's flows get least of what the topology should carry, and whether their paths explain it.
//!
//! Flows are judged by the links that they fill, never one by one: how several share a link is a matter of their congestion control, and what they get
//! together is not.

use super::model::{Capacity, Flow, Group, Prediction, of_hosts};
use super::{Measured, ROUNDS};
use crate::findings::repeat;
use record::stats::median;
use record::text;
use record::units::Rate;
use record::{Recorded, TrafficOutcome, TrafficRow, pairs_in_words};
use topology::graph::Graph;

/// So much less than predicted is not explained by paths.
pub(super) const MARGIN: f64 = 0.25;
/// Where packets are sprayed over full links, some are dropped.
pub(super) const MARGIN_SPRAYED: f64 = 0.4;
/// From here on flows are said to collide, or to be held back by design.
const NOTABLE: f64 = 0.9;
/// Patterns with more flows are listed in run.json only.
const MOST_LISTED: usize = 256;

/// A pattern and what became of it.
pub(super) struct Judged {
    pub(super) row: TrafficRow,
    /// Whether one round shows what two would make a finding.
    pub(super) is_suspicious: bool,
}

/// A group of flows over all rounds.
struct Seen<'g> {
    group: &'g Group,
    /// Delivered over ideal and over predicted, in every round; smallest first is not implied.
    of_ideal: Vec<f64>,
    of_predicted: Vec<f64>,
    /// Predicted over ideal.
    expected: f64,
}

impl Seen<'_> {
    fn share(&self) -> f64 {
        median(&self.of_ideal).unwrap_or(0.0)
    }
}

pub(super) fn judge(
    recorded: &Recorded,
    measured: &Measured<'_>,
    capacity: &Capacity,
    (ideal, prediction): (&[f64], &Prediction),
    graph: &Graph,
) -> Judged {
    let first = measured.cells[0];
    let terms = first.streams.as_ref().and_then(|terms| terms.pattern.as_ref());
    let floor = terms
        .and_then(|pattern| pattern.at_least)
        .map(|percent| f64::from(percent) / 100.0);
    let flows = &measured.flows;
    // Of a flow that was not connected nothing arrived; one without a record leaves its round out.
    let rounds: Vec<Vec<f64>> = (0..measured.rounds)
        .filter_map(|round| flows.iter().map(|flow| flow.delivered[round]).collect())
        .collect();
    let is_sprayed = flows.iter().any(|flow| flow.is_sprayed);
    let margin = if is_sprayed { MARGIN_SPRAYED } else { MARGIN };
    let all = Group {
        link: None,
        flows: (0..flows.len()).map(|flow| (flow, 1.0)).collect(),
    };
    let groups = match prediction.groups.as_slice() {
        [] => std::slice::from_ref(&all),
        groups => groups,
    };
    let seen: Vec<Seen<'_>> = groups
        .iter()
        .map(|group| seen(group, &rounds, ideal, prediction))
        .collect();
    let worst = seen.iter().min_by(|a, b| {
        let by_share = a.share().total_cmp(&b.share());
        // Of several as bad, the one with most flows.
        by_share.then(b.group.flows.len().cmp(&a.group.flows.len()))
    });
    let below_floor = |round: usize| {
        let shares = seen.iter().map(|seen| seen.of_ideal[round]);
        floor.is_some_and(|floor| shares.fold(f64::INFINITY, f64::min) < floor)
    };
    let is_below = |seen: &&Seen<'_>, round: usize| seen.of_predicted[round] < 1.0 - margin;
    let in_every = |holds: &dyn Fn(usize) -> bool| rounds.len() >= ROUNDS && (0..rounds.len()).all(holds);
    let in_one = |holds: &dyn Fn(usize) -> bool| (0..rounds.len()).any(holds);
    let unexplained = seen
        .iter()
        .filter(|seen| in_every(&|round| is_below(seen, round)));
    let unexplained = unexplained.min_by(|a, b| a.of_predicted[0].total_cmp(&b.of_predicted[0]));
    let maybe_unexplained = seen.iter().any(|seen| in_one(&|round| is_below(&seen, round)));
    let is_suspicious = in_one(&below_floor) || maybe_unexplained;
    let by_design = by_design(flows, ideal, capacity);
    let expected = seen
        .iter()
        .map(|seen| seen.expected)
        .fold(f64::INFINITY, f64::min);
    let outcome = match () {
        () if rounds.is_empty() => TrafficOutcome::Unclear,
        () if in_every(&below_floor) => TrafficOutcome::BelowFloor,
        () if unexplained.is_some() => TrafficOutcome::BelowPrediction,
        // What two rounds do not agree on was chance, unless there is only one.
        () if is_suspicious && rounds.len() < ROUNDS => TrafficOutcome::Unclear,
        () if expected < NOTABLE => TrafficOutcome::Collides,
        () if by_design < NOTABLE => TrafficOutcome::ByDesign,
        () => TrafficOutcome::Carried,
    };
    let shown = match outcome {
        TrafficOutcome::BelowPrediction => unexplained,
        _ => worst,
    };
    let total = |values: &[f64]| values.iter().sum::<f64>();
    let delivered: Vec<f64> = rounds.iter().map(|round| total(round)).collect();
    let link = shown.and_then(|seen| seen.group.link);
    let pattern = terms.map_or_else(String::new, |pattern| pattern.name.clone());
    let rail = first.rails.first().cloned().unwrap_or_default();
    let mut row = TrafficRow {
        test: first.test.clone(),
        kind: terms.map_or(record::PatternKind::Listed, |pattern| pattern.kind),
        outcome,
        flows: flows.len() as u32,
        rounds: rounds.len() as u16,
        delivered: Rate(median(&delivered).unwrap_or(0.0)),
        ideal: Rate(total(ideal)),
        predicted: median(&prediction.totals).map(Rate),
        worst_share: round(shown.map_or(0.0, Seen::share)),
        predicted_share: shown.map(|seen| round(seen.expected)),
        by_design: round(by_design),
        cable: link.map(|link| graph.name(link)),
        sharing: shown
            .filter(|_| link.is_some())
            .map_or(0, |seen| seen.group.flows.len() as u32),
        sentence: String::new(),
        pairs: String::new(),
        cells: measured.cells.iter().map(|cell| cell.id).collect(),
        repeat: repeat::command(
            &recorded.run,
            &[("test", &first.test), ("rail", &rail), ("pattern", &pattern)],
        ),
        rail,
        pattern,
    };
    row.sentence = sentence(&row, prediction.is_drawn(), floor, measured);
    let is_told = !matches!(outcome, TrafficOutcome::Carried | TrafficOutcome::ByDesign);
    if is_told && flows.len() <= MOST_LISTED {
        let pairs: Vec<(u32, u32)> = measured
            .cells
            .iter()
            .filter_map(|cell| Some((*cell.ranks.first()?, *cell.ranks.get(1)?)))
            .collect();
        row.pairs = pairs_in_words(&pairs);
    }
    Judged { row, is_suspicious }
}

fn seen<'g>(group: &'g Group, rounds: &[Vec<f64>], ideal: &[f64], prediction: &Prediction) -> Seen<'g> {
    let of = |values: &[f64]| group.sum(values).max(f64::MIN_POSITIVE);
    let (should, told) = (of(ideal), of(&prediction.rates));
    // Of drawn paths, less than in any draw is not chance.
    let least = match prediction.is_drawn() {
        true => prediction.totals[0].max(f64::MIN_POSITIVE),
        false => told,
    };
    Seen {
        group,
        of_ideal: rounds.iter().map(|round| group.sum(round) / should).collect(),
        of_predicted: rounds.iter().map(|round| group.sum(round) / least).collect(),
        expected: told / should,
    }
}

/// What the topology should carry of the flow that it holds back most, relative to what the cables of hosts leave it.
fn by_design(flows: &[Flow], ideal: &[f64], capacity: &Capacity) -> f64 {
    let could = of_hosts(flows, capacity);
    let shares = could.iter().zip(ideal).filter(|(could, _)| **could > 0.0);
    shares.map(|(could, ideal)| ideal / could).fold(1.0, f64::min)
}

fn round(share: f64) -> f64 {
    (share * 1e4).round() / 1e4
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

fn sentence(row: &TrafficRow, is_drawn: bool, floor: Option<f64>, measured: &Measured<'_>) -> String {
    let who = format!("`{}` on {}", row.pattern, row.rail);
    if row.rounds == 0 {
        let silent = measured
            .flows
            .iter()
            .filter(|flow| flow.delivered.iter().any(Option::is_none));
        return format!(
            "{who}: not all of its flows were measured ({} of {} delivered nothing that was recorded)",
            silent.count(),
            row.flows
        );
    }
    let got = percent(row.worst_share);
    let flows = match &row.cable {
        Some(cable) if row.sharing > 1 => format!("the {} flows over {cable}", row.sharing),
        Some(cable) => format!("the flow over {cable}"),
        None => format!("its {}", text::counted(row.flows as usize, "flow")),
    };
    let expected = row.predicted_share.unwrap_or(1.0);
    let explained = match is_drawn {
        true => format!("paths drawn by lot give {}", percent(expected)),
        false => format!("their paths give {}", percent(expected)),
    };
    let design = match row.by_design < NOTABLE {
        true => format!(
            ", and the topology carries {} of what hosts could send",
            percent(row.by_design)
        ),
        false => String::new(),
    };
    match row.outcome {
        TrafficOutcome::Carried => {
            format!("{who}: carried; {flows} got {got} of what the topology should carry")
        }
        TrafficOutcome::ByDesign => format!(
            "{who}: the topology carries {} of what hosts could send, by design; {flows} got {got} of that",
            percent(row.by_design)
        ),
        TrafficOutcome::Collides => {
            format!(
                "{who}: collides; {flows} got {got} of what the topology should carry: {explained}{design}"
            )
        }
        TrafficOutcome::BelowFloor => format!(
            "{who}: {flows} got {got} of what the topology should carry, and the suite asks for {}: {explained}{design}",
            percent(floor.unwrap_or(0.0))
        ),
        TrafficOutcome::BelowPrediction => {
            format!("{who}: {flows} got {got} of what the topology should carry, and {explained}")
        }
        TrafficOutcome::Unclear => format!(
            "{who}: {flows} got {got} of what the topology should carry, and {explained}; seen in one round only"
        ),
    }
}
