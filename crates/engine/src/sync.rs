//! Locking shared by all modules.

use std::sync::{Mutex, MutexGuard};

/// Locks a mutex whose users leave the data consistent even when they panic.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
