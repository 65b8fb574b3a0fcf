//! The inventory of switches and cables, as switches and their managers report it.
//!
//! Reading never fails: one bad file, or one bad line of it, is reported, and the rest is read. A text is recognised
//! by what is in it, never by the name of its file. Switches and ports are named as topology files name them; their
//! facts are kept as written. A fact about which two sources contradict each other is unknown.

mod builder;
mod fields;
mod ibdiagnet;
mod ibswitches;
mod json;
mod native;
mod nvue;
mod parsed;
mod read;
mod sonic;
mod sonic_qos;
mod topology;

use record::{Cable, NodeInventory};

pub use native::{CableEntry, InventoryFile, ModuleEntry, PortEntry, SwitchEntry, TextOrNumber};
pub use read::read;
pub use topology::apply_topology;

/// Every known switch and cable.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SwitchInventory {
    /// Switches, in order of names: one part of class `switch` named as the switch, its ports, and what is plugged into them.
    pub switches: Vec<NodeInventory>,
    /// Cables of which both ends are known.
    pub cables: Vec<Cable>,
    /// What could not be read, and why.
    pub troubles: Vec<String>,
}

#[cfg(test)]
mod corruption_tests;
#[cfg(test)]
mod format_tests;
#[cfg(test)]
mod tests;
