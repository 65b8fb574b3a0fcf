//! The run's secret token: a process that presents it belongs to this run.

use std::fmt;
use std::str::FromStr;

use subtle::ConstantTimeEq;

/// 32 random bytes, new for every run. Never printed, never recorded.
#[derive(Clone, Copy)]
pub struct Token([u8; Token::LEN]);

/// A text that is not a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the run token must be {} hexadecimal digits", Token::LEN * 2)]
pub struct BadToken;

impl Token {
    /// Bytes in a token.
    pub const LEN: usize = 32;

    /// A new token from the system's random source.
    pub fn generate() -> std::io::Result<Token> {
        let mut bytes = [0; Token::LEN];
        getrandom::fill(&mut bytes).map_err(|error| std::io::Error::other(error.to_string()))?;
        Ok(Token(bytes))
    }

    /// A token that was made elsewhere.
    pub fn from_bytes(bytes: [u8; Token::LEN]) -> Token {
        Token(bytes)
    }

    /// The bytes, for presenting on a connection.
    pub fn as_bytes(&self) -> &[u8; Token::LEN] {
        &self.0
    }

    /// Whether `presented` is this token; takes the same time whatever it is.
    pub fn matches(&self, presented: &[u8]) -> bool {
        self.0.as_slice().ct_eq(presented).into()
    }

    /// As hexadecimal digits, for handing to a child process.
    pub fn to_hex(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl FromStr for Token {
    type Err = BadToken;

    fn from_str(text: &str) -> Result<Token, BadToken> {
        let text = text.trim();
        if text.len() != Token::LEN * 2 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(BadToken);
        }
        let mut bytes = [0; Token::LEN];
        for (index, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[index * 2..index * 2 + 2], 16).map_err(|_| BadToken)?;
        }
        Ok(Token(bytes))
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(secret)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_survives_the_environment_and_matches_only_itself() {
        let token = Token::generate().unwrap();
        let again: Token = token.to_hex().parse().unwrap();
        assert!(again.matches(token.as_bytes()));
        assert!(!again.matches(Token::generate().unwrap().as_bytes()));
        assert!(!again.matches(&token.as_bytes()[..31]));
    }

    #[test]
    fn a_token_is_never_printed_by_accident() {
        let token = Token::generate().unwrap();
        assert!(!format!("{token:?}").contains(&token.to_hex()[..8]));
        assert!("zz".parse::<Token>().is_err());
        assert!("é".repeat(32).parse::<Token>().is_err());
    }
}
