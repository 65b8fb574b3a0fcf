//! What healthy flows lose: lossy iterations by kind of flow, and how often something disturbs one.

use super::flows::LossFlow;

/// Lossy iterations of a kind that are assumed beforehand, and of how many.
const LOSSY: (f64, f64) = (0.1, 10.0);
/// Fewer iterations elsewhere do not show what healthy flows lose.
const FEWEST_TRIALS: f64 = 1.0;
/// Disturbed flows that are assumed beforehand, and of how many.
const DISTURBED: (f64, f64) = (0.2, 10.0);

/// Sums over flows that no accepted part explains.
#[derive(Debug, Clone, Default)]
pub(super) struct Tally {
    /// Per kind: lossy iterations and all.
    of_kind: Vec<(f64, f64)>,
    /// Flows with losses, and all.
    flows: (f64, f64),
}

impl Tally {
    pub(super) fn add(&mut self, flow: &LossFlow, times: f64) {
        if self.of_kind.len() <= flow.kind {
            self.of_kind.resize(flow.kind + 1, (0.0, 0.0));
        }
        let times = times * flow.times;
        let (lossy, trials) = &mut self.of_kind[flow.kind];
        *lossy += times * flow.lossy;
        *trials += times * flow.trials;
        self.flows.0 += times * f64::from(u8::from(flow.lossy > 0.0));
        self.flows.1 += times;
    }

    /// The probability that an iteration of a healthy flow of a kind is lossy; none where there is no such flow to tell.
    pub(super) fn baseline(&self, kind: usize, without: &Tally) -> Option<f64> {
        let sums = |tally: &Tally| tally.of_kind.get(kind).copied().unwrap_or_default();
        let ((lossy, trials), (own_lossy, own_trials)) = (sums(self), sums(without));
        let others = trials - own_trials;
        (others >= FEWEST_TRIALS).then(|| ((lossy - own_lossy).max(0.0) + LOSSY.0) / (others + LOSSY.1))
    }

    /// The probability that a healthy flow is disturbed.
    pub(super) fn disturbed(&self, without: &Tally) -> f64 {
        let (lossy, all) = (self.flows.0 - without.flows.0, self.flows.1 - without.flows.1);
        ((lossy.max(0.0) + DISTURBED.0) / (all.max(0.0) + DISTURBED.1)).min(0.5)
    }
}
