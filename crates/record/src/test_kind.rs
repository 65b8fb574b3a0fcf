//! The kinds of tests that a suite is made of.

use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, VariantNames};

/// What a test is about.
#[derive(
    Debug,
    Clone,
    Copy,
    Default,
    PartialEq,
    Eq,
    Hash,
    Serialize,
    Deserialize,
    Display,
    EnumString,
    VariantNames,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum TestKind {
    /// Collectives over groups of ranks.
    #[default]
    Collective,
    /// Each rail alone, then all rails at the same time.
    Rails,
    /// Every pair of ranks.
    Pairs,
    /// Round trips of small messages between every pair of ranks.
    Latency,
    /// Collectives over groups that follow the fabric: a leaf, two leaves, one rank of each, ...
    Groups,
    /// Many send to one, beside a victim that has nothing to do with it.
    Incast,
    /// Everybody sends to everybody, beside a victim that has nothing to do with it.
    AllToAll,
    /// Many streams at once across leaves: how evenly they are spread over equal paths.
    Ecmp,
    /// Many send to one at the same time, one after another being the receiver: what share each sender gets.
    Fairness,
    /// Everybody sends to somebody at the same time, in patterns that the fabric should carry: which of them it does not.
    Permutation,
    /// Small packets over every rail between many pairs: which link loses or holds up some of them.
    Probe,
}

impl TestKind {
    /// Whether it loads rails on purpose, beside victims.
    pub fn loads_rails(self) -> bool {
        matches!(self, TestKind::Incast | TestKind::AllToAll)
    }

    /// Whether it says nothing where there are no rails.
    pub fn needs_rails(self) -> bool {
        matches!(
            self,
            TestKind::Rails
                | TestKind::Groups
                | TestKind::Incast
                | TestKind::AllToAll
                | TestKind::Ecmp
                | TestKind::Fairness
                | TestKind::Permutation
                | TestKind::Probe
        )
    }
}
