//! Patterns of traffic: who sends to whom at the same time, and what of it arrived.

use std::fmt::Write;

use serde::{Deserialize, Serialize};
use strum::{Display, EnumIter, EnumString};

use crate::units::Rate;

/// How a pattern was made.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    Display,
    EnumString,
    EnumIter,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum PatternKind {
    /// Partners drawn by lot: what usual traffic meets.
    Random,
    /// Every host sends to the one so many places further on.
    Shift,
    /// Every host of a leaf sends to a host of the leaf so many further on.
    LeafShift,
    /// To the host whose number has the same bits in the other order.
    BitReverse,
    /// Hosts as rows (leaves) and columns (places) are transposed.
    Transposition,
    /// Leaves two by two: hosts of both exchange with each other.
    LeafPairs,
    /// Leaves three by three: the hosts of one place in each exchange with each other.
    LeafTriples,
    /// Found by a search for what the fabric carries worst.
    Searched,
    /// As the suite lists it.
    Listed,
}

/// The pattern that the cells of a slot make up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TrafficPattern {
    /// Its name, once in its test: `leaf-shift-1`, `worst-2`.
    pub name: String,
    /// How it was made.
    pub kind: PatternKind,
    /// The percentage of what the topology should carry that the suite asks for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_least: Option<u8>,
}

/// What became of a pattern.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Display, EnumIter,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum TrafficOutcome {
    /// Every flow gets about what a cable of its host carries.
    Carried,
    /// The topology cannot carry more: uplinks are oversubscribed.
    ByDesign,
    /// Flows share cables, as their paths say: what static hashing costs.
    Collides,
    /// Less than the suite asks for, in two rounds.
    BelowFloor,
    /// Less than even the paths of its flows explain, in two rounds.
    BelowPrediction,
    /// Something was seen once, or not enough was.
    Unclear,
}

/// What a pattern delivered, and what it should.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TrafficRow {
    /// Name of the test.
    pub test: String,
    /// Rail by name.
    pub rail: String,
    /// Name of the pattern.
    pub pattern: String,
    /// How it was made.
    pub kind: PatternKind,
    /// What became of it.
    pub outcome: TrafficOutcome,
    /// Flows at the same time.
    pub flows: u32,
    /// Rounds in which it was measured.
    pub rounds: u16,
    /// What arrived of all flows together (median of rounds).
    pub delivered: Rate,
    /// What the topology should carry of them if they were split evenly over equal paths.
    pub ideal: Rate,
    /// What it carries of them over the paths that they take; none where these are not known at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predicted: Option<Rate>,
    /// Delivered over ideal, of the flows that get least of it.
    pub worst_share: f64,
    /// The same as predicted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predicted_share: Option<f64>,
    /// What the topology should carry of the flow that it holds back most, relative to what the cables of hosts leave it: below 1 by design.
    pub by_design: f64,
    /// The cable, in one direction, that the flows share which get least.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cable: Option<String>,
    /// Flows that cross it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub sharing: u32,
    /// The verdict in a sentence.
    pub sentence: String,
    /// Senders and receivers by rank, of patterns that do not get what they should: `0>3 1>2`, as a suite takes them.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub pairs: String,
    /// Its cells.
    pub cells: Vec<u32>,
    /// The command that measures it alone.
    pub repeat: String,
}

fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// Senders and receivers as a text: `0>3 1>2`.
pub fn pairs_in_words(pairs: &[(u32, u32)]) -> String {
    let mut text = String::new();
    for (from, to) in pairs {
        let gap = if text.is_empty() { "" } else { " " };
        let _ = write!(text, "{gap}{from}>{to}");
    }
    text
}

/// Reads such a text; the word that is no pair of two different ranks otherwise.
pub fn pairs_of_words(text: &str) -> Result<Vec<(u32, u32)>, String> {
    let pair = |word: &str| {
        let (from, to) = word.split_once('>')?;
        let (from, to) = (from.parse::<u32>().ok()?, to.parse::<u32>().ok()?);
        (from != to).then_some((from, to))
    };
    let words = text.split_whitespace();
    words
        .map(|word| pair(word).ok_or_else(|| word.to_string()))
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_word_that_is_no_pair_is_named() {
        for wrong in ["3", "1>1", "a>b", "1>2>3", ">", "-1>2", "1>99999999999"] {
            assert_eq!(pairs_of_words(&format!("0>1 {wrong}")), Err(wrong.to_string()));
        }
        assert_eq!(pairs_of_words(" "), Ok(Vec::new()));
    }

    proptest! {
        #[test]
        fn a_pattern_is_read_as_it_was_written(pairs in proptest::collection::vec((0u32..2000, 0u32..2000), 0..40)) {
            let pairs: Vec<(u32, u32)> = pairs.into_iter().filter(|(from, to)| from != to).collect();
            prop_assert_eq!(pairs_of_words(&pairs_in_words(&pairs)), Ok(pairs));
        }

        #[test]
        fn no_text_makes_reading_fail_badly(text in "[0-9> a]{0,40}") {
            if let Ok(pairs) = pairs_of_words(&text) {
                prop_assert!(pairs.iter().all(|(from, to)| from != to));
            }
        }
    }
}
