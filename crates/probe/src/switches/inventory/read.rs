//! Reading an inventory from where it is: a folder with a file or sub-folder per switch, a file, or what a command prints.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::time::Duration;

use super::builder::InventoryBuilder;
use super::fields::SwitchHint;
use super::parsed::ParsedInventory;
use super::{SwitchInventory, ibdiagnet, ibswitches, json, native};
use crate::switches::Source;
use crate::switches::source::{SourceError, bytes_of, bytes_printed, names_in, text_in, whole};
use record::{Fact, PartClass};
use topology::text_error::TextError;

/// The most bytes that are read from all files of a source.
const MOST_BYTES: usize = 512 << 20;

/// Reads all switches and cables of a source. A command gets `patience` to end.
pub fn read(source: &Source, patience: Duration) -> SwitchInventory {
    let mut reading = Reading::default();
    match source {
        Source::Path(path) if path.is_dir() => reading.folder(path, None),
        Source::Path(path) => {
            let stem = path.file_stem().and_then(|stem| stem.to_str());
            reading.file(path, stem.map_or(SwitchHint::Unknown, SwitchHint::Perhaps));
        }
        Source::Command(words) => {
            let place = source.to_string();
            match bytes_printed(words, &place, patience) {
                Ok(printed) => reading.bytes(&place, &printed, SwitchHint::Unknown),
                Err(error) => reading.builder.error(error.to_string()),
            }
        }
    }
    let mut inventory = reading.builder().finish();
    mark_unknown_firmware(&mut inventory);
    inventory
}

#[derive(Default)]
struct Reading {
    builder: InventoryBuilder,
    parsed: Vec<(String, ParsedInventory)>,
    bytes: usize,
    files: usize,
}

impl Reading {
    /// A folder; `switch` is the one it is about, where it is the sub-folder of one.
    fn folder(&mut self, path: &Path, switch: Option<&str>) {
        let place = path.display().to_string();
        let names = match names_in(path) {
            Ok(names) => names,
            Err(error) => return self.builder.error(error.to_string()),
        };
        let before = self.files;
        for name in names {
            let entry = path.join(&name);
            match (entry.is_dir(), switch) {
                (true, None) => self.folder(&entry, Some(&name)),
                // A tree of the switch's own, and whatever else is deeper.
                (true, Some(_)) => {}
                (false, Some(switch)) => self.file(&entry, SwitchHint::Named(switch)),
                (false, None) => {
                    let stem = entry.file_stem().and_then(|stem| stem.to_str());
                    self.file(&entry, SwitchHint::Named(stem.unwrap_or(&name)));
                }
            }
        }
        if self.files == before && switch.is_none() {
            let why = "no switch in it; expected one file per switch, or one sub-folder with its files";
            self.builder.error(whole(&place, why).to_string());
        }
    }

    fn file(&mut self, path: &Path, about: SwitchHint<'_>) {
        self.files += 1;
        let place = path.display().to_string();
        let bytes = bytes_of(path).and_then(|bytes| match self.bytes + bytes.len() > MOST_BYTES {
            true => Err(whole(
                &place,
                format!("more than {MOST_BYTES} bytes in all files"),
            )),
            false => Ok(bytes),
        });
        match bytes {
            Ok(bytes) => {
                self.bytes += bytes.len();
                self.bytes(&place, &bytes, about);
            }
            Err(error) => self.builder.error(error.to_string()),
        }
    }

    fn bytes(&mut self, place: &str, bytes: &[u8], about: SwitchHint<'_>) {
        let parsed = text_in(place, bytes)
            .and_then(|text| of_text(text, about).map_err(|error| SourceError::with_place(place, error)));
        match parsed {
            Ok(parsed) => self.parsed.push((place.to_string(), parsed)),
            Err(error) => self.builder.error(error.to_string()),
        }
    }

    /// Merges all texts once they are read: neighbours name each other with and without their domains.
    fn builder(mut self) -> InventoryBuilder {
        unify_node_names(self.parsed.iter_mut().map(|(_, parsed)| parsed));
        for (place, parsed) in self.parsed {
            self.builder.add(&place, parsed);
        }
        self.builder
    }
}

/// Parses a text of any known format.
pub(super) fn of_text(text: &str, about: SwitchHint<'_>) -> Result<ParsedInventory, TextError> {
    let parsed = if json::recognises(text) {
        json::read(text, about)?
    } else if ibdiagnet::recognises(text) {
        ibdiagnet::read(text)
    } else if native::recognises(text) {
        native::read(text)?
    } else if ibswitches::recognises(text) {
        ibswitches::read(text)
    } else {
        return Err(TextError::whole_text(
            "unknown format; supported are ibdiagnet's db_csv, ibswitches, JSON of SONiC, NVUE or LLDP, \
             and [[switch]] and [[cable]] in TOML",
        ));
    };
    match parsed.is_empty() {
        false => Ok(parsed),
        true => Err(TextError::whole_text("it has no switch and no cable")),
    }
}

/// Marks firmware that no source has as unreadable: it is not absent.
fn mark_unknown_firmware(inventory: &mut SwitchInventory) {
    let parts = inventory.switches.iter_mut().flat_map(|node| &mut node.parts);
    for part in parts.filter(|part| part.class == PartClass::Switch) {
        if !part.facts.contains_key("firmware") && !part.facts.contains_key("os") {
            let why = "no source has it".to_string();
            let fact = Fact::Unreadable { why, needs: None };
            part.facts.insert("firmware".to_string(), fact);
        }
    }
}

/// Renames the far ends of cables to the names that those nodes have themselves, where exactly one node fits: `leaf1` has that name,
/// and its neighbours see `leaf1.pod3.example`.
fn unify_node_names<'t>(parsed: impl Iterator<Item = &'t mut ParsedInventory>) {
    let mut parsed: Vec<&mut ParsedInventory> = parsed.collect();
    let mut known: HashSet<String> = HashSet::new();
    for parsed in &parsed {
        known.extend(parsed.parts.iter().map(|(switch, _)| switch.clone()));
        known.extend(parsed.cables.iter().map(|cable| cable.ends[0].node.clone()));
    }
    let mut by_short: HashMap<String, Vec<String>> = HashMap::new();
    for name in known.iter().filter(|name| is_word(name)) {
        by_short
            .entry(short(name).to_string())
            .or_default()
            .push(name.clone());
    }
    for end in parsed
        .iter_mut()
        .flat_map(|parsed| &mut parsed.cables)
        .map(|cable| &mut cable.ends[1])
    {
        if known.contains(&end.node) || !is_word(&end.node) {
            continue;
        }
        // Of two names one must be without a domain: with two domains they are two nodes.
        let has_domain = short(&end.node) != end.node;
        let fits = |name: &&String| !has_domain || short(name) == name.as_str();
        let candidates = by_short.get(short(&end.node)).into_iter().flatten().filter(fits);
        let candidates: Vec<&String> = candidates.collect();
        if let [name] = candidates[..] {
            end.node = name.clone();
        }
    }
}

fn short(name: &str) -> &str {
    name.split('.').next().unwrap_or(name)
}

/// Addresses have dots and colons, too, and are never cut short.
fn is_word(name: &str) -> bool {
    name.contains(|c: char| c.is_ascii_alphabetic()) && !name.contains(':')
}
