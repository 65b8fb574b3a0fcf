//! Reading an inventory from where it is: a folder with a file or sub-folder per switch, a file, or what a command prints.

use std::path::Path;
use std::time::Duration;

use super::gathered::Gathered;
use super::json::About;
use super::told::Told;
use super::{SwitchInventory, ibdiagnet, ibswitches, json, own, same_node};
use crate::switches::Source;
use crate::switches::source::{SourceError, bytes_of, bytes_printed, names_in, text_in, whole};
use record::{Fact, PartClass};
use topology::text_error::TextError;

/// The most bytes that are read from all files of a source.
const MOST_BYTES: usize = 512 << 20;

/// Everything that a source tells of switches and cables. A command gets `patience` to end.
pub fn read(source: &Source, patience: Duration) -> SwitchInventory {
    let mut reading = Reading::default();
    match source {
        Source::Path(path) if path.is_dir() => reading.folder(path, None),
        Source::Path(path) => {
            let stem = path.file_stem().and_then(|stem| stem.to_str());
            reading.file(path, stem.map_or(About::Unknown, About::Perhaps));
        }
        Source::Command(words) => {
            let place = source.to_string();
            match bytes_printed(words, &place, patience) {
                Ok(printed) => reading.bytes(&place, &printed, About::Unknown),
                Err(error) => reading.gathered.trouble(error.to_string()),
            }
        }
    }
    let mut inventory = reading.gathered().finish();
    say_what_nobody_told(&mut inventory);
    inventory
}

#[derive(Default)]
struct Reading {
    gathered: Gathered,
    told: Vec<(String, Told)>,
    bytes: usize,
    files: usize,
}

impl Reading {
    /// A folder; `switch` is the one it is about, where it is the sub-folder of one.
    fn folder(&mut self, path: &Path, switch: Option<&str>) {
        let place = path.display().to_string();
        let names = match names_in(path) {
            Ok(names) => names,
            Err(error) => return self.gathered.trouble(error.to_string()),
        };
        let before = self.files;
        for name in names {
            let entry = path.join(&name);
            match (entry.is_dir(), switch) {
                (true, None) => self.folder(&entry, Some(&name)),
                // A tree of the switch's own, and whatever else is deeper.
                (true, Some(_)) => {}
                (false, Some(switch)) => self.file(&entry, About::Named(switch)),
                (false, None) => {
                    let stem = entry.file_stem().and_then(|stem| stem.to_str());
                    self.file(&entry, About::Named(stem.unwrap_or(&name)));
                }
            }
        }
        if self.files == before && switch.is_none() {
            let why = "no switch in it: one file per switch, or one sub-folder with its files";
            self.gathered.trouble(whole(&place, why).to_string());
        }
    }

    fn file(&mut self, path: &Path, about: About<'_>) {
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
            Err(error) => self.gathered.trouble(error.to_string()),
        }
    }

    fn bytes(&mut self, place: &str, bytes: &[u8], about: About<'_>) {
        let told = text_in(place, bytes)
            .and_then(|text| of_text(text, about).map_err(|trouble| SourceError::with_place(place, trouble)));
        match told {
            Ok(told) => self.told.push((place.to_string(), told)),
            Err(error) => self.gathered.trouble(error.to_string()),
        }
    }

    /// All of it together, when everybody was heard: neighbours call each other with and without their domains.
    fn gathered(mut self) -> Gathered {
        same_node::settle(self.told.iter_mut().map(|(_, told)| told));
        for (place, told) in self.told {
            self.gathered.add(&place, told);
        }
        self.gathered
    }
}

/// What a text tells.
pub(super) fn of_text(text: &str, about: About<'_>) -> Result<Told, TextError> {
    let told = if json::recognises(text) {
        json::read(text, about)?
    } else if ibdiagnet::recognises(text) {
        ibdiagnet::read(text)
    } else if own::recognises(text) {
        own::read(text)?
    } else if ibswitches::recognises(text) {
        ibswitches::read(text)
    } else {
        return Err(TextError::whole_text(
            "not recognised: neither ibdiagnet's db_csv, nor ibswitches, nor JSON of SONiC, NVUE or LLDP, \
             nor [[switch]] and [[cable]] in TOML",
        ));
    };
    match told.is_empty() {
        false => Ok(told),
        true => Err(TextError::whole_text("it tells of no switch and no cable")),
    }
}

/// A switch whose firmware nobody told is not one without firmware.
fn say_what_nobody_told(inventory: &mut SwitchInventory) {
    let parts = inventory.switches.iter_mut().flat_map(|node| &mut node.parts);
    for part in parts.filter(|part| part.class == PartClass::Switch) {
        if !part.facts.contains_key("firmware") && !part.facts.contains_key("os") {
            let why = "no source tells it".to_string();
            let fact = Fact::Unreadable { why, needs: None };
            part.facts.insert("firmware".to_string(), fact);
        }
    }
}
