//! Which cells are measured again before a part is accused.
//!
//! A suspect and its peers run one right after the other, so that a change of the machine in between is least likely to look like
//! a fault.

use std::collections::HashSet;

use record::{Cell, Collective};

/// Each suspect with the peers its speed is compared with, the same cell by the other engine, and all cells of its slot.
pub fn cells_to_remeasure(suspects: &[u32], cells: &[Cell]) -> Vec<Cell> {
    let suspects: HashSet<u32> = suspects.iter().copied().collect();
    let mut slots: Vec<u32> = Vec::new();
    for suspect in cells.iter().filter(|cell| suspects.contains(&cell.id)) {
        // Streams are compared with a fair hash, and probes with each other.
        if matches!(suspect.collective, Collective::Streams | Collective::Probes) {
            if !slots.contains(&suspect.slot) {
                slots.push(suspect.slot);
            }
            continue;
        }
        let concerned = cells.iter().filter(|cell| {
            cell.id == suspect.id || cell.is_peer_of(suspect) || cell.is_counterpart_of(suspect)
        });
        for slot in concerned.map(|cell| cell.slot) {
            if !slots.contains(&slot) {
                slots.push(slot);
            }
        }
    }
    slots
        .iter()
        .flat_map(|slot| cells.iter().filter(move |cell| cell.slot == *slot))
        .cloned()
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Choices, Plan};
    use probe::rails;
    use record::DeviceKind;
    use topology::Fabric;
    use topology::suite::Suite;

    #[test]
    fn a_suspect_is_measured_again_right_beside_what_it_is_compared_with() {
        let suite = Suite::load("smoke").unwrap();
        let fabric = Fabric::local(
            record::HostRecord::named("node"),
            4,
            DeviceKind::Host,
            rails::loopback().unwrap(),
        );
        let choices = Choices {
            same_process: true,
            ..Choices::default()
        };
        let mut suite = suite;
        suite.run.rails = None;
        let plan = Plan::new(&suite, &fabric, &choices).unwrap();
        let together = |cell: &&Cell| cell.load == record::Load::Together;
        let suspect = plan.cells.iter().find(together).unwrap();
        let again = cells_to_remeasure(&[suspect.id], &plan.cells);
        assert!(again.iter().any(|cell| cell.id == suspect.id));
        assert!(
            again.iter().all(|cell| cell.slot == suspect.slot),
            "rails of one slot are each other's peers"
        );

        let alone = plan.cells.iter().find(|cell| cell.test == "pairs").unwrap();
        let again = cells_to_remeasure(&[alone.id], &plan.cells);
        let peers = plan.cells.iter().filter(|cell| cell.is_peer_of(alone)).count();
        assert_eq!(again.len(), 1 + peers);
        assert!(cells_to_remeasure(&[], &plan.cells).is_empty());
    }
}
