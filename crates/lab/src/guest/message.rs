//! Messages between a client outside and the agent inside a guest: a tag, a length, that many bytes.

use std::io::{self, Read, Write};

/// Longest content of one message.
const LONGEST: usize = 1 << 20;

/// One message. A command is its words, variables and directory, then `Start`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// The next word of the command.
    Word(Vec<u8>),
    /// A variable of its environment, `NAME=VALUE`.
    Variable(Vec<u8>),
    /// Its working directory.
    Directory(Vec<u8>),
    /// All is said; run it.
    Start,
    /// Bytes for its standard input; none for the end of it.
    Input(Vec<u8>),
    /// A signal for it.
    Signal(u8),
    /// The cable of an interface got (`1`) or lost (`0`) its signal: `rail0=1`.
    Carrier(Vec<u8>),
    /// Bytes it wrote to standard output.
    Output(Vec<u8>),
    /// Bytes it wrote to standard error.
    Error(Vec<u8>),
    /// How it ended: its code, or 128 and the signal that ended it.
    Ended(u8),
    /// Why it was not run.
    Refused(Vec<u8>),
}

impl Message {
    fn parts(&self) -> (u8, &[u8]) {
        match self {
            Message::Word(bytes) => (b'w', bytes),
            Message::Variable(bytes) => (b'v', bytes),
            Message::Directory(bytes) => (b'd', bytes),
            Message::Start => (b's', &[]),
            Message::Input(bytes) => (b'i', bytes),
            Message::Signal(number) => (b'k', std::slice::from_ref(number)),
            Message::Carrier(bytes) => (b'c', bytes),
            Message::Output(bytes) => (b'o', bytes),
            Message::Error(bytes) => (b'e', bytes),
            Message::Ended(code) => (b'x', std::slice::from_ref(code)),
            Message::Refused(bytes) => (b'r', bytes),
        }
    }

    /// Writes it, in one piece.
    pub fn write(&self, to: &mut impl Write) -> io::Result<()> {
        let (tag, bytes) = self.parts();
        if bytes.len() > LONGEST {
            return Err(io::Error::other("a message to a guest is longer than 1 MiB"));
        }
        let mut whole = vec![tag];
        whole.extend((bytes.len() as u32).to_le_bytes());
        whole.extend_from_slice(bytes);
        to.write_all(&whole)
    }

    /// The next message; none when the other side closed between two.
    pub fn read(from: &mut impl Read) -> io::Result<Option<Message>> {
        let mut head = [0; 5];
        match from.read_exact(&mut head[..1]) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            done => done?,
        }
        from.read_exact(&mut head[1..])?;
        let length = u32::from_le_bytes([head[1], head[2], head[3], head[4]]) as usize;
        let bad = || io::Error::new(io::ErrorKind::InvalidData, "not a message of a guest");
        if length > LONGEST {
            return Err(bad());
        }
        let mut bytes = vec![0; length];
        from.read_exact(&mut bytes)?;
        let number = |bytes: &[u8]| bytes.first().copied().ok_or_else(bad);
        Ok(Some(match head[0] {
            b'w' => Message::Word(bytes),
            b'v' => Message::Variable(bytes),
            b'd' => Message::Directory(bytes),
            b's' => Message::Start,
            b'i' => Message::Input(bytes),
            b'k' => Message::Signal(number(&bytes)?),
            b'c' => Message::Carrier(bytes),
            b'o' => Message::Output(bytes),
            b'e' => Message::Error(bytes),
            b'x' => Message::Ended(number(&bytes)?),
            b'r' => Message::Refused(bytes),
            _ => return Err(bad()),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_what_is_heard() {
        let said = [
            Message::Word(b"ip".to_vec()),
            Message::Variable(b"A=\xff".to_vec()),
            Message::Directory(b"/".to_vec()),
            Message::Start,
            Message::Input(Vec::new()),
            Message::Signal(15),
            Message::Carrier(b"rail0=0".to_vec()),
            Message::Output(vec![7; 70_000]),
            Message::Error(b"no".to_vec()),
            Message::Ended(137),
            Message::Refused(b"why".to_vec()),
        ];
        let mut wire = Vec::new();
        said.iter().for_each(|message| message.write(&mut wire).unwrap());
        let mut rest = wire.as_slice();
        for message in said {
            assert_eq!(Message::read(&mut rest).unwrap(), Some(message));
        }
        assert_eq!(Message::read(&mut rest).unwrap(), None);
    }

    #[test]
    fn nonsense_is_refused_before_room_is_made_for_it() {
        for wire in [
            &b"o\xff\xff\xff\xff"[..],
            b"?\0\0\0\0",
            b"x\0\0\0\0",
            b"o\x04\0\0\0ab",
        ] {
            assert!(Message::read(&mut &wire[..]).is_err(), "{wire:?}");
        }
        let long = Message::Output(vec![0; LONGEST + 1]);
        assert!(long.write(&mut Vec::new()).is_err());
    }
}
