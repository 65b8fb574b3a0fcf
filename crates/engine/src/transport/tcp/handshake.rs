//! The handshake of a data connection: both ranks, rail and flow, and the run's token.
//!
//! Fixed size, so that no caller can make us allocate; the token is compared in constant time before any other field is read.

use crate::launch::Token;

/// Identifies one connection between two ranks; both ends derive it from the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Connection {
    /// Dialling world rank.
    pub from: u32,
    /// Accepting world rank.
    pub to: u32,
    /// Index of the dialling rank's rail in the run's list.
    pub rail: u16,
    /// Index of the accepting rank's rail: mostly the same.
    pub to_rail: u16,
    /// Flow on that rail.
    pub flow: u16,
    /// Pinned source port; 0 when it is not pinned. Cells with other ports use other connections.
    pub source_port: u16,
}

/// The flow number of a liveness probe.
pub const PROBE: u16 = u16::MAX;
/// The bit of a flow number for connections on which two queue pairs exchange their info; the flow itself is theirs.
pub const QP_EXCHANGE: u16 = 1 << 15;
/// The flow number of out-of-band connections for queue pairs apart from those of cells.
pub const OUT_OF_BAND: u16 = QP_EXCHANGE | 1 << 14;

/// The bit of a flow number that is one of a cell's streams.
pub const STREAMS: u16 = 1 << 13;

const MAGIC: &[u8; 8] = b"RGDATA02";
/// Bytes of a handshake.
pub const HANDSHAKE_BYTES: usize = 8 + Token::LEN + 16;
/// The one-byte reply to a valid handshake.
pub const ACCEPTED: u8 = 1;

/// The handshake for `connection`.
pub fn write(connection: &Connection, token: &Token) -> [u8; HANDSHAKE_BYTES] {
    let mut bytes = [0; HANDSHAKE_BYTES];
    bytes[..8].copy_from_slice(MAGIC);
    bytes[8..8 + Token::LEN].copy_from_slice(token.as_bytes());
    let fields = &mut bytes[8 + Token::LEN..];
    fields[0..4].copy_from_slice(&connection.from.to_le_bytes());
    fields[4..8].copy_from_slice(&connection.to.to_le_bytes());
    fields[8..10].copy_from_slice(&connection.rail.to_le_bytes());
    fields[10..12].copy_from_slice(&connection.flow.to_le_bytes());
    fields[12..14].copy_from_slice(&connection.source_port.to_le_bytes());
    fields[14..16].copy_from_slice(&connection.to_rail.to_le_bytes());
    bytes
}

/// The connection a handshake asks for, or why it is rejected.
pub fn read(bytes: &[u8; HANDSHAKE_BYTES], token: &Token) -> Result<Connection, &'static str> {
    if &bytes[..8] != MAGIC {
        return Err("it does not speak railgauge's protocol");
    }
    if !token.matches(&bytes[8..8 + Token::LEN]) {
        return Err("wrong run token");
    }
    let fields = &bytes[8 + Token::LEN..];
    let long = |at: usize| u32::from_le_bytes([fields[at], fields[at + 1], fields[at + 2], fields[at + 3]]);
    let short = |at: usize| u16::from_le_bytes([fields[at], fields[at + 1]]);
    Ok(Connection {
        from: long(0),
        to: long(4),
        rail: short(8),
        flow: short(10),
        source_port: short(12),
        to_rail: short(14),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_greeting_is_understood_only_with_this_runs_token() {
        let token = Token::generate().unwrap();
        let connection = Connection {
            from: 70_000,
            to: 3,
            rail: 7,
            to_rail: 2,
            flow: 300,
            source_port: 47_001,
        };
        let handshake = write(&connection, &token);
        assert_eq!(read(&handshake, &token), Ok(connection));
        assert_eq!(
            read(&handshake, &Token::generate().unwrap()),
            Err("wrong run token")
        );
        assert!(read(&[0xff; HANDSHAKE_BYTES], &token).is_err());
    }
}
