//! The host memory of this process: how much it is, and giving back what is free.
//!
//! Judging a cycle and rendering its reports briefly takes some megabytes. The allocator keeps freed memory in fragments, so a process
//! that runs for days grows a little with every cycle unless the free memory is returned.

#![allow(unsafe_code)]

/// Gives free memory back to the system, where the allocator can.
pub fn give_back() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: it takes a number, may be called at any time from any thread, and touches nothing that is in use.
    unsafe {
        nix::libc::malloc_trim(0);
    }
}

/// Memory of this process in bytes, as the kernel says it.
pub fn resident() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
    let kilobytes: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kilobytes * 1024)
}

#[cfg(all(test, target_os = "linux", target_env = "gnu"))]
mod tests {
    use super::*;

    /// How much less memory is taken after it is given back, with 40 MB or so of whole pages free between pieces that stay.
    fn given_back() -> i64 {
        // Every other piece is freed: none lies at the end, where the allocator would give it back by itself.
        let pieces: Vec<Vec<u8>> = (0..20_000).map(|_| vec![1u8; 8192]).collect();
        let kept: Vec<Vec<u8>> = pieces
            .into_iter()
            .enumerate()
            .filter_map(|(at, piece)| (at % 2 == 0).then_some(piece))
            .collect();
        let before = resident().unwrap();
        give_back();
        let after = resident().unwrap();
        assert_eq!(
            kept.iter().map(|piece| usize::from(piece[0])).sum::<usize>(),
            10_000
        );
        before as i64 - after as i64
    }

    #[test]
    fn what_was_freed_between_things_that_stay_is_given_back() {
        // Other tests run beside, and may take as much at the same moment.
        let given_back: Vec<i64> = (0..10).map(|_| given_back()).collect();
        assert!(
            given_back.iter().any(|bytes| *bytes > 20_000_000),
            "{given_back:?}"
        );
    }
}
