//! A span of time, or an instant on a monotonic clock.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, Sub};
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{ParseError, number_and_unit};

/// Whole nanoseconds. Parses `250us`, `30s`, `15m`, `24h`; prints three significant digits with the unit that fits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct Nanos(pub u64);

impl Nanos {
    /// This many seconds.
    pub const fn from_secs(seconds: u64) -> Nanos {
        Nanos(seconds * 1_000_000_000)
    }

    /// In seconds, for computing rates.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// In microseconds, the unit latencies are read in.
    pub fn as_micros_f64(self) -> f64 {
        self.0 as f64 / 1e3
    }

    /// As people say how long something took: `45s`, `10m`, `1m 05s`, `3h 05m`, `24h`.
    pub fn in_words(self) -> String {
        let seconds = self.0 / 1_000_000_000;
        match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
            (0, 0, seconds) => format!("{seconds}s"),
            (0, minutes, 0) => format!("{minutes}m"),
            (0, minutes, seconds) => format!("{minutes}m {seconds:02}s"),
            (hours, 0, _) => format!("{hours}h"),
            (hours, minutes, _) => format!("{hours}h {minutes:02}m"),
        }
    }

    /// The distance to `earlier`; zero when that is not earlier.
    pub fn since(self, earlier: Nanos) -> Nanos {
        Nanos(self.0.saturating_sub(earlier.0))
    }
}

impl From<Duration> for Nanos {
    fn from(duration: Duration) -> Nanos {
        Nanos(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl From<Nanos> for Duration {
    fn from(nanos: Nanos) -> Duration {
        Duration::from_nanos(nanos.0)
    }
}

impl Add for Nanos {
    type Output = Nanos;
    fn add(self, other: Nanos) -> Nanos {
        Nanos(self.0.saturating_add(other.0))
    }
}

impl Sub for Nanos {
    type Output = Nanos;
    fn sub(self, other: Nanos) -> Nanos {
        self.since(other)
    }
}

impl Sum for Nanos {
    fn sum<I: Iterator<Item = Nanos>>(items: I) -> Nanos {
        items.fold(Nanos(0), Nanos::add)
    }
}

impl FromStr for Nanos {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let bad = || ParseError {
            text: text.to_string(),
            what: "duration",
            example: "250us, 500ms, 30s, 15m or 24h",
        };
        let (number, unit) = number_and_unit(text).ok_or_else(bad)?;
        let scale = match unit {
            "ns" => 1.0,
            "us" | "µs" => 1e3,
            "ms" => 1e6,
            "s" => 1e9,
            "m" | "min" => 60e9,
            "h" => 3600e9,
            "d" => 86_400e9,
            _ => return Err(bad()),
        };
        let nanos = (number * scale).round();
        if nanos > (1u64 << 62) as f64 {
            return Err(bad());
        }
        Ok(Nanos(nanos as u64))
    }
}

impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.0 as f64;
        let text = match self.0 {
            0..1_000 => format!("{} ns", self.0),
            1_000..1_000_000 => three_digits(nanos / 1e3, "us"),
            1_000_000..1_000_000_000 => three_digits(nanos / 1e6, "ms"),
            1_000_000_000..120_000_000_000 => three_digits(nanos / 1e9, "s"),
            120_000_000_000..7_200_000_000_000 => three_digits(nanos / 60e9, "min"),
            _ => three_digits(nanos / 3600e9, "h"),
        };
        f.pad(&text)
    }
}

/// Three significant digits and a unit.
fn three_digits(value: f64, unit: &str) -> String {
    let decimals = match value {
        v if v >= 100.0 => 0,
        v if v >= 10.0 => 1,
        _ => 2,
    };
    format!("{value:.decimals$} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_spans_read_as_people_say_them() {
        let words = |seconds: u64| Nanos::from_secs(seconds).in_words();
        assert_eq!([words(45), words(600), words(65)], ["45s", "10m", "1m 05s"]);
        assert_eq!(
            [words(3 * 3600 + 300), words(86_400), words(0)],
            ["3h 05m", "24h", "0s"]
        );
    }

    #[test]
    fn durations_need_a_unit_and_say_so() {
        assert_eq!("250us".parse(), Ok(Nanos(250_000)));
        assert_eq!("1.5s".parse(), Ok(Nanos(1_500_000_000)));
        assert_eq!("24h".parse(), Ok(Nanos::from_secs(86_400)));
        for text in ["", "5", "s", "-1s", "1 week", "9999999999h"] {
            let error = text.parse::<Nanos>().unwrap_err().to_string();
            assert!(error.contains("30s"), "{text}: {error}");
        }
    }

    #[test]
    fn printing_picks_the_unit_a_reader_expects() {
        let cases = [
            (17, "17 ns"),
            (1_234, "1.23 us"),
            (45_600_000, "45.6 ms"),
            (3_000_000_000, "3.00 s"),
            (600_000_000_000, "10.0 min"),
        ];
        for (nanos, text) in cases {
            assert_eq!(Nanos(nanos).to_string(), text);
        }
    }
}
