//! When a run has to stop: the operator asks for it, or its time is over.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// Looked at in every wait.
#[derive(Debug, Clone)]
pub struct Cancellation {
    asked: Arc<AtomicBool>,
    last_moment: Option<Instant>,
}

impl Cancellation {
    /// The same, and to be obeyed from `last_moment` on, whatever is under way then.
    #[must_use]
    pub fn at(self, last_moment: Option<Instant>) -> Cancellation {
        Cancellation { last_moment, ..self }
    }

    /// Whether to stop.
    pub fn is_up(&self) -> bool {
        self.is_asked_for() || self.last_moment.is_some_and(|last| Instant::now() >= last)
    }

    /// Whether the operator asks for it.
    pub fn is_asked_for(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }
}

impl From<Arc<AtomicBool>> for Cancellation {
    fn from(asked: Arc<AtomicBool>) -> Cancellation {
        Cancellation {
            asked,
            last_moment: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_run_whose_time_is_over_stops_without_having_been_asked_to() {
        let asked = Arc::new(AtomicBool::new(false));
        let endless = Cancellation::from(Arc::clone(&asked));
        assert!(!endless.is_up());
        let over = endless.clone().at(Some(Instant::now()));
        assert!(over.is_up() && !over.is_asked_for());
        let not_yet = endless.at(Some(Instant::now() + Duration::from_secs(3600)));
        assert!(!not_yet.is_up());
        asked.store(true, Ordering::Relaxed);
        assert!(not_yet.is_up() && not_yet.is_asked_for());
    }
}
