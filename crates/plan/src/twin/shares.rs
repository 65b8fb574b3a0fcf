//! What sprayed flows really get where they fill links, beside their fair shares ([`topology::graph::fair_shares`]).

use topology::graph::Crosses;

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

#[cfg(test)]
mod tests {
    use topology::graph::{Crossing, LinkId, fair_shares};

    use super::*;

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
}
