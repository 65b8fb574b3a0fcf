//! What several texts told, put together: the same switch and the same cable may be told of by many.

use std::collections::{BTreeMap, HashMap};

use super::SwitchInventory;
use super::told::Told;
use crate::switches::source::SourceError;
use record::text::natural;
use record::{Cable, Fact, InventoryPart, NodeInventory, PartAt, PartClass};

/// The most parts that are kept; a fabric of 1,024 switches with 128 ports and what is plugged into them has fewer.
const MOST_PARTS: usize = 1 << 19;
/// The most troubles that are told one by one.
const MOST_TROUBLES: usize = 1000;
/// What begins the reason of a fact about which two sources disagree.
const CONTRADICTION: &str = "sources contradict each other: ";

type Facts = BTreeMap<String, Fact>;

/// Everything that was told so far.
#[derive(Default)]
pub(super) struct Gathered {
    switches: BTreeMap<String, HashMap<(PartClass, String), InventoryPart>>,
    parts: usize,
    cables: Vec<Cable>,
    by_port: HashMap<PartAt, usize>,
    troubles: Vec<String>,
    untold: usize,
}

impl Gathered {
    /// What was gathered before, to be added to.
    pub fn of(inventory: SwitchInventory) -> Gathered {
        let mut gathered = Gathered::default();
        for node in inventory.switches {
            let parts = node.parts.into_iter();
            gathered.parts += parts.len();
            let parts = parts.map(|part| ((part.class, part.name.clone()), part));
            gathered.switches.insert(node.node, parts.collect());
        }
        for (index, cable) in inventory.cables.iter().enumerate() {
            let ends = cable.ends.iter().map(|end| (key(end), index));
            gathered.by_port.extend(ends);
        }
        gathered.cables = inventory.cables;
        gathered.troubles = inventory.troubles;
        gathered
    }

    /// Adds what one text told.
    pub fn add(&mut self, place: &str, told: Told) {
        for trouble in told.troubles {
            self.trouble(SourceError::with_place(place, trouble).to_string());
        }
        for (switch, part) in told.parts {
            self.part(place, switch, part);
        }
        for cable in told.cables {
            self.cable(place, cable);
        }
    }

    /// Something that could not be read.
    pub fn trouble(&mut self, trouble: String) {
        match self.troubles.len() < MOST_TROUBLES {
            true => self.troubles.push(trouble),
            false => self.untold += 1,
        }
    }

    /// Whether a switch was told of.
    pub fn knows(&self, switch: &str) -> bool {
        self.switches.contains_key(switch)
    }

    /// All switches that were told of.
    pub fn names(&self) -> Vec<String> {
        self.switches.keys().cloned().collect()
    }

    /// Whether nobody told of any switch.
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
                return self.trouble(format!("{place}: `{name}`: more than {MOST_PARTS} parts"));
            }
            None => {
                self.parts += 1;
                parts.insert((part.class, part.name.clone()), part);
                Vec::new()
            }
        };
        for said in contradictions {
            self.trouble(format!("{place}: `{name}`: {said}"));
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
                self.trouble(format!("{place}: no cable leads from `{one}` to `{other}`"));
            }
            [Some(one), Some(other)] if one == other => {
                for said in join(&mut self.cables[one].facts, cable.facts) {
                    self.trouble(format!("{place}: cable `{}`: {said}", cable.name));
                }
            }
            [one, other] => {
                let at = if one.is_some() { 0 } else { 1 };
                let there = one.or(other).map(|there| &self.cables[there].name);
                let there = there.map_or("", String::as_str);
                let end = &cable.ends[at];
                self.trouble(format!(
                    "{place}: port `{end}` holds two cables: `{}`, and `{there}` as another source says",
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
        if self.untold > 0 {
            self.troubles
                .push(format!("and {} more of that kind", self.untold));
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
            troubles: self.troubles,
        }
    }
}

/// Adds facts to those known. What contradicts is not known any more, and is told.
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

/// A port by the one name of it that all sources share: the first port of a device is called as the device by some.
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
