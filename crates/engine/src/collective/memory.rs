//! A rank's memory for one cell, and the arithmetic of a step on it.

use std::sync::Arc;

use super::program::{Program, ProgramStep};
use super::schedule::Action;
use crate::device::{Region, host};
use crate::launch::clock;
use record::units::Nanos;
use record::{Cell, Placement, ReduceOp};

/// A rank's memory for one cell.
pub struct Buffers {
    /// What goes in; the same region as `output` in place.
    pub input: Arc<Region>,
    /// What comes out.
    pub output: Arc<Region>,
    /// A copy of the input where a collective would overwrite it in place.
    pub staging: Option<Arc<Region>>,
}

impl Buffers {
    /// Allocates memory for `cell`, with a staging copy when its scheme needs one.
    pub fn for_cell(cell: &Cell, stages_input: bool) -> Buffers {
        let bytes = cell.size.as_usize();
        let output = Region::new(bytes);
        let in_place = cell.placement == Placement::InPlace;
        let input = if in_place {
            Arc::clone(&output)
        } else {
            Region::new(bytes)
        };
        let staging = (in_place && stages_input).then(|| Region::new(bytes));
        Buffers {
            input,
            output,
            staging,
        }
    }
}

/// Where values are read from and written to during one iteration.
pub(super) struct StepMemory<'a> {
    pub input: &'a Arc<Region>,
    pub output: &'a Arc<Region>,
    pub in_place: bool,
}

impl<'a> StepMemory<'a> {
    /// Stages the input where the collective would overwrite it.
    pub fn stage(buffers: &'a Buffers) -> StepMemory<'a> {
        let in_place = Arc::ptr_eq(&buffers.input, &buffers.output);
        let input = match &buffers.staging {
            Some(staging) => {
                let all = 0..staging.len();
                if let (Some(mut aside), Some(source)) =
                    (staging.try_write(all.clone()), buffers.input.try_read(all))
                {
                    aside.copy_from_slice(&source);
                }
                staging
            }
            None => &buffers.input,
        };
        StepMemory {
            input,
            output: &buffers.output,
            in_place,
        }
    }

    /// Where the value of a step comes from.
    pub fn source(&self, step: &ProgramStep) -> &'a Arc<Region> {
        if step.reads_input { self.input } else { self.output }
    }
}

impl Program {
    /// Combines a received chunk with the current value; on the last reduction of an average, divides.
    pub(super) fn reduce(
        &self,
        step: &ProgramStep,
        target: &mut [u8],
        input: Option<&[u8]>,
        received: &[u8],
        slowdown: f64,
    ) {
        let started = (slowdown > 1.0).then(clock::now);
        match input {
            Some(input) => host::reduce_into(self.dtype, self.op, target, input, received),
            None => host::reduce(self.dtype, self.op, target, received),
        }
        if step.action == Action::RecvReduceLast && self.op == ReduceOp::Avg {
            host::finish_avg(self.dtype, target, self.ranks);
        }
        if let Some(started) = started {
            let until = Nanos((clock::now().since(started).0 as f64 * slowdown) as u64);
            while clock::now().since(started) < until {
                std::hint::spin_loop();
            }
        }
    }
}
