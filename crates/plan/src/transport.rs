//! What carries a test's bytes.

use super::{Choices, PlanError, note, verbs};
use record::{DeviceKind, TestKind, TransportKind, Untested};
use topology::Fabric;
use topology::suite::{Schedule, Suite, TestCase, TransportChoice};

/// The command line's word, else the test's, else the run's; `auto` is settled here.
pub(super) fn of(
    test: &TestCase,
    suite: &Suite,
    device: DeviceKind,
    fabric: &Fabric,
    choices: &Choices,
    untested: &mut Vec<Untested>,
) -> Result<TransportKind, PlanError> {
    if test.kind == TestKind::Probe {
        if choices.transport.and_then(TransportChoice::named) == Some(TransportKind::Verbs) {
            let what = format!("test `{}`: over RDMA", test.name);
            note(untested, what, "probes are UDP datagrams");
        }
        return Ok(TransportKind::Udp);
    }
    let choice = choices
        .transport
        .or(test.transport)
        .unwrap_or(suite.run.transport());
    let name = || test.name.clone();
    let on_gpus = device == DeviceKind::Cuda;
    match choice.named() {
        // No choice names UDP: only probes have it.
        Some(TransportKind::Tcp | TransportKind::Udp) => Ok(TransportKind::Tcp),
        Some(TransportKind::Shm) if on_gpus => Err(PlanError::SharedMemoryOnGpus { test: name() }),
        Some(TransportKind::Shm) if choices.same_process => Ok(TransportKind::Shm),
        Some(TransportKind::Shm) => Err(PlanError::NotInOneProcess { test: name() }),
        Some(TransportKind::Peer) if !on_gpus => Err(PlanError::PeerWithoutGpus { test: name() }),
        Some(TransportKind::Peer) if choices.direct => Ok(TransportKind::Peer),
        Some(TransportKind::Peer) => Err(PlanError::NotDirect { test: name() }),
        Some(TransportKind::Verbs) => match verbs::why_not(fabric, choices) {
            None => Ok(TransportKind::Verbs),
            Some(why) => Err(PlanError::NoVerbs { test: name(), why }),
        },
        None if test.kind.needs_rails() => Ok(over_rails(test, fabric, choices, untested)),
        // GPUs that reach each other directly cross none of the links that such a test is about.
        None if on_gpus && choices.direct && !is_about_links(test) => Ok(TransportKind::Peer),
        None if !on_gpus && choices.same_process => Ok(TransportKind::Shm),
        None => Ok(over_rails(test, fabric, choices, untested)),
    }
}

/// Whether its flows are chosen by the links that they cross.
fn is_about_links(test: &TestCase) -> bool {
    matches!(
        test.schedule,
        Schedule::Adaptive | Schedule::Topology | Schedule::Cover
    )
}

/// The transport over rails when none is given: RDMA where every end of every rail can, else TCP. Where some could, it is
/// said why it is not used.
fn over_rails(
    test: &TestCase,
    fabric: &Fabric,
    choices: &Choices,
    untested: &mut Vec<Untested>,
) -> TransportKind {
    let Some(why) = verbs::why_not(fabric, choices) else {
        return TransportKind::Verbs;
    };
    if verbs::is_in_sight(fabric) {
        note(untested, format!("test `{}`: over RDMA", test.name), why);
    }
    TransportKind::Tcp
}
