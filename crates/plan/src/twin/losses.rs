//! What TCP would have counted of flows over links that lose packets. A loss does not slow a simulated flow down.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use super::{Running, Twin, hash};
use record::units::Nanos;
use record::{Retransmissions, TcpFlow, TransportKind};
use topology::graph::Crossing;

/// What a packet carries.
const SEGMENT: u64 = 8948;
/// A round trip.
const ROUND_TRIP: Nanos = Nanos(20_000);

impl Twin<'_> {
    /// The share of packets that a path loses.
    pub(super) fn loss_over(&self, path: &[Crossing]) -> f64 {
        let passes = |(link, share): &Crossing| {
            let lossy = self.lossy.iter().filter(|lossy| lossy.link == *link);
            lossy.fold(1.0, |passes, lossy| passes * (1.0 - lossy.share * share))
        };
        1.0 - path.iter().map(passes).product::<f64>()
    }

    /// The counts of all flows of a cell; none where no link loses anything.
    pub(super) fn tcp_of(&self, running: &Running<'_>, round: u16) -> Vec<TcpFlow> {
        if self.lossy.is_empty() || running.cell.transport != TransportKind::Tcp {
            return Vec::new();
        }
        let mut number = 0;
        let mut of_transfer = None;
        let flows = running.flows.iter().map(|(index, path)| {
            number = if of_transfer == Some(*index) {
                number + 1
            } else {
                0
            };
            of_transfer = Some(*index);
            let transfer = &running.transfers[*index];
            let loss = self.loss_over(path);
            let flows = u64::from(running.cell.flows.max(1));
            let segments = (transfer.bytes.0 / flows).div_ceil(SEGMENT).max(1);
            let seed = hash((
                self.seed,
                "losses",
                running.cell.id,
                round,
                transfer.from,
                transfer.to,
                number,
            ));
            let mut random = ChaCha8Rng::seed_from_u64(seed);
            let mut flow = TcpFlow {
                from: transfer.from,
                to: transfer.to,
                rail: transfer.rail.clone(),
                flow: number,
                source_port: running.cell.port_of(transfer.from, number).unwrap_or_default(),
                rtt_ns: ROUND_TRIP,
                min_rtt_ns: Some(ROUND_TRIP),
                ..TcpFlow::default()
            };
            for iter in 0..running.times.len() as u32 {
                let lost = lost_of(segments, loss, &mut random);
                flow.segments += segments + u64::from(lost);
                flow.retransmitted += u64::from(lost);
                flow.iterations.extend((lost > 0).then_some(Retransmissions {
                    iter,
                    retransmitted: lost,
                    spurious: 0,
                }));
            }
            flow
        });
        flows.filter(|flow| flow.segments > 0).collect()
    }
}

/// How many of so many segments are lost, each with the same probability: the gaps between them are drawn.
pub(super) fn lost_of(segments: u64, loss: f64, random: &mut ChaCha8Rng) -> u32 {
    if loss <= 0.0 {
        return 0;
    }
    let (mut at, mut lost) = (0.0, 0);
    loop {
        let drawn = ((random.next_u64() >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
        at += 1.0 + (drawn.ln() / (1.0 - loss).ln()).floor();
        if at > segments as f64 {
            return lost;
        }
        lost += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_are_lost_as_the_share_says() {
        let mut random = ChaCha8Rng::seed_from_u64(1);
        for loss in [0.0, 0.0002, 0.01, 0.5] {
            let lost: u32 = (0..1000).map(|_| lost_of(1000, loss, &mut random)).sum();
            let (expected, lost) = (1e6 * loss, f64::from(lost));
            assert!((lost - expected).abs() <= 5.0 * expected.sqrt(), "{loss}: {lost}");
        }
    }
}
