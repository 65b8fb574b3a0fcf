//! How long nothing has moved, and when to spin, yield or check the clock.

use std::time::{Duration, Instant};

/// Empty polls before yielding the core.
const POLLS_BEFORE_YIELDING: u32 = 256;
/// Empty polls between two reads of the clock.
const POLLS_BETWEEN_CLOCK_READS: u32 = 1024;
/// How often the peer is told that messages still move.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(1);

/// Since when nothing has moved.
pub struct StallTimer {
    since: Instant,
    moved: bool,
    polls: u32,
    last_heartbeat: Instant,
}

impl StallTimer {
    /// Begins now.
    pub fn new() -> StallTimer {
        let now = Instant::now();
        StallTimer {
            since: now,
            moved: false,
            polls: 0,
            last_heartbeat: now,
        }
    }

    /// Something moved.
    pub fn moved(&mut self) {
        self.moved = true;
        self.polls = 0;
    }

    /// An empty poll; whether it is time to read the clock.
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

    /// Whether it is time for a heartbeat.
    pub fn heartbeat_due(&mut self, now: Instant) -> bool {
        let heartbeat_due = now.duration_since(self.last_heartbeat) >= HEARTBEAT_INTERVAL;
        if heartbeat_due {
            self.last_heartbeat = now;
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
