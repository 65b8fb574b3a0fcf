//! The element types, and the three loops every reduction is made of.
//!
//! Arithmetic happens in [`Element::Compute`]: the type itself where the CPU has it, `f32` for the two half precisions, which
//! are rounded back to nearest even after every operation. The loops take the operation as a closure known at compile
//! time, so each pair of type and operator is compiled to its own vector loop.

use bytemuck::Pod;
use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};

/// Elements converted at a time where arithmetic is done in another type than the one stored.
const LANES: usize = 64;

/// A number that arithmetic is done in.
pub trait Number: Copy {
    /// Addition; integers wrap.
    fn sum(self, other: Self) -> Self;
    /// Multiplication; integers wrap.
    fn product(self, other: Self) -> Self;
    /// The smaller, by plain comparison.
    fn smaller(self, other: Self) -> Self;
    /// The larger, by plain comparison.
    fn larger(self, other: Self) -> Self;
    /// Division by a count; integers towards zero.
    fn divided_by(self, count: usize) -> Self;
}

/// A type that payloads can be made of.
pub trait Element: Pod {
    /// What arithmetic on it is done in.
    type Compute: Number;

    /// `dst[i] = f(dst[i], src[i])`.
    fn fold(dst: &mut [Self], src: &[Self], f: impl Fn(Self::Compute, Self::Compute) -> Self::Compute);

    /// `dst[i] = f(a[i], b[i])`.
    fn zip(
        dst: &mut [Self],
        a: &[Self],
        b: &[Self],
        f: impl Fn(Self::Compute, Self::Compute) -> Self::Compute,
    );

    /// `dst[i] = f(dst[i])`.
    fn map(dst: &mut [Self], f: impl Fn(Self::Compute) -> Self::Compute);

    /// `dst[i] = integers[i]`, for integers below 2^31 that the type holds exactly.
    fn from_integers(dst: &mut [Self], integers: &[u32]);
}

macro_rules! number {
    ($type:ty, $sum:expr, $product:expr, $divide:expr) => {
        impl Number for $type {
            #[inline(always)]
            fn sum(self, other: Self) -> Self {
                $sum(self, other)
            }
            #[inline(always)]
            fn product(self, other: Self) -> Self {
                $product(self, other)
            }
            #[inline(always)]
            fn smaller(self, other: Self) -> Self {
                if other < self { other } else { self }
            }
            #[inline(always)]
            fn larger(self, other: Self) -> Self {
                if other > self { other } else { self }
            }
            #[inline(always)]
            fn divided_by(self, count: usize) -> Self {
                $divide(self, count)
            }
        }
    };
}

macro_rules! float {
    ($type:ty) => {
        number!($type, |a, b| a + b, |a, b| a * b, |a, count| a / count
            as $type);
    };
}

macro_rules! integer {
    ($type:ty) => {
        // A count that the type cannot hold is larger than any value of it: the quotient is zero.
        number!(
            $type,
            <$type>::wrapping_add,
            <$type>::wrapping_mul,
            |a: $type, count| {
                <$type>::try_from(count).map_or(0, |count| a.checked_div(count).unwrap_or(a))
            }
        );
    };
}

/// A type the CPU calculates in: the loops are plain.
macro_rules! native {
    ($type:ty) => {
        impl Element for $type {
            type Compute = $type;

            #[inline]
            fn fold(dst: &mut [Self], src: &[Self], f: impl Fn(Self, Self) -> Self) {
                for (d, s) in dst.iter_mut().zip(src) {
                    *d = f(*d, *s);
                }
            }

            #[inline]
            fn zip(dst: &mut [Self], a: &[Self], b: &[Self], f: impl Fn(Self, Self) -> Self) {
                for ((d, a), b) in dst.iter_mut().zip(a).zip(b) {
                    *d = f(*a, *b);
                }
            }

            #[inline]
            fn map(dst: &mut [Self], f: impl Fn(Self) -> Self) {
                for d in dst {
                    *d = f(*d);
                }
            }

            #[inline]
            fn from_integers(dst: &mut [Self], integers: &[u32]) {
                for (d, integer) in dst.iter_mut().zip(integers) {
                    // Through i32: vector units convert signed integers to floats, not unsigned ones.
                    *d = *integer as i32 as $type;
                }
            }
        }
    };
}

/// A type kept in 16 bits and calculated in `f32`: the loops widen and narrow a few cache lines at a time.
macro_rules! half_precision {
    ($type:ty, $widen:path, $narrow:path) => {
        impl Element for $type {
            type Compute = f32;

            #[inline]
            fn fold(dst: &mut [Self], src: &[Self], f: impl Fn(f32, f32) -> f32) {
                let (mut left, mut right) = ([0f32; LANES], [0f32; LANES]);
                for (dst, src) in dst.chunks_mut(LANES).zip(src.chunks(LANES)) {
                    let (left, right) = (&mut left[..dst.len()], &mut right[..src.len()]);
                    $widen(dst, left);
                    $widen(src, right);
                    f32::fold(left, right, &f);
                    $narrow(dst, left);
                }
            }

            #[inline]
            fn zip(dst: &mut [Self], a: &[Self], b: &[Self], f: impl Fn(f32, f32) -> f32) {
                let (mut left, mut right) = ([0f32; LANES], [0f32; LANES]);
                for ((dst, a), b) in dst
                    .chunks_mut(LANES)
                    .zip(a.chunks(LANES))
                    .zip(b.chunks(LANES))
                {
                    let (left, right) = (&mut left[..a.len()], &mut right[..b.len()]);
                    $widen(a, left);
                    $widen(b, right);
                    f32::fold(left, right, &f);
                    $narrow(dst, left);
                }
            }

            #[inline]
            fn map(dst: &mut [Self], f: impl Fn(f32) -> f32) {
                let mut wide = [0f32; LANES];
                for dst in dst.chunks_mut(LANES) {
                    let wide = &mut wide[..dst.len()];
                    $widen(dst, wide);
                    f32::map(wide, &f);
                    $narrow(dst, wide);
                }
            }

            #[inline]
            fn from_integers(dst: &mut [Self], integers: &[u32]) {
                let mut wide = [0f32; LANES];
                for (dst, integers) in dst.chunks_mut(LANES).zip(integers.chunks(LANES)) {
                    let wide = &mut wide[..dst.len()];
                    f32::from_integers(wide, integers);
                    $narrow(dst, wide);
                }
            }
        }
    };
}

float!(f32);
float!(f64);
integer!(i32);
integer!(i64);
integer!(u32);
integer!(u8);

native!(f32);
native!(f64);
native!(i32);
native!(i64);
native!(u32);
native!(u8);
half_precision!(f16, widen_f16, narrow_f16);
half_precision!(bf16, widen_bf16, narrow_bf16);

fn widen_f16(from: &[f16], to: &mut [f32]) {
    from.convert_to_f32_slice(to);
}

fn narrow_f16(to: &mut [f16], from: &[f32]) {
    to.convert_from_f32_slice(from);
}

fn widen_bf16(from: &[bf16], to: &mut [f32]) {
    for (to, from) in to.iter_mut().zip(from) {
        *to = f32::from_bits(u32::from(from.to_bits()) << 16);
    }
}

/// Rounds to nearest even in integer arithmetic, without a branch: the loop is vector code.
fn narrow_bf16(to: &mut [bf16], from: &[f32]) {
    for (to, from) in to.iter_mut().zip(from) {
        let bits = from.to_bits();
        let rounded = bits.wrapping_add(0x7fff + (bits >> 16 & 1));
        // Rounding could carry a NaN into infinity; it keeps its upper bits instead, and one that keeps it a NaN.
        let bits = if from.is_nan() {
            bits | 0x0040_0000
        } else {
            rounded
        };
        *to = bf16::from_bits((bits >> 16) as u16);
    }
}

/// Runs an expression with `$element` standing for the Rust type of a [`DType`](record::DType).
macro_rules! with_element {
    ($dtype:expr, $element:ident => $body:expr) => {
        match $dtype {
            record::DType::F32 => {
                type $element = f32;
                $body
            }
            record::DType::F64 => {
                type $element = f64;
                $body
            }
            record::DType::F16 => {
                type $element = half::f16;
                $body
            }
            record::DType::Bf16 => {
                type $element = half::bf16;
                $body
            }
            record::DType::I32 => {
                type $element = i32;
                $body
            }
            record::DType::I64 => {
                type $element = i64;
                $body
            }
            record::DType::U32 => {
                type $element = u32;
                $body
            }
            record::DType::U8 => {
                type $element = u8;
                $body
            }
        }
    };
}
pub(super) use with_element;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bf16_rounds_as_the_reference_does_at_ties_infinities_and_nans() {
        let uppers = (0..=u16::MAX)
            .step_by(7)
            .chain([0x7f7f, 0x7f80, 0x7f81, 0x7fff, 0xff7f, 0xff80, 0xffff]);
        for upper in uppers {
            for lower in [0, 1, 0x7fff, 0x8000, 0x8001, 0xffff] {
                let value = f32::from_bits(u32::from(upper) << 16 | lower);
                let mut narrow = [bf16::ZERO];
                narrow_bf16(&mut narrow, &[value]);
                assert_eq!(
                    narrow[0].to_bits(),
                    bf16::from_f32(value).to_bits(),
                    "{:#010x}",
                    value.to_bits()
                );
            }
        }
    }
}
