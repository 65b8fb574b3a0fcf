//! The first bytes between a rank and the coordinator: magic, token, rank, world. Fixed size, so that nothing a stranger
//! sends makes anybody allocate.

use super::Token;

const MAGIC: &[u8; 8] = b"RGJOIN01";
/// Bytes of a greeting.
pub const GREETING: usize = 8 + Token::LEN + 4 + 4;
/// The one byte that answers a good greeting.
pub const WELCOME: u8 = 1;

/// Rank `rank` of `world` presents itself.
pub fn write(rank: u32, world: u32, token: &Token) -> [u8; GREETING] {
    let mut greeting = [0; GREETING];
    greeting[..8].copy_from_slice(MAGIC);
    greeting[8..8 + Token::LEN].copy_from_slice(token.as_bytes());
    greeting[8 + Token::LEN..12 + Token::LEN].copy_from_slice(&rank.to_le_bytes());
    greeting[12 + Token::LEN..].copy_from_slice(&world.to_le_bytes());
    greeting
}

/// The rank that presents itself; why not, if it does not belong to this run of `world` ranks.
pub fn read(greeting: &[u8; GREETING], world: u32, token: &Token) -> Result<u32, String> {
    let number =
        |at: usize| u32::from_le_bytes([greeting[at], greeting[at + 1], greeting[at + 2], greeting[at + 3]]);
    let (rank, their_world) = (number(8 + Token::LEN), number(12 + Token::LEN));
    if &greeting[..8] != MAGIC {
        return Err("it does not speak railgauge's protocol".to_string());
    }
    if !token.matches(&greeting[8..8 + Token::LEN]) {
        return Err("wrong run token".to_string());
    }
    if their_world != world || rank >= world {
        return Err(format!(
            "it is rank {rank} of {their_world}, this run has {world} ranks"
        ));
    }
    Ok(rank)
}
