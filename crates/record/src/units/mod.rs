//! Quantities as types, so that GB and GiB, bits and bytes, ns and us cannot be mixed up.
//!
//! Stored are bytes and nanoseconds; rates are computed last. GB is 1e9 bytes, Gb/s is 1e9 bit/s. Sizes people type
//! (`64K`, `1M`, `2GiB`) are binary, as in every benchmark of this field.

mod bytes;
mod nanos;
mod rate;

pub use bytes::Bytes;
pub use nanos::Nanos;
pub use rate::Rate;

/// A text that is not the quantity it should be; says what would have been right.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a {what}; write it like {example}")]
pub struct ParseError {
    /// What was given.
    pub text: String,
    /// The kind of quantity expected.
    pub what: &'static str,
    /// Texts that would be accepted.
    pub example: &'static str,
}

/// Splits `12.5 GB/s` into the number and the unit behind it, both trimmed.
fn number_and_unit(text: &str) -> Option<(f64, &str)> {
    let text = text.trim();
    let end = text
        .find(|c: char| !(c.is_ascii_digit() || c == '.'))
        .unwrap_or(text.len());
    let number: f64 = text[..end].parse().ok()?;
    number.is_finite().then_some((number, text[end..].trim_start()))
}
