//! Tests that count how often a verdict is right, over many seeds.

/// How many of `all` seeds to take: all of them with `RAILGAUGE_TALLIES=all`, as `ci/qualify` sets it, else a quarter.
pub fn seeds(all: u64) -> u64 {
    match std::env::var_os("RAILGAUGE_TALLIES") {
        Some(which) if which == "all" => all,
        _ => all.div_ceil(4),
    }
}

/// How many of the taken seeds may go wrong where `wrong` of `all` may: the same share, rounded down.
pub fn allowed(wrong: u64, all: u64) -> usize {
    (wrong * seeds(all) / all) as usize
}
