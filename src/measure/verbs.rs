//! Whether the ranks can use RDMA: each looks for itself, and a run can only where all can.

use serde::{Deserialize, Serialize};

use crate::fabric::Fabric;
use crate::record::RailEnd;
use crate::transport::verbs;

/// RDMA on one rank.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum VerbsCard {
    /// It can be used.
    Ready,
    /// It cannot, and why.
    Missing(String),
}

/// How many ranks are named before the rest is counted.
const NAMED: usize = 3;

/// What a rank with these rails says; none when nobody asked and there is nothing to use.
pub(super) fn card(asked: bool, rails: &[RailEnd]) -> Option<VerbsCard> {
    let is_possible = rails.iter().any(|end| end.rdma.is_some());
    (asked || is_possible).then(|| match verbs::probe() {
        Ok(()) => VerbsCard::Ready,
        Err(missing) => VerbsCard::Missing(missing.to_string()),
    })
}

/// What all ranks together can do: nothing where one of them cannot. Says for each reason whose it is.
pub(super) fn agree(cards: &[Option<VerbsCard>], fabric: &Fabric) -> Result<(), String> {
    let mut reasons: Vec<(&str, Vec<String>)> = Vec::new();
    for (rank, card) in (0..).zip(cards) {
        let reason = match card {
            Some(VerbsCard::Ready) => continue,
            Some(VerbsCard::Missing(reason)) => reason,
            None => "no rail has an RDMA device",
        };
        let name = fabric.rank_name(rank);
        match reasons.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, ranks)) => ranks.push(name),
            None => reasons.push((reason, vec![name])),
        }
    }
    if reasons.is_empty() {
        return Ok(());
    }
    let lines = reasons.iter().map(|(reason, ranks)| {
        let more = match ranks.len().saturating_sub(NAMED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let named = &ranks[..ranks.len().min(NAMED)];
        format!("{}{more}: {reason}", named.join(", "))
    });
    Err(lines.collect::<Vec<_>>().join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::DeviceKind;

    #[test]
    fn each_reason_is_said_once_with_the_ranks_it_keeps_out() {
        let mut fabric = Fabric::local(6, DeviceKind::Host, Vec::new());
        for record in &mut fabric.ranks {
            record.host = format!("h{}", record.rank);
        }
        let ready = Some(VerbsCard::Ready);
        assert_eq!(agree(&vec![ready.clone(); 6], &fabric), Ok(()));
        let missing = |why: &str| Some(VerbsCard::Missing(why.to_string()));
        let library = missing("no library");
        let cards = [
            ready,
            library.clone(),
            missing("no device"),
            library.clone(),
            library.clone(),
            library,
        ];
        assert_eq!(
            agree(&cards, &fabric).unwrap_err(),
            "rank 1 (h1), rank 3 (h3), rank 4 (h4) and 1 more: no library; rank 2 (h2): no device"
        );
    }

    #[test]
    fn a_rank_without_rdma_is_not_asked_unless_somebody_wants_it() {
        assert_eq!(card(false, &[]), None);
        assert!(card(true, &[]).is_some());
    }
}
