//! The host reduction beside the memory's own speed: a triad-style loop with the same traffic, in the same run.

use std::time::Instant;

use engine::device::host;
use record::{DType, ReduceOp};

/// Far beyond every cache.
const ELEMENTS: usize = 64 << 20;
const ROUNDS: usize = 7;

/// Prints both rates and their ratio.
pub fn compare() {
    let (mut a, b, c) = (vec![1f32; ELEMENTS], vec![2f32; ELEMENTS], vec![3f32; ELEMENTS]);
    println!(
        "host reduction f32 sum, {} MiB per operand, one core: GB/s over two reads and one write",
        ELEMENTS >> 18
    );
    let traffic = 3.0 * 4.0 * ELEMENTS as f64 / 1e9;
    let (mut triads, mut updates, mut reduces, mut reduces_into) = (vec![], vec![], vec![], vec![]);
    for _ in 0..ROUNDS {
        triads.push(traffic / timed(|| triad(&mut a, &b, &c)));
        updates.push(traffic / timed(|| update(&mut a, &b)));
        let bytes = bytemuck::cast_slice_mut(&mut a);
        let (b, c) = (bytemuck::cast_slice(&b), bytemuck::cast_slice(&c));
        reduces.push(traffic / timed(|| host::reduce(DType::F32, ReduceOp::Sum, bytes, b)));
        reduces_into.push(traffic / timed(|| host::reduce_into(DType::F32, ReduceOp::Sum, bytes, b, c)));
    }
    let best = |rates: Vec<f64>| rates.into_iter().fold(0.0, f64::max);
    let (triad, update) = (best(triads), best(updates));
    for (what, rate, limit, of) in [
        ("dst = a + b", best(reduces_into), triad, "a[i] = b[i] + s * c[i]"),
        ("dst += src", best(reduces), update, "a[i] += s * b[i]"),
    ] {
        println!(
            "  {what:<12} {rate:>6.2} of {limit:>6.2} ({of}): {:.2}",
            rate / limit
        );
    }
    println!();
}

fn timed(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_secs_f64()
}

#[inline(never)]
fn triad(a: &mut [f32], b: &[f32], c: &[f32]) {
    for ((a, b), c) in a.iter_mut().zip(b).zip(c) {
        *a = b + 0.5 * c;
    }
}

#[inline(never)]
fn update(a: &mut [f32], b: &[f32]) {
    for (a, b) in a.iter_mut().zip(b) {
        *a += 0.5 * b;
    }
}
