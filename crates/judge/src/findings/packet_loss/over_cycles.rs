//! Which parts lose packets, by what probes of many cycles counted (docs/loss.md, "Over many cycles").
//!
//! The model is that of one run. A flow that fared alike in several cycles is one row that counts as often: the product over cycles needs no more, and
//! rows do not grow with the number of cycles.

use super::Lost;
use super::flows::{ALIKE, LossFlow};
use super::model::Model;
use crate::findings::localise::CrossedParts;
use record::stats::expected_of;

/// How sure the interval of a share is.
const CONFIDENCE: f64 = 0.95;

/// How a flow fared in some cycles alike.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// Windows in which it was sent in one cycle.
    pub(crate) seconds: u32,
    /// Those of them in which packets were lost.
    pub(crate) lossy: u32,
    /// Cycles of which that is so.
    pub(crate) cycles: u32,
    /// Packets sent in all of them.
    pub(crate) sent: u64,
    /// Packets lost in all of them.
    pub(crate) lost: u64,
}

/// A flow of many cycles. Parts are numbered by the caller.
#[derive(Debug, Clone, Default)]
pub(crate) struct FlowOfCycles<'o> {
    /// Flows with the same are compared with each other.
    pub(crate) kind: usize,
    /// Flows with the same were sent together.
    pub(crate) slot: (u32, u16),
    /// Cycles in which its slot was measured.
    pub(crate) slot_cycles: u32,
    /// Flows with the same took the same path.
    pub(crate) connection: usize,
    /// Parts that it certainly crossed.
    pub(crate) certain: Vec<usize>,
    /// Parts that it may have crossed, each with the probability that it did.
    pub(crate) possible: Vec<(usize, f64)>,
    /// Those certain parts that only a share of its packets crossed.
    pub(crate) shares: Vec<(usize, f64)>,
    /// How it fared, each way once.
    pub(crate) outcomes: &'o [Outcome],
}

/// A part that lost more packets than chance explains.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LossOverCycles {
    /// Numbers of the suspects with their shares of belief, the likeliest first.
    pub(crate) suspects: Vec<(usize, f64)>,
    /// How likely losses like these are if it is healthy, corrected for all parts.
    pub(crate) p_value: f64,
    /// The share of its packets that it loses, less what others lose: most likely, at least and at most.
    pub(crate) share: (f64, f64, f64),
    /// Packets lost over it, of those sent.
    pub(crate) over_it: (u64, u64),
    /// Packets lost over none of these parts, of those sent.
    pub(crate) elsewhere: (u64, u64),
    /// Positions of the flows whose losses it explains, in order.
    pub(crate) flows: Vec<usize>,
}

/// The parts whose flows lose more than chance explains, the surest first. `prior` is how likely a part is to be at fault, relative to others.
pub(crate) fn parts_that_lose(
    flows: &[FlowOfCycles<'_>],
    prior: impl Fn(usize) -> f64,
) -> Vec<LossOverCycles> {
    let outcomes = || flows.iter().flat_map(|flow| flow.outcomes);
    if outcomes().all(|outcome| outcome.lossy == 0) {
        return Vec::new();
    }
    let rows = flows.iter().enumerate();
    let rows = rows.flat_map(|(place, flow)| {
        flow.outcomes
            .iter()
            .filter_map(move |outcome| row(place, flow, outcome))
    });
    let rows: Vec<LossFlow> = rows.collect();
    let mut model = Model::new(&rows);
    let found = model.parts(prior);
    let elsewhere = Lost::of(model.unaccounted().map(|flow| (flow, 1.0)));
    let losses = found.into_iter().map(|part| {
        let over_it = Lost::of(part.crossing.iter().map(|(row, share)| (&rows[*row], *share)));
        let (lower, upper) = expected_of(over_it.lost, CONFIDENCE);
        let less_others = |lost: f64| (lost / over_it.sent.max(1) as f64 - elsewhere.share()).max(0.0);
        let mut explained: Vec<usize> = part.flows.iter().map(|row| rows[*row].place).collect();
        explained.dedup();
        LossOverCycles {
            suspects: part.suspects,
            p_value: part.p_value,
            share: (
                less_others(over_it.lost as f64),
                less_others(lower),
                less_others(upper),
            ),
            over_it: (over_it.lost, over_it.sent),
            elsewhere: (elsewhere.lost, elsewhere.sent),
            flows: explained,
        }
    });
    losses.collect()
}

/// How a flow fared in some cycles, as evidence; `place` is its position.
fn row(place: usize, flow: &FlowOfCycles<'_>, outcome: &Outcome) -> Option<LossFlow> {
    let &Outcome {
        seconds,
        lossy,
        cycles,
        sent,
        lost,
    } = outcome;
    if seconds == 0 || cycles == 0 || sent == 0 {
        return None;
    }
    let all = f64::from(seconds);
    let weight = 1.0 / (1.0 + ALIKE * (all - 1.0));
    let lossy = lossy.min(seconds);
    Some(LossFlow {
        place,
        slot: flow.slot,
        ends: (0, 0),
        connection: flow.connection,
        kind: flow.kind,
        trials: all * weight,
        lossy: f64::from(lossy) * weight,
        iterations: (lossy, seconds),
        per_trial: sent as f64 / (all * f64::from(cycles)),
        segments: sent,
        lost: lost.min(sent),
        is_probe: true,
        waited: 0,
        alike: ALIKE,
        times: f64::from(cycles),
        of: f64::from(flow.slot_cycles.max(1)),
        parts: CrossedParts {
            certain: flow.certain.clone(),
            possible: flow.possible.clone(),
            shares: flow.shares.clone(),
        },
    })
}
