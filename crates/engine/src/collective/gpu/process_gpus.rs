//! What the ranks of one process share on its GPUs: opened IPC memory of other processes, and the launchers of launch groups.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher};
use std::sync::{Arc, Mutex, Weak};

use super::launch_group::Launcher;
use crate::device::cuda::{Gpu, Imported, IpcHandle};
use crate::sync::lock;
use crate::transport::GpuEndpoint;
use record::Reach;

/// A cell in one measurement round, on one GPU by its UUID.
pub(super) type LaunchGroupKey = (u32, u16, String);

/// GPU state that the ranks of one process share.
pub struct ProcessGpus {
    /// Identifies the process within the run.
    process: u64,
    /// Opened memory of other processes, by the GPU it was opened for.
    imported: Mutex<HashMap<(u32, IpcHandle), Arc<Imported>>>,
    launchers: Mutex<HashMap<LaunchGroupKey, Weak<Launcher>>>,
}

impl ProcessGpus {
    /// For a process that has used no GPU yet.
    pub fn new() -> Arc<ProcessGpus> {
        // The standard library seeds its hashers from the system's randomness.
        let process = std::hash::RandomState::new().build_hasher().finish();
        Arc::new(ProcessGpus {
            process: process ^ u64::from(std::process::id()),
            imported: Mutex::default(),
            launchers: Mutex::default(),
        })
    }

    /// A number that identifies this process within the run.
    pub fn process(&self) -> u64 {
        self.process
    }

    /// The address of the memory of rank `other` for kernels on `gpu`, which belongs to rank `mine`. The first call opens it and
    /// may synchronise the GPU, so it must not run while kernels wait.
    pub(super) fn address_of(
        &self,
        gpu: &Arc<Gpu>,
        mine: &GpuEndpoint,
        other: &GpuEndpoint,
    ) -> Result<u64, String> {
        match (mine.reach(other), other.handle) {
            (Reach::SameGpu, _) => Ok(other.address),
            (Reach::PeerAccess, _) => {
                let theirs = Gpu::open(other.gpu.ordinal).map_err(|error| error.to_string())?;
                gpu.enable_peer(&theirs).map_err(|error| error.to_string())?;
                Ok(other.address)
            }
            (Reach::Ipc | Reach::IpcPeer, Some(handle)) => {
                let mut imported = lock(&self.imported);
                let key = (gpu.info().ordinal, handle);
                if let Some(known) = imported.get(&key) {
                    return Ok(known.address());
                }
                let opened = gpu.open_ipc(&handle).map_err(|error| {
                    format!("cannot open the GPU memory of another process (cuIpcOpenMemHandle): {error}")
                })?;
                let address = opened.address();
                imported.insert(key, Arc::new(opened));
                Ok(address)
            }
            (Reach::Ipc | Reach::IpcPeer | Reach::Proxy, _) => {
                Err("its GPU memory is not reachable from this GPU".to_string())
            }
        }
    }

    /// The launcher of a launch group: created by the first rank that asks, dropped with the last that holds it.
    pub(super) fn launcher(&self, key: LaunchGroupKey, members: &[u32]) -> Arc<Launcher> {
        let mut launchers = lock(&self.launchers);
        launchers.retain(|_, launcher| launcher.strong_count() > 0);
        if let Some(known) = launchers.get(&key).and_then(Weak::upgrade) {
            return known;
        }
        let launcher = Arc::new(Launcher::new(members.to_vec()));
        launchers.insert(key, Arc::downgrade(&launcher));
        launcher
    }
}
