//! The counters of a rank's rails around a cell: of their interfaces, and of their RDMA ports.

use std::path::Path;

use crate::fabric::{rdma, sysfs};
use crate::record::{CounterDelta, RailEnd};

/// Readings of one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Counters(Vec<Reading>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Reading {
    rail: String,
    name: String,
    value: Option<u64>,
}

impl Counters {
    /// Reads those of the rails among `ends` that are `named`, below `root`.
    pub fn read(ends: &[RailEnd], named: &[String], root: &Path) -> Counters {
        let mut readings = Vec::new();
        for end in ends.iter().filter(|end| named.contains(&end.rail)) {
            let mut add = |name: String, value: Option<u64>| {
                readings.push(Reading {
                    rail: end.rail.clone(),
                    name,
                    value,
                });
            };
            let of_interface = end
                .interface
                .iter()
                .flat_map(|interface| sysfs::read_counters(root, interface));
            of_interface.for_each(|(name, value)| add(name, value));
            let of_port = end
                .rdma
                .iter()
                .flat_map(|port| rdma::read_counters(root, &port.device, port.port));
            of_port.for_each(|(name, value)| add(name, Some(value)));
        }
        Counters(readings)
    }

    /// What these and the later ones say around a cell (`cell`, `round`, `rank`). A counter that is gone by then, with its
    /// device perhaps, is unknown then.
    pub fn until(self, later: Counters, (cell, round, rank): (u32, u16, u32)) -> Vec<CounterDelta> {
        let after = |before: &Reading| {
            let mut later = later.0.iter();
            let same = later.find(|after| after.rail == before.rail && after.name == before.name);
            same.and_then(|after| after.value)
        };
        self.0
            .into_iter()
            .map(|before| CounterDelta {
                cell,
                round,
                rank,
                after: after(&before),
                rail: before.rail,
                name: before.name,
                before: before.value,
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::RdmaPort;

    #[test]
    fn a_port_that_vanishes_during_a_cell_leaves_its_counters_unknown_and_others_as_they_are() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join("class").join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("net/eth0/carrier_changes", "2");
        write("infiniband/rxe0/ports/1/hw_counters/link_downed", "1");
        let end = |rail: &str| RailEnd {
            rail: rail.to_string(),
            address: "10.0.0.1".to_string(),
            interface: Some("eth0".to_string()),
            speed_mbit: None,
            rdma: Some(RdmaPort {
                device: "rxe0".to_string(),
                port: 1,
                link_layer: "Ethernet".to_string(),
                state: None,
            }),
        };
        let read = || Counters::read(&[end("a"), end("b")], &["a".to_string()], root.path());
        let before = read();
        write("net/eth0/carrier_changes", "4");
        std::fs::remove_dir_all(root.path().join("class/infiniband")).unwrap();
        let deltas = before.until(read(), (7, 1, 3));
        let found = |name: &str| {
            let mut of_name = deltas.iter().filter(|delta| delta.name == name);
            let delta = of_name.next().unwrap();
            assert!(of_name.next().is_none(), "rail b was not asked for");
            (delta.before, delta.after)
        };
        assert_eq!(found("carrier_changes"), (Some(2), Some(4)));
        assert_eq!(found("link_downed"), (Some(1), None));
        assert_eq!(found("rx_bytes"), (None, None));
        assert_eq!((deltas[0].cell, deltas[0].round, deltas[0].rank), (7, 1, 3));
    }
}
