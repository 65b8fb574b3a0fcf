//! Signs of life between the coordinator and the ranks of other processes.
//!
//! Both sides send an empty frame at a steady beat over the management network, whatever else they are doing: a rank that
//! computes, waits or connects for minutes is still heard. A side that is not heard for the agreed patience counts as
//! silent: its host is frozen or gone, or the way to it is cut. A process that was itself stopped for a while does not
//! take its own sleep for the silence of others.

use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::time::{Duration, Instant};

use super::frame;
use super::link::Incoming;
use super::wire::Wire;

/// Beats within one patience: several may be late before silence is concluded.
const BEATS: u32 = 8;
/// Beats are never further apart than this, and never closer than the other.
const SLOWEST_BEAT: Duration = Duration::from_secs(1);
const FASTEST_BEAT: Duration = Duration::from_millis(50);

/// The time between two beats when silence is concluded after `patience`.
fn beat_for(patience: Duration) -> Duration {
    (patience / BEATS).clamp(FASTEST_BEAT, SLOWEST_BEAT)
}

/// A beating thread; it ends soon after this is dropped.
pub(super) struct Pulse {
    stop: Arc<AtomicBool>,
    /// The links the coordinator keeps alive.
    wires: Arc<Mutex<Vec<Arc<Wire>>>>,
}

impl Drop for Pulse {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn lock(wires: &Mutex<Vec<Arc<Wire>>>) -> MutexGuard<'_, Vec<Arc<Wire>>> {
    wires.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Pulse {
    /// A rank's pulse: beats until the link breaks.
    pub fn of_member(socket: Arc<Mutex<TcpStream>>, patience: Duration) -> Pulse {
        let beat = beat_for(patience);
        Pulse::start(beat, move |_| send_beat(&socket))
    }

    /// The coordinator's pulse: beats over every link, and reports once each rank that is silent.
    pub fn of_coordinator(wires: Vec<Arc<Wire>>, patience: Duration) -> Pulse {
        let wires = Arc::new(Mutex::new(wires));
        let beating = Arc::clone(&wires);
        let mut pulse = Pulse::start(beat_for(patience), move |overslept| {
            // Somebody who comes back meanwhile does not wait for beats to others.
            let now = lock(&beating).clone();
            let dead: Vec<_> = now
                .into_iter()
                .filter(|wire| !is_alive(wire, overslept, patience))
                .collect();
            lock(&beating).retain(|wire| !dead.iter().any(|dead| Arc::ptr_eq(dead, wire)));
            true
        });
        pulse.wires = wires;
        pulse
    }

    /// Keeps one more link alive: that of a rank that has come back.
    pub fn watch(&self, wire: Arc<Wire>) {
        lock(&self.wires).push(wire);
    }

    /// Calls `act` at every beat until it answers false. It is told whether this process slept far longer than asked.
    fn start(beat: Duration, mut act: impl FnMut(bool) -> bool + Send + 'static) -> Pulse {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let beating = std::thread::Builder::new()
            .name("pulse".to_string())
            .spawn(move || {
                let mut last = Instant::now();
                while !stopped.load(Ordering::Relaxed) {
                    let overslept = last.elapsed() > beat * (BEATS / 2);
                    last = Instant::now();
                    if !act(overslept) {
                        return;
                    }
                    std::thread::sleep(beat);
                }
            });
        if let Err(error) = beating {
            tracing::warn!(%error, "no thread for signs of life; silence will be noticed late");
        }
        Pulse {
            stop,
            wires: Arc::default(),
        }
    }
}

/// Beats over a link unless nothing was heard from its other end for `patience`; whether it is worth beating again.
fn is_alive(wire: &Wire, overslept: bool, patience: Duration) -> bool {
    if overslept {
        wire.note();
    }
    let silence = wire.silence();
    if silence < patience {
        return wire.beat();
    }
    wire.lose(Incoming::Silent(silence));
    false
}

/// Sends one beat; whether the link still works. A socket in use is a sign of life by itself.
pub(super) fn send_beat(socket: &Mutex<TcpStream>) -> bool {
    match socket.try_lock() {
        Ok(mut socket) => frame::write(&mut *socket, &[]).is_ok(),
        Err(TryLockError::WouldBlock) => true,
        Err(TryLockError::Poisoned(_)) => false,
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::sync::mpsc::{Sender, channel};

    use super::super::wire::{Arrival, Inlet};
    use super::*;

    fn pair() -> (TcpStream, TcpStream) {
        let door = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(door.local_addr().unwrap()).unwrap();
        (near, door.accept().unwrap().0)
    }

    /// A link of `rank`, where what it says arrives, and its far end.
    fn wire(rank: u32, to: &Sender<Arrival>) -> (Arc<Wire>, TcpStream) {
        let (near, far) = pair();
        let to = to.clone();
        (Wire::open(near, Inlet { rank, turn: 0, to }), far)
    }

    #[test]
    fn a_silent_rank_is_reported_once_and_one_that_is_heard_is_not() {
        let (arrivals, inbox) = channel();
        let ((one, _one_far), (two, _two_far)) = (wire(0, &arrivals), wire(1, &arrivals));
        let patience = Duration::from_millis(800);
        let pulse = Pulse::of_coordinator(vec![Arc::clone(&one), two], patience);
        let mut silent = Vec::new();
        let hear = |silent: &mut Vec<u32>, heard: &Wire| {
            for _ in 0..50 {
                heard.note();
                if let Ok(arrival) = inbox.recv_timeout(Duration::from_millis(40)) {
                    assert!(matches!(arrival.what, Incoming::Silent(how_long) if how_long >= patience));
                    silent.push(arrival.rank);
                }
            }
        };
        hear(&mut silent, &one);
        assert_eq!(silent, [1]);
        let (back, mut far) = wire(1, &arrivals);
        pulse.watch(back);
        hear(&mut silent, &one);
        assert_eq!(
            frame::read(&mut far).unwrap(),
            b"",
            "a rank that is back is beaten to"
        );
        assert_eq!(silent, [1, 1], "and missed when it falls silent again");
    }

    #[test]
    fn beats_are_empty_frames_and_stop_with_their_owner() {
        let (near, mut far) = pair();
        let pulse = Pulse::of_member(Arc::new(Mutex::new(near)), Duration::from_millis(400));
        assert_eq!(frame::read(&mut far).unwrap(), b"");
        assert_eq!(frame::read(&mut far).unwrap(), b"");
        drop(pulse);
        // The thread ends and with it the last handle of the socket.
        while frame::read(&mut far).is_ok() {}
    }

    #[test]
    fn the_beat_fits_the_patience_within_bounds() {
        assert_eq!(beat_for(Duration::from_secs(60)), SLOWEST_BEAT);
        assert_eq!(beat_for(Duration::from_secs(2)), Duration::from_millis(250));
        assert_eq!(beat_for(Duration::from_millis(10)), FASTEST_BEAT);
    }
}
