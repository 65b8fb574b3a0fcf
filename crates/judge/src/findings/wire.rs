//! What a cell put on its links, as the schedule states it and as the transport counted it.
//!
//! The busiest directed link sets the wire rate: an end of a rail, where there are rails. When schedule and transport disagree, no rate of that cell means anything.

use std::collections::BTreeMap;

use record::units::Bytes;
use record::{CellDone, Engine, LinkTraffic};

/// Bytes per iteration on the links of one cell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Wire {
    /// The cell did not complete a round: not known.
    Unknown,
    /// The busiest directed link carries this much.
    Busiest(Bytes),
    /// Nothing crosses a link.
    Nothing,
    /// Schedule and transport disagree, in words.
    Contradiction(String),
}

/// One direction of one link.
type Link<'a> = (u32, u32, Option<&'a str>);

impl Wire {
    /// From the rounds a cell completed.
    pub(crate) fn of(engine: Engine, rounds: &[&CellDone]) -> Wire {
        let mut busiest = None;
        for done in rounds {
            let (planned, moved) = (per_link(&done.planned), per_link(&done.moved));
            // NCCL does not report what it moves; its rates use the bytes of our schedule of that name.
            let is_counted = engine == Engine::Ours;
            if let Some(text) = contradiction(&planned, &moved).filter(|_| is_counted) {
                return Wire::Contradiction(text);
            }
            busiest = busiest.max(Some(
                LinkTraffic::busiest(&done.planned).map_or(0, |bytes| bytes.0),
            ));
        }
        match busiest {
            None => Wire::Unknown,
            Some(0) => Wire::Nothing,
            Some(bytes) => Wire::Busiest(Bytes(bytes)),
        }
    }

    /// The busiest link's bytes, when they are known and not zero.
    pub(crate) fn bytes(&self) -> Option<Bytes> {
        match self {
            Wire::Busiest(bytes) => Some(*bytes),
            _ => None,
        }
    }
}

/// Adds up entries of the same link; links that carry nothing are left out.
fn per_link(entries: &[LinkTraffic]) -> BTreeMap<Link<'_>, u64> {
    let mut links: BTreeMap<Link<'_>, u64> = BTreeMap::new();
    for entry in entries.iter().filter(|entry| entry.bytes.0 > 0) {
        let carried = links
            .entry((entry.from, entry.to, entry.rail.as_deref()))
            .or_default();
        *carried = carried.saturating_add(entry.bytes.0);
    }
    links
}

/// The first link on which the two disagree, in words.
fn contradiction(planned: &BTreeMap<Link<'_>, u64>, moved: &BTreeMap<Link<'_>, u64>) -> Option<String> {
    let links = planned.keys().chain(moved.keys());
    let at = |bytes: &BTreeMap<Link<'_>, u64>, link: &Link<'_>| bytes.get(link).copied().unwrap_or(0);
    let link = links
        .into_iter()
        .filter(|link| at(planned, link) != at(moved, link))
        .min()?;
    let rail = link.2.map(|rail| format!(" on {rail}")).unwrap_or_default();
    Some(format!(
        "the transport moved {} B from rank {} to rank {}{rail}, the schedule says {} B",
        at(moved, link),
        link.0,
        link.1,
        at(planned, link)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::StopReason;
    use record::units::Nanos;

    #[test]
    fn an_end_of_a_rail_carries_what_its_rank_exchanges_with_all_others() {
        // A tree of four: rank 1 hears two children and its parent.
        let edges = [(0, 1), (2, 1), (1, 3)].into_iter();
        let links: Vec<_> = edges.flat_map(|(a, b)| [(a, b, 100), (b, a, 100)]).collect();
        let mut tree = done(&links, &links);
        let busiest = |tree: &CellDone| Wire::of(Engine::Ours, &[tree]);
        assert_eq!(busiest(&tree), Wire::Busiest(Bytes(100)), "a link for every pair");
        let all = tree.planned.iter_mut().chain(&mut tree.moved);
        all.for_each(|entry| entry.rail = Some("rail0".to_string()));
        assert_eq!(busiest(&tree), Wire::Busiest(Bytes(300)));
    }

    fn done(planned: &[(u32, u32, u64)], moved: &[(u32, u32, u64)]) -> CellDone {
        let entries = |list: &[(u32, u32, u64)]| {
            list.iter()
                .map(|(from, to, bytes)| LinkTraffic {
                    from: *from,
                    to: *to,
                    rail: None,
                    bytes: Bytes(*bytes),
                })
                .collect()
        };
        CellDone {
            cell: 0,
            round: 0,
            iterations: 1,
            verified: 1,
            stop: StopReason::Tight,
            max_skew_ns: Nanos(0),
            unseen_skew_ns: None,
            planned: entries(planned),
            moved: entries(moved),
            flows: Vec::new(),
            tcp: Vec::new(),
            streams: Vec::new(),
            probes: Vec::new(),
        }
    }

    #[test]
    fn entries_of_one_link_add_up_and_the_busiest_counts() {
        let links = [(0, 1, 60), (0, 1, 50), (1, 0, 100)];
        assert_eq!(
            Wire::of(Engine::Ours, &[&done(&links, &links)]),
            Wire::Busiest(Bytes(110))
        );
        assert_eq!(Wire::of(Engine::Ours, &[]), Wire::Unknown);
        assert_eq!(Wire::of(Engine::Ours, &[&done(&[], &[])]), Wire::Nothing);
        let huge = [(0, 1, u64::MAX), (0, 1, u64::MAX)];
        assert_eq!(
            Wire::of(Engine::Ours, &[&done(&huge, &huge)]),
            Wire::Busiest(Bytes(u64::MAX))
        );
    }

    #[test]
    fn bytes_that_differ_from_the_schedule_are_named() {
        let wire = Wire::of(Engine::Ours, &[&done(&[(0, 1, 100)], &[(0, 1, 90)])]);
        let Wire::Contradiction(text) = wire else {
            panic!("{wire:?}")
        };
        assert!(
            text.contains("moved 90 B from rank 0 to rank 1") && text.contains("says 100 B"),
            "{text}"
        );
    }
}
