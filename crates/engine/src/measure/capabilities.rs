//! What all ranks have in common according to their rank infos: NCCL, RDMA, GPUDirect, direct access to GPU memory.

use std::collections::HashMap;

use super::protocol::{NcclSupport, RankInfo, VerbsSupport};
use crate::device::cuda::nccl::Version;
use crate::transport::{Endpoint, all_direct, reach_records};
use record::{NcclRecord, ReachRecord};
use topology::Fabric;

/// How many ranks are named before the rest is counted.
const NAMED: usize = 3;

/// What all ranks have in common.
pub(super) struct Capabilities {
    /// Their NCCL, or why it cannot be used; none when it was not requested.
    pub nccl: Option<Result<NcclRecord, String>>,
    /// Whether they can use RDMA, or which cannot and why.
    pub verbs: Result<(), String>,
    /// Whether GPUDirect RDMA works on all, or which lacks it and why; none when it was not checked.
    pub gpudirect: Option<Result<(), String>>,
    /// How they access each other's GPU memory.
    pub reach: Vec<ReachRecord>,
    /// Whether every two of them access each other's GPU memory directly.
    pub direct: bool,
}

impl Capabilities {
    /// Before any rank info is known.
    pub fn unknown() -> Capabilities {
        Capabilities {
            nccl: None,
            verbs: Ok(()),
            gpudirect: None,
            reach: Vec::new(),
            direct: false,
        }
    }

    /// Of ranks with these infos, in order.
    pub fn of(rank_infos: &[RankInfo], fabric: &Fabric) -> Capabilities {
        let of_ranks: Vec<_> = rank_infos.iter().map(|info| info.verbs.clone()).collect();
        let ends: Vec<Endpoint> = rank_infos.iter().map(|info| info.endpoint.clone()).collect();
        let direct: Vec<_> = ends.iter().map(|end| end.gpudirect.clone()).collect();
        Capabilities {
            nccl: common_nccl(rank_infos),
            verbs: common_verbs(&of_ranks, fabric),
            gpudirect: common_gpudirect(&direct, fabric),
            reach: reach_records(&ends),
            direct: all_direct(&ends),
        }
    }

    /// What was possible `before` and no longer is; none when nothing was lost.
    pub fn lost_since(&self, before: &Capabilities) -> Option<String> {
        let nccl = match (&before.nccl, &self.nccl) {
            (Some(Ok(_)), Some(Err(why))) => Some(format!("NCCL can no longer be used: {why}")),
            (Some(Ok(_)), None) => Some("NCCL can no longer be used".to_string()),
            _ => None,
        };
        let verbs = match (&before.verbs, &self.verbs) {
            (Ok(()), Err(why)) => Some(format!("RDMA can no longer be used: {why}")),
            _ => None,
        };
        let gpudirect = match (&before.gpudirect, &self.gpudirect) {
            (Some(Ok(())), Some(Err(why))) => {
                Some(format!("GPUDirect RDMA no longer works on all ranks: {why}"))
            }
            _ => None,
        };
        let direct = (before.direct && !self.direct)
            .then(|| "GPUs can no longer access each other's memory directly".to_string());
        nccl.or(verbs).or(gpudirect).or(direct)
    }
}

/// The NCCL of all ranks, or why it cannot be used.
fn common_nccl(rank_infos: &[RankInfo]) -> Option<Result<NcclRecord, String>> {
    let mut capabilities: Option<NcclRecord> = None;
    let mut oldest = Version(u32::MAX);
    for (rank, info) in rank_infos.iter().enumerate() {
        match info.nccl.as_ref()? {
            NcclSupport::Missing(why) => {
                return Some(Err(format!("rank {rank} ({}): {why}", info.host.name)));
            }
            NcclSupport::Available { version, library } => {
                let version = Version(*version);
                let first = capabilities.get_or_insert_with(|| NcclRecord {
                    version: version.to_string(),
                    library: library.clone(),
                    shares_gpus: !version.refuses_shared_gpus(),
                    own_host_ids: false,
                });
                if first.version != version.to_string() {
                    let (ours, theirs) = (&first.version, version);
                    return Some(Err(format!(
                        "rank 0 has NCCL {ours}, rank {rank} has {theirs}; install the same version on all hosts"
                    )));
                }
                oldest = oldest.min(version);
            }
        }
    }
    let mut capabilities = capabilities?;
    let ends: Vec<_> = rank_infos.iter().map(|info| info.endpoint.clone()).collect();
    capabilities.own_host_ids = oldest.refuses_shared_gpus() && processes_share_a_gpu(&ends);
    Some(Ok(capabilities))
}

/// Whether every rank can use RDMA, or which cannot and why.
fn common_verbs(rank_infos: &[Option<VerbsSupport>], fabric: &Fabric) -> Result<(), String> {
    let of_rank = |info: &Option<VerbsSupport>| match info {
        Some(VerbsSupport::Available) => None,
        Some(VerbsSupport::Missing(reason)) => Some(reason.clone()),
        None => Some("no rail has an RDMA device".to_string()),
    };
    all_or_reasons(rank_infos.iter().map(of_rank), fabric)
}

/// Whether GPUDirect RDMA works on every rank; none when it was not checked on any.
fn common_gpudirect(answers: &[Option<Result<(), String>>], fabric: &Fabric) -> Option<Result<(), String>> {
    let of_answer = |answer: &Option<Result<(), String>>| match answer {
        Some(Ok(())) => None,
        Some(Err(reason)) => Some(reason.clone()),
        None => Some("it was not checked".to_string()),
    };
    let is_checked = answers.iter().any(Option::is_some);
    is_checked.then(|| all_or_reasons(answers.iter().map(of_answer), fabric))
}

/// Ok if no rank has a reason; else each reason with the ranks that have it.
fn all_or_reasons(reasons: impl Iterator<Item = Option<String>>, fabric: &Fabric) -> Result<(), String> {
    let mut known: Vec<(String, Vec<String>)> = Vec::new();
    for (rank, reason) in (0..).zip(reasons) {
        let Some(reason) = reason else { continue };
        let name = fabric.rank_name(rank);
        match known.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, ranks)) => ranks.push(name),
            None => known.push((reason, vec![name])),
        }
    }
    if known.is_empty() {
        return Ok(());
    }
    let lines = known.iter().map(|(reason, ranks)| {
        let more = match ranks.len().saturating_sub(NAMED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let named = &ranks[..ranks.len().min(NAMED)];
        format!("{}{more}: {reason}", named.join(", "))
    });
    Err(lines.collect::<Vec<_>>().join("; "))
}

/// Whether ranks of different processes are on the same GPU.
pub(super) fn processes_share_a_gpu(ends: &[Endpoint]) -> bool {
    let mut on: HashMap<&str, u64> = HashMap::new();
    let gpus = ends.iter().filter_map(|end| end.gpu.as_ref());
    gpus.into_iter()
        .any(|end| *on.entry(&end.gpu.uuid).or_insert(end.process) != end.process)
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::DeviceKind;

    #[test]
    fn only_a_capability_that_was_there_can_be_lost() {
        let able = || Capabilities {
            gpudirect: Some(Ok(())),
            direct: true,
            ..Capabilities::unknown()
        };
        let unable = || Capabilities {
            verbs: Err("rank 1: no rail has an RDMA device".to_string()),
            ..able()
        };
        assert_eq!(able().lost_since(&able()), None);
        assert_eq!(able().lost_since(&unable()), None);
        assert_eq!(unable().lost_since(&unable()), None);
        let why = unable().lost_since(&able()).unwrap();
        assert!(why.contains("RDMA") && why.contains("rank 1"), "{why}");
        let apart = Capabilities {
            direct: false,
            ..able()
        };
        assert!(apart.lost_since(&able()).unwrap().contains("directly"));
    }

    #[test]
    fn each_reason_is_listed_once_with_its_ranks() {
        let mut fabric = Fabric::local(record::HostRecord::named("node"), 6, DeviceKind::Host, Vec::new());
        for record in &mut fabric.ranks {
            record.host = format!("h{}", record.rank);
        }
        let ready = Some(VerbsSupport::Available);
        assert_eq!(common_verbs(&vec![ready.clone(); 6], &fabric), Ok(()));
        let missing = |why: &str| Some(VerbsSupport::Missing(why.to_string()));
        let library = missing("no library");
        let rank_infos = [
            ready,
            library.clone(),
            missing("no device"),
            library.clone(),
            library.clone(),
            library,
        ];
        assert_eq!(
            common_verbs(&rank_infos, &fabric).unwrap_err(),
            "rank 1 (h1), rank 3 (h3), rank 4 (h4) and 1 more: no library; rank 2 (h2): no device"
        );
        assert_eq!(common_gpudirect(&[None, None], &fabric), None);
        assert_eq!(
            common_gpudirect(&[Some(Ok(())), Some(Ok(()))], &fabric),
            Some(Ok(()))
        );
        let one_cannot = [Some(Ok(())), Some(Err("no dma-buf".to_string()))];
        assert_eq!(
            common_gpudirect(&one_cannot, &fabric),
            Some(Err("rank 1 (h1): no dma-buf".to_string()))
        );
    }
}
