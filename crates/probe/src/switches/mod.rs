//! Byte counters of switch ports, in the formats of several kinds of switches.
//!
//! Every reader takes a text or the root of a tree, so that recorded output of real switches can be read. Ports are named as a
//! topology file names them, `rail0-leaf0/u1`. What is absent, unreadable or not a number is unknown, never zero. A text is
//! recognised by what is in it, never by the name of its file; errors name file and place; sizes are bounded.

mod ibdiagnet;
pub mod inventory;
mod native;
mod number;
mod nvue;
mod sonic;
mod source;
mod tables;

use std::collections::BTreeMap;

use serde_json::Value;

use record::PortName;
use topology::import::{node_name, port_name};
use topology::text_error::TextError;

pub use native::{CounterFile, PortEntry};
pub use source::{Source, SourceError};

/// The most ports that are kept; a fabric of 1,024 switches has fewer.
const MOST_PORTS: usize = 1 << 17;

/// The width of a counter: where it wraps to zero.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Width {
    /// 64 bits: never wraps. A value that fell was reset.
    #[default]
    Bits64,
    /// 32 bits: a value that fell wrapped, presumably once.
    Bits32,
}

/// The byte counters of one port.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PortBytes {
    /// Bytes it sent since the counter started.
    pub tx_bytes: Option<u64>,
    /// Bytes it received.
    pub rx_bytes: Option<u64>,
    /// How wide both are.
    pub width: Width,
}

/// The byte counters of all ports at one moment, by port name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PortTable(BTreeMap<String, PortBytes>);

impl PortTable {
    /// Puts a port in, under the names that topology files use.
    fn put(&mut self, switch: &str, port: &str, bytes: PortBytes) -> Result<(), String> {
        if self.0.len() >= MOST_PORTS {
            return Err(format!("more than {MOST_PORTS} ports"));
        }
        let name = PortName {
            node: &node_name(switch),
            port: &port_name(port),
        }
        .to_string();
        match self.0.insert(name.clone(), bytes) {
            None => Ok(()),
            Some(_) => Err(format!("port `{name}` is listed twice")),
        }
    }

    /// Adds another table; a port that both have is an error.
    fn join(&mut self, other: PortTable) -> Result<(), String> {
        for (name, bytes) in other.0 {
            if self.0.len() >= MOST_PORTS {
                return Err(format!("more than {MOST_PORTS} ports"));
            }
            if self.0.insert(name.clone(), bytes).is_some() {
                return Err(format!("port `{name}` is listed twice"));
            }
        }
        Ok(())
    }

    /// The counters of a port, when there are any.
    pub fn get(&self, port: &str) -> Option<PortBytes> {
        self.0.get(port).copied()
    }

    /// All ports in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, PortBytes)> {
        self.0.iter().map(|(name, bytes)| (name.as_str(), *bytes))
    }

    /// Whether there are no ports.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The value of a counter after `before`, unwrapped; unknown where it was reset.
pub fn unwrap_counter(before: Option<u64>, after: Option<u64>, width: Width) -> Option<u64> {
    match (before, after?, width) {
        (Some(before), after, Width::Bits32) if after < before && before <= u64::from(u32::MAX) => {
            after.checked_add(1 << 32)
        }
        (Some(before), after, Width::Bits64 | Width::Bits32) if after < before => None,
        (_, after, _) => Some(after),
    }
}

/// Reads a text that a switch, a switch manager or a script printed. `switch` is the name of the switch where the
/// text does not say it itself, as the output of one switch about its own ports does not.
fn read_text(text: &str, switch: Option<&str>) -> Result<PortTable, TextError> {
    let table = if text.trim_start().starts_with(['{', '[']) {
        read_json(text, switch)?
    } else if ibdiagnet::recognises(text) {
        ibdiagnet::read(text)?
    } else {
        return Err(TextError::whole_text(
            "unknown format; supported are JSON of railgauge, SONiC or NVUE, and ibdiagnet's db_csv",
        ));
    };
    let knows = |bytes: PortBytes| bytes.tx_bytes.is_some() || bytes.rx_bytes.is_some();
    let known = table.iter().any(|(_, bytes)| knows(bytes));
    match known {
        true => Ok(table),
        false => Err(TextError::whole_text("no port has a byte counter")),
    }
}

fn read_json(text: &str, switch: Option<&str>) -> Result<PortTable, TextError> {
    let value: Value = serde_json::from_str(text).map_err(|error| TextError::json(&error))?;
    if let Some(ours) = native::read(&value) {
        return ours.map_err(TextError::whole_text);
    }
    if let Some(named) = of_one_switch(&value) {
        let Some(switch) = switch else {
            return Err(TextError::whole_text(
                "it does not say which switch it is about; use one file per switch, named like the switch, \
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
            "JSON without interface counters of railgauge, SONiC or NVUE",
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
