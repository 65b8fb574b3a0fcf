//! What carries a test's bytes.

use super::{Choices, PlanError};
use crate::record::{DeviceKind, TransportKind};
use crate::suite::{Suite, TestCase, TestKind};

/// The command line's word, else the test's, else the run's; `auto` is settled here.
pub(super) fn of(
    test: &TestCase,
    suite: &Suite,
    device: DeviceKind,
    choices: &Choices,
) -> Result<TransportKind, PlanError> {
    let choice = choices
        .transport
        .or(test.transport)
        .unwrap_or(suite.run.transport());
    let name = || test.name.clone();
    let on_gpus = device == DeviceKind::Cuda;
    match choice.named() {
        Some(TransportKind::Tcp) => Ok(TransportKind::Tcp),
        Some(TransportKind::Shm) if on_gpus => Err(PlanError::SharedMemoryOnGpus { test: name() }),
        Some(TransportKind::Shm) if choices.same_process => Ok(TransportKind::Shm),
        Some(TransportKind::Shm) => Err(PlanError::NotInOneProcess { test: name() }),
        Some(TransportKind::Peer) if !on_gpus => Err(PlanError::PeerWithoutGpus { test: name() }),
        Some(TransportKind::Peer) if choices.direct => Ok(TransportKind::Peer),
        Some(TransportKind::Peer) => Err(PlanError::NotDirect { test: name() }),
        Some(transport) => Err(PlanError::NotInThisBuild {
            test: name(),
            transport,
        }),
        None if test.kind == TestKind::Rails => Ok(TransportKind::Tcp),
        None if on_gpus && choices.direct => Ok(TransportKind::Peer),
        None if !on_gpus && choices.same_process => Ok(TransportKind::Shm),
        None => Ok(TransportKind::Tcp),
    }
}
