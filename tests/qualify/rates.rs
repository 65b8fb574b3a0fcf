//! Rates that real traffic gets over shaped cables, compared with each other.

use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::harness::{TestLab, labs_can_be_made};

const SMALL: [&str; 5] = ["2x2", "--leaves", "1", "--spines", "1"];

/// Loads connections at the same time until what arrives on them is as it should be; what arrived each time when it never is. A
/// machine with too few cores at that moment keeps a healthy cable from its rate, which says nothing of cables.
fn load_until(
    lab: &TestLab,
    pairs: &[(&str, &str, &str)],
    is_right: impl Fn(&[f64]) -> bool,
) -> Result<(), Vec<Vec<f64>>> {
    let mut seen = Vec::new();
    for _ in 0..8 {
        let rates = load(lab, pairs);
        if is_right(&rates) {
            return Ok(());
        }
        seen.push(rates);
    }
    Err(seen)
}

/// Bytes that arrive on each of several connections that are loaded at the same time.
fn load(lab: &TestLab, pairs: &[(&str, &str, &str)]) -> Vec<f64> {
    let streams: Vec<_> = pairs
        .iter()
        .map(|(from, to, rail)| lab.connect(from, to, rail).unwrap())
        .collect();
    let over = AtomicBool::new(false);
    let arrived: Vec<AtomicU64> = pairs.iter().map(|_| AtomicU64::new(0)).collect();
    std::thread::scope(|scope| {
        for ((mut from, mut to), arrived) in streams.into_iter().zip(&arrived) {
            let over = &over;
            from.set_write_timeout(Some(Duration::from_millis(100))).unwrap();
            to.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
            scope.spawn(move || {
                let block = vec![7; 64 << 10];
                while !over.load(Ordering::Relaxed) {
                    let _ = from.write(&block);
                }
            });
            scope.spawn(move || {
                let mut block = vec![0; 64 << 10];
                while !over.load(Ordering::Relaxed) {
                    arrived.fetch_add(to.read(&mut block).unwrap_or(0) as u64, Ordering::Relaxed);
                }
            });
        }
        let look = || -> Vec<u64> {
            arrived
                .iter()
                .map(|bytes| bytes.load(Ordering::Relaxed))
                .collect()
        };
        // Buckets and windows fill first.
        std::thread::sleep(Duration::from_millis(250));
        let before = look();
        std::thread::sleep(Duration::from_millis(700));
        let after = look();
        over.store(true, Ordering::Relaxed);
        before
            .iter()
            .zip(&after)
            .map(|(before, after)| (after - before) as f64)
            .collect()
    })
}

#[test]
fn a_port_at_60_percent_is_slow_in_its_direction_only_and_its_neighbours_are_not() {
    if !labs_can_be_made() {
        return;
    }
    let lab = TestLab::up(&SMALL);
    let both = [("h0", "h1", "rail0"), ("h0", "h1", "rail1")];
    let back = [("h1", "h0", "rail0"), ("h1", "h0", "rail1")];
    lab.does("fault", &["slow:h0/rail0=60%"]);
    let is_slow = |rates: &[f64]| rates[0] < 0.8 * rates[1] && rates[0] > 0.4 * rates[1];
    let is_healthy = |rates: &[f64]| rates[0] > 0.8 * rates[1];
    assert_eq!(load_until(&lab, &both, is_slow), Ok(()));
    assert_eq!(
        load_until(&lab, &back, is_healthy),
        Ok(()),
        "the other direction is healthy"
    );
    lab.does("heal", &["slow:h0/rail0"]);
    assert_eq!(load_until(&lab, &both, is_healthy), Ok(()), "healed");
    lab.does("fault", &["slow-cable:h0-rail0-leaf0=50%"]);
    assert_eq!(
        load_until(&lab, &back, is_slow),
        Ok(()),
        "a cable is slow both ways"
    );
}

#[test]
fn a_slow_port_anywhere_on_the_way_slows_its_direction_and_not_the_way_back() {
    if !labs_can_be_made() {
        return;
    }
    let lab = TestLab::up(&["2x1", "--leaves", "2", "--spines", "1"]);
    // Away from h0 and towards h1: all four ports that send what h0 sends to h1.
    for port in ["h0/rail0", "rail0-leaf0/u0", "rail0-spine0/d1", "rail0-leaf1/p0"] {
        let fault = format!("slow:{port}=60%");
        lab.does("fault", &[&fault]);
        let ways = [("h0", "h1", "rail0"), ("h1", "h0", "rail0")];
        let one_way = |rates: &[f64]| rates[0] < 0.8 * rates[1] && rates[0] > 0.4 * rates[1];
        assert_eq!(load_until(&lab, &ways, one_way), Ok(()), "{port}");
        lab.does("heal", &["--all"]);
    }
}
