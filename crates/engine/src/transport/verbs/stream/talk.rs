//! What the two ends say to each other beside the queue pairs, over the connection on which they met.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::StreamError;

/// Bytes of a word: what it is, and a number.
const WORD: usize = 9;
/// Longest reason.
const REASON: usize = 600;
/// A peer that takes no words for so long is gone.
const WRITING: Duration = Duration::from_secs(5);

const READY: u8 = 1;
const MOVING: u8 = 2;
const DONE: u8 = 3;
const SORRY: u8 = 4;

/// What is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Word {
    /// This end is ready for the trial with this seed.
    Ready(u64),
    /// Messages still move.
    Moving,
    /// This end has sent its last message, and this many in all.
    Done(u64),
}

/// The connection.
pub struct Talk {
    stream: TcpStream,
    /// A word that has not arrived completely.
    heard: Vec<u8>,
}

impl Talk {
    /// Over a greeted connection.
    pub fn new(stream: TcpStream) -> io::Result<Talk> {
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        Ok(Talk {
            stream,
            heard: Vec::new(),
        })
    }

    /// Says something.
    pub fn say(&mut self, word: Word) -> Result<(), StreamError> {
        let (kind, number) = match word {
            Word::Ready(seed) => (READY, seed),
            Word::Moving => (MOVING, 0),
            Word::Done(messages) => (DONE, messages),
        };
        let mut bytes = [kind; WORD];
        bytes[1..].copy_from_slice(&number.to_le_bytes());
        self.write(&bytes).map_err(|error| lost(&error))
    }

    /// Says why this end gives up. The other may be gone already; then there is nobody to tell.
    pub fn apologise(&mut self, reason: &str) {
        let mut cut = reason.len().min(REASON);
        while !reason.is_char_boundary(cut) {
            cut -= 1;
        }
        let mut bytes = vec![SORRY];
        bytes.extend((cut as u64).to_le_bytes());
        bytes.extend(&reason.as_bytes()[..cut]);
        let _ = self.write(&bytes);
    }

    /// What has been said, if anything.
    pub fn hear_now(&mut self) -> Result<Option<Word>, StreamError> {
        if !self.fill(WORD)? {
            return Ok(None);
        }
        let mut number = [0; 8];
        number.copy_from_slice(&self.heard[1..WORD]);
        let number = u64::from_le_bytes(number);
        let word = match self.heard[0] {
            READY => Word::Ready(number),
            MOVING => Word::Moving,
            DONE => Word::Done(number),
            SORRY => {
                let len = (number as usize).min(REASON);
                if !self.fill(WORD + len)? {
                    return Ok(None);
                }
                let reason = String::from_utf8_lossy(&self.heard[WORD..WORD + len]);
                let reason: String = reason.chars().filter(|letter| !letter.is_control()).collect();
                return Err(StreamError::Peer(reason));
            }
            _ => {
                return Err(StreamError::Failed(
                    "the other end says what makes no sense".to_string(),
                ));
            }
        };
        self.heard.clear();
        Ok(Some(word))
    }

    /// What to sleep on.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    /// Whether so many bytes of the current word are there now.
    fn fill(&mut self, len: usize) -> Result<bool, StreamError> {
        while self.heard.len() < len {
            let mut bytes = [0; REASON];
            let missing = len - self.heard.len();
            match self.stream.read(&mut bytes[..missing]) {
                Ok(0) => {
                    let closed = io::Error::new(io::ErrorKind::UnexpectedEof, "it closed the connection");
                    return Err(lost(&closed));
                }
                Ok(count) => self.heard.extend(&bytes[..count]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(lost(&error)),
            }
        }
        Ok(true)
    }

    fn write(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        let until = Instant::now() + WRITING;
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

    fn two_ends() -> (Talk, Talk) {
        let door = TcpListener::bind("127.0.0.1:0").unwrap();
        let one = TcpStream::connect(door.local_addr().unwrap()).unwrap();
        let other = door.accept().unwrap().0;
        (Talk::new(one).unwrap(), Talk::new(other).unwrap())
    }

    fn hear(talk: &mut Talk) -> Result<Word, StreamError> {
        let until = Instant::now() + Duration::from_secs(10);
        loop {
            if let Some(word) = talk.hear_now()? {
                return Ok(word);
            }
            assert!(Instant::now() < until, "nothing was heard");
            std::thread::yield_now();
        }
    }

    #[test]
    fn words_arrive_in_order_and_a_reason_for_giving_up_arrives_whole() {
        let (mut here, mut there) = two_ends();
        let words = [Word::Ready(u64::MAX), Word::Moving, Word::Done(5000)];
        words.iter().for_each(|word| here.say(*word).unwrap());
        for word in words {
            assert_eq!(hear(&mut there), Ok(word));
        }
        here.apologise("transport retries\u{1b} exceeded");
        let reason = StreamError::Peer("transport retries exceeded".to_string());
        assert_eq!(hear(&mut there), Err(reason));
    }

    #[test]
    fn an_end_that_is_gone_is_noticed() {
        let (here, mut there) = two_ends();
        assert_eq!(there.hear_now(), Ok(None));
        drop(here);
        assert!(matches!(hear(&mut there), Err(StreamError::Peer(reason)) if reason.contains("gone")));
    }

    #[test]
    fn what_makes_no_sense_is_an_error() {
        let (mut here, mut there) = two_ends();
        here.stream.write_all(&[77; WORD]).unwrap();
        assert!(matches!(hear(&mut there), Err(StreamError::Failed(_))));
    }
}
