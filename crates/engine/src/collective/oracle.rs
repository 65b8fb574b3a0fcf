//! What a collective must yield, computed without any schedule.
//!
//! The oracle knows the inputs (see [`Pattern`]) and the definition of each collective, nothing about how data moves. Every
//! result is an exact integer, or one exact sum divided once, so outputs are compared bit by bit. What the collective does
//! not define (blocks of other ranks, idle ranks) is not looked at.

use std::ops::Range;

use half::{bf16, f16};
use serde::{Deserialize, Serialize};

use crate::device::Pattern;
use record::{Cell, Collective, DType, ReduceOp};

/// Elements compared at a time: small enough for the stack and the first cache.
const BLOCK: usize = 1024;

/// Bytes of the widest element.
const WIDEST: usize = 8;

/// Inputs and expected outputs of one collective.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Oracle {
    /// What is done with the data.
    pub collective: Collective,
    /// Element type.
    pub dtype: DType,
    /// Reduction operator; unused where nothing is reduced.
    pub op: ReduceOp,
    /// Ranks taking part, at least one.
    pub ranks: usize,
    /// Where the data of a broadcast comes from.
    pub root: usize,
    /// Elements of the whole payload.
    pub elements: usize,
    /// Seed of the run.
    pub seed: u64,
}

/// The first wrong element of an output, and how many there are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WrongElement {
    /// Its index in the payload.
    pub element: u64,
    /// Its offset in the output.
    pub byte_offset: u64,
    /// What belongs there, as the element's bits in hexadecimal: `0x40400000`.
    pub expected_bits: String,
    /// What was found there; `nothing` when the output ends before it.
    pub found_bits: String,
    /// Wrong elements in the whole output.
    pub wrong_elements: u64,
}

/// A range of output elements and where they come from.
pub(super) struct OutputRange {
    pub output: Range<usize>,
    pub source: Source,
}

/// Where a range of output elements comes from.
pub(super) enum Source {
    /// All ranks, at the same elements.
    Everyone,
    /// The input of one rank, from this element on.
    Rank(usize, usize),
}

impl Oracle {
    /// The oracle of a cell.
    pub fn for_cell(cell: &Cell, seed: u64) -> Oracle {
        Oracle {
            collective: cell.collective,
            dtype: cell.dtype,
            op: cell.op,
            ranks: cell.world(),
            root: cell.root as usize,
            elements: cell.elements(),
            seed,
        }
    }

    /// Fills `out` with the input of `rank`: the whole payload, also where the collective looks at a block of it only.
    pub fn input(&self, rank: usize, iteration: u64, out: &mut [u8]) {
        self.pattern(rank, iteration).fill(0, out);
    }

    /// Compares the output of `rank` with what the collective defines for it.
    pub fn check(&self, rank: usize, iteration: u64, output: &[u8]) -> Result<(), WrongElement> {
        let mut integers = [0u32; BLOCK];
        let mut expected = [0u8; BLOCK * WIDEST];
        let mut wrong = None;
        for OutputRange {
            output: range,
            source,
        } in self.output_ranges(rank)
        {
            for start in range.clone().step_by(BLOCK) {
                let count = (range.end - start).min(BLOCK);
                let (integers, expected) =
                    (&mut integers[..count], &mut expected[..count * self.dtype.size()]);
                match source {
                    Source::Everyone => self.reduction(iteration, start, integers, expected),
                    Source::Rank(from, first) => {
                        let first = first + (start - range.start);
                        self.pattern(from, iteration).integers(first, integers);
                        encode(self.dtype, integers, expected);
                    }
                }
                self.compare(start, expected, output, &mut wrong);
            }
        }
        wrong.map_or(Ok(()), Err)
    }

    /// The test data of one rank.
    pub(super) fn pattern(&self, rank: usize, iteration: u64) -> Pattern {
        // Data that is only moved may use every exact value: the rule for a maximum.
        let op = if self.collective.reduces() {
            self.op
        } else {
            ReduceOp::Max
        };
        Pattern {
            seed: self.seed,
            iteration,
            rank: rank as u32,
            ranks: self.ranks as u32,
            dtype: self.dtype,
            op,
        }
    }

    /// The definition of each collective.
    pub(super) fn output_ranges(&self, rank: usize) -> Vec<OutputRange> {
        let whole = 0..self.elements;
        let copy = |from: usize, output: Range<usize>| OutputRange {
            source: Source::Rank(from, output.start),
            output,
        };
        match self.collective {
            Collective::AllReduce => vec![OutputRange {
                output: whole,
                source: Source::Everyone,
            }],
            Collective::ReduceScatter => vec![OutputRange {
                output: self.block(rank),
                source: Source::Everyone,
            }],
            Collective::AllGather => (0..self.ranks).map(|from| copy(from, self.block(from))).collect(),
            Collective::Broadcast => vec![copy(self.root, whole)],
            Collective::AllToAll => {
                let length = self.elements / self.ranks;
                let from = |from: usize| OutputRange {
                    output: from * length..(from + 1) * length,
                    source: Source::Rank(from, rank * length),
                };
                (0..self.ranks).map(from).collect()
            }
            Collective::PointToPoint if rank == 1 => vec![copy(0, whole)],
            Collective::Bidirectional if rank < 2 && self.ranks > 1 => vec![copy(1 - rank, whole)],
            Collective::RoundTrip if rank < 2 && self.ranks > 1 => vec![copy(0, whole)],
            Collective::Incast if rank == self.root => {
                (0..self.ranks).map(|from| copy(from, self.block(from))).collect()
            }
            Collective::PointToPoint
            | Collective::Bidirectional
            | Collective::RoundTrip
            | Collective::Incast
            | Collective::Streams
            | Collective::Probes => Vec::new(),
        }
    }

    /// Block `index` of as many blocks as ranks, the first ones longer by one where the payload does not divide.
    fn block(&self, index: usize) -> Range<usize> {
        let (each, longer) = (self.elements / self.ranks, self.elements % self.ranks);
        let start = |index: usize| index * each + index.min(longer);
        start(index)..start(index + 1)
    }

    /// What belongs at `element` of the output of `rank`, against what was found there.
    pub(super) fn explain(&self, rank: usize, iteration: u64, element: usize, found: &[u8]) -> WrongElement {
        let mut expected = [0; WIDEST];
        let expected = &mut expected[..self.dtype.size()];
        let mut integer = [0];
        for part in self.output_ranges(rank) {
            if !part.output.contains(&element) {
                continue;
            }
            match part.source {
                Source::Everyone => self.reduction(iteration, element, &mut integer, expected),
                Source::Rank(from, first) => {
                    let first = first + (element - part.output.start);
                    self.pattern(from, iteration).integers(first, &mut integer);
                    encode(self.dtype, &integer, expected);
                }
            }
        }
        WrongElement {
            element: element as u64,
            byte_offset: (element * self.dtype.size()) as u64,
            expected_bits: bits(expected),
            found_bits: bits(found),
            wrong_elements: 1,
        }
    }

    /// The reduction over all ranks of the elements from `first` on, as bytes.
    fn reduction(&self, iteration: u64, first: usize, totals: &mut [u32], bytes: &mut [u8]) {
        let mut values = [0u32; BLOCK];
        let values = &mut values[..totals.len()];
        self.pattern(0, iteration).integers(first, totals);
        for rank in 1..self.ranks {
            self.pattern(rank, iteration).integers(first, values);
            let pairs = totals.iter_mut().zip(values.iter());
            match self.op {
                ReduceOp::Sum | ReduceOp::Avg => pairs.for_each(|(total, value)| *total += value),
                ReduceOp::Prod => pairs.for_each(|(total, value)| *total *= value),
                ReduceOp::Min => pairs.for_each(|(total, value)| *total = (*total).min(*value)),
                ReduceOp::Max => pairs.for_each(|(total, value)| *total = (*total).max(*value)),
            }
        }
        match self.op {
            ReduceOp::Avg => encode_quotients(self.dtype, totals, self.ranks as u32, bytes),
            _ => encode(self.dtype, totals, bytes),
        }
    }

    /// Adds the elements that differ, from element `first` of the output on, to what was found before.
    fn compare(&self, first: usize, expected: &[u8], output: &[u8], wrong: &mut Option<WrongElement>) {
        let size = self.dtype.size();
        let found = output.get(first * size..).unwrap_or_default();
        let found = &found[..found.len().min(expected.len())];
        if found == expected {
            return;
        }
        let found = found.chunks(size).chain(std::iter::repeat(&[][..]));
        let pairs = expected.chunks(size).zip(found);
        for (i, (expected, found)) in pairs
            .enumerate()
            .filter(|(_, (expected, found))| expected != found)
        {
            let first_wrong = wrong.get_or_insert_with(|| WrongElement {
                element: (first + i) as u64,
                byte_offset: ((first + i) * size) as u64,
                expected_bits: bits(expected),
                found_bits: if found.len() == size {
                    bits(found)
                } else {
                    "nothing".into()
                },
                wrong_elements: 0,
            });
            first_wrong.wrong_elements += 1;
        }
    }
}

/// The bits of one element, most significant first.
fn bits(element: &[u8]) -> String {
    let digit = |byte: &u8| format!("{byte:02x}");
    let digits: String = if cfg!(target_endian = "little") {
        element.iter().rev().map(digit).collect()
    } else {
        element.iter().map(digit).collect()
    };
    format!("0x{digits}")
}

/// Writes exact integers in the element type.
fn encode(dtype: DType, integers: &[u32], bytes: &mut [u8]) {
    match dtype {
        DType::F32 => write(integers, bytes, |v| (v as i32 as f32).to_ne_bytes()),
        DType::F64 => write(integers, bytes, |v| f64::from(v as i32).to_ne_bytes()),
        DType::F16 => write(integers, bytes, |v| f16_from_integer(v).to_ne_bytes()),
        DType::Bf16 => write(integers, bytes, |v| bf16_from_integer(v).to_ne_bytes()),
        DType::I32 | DType::U32 => write(integers, bytes, |v| v.to_ne_bytes()),
        DType::I64 => write(integers, bytes, |v| u64::from(v).to_ne_bytes()),
        DType::U8 => write(integers, bytes, |v| [v as u8]),
    }
}

/// Writes exact sums divided by the number of ranks, rounded once to the element type.
fn encode_quotients(dtype: DType, sums: &mut [u32], ranks: u32, bytes: &mut [u8]) {
    let quotient = |sum: u32| f64::from(sum) / f64::from(ranks);
    match dtype {
        DType::F32 => write(sums, bytes, |sum| (quotient(sum) as f32).to_ne_bytes()),
        DType::F64 => write(sums, bytes, |sum| quotient(sum).to_ne_bytes()),
        DType::F16 => write(sums, bytes, |sum| f16::from_f64(quotient(sum)).to_ne_bytes()),
        DType::Bf16 => write(sums, bytes, |sum| bf16::from_f64(quotient(sum)).to_ne_bytes()),
        DType::I32 | DType::I64 | DType::U32 | DType::U8 => {
            sums.iter_mut().for_each(|sum| *sum /= ranks);
            encode(dtype, sums, bytes);
        }
    }
}

fn write<const N: usize>(values: &[u32], bytes: &mut [u8], element: impl Fn(u32) -> [u8; N]) {
    let (slots, _) = bytes.as_chunks_mut::<N>();
    for (slot, value) in slots.iter_mut().zip(values) {
        *slot = element(*value);
    }
}

/// The bits of a half-precision integer up to 2048, cut from those of the single-precision one.
fn f16_from_integer(value: u32) -> u16 {
    let bits = (value as i32 as f32).to_bits();
    // Move the exponent's bias from 127 to 15 and drop 13 mantissa bits, all zero; zero has no exponent to move.
    if value == 0 {
        0
    } else {
        ((bits - ((127 - 15) << 23)) >> 13) as u16
    }
}

/// The bits of a bfloat16 integer up to 256: the upper half of the single-precision ones.
fn bf16_from_integer(value: u32) -> u16 {
    ((value as i32 as f32).to_bits() >> 16) as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use strum::IntoEnumIterator;

    fn oracle(collective: Collective) -> Oracle {
        let (dtype, op) = (DType::F32, ReduceOp::Sum);
        Oracle {
            collective,
            dtype,
            op,
            ranks: 3,
            root: 2,
            elements: 5000,
            seed: 11,
        }
    }

    /// A right output of an all-reduce, element by element from the inputs.
    fn all_reduced(oracle: &Oracle, iteration: u64) -> Vec<f32> {
        let mut total = vec![0f32; oracle.elements];
        let mut input = total.clone();
        for rank in 0..oracle.ranks {
            oracle.input(rank, iteration, bytemuck::cast_slice_mut(&mut input));
            total
                .iter_mut()
                .zip(&input)
                .for_each(|(total, input)| *total += input);
        }
        total
    }

    #[test]
    fn a_flipped_bit_is_named_by_element_and_bits() {
        let oracle = oracle(Collective::AllReduce);
        let mut output = all_reduced(&oracle, 4);
        assert_eq!(oracle.check(1, 4, bytemuck::cast_slice(&output)), Ok(()));
        let right = output[3210].to_bits();
        output[3210] = f32::from_bits(right ^ 1 << 7);
        let wrong = WrongElement {
            element: 3210,
            byte_offset: 12840,
            expected_bits: format!("{right:#010x}"),
            found_bits: format!("{:#010x}", right ^ 1 << 7),
            wrong_elements: 1,
        };
        assert_eq!(oracle.check(1, 4, bytemuck::cast_slice(&output)), Err(wrong));
    }

    #[test]
    fn a_result_left_over_from_the_previous_iteration_is_caught_almost_everywhere() {
        let oracle = oracle(Collective::AllReduce);
        let stale = all_reduced(&oracle, 3);
        let wrong = oracle.check(0, 4, bytemuck::cast_slice(&stale)).unwrap_err();
        assert!(wrong.wrong_elements > 4990, "{wrong:?}");
    }

    #[test]
    fn chunks_that_changed_places_are_caught_where_the_first_one_begins() {
        let oracle = oracle(Collective::AllReduce);
        let mut output = all_reduced(&oracle, 0);
        let (front, back) = output.split_at_mut(2048);
        front[1024..1088].swap_with_slice(&mut back[..64]);
        let wrong = oracle.check(2, 0, bytemuck::cast_slice(&output)).unwrap_err();
        assert_eq!((wrong.element, wrong.wrong_elements), (1024, 128));
    }

    #[test]
    fn an_output_that_ends_early_is_wrong_and_not_a_crash() {
        let oracle = oracle(Collective::AllReduce);
        let output = all_reduced(&oracle, 0);
        let bytes: &[u8] = bytemuck::cast_slice(&output);
        let wrong = oracle.check(0, 0, &bytes[..4 * 4000 + 1]).unwrap_err();
        assert_eq!((wrong.element, wrong.wrong_elements), (4000, 1000));
        assert_eq!(wrong.found_bits, "nothing");
        assert_eq!(oracle.check(0, 0, &[]).unwrap_err().wrong_elements, 5000);
    }

    #[test]
    fn a_block_that_belongs_to_another_rank_is_not_judged() {
        let oracle = oracle(Collective::ReduceScatter);
        let mut output = all_reduced(&oracle, 0);
        output[..1667].fill(-1.0);
        output[3334..].fill(-1.0);
        assert_eq!(oracle.check(1, 0, bytemuck::cast_slice(&output)), Ok(()));
        assert_eq!(
            oracle
                .check(2, 0, bytemuck::cast_slice(&output))
                .unwrap_err()
                .element,
            3334
        );
    }

    #[test]
    fn the_oracle_writes_integers_as_devices_do() {
        for dtype in DType::iter() {
            let oracle = Oracle {
                dtype,
                ranks: 1,
                op: ReduceOp::Max,
                ..oracle(Collective::AllReduce)
            };
            let mut input = vec![0; oracle.elements * dtype.size()];
            oracle.input(0, 9, &mut input);
            assert_eq!(oracle.check(0, 9, &input), Ok(()), "{dtype}");
        }
    }
}
