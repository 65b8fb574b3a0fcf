//! Messages on a stream: four bytes of length, then the message. The length is bounded before anything is allocated.

use std::io::{self, Read, Write};

/// The largest control message in bytes; a peer that announces more is not a railgauge process.
pub const MAX_FRAME: usize = 16 << 20;

/// Writes one message.
pub fn write(stream: &mut impl Write, message: &[u8]) -> io::Result<()> {
    if message.len() > MAX_FRAME {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("control message of {} bytes, at most {MAX_FRAME}", message.len()),
        ));
    }
    let mut framed = Vec::with_capacity(4 + message.len());
    framed.extend_from_slice(&(message.len() as u32).to_le_bytes());
    framed.extend_from_slice(message);
    stream.write_all(&framed)
}

/// Reads one message.
pub fn read(stream: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let length = u32::from_le_bytes(length) as usize;
    if length > MAX_FRAME {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("malformed control message: length {length}, at most {MAX_FRAME}"),
        ));
    }
    let mut message = vec![0; length];
    stream.read_exact(&mut message)?;
    Ok(message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_out_as_they_went_in() {
        let mut stream = Vec::new();
        write(&mut stream, b"one").unwrap();
        write(&mut stream, b"").unwrap();
        let mut reading = stream.as_slice();
        assert_eq!(read(&mut reading).unwrap(), b"one");
        assert_eq!(read(&mut reading).unwrap(), b"");
        assert!(read(&mut reading).is_err());
    }

    #[test]
    fn an_absurd_length_is_refused_before_memory_is_taken_for_it() {
        let announced = u32::MAX.to_le_bytes();
        let error = read(&mut announced.as_slice()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    }
}
