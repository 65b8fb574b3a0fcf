//! Where slots are bad: at one receiver, behind one leaf, or on the whole rail.

use std::collections::{BTreeMap, BTreeSet};

/// A slot that was looked at.
#[derive(Debug, Clone)]
pub(super) struct Seen {
    /// The rank that all send to; none where all send to all.
    pub(super) receiver: Option<u32>,
    pub(super) is_bad: bool,
    pub(super) cells: BTreeSet<u32>,
}

/// A part of a rail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Spot {
    /// All of it.
    Rail,
    /// What is behind a leaf: these receivers.
    Leaf(String, BTreeSet<u32>),
    /// What leads to one receiver.
    Host(u32),
}

/// A part, and the slots that are about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SpotSeen {
    pub(super) spot: Spot,
    pub(super) bad: usize,
    pub(super) of: usize,
    /// Cells of the bad ones.
    pub(super) cells: BTreeSet<u32>,
    /// Cells of all of them.
    pub(super) all: BTreeSet<u32>,
}

impl Spot {
    /// Whether a rank receives there.
    pub(super) fn has(&self, rank: u32) -> bool {
        match self {
            Spot::Rail => true,
            Spot::Leaf(_, ranks) => ranks.contains(&rank),
            Spot::Host(host) => *host == rank,
        }
    }

    /// Whether a slot with that receiver is about it. Where all send to all, it is about the rail only.
    pub(super) fn is_root_of(&self, receiver: Option<u32>) -> bool {
        receiver.map_or(*self == Spot::Rail, |rank| self.has(rank))
    }
}

/// The parts in half of whose slots, or more, something is bad, the largest that are so, and how many parts could have been.
pub(super) fn of<'l>(seen: &[Seen], leaf: &dyn Fn(u32) -> Option<&'l str>) -> (Vec<SpotSeen>, usize) {
    let mut receivers: BTreeMap<u32, (usize, usize)> = BTreeMap::new();
    for one in seen {
        if let Some(receiver) = one.receiver {
            let (bad, of) = receivers.entry(receiver).or_default();
            *bad += usize::from(one.is_bad);
            *of += 1;
        }
    }
    let is_bad = |rank: &u32| {
        receivers
            .get(rank)
            .is_some_and(|(bad, of)| *bad > 0 && 2 * bad >= *of)
    };
    let mut leaves: BTreeMap<&str, BTreeSet<u32>> = BTreeMap::new();
    for rank in receivers.keys() {
        if let Some(leaf) = leaf(*rank) {
            leaves.entry(leaf).or_default().insert(*rank);
        }
    }
    let compared = match seen.is_empty() {
        true => 0,
        false => 1 + leaves.len() + receivers.len(),
    };
    let bad_of = |ranks: &BTreeSet<u32>| ranks.iter().filter(|rank| is_bad(rank)).count();
    let is_bad_leaf = |ranks: &BTreeSet<u32>| 2 * bad_of(ranks) > ranks.len();
    let tally = |spot: Spot| {
        let of_spot = || seen.iter().filter(|one| spot.is_root_of(one.receiver));
        let bad = || of_spot().filter(|one| one.is_bad);
        SpotSeen {
            bad: bad().count(),
            of: of_spot().count(),
            cells: bad().flat_map(|one| one.cells.iter().copied()).collect(),
            all: of_spot().flat_map(|one| one.cells.iter().copied()).collect(),
            spot,
        }
    };
    let bad_leaves = leaves.values().filter(|ranks| is_bad_leaf(ranks)).count();
    let is_all = match leaves.len() {
        // All send to all: there is no receiver to name.
        _ if receivers.is_empty() => 2 * seen.iter().filter(|one| one.is_bad).count() > seen.len(),
        0 | 1 => 2 * receivers.keys().filter(|rank| is_bad(rank)).count() > receivers.len(),
        count => 2 * bad_leaves > count,
    };
    if is_all {
        return (vec![tally(Spot::Rail)], compared);
    }
    let mut spots = Vec::new();
    let mut named: BTreeSet<u32> = BTreeSet::new();
    // A leaf with one receiver is not told apart from its cable.
    for (leaf, ranks) in leaves
        .iter()
        .filter(|(_, ranks)| ranks.len() > 1 && is_bad_leaf(ranks))
    {
        named.extend(ranks);
        spots.push(tally(Spot::Leaf(leaf.to_string(), ranks.clone())));
    }
    let hosts = receivers
        .keys()
        .filter(|rank| is_bad(rank) && !named.contains(rank));
    spots.extend(hosts.map(|rank| tally(Spot::Host(*rank))));
    (spots, compared)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Four slots for each of eight receivers, two behind each of four leaves.
    fn slots(is_bad: impl Fn(u32) -> bool) -> Vec<Seen> {
        let of = |rank: u32| {
            (0..4).map(move |slot| Seen {
                receiver: Some(rank),
                is_bad: false,
                cells: BTreeSet::from([4 * rank + slot]),
            })
        };
        let mut seen: Vec<Seen> = (0..8).flat_map(of).collect();
        seen.iter_mut()
            .for_each(|one| one.is_bad = one.receiver.is_some_and(&is_bad));
        seen
    }

    const LEAVES: [&str; 4] = ["leaf0", "leaf1", "leaf2", "leaf3"];

    fn named(seen: &[Seen]) -> Vec<Spot> {
        let leaf = |rank: u32| Some(LEAVES[rank as usize / 2]);
        of(seen, &leaf).0.into_iter().map(|spot| spot.spot).collect()
    }

    #[test]
    fn a_receiver_a_leaf_and_a_rail_are_told_apart() {
        assert_eq!(named(&slots(|_| false)), []);
        assert_eq!(named(&slots(|rank| rank == 3)), [Spot::Host(3)]);
        assert_eq!(
            named(&slots(|rank| rank / 2 == 1)),
            [Spot::Leaf("leaf1".to_string(), BTreeSet::from([2, 3]))]
        );
        assert_eq!(named(&slots(|rank| rank < 6)), [Spot::Rail]);
        assert_eq!(named(&slots(|_| true)), [Spot::Rail]);
        let both = named(&slots(|rank| rank == 7 || rank < 2));
        assert_eq!(both.len(), 2, "{both:?}");
    }

    #[test]
    fn without_leaves_it_is_hosts_or_the_rail() {
        let of = |seen: &[Seen]| of(seen, &|_| None).0;
        assert_eq!(of(&slots(|rank| rank == 3)).len(), 1);
        let all = of(&slots(|_| true));
        assert_eq!((all[0].spot.clone(), all[0].bad, all[0].of), (Spot::Rail, 32, 32));
        assert!(of(&[]).is_empty());
    }

    #[test]
    fn where_all_send_to_all_only_the_rail_is_named() {
        let mut seen = slots(|_| true);
        seen.iter_mut().for_each(|one| one.receiver = None);
        assert_eq!(named(&seen), [Spot::Rail]);
    }
}
