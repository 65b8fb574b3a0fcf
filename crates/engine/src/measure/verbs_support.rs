//! Whether this rank can use RDMA.

use std::path::Path;

use super::protocol::{Setup, VerbsSupport};
use crate::transport::verbs;
use probe::rdma;
use probe::sysfs;
use record::RailEnd;

/// RDMA on a rank with these rails; none when it was not requested and no rail has a device.
pub(super) fn verbs_support(setup: &Setup, rails: &[RailEnd]) -> Option<VerbsSupport> {
    let is_possible = rails.iter().any(|end| end.rdma.is_some());
    if !setup.verbs && !is_possible {
        return None;
    }
    if let Err(missing) = verbs::probe() {
        return Some(VerbsSupport::Missing(missing.to_string()));
    }
    let problem = setup
        .gid_index
        .and_then(|index| missing_gid(index, rails, Path::new(sysfs::SYS)));
    Some(problem.map_or(VerbsSupport::Available, VerbsSupport::Missing))
}

/// The first rail whose port has no such GID, as a problem.
fn missing_gid(index: u8, rails: &[RailEnd], root: &Path) -> Option<String> {
    rails.iter().find_map(|end| {
        let port = end.rdma.as_ref()?;
        let table = rdma::gid_table(root, &port.device, port.port);
        if table.is_empty() || table.iter().any(|entry| entry.index == index) {
            return None;
        }
        let there: Vec<String> = table
            .iter()
            .map(|entry| format!("{} ({})", entry.index, entry.gid.address()))
            .collect();
        Some(format!(
            "gid_index = {index}: port {} of {} (rail {}) has no such GID; choose one of {}",
            port.port,
            port.device,
            end.rail,
            there.join(", ")
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::RdmaPort;

    #[test]
    fn a_gid_that_a_port_does_not_have_is_named_with_those_it_has() {
        let root = tempfile::tempdir().unwrap();
        let port = root.path().join("class/infiniband/rxe0/ports/1");
        for (path, text) in [
            ("link_layer", "Ethernet"),
            ("gids/1", "0000:0000:0000:0000:0000:ffff:0a00:0007"),
            ("gid_attrs/types/1", "RoCE v2"),
        ] {
            let path = port.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let rail = RailEnd {
            rail: "rail0".to_string(),
            address: "10.0.0.7".to_string(),
            interface: None,
            speed_mbit: None,
            rdma: Some(RdmaPort {
                device: "rxe0".to_string(),
                port: 1,
                link_layer: "Ethernet".to_string(),
                state: None,
            }),
        };
        let rails = [rail];
        assert_eq!(missing_gid(1, &rails, root.path()), None);
        assert_eq!(
            missing_gid(9, &rails, root.path()).unwrap(),
            "gid_index = 9: port 1 of rxe0 (rail rail0) has no such GID; choose one of 1 (10.0.0.7)"
        );
    }
}
