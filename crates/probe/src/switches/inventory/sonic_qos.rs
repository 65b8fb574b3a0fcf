//! What SONiC's configuration says of congestion: priorities with PFC and their watchdog, maps of DSCPs to classes and of classes to queues, queues
//! that mark (WRED with ECN) and their thresholds, and headroom.
//!
//! Tables of one file belong together: a port names a map or a profile that is in another table. A name that leads nowhere makes the fact
//! unreadable. A switch as a whole has the values of its ports, each once; thresholds and headroom go with a port's speed and cable, and stay there.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::super::super::priorities;
use super::fields::text;
use super::parsed::{ParsedInventory, port_part, switch_part};
use super::sonic::Entry;
use record::{Fact, InventoryPart};

pub(super) const PORT_MAP: &str = "PORT_QOS_MAP";
const DSCP_MAP: &str = "DSCP_TO_TC_MAP";
const QUEUE_MAP: &str = "TC_TO_QUEUE_MAP";
const QUEUE: &str = "QUEUE";
const PROFILE: &str = "WRED_PROFILE";
const GROUP: &str = "BUFFER_PG";
const BUFFER: &str = "BUFFER_PROFILE";
/// The tables that are read here.
pub(super) const TABLES: [&str; 7] = [PORT_MAP, DSCP_MAP, QUEUE_MAP, QUEUE, PROFILE, GROUP, BUFFER];
/// The entry of the port map that is no port.
const GLOBAL: &str = "global";

const PRIORITIES: u8 = 8;
const DSCPS: u8 = 64;
/// Queues of a port, with those of multicast.
const QUEUES: u8 = 64;
/// Facts that are the same on all ports of a switch by intent.
const OF_SWITCH: [&str; 4] = ["pfc", "pfc-watchdog", "dscp-map", "ecn"];

type Fields = Map<String, Value>;
/// Queues of a port, and from where on each marks.
type Marking = Vec<(u8, Result<String, Fact>)>;

/// Adds what the tables say of a switch's ports, and of the switch.
pub(super) fn add(parsed: &mut ParsedInventory, switch: &str, entries: &[Entry<'_>]) {
    let of = |table: &'static str| entries.iter().filter(move |entry| entry.table == table);
    let mut ports: BTreeMap<&str, InventoryPart> = BTreeMap::new();
    for entry in of(PORT_MAP).filter(|entry| entry.key != GLOBAL) {
        for port in entry
            .key
            .split(',')
            .map(str::trim)
            .filter(|port| !port.is_empty())
        {
            let part = ports.entry(port).or_insert_with(|| port_part(port));
            let fields = entry.fields;
            for (name, fact) in [
                ("pfc", enabled(fields, "pfc_enable")),
                ("pfc-watchdog", enabled(fields, "pfcwd_sw_enable")),
                (
                    "dscp-map",
                    map_of(fields, "dscp_to_tc_map", entries, DSCP_MAP, DSCPS),
                ),
                (
                    "class-queues",
                    map_of(fields, "tc_to_queue_map", entries, QUEUE_MAP, QUEUES),
                ),
            ] {
                part.facts.insert(name.to_string(), fact);
            }
        }
    }
    if of(QUEUE).next().is_some() {
        let mut marks: BTreeMap<&str, Marking> = BTreeMap::new();
        for entry in of(QUEUE) {
            let Some((names, queues)) = ports_and_numbers(entry.key, QUEUES) else {
                continue;
            };
            let threshold = text(entry.fields, "wred_profile").map(|name| thresholds(&name, entries));
            let Some(threshold) = threshold.and_then(Result::transpose) else {
                continue;
            };
            for name in names {
                let all = queues.iter().map(|queue| (*queue, threshold.clone()));
                marks.entry(name).or_default().extend(all);
            }
        }
        for (name, part) in &mut ports {
            let (ecn, thresholds) = marking(marks.remove(name).unwrap_or_default());
            part.facts.insert("ecn".to_string(), ecn);
            part.facts.insert("ecn-thresholds".to_string(), thresholds);
        }
    }
    for entry in of(GROUP) {
        let Some((names, groups)) = ports_and_numbers(entry.key, PRIORITIES) else {
            continue;
        };
        let profile = text(entry.fields, "profile").map(|name| reference(&name).to_string());
        let profile = profile.and_then(|name| of(BUFFER).find(|entry| entry.key == name));
        let Some(bytes) = profile.and_then(|profile| text(profile.fields, "xoff")) else {
            continue;
        };
        for name in names {
            if let Some(part) = ports.get_mut(name) {
                let more = format!("{}: {bytes}", priorities::numbers(&groups));
                let all = match part.value("headroom") {
                    Some(known) => format!("{known}; {more}"),
                    None => more,
                };
                part.facts.insert("headroom".to_string(), Fact::Value(all));
            }
        }
    }
    if ports.is_empty() {
        return;
    }
    let mut whole = switch_part(switch);
    for name in OF_SWITCH {
        let facts = ports.values().filter_map(|part| part.facts.get(name));
        if let Some(fact) = together(facts) {
            whole.facts.insert(name.to_string(), fact);
        }
    }
    parsed.part(switch, whole);
    for part in ports.into_values() {
        parsed.part(switch, part);
    }
}

/// The values of a switch's ports, each once; unreadable where one is.
fn together<'f>(facts: impl Iterator<Item = &'f Fact>) -> Option<Fact> {
    let mut values = BTreeSet::new();
    for fact in facts {
        match fact {
            Fact::Value(value) => drop(values.insert(value.as_str())),
            Fact::Unreadable { .. } => return Some(fact.clone()),
            Fact::Absent => {}
        }
    }
    let all: Vec<&str> = values.into_iter().collect();
    (!all.is_empty()).then(|| Fact::Value(all.join(" | ")))
}

fn enabled(fields: &Fields, field: &str) -> Fact {
    let said = text(fields, field).unwrap_or_default();
    match priorities::parse(&said, PRIORITIES) {
        Some(all) => Fact::Value(priorities::list(&all)),
        None => unreadable(format!("{field} is `{}`", shown(&said))),
    }
}

/// The map that a port names, in one line.
fn map_of(fields: &Fields, field: &str, entries: &[Entry<'_>], table: &str, keys: u8) -> Fact {
    let Some(name) = text(fields, field) else {
        return Fact::Absent;
    };
    let name = reference(&name);
    let found = entries
        .iter()
        .find(|entry| entry.table == table && entry.key == name);
    let Some(found) = found else {
        return unreadable(format!("{table} has no {}", shown(name)));
    };
    let mut map = Vec::new();
    for (key, value) in found.fields {
        let value = value
            .as_str()
            .map(str::to_string)
            .unwrap_or_else(|| value.to_string());
        match (key.parse::<u8>(), value.parse::<u8>()) {
            (Ok(key), Ok(value)) if key < keys => map.push((key, value)),
            _ => return unreadable(format!("{table} maps `{}` to `{}`", shown(key), shown(&value))),
        }
    }
    map.sort_unstable();
    Fact::Value(priorities::map(&map))
}

/// What a WRED profile marks and from where on; none where it marks nothing.
fn thresholds(name: &str, entries: &[Entry<'_>]) -> Result<Option<String>, Fact> {
    let name = reference(name);
    let profile = entries
        .iter()
        .find(|entry| entry.table == PROFILE && entry.key == name);
    let profile = profile.ok_or_else(|| unreadable(format!("{PROFILE} has no {}", shown(name))))?;
    let said = |field: &str| text(profile.fields, field);
    let marks = said("ecn").unwrap_or_else(|| "ecn_none".to_string());
    if marks == "ecn_none" {
        return Ok(None);
    }
    let colours = ["green", "yellow", "red"].into_iter().filter_map(|colour| {
        let is_on = said(&format!("wred_{colour}_enable")).is_none_or(|on| on == "true");
        let of = |what: &str| said(&format!("{colour}_{what}"));
        let (least, most) = (of("min_threshold")?, of("max_threshold")?);
        let most_marked = of("drop_probability").map_or_else(String::new, |percent| format!(" {percent}%"));
        is_on.then(|| format!("{colour} {least}-{most}{most_marked}"))
    });
    let colours: Vec<String> = colours.collect();
    Ok(Some(
        format!("{marks} {}", colours.join(" ")).trim_end().to_string(),
    ))
}

/// The queues that mark, and their thresholds.
fn marking(mut queues: Marking) -> (Fact, Fact) {
    queues.sort_by_key(|(queue, _)| *queue);
    let numbers: Vec<u8> = queues.iter().map(|(queue, _)| *queue).collect();
    let known: Result<Vec<String>, Fact> = queues
        .into_iter()
        .map(|(queue, text)| text.map(|text| format!("{queue}: {text}")))
        .collect();
    match known {
        Ok(known) if known.is_empty() => (Fact::Value(priorities::list(&[])), Fact::Absent),
        Ok(known) => (
            Fact::Value(priorities::list(&numbers)),
            Fact::Value(known.join("; ")),
        ),
        Err(fact) => (fact.clone(), fact),
    }
}

/// `Ethernet0|3-4`, `Ethernet0,Ethernet4|3`.
fn ports_and_numbers(key: &str, end: u8) -> Option<(Vec<&str>, Vec<u8>)> {
    let (ports, numbers) = key.rsplit_once(['|', ':'])?;
    let numbers = priorities::parse(numbers, end).filter(|numbers| !numbers.is_empty())?;
    Some((ports.split(',').map(str::trim).collect(), numbers))
}

/// Older releases write `[DSCP_TO_TC_MAP|AZURE]` for `AZURE`.
fn reference(name: &str) -> &str {
    let inner = name.trim().trim_start_matches('[').trim_end_matches(']');
    inner.rsplit_once('|').map_or(inner, |(_, name)| name)
}

fn shown(text: &str) -> String {
    text.chars().take(60).flat_map(char::escape_default).collect()
}

fn unreadable(why: String) -> Fact {
    Fact::Unreadable { why, needs: None }
}
