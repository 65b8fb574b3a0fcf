//! Byte counters of switch ports, as several kinds of switches hand them out.
//!
//! Every reader takes a text or the root of a tree, so that what real switches printed can be read here. Ports are named as a
//! topology file names them, `rail0-leaf0/u1`. What is absent, unreadable or no number is unknown, never zero. A text is
//! recognised by what is in it, never by the name of its file; errors name file and place; sizes are bounded.

mod ibdiagnet;
pub mod inventory;
mod number;
mod nvue;
mod own;
mod sonic;
mod source;
mod tables;
mod tree;

use std::collections::BTreeMap;

use serde_json::Value;

use topology::import::{node_name, port_name};
use topology::text_error::TextError;

pub use own::{OwnFile, OwnPort};
pub use source::{Source, SourceError};

/// The most ports that are kept; a fabric of 1,024 switches has fewer.
const MOST_PORTS: usize = 1 << 17;

/// How wide a counter is: where it begins again at zero.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Width {
    /// 64 bits: never within a lifetime. A value that fell was set back.
    #[default]
    Bits64,
    /// 32 bits: one that fell went round, once as far as anybody can tell.
    Bits32,
}

/// What one port said.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PortBytes {
    /// Bytes it sent since it began to count.
    pub tx_bytes: Option<u64>,
    /// Bytes it received.
    pub rx_bytes: Option<u64>,
    /// How wide both are.
    pub width: Width,
}

/// What all ports said at one moment, by their names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PortTable(BTreeMap<String, PortBytes>);

impl PortTable {
    /// Puts a port in, under the names that topology files use.
    fn put(&mut self, switch: &str, port: &str, bytes: PortBytes) -> Result<(), String> {
        if self.0.len() >= MOST_PORTS {
            return Err(format!("more than {MOST_PORTS} ports"));
        }
        let name = format!("{}/{}", node_name(switch), port_name(port));
        match self.0.insert(name.clone(), bytes) {
            None => Ok(()),
            Some(_) => Err(format!("port `{name}` is there twice")),
        }
    }

    /// Puts in what another table has; a port that both have is trouble.
    fn join(&mut self, other: PortTable) -> Result<(), String> {
        for (name, bytes) in other.0 {
            if self.0.len() >= MOST_PORTS {
                return Err(format!("more than {MOST_PORTS} ports"));
            }
            if self.0.insert(name.clone(), bytes).is_some() {
                return Err(format!("port `{name}` is there twice"));
            }
        }
        Ok(())
    }

    /// What a port said; none when nobody speaks of it.
    pub fn get(&self, port: &str) -> Option<PortBytes> {
        self.0.get(port).copied()
    }

    /// All ports in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, PortBytes)> {
        self.0.iter().map(|(name, bytes)| (name.as_str(), *bytes))
    }

    /// Whether nothing was said.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// What a counter came to after `before`: counted on where it went round, unknown where it was set back.
pub fn counted_on(before: Option<u64>, after: Option<u64>, width: Width) -> Option<u64> {
    match (before, after?, width) {
        (Some(before), after, Width::Bits32) if after < before && before <= u64::from(u32::MAX) => {
            after.checked_add(1 << 32)
        }
        (Some(before), after, Width::Bits64 | Width::Bits32) if after < before => None,
        (_, after, _) => Some(after),
    }
}

/// Reads a text that a switch, a manager of switches or somebody's script printed. `switch` is the name of the switch where the
/// text does not say it itself, as what one switch prints about its own ports does not.
fn read_text(text: &str, switch: Option<&str>) -> Result<PortTable, TextError> {
    let table = if text.trim_start().starts_with(['{', '[']) {
        read_json(text, switch)?
    } else if ibdiagnet::recognises(text) {
        ibdiagnet::read(text)?
    } else {
        return Err(TextError::whole_text(
            "not recognised: neither JSON of railgauge, SONiC or NVUE, nor ibdiagnet's db_csv",
        ));
    };
    let knows = |bytes: PortBytes| bytes.tx_bytes.is_some() || bytes.rx_bytes.is_some();
    let known = table.iter().any(|(_, bytes)| knows(bytes));
    match known {
        true => Ok(table),
        false => Err(TextError::whole_text("no port has a counter of bytes")),
    }
}

fn read_json(text: &str, switch: Option<&str>) -> Result<PortTable, TextError> {
    let value: Value = serde_json::from_str(text).map_err(|error| TextError::json(&error))?;
    if let Some(ours) = own::read(&value) {
        return ours.map_err(TextError::whole_text);
    }
    if let Some(named) = of_one_switch(&value) {
        let Some(switch) = switch else {
            return Err(TextError::whole_text(
                "it does not say which switch it is about: one file per switch, called as the switch, \
                 or one object with the switches by name",
            ));
        };
        return in_table(switch, named).map_err(TextError::whole_text);
    }
    // One object with what each switch printed, by the switches' names.
    let mut table = PortTable::default();
    for (switch, printed) in value.as_object().into_iter().flatten() {
        if let Some(named) = of_one_switch(printed) {
            let joined = in_table(switch, named).and_then(|one| table.join(one));
            joined.map_err(TextError::whole_text)?;
        }
    }
    match table.is_empty() {
        false => Ok(table),
        true => Err(TextError::whole_text(
            "JSON, but not of railgauge, SONiC or NVUE: no interface with counters in it",
        )),
    }
}

/// What one switch printed about its ports; none when it is not that.
fn of_one_switch(value: &Value) -> Option<Vec<(String, PortBytes)>> {
    sonic::read(value).or_else(|| nvue::read(value))
}

fn in_table(switch: &str, ports: Vec<(String, PortBytes)>) -> Result<PortTable, String> {
    let mut table = PortTable::default();
    for (port, bytes) in ports {
        table.put(switch, &port, bytes)?;
    }
    Ok(table)
}

#[cfg(test)]
mod tests;
