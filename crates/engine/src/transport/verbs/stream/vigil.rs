//! Waiting that ends: how long nothing has moved, and when to look, yield or sleep.

use std::time::{Duration, Instant};

/// Looks without news before others get the core.
const LOOKS_BEFORE_YIELDING: u32 = 256;
/// Looks between two looks at the clock.
const LOOKS_BETWEEN_CLOCKS: u32 = 1024;
/// How often the other end hears that messages still move.
const BETWEEN_WORDS: Duration = Duration::from_secs(1);

/// Since when nothing has moved.
pub struct Vigil {
    since: Instant,
    moved: bool,
    looks: u32,
    said: Instant,
}

impl Vigil {
    /// Begins now.
    pub fn new() -> Vigil {
        let now = Instant::now();
        Vigil {
            since: now,
            moved: false,
            looks: 0,
            said: now,
        }
    }

    /// Something moved.
    pub fn moved(&mut self) {
        self.moved = true;
        self.looks = 0;
    }

    /// Nothing moved at this look; whether it is time to look at the clock.
    pub fn look(&mut self) -> bool {
        self.looks = self.looks.wrapping_add(1);
        match self.looks % LOOKS_BEFORE_YIELDING {
            0 => std::thread::yield_now(),
            _ => std::hint::spin_loop(),
        }
        self.looks.is_multiple_of(LOOKS_BETWEEN_CLOCKS)
    }

    /// How long nothing has moved.
    pub fn silent(&mut self, now: Instant) -> Duration {
        if std::mem::take(&mut self.moved) {
            self.since = now;
        }
        now.duration_since(self.since)
    }

    /// Whether it is time to say that messages still move.
    pub fn speaks(&mut self, now: Instant) -> bool {
        let speaks = now.duration_since(self.said) >= BETWEEN_WORDS;
        if speaks {
            self.said = now;
        }
        speaks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_is_counted_from_the_last_thing_that_moved() {
        let mut vigil = Vigil::new();
        let start = vigil.since;
        let at = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(vigil.silent(at(9)), Duration::from_secs(9));
        vigil.moved();
        assert_eq!(vigil.silent(at(9)), Duration::ZERO);
        assert_eq!(vigil.silent(at(18)), Duration::from_secs(9));
        assert!(vigil.speaks(at(1)) && !vigil.speaks(at(1)) && vigil.speaks(at(2)));
    }
}
