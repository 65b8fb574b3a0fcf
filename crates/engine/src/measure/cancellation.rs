//! Cancellation of a run: the operator asks for it, or its time is over.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// Polled in every wait.
#[derive(Debug, Clone)]
pub struct Cancellation {
    requested: Arc<AtomicBool>,
    deadline: Option<Instant>,
}

impl Cancellation {
    /// The same, and cancelled from `deadline` on.
    #[must_use]
    pub fn at(self, deadline: Option<Instant>) -> Cancellation {
        Cancellation { deadline, ..self }
    }

    /// Whether the run has to stop.
    pub fn is_cancelled(&self) -> bool {
        self.is_requested() || self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    /// Whether the operator asked for it.
    pub fn is_requested(&self) -> bool {
        self.requested.load(Ordering::Relaxed)
    }
}

impl From<Arc<AtomicBool>> for Cancellation {
    fn from(requested: Arc<AtomicBool>) -> Cancellation {
        Cancellation {
            requested,
            deadline: None,
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
        assert!(!endless.is_cancelled());
        let over = endless.clone().at(Some(Instant::now()));
        assert!(over.is_cancelled() && !over.is_requested());
        let not_yet = endless.at(Some(Instant::now() + Duration::from_secs(3600)));
        assert!(!not_yet.is_cancelled());
        asked.store(true, Ordering::Relaxed);
        assert!(not_yet.is_cancelled() && not_yet.is_requested());
    }
}
