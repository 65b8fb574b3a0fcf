//! The devices a rank has opened, one per rail and address, each when it is first needed.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, TcpStream};
use std::sync::Arc;

use super::super::tcp::LocalRail;
use super::connect::PendingQueuePair;
use super::nic::Nic;
use super::queue_pair_info;
use super::request::QueuePairRequest;
use crate::device::cuda::GpuDirectMemory;

/// A rank's opened devices.
#[derive(Default)]
pub struct Nics {
    opened: HashMap<(String, u8, IpAddr, Option<u8>), Arc<Nic>>,
}

impl Nics {
    /// The device behind a rail, opened now or before.
    pub fn of(&mut self, local: &LocalRail, gid_index: Option<u8>) -> io::Result<Arc<Nic>> {
        let Some(port) = &local.rdma else {
            let interface = local.interface.as_deref().unwrap_or("this rail");
            return Err(io::Error::other(format!(
                "no RDMA device behind {interface} ({})",
                local.address
            )));
        };
        let key = (port.device.clone(), port.port, local.address, gid_index);
        if let Some(nic) = self.opened.get(&key) {
            return Ok(Arc::clone(nic));
        }
        let nic =
            Nic::open(port, local.address, gid_index).map_err(|error| io::Error::other(error.to_string()))?;
        self.opened.insert(key, Arc::clone(&nic));
        Ok(nic)
    }

    /// Creates a queue pair on a rail's device and sends its info to the peer at the other end of `stream`.
    pub fn begin(
        &mut self,
        mut stream: TcpStream,
        local: &LocalRail,
        wanted: QueuePairRequest,
    ) -> io::Result<PendingQueuePair> {
        match self.of(local, wanted.terms.gid_index) {
            Ok(nic) => PendingQueuePair::begin(stream, &nic, wanted),
            Err(error) => {
                queue_pair_info::send_failure(&mut stream, &error.to_string());
                Err(error)
            }
        }
    }

    /// Registers GPU memory with the devices behind all of `rails`, or says why that fails.
    pub fn register_gpu_memory(
        &mut self,
        rails: &[(String, LocalRail)],
        memory: &Arc<GpuDirectMemory>,
    ) -> Result<(), String> {
        for (rail, local) in rails {
            let nic = self.of(local, None).map_err(|error| format!("{rail}: {error}"))?;
            nic.register_direct(memory).map_err(|error| {
                let device = &nic.port.device;
                match memory.exported() {
                    Some(_) => format!("{rail}: {device} cannot register GPU memory as a dma-buf ({error})"),
                    None => format!(
                        "{rail}: the driver exports no dma-buf and {device} cannot register the GPU's address ({error}); is \
                         nvidia-peermem loaded?"
                    ),
                }
            })?;
        }
        Ok(())
    }
}
