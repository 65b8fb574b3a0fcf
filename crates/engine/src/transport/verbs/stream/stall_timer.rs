//! Waiting that ends: how long nothing has moved, and when to look, yield or sleep.

use std::time::{Duration, Instant};

/// Looks without news before others get the core.
const POLLS_BEFORE_YIELDING: u32 = 256;
/// Looks between two looks at the clock.
const POLLS_BETWEEN_CLOCK_READS: u32 = 1024;
/// How often the other end hears that messages still move.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(1);

/// Since when nothing has moved.
pub struct StallTimer {
    since: Instant,
    moved: bool,
    polls: u32,
    said: Instant,
}

impl StallTimer {
    /// Begins now.
    pub fn new() -> StallTimer {
        let now = Instant::now();
        StallTimer {
            since: now,
            moved: false,
            polls: 0,
            said: now,
        }
    }

    /// Something moved.
    pub fn moved(&mut self) {
        self.moved = true;
        self.polls = 0;
    }

    /// Nothing moved at this look; whether it is time to look at the clock.
    pub fn idle_poll(&mut self) -> bool {
        self.polls = self.polls.wrapping_add(1);
        match self.polls % POLLS_BEFORE_YIELDING {
            0 => std::thread::yield_now(),
            _ => std::hint::spin_loop(),
        }
        self.polls.is_multiple_of(POLLS_BETWEEN_CLOCK_READS)
    }

    /// How long nothing has moved.
    pub fn silent(&mut self, now: Instant) -> Duration {
        if std::mem::take(&mut self.moved) {
            self.since = now;
        }
        now.duration_since(self.since)
    }

    /// Whether it is time to say that messages still move.
    pub fn heartbeat_due(&mut self, now: Instant) -> bool {
        let heartbeat_due = now.duration_since(self.said) >= HEARTBEAT_INTERVAL;
        if heartbeat_due {
            self.said = now;
        }
        heartbeat_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_is_counted_from_the_last_thing_that_moved() {
        let mut stall_timer = StallTimer::new();
        let start = stall_timer.since;
        let at = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(stall_timer.silent(at(9)), Duration::from_secs(9));
        stall_timer.moved();
        assert_eq!(stall_timer.silent(at(9)), Duration::ZERO);
        assert_eq!(stall_timer.silent(at(18)), Duration::from_secs(9));
        assert!(
            stall_timer.heartbeat_due(at(1))
                && !stall_timer.heartbeat_due(at(1))
                && stall_timer.heartbeat_due(at(2))
        );
    }
}
