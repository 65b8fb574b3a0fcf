//! What other ranks know about a rank: its listen addresses, its GPU memory, and how they reach it.
//!
//! Two ranks access each other's memory directly when they share a GPU or their GPUs have peer access: by address within a process,
//! by an IPC handle across processes. Everything else goes over the network. Both ranks derive the answer from their endpoints.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use crate::device::cuda::{GpuInfo, IpcHandle};
use record::{GpuRecord, Reach, ReachRecord};

/// Where a rank can be reached: one listen address per rail, in the run's order of rails.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Endpoint {
    /// World rank.
    pub rank: u32,
    /// Listen addresses, rail by rail.
    #[serde(rename = "doors")]
    pub listeners: Vec<SocketAddr>,
    /// Its memory on a GPU, when that is where its data lies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<GpuEndpoint>,
    /// Whether the NICs of all its rails access that memory directly (GPUDirect), or why not. None when it was not checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpudirect: Option<Result<(), String>>,
}

/// One rank's memory on a GPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuEndpoint {
    /// Identifies the process: ranks with the same number share one.
    pub process: u64,
    /// The GPU.
    pub gpu: GpuInfo,
    /// Other GPUs of its host, by UUID, whose memory it can use.
    pub neighbours: Vec<String>,
    /// Thread blocks of our kernels that are resident at the same time.
    pub blocks: u32,
    /// Where the rank's memory begins, in its own process.
    pub address: u64,
    /// How long it is.
    pub bytes: u64,
    /// How another process opens it; none where the driver does not export memory.
    pub handle: Option<IpcHandle>,
}

impl GpuEndpoint {
    /// How this rank reaches the memory of `other`; the answer is symmetric.
    pub fn reach(&self, other: &GpuEndpoint) -> Reach {
        let same_process = self.process == other.process;
        let opens = self.handle.is_some() && other.handle.is_some();
        let sees = |from: &GpuEndpoint, to: &GpuEndpoint| from.neighbours.contains(&to.gpu.uuid);
        let sees_each_other = sees(self, other) && sees(other, self);
        match self.gpu.uuid == other.gpu.uuid {
            true if same_process => Reach::SameGpu,
            true if opens => Reach::Ipc,
            false if same_process && sees_each_other => Reach::PeerAccess,
            false if opens && sees_each_other => Reach::IpcPeer,
            _ => Reach::Proxy,
        }
    }

    /// What is recorded of the GPU.
    pub fn record(&self) -> GpuRecord {
        GpuRecord {
            name: self.gpu.name.clone(),
            uuid: self.gpu.uuid.clone(),
            pci: self.gpu.pci.clone(),
            blocks: self.blocks,
        }
    }
}

/// Every two of the ranks that have GPUs.
fn pairs(ends: &[Endpoint]) -> impl Iterator<Item = (u32, u32, Reach)> {
    let on_gpu = |end: &'_ Endpoint| end.gpu.is_some();
    let with_gpu = move |from: usize| ends[from + 1..].iter().filter(move |end| on_gpu(end));
    ends.iter().enumerate().flat_map(move |(at, a)| {
        with_gpu(at).filter_map(move |b| Some((a.rank, b.rank, a.gpu.as_ref()?.reach(b.gpu.as_ref()?))))
    })
}

/// Whether all ranks have GPUs and every pair reaches each other's memory.
pub fn all_direct(ends: &[Endpoint]) -> bool {
    ends.iter().all(|end| end.gpu.is_some()) && pairs(ends).all(|(.., reach)| reach.is_direct())
}

/// The pairs of ranks that access each other's memory, by kind of access.
pub fn reach_records(ends: &[Endpoint]) -> Vec<ReachRecord> {
    let mut records: Vec<ReachRecord> = Vec::new();
    for (a, b, reach) in pairs(ends).filter(|(.., reach)| reach.is_direct()) {
        let pair = (a.min(b), a.max(b));
        match records.iter_mut().find(|record| record.reach == reach) {
            Some(record) => record.pairs.push(pair),
            None => records.push(ReachRecord {
                reach,
                pairs: vec![pair],
            }),
        }
    }
    records
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(rank: u32, process: u64, gpu: u32, neighbours: &[u32]) -> Endpoint {
        let uuid = |gpu: u32| format!("GPU-{gpu}");
        Endpoint {
            rank,
            listeners: Vec::new(),
            gpu: Some(GpuEndpoint {
                process,
                gpu: GpuInfo {
                    ordinal: gpu,
                    name: "a GPU".to_string(),
                    uuid: uuid(gpu),
                    pci: format!("0000:0{gpu}:00.0"),
                    sms: 132,
                    threads: 512,
                    memory: 1 << 37,
                    l2: 50 << 20,
                    compute: (9, 0),
                },
                neighbours: neighbours.iter().copied().map(uuid).collect(),
                blocks: 264,
                address: 0x7000_0000_0000,
                bytes: 1 << 20,
                handle: Some(IpcHandle([7; 64])),
            }),
            gpudirect: None,
        }
    }

    #[test]
    fn the_way_between_two_ranks_follows_from_process_and_gpu() {
        let here = end(0, 1, 0, &[1]).gpu.unwrap();
        let cases = [
            (end(1, 1, 0, &[1]), Reach::SameGpu),
            (end(1, 2, 0, &[1]), Reach::Ipc),
            (end(1, 1, 1, &[0]), Reach::PeerAccess),
            (end(1, 2, 1, &[0]), Reach::IpcPeer),
            (end(1, 2, 1, &[]), Reach::Proxy),
            (end(1, 2, 5, &[0]), Reach::Proxy),
        ];
        for (other, expected) in cases {
            let other = other.gpu.unwrap();
            assert_eq!(here.reach(&other), expected);
            assert_eq!(other.reach(&here), expected, "both must agree");
        }
        let mut closed = end(1, 2, 0, &[]).gpu.unwrap();
        closed.handle = None;
        assert_eq!(here.reach(&closed), Reach::Proxy, "no handle, no way in");
    }

    #[test]
    fn pairs_are_recorded_by_their_way_and_one_rank_elsewhere_makes_direct_impossible() {
        let mut ends = vec![end(0, 1, 0, &[1]), end(1, 1, 0, &[1]), end(2, 2, 1, &[0])];
        assert!(all_direct(&ends));
        let records = reach_records(&ends);
        assert_eq!(records[0].reach, Reach::SameGpu);
        assert_eq!(records[0].pairs, [(0, 1)]);
        assert_eq!(records[1].reach, Reach::IpcPeer);
        assert_eq!(records[1].pairs, [(0, 2), (1, 2)]);
        ends.push(end(3, 3, 9, &[]));
        assert!(!all_direct(&ends));
        assert_eq!(reach_records(&ends), records, "by proxy is what is not named");
    }
}
