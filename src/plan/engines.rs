//! Which engine runs a cell: ours, NCCL, or one after the other.
//!
//! A test is drafted once, for our engine. Where NCCL is asked for, each slot gets a twin for NCCL right behind it, so that
//! whatever drifts over a run drifts under both. What NCCL cannot run, or would run as something else than the cell says, is
//! left out with the reason.

use super::draft::Slot;
use crate::record::{Cell, DType, DeviceKind, Engine, ReduceOp};
use crate::suite::EngineChoice;

/// The slots for each engine asked for, in the order of `slots`; `leave_out` hears of every cell that NCCL cannot run.
pub(super) fn per_engine(
    slots: Vec<Slot>,
    choice: EngineChoice,
    rails: &[String],
    mut leave_out: impl FnMut(&Cell, String),
) -> Vec<Slot> {
    let mut planned = Vec::new();
    for slot in slots {
        let twin = choice.has(Engine::Nccl).then(|| {
            let cells = slot.iter().map(|cell| Cell {
                engine: Engine::Nccl,
                ..cell.clone()
            });
            let mut twin = Slot::new();
            for cell in cells {
                match why_not_nccl(&cell, rails) {
                    None => twin.push(cell),
                    Some(why) => leave_out(&cell, why),
                }
            }
            twin
        });
        if choice.has(Engine::Ours) {
            planned.push(slot);
        }
        planned.extend(twin.filter(|twin| !twin.is_empty()));
    }
    planned
}

/// Why NCCL cannot run a cell, or not as the cell says.
fn why_not_nccl(cell: &Cell, rails: &[String]) -> Option<String> {
    if cell.device != DeviceKind::Cuda {
        return Some("NCCL runs on GPUs only; use --device cuda".to_string());
    }
    if cell.rails.len() < rails.len() {
        return Some(
            "NCCL chooses its network interfaces itself, so it cannot be kept on one rail".to_string(),
        );
    }
    if cell.size.0 == 0 {
        return Some("NCCL does nothing for an empty payload".to_string());
    }
    let is_float = matches!(cell.dtype, DType::F16 | DType::Bf16 | DType::F32 | DType::F64);
    if cell.collective.reduces() && cell.op == ReduceOp::Avg && is_float && !cell.world().is_power_of_two() {
        return Some(format!(
            "NCCL multiplies by 1/{} before it adds, which rounds; the data could not be checked exactly",
            cell.world()
        ));
    }
    None
}
