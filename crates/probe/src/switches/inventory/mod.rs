//! What switches and cables are made of, as switches and their managers tell it.
//!
//! Reading never fails: one bad file, or one bad line of it, is a trouble that is told, and the rest is read. A text is recognised
//! by what is in it, never by the name of its file. Switches and ports are named as topology files name them; what is told of
//! them is kept as it was said. Of two sources that contradict each other neither is believed.

mod gathered;
mod ibdiagnet;
mod ibswitches;
mod json;
mod lldp;
mod nvue;
mod own;
mod read;
mod same_node;
mod sonic;
mod told;
mod topology;

use record::{Cable, NodeInventory};

pub use own::{OwnCable, OwnInventory, OwnModule, OwnPort, OwnSwitch, Said};
pub use read::read;
pub use topology::apply_topology;

/// Every switch and cable that somebody told of.
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
