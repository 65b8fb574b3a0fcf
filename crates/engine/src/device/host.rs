//! CPU arithmetic: `dst = dst op src` and its relatives, on byte slices that hold whole elements.
//!
//! Bytes come from message buffers, so nothing is assumed about their alignment: aligned slices are worked on where they
//! are, others pass through a small aligned buffer. Both ways give the same bits.

use bytemuck::{cast_slice, cast_slice_mut, try_cast_slice, try_cast_slice_mut};

use super::element::{Element, Number, with_element};
use record::{DType, ReduceOp};

/// Elements that pass through the aligned buffer at a time.
const BUFFERED: usize = 256;

/// `dst = dst op src`. An average is a sum until [`finish_avg`] divides it.
///
/// # Panics
/// When the slices differ in length or do not hold whole elements.
pub fn reduce(dtype: DType, op: ReduceOp, dst: &mut [u8], src: &[u8]) {
    expect_whole_elements(dtype, dst, &[src]);
    with_element!(dtype, T => reduce_bytes::<T>(op, dst, src))
}

/// `dst = a op b`. An average is a sum until [`finish_avg`] divides it.
///
/// # Panics
/// When the slices differ in length or do not hold whole elements.
pub fn reduce_into(dtype: DType, op: ReduceOp, dst: &mut [u8], a: &[u8], b: &[u8]) {
    expect_whole_elements(dtype, dst, &[a, b]);
    with_element!(dtype, T => reduce_bytes_into::<T>(op, dst, a, b))
}

/// Turns the sum over `ranks` ranks into their average; integers divide towards zero.
///
/// # Panics
/// When the slice does not hold whole elements.
pub fn finish_avg(dtype: DType, dst: &mut [u8], ranks: usize) {
    expect_whole_elements(dtype, dst, &[]);
    with_element!(dtype, T => divide_bytes::<T>(dst, ranks.max(1)))
}

fn expect_whole_elements(dtype: DType, dst: &[u8], sources: &[&[u8]]) {
    assert!(
        dst.len().is_multiple_of(dtype.size()),
        "{} bytes are not whole {dtype} elements",
        dst.len()
    );
    for source in sources {
        assert_eq!(
            dst.len(),
            source.len(),
            "reduction of slices that differ in length"
        );
    }
}

fn reduce_bytes<T: Element>(op: ReduceOp, dst: &mut [u8], src: &[u8]) {
    match (try_cast_slice_mut(dst), try_cast_slice(src)) {
        (Ok(dst), Ok(src)) => fold::<T>(op, dst, src),
        _ => {
            let (mut left, mut right) = ([T::zeroed(); BUFFERED], [T::zeroed(); BUFFERED]);
            let bytes = size_of_val(&left);
            for (dst, src) in dst.chunks_mut(bytes).zip(src.chunks(bytes)) {
                let (left, right) = (aligned(&mut left, dst), aligned(&mut right, src));
                fold(op, left, right);
                dst.copy_from_slice(cast_slice(left));
            }
        }
    }
}

fn reduce_bytes_into<T: Element>(op: ReduceOp, dst: &mut [u8], a: &[u8], b: &[u8]) {
    match (try_cast_slice_mut(dst), try_cast_slice(a), try_cast_slice(b)) {
        (Ok(dst), Ok(a), Ok(b)) => zip::<T>(op, dst, a, b),
        _ => {
            let (mut left, mut right) = ([T::zeroed(); BUFFERED], [T::zeroed(); BUFFERED]);
            let bytes = size_of_val(&left);
            for ((dst, a), b) in dst.chunks_mut(bytes).zip(a.chunks(bytes)).zip(b.chunks(bytes)) {
                let (left, right) = (aligned(&mut left, a), aligned(&mut right, b));
                fold(op, left, right);
                dst.copy_from_slice(cast_slice(left));
            }
        }
    }
}

fn divide_bytes<T: Element>(dst: &mut [u8], ranks: usize) {
    match try_cast_slice_mut(dst) {
        Ok(dst) => T::map(dst, |value| value.divided_by(ranks)),
        Err(_) => {
            let mut buffer = [T::zeroed(); BUFFERED];
            for dst in dst.chunks_mut(size_of_val(&buffer)) {
                let buffer = aligned(&mut buffer, dst);
                T::map(buffer, |value| value.divided_by(ranks));
                dst.copy_from_slice(cast_slice(buffer));
            }
        }
    }
}

/// Copies `bytes` into the front of `buffer`, where they are aligned.
fn aligned<'a, T: Element>(buffer: &'a mut [T; BUFFERED], bytes: &[u8]) -> &'a mut [T] {
    let front = &mut buffer[..bytes.len() / size_of::<T>()];
    cast_slice_mut(front).copy_from_slice(bytes);
    front
}

fn fold<T: Element>(op: ReduceOp, dst: &mut [T], src: &[T]) {
    match op {
        ReduceOp::Sum | ReduceOp::Avg => T::fold(dst, src, T::Compute::sum),
        ReduceOp::Prod => T::fold(dst, src, T::Compute::product),
        ReduceOp::Min => T::fold(dst, src, T::Compute::smaller),
        ReduceOp::Max => T::fold(dst, src, T::Compute::larger),
    }
}

fn zip<T: Element>(op: ReduceOp, dst: &mut [T], a: &[T], b: &[T]) {
    match op {
        ReduceOp::Sum | ReduceOp::Avg => T::zip(dst, a, b, T::Compute::sum),
        ReduceOp::Prod => T::zip(dst, a, b, T::Compute::product),
        ReduceOp::Min => T::zip(dst, a, b, T::Compute::smaller),
        ReduceOp::Max => T::zip(dst, a, b, T::Compute::larger),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use half::{bf16, f16};
    use proptest::prelude::*;
    use strum::IntoEnumIterator;

    /// One element at a time, written without the loops under test.
    fn naive(dtype: DType, op: ReduceOp, a: &[u8], b: &[u8]) -> Vec<u8> {
        macro_rules! one {
            ($type:ty, $sum:expr, $product:expr) => {{
                let (a, b): (&$type, &$type) = (
                    &bytemuck::pod_read_unaligned(a),
                    &bytemuck::pod_read_unaligned(b),
                );
                let value: $type = match op {
                    ReduceOp::Sum | ReduceOp::Avg => $sum(*a, *b),
                    ReduceOp::Prod => $product(*a, *b),
                    ReduceOp::Min => {
                        if b < a {
                            *b
                        } else {
                            *a
                        }
                    }
                    ReduceOp::Max => {
                        if b > a {
                            *b
                        } else {
                            *a
                        }
                    }
                };
                value.to_ne_bytes().to_vec()
            }};
        }
        match dtype {
            DType::F32 => one!(f32, |a, b| a + b, |a, b| a * b),
            DType::F64 => one!(f64, |a, b| a + b, |a, b| a * b),
            DType::F16 => one!(
                f16,
                |a: f16, b: f16| f16::from_f32(a.to_f32() + b.to_f32()),
                |a: f16, b: f16| { f16::from_f32(a.to_f32() * b.to_f32()) }
            ),
            DType::Bf16 => one!(
                bf16,
                |a: bf16, b: bf16| bf16::from_f32(a.to_f32() + b.to_f32()),
                |a: bf16, b: bf16| { bf16::from_f32(a.to_f32() * b.to_f32()) }
            ),
            DType::I32 => one!(i32, i32::wrapping_add, i32::wrapping_mul),
            DType::I64 => one!(i64, i64::wrapping_add, i64::wrapping_mul),
            DType::U32 => one!(u32, u32::wrapping_add, u32::wrapping_mul),
            DType::U8 => one!(u8, u8::wrapping_add, u8::wrapping_mul),
        }
    }

    /// Random bits with the exponent of floats kept in its middle, so that no value is NaN or infinite.
    fn tame(dtype: DType, bytes: &mut [u8]) {
        for element in bytes.chunks_exact_mut(dtype.size()) {
            let last = element.len() - 1;
            match dtype {
                DType::F32 | DType::F64 | DType::F16 | DType::Bf16 => {
                    element[last] = element[last] & 0x83 | 0x3c;
                }
                _ => {}
            }
        }
    }

    proptest! {
        #[test]
        fn every_type_and_operator_gives_the_bits_of_one_by_one_arithmetic_at_any_alignment(
            mut a in prop::collection::vec(any::<u8>(), 0..3000),
            mut b in prop::collection::vec(any::<u8>(), 3000),
            shift in (0usize..8, 0usize..8, 0usize..8),
        ) {
            for dtype in DType::iter() {
                let len = a.len() / dtype.size() * dtype.size();
                tame(dtype, &mut a[..len]);
                tame(dtype, &mut b[..len]);
                let at = |shift: usize, bytes: &[u8]| [vec![0; shift], bytes.to_vec()].concat();
                for op in ReduceOp::iter() {
                    let expected: Vec<u8> = (0..len)
                        .step_by(dtype.size())
                        .flat_map(|i| naive(dtype, op, &a[i..i + dtype.size()], &b[i..i + dtype.size()]))
                        .collect();
                    let (left, right) = (at(shift.0, &a[..len]), at(shift.1, &b[..len]));

                    let mut dst = at(shift.2, &a[..len]);
                    reduce(dtype, op, &mut dst[shift.2..], &right[shift.1..]);
                    prop_assert_eq!(&dst[shift.2..], &expected[..], "reduce {} {}", dtype, op);

                    let mut dst = vec![0xee; shift.2 + len];
                    reduce_into(dtype, op, &mut dst[shift.2..], &left[shift.0..], &right[shift.1..]);
                    prop_assert_eq!(&dst[shift.2..], &expected[..], "reduce_into {} {}", dtype, op);
                }
            }
        }
    }

    #[test]
    fn an_average_divides_once_and_integers_round_towards_zero() {
        fn average<T: Element>(dtype: DType, values: &[T], ranks: usize) -> Vec<T> {
            let mut bytes = [&[0u8][..], cast_slice(values)].concat();
            finish_avg(dtype, &mut bytes[1..], ranks);
            bytes[1..]
                .chunks_exact(size_of::<T>())
                .map(bytemuck::pod_read_unaligned)
                .collect()
        }
        assert_eq!(average(DType::I32, &[7i32, -7, 0], 2), [3, -3, 0]);
        assert_eq!(average(DType::I64, &[i64::MIN, -1], 3), [i64::MIN / 3, 0]);
        assert_eq!(average(DType::U8, &[255u8, 3], 300), [0, 0]);
        assert_eq!(average(DType::U32, &[u32::MAX], 2), [u32::MAX / 2]);
        assert_eq!(average(DType::F32, &[1f32, 2.0], 3), [1.0 / 3.0, 2.0 / 3.0]);
        assert_eq!(average(DType::F64, &[1f64], 3), [1.0 / 3.0]);
        assert_eq!(
            average(DType::F16, &[f16::from_f32(10.0)], 3),
            [f16::from_f32(10.0 / 3.0)]
        );
        assert_eq!(
            average(DType::Bf16, &[bf16::from_f32(10.0)], 3),
            [bf16::from_f32(10.0 / 3.0)]
        );
    }
}
