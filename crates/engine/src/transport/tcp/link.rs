//! Chunks over one TCP connection, without ever blocking.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::time::Duration;

use socket2::SockRef;

use super::super::link::{Backlog, Link, LinkError, Received, Sink, TcpCounts, Waitable};
use super::backlog::backlog;
use super::counts::counts;
use crate::device::ReadLease;

/// Chunks that may wait for room in the socket.
const DEPTH: usize = 4;

/// One TCP connection carrying chunks both ways.
pub struct TcpLink {
    stream: TcpStream,
    queue: VecDeque<ReadLease>,
    /// Bytes of the first queued chunk that have left.
    sent: usize,
    /// Payload bytes written so far.
    moved: u64,
    /// Where chunks that are consumed by a function are put together.
    assembly: Vec<u8>,
    /// Bytes of the current incoming chunk that are there.
    arrived: usize,
}

impl TcpLink {
    /// Takes over a connected and greeted stream.
    pub fn new(stream: TcpStream) -> io::Result<TcpLink> {
        let socket = SockRef::from(&stream);
        socket.set_tcp_nodelay(true)?;
        // Socket buffers are left to the kernel, which fits them to the path; a fixed size would cap long fat ones.
        stream.set_read_timeout(None)?;
        stream.set_nonblocking(true)?;
        Ok(TcpLink {
            stream,
            queue: VecDeque::new(),
            sent: 0,
            moved: 0,
            assembly: Vec::new(),
            arrived: 0,
        })
    }
}

fn failed(error: io::Error) -> LinkError {
    match error.kind() {
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => LinkError::Closed,
        _ => LinkError::Failed(error.to_string()),
    }
}

/// Reads what is there into `memory`; how many bytes, 0 when nothing is there yet.
fn read_some(stream: &mut TcpStream, memory: &mut [u8]) -> Result<usize, LinkError> {
    loop {
        match stream.read(memory) {
            Ok(0) => return Err(LinkError::Closed),
            Ok(bytes) => return Ok(bytes),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(0),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(failed(error)),
        }
    }
}

impl Link for TcpLink {
    fn offer(&mut self, chunk: ReadLease) -> Result<Option<ReadLease>, LinkError> {
        if self.queue.len() >= DEPTH {
            return Ok(Some(chunk));
        }
        self.queue.push_back(chunk);
        self.advance()?;
        Ok(None)
    }

    fn advance(&mut self) -> Result<bool, LinkError> {
        let mut moved = false;
        while let Some(chunk) = self.queue.front() {
            match self.stream.write(&chunk[self.sent..]) {
                Ok(bytes) => {
                    moved = true;
                    self.sent += bytes;
                    self.moved += bytes as u64;
                    if self.sent == chunk.len() {
                        self.queue.pop_front();
                        self.sent = 0;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(failed(error)),
            }
        }
        Ok(moved)
    }

    fn flushed(&self) -> bool {
        self.queue.is_empty()
    }

    fn receive(&mut self, len: usize, sink: Sink<'_>) -> Result<Received, LinkError> {
        let got = match sink {
            Sink::Into(memory) => read_some(&mut self.stream, &mut memory[self.arrived..len])?,
            Sink::With(consume) => {
                if self.assembly.len() < len {
                    self.assembly.resize(len, 0);
                }
                let got = read_some(&mut self.stream, &mut self.assembly[self.arrived..len])?;
                if self.arrived + got == len {
                    consume(&self.assembly[..len]);
                }
                got
            }
        };
        self.arrived += got;
        if self.arrived == len {
            self.arrived = 0;
            return Ok(Received::Chunk);
        }
        Ok(if got > 0 {
            Received::Some
        } else {
            Received::Nothing
        })
    }

    fn arrives_in_pieces(&self) -> bool {
        true
    }

    fn moved(&self) -> u64 {
        self.moved
    }

    fn waitable(&self) -> Option<Waitable<'_>> {
        Some(Waitable {
            fd: self.stream.as_fd(),
            wants_to_send: !self.queue.is_empty(),
            sleeps: false,
        })
    }

    fn abandon(&mut self) {
        // Closing then resets the connection, so that its ports can be used again at once.
        if let Err(error) = SockRef::from(&self.stream).set_linger(Some(Duration::ZERO)) {
            tracing::debug!(%error, "a connection that is given up will linger");
        }
    }

    fn backlog(&self) -> Option<Backlog> {
        backlog(self.stream.local_addr().ok()?, self.stream.peer_addr().ok()?)
    }

    fn tcp_counts(&self) -> Option<TcpCounts> {
        counts(&self.stream)
    }

    fn ports(&self) -> Option<(u16, u16)> {
        Some((
            self.stream.local_addr().ok()?.port(),
            self.stream.peer_addr().ok()?.port(),
        ))
    }
}
