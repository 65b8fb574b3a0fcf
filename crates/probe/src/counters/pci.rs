//! Errors that the PCI bus reports about a device: files `aer_dev_*`, each a list of `NAME COUNT`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::{Value, attribute};
use record::CounterState;

/// The lists of one device, each read once.
pub(super) struct Errors {
    folder: Option<PathBuf>,
    lists: BTreeMap<String, Result<String, CounterState>>,
}

impl Errors {
    /// Those of the device with this folder; of none, all are absent.
    pub fn below(folder: Option<&Path>) -> Errors {
        Errors {
            folder: folder.map(Path::to_path_buf),
            lists: BTreeMap::new(),
        }
    }

    /// The counter `FILE/NAME`.
    pub fn count(&mut self, counter: &str) -> Value {
        let (Some(folder), Some((file, name))) = (&self.folder, counter.split_once('/')) else {
            return Err(CounterState::Absent);
        };
        let list = self.lists.entry(file.to_string());
        let list = list.or_insert_with(|| attribute::text(&folder.join(file)));
        let list = list.as_ref().map_err(CounterState::clone)?;
        let mut lines = list.lines().filter_map(|line| line.trim().split_once(' '));
        let (_, count) = lines
            .find(|(found, _)| *found == name)
            .ok_or(CounterState::Absent)?;
        let number = count.trim().parse();
        number.map_err(|_| attribute::unreadable("it is no number"))
    }
}
