//! What one flow says for a part that it crossed: how probable its losses are if that part loses packets, over how probable they are if it loses none.

use std::collections::HashMap;

use super::flows::LossFlow;
use record::stats::ln_any_probability;

/// How much rarer it is that a flow over a part which loses packets is spared, than that something else makes a flow lose some.
const HIDDEN: f64 = 0.01;
/// Probabilities of loss that are considered: as powers of ten, from and to, and how many per decade.
const DECADES: (i32, f64, f64) = (-6, -0.3, 4.0);
/// No part loses more than this.
const MOST: f64 = 0.99;

/// A flow that may have crossed a part.
pub(super) struct Crossing {
    /// Of its packets, if it did.
    pub(super) share: f64,
    /// How much it counts beside others of its slot.
    pub(super) weight: f64,
    /// That an iteration of it is lossy without the part.
    pub(super) baseline: f64,
    /// That it was disturbed.
    pub(super) disturbed: f64,
}

impl Crossing {
    /// The logarithm of how much likelier a flow's losses are if it crossed the part, which loses packets, than if nothing does. `known` is
    /// what accepted parts lose of it.
    pub(super) fn ln_ratio(&self, flow: &LossFlow, known: f64, loss: f64) -> f64 {
        self.against(flow, known).ln_ratio(flow, loss)
    }

    /// What of that is the same for every loss.
    fn against(&self, flow: &LossFlow, known: f64) -> Against {
        let ln_disturbed = self.disturbed.ln();
        let mut against = Against {
            share: self.share,
            known,
            passes: 1.0 - self.baseline,
            ln_undisturbed: (1.0 - self.disturbed).ln(),
            by_other_reasons: ln_disturbed + ln_any_probability(flow.lossy, flow.trials),
            null: 0.0,
        };
        let healthy = against.lossy_with(flow, known);
        against.null = ln_sum(
            against.ln_undisturbed + ln_of(flow, healthy),
            against.by_other_reasons,
        );
        against
    }
}

/// What a flow that may have crossed a part is held against.
struct Against {
    share: f64,
    known: f64,
    /// That an iteration of it has no losses without the part.
    passes: f64,
    /// Logarithms: that it was not disturbed, that it was and lost this, and that it lost this without the part.
    ln_undisturbed: f64,
    by_other_reasons: f64,
    null: f64,
}

impl Against {
    fn lossy_with(&self, flow: &LossFlow, survival: f64) -> f64 {
        (1.0 - self.passes * (-flow.per_trial * survival).exp()).clamp(1e-12, 1.0 - 1e-12)
    }

    fn ln_ratio(&self, flow: &LossFlow, loss: f64) -> f64 {
        // Something else may add losses; that it takes away those of the part is much rarer.
        let faulty = self.lossy_with(flow, self.known - (1.0 - loss * self.share).ln());
        let hidden = match flow.lossy < flow.trials * faulty {
            true => HIDDEN.ln(),
            false => 0.0,
        };
        let crossed = ln_sum(
            self.ln_undisturbed + ln_of(flow, faulty),
            hidden + self.by_other_reasons,
        );
        crossed - self.null
    }
}

/// The logarithm of the probability of a flow's lossy iterations, where each is lossy with this one.
fn ln_of(flow: &LossFlow, lossy: f64) -> f64 {
    flow.lossy * lossy.ln() + (flow.trials - flow.lossy) * (1.0 - lossy).ln()
}

/// The probabilities of loss that are considered, of a part that flows send at most such a share of their packets over.
pub(super) fn losses(share: f64) -> impl Iterator<Item = f64> {
    let (from, to, per_decade) = DECADES;
    let steps = ((to - f64::from(from)) * per_decade) as i32;
    let of_flows = (0..=steps).map(move |step| 10f64.powf(f64::from(from) + f64::from(step) / per_decade));
    of_flows.map(move |loss| (loss / share).min(MOST))
}

/// What flows say for a part, a row for those that are alike and a column for every probability of loss.
pub(super) struct Ratios {
    losses: Vec<f64>,
    pub(super) rows: Vec<Vec<f64>>,
    known: HashMap<[u64; 3], usize>,
    /// Flows that follow each other are mostly alike.
    last: Option<([u64; 3], usize)>,
}

impl Ratios {
    /// Of a part that flows send at most such a share of their packets over.
    pub(super) fn of_share(share: f64) -> Ratios {
        Ratios {
            losses: losses(share).collect(),
            rows: Vec::new(),
            known: HashMap::new(),
            last: None,
        }
    }

    /// The row of a flow of a `class`: those with the same number have as many iterations, lossy ones and packets, and are of a kind.
    pub(super) fn row(&mut self, one: &Crossing, class: usize, flow: &LossFlow, known: f64) -> usize {
        let key = [class as u64, known.to_bits(), one.share.to_bits()];
        if let Some((last, row)) = self.last
            && last == key
        {
            return row;
        }
        let fresh = self.rows.len();
        let row = *self.known.entry(key).or_insert(fresh);
        if row == fresh {
            let against = one.against(flow, known);
            let of_losses = self.losses.iter().map(|loss| against.ln_ratio(flow, *loss));
            self.rows.push(of_losses.collect());
        }
        self.last = Some((key, row));
        row
    }
}

/// The logarithm of the sum of two numbers of which these are the logarithms.
pub(super) fn ln_sum(a: f64, b: f64) -> f64 {
    let (low, high) = if a < b { (a, b) } else { (b, a) };
    if high == f64::NEG_INFINITY {
        return high;
    }
    high + (low - high).exp().ln_1p()
}
