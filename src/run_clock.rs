//! The time budget of a run, and timestamps.

use std::time::{Duration, Instant};

use record::units::Nanos;
use topology::suite::RunSettings;

/// Measures a run's budget from the start of the command, so that the rendezvous and queries to switches count, too.
#[derive(Debug, Clone, Copy)]
pub struct RunClock {
    started: Instant,
    budget: Option<Duration>,
    /// Extra time for the cell that is running when the budget ends.
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

    /// Time spent so far.
    pub fn spent(&self) -> Nanos {
        self.started.elapsed().into()
    }

    /// When no further cell may start.
    pub fn budget_end(&self) -> Option<Instant> {
        self.started.checked_add(self.budget?)
    }

    /// When every wait ends: one deadline after the budget.
    pub fn last_moment(&self) -> Option<Instant> {
        self.budget_end()?.checked_add(self.deadline)
    }

    /// Time left for preparations before the first cell.
    pub fn left(&self) -> Duration {
        let left = |end: Instant| end.saturating_duration_since(Instant::now());
        self.budget_end().map_or(Duration::MAX, left)
    }
}

/// Now, as RFC 3339 in UTC with whole seconds.
pub fn now() -> String {
    rfc3339(jiff::Timestamp::now())
}

/// A time as RFC 3339 in UTC with whole seconds.
pub fn rfc3339(time: jiff::Timestamp) -> String {
    time.round(jiff::Unit::Second).unwrap_or(time).to_string()
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
