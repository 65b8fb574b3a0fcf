//! How a fabric chooses the paths of flows, as far as it was seen.

use serde::{Deserialize, Serialize};
use strum::{Display, EnumString};

use crate::text;

/// How paths are chosen among equal ones.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Display, EnumString,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum PathPlacement {
    /// By addresses and ports: the same flow always takes the same path.
    Steady,
    /// Anew for every connection, whatever its ports.
    PerConnection,
    /// Anew for every packet.
    Sprayed,
    /// Not seen.
    Unknown,
}

/// How one switch chooses among its next hops.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SwitchPlacement {
    /// The switch by name.
    pub switch: String,
    /// How it chooses.
    pub placement: PathPlacement,
    /// Flows that were traced again in another connection.
    pub repeats: u32,
    /// Those of them that met the same next switch.
    pub agreed: u32,
    /// Flows of which several packets were traced in one connection.
    #[serde(default)]
    pub bursts: u32,
    /// Those of them whose packets met different next switches.
    #[serde(default)]
    pub spread: u32,
}

/// A switch that a flow crossed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CrossedSwitch {
    /// The switch by name.
    pub switch: String,
    /// The link by which the flow came to it, where the switch named the port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
}

/// The path of the very connection that a cell used, as far as switches answered within it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CrossedPath {
    /// Cell id.
    pub cell: u32,
    /// The first switch of the path, the second and so on; none for one that was not asked or did not answer.
    pub hops: Vec<Option<CrossedSwitch>>,
}

impl SwitchPlacement {
    /// How the switches of a run place flows, one line for each way, and what that rests on. Empty where none has a choice.
    pub fn in_words(switches: &[SwitchPlacement]) -> Vec<String> {
        let ways = [
            (
                PathPlacement::Steady,
                ["place", "places"],
                "flows by their ports: the path of a flow is known from traces",
            ),
            (
                PathPlacement::PerConnection,
                ["place", "places"],
                "every connection anew: cables between switches are judged by many connections",
            ),
            (
                PathPlacement::Sprayed,
                ["place", "places"],
                "every packet anew: a flow crosses all equal paths at once",
            ),
            (
                PathPlacement::Unknown,
                ["answered", "answered"],
                "too few traces to tell how flows are placed: what crossed which cable is a matter of probability",
            ),
        ];
        let line = |(way, verb, words): (PathPlacement, [&str; 2], &str)| {
            let of_way: Vec<&SwitchPlacement> =
                switches.iter().filter(|switch| switch.placement == way).collect();
            let sum =
                |count: fn(&SwitchPlacement) -> u32| of_way.iter().map(|switch| count(switch)).sum::<u32>();
            let (repeats, agreed) = (sum(|switch| switch.repeats), sum(|switch| switch.agreed));
            let names: Vec<String> = of_way.iter().map(|switch| switch.switch.clone()).collect();
            (!of_way.is_empty()).then(|| {
                let verb = verb[usize::from(names.len() == 1)];
                let evidence = match repeats {
                    0 => String::new(),
                    _ => format!(" ({agreed} of {repeats} flows that were traced again took the same path)"),
                };
                format!("{} {verb} {words}{evidence}", text::list(&names))
            })
        };
        ways.into_iter().filter_map(line).collect()
    }
}

/// A cable that is elsewhere than the topology file said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MiscabledRecord {
    /// The cable by its name in the file.
    pub cable: String,
    /// The node that the file has at its lower end.
    pub written: String,
    /// The node that is connected to its upper port instead.
    pub found: String,
    /// Answers to traces that say so.
    pub answers: u32,
}

/// A cable that no traced flow takes, in either direction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UnusedCableRecord {
    /// The cable by its name in the file.
    pub cable: String,
    /// Traced flows that might have taken it.
    pub flows: u32,
    /// How many of them would have, if the cable were one of several equal ones.
    pub expected: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_of_placing_are_told_with_their_switches_and_evidence() {
        let switch = |name: &str, placement, repeats, agreed| SwitchPlacement {
            switch: name.to_string(),
            placement,
            repeats,
            agreed,
            bursts: 0,
            spread: 0,
        };
        let told = SwitchPlacement::in_words(&[
            switch("leaf0", PathPlacement::Steady, 12, 12),
            switch("leaf1", PathPlacement::Sprayed, 9, 3),
            switch("leaf2", PathPlacement::Steady, 10, 10),
        ]);
        let wanted = [
            "leaf0 and leaf2 place flows by their ports: the path of a flow is known from traces (22 of 22 flows that were traced again \
             took the same path)",
            "leaf1 places every packet anew: a flow crosses all equal paths at once (3 of 9 flows that were traced again took the same \
             path)",
        ];
        assert_eq!(told, wanted);
        assert!(SwitchPlacement::in_words(&[]).is_empty());
    }
}
