//! The value that a line of a golden file requires: one text, one of several, or versions within bounds.

use std::fmt;

use super::super::error::SuiteError;
use super::super::reader::Item;
use super::super::suggest::quoted;
use super::version::Version;

/// What a value must be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wanted {
    /// This text.
    Exactly(String),
    /// A version within all of these bounds.
    Within(Vec<VersionBound>),
    /// Any of these.
    OneOf(Vec<Wanted>),
}

/// One end of a range of versions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionBound {
    comparison: Comparison,
    text: String,
    version: Version,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Comparison {
    AtLeast,
    Above,
    AtMost,
    Below,
    Not,
    Equal,
}

/// The sign of each, the longer ones first.
const COMPARISONS: [(&str, Comparison); 6] = [
    (">=", Comparison::AtLeast),
    ("<=", Comparison::AtMost),
    ("!=", Comparison::Not),
    (">", Comparison::Above),
    ("<", Comparison::Below),
    ("=", Comparison::Equal),
];

impl Wanted {
    /// Reads a text, a whole number, or a list of these.
    pub(super) fn read(item: &Item<'_>) -> Result<Wanted, SuiteError> {
        let members = item.one_or_many()?;
        let mut wanted: Vec<Wanted> = members.iter().map(one).collect::<Result<_, _>>()?;
        Ok(match wanted.len() {
            1 => wanted.remove(0),
            _ => Wanted::OneOf(wanted),
        })
    }

    /// Whether a value is as wanted. A value without a number is within no bounds.
    pub fn is_met_by(&self, value: &str) -> bool {
        match self {
            Wanted::Exactly(text) => value.trim() == text,
            Wanted::Within(bounds) => {
                let version = Version::parse(value);
                version.is_some_and(|version| bounds.iter().all(|bound| bound.holds(&version)))
            }
            Wanted::OneOf(wanted) => wanted.iter().any(|wanted| wanted.is_met_by(value)),
        }
    }
}

impl VersionBound {
    fn holds(&self, version: &Version) -> bool {
        let order = version.cmp(&self.version);
        match self.comparison {
            Comparison::AtLeast => order.is_ge(),
            Comparison::Above => order.is_gt(),
            Comparison::AtMost => order.is_le(),
            Comparison::Below => order.is_lt(),
            Comparison::Not => order.is_ne(),
            Comparison::Equal => order.is_eq(),
        }
    }
}

fn one(item: &Item<'_>) -> Result<Wanted, SuiteError> {
    if let Some(number) = item.integer() {
        return Ok(Wanted::Exactly(number.to_string()));
    }
    let text = item.filled_text()?;
    let is_range = COMPARISONS.iter().any(|(sign, _)| text.starts_with(sign));
    match is_range {
        false => Ok(Wanted::Exactly(text.to_string())),
        true => {
            let bounds = text.split(',').map(|part| bound(item, part.trim()));
            Ok(Wanted::Within(bounds.collect::<Result<_, _>>()?))
        }
    }
}

fn bound(item: &Item<'_>, part: &str) -> Result<VersionBound, SuiteError> {
    let signed = COMPARISONS
        .iter()
        .find_map(|(sign, comparison)| Some((*comparison, part.strip_prefix(sign)?.trim())));
    let Some((comparison, text)) = signed else {
        return Err(item.error(format!(
            "{} in a range must begin with one of >= > <= < != =, as in \">= 28.39, < 28.44\"",
            quoted(part)
        )));
    };
    let Some(version) = Version::parse(text) else {
        return Err(item.error(format!(
            "{} is not a version: it has no number to compare",
            quoted(text)
        )));
    };
    Ok(VersionBound {
        comparison,
        text: text.to_string(),
        version,
    })
}

impl fmt::Display for Wanted {
    /// `28.43.2026`, `>= 28.39, < 28.44`, `a or b`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Wanted::Exactly(text) => f.write_str(text),
            Wanted::Within(bounds) => {
                let parts: Vec<String> = bounds.iter().map(VersionBound::to_string).collect();
                f.write_str(&parts.join(", "))
            }
            Wanted::OneOf(wanted) => {
                let parts: Vec<String> = wanted.iter().map(Wanted::to_string).collect();
                f.write_str(&parts.join(" or "))
            }
        }
    }
}

impl fmt::Display for VersionBound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = COMPARISONS
            .iter()
            .find(|(_, comparison)| *comparison == self.comparison);
        write!(f, "{} {}", sign.map_or("", |(sign, _)| sign), self.text)
    }
}
