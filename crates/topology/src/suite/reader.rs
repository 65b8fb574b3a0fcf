//! Reading TOML so that every error has its position.
//!
//! A [`Section`] is a table with its title and keys, an [`Item`] a value with its key and position. All errors about a value of
//! the wrong type or out of range are made here, so that they read the same everywhere.

use std::ops::RangeInclusive;
use std::str::FromStr;

use strum::VariantNames;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::{Position, SuiteError};
use super::suggest::{quoted, suggestion};
use record::units::{Nanos, ParseError};

/// The longest name: it becomes part of folder names, table columns and commands.
const LONGEST_NAME: usize = 64;

/// A text and where it comes from.
#[derive(Debug, Clone, Copy)]
pub(super) struct Source<'t> {
    pub origin: &'t str,
    pub text: &'t str,
}

impl<'t> Source<'t> {
    /// Parses the text as TOML, nothing more.
    pub fn parse(self) -> Result<Spanned<DeTable<'t>>, SuiteError> {
        DeTable::parse(self.text).map_err(|error| {
            let offset = error.span().map_or(self.text.len(), |span| span.start);
            let message = error.message().lines().collect::<Vec<_>>().join("; ");
            self.error(offset, message)
        })
    }

    /// An error at byte `offset`.
    pub fn error(self, offset: usize, message: impl Into<String>) -> SuiteError {
        SuiteError {
            origin: self.origin.to_string(),
            at: Some(Position::of_byte(self.text, offset)),
            message: message.into(),
        }
    }
}

/// A table of the file.
#[derive(Clone, Copy)]
pub(super) struct Section<'a> {
    pub source: Source<'a>,
    /// As it is written in the file: `[run]`, `[[test]]`.
    pub title: &'static str,
    pub table: &'a DeTable<'a>,
    start: usize,
}

impl<'a> Section<'a> {
    /// The whole file.
    pub fn root(source: Source<'a>, title: &'static str, table: &'a Spanned<DeTable<'a>>) -> Section<'a> {
        Section {
            source,
            title,
            table: table.get_ref(),
            start: 0,
        }
    }

    /// The value of a key, if it is there.
    pub fn get(&self, key: &str) -> Option<Item<'a>> {
        let (key, value) = self.table.get_key_value(key)?;
        Some(Item {
            source: self.source,
            key: key.get_ref(),
            value,
        })
    }

    /// The value of a key that must be there.
    pub fn require(&self, key: &str) -> Result<Item<'a>, SuiteError> {
        self.get(key)
            .ok_or_else(|| self.error(format!("{} needs `{key}`", self.title)))
    }

    /// The `name` of a suite or a test: letters, digits, `-`, `_` and `.`, because it becomes part of paths and of `--only`.
    pub fn name(&self) -> Result<String, SuiteError> {
        let item = self.require("name")?;
        let text = item.text()?;
        let fits = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        let is_name = text.chars().all(fits) && text.starts_with(|c: char| c.is_ascii_alphanumeric());
        if !is_name || text.len() > LONGEST_NAME {
            return Err(item.expected(&format!(
                "at most {LONGEST_NAME} letters, digits, `-`, `_` and `.`, the first a letter or digit"
            )));
        }
        Ok(text.to_string())
    }

    /// The duration at a key, if it is there; never zero.
    pub fn duration(&self, key: &str) -> Result<Option<Nanos>, SuiteError> {
        self.get(key).map(|item| item.duration()).transpose()
    }

    /// An error about the table as a whole.
    pub fn error(&self, message: impl Into<String>) -> SuiteError {
        self.source.error(self.start, message)
    }

    /// Refuses the first key that is not among `known`.
    pub fn refuse_unknown_keys(&self, known: &[&str]) -> Result<(), SuiteError> {
        let unknown = self
            .table
            .keys()
            .filter(|key| !known.contains(&key.get_ref().as_ref()))
            .min_by_key(|key| key.span().start);
        match unknown {
            None => Ok(()),
            Some(key) => {
                let name = key.get_ref();
                let message = format!(
                    "unknown key {} in {}; {}",
                    quoted(name),
                    self.title,
                    suggestion(name, known)
                );
                Err(self.source.error(key.span().start, message))
            }
        }
    }
}

/// A value of the file.
#[derive(Clone, Copy)]
pub(super) struct Item<'a> {
    pub source: Source<'a>,
    key: &'a str,
    value: &'a Spanned<DeValue<'a>>,
}

impl<'a> Item<'a> {
    /// An error at this value.
    pub fn error(&self, message: impl Into<String>) -> SuiteError {
        self.source.error(self.value.span().start, message)
    }

    /// The line it begins in, counted from 1.
    pub fn line(&self) -> u32 {
        let at = Position::of_byte(self.source.text, self.value.span().start);
        u32::try_from(at.line).unwrap_or(u32::MAX)
    }

    /// An error saying what should have been here.
    pub fn expected(&self, what: &str) -> SuiteError {
        let found = match self.value.get_ref() {
            DeValue::String(text) => format!("the text {}", quoted(text)),
            DeValue::Integer(number) => quoted(&number.to_string()),
            DeValue::Float(number) => quoted(&number.to_string()),
            DeValue::Boolean(flag) => format!("`{flag}`"),
            DeValue::Datetime(_) => "a date".to_string(),
            DeValue::Array(_) => "a list".to_string(),
            DeValue::Table(_) => "a table".to_string(),
        };
        self.error(format!("`{}` must be {what}, found {found}", self.key))
    }

    /// A text.
    pub fn text(&self) -> Result<&'a str, SuiteError> {
        self.value
            .get_ref()
            .as_str()
            .ok_or_else(|| self.expected("a text"))
    }

    /// A text that is not blank, without white space around it.
    pub fn filled_text(&self) -> Result<&'a str, SuiteError> {
        match self.text()?.trim() {
            "" => Err(self.expected("a text that is not empty")),
            text => Ok(text),
        }
    }

    /// `true` or `false`.
    pub fn flag(&self) -> Result<bool, SuiteError> {
        let flag = self.value.get_ref().as_bool();
        flag.ok_or_else(|| self.expected("`true` or `false`"))
    }

    /// The whole number written here, if it is one.
    pub fn integer(&self) -> Option<i128> {
        let number = self.value.get_ref().as_integer()?;
        i128::from_str_radix(number.as_str(), number.radix()).ok()
    }

    /// A whole number within bounds.
    pub fn whole<N>(&self, bounds: RangeInclusive<N>) -> Result<N, SuiteError>
    where
        N: Copy + PartialOrd + std::fmt::Display + TryFrom<i128>,
    {
        let number = self.integer().and_then(|number| N::try_from(number).ok());
        number.filter(|number| bounds.contains(number)).ok_or_else(|| {
            self.expected(&format!(
                "a whole number from {} to {}",
                bounds.start(),
                bounds.end()
            ))
        })
    }

    /// A number, whole or not.
    pub fn number(&self) -> Result<f64, SuiteError> {
        let number = match self.value.get_ref() {
            DeValue::Float(number) => number.as_str().parse().ok(),
            _ => self.integer().map(|number| number as f64),
        };
        number
            .filter(|number: &f64| number.is_finite())
            .ok_or_else(|| self.expected("a number"))
    }

    /// A fraction between `above` and `below`, both excluded, written `5%` or `0.05`.
    pub fn share(&self, above: f64, below: f64) -> Result<f64, SuiteError> {
        let share = match self.value.get_ref() {
            DeValue::String(text) => text
                .trim()
                .strip_suffix('%')
                .and_then(|percent| percent.trim().parse::<f64>().ok())
                .map(|percent| percent / 100.0),
            DeValue::Float(number) => number.as_str().parse().ok(),
            _ => None,
        };
        share
            .filter(|share| *share > above && *share < below)
            .ok_or_else(|| {
                let (above, below) = (above * 100.0, below * 100.0);
                self.expected(&format!(
                    "a percentage above {above}% and below {below}%, such as \"5%\" or 0.05"
                ))
            })
    }

    /// A quantity with its unit, such as a duration.
    pub fn quantity<Q: FromStr<Err = ParseError>>(&self) -> Result<Q, SuiteError> {
        let text = self.text()?;
        text.parse()
            .map_err(|error: ParseError| self.error(format!("`{}`: {error}", self.key)))
    }

    /// A duration that is not zero.
    pub fn duration(&self) -> Result<Nanos, SuiteError> {
        match self.quantity()? {
            Nanos(0) => Err(self.expected("longer than 0")),
            duration => Ok(duration),
        }
    }

    /// A word of a closed set.
    pub fn word<W: FromStr + VariantNames>(&self) -> Result<W, SuiteError> {
        let text = self.text()?;
        text.parse()
            .map_err(|_| self.unknown_word(text, self.key, W::VARIANTS))
    }

    /// An error about a word that is not in a closed set: lists the set and points at the nearest member.
    pub fn unknown_word(&self, word: &str, what: &str, known: &[&str]) -> SuiteError {
        let near = match super::suggest::nearest(word, known.iter().copied()) {
            Some(near) => format!("; did you mean `{near}`?"),
            None => String::new(),
        };
        let known = known.join(", ");
        self.error(format!(
            "unknown {what} {}; known are {known}{near}",
            quoted(word)
        ))
    }

    /// One word of a closed set, or a list of them without repetition.
    pub fn words<W: FromStr + VariantNames + PartialEq>(&self) -> Result<Vec<W>, SuiteError> {
        let mut words = Vec::new();
        for item in self.one_or_many()? {
            let word = item.word()?;
            if words.contains(&word) {
                return Err(item.error(format!("`{}` is listed twice in `{}`", item.text()?, self.key)));
            }
            words.push(word);
        }
        Ok(words)
    }

    /// The members of a list that may not be empty, or this single value.
    pub fn one_or_many(&self) -> Result<Vec<Item<'a>>, SuiteError> {
        match self.value.get_ref() {
            DeValue::Array(_) => self.list("a list"),
            _ => Ok(vec![*self]),
        }
    }

    /// The members of a list that may not be empty.
    pub fn list(&self, what: &str) -> Result<Vec<Item<'a>>, SuiteError> {
        let Some(members) = self.value.get_ref().as_array() else {
            return Err(self.expected(what));
        };
        if members.is_empty() {
            return Err(self.error(format!("`{}` is an empty list", self.key)));
        }
        Ok(members
            .iter()
            .map(|value| Item {
                source: self.source,
                key: self.key,
                value,
            })
            .collect())
    }

    /// This value as a table, if it is one.
    pub fn section(&self, title: &'static str) -> Option<Section<'a>> {
        Some(Section {
            source: self.source,
            title,
            table: self.value.get_ref().as_table()?,
            start: self.value.span().start,
        })
    }

    /// This value, which must be a table.
    pub fn must_be_section(&self, title: &'static str) -> Result<Section<'a>, SuiteError> {
        self.section(title)
            .ok_or_else(|| self.expected(&format!("a table, written {title}")))
    }
}
