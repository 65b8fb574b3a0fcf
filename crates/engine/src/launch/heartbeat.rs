//! Heartbeats between the coordinator and the ranks of other processes.
//!
//! Both sides send an empty frame at a steady interval over the management network, whatever else they are doing: a rank that
//! computes, waits or connects for minutes is still heard. A side that is not heard for the agreed timeout counts as silent:
//! its host is frozen or gone, or the path to it is cut. A process that was itself stopped for a while does not take its own
//! sleep for the silence of others.

use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use super::connection::{ControlConnection, Incoming, send_heartbeat};

/// Heartbeats within one timeout: several may be late before a side counts as silent.
const PER_TIMEOUT: u32 = 8;
const LONGEST_INTERVAL: Duration = Duration::from_secs(1);
const SHORTEST_INTERVAL: Duration = Duration::from_millis(50);

/// The time between two heartbeats when a side counts as silent after `timeout`.
fn interval_for(timeout: Duration) -> Duration {
    (timeout / PER_TIMEOUT).clamp(SHORTEST_INTERVAL, LONGEST_INTERVAL)
}

/// A thread that sends heartbeats; it ends soon after this is dropped.
pub(super) struct Heartbeat {
    stop: Arc<AtomicBool>,
    /// The connections the coordinator watches.
    connections: Arc<Mutex<Vec<Arc<ControlConnection>>>>,
}

impl Drop for Heartbeat {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn lock(connections: &Mutex<Vec<Arc<ControlConnection>>>) -> MutexGuard<'_, Vec<Arc<ControlConnection>>> {
    connections
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Heartbeat {
    /// A rank's heartbeat: runs until the connection breaks.
    pub fn of_member(socket: Arc<Mutex<TcpStream>>, timeout: Duration) -> Heartbeat {
        Heartbeat::start(interval_for(timeout), move |_| send_heartbeat(&socket))
    }

    /// The coordinator's heartbeat: goes over every connection, and reports each silent rank once.
    pub fn of_coordinator(connections: Vec<Arc<ControlConnection>>, timeout: Duration) -> Heartbeat {
        let connections = Arc::new(Mutex::new(connections));
        let watched = Arc::clone(&connections);
        let mut heartbeat = Heartbeat::start(interval_for(timeout), move |overslept| {
            // A rank that rejoins meanwhile does not wait for heartbeats to others.
            let now = lock(&watched).clone();
            let dead: Vec<_> = now
                .into_iter()
                .filter(|connection| !is_alive(connection, overslept, timeout))
                .collect();
            lock(&watched).retain(|connection| !dead.iter().any(|dead| Arc::ptr_eq(dead, connection)));
            true
        });
        heartbeat.connections = connections;
        heartbeat
    }

    /// Watches one more connection: that of a rank that has rejoined.
    pub fn watch(&self, connection: Arc<ControlConnection>) {
        lock(&self.connections).push(connection);
    }

    /// Calls `act` at every interval until it returns false. Its argument says whether this process overslept.
    fn start(interval: Duration, mut act: impl FnMut(bool) -> bool + Send + 'static) -> Heartbeat {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::Builder::new()
            .name("heartbeat".to_string())
            .spawn(move || {
                let mut last = Instant::now();
                while !stopped.load(Ordering::Relaxed) {
                    let overslept = last.elapsed() > interval * (PER_TIMEOUT / 2);
                    last = Instant::now();
                    if !act(overslept) {
                        return;
                    }
                    std::thread::sleep(interval);
                }
            });
        if let Err(error) = thread {
            tracing::warn!(%error, "cannot start the heartbeat thread: silent ranks will be noticed late");
        }
        Heartbeat {
            stop,
            connections: Arc::default(),
        }
    }
}

/// Sends a heartbeat unless the rank was silent for `timeout`, which is reported; false when the connection is done with.
fn is_alive(connection: &ControlConnection, overslept: bool, timeout: Duration) -> bool {
    if overslept {
        connection.mark_heard();
    }
    let silence = connection.silence();
    if silence < timeout {
        return connection.send_heartbeat();
    }
    connection.mark_lost(Incoming::Silent(silence));
    false
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::sync::mpsc::{Sender, channel};

    use super::super::connection::{Delivery, InboxSender};
    use super::super::frame;
    use super::*;

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (near, listener.accept().unwrap().0)
    }

    /// A connection of `rank` that delivers to `to`, and its far end.
    fn connection(rank: u32, to: &Sender<Delivery>) -> (Arc<ControlConnection>, TcpStream) {
        let (near, far) = pair();
        let to = to.clone();
        (
            ControlConnection::open(
                near,
                InboxSender {
                    rank,
                    generation: 0,
                    to,
                },
            ),
            far,
        )
    }

    #[test]
    fn a_silent_rank_is_reported_once_and_one_that_is_heard_is_not() {
        let (deliveries, inbox) = channel();
        let ((one, _one_far), (two, _two_far)) = (connection(0, &deliveries), connection(1, &deliveries));
        let timeout = Duration::from_millis(800);
        let heartbeat = Heartbeat::of_coordinator(vec![Arc::clone(&one), two], timeout);
        let mut silent = Vec::new();
        let hear = |silent: &mut Vec<u32>, heard: &ControlConnection| {
            for _ in 0..50 {
                heard.mark_heard();
                if let Ok(delivery) = inbox.recv_timeout(Duration::from_millis(40)) {
                    assert!(matches!(delivery.what, Incoming::Silent(how_long) if how_long >= timeout));
                    silent.push(delivery.rank);
                }
            }
        };
        hear(&mut silent, &one);
        assert_eq!(silent, [1]);
        let (back, mut far) = connection(1, &deliveries);
        heartbeat.watch(back);
        hear(&mut silent, &one);
        assert_eq!(
            frame::read(&mut far).unwrap(),
            b"",
            "a rank that rejoined gets heartbeats"
        );
        assert_eq!(silent, [1, 1], "and is reported when it falls silent again");
    }

    #[test]
    fn heartbeats_are_empty_frames_and_stop_with_their_owner() {
        let (near, mut far) = pair();
        let heartbeat = Heartbeat::of_member(Arc::new(Mutex::new(near)), Duration::from_millis(400));
        assert_eq!(frame::read(&mut far).unwrap(), b"");
        assert_eq!(frame::read(&mut far).unwrap(), b"");
        drop(heartbeat);
        // The thread ends and with it the last handle of the socket.
        while frame::read(&mut far).is_ok() {}
    }

    #[test]
    fn the_interval_fits_the_timeout_within_bounds() {
        assert_eq!(interval_for(Duration::from_secs(60)), LONGEST_INTERVAL);
        assert_eq!(interval_for(Duration::from_secs(2)), Duration::from_millis(250));
        assert_eq!(interval_for(Duration::from_millis(10)), SHORTEST_INTERVAL);
    }
}
