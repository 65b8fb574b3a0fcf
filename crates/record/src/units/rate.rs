//! A speed of data.

use std::fmt;
use std::ops::Mul;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::{Bytes, Nanos, ParseError, number_and_unit};

/// Bytes per second. Parses `48 GB/s`, `400 Gb/s`, `200mbit`; prints GB/s (1e9) or the smaller unit that fits.
#[derive(Debug, Clone, Copy, Default, PartialEq, PartialOrd, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct Rate(pub f64);

impl Rate {
    /// What `bytes` in `took` amounts to; none when no time passed.
    pub fn of(bytes: Bytes, took: Nanos) -> Option<Rate> {
        (took.0 > 0).then(|| Rate(bytes.0 as f64 / took.as_secs_f64()))
    }

    /// In GB/s (1e9 bytes per second).
    pub fn gb_per_s(self) -> f64 {
        self.0 / 1e9
    }
}

impl Mul<f64> for Rate {
    type Output = Rate;
    fn mul(self, factor: f64) -> Rate {
        Rate(self.0 * factor)
    }
}

impl FromStr for Rate {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let bad = || ParseError {
            text: text.to_string(),
            what: "rate",
            example: "48 GB/s, 400 Gb/s or 200mbit",
        };
        let (number, unit) = number_and_unit(text).ok_or_else(bad)?;
        let scale = match unit {
            "B/s" => 1.0,
            "kB/s" | "KB/s" => 1e3,
            "MB/s" => 1e6,
            "GB/s" => 1e9,
            "TB/s" => 1e12,
            "kbit" | "kb/s" | "Kb/s" => 1e3 / 8.0,
            "mbit" | "Mb/s" | "Mbit/s" => 1e6 / 8.0,
            "gbit" | "Gb/s" | "Gbit/s" => 1e9 / 8.0,
            _ => return Err(bad()),
        };
        Ok(Rate(number * scale))
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self.0 {
            r if r >= 100e9 => format!("{:.1} GB/s", r / 1e9),
            r if r >= 0.1e9 => format!("{:.2} GB/s", r / 1e9),
            r if r >= 0.1e6 => format!("{:.2} MB/s", r / 1e6),
            r => format!("{:.2} kB/s", r / 1e3),
        };
        f.pad(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_and_bytes_are_not_mixed_up() {
        assert_eq!("400 Gb/s".parse(), Ok(Rate(50e9)));
        assert_eq!("48GB/s".parse(), Ok(Rate(48e9)));
        assert_eq!("200mbit".parse(), Ok(Rate(25e6)));
        assert!("48".parse::<Rate>().is_err());
        assert!("48 GiB".parse::<Rate>().is_err());
    }

    #[test]
    fn a_rate_is_decimal() {
        let rate = Rate::of(Bytes(1_000_000_000), Nanos::from_secs(1)).unwrap();
        assert_eq!(rate.to_string(), "1.00 GB/s");
        assert_eq!(Rate::of(Bytes(1), Nanos(0)), None);
    }
}
