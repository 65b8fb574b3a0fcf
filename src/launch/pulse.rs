//! Signs of life between the coordinator and the ranks of other processes.
//!
//! Both sides send an empty frame at a steady beat over the management network, whatever else they are doing: a rank that
//! computes, waits or connects for minutes is still heard. A side that is not heard for the agreed patience counts as
//! silent: its host is frozen or gone, or the way to it is cut. A process that was itself stopped for a while does not
//! take its own sleep for the silence of others.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, TryLockError};
use std::time::{Duration, Instant};

use std::net::TcpStream;

use super::frame;
use super::link::Incoming;

/// Beats within one patience: several may be late before silence is concluded.
const BEATS: u32 = 8;
/// Beats are never further apart than this, and never closer than the other.
const SLOWEST_BEAT: Duration = Duration::from_secs(1);
const FASTEST_BEAT: Duration = Duration::from_millis(50);

/// The time between two beats when silence is concluded after `patience`.
fn beat_for(patience: Duration) -> Duration {
    (patience / BEATS).clamp(FASTEST_BEAT, SLOWEST_BEAT)
}

/// When something was last heard from each rank.
pub(super) struct Heard {
    since: Instant,
    /// Milliseconds after `since`, by rank.
    at: Vec<AtomicU64>,
}

impl Heard {
    /// All `world` ranks were heard just now.
    pub fn all_now(world: usize) -> Arc<Heard> {
        Arc::new(Heard {
            since: Instant::now(),
            at: (0..world).map(|_| AtomicU64::new(0)).collect(),
        })
    }

    /// Something came from `rank`.
    pub fn note(&self, rank: u32) {
        if let Some(at) = self.at.get(rank as usize) {
            at.store(self.since.elapsed().as_millis() as u64, Ordering::Relaxed);
        }
    }

    fn silence(&self, rank: u32) -> Duration {
        let at = self
            .at
            .get(rank as usize)
            .map_or(0, |at| at.load(Ordering::Relaxed));
        self.since.elapsed().saturating_sub(Duration::from_millis(at))
    }
}

/// A beating thread; it ends soon after this is dropped.
pub(super) struct Pulse(Arc<AtomicBool>);

impl Drop for Pulse {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Pulse {
    /// A rank's pulse: beats until the link breaks.
    pub fn of_member(socket: Arc<Mutex<TcpStream>>, patience: Duration) -> Pulse {
        let beat = beat_for(patience);
        Pulse::start(beat, move |_| send_beat(&socket))
    }

    /// The coordinator's pulse: beats to every rank that has a socket, and reports once each rank that is silent.
    pub fn of_coordinator(
        sockets: Vec<(u32, Arc<Mutex<TcpStream>>)>,
        heard: Arc<Heard>,
        arrivals: Sender<(u32, Incoming)>,
        patience: Duration,
    ) -> Pulse {
        let beat = beat_for(patience);
        let mut sockets = sockets;
        Pulse::start(beat, move |overslept| {
            sockets.retain(|(rank, socket)| {
                if overslept {
                    heard.note(*rank);
                }
                let silence = heard.silence(*rank);
                if silence < patience {
                    return send_beat(socket);
                }
                // The session may have ended, which is fine.
                let _ = arrivals.send((*rank, Incoming::Silent(silence)));
                false
            });
            !sockets.is_empty()
        })
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
        Pulse(stop)
    }
}

/// Sends one beat; whether the link still works. A socket in use is a sign of life by itself.
fn send_beat(socket: &Mutex<TcpStream>) -> bool {
    match socket.try_lock() {
        Ok(mut socket) => frame::write(&mut *socket, &[]).is_ok(),
        Err(TryLockError::WouldBlock) => true,
        Err(TryLockError::Poisoned(_)) => false,
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::sync::mpsc::channel;

    use super::*;

    fn pair() -> (TcpStream, TcpStream) {
        let door = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(door.local_addr().unwrap()).unwrap();
        (near, door.accept().unwrap().0)
    }

    #[test]
    fn a_silent_rank_is_reported_once_and_one_that_is_heard_is_not() {
        let ((one, _one_far), (two, _two_far)) = (pair(), pair());
        let heard = Heard::all_now(2);
        let (arrivals, inbox) = channel();
        let sockets = vec![(0, Arc::new(Mutex::new(one))), (1, Arc::new(Mutex::new(two)))];
        let patience = Duration::from_millis(800);
        let _pulse = Pulse::of_coordinator(sockets, Arc::clone(&heard), arrivals, patience);
        let mut silent = Vec::new();
        for _ in 0..50 {
            heard.note(0);
            if let Ok((rank, incoming)) = inbox.recv_timeout(Duration::from_millis(40)) {
                assert!(matches!(incoming, Incoming::Silent(how_long) if how_long >= patience));
                silent.push(rank);
            }
        }
        assert_eq!(silent, [1]);
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
