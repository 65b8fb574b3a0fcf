//! The name of a lab, and the names of its namespaces, which carry it as a prefix.
//!
//! A namespace belongs to exactly one lab: `rg-NAME-NODE` is split where NODE is a node's name, and no node's name ends
//! with another one behind a `-`. So lab `a` never removes what belongs to lab `a-b`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::{LabError, Node};

/// The beginning of every namespace of every lab.
const PREFIX: &str = "rg-";
/// Longest name of a lab.
const LONGEST: usize = 12;

/// The checked name of a lab.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct LabName(String);

impl LabName {
    /// The namespace of a node.
    pub fn namespace(&self, node: Node) -> String {
        format!("{PREFIX}{}-{node}", self.0)
    }

    /// The lab and the node that a namespace belongs to; none when it is not a namespace of a lab.
    pub fn of_namespace(namespace: &str) -> Option<(LabName, Node)> {
        let rest = namespace.strip_prefix(PREFIX)?;
        let splits = rest
            .match_indices('-')
            .map(|(at, _)| (&rest[..at], &rest[at + 1..]));
        splits
            .filter_map(|(name, node)| Some((name.parse().ok()?, node.parse().ok()?)))
            .next()
    }

    /// As text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for LabName {
    type Err = LabError;

    fn from_str(text: &str) -> Result<LabName, LabError> {
        let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if text.is_empty() || text.len() > LONGEST || text.starts_with('-') || !text.chars().all(fits) {
            return Err(LabError::BadName(text.chars().take(40).collect()));
        }
        Ok(LabName(text.to_string()))
    }
}

impl TryFrom<String> for LabName {
    type Error = LabError;
    fn try_from(text: String) -> Result<LabName, LabError> {
        text.parse()
    }
}

impl From<LabName> for String {
    fn from(name: LabName) -> String {
        name.0
    }
}

impl fmt::Display for LabName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_could_lead_elsewhere_is_refused() {
        for text in ["", "-a", "A", "a b", "../x", "a/b", "a.b", "abcdefghijklm", "ä"] {
            assert!(text.parse::<LabName>().is_err(), "{text:?}");
        }
        for text in ["lab", "a", "0", "a-b-c", "abcdefghijkl"] {
            assert_eq!(text.parse::<LabName>().unwrap().as_str(), text);
        }
    }

    #[test]
    fn a_namespace_is_known_to_belong_to_one_lab_whatever_the_labs_are_called() {
        let nodes = ["h0", "rail0-leaf1", "rail3-spine12", "mgmt"].map(|node| node.parse::<Node>().unwrap());
        for name in ["a", "a-b", "a-h0", "rail0", "x-rail0", "rail0-leaf1"] {
            let name: LabName = name.parse().unwrap();
            for node in nodes {
                let found = LabName::of_namespace(&name.namespace(node));
                assert_eq!(found, Some((name.clone(), node)), "{name} {node}");
            }
        }
    }

    #[test]
    fn namespaces_of_others_are_nobody_of_ours() {
        for namespace in [
            "",
            "rg-",
            "rg-lab",
            "rg-lab-",
            "other",
            "rg-lab-x0",
            "rg-LAB-h0",
            "cni-lab-h0",
        ] {
            assert_eq!(LabName::of_namespace(namespace), None, "{namespace}");
        }
    }
}
