//! How much of a run's budget is gone, and when it has to be over whatever is under way.

use std::time::{Duration, Instant};

use record::units::Nanos;
use topology::suite::RunSettings;

/// Counts from the moment a command begins to do anything, so that ranks meeting and switches answering count, too.
#[derive(Debug, Clone, Copy)]
pub struct RunClock {
    started: Instant,
    budget: Option<Duration>,
    /// What a cell that is under way when the budget is spent gets beyond it.
    deadline: Duration,
}

impl RunClock {
    /// Starts now.
    pub fn start(settings: &RunSettings) -> RunClock {
        RunClock {
            started: Instant::now(),
            budget: settings.budget.map(Duration::from),
            deadline: settings.deadline().into(),
        }
    }

    /// What is gone.
    pub fn spent(&self) -> Nanos {
        self.started.elapsed().into()
    }

    /// When no other cell begins.
    pub fn budget_end(&self) -> Option<Instant> {
        self.started.checked_add(self.budget?)
    }

    /// When nothing is waited for any longer: one deadline after the budget is spent.
    pub fn last_moment(&self) -> Option<Instant> {
        self.budget_end()?.checked_add(self.deadline)
    }

    /// How long may still be waited for something before the first cell.
    pub fn left(&self) -> Duration {
        let left = |end: Instant| end.saturating_duration_since(Instant::now());
        self.budget_end().map_or(Duration::MAX, left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_over_one_deadline_after_its_budget_and_never_without_one() {
        let endless = RunClock::start(&RunSettings::default());
        assert_eq!((endless.budget_end(), endless.last_moment()), (None, None));
        assert_eq!(endless.left(), Duration::MAX);
        let clock = RunClock::start(&RunSettings {
            budget: Some(Nanos::from_secs(600)),
            deadline: Some(Nanos::from_secs(7)),
            ..RunSettings::default()
        });
        let (end, last) = (clock.budget_end().unwrap(), clock.last_moment().unwrap());
        assert_eq!(last - end, Duration::from_secs(7));
        assert!(clock.left() <= Duration::from_secs(600));
        let over = RunClock::start(&RunSettings {
            budget: Some(Nanos(1)),
            ..RunSettings::default()
        });
        std::thread::sleep(Duration::from_millis(1));
        assert_eq!(over.left(), Duration::ZERO);
    }
}
