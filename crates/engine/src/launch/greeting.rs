//! The first bytes between a rank and the coordinator: magic, token, rank, world; and the answer to them. Both have a fixed
//! size, so that nothing a stranger sends makes anybody allocate, and a stranger is told nothing but that it is refused.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use super::Token;

const MAGIC: &[u8; 8] = b"RGJOIN01";
/// Bytes of a greeting.
pub const GREETING: usize = 8 + Token::LEN + 4 + 4;
/// Bytes of an answer: what it is, the world, an address.
pub const ANSWER: usize = 1 + 4 + 16 + 2;

/// What the coordinator answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// Come in.
    Welcome,
    /// Go away.
    Refused,
    /// This run has another number of ranks.
    OtherWorld(u32),
    /// The rank has joined already, from there.
    Taken(SocketAddr),
    /// The rank that was here is lost, and its seat is not given away yet: call again.
    Later,
}

/// What a caller with the right token says it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Caller {
    /// Its rank.
    pub rank: u32,
    /// The ranks of its run.
    pub world: u32,
}

/// Rank `rank` of `world` presents itself.
pub fn write(rank: u32, world: u32, token: &Token) -> [u8; GREETING] {
    let mut greeting = [0; GREETING];
    greeting[..8].copy_from_slice(MAGIC);
    greeting[8..8 + Token::LEN].copy_from_slice(token.as_bytes());
    greeting[8 + Token::LEN..12 + Token::LEN].copy_from_slice(&rank.to_le_bytes());
    greeting[12 + Token::LEN..].copy_from_slice(&world.to_le_bytes());
    greeting
}

/// Who presents itself; why not, if it does not have this run's token.
pub fn read(greeting: &[u8; GREETING], token: &Token) -> Result<Caller, &'static str> {
    if &greeting[..8] != MAGIC {
        return Err("it does not speak railgauge's protocol");
    }
    if !token.matches(&greeting[8..8 + Token::LEN]) {
        return Err("wrong run token");
    }
    Ok(Caller {
        rank: number(greeting, 8 + Token::LEN),
        world: number(greeting, 12 + Token::LEN),
    })
}

fn number(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

impl Answer {
    /// As it travels.
    pub fn to_bytes(self) -> [u8; ANSWER] {
        let mut bytes = [0; ANSWER];
        bytes[0] = match self {
            Answer::Welcome => 1,
            Answer::Refused => 2,
            Answer::OtherWorld(_) => 3,
            Answer::Taken(_) => 4,
            Answer::Later => 5,
        };
        if let Answer::OtherWorld(world) = self {
            bytes[1..5].copy_from_slice(&world.to_le_bytes());
        }
        if let Answer::Taken(address) = self {
            let ip = match address.ip() {
                IpAddr::V4(ip) => ip.to_ipv6_mapped(),
                IpAddr::V6(ip) => ip,
            };
            bytes[5..21].copy_from_slice(&ip.octets());
            bytes[21..].copy_from_slice(&address.port().to_le_bytes());
        }
        bytes
    }

    /// As it was meant; none for bytes no coordinator sends.
    pub fn from_bytes(bytes: &[u8; ANSWER]) -> Option<Answer> {
        match bytes[0] {
            1 => Some(Answer::Welcome),
            2 => Some(Answer::Refused),
            3 => Some(Answer::OtherWorld(number(bytes, 1))),
            4 => {
                let mut octets = [0; 16];
                octets.copy_from_slice(&bytes[5..21]);
                let port = u16::from_le_bytes([bytes[21], bytes[22]]);
                Some(Answer::Taken(SocketAddr::new(
                    Ipv6Addr::from(octets).to_canonical(),
                    port,
                )))
            }
            5 => Some(Answer::Later),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_answer_arrives_as_it_was_meant() {
        for answer in [
            Answer::Welcome,
            Answer::Refused,
            Answer::Later,
            Answer::OtherWorld(4_000_000_000),
            Answer::Taken("10.0.0.1:65535".parse().unwrap()),
            Answer::Taken("[fd00::1]:1".parse().unwrap()),
        ] {
            assert_eq!(Answer::from_bytes(&answer.to_bytes()), Some(answer));
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_an_answer_or_none(bytes in proptest::array::uniform23(any::<u8>())) {
            if let Some(answer) = Answer::from_bytes(&bytes) {
                prop_assert_eq!(answer.to_bytes()[0], bytes[0]);
            }
        }
    }
}
