//! Control messages between the two ends of a stream, over their out-of-band connection.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::StreamError;

/// Bytes of a message: its kind, and a number.
const MESSAGE_BYTES: usize = 9;
/// Longest reason.
const REASON: usize = 600;
/// A peer that reads nothing for so long is gone.
const WRITE_TIMEOUT: Duration = Duration::from_secs(5);

const READY: u8 = 1;
const MOVING: u8 = 2;
const DONE: u8 = 3;
const FAILURE: u8 = 4;

/// A control message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ControlMessage {
    /// This end is ready for the trial with this seed.
    Ready(u64),
    /// Messages still move.
    Moving,
    /// This end has sent its last message, and this many in all.
    Done(u64),
}

/// The connection.
pub struct ControlConnection {
    stream: TcpStream,
    /// An incomplete message.
    received: Vec<u8>,
}

impl ControlConnection {
    /// Over a TCP connection after its handshake.
    pub fn new(stream: TcpStream) -> io::Result<ControlConnection> {
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        Ok(ControlConnection {
            stream,
            received: Vec::new(),
        })
    }

    /// Sends a message.
    pub fn send(&mut self, message: ControlMessage) -> Result<(), StreamError> {
        let (kind, number) = match message {
            ControlMessage::Ready(seed) => (READY, seed),
            ControlMessage::Moving => (MOVING, 0),
            ControlMessage::Done(messages) => (DONE, messages),
        };
        let mut bytes = [kind; MESSAGE_BYTES];
        bytes[1..].copy_from_slice(&number.to_le_bytes());
        self.write(&bytes).map_err(|error| lost(&error))
    }

    /// Sends why this end gives up. The peer may be gone already.
    pub fn send_failure(&mut self, reason: &str) {
        let mut cut = reason.len().min(REASON);
        while !reason.is_char_boundary(cut) {
            cut -= 1;
        }
        let mut bytes = vec![FAILURE];
        bytes.extend((cut as u64).to_le_bytes());
        bytes.extend(&reason.as_bytes()[..cut]);
        let _ = self.write(&bytes);
    }

    /// The next message, if it has arrived.
    pub fn try_receive(&mut self) -> Result<Option<ControlMessage>, StreamError> {
        if !self.fill(MESSAGE_BYTES)? {
            return Ok(None);
        }
        let mut number = [0; 8];
        number.copy_from_slice(&self.received[1..MESSAGE_BYTES]);
        let number = u64::from_le_bytes(number);
        let message = match self.received[0] {
            READY => ControlMessage::Ready(number),
            MOVING => ControlMessage::Moving,
            DONE => ControlMessage::Done(number),
            FAILURE => {
                let len = (number as usize).min(REASON);
                if !self.fill(MESSAGE_BYTES + len)? {
                    return Ok(None);
                }
                let reason = String::from_utf8_lossy(&self.received[MESSAGE_BYTES..MESSAGE_BYTES + len]);
                let reason: String = reason.chars().filter(|letter| !letter.is_control()).collect();
                return Err(StreamError::Peer(reason));
            }
            _ => {
                return Err(StreamError::Failed(
                    "malformed control message from the peer: unknown kind".to_string(),
                ));
            }
        };
        self.received.clear();
        Ok(Some(message))
    }

    /// What to sleep on.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    /// Whether so many bytes of the current message have arrived.
    fn fill(&mut self, len: usize) -> Result<bool, StreamError> {
        while self.received.len() < len {
            let mut bytes = [0; REASON];
            let missing = len - self.received.len();
            match self.stream.read(&mut bytes[..missing]) {
                Ok(0) => {
                    let closed = io::Error::new(io::ErrorKind::UnexpectedEof, "it closed the connection");
                    return Err(lost(&closed));
                }
                Ok(count) => self.received.extend(&bytes[..count]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(lost(&error)),
            }
        }
        Ok(true)
    }

    fn write(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        let until = Instant::now() + WRITE_TIMEOUT;
        while !bytes.is_empty() {
            match self.stream.write(bytes) {
                Ok(count) => bytes = &bytes[count..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && Instant::now() < until => {
                    let mut wanted = [PollFd::new(self.stream.as_fd(), PollFlags::POLLOUT)];
                    poll(&mut wanted, PollTimeout::from(100u8))?;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

fn lost(error: &io::Error) -> StreamError {
    StreamError::Peer(format!(
        "the connection to it is lost: {error}; its process or host is gone"
    ))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    fn two_ends() -> (ControlConnection, ControlConnection) {
        let door = TcpListener::bind("127.0.0.1:0").unwrap();
        let one = TcpStream::connect(door.local_addr().unwrap()).unwrap();
        let other = door.accept().unwrap().0;
        (
            ControlConnection::new(one).unwrap(),
            ControlConnection::new(other).unwrap(),
        )
    }

    fn hear(control: &mut ControlConnection) -> Result<ControlMessage, StreamError> {
        let until = Instant::now() + Duration::from_secs(10);
        loop {
            if let Some(message) = control.try_receive()? {
                return Ok(message);
            }
            assert!(Instant::now() < until, "nothing was heard");
            std::thread::yield_now();
        }
    }

    #[test]
    fn words_arrive_in_order_and_a_reason_for_giving_up_arrives_whole() {
        let (mut here, mut there) = two_ends();
        let words = [
            ControlMessage::Ready(u64::MAX),
            ControlMessage::Moving,
            ControlMessage::Done(5000),
        ];
        words.iter().for_each(|message| here.send(*message).unwrap());
        for message in words {
            assert_eq!(hear(&mut there), Ok(message));
        }
        here.send_failure("transport retries\u{1b} exceeded");
        let reason = StreamError::Peer("transport retries exceeded".to_string());
        assert_eq!(hear(&mut there), Err(reason));
    }

    #[test]
    fn an_end_that_is_gone_is_noticed() {
        let (here, mut there) = two_ends();
        assert_eq!(there.try_receive(), Ok(None));
        drop(here);
        assert!(matches!(hear(&mut there), Err(StreamError::Peer(reason)) if reason.contains("gone")));
    }

    #[test]
    fn what_makes_no_sense_is_an_error() {
        let (mut here, mut there) = two_ends();
        here.stream.write_all(&[77; MESSAGE_BYTES]).unwrap();
        assert!(matches!(hear(&mut there), Err(StreamError::Failed(_))));
    }
}
