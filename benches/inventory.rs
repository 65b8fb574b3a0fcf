//! How long it takes to find out what one node is made of: this machine, and a recorded node with eight NICs.
//!
//! `cargo bench --bench inventory`. The aim is 0.5 s for one node; the last line says whether it is met.

use std::path::Path;
use std::time::{Duration, Instant};

use probe::inventory::of_tree;

const SECONDS: f64 = 0.5;
const TIMES: usize = 21;

/// The median and the longest of some readings of one tree.
fn readings(root: &Path) -> (Duration, Duration) {
    let once = |_| {
        let start = Instant::now();
        let node = of_tree(root, "node");
        assert!(!node.parts.is_empty());
        start.elapsed()
    };
    let mut took: Vec<Duration> = (0..TIMES).map(once).collect();
    took.sort_unstable();
    (took[TIMES / 2], took[TIMES - 1])
}

fn main() {
    let recorded = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/inventory/cx7-8x-ib");
    let mut longest = Duration::ZERO;
    for (what, root) in [
        ("this machine", Path::new("/")),
        ("eight NICs, recorded", &recorded),
    ] {
        let parts = of_tree(root, "node").parts.len();
        let (median, most) = readings(root);
        println!(
            "{what:<22} {parts:>3} parts   median {:.4} s   longest of {TIMES} {:.4} s",
            median.as_secs_f64(),
            most.as_secs_f64()
        );
        longest = longest.max(most);
    }
    let verdict = if longest.as_secs_f64() < SECONDS {
        "OK"
    } else {
        "TOO SLOW"
    };
    println!("{verdict}: {:.3} s of {SECONDS} s", longest.as_secs_f64());
}
