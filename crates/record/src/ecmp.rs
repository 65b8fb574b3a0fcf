//! How evenly flows were spread over equal paths, and what an imbalance is.

use serde::{Deserialize, Serialize};
use strum::Display;

use crate::units::{Bytes, Rate};

/// What the spread of flows over equal paths comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Display)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum EcmpCause {
    /// Flows vanish on a member, or none is ever sent there.
    DeadMember,
    /// A member that carries less than it should.
    SlowMember,
    /// No switch can distinguish the sender's flows.
    NoEntropy,
    /// The hash puts flows that it could tell apart on the same few members.
    Polarised,
    /// The second switch chooses as the first one did: what is left to it is used in part.
    PolarisedSecondTier,
    /// All members are used, always some more than others.
    UnequalWeights,
    /// Less evenly spread than by chance, and no more can be told.
    Unexplained,
    /// Flows have no path of their own: the fabric spreads packets, or moves flows about.
    AdaptiveRouting,
    /// As good or bad as by chance.
    ExpectedCollision,
    /// Too little was seen to say anything.
    Unjudged,
}

impl EcmpCause {
    /// Whether something is wrong with the fabric or its sender.
    pub fn is_fault(self) -> bool {
        !matches!(
            self,
            EcmpCause::AdaptiveRouting | EcmpCause::ExpectedCollision | EcmpCause::Unjudged
        )
    }
}

/// The load of one of several equal paths.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MemberLoad {
    /// The link, as `rail0-leaf0/u1->rail0-spine1/d0`.
    pub link: String,
    /// Flows that were sent over it.
    pub flows: u32,
    /// Those of them that delivered anything.
    pub delivering: u32,
    /// What its flows delivered together, at the same time.
    pub rate: Option<Rate>,
    /// What they should have, given who else was on their way.
    pub expected: Option<Rate>,
    /// What the switch counted, when its counters were read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counted: Option<Bytes>,
    /// Its share of all flows of the group.
    pub share: f64,
    /// Between these two the share lies in 99 of 100 healthy fabrics.
    pub band: (f64, f64),
}

/// The spread of flows over the equal paths that begin at one switch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EcmpVerdict {
    /// Name of the test.
    pub test: String,
    /// Rail by name.
    pub rail: String,
    /// The switch that chooses; none when paths are not known.
    pub switch: Option<String>,
    /// Which choice on the way it is: 1 at the first switch that has one, 2 at the second.
    pub tier: u8,
    /// What it comes to.
    pub cause: EcmpCause,
    /// The part at fault, when one is named: a link, a switch, a host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<String>,
    /// The verdict in one sentence.
    pub sentence: String,
    /// Flows with five-tuples of their own.
    pub flows: u32,
    /// Equal paths there are.
    pub paths: u32,
    /// Paths that were used, seen or estimated from what flows delivered.
    pub paths_used: u32,
    /// The statistic that decided, by name.
    pub statistic: String,
    /// Its value.
    pub value: f64,
    /// Its median under the null.
    pub null_median: f64,
    /// Chance of a value like this or beyond if flows were spread by a fair hash; simulated.
    pub p_value: f64,
    /// Share of the goodput of an even spread that was lost.
    pub lost: Option<f64>,
    /// The busiest member over the mean.
    pub max_over_mean: f64,
    /// The chance of such an imbalance of counted bytes under the same null, when switches were read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counted_p_value: Option<f64>,
    /// Members in the order of their names.
    pub members: Vec<MemberLoad>,
    /// Sender and receiver by host, and how many of their flows took each member (in the order of `members`).
    pub pairs: Vec<PairSpread>,
    /// Cells it rests on.
    pub cells: Vec<u32>,
    /// What to do about it.
    pub advice: String,
}

/// How the flows of one pair were spread.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PairSpread {
    /// Sending host.
    pub from: String,
    /// Receiving host.
    pub to: String,
    /// Flows on each member.
    pub flows: Vec<u32>,
    /// Flows whose way is not known.
    pub unknown: u32,
    /// Flows that delivered nothing.
    pub dead: u32,
}
