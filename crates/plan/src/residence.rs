//! Ranks that share a GPU must all be on it at the same time: a kernel that waits for one which has not started, because
//! there is no room for it, waits for ever. Every rank needs room for one thread block at least.

use std::collections::BTreeMap;

use super::{Plan, PlanError};
use record::Cell;
use topology::Fabric;

/// Refuses a plan with a slot whose ranks do not fit on one of the GPUs together.
pub(super) fn check(plan: &Plan, fabric: &Fabric) -> Result<(), PlanError> {
    plan.slots().try_for_each(|slot| fits(slot, fabric))
}

fn fits(slot: &[Cell], fabric: &Fabric) -> Result<(), PlanError> {
    let mut kernels: BTreeMap<&str, (u32, u32)> = BTreeMap::new();
    let kernels_of = |cell: &&Cell| cell.collective.is_scheduled();
    let ranks = slot.iter().filter(kernels_of).flat_map(|cell| &cell.ranks);
    for gpu in ranks.filter_map(|rank| fabric.rank(*rank)?.gpu.as_ref()) {
        let (_, ranks) = kernels.entry(&gpu.uuid).or_insert((gpu.blocks, 0));
        *ranks += 1;
    }
    let crowded = kernels.iter().find(|(_, (blocks, ranks))| ranks > blocks);
    match (crowded, slot.first()) {
        (Some((gpu, (blocks, ranks))), Some(cell)) => Err(PlanError::NotTogether {
            test: cell.test.clone(),
            gpu: gpu.to_string(),
            ranks: *ranks,
            blocks: *blocks,
        }),
        _ => Ok(()),
    }
}
