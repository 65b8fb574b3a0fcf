//! How improbable a sum of chi-squares is under a fair hash, beyond what trials can show.
//!
//! The flows of a *block* (those of a set, a group or a pair) choose one of k members each, independently, and so do blocks. For
//! every s > 0, P(X >= x) <= exp(-s x) E[exp(s X)] (Chernoff), and E[exp(s X)] is the product over blocks. That of a block of
//! n flows is exact: independent Poisson counts of mean n/k are such choices once their sum is n, so it is the coefficient of x^n in
//! (sum over j of Poisson(j; n/k) exp(s (j - n/k)^2 k/n) x^j)^k, divided by Poisson(n; n). The smallest bound over some s is
//! returned: never less than the true probability, and for flows that all stick to one member close to it.

use std::collections::BTreeMap;

use super::binomial::ln_gamma;

/// The values of s, as parts of the largest sensible one: beyond ln k / (k - 1) all flows on one member dominate the mean.
const PARTS: [f64; 9] = [0.06, 0.12, 0.25, 0.4, 0.55, 0.7, 0.82, 0.92, 0.98];

/// The bound of one statistic, ready for any value.
#[derive(Debug, Clone, PartialEq)]
pub struct TailBound {
    /// Every s, and the logarithm of E[exp(s X)].
    moments: Vec<(f64, f64)>,
}

impl TailBound {
    /// For blocks of so many flows over so many members.
    pub fn of(blocks: impl Iterator<Item = (u32, u32)>) -> TailBound {
        let mut alike: BTreeMap<(u32, u32), u32> = BTreeMap::new();
        // One member is no choice, and no flow is none.
        for block in blocks.filter(|(flows, members)| *flows > 0 && *members > 1) {
            *alike.entry(block).or_default() += 1;
        }
        let most = |members: u32| f64::from(members).ln() / f64::from(members - 1);
        let largest = alike
            .keys()
            .map(|(_, members)| most(*members))
            .fold(f64::INFINITY, f64::min);
        let moment = |s: f64| {
            let of_block = |((flows, members), count): (&(u32, u32), &u32)| {
                f64::from(*count) * log_moment(*flows, *members, s)
            };
            (s, alike.iter().map(of_block).sum())
        };
        TailBound {
            moments: match largest.is_finite() {
                true => PARTS.iter().map(|part| moment(part * largest)).collect(),
                false => Vec::new(),
            },
        }
    }

    /// No less than the probability of this value or a larger one.
    pub fn p_upper(&self, value: f64) -> f64 {
        let bounds = self.moments.iter().map(|(s, moment)| moment - s * value);
        bounds.fold(0.0, f64::min).exp().max(f64::MIN_POSITIVE)
    }
}

/// No less than the probability that the busiest of `members` gets `most` or more, when every weight falls on one of them by itself: that
/// of one member, by the same bound, times the number of members.
pub fn busiest_bound(weights: &[f64], members: usize, most: f64) -> f64 {
    let largest = weights.iter().copied().fold(0.0, f64::max);
    if largest <= 0.0 || members < 2 {
        return 1.0;
    }
    let chance = 1.0 / members as f64;
    let bound = |s: f64| {
        let moments = weights
            .iter()
            .map(|weight| (chance * (s * weight).exp_m1()).ln_1p());
        moments.sum::<f64>() - s * most
    };
    // From a tenth to a hundred over the largest weight, in steps of a tenth more.
    let steps = (0..73).map(|step| bound(0.1 * 1.1f64.powi(step) / largest));
    let bound = (steps.fold(0.0, f64::min) + (members as f64).ln()).exp();
    bound.clamp(f64::MIN_POSITIVE, 1.0)
}

/// ln E[exp(s X)], X the chi-square of `flows` flows over `members` members.
fn log_moment(flows: u32, members: u32, s: f64) -> f64 {
    let (n, k) = (f64::from(flows), f64::from(members));
    let mean = n / k;
    let poisson = |count: f64, mean: f64| count * mean.ln() - mean - ln_gamma(count + 1.0);
    let terms = (0..=flows).map(|count| {
        let count = f64::from(count);
        poisson(count, mean) + s * (count - mean).powi(2) * k / n
    });
    let power = Scaled::of(terms.collect()).power(members);
    power.at(flows as usize) - poisson(n, n)
}

/// A polynomial with positive coefficients, the largest of which is 1, times the exponential of `scale`.
#[derive(Clone)]
struct Scaled {
    coefficients: Vec<f64>,
    scale: f64,
}

impl Scaled {
    /// From the logarithms of its coefficients.
    fn of(logarithms: Vec<f64>) -> Scaled {
        let scale = logarithms.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let coefficients = logarithms.iter().map(|one| (one - scale).exp()).collect();
        Scaled { coefficients, scale }
    }

    /// The logarithm of a coefficient.
    fn at(&self, degree: usize) -> f64 {
        self.coefficients[degree].ln() + self.scale
    }

    /// The product, up to the degree of both.
    fn times(&self, other: &Scaled) -> Scaled {
        let mut product = vec![0.0; self.coefficients.len()];
        for (degree, one) in self
            .coefficients
            .iter()
            .enumerate()
            .filter(|(_, one)| **one > 0.0)
        {
            for (sum, another) in product[degree..].iter_mut().zip(&other.coefficients) {
                *sum += one * another;
            }
        }
        let most = product.iter().copied().fold(0.0, f64::max);
        product.iter_mut().for_each(|one| *one /= most);
        Scaled {
            coefficients: product,
            scale: self.scale + other.scale + most.ln(),
        }
    }

    fn power(&self, mut exponent: u32) -> Scaled {
        let mut square = self.clone();
        let mut power: Option<Scaled> = None;
        while exponent > 0 {
            if exponent % 2 == 1 {
                power = Some(match power {
                    Some(power) => power.times(&square),
                    None => square.clone(),
                });
            }
            exponent /= 2;
            if exponent > 0 {
                square = square.times(&square);
            }
        }
        power.unwrap_or_else(|| self.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::super::Null;
    use super::super::hashing::{chi_square, pick};
    use super::*;

    #[test]
    fn the_moment_is_that_of_all_outcomes() {
        // Every outcome of 6 flows over 3 members, one by one.
        let (flows, members, s) = (6u32, 3u32, 0.2);
        let outcomes = members.pow(flows);
        let mean: f64 = (0..outcomes)
            .map(|outcome| {
                let mut counts = [0; 3];
                for flow in 0..flows {
                    counts[(outcome / members.pow(flow) % members) as usize] += 1;
                }
                (s * chi_square(&counts)).exp() / f64::from(outcomes)
            })
            .sum();
        assert!((log_moment(flows, members, s) - mean.ln()).abs() < 1e-9);
    }

    #[test]
    fn the_bound_is_never_below_what_trials_show_and_not_far_above() {
        for (flows, members, groups) in [(40u32, 4usize, 1), (20, 8, 3), (10, 2, 12), (300, 16, 1)] {
            let bound = TailBound::of((0..groups).map(|_| (flows, members as u32)));
            let null = Null::simulate(20_000, 5, |random| {
                let chi = (0..groups).map(|_| {
                    let mut counts = vec![0; members];
                    for _ in 0..flows {
                        counts[pick(members, random)] += 1;
                    }
                    chi_square(&counts)
                });
                chi.sum()
            });
            for share in [0.5, 0.9, 0.99, 0.999] {
                let value = null.quantile(share);
                let (at_most, seen) = (bound.p_upper(value), null.p_upper(value));
                assert!(at_most >= 0.8 * seen, "{flows}/{members}: {at_most} < {seen}");
            }
            let far = bound.p_upper(null.quantile(0.999));
            assert!(far < 0.2, "{flows}/{members}: {far}");
        }
    }

    #[test]
    fn flows_that_all_stick_to_one_member_are_as_improbable_as_they_are() {
        // Exactly k^(1-n).
        for (flows, members) in [(40u32, 2u32), (32, 8), (64, 16), (150, 64)] {
            let chi = f64::from(flows * (members - 1));
            let exact = f64::from(members).ln() * (1.0 - f64::from(flows));
            let bound = TailBound::of([(flows, members)].into_iter()).p_upper(chi);
            assert!(
                bound.ln() >= exact && bound.ln() < 0.9 * exact + 5.0,
                "{flows}/{members}: {bound}"
            );
        }
    }

    #[test]
    fn the_busiest_member_is_bounded_by_what_trials_show() {
        let weights: Vec<f64> = (0..60).map(|at| 1.0 + f64::from(at % 7)).collect();
        let members = 6;
        let null = Null::simulate(20_000, 5, |random| {
            let mut sums = vec![0.0; members];
            for weight in &weights {
                sums[pick(members, random)] += weight;
            }
            sums.into_iter().fold(0.0, f64::max)
        });
        for share in [0.9, 0.99, 0.999] {
            let value = null.quantile(share);
            let bound = busiest_bound(&weights, members, value);
            assert!(bound >= null.p_upper(value), "{share}: {bound}");
        }
        assert!(busiest_bound(&weights, members, null.quantile(1.0)) < 0.05);
        let all: f64 = weights.iter().sum();
        let stuck = busiest_bound(&weights, members, all).ln();
        let exact = -59.0 * 6f64.ln();
        assert!(stuck >= exact - 1e-6 && stuck < 0.95 * exact, "{stuck} {exact}");
        assert_eq!(busiest_bound(&[], 4, 1.0), 1.0);
        assert_eq!(busiest_bound(&[1.0], 1, 1.0), 1.0);
    }

    #[test]
    fn without_a_choice_nothing_is_improbable() {
        let none = TailBound::of([(7, 1), (0, 4)].into_iter());
        assert_eq!(none.p_upper(100.0), 1.0);
    }
}
