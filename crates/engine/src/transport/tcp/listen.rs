//! A rank's listeners: one listening socket per rail, bound to that rail's address only.
//!
//! Each handshake runs on its own thread with a deadline, at most `MAX_UNIDENTIFIED` at a time, so neither garbage nor silence nor a
//! flood delays a peer. Accepted connections wait until their cell takes them.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use socket2::SockRef;

use super::handshake::{self, Connection};
use super::local_rail::LocalRail;
use crate::launch::Token;

const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);
const MAX_UNIDENTIFIED: usize = 128;

/// Accepted connections that wait to be taken.
#[derive(Default)]
pub struct AcceptedConnections {
    arrived: Mutex<HashMap<Connection, TcpStream>>,
    changed: Condvar,
    closing: AtomicBool,
    unidentified: AtomicUsize,
    rejected_callers: Mutex<Vec<String>>,
}

impl AcceptedConnections {
    fn arrived(&self) -> MutexGuard<'_, HashMap<Connection, TcpStream>> {
        self.arrived
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// The connection a peer has dialled, if it has arrived.
    pub fn take_now(&self, wanted: &Connection) -> Option<TcpStream> {
        self.arrived().remove(wanted)
    }

    fn rejected_callers(&self) -> MutexGuard<'_, Vec<String>> {
        self.rejected_callers
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// The listening sockets of one rank and what came in through them.
pub struct Listeners {
    accepted: Arc<AcceptedConnections>,
    addresses: Vec<SocketAddr>,
    /// Each holds a listening socket until it ends.
    accept_threads: Vec<JoinHandle<()>>,
}

impl Listeners {
    /// Opens a listener on each of `rails`, in order.
    pub fn open(me: u32, rails: &[LocalRail], token: Token) -> io::Result<Listeners> {
        let mut doors = Listeners {
            accepted: Arc::new(AcceptedConnections::default()),
            addresses: Vec::with_capacity(rails.len()),
            accept_threads: Vec::with_capacity(rails.len()),
        };
        for rail in rails {
            let address = rail.listen_address();
            let listener = TcpListener::bind(address).map_err(|error| {
                io::Error::new(error.kind(), format!("cannot listen on {address}: {error}"))
            })?;
            listener.set_nonblocking(true)?;
            doors.addresses.push(listener.local_addr()?);
            let (accepted, rail) = (Arc::clone(&doors.accepted), rail.clone());
            let accept_thread = std::thread::spawn(move || answer(&listener, &rail, me, token, &accepted));
            doors.accept_threads.push(accept_thread);
        }
        Ok(doors)
    }

    /// Where peers must dial, rail by rail.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Waits for the connection a peer dials; none when the deadline passes or `give_up` says so.
    pub fn take(
        &self,
        wanted: &Connection,
        deadline: Instant,
        give_up: &dyn Fn() -> bool,
    ) -> Option<TcpStream> {
        let mut arrived = self.accepted.arrived();
        loop {
            if let Some(stream) = arrived.remove(wanted) {
                return Some(stream);
            }
            if Instant::now() >= deadline || give_up() {
                return None;
            }
            let patience = Duration::from_millis(20);
            arrived = match self.accepted.changed.wait_timeout(arrived, patience) {
                Ok((guard, _)) => guard,
                Err(poisoned) => poisoned.into_inner().0,
            };
        }
    }

    /// The accepted connections, for callers that take them as they arrive.
    pub fn accepted(&self) -> Arc<AcceptedConnections> {
        Arc::clone(&self.accepted)
    }

    /// Drops connections that were not taken.
    pub fn forget(&self) {
        self.accepted.arrived().clear();
    }

    /// Rejected callers since the last call, in words.
    pub fn rejected_callers(&self) -> Vec<String> {
        std::mem::take(&mut *self.accepted.rejected_callers())
    }
}

impl Drop for Listeners {
    fn drop(&mut self) {
        self.accepted.closing.store(true, Ordering::Relaxed);
        // The ports must be free when the listeners are opened again.
        for accept_thread in self.accept_threads.drain(..) {
            let _ = accept_thread.join();
        }
    }
}

/// Accepts callers until the rank ends.
fn answer(
    listener: &TcpListener,
    rail: &LocalRail,
    me: u32,
    token: Token,
    accepted: &Arc<AcceptedConnections>,
) {
    while !accepted.closing.load(Ordering::Relaxed) {
        let Ok((stream, caller)) = listener.accept() else {
            std::thread::sleep(Duration::from_millis(2));
            continue;
        };
        if accepted.unidentified.fetch_add(1, Ordering::Relaxed) >= MAX_UNIDENTIFIED {
            accepted.unidentified.fetch_sub(1, Ordering::Relaxed);
            refuse(accepted, caller, "too many callers without a handshake");
            continue;
        }
        let (accepted, rail) = (Arc::clone(accepted), rail.clone());
        std::thread::spawn(move || {
            match receive_handshake(&rail, stream, me, &token) {
                // A probe only wants the reply.
                Ok((connection, _)) if connection.flow == handshake::PROBE => {}
                Ok((connection, stream)) => {
                    accepted.arrived().insert(connection, stream);
                    accepted.changed.notify_all();
                }
                Err(problem) => refuse(&accepted, caller, &problem),
            }
            accepted.unidentified.fetch_sub(1, Ordering::Relaxed);
        });
    }
}

fn refuse(accepted: &AcceptedConnections, caller: SocketAddr, problem: &str) {
    tracing::warn!(%caller, problem, "dropped a caller on a data port");
    let mut rejected_callers = accepted.rejected_callers();
    if rejected_callers.len() < 100 {
        rejected_callers.push(format!("{caller}: {problem}"));
    }
}

fn receive_handshake(
    rail: &LocalRail,
    mut stream: TcpStream,
    me: u32,
    token: &Token,
) -> Result<(Connection, TcpStream), String> {
    let text = |error: io::Error| error.to_string();
    stream.set_nonblocking(false).map_err(text)?;
    stream.set_read_timeout(Some(HANDSHAKE_TIMEOUT)).map_err(text)?;
    stream.set_write_timeout(Some(HANDSHAKE_TIMEOUT)).map_err(text)?;
    let mut bytes = [0; handshake::HANDSHAKE_BYTES];
    stream
        .read_exact(&mut bytes)
        .map_err(|error| format!("no handshake: {error}"))?;
    let connection = handshake::read(&bytes, token)?;
    if connection.to != me {
        return Err(format!("it asks for rank {}, this is rank {me}", connection.to));
    }
    let answered = stream.peer_addr().and_then(|peer| {
        rail.confine(SockRef::from(&stream), peer.ip());
        stream.write_all(&[handshake::ACCEPTED])
    });
    // A probe may be gone by now: its sender knows that it arrived.
    match answered {
        Err(error) if connection.flow != handshake::PROBE => Err(error.to_string()),
        _ => Ok((connection, stream)),
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::super::dial;
    use super::*;

    const LOOPBACK: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    #[test]
    fn doors_that_were_closed_are_opened_again_at_the_same_ports() {
        let token = Token::generate().unwrap();
        // An address of their own: another test may be given a port that was just let go.
        let own = IpAddr::from([127, 28, 0, 1]);
        let mut rails: [LocalRail; 2] = [own.into(), own.into()];
        let first = Listeners::open(0, &rails, token).unwrap();
        for (rail, address) in rails.iter_mut().zip(first.addresses()) {
            rail.port = address.port();
        }
        drop(first);
        for time in 0..50 {
            let doors = Listeners::open(0, &rails, token);
            assert!(doors.is_ok(), "{time}: {:?}", doors.err());
        }
    }

    #[test]
    fn a_peer_gets_in_while_strangers_are_dropped_and_named() {
        let token = Token::generate().unwrap();
        let doors = Listeners::open(1, &[LOOPBACK.into()], token).unwrap();
        let address = doors.addresses()[0];
        let connection = Connection {
            from: 0,
            to: 1,
            rail: 0,
            to_rail: 0,
            flow: 0,
            source_port: 0,
        };
        let soon = Instant::now() + Duration::from_secs(10);

        TcpStream::connect(address)
            .unwrap()
            .write_all(&[0xab; 5000])
            .unwrap();
        let wrong_token = Token::generate().unwrap();
        assert!(dial(&connection, &LOOPBACK.into(), address, &wrong_token, soon).is_err());
        let _silent = TcpStream::connect(address).unwrap();

        let mine = dial(&connection, &LOOPBACK.into(), address, &token, soon).unwrap();
        let theirs = doors.take(&connection, soon, &|| false).unwrap();
        assert_eq!(mine.local_addr().unwrap(), theirs.peer_addr().unwrap());
        let mut rejected_callers = Vec::new();
        while rejected_callers.len() < 2 && Instant::now() < soon {
            rejected_callers.extend(doors.rejected_callers());
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(
            rejected_callers
                .iter()
                .any(|text| text.contains("wrong run token")),
            "{rejected_callers:?}"
        );
        assert!(
            rejected_callers.iter().any(|text| text.contains("protocol")),
            "{rejected_callers:?}"
        );
    }

    #[test]
    fn a_probe_that_does_not_wait_for_the_answer_is_no_stranger() {
        let token = Token::generate().unwrap();
        let listener = TcpListener::bind((LOOPBACK, 0)).unwrap();
        let arrives = |flow: u16| {
            let connection = Connection {
                from: 0,
                to: 1,
                rail: 0,
                to_rail: 0,
                flow,
                source_port: 0,
            };
            let mut hurried = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (arrived, _) = listener.accept().unwrap();
            hurried.write_all(&handshake::write(&connection, &token)).unwrap();
            SockRef::from(&hurried).set_linger(Some(Duration::ZERO)).unwrap();
            drop(hurried);
            while arrived.peer_addr().is_ok() {
                std::thread::yield_now();
            }
            receive_handshake(&LOOPBACK.into(), arrived, 1, &token)
        };
        assert_eq!(arrives(handshake::PROBE).unwrap().0.flow, handshake::PROBE);
        assert!(arrives(0).is_err(), "a peer waits for its answer");
    }

    #[test]
    fn a_pinned_source_port_is_the_one_on_the_wire() {
        let token = Token::generate().unwrap();
        let doors = Listeners::open(1, &[LOOPBACK.into()], token).unwrap();
        let free = TcpListener::bind((LOOPBACK, 0))
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let connection = Connection {
            from: 0,
            to: 1,
            rail: 0,
            to_rail: 0,
            flow: 0,
            source_port: free,
        };
        let soon = Instant::now() + Duration::from_secs(10);
        let stream = dial(&connection, &LOOPBACK.into(), doors.addresses()[0], &token, soon).unwrap();
        assert_eq!(stream.local_addr().unwrap().port(), free);
    }

    #[test]
    fn a_peer_that_never_dials_is_not_waited_for_forever() {
        let doors = Listeners::open(1, &[LOOPBACK.into()], Token::generate().unwrap()).unwrap();
        let connection = Connection {
            from: 0,
            to: 1,
            rail: 0,
            to_rail: 0,
            flow: 0,
            source_port: 0,
        };
        let soon = Instant::now() + Duration::from_millis(30);
        assert!(doors.take(&connection, soon, &|| false).is_none());
        let late = Instant::now() + Duration::from_secs(60);
        assert!(doors.take(&connection, late, &|| true).is_none());
    }
}
