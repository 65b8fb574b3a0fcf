//! Waiting when nothing moves: spin for a while, then yield, then sleep until a socket is ready.
//!
//! On a host with a core for every rank, spinning gives the lowest latency. On a crowded host it takes the core from the very
//! peer that the rank waits for, so the wait turns to yielding almost at once.

use std::os::fd::BorrowedFd;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::launch::clock;
use crate::transport::Waitable;
use record::units::Nanos;

/// Polls before yielding, with a core per rank and on a crowded host.
const POLLS: u32 = 2_000;
const POLLS_CROWDED: u32 = 10;
/// Pauses between two polls of sockets: each poll takes the socket's lock, which the sending side needs to deliver.
const PAUSES_BETWEEN_POLLS: u32 = 16;
/// Yields before sleeping, and how long they may take together: where others want the core, one yield lasts as long as they may keep it.
const YIELDS: u32 = 200;
const LONGEST_YIELDING: Nanos = Nanos(200_000);
/// The longest sleep, and so the delay until an abort is noticed.
const SLEEP_MILLIS: u8 = 1;

/// Counts how long nothing moved, and waits accordingly.
pub(super) struct Waiter {
    polls: u32,
    yields: u32,
    pauses: u32,
    since: Option<Nanos>,
    yielding_since: Option<Nanos>,
    tries: u32,
    waited: Nanos,
}

impl Waiter {
    /// For a `crowded` host or not, polling `sockets` or memory only; `sleeps` when sleeping on a descriptor beats polling.
    pub fn new(crowded: bool, sockets: bool, sleeps: bool) -> Waiter {
        let polls = if crowded || sleeps { POLLS_CROWDED } else { POLLS };
        let pauses = if sockets { PAUSES_BETWEEN_POLLS } else { 1 };
        Waiter {
            polls,
            yields: if sleeps { 0 } else { YIELDS },
            pauses,
            since: None,
            yielding_since: None,
            tries: 0,
            waited: Nanos(0),
        }
    }

    /// Something moved: the wait, if there was one, is over.
    pub fn moved(&mut self) {
        if let Some(since) = self.since.take() {
            self.waited = self.waited + clock::now().since(since);
            self.yielding_since = None;
            self.tries = 0;
        }
    }

    /// Nothing moved: waits a little, and returns for how long nothing has moved.
    pub fn wait<'a>(&mut self, waitables: impl Iterator<Item = Option<Waitable<'a>>>) -> Nanos {
        let now = clock::now();
        let since = *self.since.get_or_insert(now);
        self.tries += 1;
        if self.tries < self.polls {
            (0..self.pauses).for_each(|_| std::hint::spin_loop());
        } else if self.may_yield(now) {
            std::thread::yield_now();
        } else {
            sleep(waitables);
        }
        now.since(since)
    }

    /// Whether it is not yet time to sleep.
    fn may_yield(&mut self, now: Nanos) -> bool {
        let yielding = now.since(*self.yielding_since.get_or_insert(now));
        self.tries < self.polls + self.yields && yielding < LONGEST_YIELDING
    }

    /// Total time spent waiting.
    pub fn waited(&self) -> Nanos {
        self.waited
    }
}

/// Sleeps until a socket is ready, or briefly where there is none to wait on.
fn sleep<'a>(waitables: impl Iterator<Item = Option<Waitable<'a>>>) {
    let waitables: Vec<Option<Waitable<'a>>> = waitables.collect();
    let interest = |waitable: &Waitable<'a>| -> (BorrowedFd<'a>, PollFlags) {
        let sending = if waitable.wants_to_send {
            PollFlags::POLLOUT
        } else {
            PollFlags::empty()
        };
        (waitable.fd, PollFlags::POLLIN | sending)
    };
    let mut sockets: Vec<PollFd<'a>> = waitables
        .iter()
        .flatten()
        .map(interest)
        .map(|(fd, flags)| PollFd::new(fd, flags))
        .collect();
    if sockets.len() < waitables.len() || sockets.is_empty() {
        std::thread::sleep(std::time::Duration::from_micros(20));
    } else {
        // A wake-up by a signal only means an early poll.
        let _ = poll(&mut sockets, PollTimeout::from(SLEEP_MILLIS));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn yielding_ends_after_its_number_or_its_time_and_begins_anew_with_every_wait() {
        let mut waiter = Waiter::new(true, true, false);
        waiter.tries = waiter.polls;
        assert!(waiter.may_yield(Nanos(1_000_000)));
        assert!(waiter.may_yield(Nanos(1_199_999)));
        assert!(!waiter.may_yield(Nanos(1_200_000)), "others had the core");
        waiter.since = Some(Nanos(0));
        waiter.moved();
        waiter.tries = waiter.polls + YIELDS - 1;
        assert!(waiter.may_yield(Nanos(9_000_000)));
        waiter.tries += 1;
        assert!(!waiter.may_yield(Nanos(9_000_001)), "often enough");
    }
}
