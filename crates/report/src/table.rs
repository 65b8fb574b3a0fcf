//! Tables of a report, defined once and written in every format.
//!
//! Held true: an entry is text until a format has made it inert; what colour shows is also in the text.

use std::fmt::{Display, Error, Write};

use super::escape::markdown as inert;
use crate::verdict_words::verdict_words;
use record::Verdict;

/// Rows with what they are about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Table {
    /// What the rows are, in a few words.
    pub(super) caption: String,
    /// The columns.
    pub(super) columns: Vec<Column>,
    /// The entries, each row with one for every column.
    pub(super) rows: Vec<Vec<Entry>>,
}

/// A column of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Column {
    /// Its name.
    pub(super) name: String,
    /// Whether it holds numbers, which are right-aligned.
    pub(super) is_figure: bool,
}

/// A column of words.
pub(super) fn text(name: &str) -> Column {
    Column {
        name: name.to_string(),
        is_figure: false,
    }
}

/// A column of figures.
pub(super) fn figure(name: &str) -> Column {
    Column {
        name: name.to_string(),
        is_figure: true,
    }
}

/// What an entry means, for formats that have colour.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Tone {
    /// A fact.
    #[default]
    Plain,
    /// As it should be.
    Good,
    /// Not as it should be.
    Bad,
    /// Unknown.
    Unclear,
}

impl Tone {
    /// What a verdict means.
    pub(super) fn of(verdict: &Verdict) -> Tone {
        match verdict {
            Verdict::Pass => Tone::Good,
            Verdict::Fail(_) => Tone::Bad,
            Verdict::Inconclusive(_) | Verdict::NotRun(_) => Tone::Unclear,
        }
    }
}

/// One entry of a table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Entry {
    /// What it says, not escaped.
    pub(super) text: String,
    /// What it means.
    pub(super) tone: Tone,
    /// Whether every letter of it is ours: then Markdown shows it as it is.
    is_ours: bool,
}

impl Entry {
    /// A figure or words of ours, in which nothing came from another machine.
    pub(super) fn ours(text: impl Display) -> Entry {
        Entry {
            text: text.to_string(),
            is_ours: true,
            ..Entry::default()
        }
    }

    /// A figure of ours, or a dash where there is none.
    pub(super) fn or_dash(figure: Option<impl Display>) -> Entry {
        figure.map_or_else(|| Entry::ours("-"), Entry::ours)
    }

    /// A verdict and its reason.
    pub(super) fn verdict(verdict: &Verdict) -> Entry {
        let entry = match verdict_words(verdict) {
            (word, Some(why)) => Entry::from(format!("{word}: {why}")),
            (word, None) => Entry::ours(word),
        };
        entry.toned(Tone::of(verdict))
    }

    /// The same, with a meaning.
    pub(super) fn toned(self, tone: Tone) -> Entry {
        Entry { tone, ..self }
    }
}

impl From<&str> for Entry {
    fn from(text: &str) -> Entry {
        Entry::from(text.to_string())
    }
}

impl From<&String> for Entry {
    fn from(text: &String) -> Entry {
        Entry::from(text.clone())
    }
}

impl From<String> for Entry {
    fn from(text: String) -> Entry {
        Entry {
            text,
            ..Entry::default()
        }
    }
}

impl Table {
    /// A table without rows.
    pub(super) fn new(caption: impl Into<String>, columns: impl Into<Vec<Column>>) -> Table {
        Table {
            caption: caption.into(),
            columns: columns.into(),
            rows: Vec::new(),
        }
    }

    /// One more row.
    pub(super) fn row(&mut self, entries: impl Into<Vec<Entry>>) {
        self.rows.push(entries.into());
    }

    /// Head and rows as Markdown; the caption is left to the heading above it.
    pub(super) fn markdown(&self, out: &mut String) -> Result<(), Error> {
        let names: Vec<String> = self.columns.iter().map(|column| inert(&column.name)).collect();
        let rulers: Vec<&str> = self
            .columns
            .iter()
            .map(|column| if column.is_figure { "--:" } else { "---" })
            .collect();
        writeln!(out, "| {} |\n|{}|", names.join(" | "), rulers.join("|"))?;
        for row in &self.rows {
            let entries: Vec<String> = row.iter().map(markdown_of).collect();
            writeln!(out, "| {} |", entries.join(" | "))?;
        }
        Ok(())
    }
}

fn markdown_of(entry: &Entry) -> String {
    match entry.is_ours {
        true => entry.text.clone(),
        false => inert(&entry.text),
    }
}

/// `0-3, 7, 9-11` of ascending numbers.
pub(super) fn ranges(numbers: &[u32]) -> String {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for number in numbers {
        match runs.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(*number) => *last = *number,
            _ => runs.push((*number, *number)),
        }
    }
    let ranges = runs.iter().map(|(first, last)| match last - first {
        0 => first.to_string(),
        1 => format!("{first}, {last}"),
        _ => format!("{first}-{last}"),
    });
    ranges.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_stays_in_its_entry_and_our_own_figures_stay_readable() {
        let mut table = Table::new("rates", [text("who"), figure("rate")]);
        table.row(["a | b".into(), Entry::ours("1.00 GB/s [0.99, 1.01]")]);
        table.row([
            Entry::verdict(&Verdict::Fail("too | slow".into())),
            Entry::or_dash(None::<u32>),
        ]);
        let mut out = String::new();
        table.markdown(&mut out).unwrap();
        assert_eq!(
            out,
            "| who | rate |\n|---|--:|\n| a \\| b | 1.00 GB/s [0.99, 1.01] |\n| fail: too \\| slow | - |\n"
        );
    }

    #[test]
    fn a_long_list_of_numbers_loses_none_of_them() {
        assert_eq!(
            ranges(&[0, 1, 2, 3, 7, 9, 10, u32::MAX]),
            "0-3, 7, 9, 10, 4294967295"
        );
        assert_eq!(ranges(&[]), "");
    }
}
