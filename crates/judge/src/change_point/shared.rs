//! How much of what a part is above or below its usual level its siblings show tonight, too, estimated from all parts of a kind.
//!
//! The model: ends of one cable, and of one host, wander together. What siblings show of it tonight is subtracted from a part, so much
//! of it as predicts the part best (least squares over the runs so far). Where siblings share nothing, nothing is subtracted. What a
//! part shares with its siblings is seen in the part itself only, and goes on being judged there.

/// As how many runs it counts that siblings may share nothing.
const ASSUMED_RUNS: f64 = 2.0;
/// Less than this share is none.
const LEAST: f64 = 0.1;

/// What the siblings of a part are above or below their usual levels in one run; 0 where it has none.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Siblings {
    /// The other ends of its cable, or other directions of its end.
    pub(crate) cable: f64,
    /// Ends of other cables of its host.
    pub(crate) host: f64,
}

/// Which share of that a part shows as well.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Shared {
    cable: f64,
    host: f64,
}

impl Shared {
    /// Parts have nothing to do with each other.
    pub(crate) const NOTHING: Shared = Shared {
        cable: 0.0,
        host: 0.0,
    };

    /// The same scaled up to all of it: what a part and its siblings share is then gone, at the price of the siblings' own errors.
    pub(crate) fn whole(self) -> Shared {
        let all = self.cable + self.host;
        match all > 0.0 {
            true => Shared {
                cable: self.cable / all,
                host: self.host / all,
            },
            false => Shared::NOTHING,
        }
    }

    /// What a part is expected to be above or below its usual level, when its siblings are.
    pub(crate) fn expected(&self, siblings: &Siblings) -> f64 {
        self.cable * siblings.cable + self.host * siblings.host
    }
}

/// Sums over runs of mean products, from which the shares follow.
#[derive(Debug, Clone, Default)]
pub(crate) struct SharedEstimate {
    own: f64,
    runs: f64,
    cable: f64,
    host: f64,
    both: f64,
    with_cable: f64,
    with_host: f64,
}

impl SharedEstimate {
    /// Adds one run: of each part what it is above or below its usual level, and its siblings.
    pub(crate) fn add(&mut self, parts: &[(f64, Siblings)]) {
        let mean = |of: fn(f64, &Siblings) -> f64| {
            parts
                .iter()
                .map(|(own, siblings)| of(*own, siblings))
                .sum::<f64>()
                / parts.len().max(1) as f64
        };
        self.own += mean(|own, _| own * own);
        self.cable += mean(|_, siblings| siblings.cable * siblings.cable);
        self.host += mean(|_, siblings| siblings.host * siblings.host);
        self.both += mean(|_, siblings| siblings.cable * siblings.host);
        self.with_cable += mean(|own, siblings| own * siblings.cable);
        self.with_host += mean(|own, siblings| own * siblings.host);
        self.runs += f64::from(u8::from(!parts.is_empty()));
    }

    /// The shares that predict parts best. None is negative, and both together are no more than all of it.
    pub(crate) fn shared(&self) -> Shared {
        let beforehand = ASSUMED_RUNS * self.own / self.runs.max(1.0);
        let (cable, host) = (self.cable + beforehand, self.host + beforehand);
        let apart = cable * host - self.both * self.both;
        if apart.is_nan() || apart <= 0.0 {
            return Shared::NOTHING;
        }
        let mut shared = Shared {
            cable: (self.with_cable * host - self.with_host * self.both) / apart,
            host: (self.with_host * cable - self.with_cable * self.both) / apart,
        };
        if shared.cable < 0.0 {
            shared = Shared {
                cable: 0.0,
                host: (self.with_host / host).max(0.0),
            };
        } else if shared.host < 0.0 {
            shared = Shared {
                cable: (self.with_cable / cable).max(0.0),
                host: 0.0,
            };
        }
        let all = shared.cable + shared.host;
        match all {
            all if all.is_nan() || all < LEAST => Shared::NOTHING,
            all => Shared {
                cable: shared.cable / all.max(1.0),
                host: shared.host / all.max(1.0),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::burn_in::fixture::Noise;

    /// What is estimated when cables and hosts wander by so much, in standard deviations of the errors, of which there are new ones
    /// in every run; four hosts of two cables, both ways read.
    fn estimated(cable: f64, host: f64) -> Shared {
        let mut noise = Noise::new(7);
        let mut estimate = SharedEstimate::default();
        for _ in 0..100 {
            let mut parts = Vec::new();
            for _ in 0..4 {
                let of_host = host * noise.normal();
                let mut ends = [[0.0; 2]; 2];
                for ways in &mut ends {
                    let of_cable = cable * noise.normal();
                    *ways = [0, 1].map(|_| of_host + of_cable + noise.normal());
                }
                for (rail, way) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
                    let siblings = Siblings {
                        cable: ends[rail][1 - way],
                        host: 0.5 * (ends[1 - rail][0] + ends[1 - rail][1]),
                    };
                    parts.push((ends[rail][way], siblings));
                }
            }
            estimate.add(&parts);
        }
        estimate.shared()
    }

    #[test]
    fn where_parts_share_nothing_nothing_is_subtracted() {
        assert_eq!(estimated(0.0, 0.0), Shared::NOTHING);
        assert_eq!(SharedEstimate::default().shared(), Shared::NOTHING);
        let mut nothing = SharedEstimate::default();
        nothing.add(&[(f64::NAN, Siblings::default())]);
        assert_eq!(nothing.shared(), Shared::NOTHING);
    }

    #[test]
    fn what_wanders_together_is_subtracted_as_far_as_it_is_shared() {
        // Least squares: 4 / (4 + 1) of the other way where cables wander.
        let cables = estimated(2.0, 0.0);
        assert!(
            (cables.cable - 0.8).abs() < 0.06 && cables.host < 0.06,
            "{cables:?}"
        );
        // Where hosts do, all three siblings say equally much: 4 / (4 + 1/3) of their mean.
        let hosts = estimated(0.0, 2.0);
        assert!((hosts.cable - 0.31).abs() < 0.08, "{hosts:?}");
        assert!((hosts.host - 0.62).abs() < 0.08, "{hosts:?}");
    }
}
