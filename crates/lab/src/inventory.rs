//! The NICs a lab host shows under `/sys/class/infiniband`: one per rail, as a driver would list them.
//!
//! They carry no traffic. They exist so that whatever reads an inventory finds one, and finds drift when there is some.

use std::path::PathBuf;

use super::{Lab, LabError, Node};

/// The firmware all NICs have unless a fault says otherwise.
const FIRMWARE: &str = "28.42.1000";

/// The files of a host's NICs, as paths below `/sys/class/infiniband`.
fn files(lab: &Lab, host: u16) -> Vec<(PathBuf, String)> {
    let gigabits = lab.wiring.shape.rate.0 * 8.0 / 1e9;
    let mut files = Vec::new();
    for rail in 0..lab.wiring.shape.rails {
        let device = format!("mlx5_{rail}");
        let faults = lab.in_force();
        let firmware = faults.firmware(host, &device).unwrap_or(FIRMWARE);
        let guid = format!("0c42:a103:{host:04x}:{rail:04x}");
        let attributes = [
            ("fw_ver", firmware.to_string()),
            ("board_id", "MT_0000000838".to_string()),
            ("hca_type", "MT4129".to_string()),
            ("hw_rev", "0".to_string()),
            ("node_type", "1: CA".to_string()),
            ("node_desc", format!("h{host} {device}")),
            ("node_guid", guid.clone()),
            ("sys_image_guid", guid),
            ("ports/1/state", "4: ACTIVE".to_string()),
            ("ports/1/phys_state", "5: LinkUp".to_string()),
            ("ports/1/rate", format!("{gigabits} Gb/sec (lab cable)")),
            ("ports/1/link_layer", "Ethernet".to_string()),
            ("ports/1/gid_attrs/ndevs/0", format!("rail{rail}")),
        ];
        files.extend(attributes.map(|(path, text)| (PathBuf::from(&device).join(path), text + "\n")));
    }
    files
}

/// Writes the NICs of a host.
pub fn write(lab: &Lab, host: u16) -> Result<(), LabError> {
    let folder = lab.folder();
    let root = folder.nics(Node::Host(host));
    for (path, text) in files(lab, host) {
        let path = root.join(path);
        path.parent().map_or(Ok(()), |parent| folder.make(parent))?;
        folder.write(&path, &text)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Shape, Wiring};

    fn firmware(faults: &[&str], host: u16, device: &str) -> String {
        let lab = Lab {
            name: "x".parse().unwrap(),
            wiring: Wiring::new(&Shape::parse("4x2").unwrap()),
            faults: faults.iter().map(|fault| fault.parse().unwrap()).collect(),
        };
        let wanted = PathBuf::from(device).join("fw_ver");
        let found = files(&lab, host).into_iter().find(|(path, _)| *path == wanted);
        found.unwrap().1.trim().to_string()
    }

    #[test]
    fn drift_shows_on_the_device_it_was_given_to_and_nowhere_else() {
        let faults = ["firmware:h1=28.39.1002", "firmware:h1=1.2.3,device=mlx5_1"];
        assert_eq!(firmware(&faults, 1, "mlx5_0"), "28.39.1002");
        assert_eq!(firmware(&faults, 1, "mlx5_1"), "1.2.3");
        assert_eq!(firmware(&faults, 0, "mlx5_1"), FIRMWARE);
    }
}
