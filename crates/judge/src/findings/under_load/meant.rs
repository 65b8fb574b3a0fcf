//! What a rail is meant to do under load: to lose nothing, and to mark packets before it pauses.
//!
//! The inventory says it where it was read: PFC of the ends of a rail (or of its leaves), ECN of switches and NICs. Where it says nothing about
//! losses, pauses do: but one NIC that pauses is no lossless class. Two hosts of the rail in two slots are, or more than half of the rails of which
//! pauses are known. What breaks it: a rail without PFC by intent beside more rails with it, of which the inventory knows nothing.

use std::collections::{BTreeMap, BTreeSet};

use super::slots::RailSeen;
use crate::findings::analysis::RunAnalysis;
use crate::findings::settings::{Places, Unit};
use record::MarksRule;
use record::text;

/// Hosts that paused or were paused, and slots in which they did, before pauses are a sign.
const FEWEST: usize = 2;
const OFF: &str = "off";

/// What a rail is meant to do; an error says why it is not asked.
#[derive(Debug, Clone)]
pub(super) struct Meant {
    /// To lose nothing, and what says so.
    pub(super) lossless: Result<String, String>,
    /// To mark packets before it pauses.
    pub(super) marks: Result<(), String>,
}

/// What every rail is meant to do.
pub(super) fn of<'a>(
    analysis: &RunAnalysis<'_>,
    rails: &BTreeMap<&'a str, RailSeen<'_>>,
) -> BTreeMap<&'a str, Meant> {
    let places = Places::of(analysis);
    let signs: BTreeMap<&str, bool> = rails
        .iter()
        .filter(|(_, rail)| rail.knows_pauses)
        .map(|(name, rail)| (*name, is_paused(rail)))
        .collect();
    let paused = signs.values().filter(|sign| **sign).count();
    let meant = |name: &'a str| {
        let said = places.as_ref().and_then(|places| pfc(places, name));
        let lossless = said.unwrap_or_else(|| match signs.get(name) {
            Some(true) => Ok(format!(
                "pauses were seen on {name} at {FEWEST} hosts and in {FEWEST} slots or more: losses are to be prevented"
            )),
            _ if 2 * paused > signs.len() && signs.len() > 1 => Ok(format!(
                "pauses were seen on {paused} of {} rails: losses are to be prevented",
                signs.len()
            )),
            _ => Err(format!(
                "no sign that losses are to be prevented: PFC was not read, and fewer than {FEWEST} hosts paused or were paused in {FEWEST} slots"
            )),
        });
        let marks = match analysis.run().rule.marks {
            MarksRule::Expect => Ok(()),
            MarksRule::None => Err("the suite says that this fabric does without marks".to_string()),
            MarksRule::Auto => match places.as_ref().and_then(|places| without_marks(places, name)) {
                Some(why) => Err(why),
                None => Ok(()),
            },
        };
        (name, Meant { lossless, marks })
    };
    rails.keys().map(|name| meant(name)).collect()
}

/// Whether so many hosts and slots of a rail saw pauses that no single NIC explains them.
fn is_paused(rail: &RailSeen<'_>) -> bool {
    let mut hosts = BTreeSet::new();
    let mut slots = 0;
    for slot in &rail.slots {
        let of_slot = slot.with_pauses();
        slots += usize::from(!of_slot.is_empty());
        hosts.extend(of_slot);
    }
    hosts.len() >= FEWEST && slots >= FEWEST
}

/// What the inventory says of PFC: of the ends of a rail, else of its leaves. Nothing where neither is known, where few have it, and where global
/// pauses are on.
fn pfc(places: &Places<'_>, rail: &str) -> Option<Result<String, String>> {
    let ends = places.of_rail(rail);
    let (said, places_in_words) = match values(&ends, "pfc") {
        said if !said.is_empty() => {
            let words = text::counted(said.len(), "end");
            (said, words)
        }
        _ => {
            let said = values(&places.leaves_of(rail), "pfc");
            let words = text::counted_as(said.len(), "leaf", "leaves");
            (said, words)
        }
    };
    let on: BTreeSet<&str> = said
        .iter()
        .map(String::as_str)
        .filter(|value| *value != OFF)
        .collect();
    let with_it = said.iter().filter(|value| *value != OFF).count();
    if 2 * with_it > said.len() {
        let priorities: Vec<&str> = on.into_iter().collect();
        return Some(Ok(format!(
            "PFC is on at {with_it} of {places_in_words} of {rail} (inventory: {}): losses are to be prevented",
            text::list_up_to(&priorities, 3)
        )));
    }
    let is_globally_paused = values(&ends, "pause").iter().any(|value| value != OFF);
    let is_off = with_it == 0 && !said.is_empty() && !is_globally_paused;
    is_off.then(|| {
        Err(format!(
            "PFC is off at {places_in_words} of {rail}, all that the inventory knows: losses are not prevented there"
        ))
    })
}

/// Why a rail is meant to do without marks: ECN is off in all switches that are known, or in the NICs of all ends where none is.
fn without_marks(places: &Places<'_>, rail: &str) -> Option<String> {
    let switches = values(&places.all_switches(), "ecn");
    let are_off = |values: &[String]| !values.is_empty() && values.iter().all(|value| value == OFF);
    if !switches.is_empty() {
        return are_off(&switches).then(|| {
            let all = text::counted_as(switches.len(), "switch", "switches");
            format!("ECN is off in {all}, all that the inventory knows: nothing is to be marked")
        });
    }
    let ends = places.of_rail(rail);
    let answering = values(&ends, "ecn-np");
    (are_off(&answering) && answering.len() == ends.len()).then(|| {
        let all = text::counted(answering.len(), "end");
        format!("ECN is off in the NICs of all {all} of {rail} (inventory): nothing is to be marked")
    })
}

fn values(units: &[Unit<'_>], fact: &str) -> Vec<String> {
    let values = units.iter().filter_map(|unit| unit.value(fact));
    values.map(str::to_string).collect()
}
