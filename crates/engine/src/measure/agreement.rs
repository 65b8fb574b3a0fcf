//! What all ranks together can do, as their cards say: NCCL, RDMA, GPUs' memory from NICs and from each other.

use super::orders::Card;
use super::{communicators, verbs};
use crate::transport::{Endpoint, all_direct, reach_records};
use record::{NcclRecord, ReachRecord};
use topology::Fabric;

/// What all ranks together can do.
pub(super) struct Agreement {
    /// Their NCCL, or why it cannot be used; none when nobody asked for it.
    pub nccl: Option<Result<NcclRecord, String>>,
    /// Whether they can use RDMA, or whose fault it is that they cannot.
    pub verbs: Result<(), String>,
    /// Whether their NICs can use the memory of their GPUs, or whose cannot; none when that was not asked.
    pub gpudirect: Option<Result<(), String>>,
    /// How they get at each other's GPU memory.
    pub reach: Vec<ReachRecord>,
    /// Whether every two of them use each other's GPU memory where it is.
    pub direct: bool,
}

impl Agreement {
    /// Of ranks that have said nothing yet.
    pub fn of_strangers() -> Agreement {
        Agreement {
            nccl: None,
            verbs: Ok(()),
            gpudirect: None,
            reach: Vec::new(),
            direct: false,
        }
    }

    /// Of the ranks with these cards, in order.
    pub fn of(cards: &[Card], fabric: &Fabric) -> Agreement {
        let of_ranks: Vec<_> = cards.iter().map(|card| card.verbs.clone()).collect();
        let ends: Vec<Endpoint> = cards.iter().map(|card| card.endpoint.clone()).collect();
        let direct: Vec<_> = ends.iter().map(|end| end.gpudirect.clone()).collect();
        Agreement {
            nccl: communicators::agree(cards),
            verbs: verbs::agree(&of_ranks, fabric),
            gpudirect: verbs::agree_on_gpudirect(&direct, fabric),
            reach: reach_records(&ends),
            direct: all_direct(&ends),
        }
    }

    /// What the ranks could do `before` and cannot do now, in words; none when that is nothing.
    pub fn falls_short_of(&self, before: &Agreement) -> Option<String> {
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
                Some(format!("NICs can no longer use the memory of all GPUs: {why}"))
            }
            _ => None,
        };
        let direct = (before.direct && !self.direct)
            .then(|| "GPUs can no longer use each other's memory where it is".to_string());
        nccl.or(verbs).or(gpudirect).or(direct)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_never_be_done_is_not_missed_and_what_could_is() {
        let able = || Agreement {
            gpudirect: Some(Ok(())),
            direct: true,
            ..Agreement::of_strangers()
        };
        let unable = || Agreement {
            verbs: Err("rank 1: no rail has an RDMA device".to_string()),
            ..able()
        };
        assert_eq!(able().falls_short_of(&able()), None);
        assert_eq!(able().falls_short_of(&unable()), None);
        assert_eq!(unable().falls_short_of(&unable()), None);
        let why = unable().falls_short_of(&able()).unwrap();
        assert!(why.contains("RDMA") && why.contains("rank 1"), "{why}");
        let apart = Agreement {
            direct: false,
            ..able()
        };
        assert!(apart.falls_short_of(&able()).unwrap().contains("where it is"));
    }
}
