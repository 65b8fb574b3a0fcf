//! Settings that NCCL takes from the environment of the process only.
//!
//! The algorithm is one of them: `NCCL_ALGO` is read while a communicator is made. Communicators of one process that want
//! different algorithms are therefore made one after another; those that want the same may be made at the same time, as they
//! must be when they are ranks of the same one.

use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use super::library::NcclError;

const ALGORITHM: &str = "NCCL_ALGO";
const HOST_ID: &str = "NCCL_HOSTID";

/// Which algorithm is set, and for how many communicators in creation.
struct AlgorithmUse {
    algorithm: Option<&'static str>,
    holders: usize,
}

static ALGORITHM_USE: Mutex<AlgorithmUse> = Mutex::new(AlgorithmUse {
    algorithm: None,
    holders: 0,
});
static RELEASED: Condvar = Condvar::new();

/// Keeps `NCCL_ALGO` unchanged while it lives.
#[must_use]
pub(super) struct AlgorithmHold(());

impl AlgorithmHold {
    /// Waits until `NCCL_ALGO` can be `algorithm` (none leaves the choice to NCCL), at most `limit`.
    pub fn of(algorithm: Option<&'static str>, limit: Duration) -> Result<AlgorithmHold, NcclError> {
        let until = Instant::now() + limit;
        let mut held = lock_use();
        while held.holders > 0 && held.algorithm != algorithm {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(NcclError::Busy {
                    held: held.algorithm.unwrap_or("(NCCL's choice)").to_string(),
                });
            }
            held = match RELEASED.wait_timeout(held, left) {
                Ok((held, _)) => held,
                Err(poisoned) => poisoned.into_inner().0,
            };
        }
        if held.holders == 0 {
            put(ALGORITHM, algorithm);
            held.algorithm = algorithm;
        }
        held.holders += 1;
        Ok(AlgorithmHold(()))
    }
}

impl Drop for AlgorithmHold {
    fn drop(&mut self) {
        lock_use().holders -= 1;
        RELEASED.notify_all();
    }
}

fn lock_use() -> MutexGuard<'static, AlgorithmUse> {
    crate::sync::lock(&ALGORITHM_USE)
}

/// The host id that NCCL uses for this process, if one is set.
pub fn host_id() -> Option<String> {
    std::env::var(HOST_ID).ok()
}

/// Makes NCCL treat this process as one on its own host, unless the operator has set the host id. Whether it was set.
pub fn set_host_id(id: &str) -> bool {
    let _ordered = lock_use();
    if host_id().is_some() {
        return false;
    }
    put(HOST_ID, Some(id));
    true
}

/// Sets or removes a variable of the process. The caller holds the lock, so only one thread does.
fn put(name: &str, value: Option<&str>) {
    match value {
        // SAFETY: Rust code reads the environment under a lock that this takes too. C code that reads it at this very moment
        // (NCCL's own threads do) finds the old value or the new one: the C library never frees a value, and its table of
        // variables grows with the first `set_host_id` or hold only, before NCCL has threads.
        Some(value) => unsafe { std::env::set_var(name, value) },
        // SAFETY: as above.
        None => unsafe { std::env::remove_var(name) },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_of_one_communicator_meet_and_another_algorithm_waits_its_turn() {
        let soon = Duration::from_millis(20);
        let first = AlgorithmHold::of(Some("Ring"), soon).unwrap();
        let second = AlgorithmHold::of(Some("Ring"), soon).unwrap();
        assert_eq!(std::env::var(ALGORITHM).as_deref(), Ok("Ring"));
        assert!(
            matches!(AlgorithmHold::of(Some("Tree"), soon), Err(NcclError::Busy { held }) if held == "Ring")
        );
        drop(first);
        let waiting =
            std::thread::spawn(|| AlgorithmHold::of(Some("Tree"), Duration::from_secs(20)).map(drop));
        std::thread::sleep(soon);
        assert!(!waiting.is_finished(), "one rank is still at it");
        drop(second);
        waiting.join().unwrap().unwrap();
        drop(AlgorithmHold::of(None, soon).unwrap());
        assert!(std::env::var(ALGORITHM).is_err());
    }
}
