//! What flows should get when they share links fairly (max-min fairness): no flow can have more without one that has
//! no more than it having less.
//!
//! All flows are filled at the same pace; a full link stops those that cross it; the rest continues.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use record::stats::Ordered;
use topology::graph::LinkId;

/// The fair rate of every flow, given the links it crosses and what each link carries (by its number). A flow that no link
/// holds back gets an infinite rate.
pub(super) fn rates(paths: &[&[LinkId]], capacity: &[f64]) -> Vec<f64> {
    let mut crossing: Vec<Vec<u32>> = vec![Vec::new(); capacity.len()];
    for (flow, path) in paths.iter().enumerate() {
        for link in *path {
            if let Some(flows) = crossing.get_mut(link.index()) {
                flows.push(flow as u32);
            }
        }
    }
    let mut left = capacity.to_vec();
    let mut active: Vec<u32> = crossing.iter().map(|flows| flows.len() as u32).collect();
    let share = |left: f64, active: u32| Ordered(left.max(0.0) / f64::from(active));
    let mut heap: BinaryHeap<Reverse<(Ordered, usize)>> = (0..capacity.len())
        .filter(|link| active[*link] > 0 && capacity[*link].is_finite())
        .map(|link| Reverse((share(left[link], active[link]), link)))
        .collect();
    let mut rates = vec![f64::INFINITY; paths.len()];
    while let Some(Reverse((known, link))) = heap.pop() {
        if active[link] == 0 {
            continue;
        }
        // Shares only grow as flows are stopped elsewhere, so an old one is put back with its new value.
        let now = share(left[link], active[link]);
        if now > known {
            heap.push(Reverse((now, link)));
            continue;
        }
        for flow in std::mem::take(&mut crossing[link]) {
            let flow = flow as usize;
            if rates[flow].is_finite() {
                continue;
            }
            rates[flow] = now.0;
            for crossed in paths[flow] {
                if let Some(left) = left.get_mut(crossed.index()) {
                    *left -= now.0;
                    active[crossed.index()] -= 1;
                }
            }
        }
    }
    rates
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_share_what_is_full_and_take_what_is_left() {
        let link = LinkId;
        // Two flows share link 0; one of them also crosses link 1, which a third has the rest of.
        let paths: [&[LinkId]; 3] = [&[link(0)], &[link(0), link(1)], &[link(1)]];
        assert_eq!(rates(&paths, &[10.0, 100.0]), [5.0, 5.0, 95.0]);
        assert_eq!(rates(&paths, &[100.0, 10.0]), [95.0, 5.0, 5.0]);
    }

    #[test]
    fn links_of_unknown_rate_hold_nobody_back_and_strange_ways_are_no_panic() {
        let paths: [&[LinkId]; 3] = [&[LinkId(0)], &[], &[LinkId(77)]];
        assert_eq!(
            rates(&paths, &[f64::INFINITY]),
            [f64::INFINITY, f64::INFINITY, f64::INFINITY]
        );
        // A way that crosses a link twice counts twice, as it would on the wire.
        let twice: [&[LinkId]; 1] = [&[LinkId(0), LinkId(0)]];
        assert_eq!(rates(&twice, &[10.0]), [5.0]);
        assert_eq!(rates(&[], &[1.0]), Vec::<f64>::new());
    }
}
