//! Merges the inventories of several texts: the same switch or cable may be in many of them.

use std::collections::{BTreeMap, HashMap};

use super::SwitchInventory;
use super::parsed::ParsedInventory;
use crate::switches::source::SourceError;
use record::text::natural;
use record::{Cable, Fact, InventoryPart, NodeInventory, PartAt, PartClass};

/// The most parts that are kept; a fabric of 1,024 switches with 128 ports and what is plugged into them has fewer.
const MOST_PARTS: usize = 1 << 19;
/// The most errors that are listed.
const MAX_ERRORS: usize = 1000;
/// What begins the reason of a fact about which two sources disagree.
const CONTRADICTION: &str = "sources contradict each other: ";

type Facts = BTreeMap<String, Fact>;

/// Everything merged so far.
#[derive(Default)]
pub(super) struct InventoryBuilder {
    switches: BTreeMap<String, HashMap<(PartClass, String), InventoryPart>>,
    parts: usize,
    cables: Vec<Cable>,
    by_port: HashMap<PartAt, usize>,
    errors: Vec<String>,
    omitted: usize,
}

impl InventoryBuilder {
    /// Continues from a finished inventory.
    pub fn of(inventory: SwitchInventory) -> InventoryBuilder {
        let mut builder = InventoryBuilder::default();
        for node in inventory.switches {
            let parts = node.parts.into_iter();
            builder.parts += parts.len();
            let parts = parts.map(|part| ((part.class, part.name.clone()), part));
            builder.switches.insert(node.node, parts.collect());
        }
        for (index, cable) in inventory.cables.iter().enumerate() {
            let ends = cable.ends.iter().map(|end| (key(end), index));
            builder.by_port.extend(ends);
        }
        builder.cables = inventory.cables;
        builder.errors = inventory.troubles;
        builder
    }

    /// Adds the inventory of one text.
    pub fn add(&mut self, place: &str, parsed: ParsedInventory) {
        for error in parsed.errors {
            self.error(SourceError::with_place(place, error).to_string());
        }
        for (switch, part) in parsed.parts {
            self.part(place, switch, part);
        }
        for cable in parsed.cables {
            self.cable(place, cable);
        }
    }

    /// Adds an error.
    pub fn error(&mut self, error: String) {
        match self.errors.len() < MAX_ERRORS {
            true => self.errors.push(error),
            false => self.omitted += 1,
        }
    }

    /// Whether a switch is known.
    pub fn knows(&self, switch: &str) -> bool {
        self.switches.contains_key(switch)
    }

    /// All known switches.
    pub fn names(&self) -> Vec<String> {
        self.switches.keys().cloned().collect()
    }

    /// Whether no switch is known.
    pub fn has_no_switches(&self) -> bool {
        self.switches.is_empty()
    }

    fn part(&mut self, place: &str, switch: String, part: InventoryPart) {
        let name = PartAt {
            node: switch.clone(),
            part: part.name.clone(),
        };
        let parts = self.switches.entry(switch).or_default();
        let known = parts.get_mut(&(part.class, part.name.clone()));
        let contradictions = match known {
            Some(known) => join(&mut known.facts, part.facts),
            None if self.parts >= MOST_PARTS => {
                return self.error(format!("{place}: `{name}`: more than {MOST_PARTS} parts"));
            }
            None => {
                self.parts += 1;
                parts.insert((part.class, part.name.clone()), part);
                Vec::new()
            }
        };
        for contradiction in contradictions {
            self.error(format!("{place}: `{name}`: {contradiction}"));
        }
    }

    /// Adds a cable, or what is new about one that is known. A port holds one.
    pub fn cable(&mut self, place: &str, cable: Cable) {
        let ends = cable.ends.each_ref().map(key);
        let known = ends.each_ref().map(|end| self.by_port.get(end).copied());
        match known {
            [None, None] if ends[0] != ends[1] && self.cables.len() < MOST_PARTS => {
                let ends = ends.into_iter().map(|end| (end, self.cables.len()));
                self.by_port.extend(ends);
                self.cables.push(cable);
            }
            [None, None] => {
                let [one, other] = &cable.ends;
                self.error(format!("{place}: a cable cannot lead from `{one}` to `{other}`"));
            }
            [Some(one), Some(other)] if one == other => {
                for contradiction in join(&mut self.cables[one].facts, cable.facts) {
                    self.error(format!("{place}: cable `{}`: {contradiction}", cable.name));
                }
            }
            [one, other] => {
                let at = if one.is_some() { 0 } else { 1 };
                let there = one.or(other).map(|there| &self.cables[there].name);
                let there = there.map_or("", String::as_str);
                let end = &cable.ends[at];
                self.error(format!(
                    "{place}: port `{end}` holds two cables: `{}`, and `{there}` in another source",
                    cable.name
                ));
            }
        }
    }

    /// The cable between these two ports takes another name.
    pub fn rename(&mut self, ends: &[PartAt; 2], name: &str) {
        let known = ends.each_ref().map(|end| self.by_port.get(&key(end)).copied());
        if let [Some(one), Some(other)] = known
            && one == other
        {
            self.cables[one].name = name.to_string();
        }
    }

    /// Everything in order.
    pub fn finish(mut self) -> SwitchInventory {
        if self.omitted > 0 {
            self.errors
                .push(format!("and {} more of that kind", self.omitted));
        }
        let node = |(node, parts): (String, HashMap<_, InventoryPart>)| {
            let mut parts: Vec<InventoryPart> = parts.into_values().collect();
            parts.sort_by_cached_key(|part| (part.class, natural(&part.name)));
            NodeInventory { node, parts }
        };
        self.cables
            .sort_by_cached_key(|cable| (natural(&cable.name), cable.ends.clone()));
        SwitchInventory {
            switches: self.switches.into_iter().map(node).collect(),
            cables: self.cables,
            troubles: self.errors,
        }
    }
}

/// Adds facts to those known. Facts that contradict each other become unreadable and are returned.
fn join(known: &mut Facts, new: Facts) -> Vec<String> {
    let mut contradictions = Vec::new();
    for (name, new) in new {
        let Some(old) = known.get_mut(&name) else {
            known.insert(name, new);
            continue;
        };
        match (&*old, &new) {
            (Fact::Value(one), Fact::Value(other)) if one != other => {
                let why = format!("`{one}` and `{other}`");
                contradictions.push(format!(
                    "{name} is {why}: {}",
                    CONTRADICTION.trim_end_matches(": ")
                ));
                *old = Fact::Unreadable {
                    why: format!("{CONTRADICTION}{why}"),
                    needs: None,
                };
            }
            (Fact::Unreadable { why, .. }, _) if why.starts_with(CONTRADICTION) => {}
            (Fact::Absent | Fact::Unreadable { .. }, Fact::Value(_)) => *old = new,
            _ => {}
        }
    }
    contradictions
}

/// The canonical name of a port: some sources name the first port of a device like the device.
fn key(end: &PartAt) -> PartAt {
    let numbered = end.part.rsplit_once(['/', ':']);
    let is_device = |name: &str| name.starts_with(|c: char| c.is_ascii_alphabetic());
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let part = match numbered {
        Some((device, "1")) if is_device(device) => device.to_string(),
        Some((device, number)) if is_device(device) && is_number(number) => format!("{device}/{number}"),
        _ => end.part.clone(),
    };
    PartAt {
        node: end.node.clone(),
        part,
    }
}
