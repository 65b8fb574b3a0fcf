//! Who gets how much when flows share links: max-min fairness.
//!
//! The link that would give its flows the least decides for them; what they leave on other links is shared by the rest, and
//! so on. No flow can get more without one that has no more than it getting less. A flow that is sprayed needs only a share of its
//! rate on each link.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use super::LinkId;

/// A link that a flow crosses, and the share of the flow that does.
pub type Crossing = (LinkId, f64);

/// A step of a path: a link that all of a flow crosses, or a share of it.
pub trait Crosses {
    /// The link and the share.
    fn crossing(&self) -> Crossing;
}

impl Crosses for LinkId {
    fn crossing(&self) -> Crossing {
        (*self, 1.0)
    }
}

impl Crosses for Crossing {
    fn crossing(&self) -> Crossing {
        *self
    }
}

/// What every flow gets, in the order of `paths`; infinite for one that crosses no link.
pub fn fair_shares<C: Crosses>(paths: &[&[C]], capacity: &[f64]) -> Vec<f64> {
    let mut crossings: Vec<(LinkId, u32, f64)> = (0u32..)
        .zip(paths)
        .flat_map(|(flow, path)| {
            path.iter().map(move |step| {
                let (link, share) = step.crossing();
                (link, flow, share)
            })
        })
        .collect();
    crossings.sort_unstable_by_key(|(link, flow, _)| (*link, *flow));
    let mut links: Vec<Loaded<'_>> = crossings
        .chunk_by(|a, b| a.0 == b.0)
        .map(|flows| Loaded {
            link: flows[0].0,
            left: capacity[flows[0].0.index()],
            open: flows.len(),
            demand: flows.iter().map(|(_, _, share)| share).sum(),
            flows,
        })
        .collect();
    let mut queue: BinaryHeap<Reverse<Offer>> = (0..links.len())
        .map(|index| Reverse(links[index].offer(index)))
        .collect();
    let mut shares = vec![f64::INFINITY; paths.len()];
    let mut is_settled = vec![false; paths.len()];
    while let Some(Reverse(offer)) = queue.pop() {
        if links[offer.index].open == 0 {
            continue;
        }
        // Offers only grow while others are settled: one that has grown goes back into the queue.
        let now = links[offer.index].offer(offer.index);
        if now.share > offer.share {
            queue.push(Reverse(now));
            continue;
        }
        for (_, flow, _) in links[offer.index].flows {
            let flow = *flow as usize;
            if std::mem::replace(&mut is_settled[flow], true) {
                continue;
            }
            shares[flow] = now.share;
            for (link, share) in paths[flow].iter().map(Crosses::crossing) {
                if let Ok(index) = links.binary_search_by_key(&link, |loaded| loaded.link) {
                    links[index].left = (links[index].left - now.share * share).max(0.0);
                    links[index].demand -= share;
                    links[index].open -= 1;
                }
            }
        }
    }
    shares
}

/// A link with flows.
struct Loaded<'w> {
    link: LinkId,
    /// What is not given away yet.
    left: f64,
    /// Flows that have nothing yet.
    open: usize,
    /// The sum of their shares.
    demand: f64,
    flows: &'w [(LinkId, u32, f64)],
}

impl Loaded<'_> {
    fn offer(&self, index: usize) -> Offer {
        Offer {
            share: self.left / self.demand.max(f64::MIN_POSITIVE),
            index,
        }
    }
}

/// What a link would give each of its flows now.
#[derive(PartialEq)]
struct Offer {
    share: f64,
    index: usize,
}

impl Eq for Offer {}

impl Ord for Offer {
    fn cmp(&self, other: &Offer) -> Ordering {
        let by_share = self.share.total_cmp(&other.share);
        by_share.then(self.index.cmp(&other.index))
    }
}

impl PartialOrd for Offer {
    fn partial_cmp(&self, other: &Offer) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn paths(all: &[Vec<u32>]) -> Vec<Vec<LinkId>> {
        let path = |links: &Vec<u32>| links.iter().copied().map(LinkId).collect();
        all.iter().map(path).collect()
    }

    fn shares(all: &[Vec<u32>], capacity: &[f64]) -> Vec<f64> {
        let paths = paths(all);
        fair_shares(&paths.iter().map(Vec::as_slice).collect::<Vec<_>>(), capacity)
    }

    #[test]
    fn what_one_flow_cannot_use_the_others_get() {
        assert_eq!(shares(&[vec![0, 1]], &[10.0, 6.0]), [6.0]);
        // Flow 0 is held to 2 by link 1; the two others share the 8 that it leaves on link 0.
        let all = [vec![0, 1], vec![0], vec![0]];
        assert_eq!(shares(&all, &[10.0, 2.0]), [2.0, 4.0, 4.0]);
        assert_eq!(shares(&[vec![]], &[]), [f64::INFINITY]);
    }

    #[test]
    fn a_sprayed_flow_is_held_by_the_tightest_of_its_shares() {
        // Half of it over each of two links, one of which carries 3 only.
        let sprayed: Vec<Crossing> = vec![(LinkId(0), 1.0), (LinkId(1), 0.5), (LinkId(2), 0.5)];
        assert_eq!(fair_shares(&[&sprayed], &[10.0, 10.0, 3.0]), [6.0]);
        assert_eq!(fair_shares(&[&sprayed, &sprayed], &[10.0, 10.0, 3.0]), [3.0, 3.0]);
    }

    proptest! {
        #[test]
        fn nobody_could_get_more_without_taking_it_from_somebody_poorer(
            all in proptest::collection::vec(proptest::collection::btree_set(0u32..8, 1..5), 1..20),
            capacity in proptest::collection::vec(1.0..100.0f64, 8),
        ) {
            let all: Vec<Vec<u32>> = all.into_iter().map(|path| path.into_iter().collect()).collect();
            let found = shares(&all, &capacity);
            let load = |link: u32| -> f64 {
                let over = all.iter().zip(&found).filter(|(path, _)| path.contains(&link));
                over.map(|(_, share)| share).sum()
            };
            for link in 0..8 {
                prop_assert!(load(link) <= capacity[link as usize] * (1.0 + 1e-9));
            }
            for (path, share) in all.iter().zip(&found) {
                let held = path.iter().any(|link| {
                    let is_full = load(*link) >= capacity[*link as usize] * (1.0 - 1e-9);
                    let others = all.iter().zip(&found).filter(|(other, _)| other.contains(link));
                    is_full && others.map(|(_, other)| *other).all(|other| other <= share * (1.0 + 1e-9))
                });
                prop_assert!(held, "{all:?} {capacity:?} {found:?}");
            }
        }
    }
}
