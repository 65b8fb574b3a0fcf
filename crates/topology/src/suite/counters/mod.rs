//! Rules about counters: how much movement is too much, what it means, what to do, and the source of the limit.
//!
//! The built-in rules are `suites/counters.toml`; a run can be given others. A rule that lacks a field is refused, as is one about a
//! counter that is never read.

mod bound;

use std::path::Path;
use std::sync::LazyLock;

use strum::{Display, EnumString, VariantNames};

pub use bound::{Bound, Per, in_short};

use super::error::SuiteError;
use super::reader::{Item, Section, Source};
use record::counters::{COUNTERS, Counter, CounterKind, CounterUnit, named};

const BUILT_IN: Source<'static> = Source {
    origin: "suites/counters.toml",
    text: include_str!("../../../../../suites/counters.toml"),
};

/// A file larger than this is not a file of rules.
const LARGEST_FILE: u64 = 1 << 20;

const RULE_KEYS: &[&str] = &["name", "counters", "bound", "severity", "means", "do", "source"];

/// How bad it is to break a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Display, EnumString, VariantNames)]
#[strum(serialize_all = "kebab-case")]
pub enum Severity {
    /// Reported beside a slow part; not a finding by itself.
    Suspicious,
    /// A finding.
    Bad,
}

/// How much movement of some counters is too much.
#[derive(Debug, Clone, PartialEq)]
pub struct CounterRule {
    /// Its name; unique.
    pub name: String,
    /// The counters, as the catalogue names them.
    pub counters: Vec<&'static Counter>,
    /// How much is too much.
    pub bound: Bound,
    /// How bad it is to break it.
    pub severity: Severity,
    /// What it says about the part.
    pub means: String,
    /// What to do.
    pub action: String,
    /// The source of the limit.
    pub source: String,
}

impl CounterRule {
    /// Whether it is about the counter of that name.
    pub fn is_about(&self, counter: &str) -> bool {
        self.counters.iter().any(|known| known.is_called(counter))
    }

    /// Its name as words: `symbol errors`.
    pub fn words(&self) -> String {
        self.name.replace('-', " ")
    }
}

/// The built-in rules.
pub fn built_in() -> &'static [CounterRule] {
    static RULES: LazyLock<Vec<CounterRule>> = LazyLock::new(|| {
        // A test makes sure that they can be read.
        read(BUILT_IN).unwrap_or_default()
    });
    &RULES
}

/// The rules in a text; errors name `origin`, the line, and the nearest known word.
pub fn parse(text: &str, origin: &str) -> Result<Vec<CounterRule>, SuiteError> {
    read(Source { origin, text })
}

/// Reads a file of rules, checks it and returns its text.
pub fn load(path: &Path) -> Result<String, SuiteError> {
    let origin = path.display().to_string();
    let error = |message: String| SuiteError {
        origin: origin.clone(),
        at: None,
        message,
    };
    let metadata = std::fs::metadata(path).map_err(|cause| error(format!("cannot be read: {cause}")))?;
    if !metadata.is_file() || metadata.len() > LARGEST_FILE {
        return Err(error(
            "is not a file of counter rules, or is larger than 1 MiB".to_string(),
        ));
    }
    let text = std::fs::read_to_string(path).map_err(|cause| error(format!("cannot be read: {cause}")))?;
    parse(&text, &origin)?;
    Ok(text)
}

fn read(source: Source<'_>) -> Result<Vec<CounterRule>, SuiteError> {
    let root = source.parse()?;
    let file = Section::root(source, "a file of counter rules", &root);
    file.refuse_unknown_keys(&["rule"])?;
    let mut rules: Vec<CounterRule> = Vec::new();
    let tables = file.require("rule")?;
    for item in tables.list("a list of tables, each written [[rule]]")? {
        let rule = read_rule(&item.must_be_section("[[rule]]")?)?;
        if rules.iter().any(|other| other.name == rule.name) {
            return Err(item.error(format!("two rules have the name `{}`", rule.name)));
        }
        rules.push(rule);
    }
    Ok(rules)
}

fn read_rule(section: &Section<'_>) -> Result<CounterRule, SuiteError> {
    section.refuse_unknown_keys(RULE_KEYS)?;
    let text = |key: &str| {
        let text = section.require(key)?.filled_text()?;
        Ok::<_, SuiteError>(text.to_string())
    };
    let bound = section.require("bound")?;
    let rule = CounterRule {
        name: text("name")?,
        counters: read_counters(&section.require("counters")?)?,
        bound: Bound::parse(bound.text()?).map_err(|why| bound.error(format!("`bound` {why}")))?,
        severity: section.require("severity")?.word()?,
        means: text("means")?,
        action: text("do")?,
        source: text("source")?,
    };
    for counter in &rule.counters {
        let is_flap = counter.kind == CounterKind::Flap;
        let is_of_ports = match rule.bound {
            Bound::Any
            | Bound::Rate {
                per: Per::Second | Per::Minute | Per::Hour,
                ..
            } => false,
            Bound::Rate { .. } | Bound::Within { .. } | Bound::ShareOfTime(_) => true,
        };
        if is_of_ports && counter.kind == CounterKind::Gpu {
            let name = counter.name;
            return Err(bound.error(format!(
                "`{name}` is counted by a GPU; use \"any\" or a rate of time"
            )));
        }
        if matches!(rule.bound, Bound::ShareOfTime(_)) && counter.unit != CounterUnit::Microseconds {
            return Err(bound.error(format!("`{}` does not count time", counter.name)));
        }
        if matches!(rule.bound, Bound::Within { .. }) && !is_flap {
            let name = counter.name;
            return Err(bound.error(format!("`{name}` does not count links going down; use a rate")));
        }
        if matches!(rule.bound, Bound::Rate { .. } | Bound::ShareOfTime(_)) && is_flap {
            let name = counter.name;
            return Err(bound.error(format!(
                "`{name}` counts links going down; use \"any\" or \"3 within 12h\""
            )));
        }
    }
    Ok(rule)
}

fn read_counters(item: &Item<'_>) -> Result<Vec<&'static Counter>, SuiteError> {
    let mut counters = Vec::new();
    for item in item.one_or_many()? {
        let name = item.text()?;
        let known: Vec<&str> = COUNTERS.iter().map(|counter| counter.name).collect();
        let counter = named(name).ok_or_else(|| item.unknown_word(name, "counter", &known))?;
        if counter.kind == CounterKind::Traffic {
            return Err(item.error(format!("`{name}` counts traffic, which is never too much")));
        }
        counters.push(counter);
    }
    Ok(counters)
}

#[cfg(test)]
mod tests;
