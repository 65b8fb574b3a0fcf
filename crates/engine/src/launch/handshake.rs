//! The join handshake: a rank sends magic, token, rank and world size, and the coordinator replies. Both messages have a fixed
//! size, so nothing an outsider sends makes the coordinator allocate, and an outsider learns only that it is refused.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use super::Token;

const MAGIC: &[u8; 8] = b"RGJOIN01";
/// Bytes of a join request.
pub const REQUEST_LEN: usize = 8 + Token::LEN + 4 + 4;
/// Bytes of a reply: its kind, the world size, an address.
pub const REPLY_LEN: usize = 1 + 4 + 16 + 2;
/// How long the other side may take to accept a message before the connection counts as broken.
pub const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

/// The coordinator's reply to a join request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JoinReply {
    /// The rank has joined.
    Accepted,
    /// Wrong token or protocol.
    Refused,
    /// This run has another number of ranks.
    WorldMismatch(u32),
    /// This rank has joined already, from there.
    RankTaken(SocketAddr),
    /// The previous process of this rank is lost, but rejoining is not allowed yet.
    RetryLater,
}

/// A join request with the right token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JoinRequest {
    /// The rank that joins.
    pub rank: u32,
    /// World size it was started with.
    pub world: u32,
}

/// Encodes a join request.
pub fn encode_request(rank: u32, world: u32, token: &Token) -> [u8; REQUEST_LEN] {
    let mut request = [0; REQUEST_LEN];
    request[..8].copy_from_slice(MAGIC);
    request[8..8 + Token::LEN].copy_from_slice(token.as_bytes());
    request[8 + Token::LEN..12 + Token::LEN].copy_from_slice(&rank.to_le_bytes());
    request[12 + Token::LEN..].copy_from_slice(&world.to_le_bytes());
    request
}

/// Decodes a join request; an error if it does not carry this run's token.
pub fn decode_request(request: &[u8; REQUEST_LEN], token: &Token) -> Result<JoinRequest, &'static str> {
    if &request[..8] != MAGIC {
        return Err("not a railgauge join request");
    }
    if !token.matches(&request[8..8 + Token::LEN]) {
        return Err("wrong run token");
    }
    Ok(JoinRequest {
        rank: number(request, 8 + Token::LEN),
        world: number(request, 12 + Token::LEN),
    })
}

fn number(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

impl JoinReply {
    /// Encodes it.
    pub fn to_bytes(self) -> [u8; REPLY_LEN] {
        let mut bytes = [0; REPLY_LEN];
        bytes[0] = match self {
            JoinReply::Accepted => 1,
            JoinReply::Refused => 2,
            JoinReply::WorldMismatch(_) => 3,
            JoinReply::RankTaken(_) => 4,
            JoinReply::RetryLater => 5,
        };
        if let JoinReply::WorldMismatch(world) = self {
            bytes[1..5].copy_from_slice(&world.to_le_bytes());
        }
        if let JoinReply::RankTaken(address) = self {
            let ip = match address.ip() {
                IpAddr::V4(ip) => ip.to_ipv6_mapped(),
                IpAddr::V6(ip) => ip,
            };
            bytes[5..21].copy_from_slice(&ip.octets());
            bytes[21..].copy_from_slice(&address.port().to_le_bytes());
        }
        bytes
    }

    /// Decodes it; none for bytes that no coordinator sends.
    pub fn from_bytes(bytes: &[u8; REPLY_LEN]) -> Option<JoinReply> {
        match bytes[0] {
            1 => Some(JoinReply::Accepted),
            2 => Some(JoinReply::Refused),
            3 => Some(JoinReply::WorldMismatch(number(bytes, 1))),
            4 => {
                let mut octets = [0; 16];
                octets.copy_from_slice(&bytes[5..21]);
                let port = u16::from_le_bytes([bytes[21], bytes[22]]);
                Some(JoinReply::RankTaken(SocketAddr::new(
                    Ipv6Addr::from(octets).to_canonical(),
                    port,
                )))
            }
            5 => Some(JoinReply::RetryLater),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_reply_is_decoded_as_it_was_encoded() {
        for reply in [
            JoinReply::Accepted,
            JoinReply::Refused,
            JoinReply::RetryLater,
            JoinReply::WorldMismatch(4_000_000_000),
            JoinReply::RankTaken("10.0.0.1:65535".parse().unwrap()),
            JoinReply::RankTaken("[fd00::1]:1".parse().unwrap()),
        ] {
            assert_eq!(JoinReply::from_bytes(&reply.to_bytes()), Some(reply));
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_reply_or_none(bytes in proptest::array::uniform23(any::<u8>())) {
            if let Some(reply) = JoinReply::from_bytes(&bytes) {
                prop_assert_eq!(reply.to_bytes()[0], bytes[0]);
            }
        }
    }
}
