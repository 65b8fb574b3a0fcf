//! Which engine runs a cell: ours, NCCL, or one after the other.
//!
//! A test is laid_out once, for our engine. Where NCCL is asked for, each slot gets a twin for NCCL right behind it, so that
//! whatever drifts over a run drifts under both. What NCCL cannot run, or would run as something else than the cell says, is
//! left out with the reason.

use std::collections::BTreeSet;

use super::layout::Slot;
use record::{Algorithm, Cell, Collective, DType, DeviceKind, Engine, NcclRecord, Placement, ReduceOp};
use topology::Fabric;
use topology::suite::EngineChoice;

/// The slots for each engine asked for, in the order of `slots`; `leave_out` hears of every cell that NCCL cannot run.
pub(super) fn per_engine(
    slots: Vec<Slot>,
    choice: EngineChoice,
    nccl: &NcclAvailability<'_>,
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
                match nccl.why_not(&cell) {
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

/// What is known of NCCL where the plan is to run.
pub(super) struct NcclAvailability<'a> {
    pub fabric: &'a Fabric,
    /// Rails of the test.
    pub rails: &'a [String],
    /// The library, or why it cannot be used; none when that is not known.
    pub nccl: Option<&'a Result<NcclRecord, String>>,
}

impl NcclAvailability<'_> {
    /// Why NCCL cannot run a cell, or not as the cell says.
    fn why_not(&self, cell: &Cell) -> Option<String> {
        if let Some(why) = why_never(cell) {
            return Some(why);
        }
        if cell.rails.len() < self.rails.len() {
            let why = "NCCL chooses its network interfaces itself, so it cannot be kept on one rail";
            return Some(why.to_string());
        }
        match self.nccl? {
            Err(missing) => Some(missing.clone()),
            Ok(nccl) if !nccl.shares_gpus && self.is_doubled(cell) => Some(format!(
                "NCCL {} refuses two ranks of one process on one GPU; use --procs, a newer NCCL, or a rank per GPU",
                nccl.version
            )),
            Ok(_) => None,
        }
    }

    /// Whether two ranks of the cell are in one process and on one GPU.
    fn is_doubled(&self, cell: &Cell) -> bool {
        let mut seen = BTreeSet::new();
        let records = cell.ranks.iter().filter_map(|rank| self.fabric.rank(*rank));
        let mut places =
            records.filter_map(|record| Some((&record.gpu.as_ref()?.uuid, &record.host, record.pid)));
        places.any(|place| !seen.insert(place))
    }
}

/// Why NCCL never runs such a cell, or not as it says.
fn why_never(cell: &Cell) -> Option<String> {
    if cell.device != DeviceKind::Cuda {
        return Some("NCCL runs on GPUs only; use --device cuda".to_string());
    }
    if cell.algorithm == Algorithm::CopyEngine {
        return Some("NCCL copies with kernels, not with the copy engine".to_string());
    }
    if cell.collective == Collective::RoundTrip {
        return Some("NCCL starts both directions at once, so there is no round trip to time".to_string());
    }
    if cell.collective == Collective::Streams {
        return Some("NCCL chooses the paths of its connections itself".to_string());
    }
    let exchanges = matches!(
        cell.collective,
        Collective::AllToAll | Collective::Bidirectional | Collective::Incast
    );
    if exchanges && cell.placement == Placement::InPlace {
        return Some("NCCL would overwrite what it still has to send".to_string());
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
