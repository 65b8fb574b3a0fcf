//! Why a run on a GPU stopped, from the status that the kernel left.

use super::launch_group::MissingRank;
use super::launch_monitor::LaunchEnd;
use super::program::DeviceProgram;
use crate::collective::Stopped;
use crate::device::cuda::abi::{self, COUNT_ONLY, FINISH, Mode, NO_PORT, Op};
use record::units::Nanos;

/// Why a run did not complete; none when it completed.
pub(super) fn stopped(program: &DeviceProgram, ended: &LaunchEnd) -> Option<Stopped> {
    let status = &ended.status;
    if status.failed == 0 {
        return ended.problem.as_ref().map(|problem| Stopped {
            step: "its kernel".to_string(),
            waiting_for: None,
            waited: ended.seen.since(ended.opened),
            problem: problem.clone(),
            aborted: false,
        });
    }
    let aborted = status.failed == abi::FAILED_ABORTED;
    let problem = match (&ended.problem, aborted) {
        (Some(problem), _) => problem.as_str(),
        (None, true) => "the run is being ended",
        (None, false) => "nothing moved for the deadline",
    };
    Some(Stopped {
        step: step(program, status),
        waiting_for: (status.peer != NO_PORT).then_some(status.peer),
        waited: Nanos(status.stood),
        problem: problem.to_string(),
        aborted: aborted && ended.problem.is_none(),
    })
}

/// A rank did not join the launch on the GPU it shares.
pub(super) fn missing(missing: MissingRank) -> Stopped {
    let step = match missing.rank {
        Some(rank) => format!("step 0: launch together with rank {rank}, which shares its GPU"),
        None => "before its first step".to_string(),
    };
    Stopped {
        step,
        waiting_for: missing.rank,
        waited: missing.waited,
        problem: missing.problem,
        aborted: missing.aborted,
    }
}

/// The step a worker was in.
fn step(program: &DeviceProgram, status: &abi::Status) -> String {
    let steps = program.ops.len();
    let Some(op) = program.ops.get(status.op as usize) else {
        return match (status.peer, status.incoming) {
            (NO_PORT, _) => "before its first step".to_string(),
            (peer, 1) => format!("step {steps} of {steps}: rank {peer} puts the rest in place"),
            (peer, _) => format!("step {steps} of {steps}: rank {peer} reads the rest"),
        };
    };
    let (at, worker, peer) = (status.op + 1, status.worker, status.peer);
    let what = match status.incoming {
        1 => format!("{} from rank {peer}", receives(op)),
        _ => format!("{} rank {peer}", sends(program, op, peer)),
    };
    let last = op.begin + op.elements;
    let (chunk, begin) = (status.chunk, op.begin);
    format!("step {at} of {steps}: {what}, elements {begin}..{last}, chunk {chunk} of worker {worker}")
}

fn receives(op: &Op) -> &'static str {
    let own = op.flags & (abi::OWN_INPUT | abi::OWN_OUTPUT) != 0;
    match own || op.flags & FINISH != 0 {
        true => "receive and reduce",
        false if op.flags & COUNT_ONLY != 0 => "receive in place",
        false => "receive",
    }
}

fn sends(program: &DeviceProgram, op: &Op, peer: u32) -> &'static str {
    let ports = op
        .target
        .iter()
        .filter_map(|port| program.ports.get(*port as usize));
    let mode = ports
        .into_iter()
        .find(|port| port.peer == peer)
        .map(|port| port.mode);
    match mode {
        Some(Mode::Push) => "send into the memory of",
        _ => "send to",
    }
}

#[cfg(test)]
mod tests {
    use super::super::limits::{LaunchGroup, Limits, MemoryAccess};
    use super::*;
    use record::units::Bytes;
    use record::{Algorithm, Cell, Collective, DType, DeviceKind, Engine, Load, Placement};
    use record::{ReduceOp, TransportKind};

    fn program() -> DeviceProgram {
        let cell = Cell {
            id: 0,
            test: "test".to_string(),
            slot: 0,
            load: Load::Alone,
            collective: Collective::AllReduce,
            algorithm: Algorithm::Ring,
            ranks: vec![3, 5],
            root: 0,
            rails: Vec::new(),
            flows: 1,
            source_port: None,
            transport: TransportKind::Tcp,
            device: DeviceKind::Cuda,
            size: Bytes(64 << 10),
            dtype: DType::F32,
            op: ReduceOp::Sum,
            placement: Placement::OutOfPlace,
            engine: Engine::Ours,
            batch: 1,
            verbs: None,
            path: Vec::new(),
            to_rail: None,
            group: None,
            streams: None,
            probes: None,
            line_mbit: None,
        };
        let group = LaunchGroup {
            ranks: vec![3, 5],
            capacity: 8,
        };
        let limits = Limits::new(vec![group], 512);
        DeviceProgram::all(&cell, &|_, _| MemoryAccess::Proxy, &limits)
            .unwrap()
            .remove(0)
    }

    fn ended(failed: u32, op: u32, peer: u32) -> LaunchEnd {
        let mut ended = LaunchEnd::broken(Nanos(0), String::new());
        ended.problem = None;
        ended.status.failed = failed;
        ended.status.op = op;
        ended.status.peer = peer;
        ended.status.incoming = 1;
        ended.status.stood = 7;
        ended
    }

    #[test]
    fn a_kernel_that_gave_up_says_in_which_step_it_waited_for_whom() {
        let program = program();
        let receives = |op: &Op| op.source.iter().any(|port| *port != NO_PORT);
        let at = program.ops.iter().position(receives).unwrap() as u32;
        let stop = stopped(&program, &ended(abi::FAILED_DEADLINE, at, 5)).unwrap();
        assert_eq!(
            (stop.waiting_for, stop.waited, stop.aborted),
            (Some(5), Nanos(7), false)
        );
        assert!(
            stop.step.starts_with(&format!("step {} of ", at + 1)),
            "{}",
            stop.step
        );
        assert!(stop.step.contains("from rank 5"), "{}", stop.step);
        let stop = stopped(&program, &ended(abi::FAILED_ABORTED, at, 5)).unwrap();
        assert!(stop.aborted && stop.waiting_for == Some(5));
    }

    #[test]
    fn a_gate_that_stayed_shut_is_nobodys_fault_and_a_run_that_went_well_says_nothing() {
        let program = program();
        let stop = stopped(
            &program,
            &ended(abi::FAILED_ABORTED, abi::MOST_OPS as u32, NO_PORT),
        )
        .unwrap();
        assert_eq!(
            (stop.waiting_for, stop.step.as_str()),
            (None, "before its first step")
        );
        assert_eq!(stopped(&program, &ended(0, 0, 0)), None);
    }
}
