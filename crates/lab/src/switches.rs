//! The inventory of a lab's switches, in the format that --switch-inventory reads.
//!
//! They are routers of this machine's kernel; model, firmware and serials are made up, so that drift between switches can be had.

use super::{Lab, LabError, Node};
use probe::switches::inventory::{
    CableEntry, InventoryFile, ModuleEntry, PortEntry, SwitchEntry, TextOrNumber,
};

/// The firmware all switches have unless a fault says otherwise.
const FIRMWARE: &str = "31.2012.4036";
const OS: &str = "3.11.4002";
const MODEL: &str = "MQM9700";

/// All switches and cables of a lab.
pub fn switch_inventory(lab: &Lab) -> InventoryFile {
    let said = |text: &str| Some(TextOrNumber::from(text));
    let switch = |node: Node| SwitchEntry {
        name: node.to_string(),
        model: said(MODEL),
        firmware: said(lab.in_force().switch_firmware(node).unwrap_or(FIRMWARE)),
        os: said(OS),
        serial: said(&format!("LAB-{node}")),
        part_number: None,
        tier: said(if matches!(node, Node::Leaf { .. }) {
            "leaf"
        } else {
            "spine"
        }),
        ports: ports(lab, node),
        ..SwitchEntry::default()
    };
    let cable = |cable: &super::Cable| CableEntry {
        name: Some(cable.name.clone()),
        ends: cable.ends.iter().map(ToString::to_string).collect(),
        module: ModuleEntry {
            serial: said(&format!("LAB-{}", cable.name)),
            ..ModuleEntry::default()
        },
    };
    InventoryFile {
        switches: lab.wiring.shape.switches().map(switch).collect(),
        cables: lab.wiring.cables.iter().map(cable).collect(),
    }
}

fn ports(lab: &Lab, node: Node) -> Vec<PortEntry> {
    let shape = &lab.wiring.shape;
    let ports = lab.wiring.ports_of(node);
    let port = ports.map(|(port, cable)| PortEntry {
        name: port.interface.clone(),
        // Soft-RoCE in a guest makes up a rate of its own: with this one beside it, every cable would seem to disagree.
        speed: shape
            .guests
            .is_none()
            .then(|| format!("{} Mb/s", cable.rate.0 * 8e-6).into()),
        mtu: Some(shape.mtu.to_string().into()),
        ..PortEntry::default()
    });
    port.collect()
}

/// Writes it into the lab's folder.
pub(super) fn write(lab: &Lab) -> Result<(), LabError> {
    let folder = lab.folder();
    folder.write(&folder.switch_inventory(), &switch_inventory(lab).to_toml())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Shape, Wiring};
    use probe::switches::Source;
    use probe::switches::inventory::{apply_topology, read};
    use record::PartClass;

    fn lab(faults: &[&str]) -> Lab {
        Lab {
            name: "x".parse().unwrap(),
            wiring: Wiring::new(&Shape::parse("4x2").unwrap()),
            faults: faults.iter().map(|fault| fault.parse().unwrap()).collect(),
        }
    }

    #[test]
    fn drift_shows_on_the_switch_it_was_given_to_and_the_rest_fits_the_topology() {
        let lab = lab(&["switch-firmware:rail1-leaf0=31.2010.3118"]);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("switches.toml");
        std::fs::write(&path, switch_inventory(&lab).to_toml()).unwrap();
        let mut inventory = read(&Source::Path(path), std::time::Duration::from_secs(20));
        let cables = inventory.cables.len();
        apply_topology(&mut inventory, &lab.wiring.topology());
        assert_eq!(inventory.troubles, Vec::<String>::new());
        assert_eq!(
            inventory.cables.len(),
            cables,
            "the same cables by the same names"
        );
        assert_eq!(inventory.switches.len(), lab.wiring.shape.switches().count());
        for node in &inventory.switches {
            let switch = node.part(PartClass::Switch, &node.node).unwrap();
            let wanted = if node.node == "rail1-leaf0" {
                "31.2010.3118"
            } else {
                FIRMWARE
            };
            assert_eq!(switch.value("firmware"), Some(wanted), "{}", node.node);
        }
        let leaf = &inventory.switches[0];
        let port = leaf.part(PartClass::Port, "p0").unwrap();
        assert_eq!(
            (port.value("speed"), port.value("mtu")),
            (Some("200"), Some("9000"))
        );
    }
}
