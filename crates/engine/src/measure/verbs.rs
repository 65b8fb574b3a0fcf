//! Whether the ranks can use RDMA: each looks for itself, and a run can only where all can.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::orders::Setup;
use crate::transport::verbs;
use probe::rdma;
use probe::sysfs;
use record::RailEnd;
use topology::Fabric;

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
pub(super) fn card(setup: &Setup, rails: &[RailEnd]) -> Option<VerbsCard> {
    let is_possible = rails.iter().any(|end| end.rdma.is_some());
    if !setup.verbs && !is_possible {
        return None;
    }
    if let Err(missing) = verbs::probe() {
        return Some(VerbsCard::Missing(missing.to_string()));
    }
    let problem = setup
        .gid_index
        .and_then(|index| no_such_address(index, rails, Path::new(sysfs::SYS)));
    Some(problem.map_or(VerbsCard::Ready, VerbsCard::Missing))
}

/// The first rail whose port has no address of that number, in words.
fn no_such_address(index: u8, rails: &[RailEnd], root: &Path) -> Option<String> {
    rails.iter().find_map(|end| {
        let port = end.rdma.as_ref()?;
        let table = rdma::gid_table(root, &port.device, port.port);
        if table.is_empty() || table.iter().any(|entry| entry.index == index) {
            return None;
        }
        let there: Vec<String> = table
            .iter()
            .map(|entry| format!("{} ({})", entry.index, entry.gid.address()))
            .collect();
        Some(format!(
            "gid_index = {index}: port {} of {} (rail {}) has no such address; it has {}",
            port.port,
            port.device,
            end.rail,
            there.join(", ")
        ))
    })
}

/// What all ranks together can do: nothing where one of them cannot. Says for each reason whose it is.
pub(super) fn agree(cards: &[Option<VerbsCard>], fabric: &Fabric) -> Result<(), String> {
    let of_card = |card: &Option<VerbsCard>| match card {
        Some(VerbsCard::Ready) => None,
        Some(VerbsCard::Missing(reason)) => Some(reason.clone()),
        None => Some("no rail has an RDMA device".to_string()),
    };
    none_of(cards.iter().map(of_card), fabric)
}

/// Whether every rank's NICs can use its GPU's memory; none when no rank was asked.
pub(super) fn agree_on_gpudirect(
    answers: &[Option<Result<(), String>>],
    fabric: &Fabric,
) -> Option<Result<(), String>> {
    let of_answer = |answer: &Option<Result<(), String>>| match answer {
        Some(Ok(())) => None,
        Some(Err(reason)) => Some(reason.clone()),
        None => Some("it was not asked".to_string()),
    };
    let is_asked = answers.iter().any(Option::is_some);
    is_asked.then(|| none_of(answers.iter().map(of_answer), fabric))
}

/// Nothing where no rank has a reason; else each reason with the ranks that have it.
fn none_of(reasons: impl Iterator<Item = Option<String>>, fabric: &Fabric) -> Result<(), String> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use record::{DeviceKind, RdmaPort};

    #[test]
    fn each_reason_is_said_once_with_the_ranks_it_keeps_out() {
        let mut fabric = Fabric::local(record::HostRecord::named("node"), 6, DeviceKind::Host, Vec::new());
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
        assert_eq!(agree_on_gpudirect(&[None, None], &fabric), None);
        assert_eq!(
            agree_on_gpudirect(&[Some(Ok(())), Some(Ok(()))], &fabric),
            Some(Ok(()))
        );
        let one_cannot = [Some(Ok(())), Some(Err("no dma-buf".to_string()))];
        assert_eq!(
            agree_on_gpudirect(&one_cannot, &fabric),
            Some(Err("rank 1 (h1): no dma-buf".to_string()))
        );
    }

    #[test]
    fn an_address_that_a_port_does_not_have_is_named_with_those_it_has() {
        let root = tempfile::tempdir().unwrap();
        let port = root.path().join("class/infiniband/rxe0/ports/1");
        for (path, text) in [
            ("link_layer", "Ethernet"),
            ("gids/1", "0000:0000:0000:0000:0000:ffff:0a00:0007"),
            ("gid_attrs/types/1", "RoCE v2"),
        ] {
            let path = port.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let rail = RailEnd {
            rail: "rail0".to_string(),
            address: "10.0.0.7".to_string(),
            interface: None,
            speed_mbit: None,
            rdma: Some(RdmaPort {
                device: "rxe0".to_string(),
                port: 1,
                link_layer: "Ethernet".to_string(),
                state: None,
            }),
        };
        let rails = [rail];
        assert_eq!(no_such_address(1, &rails, root.path()), None);
        assert_eq!(
            no_such_address(9, &rails, root.path()).unwrap(),
            "gid_index = 9: port 1 of rxe0 (rail rail0) has no such address; it has 1 (10.0.0.7)"
        );
    }
}
