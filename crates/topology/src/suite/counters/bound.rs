//! The limit of a counter rule and its written form.

use std::fmt;

use strum::{Display, EnumString, VariantNames};

use crate::suite::suggest::{quoted, suggestion};
use record::units::Nanos;

/// What a rate is a rate of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Display, EnumString, VariantNames)]
#[strum(serialize_all = "kebab-case")]
pub enum Per {
    /// Time.
    Second,
    /// Time.
    Minute,
    /// Time.
    Hour,
    /// Packets that were sent and received.
    Packet,
    /// Bits that the link could carry, or did.
    Bit,
}

/// The movement of a counter beyond which a rule is broken.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Bound {
    /// One.
    Any,
    /// More than this rate.
    Rate {
        /// How many are still accepted.
        most: f64,
        /// Of what.
        per: Per,
    },
    /// This many or more within some time.
    Within {
        /// How many.
        count: u64,
        /// Within which time.
        window: Nanos,
    },
    /// More than this share of the time, of what counts time.
    ShareOfTime(f64),
}

impl Bound {
    /// Reads `any`, `10 per second`, `1e-12 per bit`, `3 within 12h`, `1% of time`; the error says how to write it.
    pub fn parse(text: &str) -> Result<Bound, String> {
        let text = text.trim();
        let wrong = || {
            let forms = "\"any\", \"10 per second\", \"1e-12 per bit\", \"3 within 12h\" or \"1% of time\"";
            format!("must be written like {forms}, found {}", quoted(text))
        };
        if text == "any" {
            return Ok(Bound::Any);
        }
        if let Some((count, window)) = text.split_once(" within ") {
            let count = count
                .trim()
                .parse()
                .ok()
                .filter(|count| *count > 0)
                .ok_or_else(wrong)?;
            let window: Nanos = window.trim().parse().map_err(|_| wrong())?;
            let window = Some(window).filter(|window| window.0 > 0).ok_or_else(wrong)?;
            return Ok(Bound::Within { count, window });
        }
        let number = |text: &str| {
            text.trim()
                .parse()
                .ok()
                .filter(|number: &f64| number.is_finite() && *number > 0.0)
        };
        if let Some(percent) = text.strip_suffix(" of time") {
            let percent = percent.trim().strip_suffix('%').and_then(number);
            let percent = percent.filter(|percent| *percent < 100.0).ok_or_else(wrong)?;
            return Ok(Bound::ShareOfTime(percent / 100.0));
        }
        let (most, per) = text.split_once(" per ").ok_or_else(wrong)?;
        let per = per.trim();
        Ok(Bound::Rate {
            most: number(most).ok_or_else(wrong)?,
            per: per
                .parse()
                .map_err(|_| format!("is per {}; {}", quoted(per), suggestion(per, Per::VARIANTS)))?,
        })
    }
}

impl fmt::Display for Bound {
    /// As it is written in a file.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Bound::Any => "any".to_string(),
            Bound::Rate { most, per } => format!("{} per {per}", in_short(*most)),
            Bound::Within { count, window } => format!("{count} within {}", written(*window)),
            Bound::ShareOfTime(share) => format!("{}% of time", in_short(share * 100.0)),
        };
        f.pad(&text)
    }
}

/// A small or large number as people write it: `1e-12`, `0.001`, `120`, `4.1e-9`.
pub fn in_short(number: f64) -> String {
    let size = number.abs();
    match size {
        _ if !(0.001..1e6).contains(&size) && size > 0.0 => {
            let text = format!("{number:.1e}");
            text.replace(".0e", "e")
        }
        _ if size >= 100.0 || number.fract() == 0.0 => format!("{number:.0}"),
        _ => {
            let decimals = if size < 0.1 { 4 } else { 2 };
            let text = format!("{number:.decimals$}");
            text.trim_end_matches('0').trim_end_matches('.').to_string()
        }
    }
}

fn written(window: Nanos) -> String {
    let seconds = window.0 / 1_000_000_000;
    match seconds {
        _ if !window.0.is_multiple_of(1_000_000_000) => format!("{}ns", window.0),
        _ if seconds.is_multiple_of(3600) => format!("{}h", seconds / 3600),
        _ if seconds.is_multiple_of(60) => format!("{}m", seconds / 60),
        _ => format!("{seconds}s"),
    }
}
