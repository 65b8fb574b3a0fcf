//! Who gets how much when flows share links: max-min fairness.
//!
//! The link that would give its flows the least decides for them; what they leave on other links is shared by the rest, and
//! so on. No flow can get more without one that has no more than it getting less. A flow that is sprayed needs only a share of its
//! rate on each link.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use topology::graph::LinkId;

/// A link that a flow crosses, and the share of the flow that does.
pub(super) type Crossing = (LinkId, f64);

/// A step of a path: a link that all of a flow crosses, or a share of it.
pub(super) trait Crosses {
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
pub(super) fn fair_shares<C: Crosses>(paths: &[&[C]], capacity: &[f64]) -> Vec<f64> {
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

/// What sprayed flows reach that fill links of which none is slow, relative to their fair share: packets of all flows meet by chance, and some are
/// dropped. Of three rails, each with a leaf of four hosts and four uplinks, 0.75 to 0.94 towards the leaf and 0.89 to 1.0 away from it (a lab,
/// 2026-11-18).
const FILLED: f64 = 0.9;

/// With so few flows that half of their links stays free, waiting for what a slow one drops costs this.
const WAITING: f64 = 0.86;

/// What sprayed flows really get where they fill their links, or one of these is slow. What it drops is sent again, over the others as well: with so
/// many flows that the links are full, that gives them more than equal shares would, the more the more links there are; with few, waiting for what was
/// dropped costs more than it gains. `shares` are the fair ones, `nominal` is what links carry when nothing is wrong. Fitted to labs of 2026-11-18,
/// relative to the rate of a link: of four links with one at 45 %, four flows got 0.56 each, three 0.58, two 0.79; with one at 88 % four got 0.83 and
/// 0.84; of two links with one at 45 %, two flows got 0.42.
pub(super) fn send_dropped_again<C: Crosses>(
    paths: &[&[C]],
    capacity: &[f64],
    nominal: &[f64],
    shares: &mut [f64],
) {
    let crossings = || {
        let flows = paths.iter().zip(0usize..);
        flows.flat_map(|(path, flow)| path.iter().map(move |step| (step.crossing(), flow)))
    };
    let mut load = vec![0.0; capacity.len()];
    let mut demand = vec![0.0; capacity.len()];
    let mut alone = vec![f64::INFINITY; paths.len()];
    for ((link, share), flow) in crossings() {
        load[link.index()] += share * shares[flow];
        demand[link.index()] += share;
        if share >= 1.0 {
            alone[flow] = alone[flow].min(capacity[link.index()]);
        }
    }
    let mut gains = vec![1.0; paths.len()];
    for ((link, share), flow) in crossings().filter(|((_, share), _)| *share < 1.0) {
        let at = link.index();
        let is_slow = capacity[at] < nominal[at] * 0.999;
        let is_tight = load[at] >= capacity[at] * (1.0 - 1e-9);
        let fill = demand[at] * alone[flow].min(nominal[at]) / nominal[at];
        if is_slow && is_tight && share > 0.0 {
            gains[flow] = gain(capacity[at] / nominal[at], 1.0 / share, fill);
        } else if fill > 0.9 && gains[flow] == 1.0 {
            gains[flow] = FILLED;
        }
    }
    for ((share, gain), alone) in shares.iter_mut().zip(gains).zip(alone) {
        *share = (*share * gain).min(alone);
    }
}

/// What a flow gets relative to its fair share where one of its `links` equal links carries the share `left` of its rate, and the flows ask them for the
/// share `fill`.
fn gain(left: f64, links: f64, fill: f64) -> f64 {
    let of_all = 1.0 - (1.0 - left) / links;
    let sent_again = (0.14 * (links - 1.0)).clamp(0.0, 0.5);
    let full = FILLED * (left + sent_again * (of_all - left)) / left.max(0.01);
    let how_full = (2.0 * fill - 1.0).clamp(0.0, 1.0);
    WAITING + (full - WAITING) * how_full.powi(2)
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

    #[test]
    fn what_a_slow_link_drops_goes_over_the_others_too() {
        // Links 0 to 3 are of the senders, 4 to 7 are equal ones, of which the last is slow.
        let flow = |sender: u32| -> Vec<Crossing> {
            let spread = (4..8).map(|link| (LinkId(link), 0.25));
            [(LinkId(sender), 1.0)].into_iter().chain(spread).collect()
        };
        let nominal = [10.0; 8];
        let measured = [
            (0.45, 4, 0.56),
            (0.45, 3, 0.58),
            (0.45, 2, 0.79),
            (0.45, 1, 1.0),
            (0.88, 4, 0.83),
        ];
        for (left, flows, about) in measured {
            let mut capacity = nominal;
            capacity[7] *= left;
            let all: Vec<Vec<Crossing>> = (0..flows).map(flow).collect();
            let paths: Vec<&[Crossing]> = all.iter().map(Vec::as_slice).collect();
            let mut shares = fair_shares(&paths, &capacity);
            send_dropped_again(&paths, &capacity, &nominal, &mut shares);
            for share in shares {
                assert!(
                    (share / 10.0 - about).abs() < 0.02,
                    "{left}, {flows} flows: {share}"
                );
            }
        }
        // Two equal links, of which one carries 45 %.
        let flow_of_two = |sender: u32| -> Vec<Crossing> {
            vec![(LinkId(sender), 1.0), (LinkId(4), 0.5), (LinkId(7), 0.5)]
        };
        let all = [flow_of_two(0), flow_of_two(1)];
        let paths = all.each_ref().map(Vec::as_slice);
        let mut capacity = nominal;
        capacity[7] = 4.5;
        let mut shares = fair_shares(&paths, &capacity);
        send_dropped_again(&paths, &capacity, &nominal, &mut shares);
        assert!(
            shares.iter().all(|share| (share / 10.0 - 0.42).abs() < 0.03),
            "{shares:?}"
        );
        // Links that are full drop some of what comes, though none is slow; with room to spare nothing changes.
        let all: Vec<Vec<Crossing>> = (0..4).map(flow).collect();
        let paths: Vec<&[Crossing]> = all.iter().map(Vec::as_slice).collect();
        let mut shares = fair_shares(&paths, &nominal);
        send_dropped_again(&paths, &nominal, &nominal, &mut shares);
        assert_eq!(shares, [9.0; 4]);
        let mut shares = fair_shares(&paths[..3], &nominal);
        send_dropped_again(&paths[..3], &nominal, &nominal, &mut shares);
        assert_eq!(shares, [10.0; 3]);
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
