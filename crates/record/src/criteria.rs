//! What a burn-in accepts, and why.

use serde::{Deserialize, Serialize};

use crate::units::Nanos;

/// What is accepted of new hardware. Each value has its reason, from the suite.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Criteria {
    /// A part is decided on only after so long under load.
    pub least_load: Limit<Nanos>,
    /// And so many complete cycles.
    pub least_cycles: Limit<u32>,
    /// A cable counts as loaded in a cycle from this share of its rate.
    pub least_share: Limit<f64>,
    /// The share of cycles in which it must have been loaded so.
    pub least_covered: Limit<f64>,
    /// Wrong elements that are accepted.
    pub corruption: Limit<u64>,
    /// How often a link may go down and come back.
    pub flaps: Limit<u32>,
    /// How often a node may be lost, whether it came back or not.
    pub losses: Limit<u32>,
    /// How far a part's bandwidth may fall below what it was at the beginning, by step or slope (0.05 = 5 %).
    pub drift: Limit<f64>,
    /// In how many cycles a part may be found slow by itself (against spec or peers) before it is rejected: one is chance.
    pub slow_cycles: Limit<u32>,
    /// Share of cycles in which sporadic slow iterations of a part are accepted.
    pub sporadic: Limit<f64>,
    /// Errors that a rule about counters calls bad (ECC, remapped rows, PCIe replays, symbol errors, ...): cycles with any.
    pub error_cycles: Limit<u32>,
    /// Share of cycles in which clocks of a GPU may be held down by heat or hardware.
    pub throttled: Limit<f64>,
    /// Share of its packets that a part may lose, by the probes of all cycles together.
    #[serde(default = "no_losses")]
    pub lossy: Limit<f64>,
    /// Samples of this many last cycles are kept as they are; those of older healthy cycles become histograms.
    pub raw_cycles: Limit<u32>,
}

/// A limit with its reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Limit<T> {
    /// The limit.
    pub value: T,
    /// Where it comes from.
    pub reason: String,
}

impl<T> Limit<T> {
    fn new(value: T, reason: &str) -> Limit<T> {
        let reason = reason.to_string();
        Limit { value, reason }
    }
}

/// What is accepted of losses where a suite, or an older record, does not say.
fn no_losses() -> Limit<f64> {
    Limit::new(
        0.0,
        "a healthy cable loses one packet in many millions; RDMA sends a whole window again for every one",
    )
}

impl Default for Criteria {
    /// What is accepted where a suite does not say.
    fn default() -> Criteria {
        Criteria {
            least_load: Limit::new(
                Nanos::from_secs(3600),
                "an hour brings modules, NICs and GPUs to the temperature that they work at",
            ),
            least_cycles: Limit::new(
                5,
                "a step needs three cycles before it and two after it to be told from noise",
            ),
            least_share: Limit::new(
                0.5,
                "below half its rate a cable has neither the heat nor the errors of work",
            ),
            least_covered: Limit::new(
                0.9,
                "a neighbour that is lost may leave a cable idle for a few cycles, not for most",
            ),
            corruption: Limit::new(0, "a single wrong element spoils a result"),
            flaps: Limit::new(
                0,
                "rules for production disagree (any, 3 in 12 h, 5 in 24 h); a new link has no excuse yet",
            ),
            losses: Limit::new(0, "every loss of a node ends somebody's job"),
            drift: Limit::new(
                0.05,
                "the regression that is commonly acted upon, and well beyond what cycles differ by",
            ),
            slow_cycles: Limit::new(1, "one slow cycle may be chance; the same part twice is not"),
            sporadic: Limit::new(
                0.1,
                "an iteration that waits for a busy host now and then is not the fabric's fault",
            ),
            error_cycles: Limit::new(
                0,
                "the rules about counters already leave room for what healthy parts do",
            ),
            throttled: Limit::new(
                0.0,
                "a GPU whose clocks are held down by heat or hardware lacks cooling or power",
            ),
            lossy: no_losses(),
            raw_cycles: Limit::new(3, "enough to look at single iterations of what has just happened"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn criteria_recorded_before_losses_were_one_of_them_are_read() {
        let mut written = serde_json::to_value(Criteria::default()).unwrap();
        written.as_object_mut().unwrap().remove("lossy");
        let read: Criteria = serde_json::from_value(written).unwrap();
        assert_eq!(read, Criteria::default());
    }

    #[test]
    fn every_criterion_has_a_reason_even_where_no_suite_gives_one() {
        let written = serde_json::to_value(Criteria::default()).unwrap();
        let limits = written.as_object().unwrap();
        assert_eq!(limits.len(), 14);
        for (name, limit) in limits {
            assert!(
                limit["reason"].as_str().is_some_and(|reason| reason.len() > 20),
                "{name}"
            );
        }
    }
}
