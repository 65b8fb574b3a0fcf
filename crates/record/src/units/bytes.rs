//! An amount of data.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::{ParseError, number_and_unit};

/// A number of bytes. Parses `8`, `64K`, `1M`, `2GiB` (binary) and `1kB`, `5MB`, `1GB` (decimal); prints binary.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct Bytes(pub u64);

impl Bytes {
    /// As a `usize`, for indexing memory of this machine.
    pub fn as_usize(self) -> usize {
        self.0 as usize
    }
}

impl FromStr for Bytes {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let bad = || ParseError {
            text: text.to_string(),
            what: "size",
            example: "8, 64K, 1M, 2G (binary) or 5MB (decimal)",
        };
        let (number, unit) = number_and_unit(text).ok_or_else(bad)?;
        let scale: u64 = match unit {
            "" | "B" => 1,
            "K" | "k" | "KiB" => 1 << 10,
            "M" | "m" | "MiB" => 1 << 20,
            "G" | "g" | "GiB" => 1 << 30,
            "T" | "t" | "TiB" => 1 << 40,
            "kB" | "KB" => 1_000,
            "MB" => 1_000_000,
            "GB" => 1_000_000_000,
            "TB" => 1_000_000_000_000,
            _ => return Err(bad()),
        };
        let bytes = number * scale as f64;
        if bytes.fract() != 0.0 || bytes > (1u64 << 53) as f64 {
            return Err(bad());
        }
        Ok(Bytes(bytes as u64))
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
        for (unit, shift) in units {
            if self.0 >= 1 << shift {
                let whole = self.0 >> shift;
                let text = if whole << shift == self.0 {
                    format!("{whole} {unit}")
                } else {
                    format!("{:.1} {unit}", self.0 as f64 / (1u64 << shift) as f64)
                };
                return f.pad(&text);
            }
        }
        f.pad(&format!("{} B", self.0))
    }
}

impl Add for Bytes {
    type Output = Bytes;
    fn add(self, other: Bytes) -> Bytes {
        Bytes(self.0 + other.0)
    }
}

impl AddAssign for Bytes {
    fn add_assign(&mut self, other: Bytes) {
        self.0 += other.0;
    }
}

impl Sum for Bytes {
    fn sum<I: Iterator<Item = Bytes>>(items: I) -> Bytes {
        Bytes(items.map(|bytes| bytes.0).sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_as_people_type_them_are_binary() {
        let cases = [
            ("8", 8),
            ("64K", 65_536),
            ("1M", 1 << 20),
            ("2GiB", 2 << 30),
            ("5MB", 5_000_000),
            ("1.5K", 1536),
        ];
        for (text, bytes) in cases {
            assert_eq!(text.parse(), Ok(Bytes(bytes)), "{text}");
        }
    }

    #[test]
    fn a_wrong_size_says_how_to_write_one() {
        for text in ["", "K", "1X", "-1", "1.3", "1e3", "nan", "99999999T"] {
            let error = text.parse::<Bytes>().unwrap_err().to_string();
            assert!(error.contains("64K"), "{text}: {error}");
        }
    }

    #[test]
    fn printing_keeps_exact_powers_whole() {
        assert_eq!(Bytes(65_536).to_string(), "64 KiB");
        assert_eq!(Bytes(1000).to_string(), "1000 B");
        assert_eq!(Bytes(1536).to_string(), "1.5 KiB");
    }
}
