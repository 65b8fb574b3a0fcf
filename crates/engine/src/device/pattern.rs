//! Test data whose reduction is exact, so that results are compared bit by bit and never by tolerance.
//!
//! Every value is a small non-negative integer, chosen so that the reduction over all ranks, and every partial reduction
//! on the way, is exactly representable in the element type: the order of arithmetic cannot show, and any other bit is
//! corruption. Values hash the seed, iteration, rank and element index, so data left over from an earlier iteration, or a
//! chunk that landed at another offset or came from another rank, differs from what belongs there. One element of a
//! narrow type may agree by chance (one in four for a sum of bf16 over 64 ranks); a cache line of them does not.
//!
//! | operator | value of one rank | bound |
//! |---|---|---|
//! | sum, avg | `hash & mask` | at most [`CONTRIBUTORS_TO_SUM`] ranks are not zero at an element |
//! | prod | `1 + (hash & 1)` | at most [`CONTRIBUTORS_TO_PRODUCT`] ranks are not one at an element |
//! | min, max | `hash & mask` | none needed |
//!
//! With more ranks than may contribute, ranks with the same remainder take turns, element by element.

use bytemuck::cast_slice;

use super::element::{Element, with_element};
use record::{DType, ReduceOp};

/// Elements hashed with one key; the key carries everything but the position within the span.
const SPAN: usize = 1024;

/// Ranks that add something else than zero to the same element, at most.
pub const CONTRIBUTORS_TO_SUM: u32 = 64;

/// Ranks that multiply the same element by two, at most: 2^7 is exact even in a byte.
pub const CONTRIBUTORS_TO_PRODUCT: u32 = 7;

/// The input of one rank in one iteration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pattern {
    /// Seed of the run.
    pub seed: u64,
    /// Which repetition: no two share their data.
    pub iteration: u64,
    /// Whose input.
    pub rank: u32,
    /// Ranks that are reduced over.
    pub ranks: u32,
    /// Element type the reduction must be exact in.
    pub dtype: DType,
    /// Operator the reduction must be exact under; `max` has the widest values and suits data that is only moved.
    pub op: ReduceOp,
}

impl Pattern {
    /// Writes the elements from index `first_element` on into `out`, which holds whole elements at any alignment.
    pub fn fill(&self, first_element: usize, out: &mut [u8]) {
        with_element!(self.dtype, T => self.fill_as::<T>(first_element, out))
    }

    /// Writes the same values as plain integers: below 2^30 each, and so is any reduction of them.
    pub fn integers(&self, first_element: usize, out: &mut [u32]) {
        let rule = Rule::of(self);
        let mut rest = out;
        let mut index = first_element;
        while !rest.is_empty() {
            let lane = index % SPAN;
            let (now, later) = rest.split_at_mut(rest.len().min(SPAN - lane));
            self.fill_span(rule, (index / SPAN) as u64, lane as u32, now);
            index += now.len();
            rest = later;
        }
    }

    /// The rule its values follow, for devices that draw them by themselves.
    pub fn rule(&self) -> Rule {
        Rule::of(self)
    }

    fn fill_as<T: Element>(&self, first_element: usize, out: &mut [u8]) {
        let mut integers = [0u32; SPAN];
        let mut elements = [T::zeroed(); SPAN];
        for (block, out) in out.chunks_mut(size_of_val(&elements)).enumerate() {
            let count = out.len() / size_of::<T>();
            let (integers, elements) = (&mut integers[..count], &mut elements[..count]);
            self.integers(first_element + block * SPAN, integers);
            T::from_integers(elements, integers);
            out[..size_of_val(elements)].copy_from_slice(cast_slice(elements));
        }
    }

    fn fill_span(&self, rule: Rule, span: u64, first_lane: u32, out: &mut [u32]) {
        let Rule {
            least,
            mask,
            slots,
            turns,
        } = rule;
        let words = |whose: u64| Words::new([self.seed, self.iteration, span, whose], first_lane);
        let mut own = words(2 * u64::from(self.rank));
        if turns == 1 {
            for value in out {
                *value = least + (own.draw() & mask);
            }
        } else {
            let (slot, turn) = (self.rank % slots, self.rank / slots);
            let mut shared = words(2 * u64::from(slot) + 1);
            for value in out {
                let its_turn = u32::from(shared.draw() & (turns - 1) == turn);
                *value = least + (own.draw() & mask) * its_turn;
            }
        }
    }
}

/// Which values a rank may take: `least + (hash & mask)` at its turn, `least` otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    /// The smallest value.
    pub least: u32,
    /// One less than the number of values, a power of two.
    pub mask: u32,
    /// Ranks that contribute to an element at the same time.
    pub slots: u32,
    /// Ranks that share a slot, rounded up to a power of two; 1 when every rank has its own.
    pub turns: u32,
}

impl Rule {
    fn of(pattern: &Pattern) -> Rule {
        let ranks = pattern.ranks.max(1);
        let limit = exact_limit(pattern.dtype);
        let shared_by = |slots: u32| ranks.div_ceil(slots).next_power_of_two();
        match pattern.op {
            ReduceOp::Sum | ReduceOp::Avg => {
                let share = limit / ranks.min(CONTRIBUTORS_TO_SUM);
                let mask = (1 << share.ilog2()) - 1;
                Rule {
                    least: 0,
                    mask,
                    slots: CONTRIBUTORS_TO_SUM,
                    turns: shared_by(CONTRIBUTORS_TO_SUM),
                }
            }
            ReduceOp::Prod => {
                let slots = CONTRIBUTORS_TO_PRODUCT;
                Rule {
                    least: 1,
                    mask: 1,
                    slots,
                    turns: shared_by(slots),
                }
            }
            ReduceOp::Min | ReduceOp::Max => Rule {
                least: 0,
                mask: limit - 1,
                slots: ranks,
                turns: 1,
            },
        }
    }
}

/// A power of two below which every integer is exact in the type (and fits 30 bits).
fn exact_limit(dtype: DType) -> u32 {
    match dtype {
        DType::U8 | DType::Bf16 => 1 << 8,
        DType::F16 => 1 << 11,
        DType::F32 => 1 << 24,
        DType::F64 | DType::I32 | DType::I64 | DType::U32 => 1 << 30,
    }
}

/// Pseudo-random words for consecutive elements of a span.
///
/// A word costs one 32-bit multiplication by a constant of the span, and the next one needs nothing from it but an
/// addition, so the loops that draw from it are compiled to vector code. Any device can draw word `i` by itself from
/// `weyl + i * STEP`.
#[derive(Debug, Clone, Copy)]
struct Words {
    weyl: u32,
    factor: u32,
}

impl Words {
    /// Odd, so that 2^32 elements pass before it repeats; the golden ratio, so that neighbours are far apart.
    const STEP: u32 = 0x9e37_79b9;

    fn new(key: [u64; 4], first_lane: u32) -> Words {
        let mixed = key.into_iter().fold(0, |state, word| mix(state ^ word));
        let (start, factor) = (mixed as u32, (mixed >> 32) as u32 | 1);
        Words {
            weyl: start.wrapping_add(first_lane.wrapping_mul(Self::STEP)),
            factor,
        }
    }

    #[inline(always)]
    fn draw(&mut self) -> u32 {
        let x = self.weyl;
        self.weyl = x.wrapping_add(Self::STEP);
        let x = (x ^ (x >> 15)).wrapping_mul(self.factor);
        x ^ (x >> 16)
    }
}

/// One step of the SplitMix64 generator: every input bit reaches every output bit.
fn mix(state: u64) -> u64 {
    let x = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use strum::IntoEnumIterator;

    const PATTERN: Pattern = Pattern {
        seed: 7,
        iteration: 3,
        rank: 1,
        ranks: 2,
        dtype: DType::F32,
        op: ReduceOp::Sum,
    };

    fn integers(pattern: Pattern, first: usize, count: usize) -> Vec<u32> {
        let mut out = vec![0; count];
        pattern.integers(first, &mut out);
        out
    }

    /// Share of elements that are the same in both.
    fn agreement(a: &[u32], b: &[u32]) -> f64 {
        a.iter().zip(b).filter(|(a, b)| a == b).count() as f64 / a.len() as f64
    }

    #[test]
    fn every_reduction_is_exact_in_its_type_so_no_healthy_run_is_called_corrupt() {
        for dtype in DType::iter() {
            for op in ReduceOp::iter() {
                for ranks in [1, 2, 3, 7, 8, 63, 64, 65, 300] {
                    let mut total = vec![u64::from(op == ReduceOp::Prod); 3000];
                    for rank in 0..ranks {
                        let values = integers(
                            Pattern {
                                rank,
                                ranks,
                                dtype,
                                op,
                                ..PATTERN
                            },
                            500,
                            3000,
                        );
                        for (total, value) in total.iter_mut().zip(values) {
                            match op {
                                ReduceOp::Prod => *total *= u64::from(value),
                                ReduceOp::Sum | ReduceOp::Avg => *total += u64::from(value),
                                ReduceOp::Min | ReduceOp::Max => *total = (*total).max(value.into()),
                            }
                        }
                    }
                    let limit = u64::from(exact_limit(dtype));
                    assert!(
                        total.iter().all(|&total| total < limit),
                        "{dtype} {op} over {ranks} ranks"
                    );
                    assert!(
                        total.iter().any(|&total| total != total_of_nothing(op)),
                        "{dtype} {op} is all alike"
                    );
                }
            }
        }
    }

    fn total_of_nothing(op: ReduceOp) -> u64 {
        u64::from(op == ReduceOp::Prod)
    }

    #[test]
    fn a_seed_means_the_same_data_on_every_device_and_in_every_version() {
        assert_eq!(integers(PATTERN, 1022, 4), [7257252, 8189208, 5813291, 7237357]);
    }

    #[test]
    fn a_part_filled_alone_has_the_bytes_of_the_whole_at_any_offset() {
        for dtype in DType::iter() {
            let size = dtype.size();
            let pattern = Pattern { dtype, ..PATTERN };
            let mut whole = vec![0; 5000 * size];
            pattern.fill(0, &mut whole);
            for (first, count) in [(0, 1), (1, 1024), (1023, 2), (1000, 3001), (4999, 1), (17, 0)] {
                let mut part = vec![0; 1 + count * size];
                pattern.fill(first, &mut part[1..]);
                assert_eq!(
                    part[1..],
                    whole[first * size..(first + count) * size],
                    "{dtype} from {first}"
                );
            }
        }
    }

    #[test]
    fn stale_and_misplaced_data_differ_as_often_as_chance_allows() {
        for (dtype, ranks) in [
            (DType::F32, 2),
            (DType::F16, 8),
            (DType::Bf16, 64),
            (DType::U8, 64),
            (DType::I64, 3),
        ] {
            let pattern = Pattern {
                dtype,
                ranks,
                ..PATTERN
            };
            let values = integers(pattern, 0, 1 << 14);
            let chance = 1.0 / f64::from(Rule::of(&pattern).mask + 1);
            let others = [
                (
                    "iteration",
                    integers(
                        Pattern {
                            iteration: 2,
                            ..pattern
                        },
                        0,
                        1 << 14,
                    ),
                ),
                ("rank", integers(Pattern { rank: 0, ..pattern }, 0, 1 << 14)),
                ("seed", integers(Pattern { seed: 8, ..pattern }, 0, 1 << 14)),
                ("next element", integers(pattern, 1, 1 << 14)),
                ("next span", integers(pattern, SPAN, 1 << 14)),
                ("next 4 Gi elements", integers(pattern, 1 << 32, 1 << 14)),
            ];
            for (what, other) in others {
                let found = agreement(&values, &other);
                assert!(
                    found < chance * 1.15 + 0.001,
                    "{dtype}, another {what}: {found} alike, {chance} by chance"
                );
            }
        }
    }

    #[test]
    fn a_product_over_many_ranks_still_tells_iterations_apart() {
        let product = |iteration| {
            let mut total = vec![1; 4096];
            for rank in 0..64 {
                let pattern = Pattern {
                    iteration,
                    rank,
                    ranks: 64,
                    op: ReduceOp::Prod,
                    ..PATTERN
                };
                let values = integers(pattern, 0, 4096);
                total
                    .iter_mut()
                    .zip(values)
                    .for_each(|(total, value)| *total *= value);
            }
            total
        };
        assert!(agreement(&product(1), &product(2)) < 0.5);
    }
}
