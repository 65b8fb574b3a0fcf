//! Golden files: the firmware, drivers and settings that the operator requires of parts.
//!
//! ```toml
//! [[nic]]
//! board = "MT_0000000838"              # which parts it is about
//! firmware = ">= 28.39.1002, < 28.44"  # what they should be
//! because = "qualified in October"
//!
//! [[compatible]]
//! when = { nic.firmware = ">= 28.42" }
//! requires = { host.mlx5-driver = ">= 24.07" }
//! because = "release notes: older drivers do not know the new commands"
//! source = "firmware release notes, section 2"
//! ```
//!
//! Of several lines about the same fact of the same part the last one counts. Parsed, then checked: an unknown table, key or fact is an
//! error with file, line and the nearest that is known.

mod facts;
mod version;
mod wanted;

pub use version::Version;
pub use wanted::Wanted;

use facts::{BY_NAME, ClassFacts, KNOWN, WHY};

use super::error::SuiteError;
use super::reader::{Item, Section, Source};
use record::{InventoryPart, PartClass};

/// A golden file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Golden {
    /// The file.
    pub origin: String,
    /// What parts should be, in the order of the file.
    pub entries: Vec<GoldenEntry>,
    /// Which versions need which.
    pub compatible: Vec<Compatibility>,
}

/// Required values of some parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GoldenEntry {
    /// What they are.
    pub class: PartClass,
    nodes: Vec<String>,
    parts: Vec<String>,
    selects: Vec<(String, Wanted)>,
    /// The required values.
    pub lines: Vec<GoldenLine>,
    /// Why, when the file says.
    pub because: Option<String>,
}

/// One fact and what it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GoldenLine {
    /// The fact.
    pub fact: String,
    /// What it should be.
    pub wanted: Wanted,
    /// Line of the file, counted from 1.
    pub line: u32,
    /// The requirement as text.
    pub text: String,
}

/// A requirement on nodes that meet a condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compatibility {
    /// It is about nodes that have all of these.
    pub when: Vec<Condition>,
    /// All of these must hold there.
    pub requires: Vec<Condition>,
    /// Line of the file, counted from 1.
    pub line: u32,
    /// Why.
    pub because: String,
}

/// A fact of a class of parts, and what it is or must be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    /// What the parts are.
    pub class: PartClass,
    /// The fact.
    pub fact: String,
    /// The value.
    pub wanted: Wanted,
}

impl Golden {
    /// Reads and checks the text of a golden file. `origin` is what errors call it.
    pub fn parse(text: &str, origin: &str) -> Result<Golden, SuiteError> {
        let source = Source { origin, text };
        let root = source.parse()?;
        let file = Section::root(source, "a golden file", &root);
        let tables: Vec<String> = KNOWN.iter().map(|known| known.class.to_string()).collect();
        let mut known: Vec<&str> = tables.iter().map(String::as_str).collect();
        known.extend(["compatible", "description"]);
        file.refuse_unknown_keys(&known)?;
        let mut golden = Golden {
            origin: origin.to_string(),
            entries: Vec::new(),
            compatible: Vec::new(),
        };
        if let Some(description) = file.get("description") {
            description.text()?;
        }
        for known in KNOWN {
            let Some(list) = file.get(&known.class.to_string()) else {
                continue;
            };
            for item in list.list(&format!("a list of tables, each written {}", known.title))? {
                golden
                    .entries
                    .push(entry(known, &item.must_be_section(known.title)?)?);
            }
        }
        if let Some(list) = file.get("compatible") {
            for item in list.list("a list of tables, each written [[compatible]]")? {
                golden
                    .compatible
                    .push(compatibility(&item, &item.must_be_section("[[compatible]]")?)?);
            }
        }
        if golden.entries.is_empty() && golden.compatible.is_empty() {
            return Err(source.error(
                0,
                "the golden file requires nothing; write a table such as [[nic]]",
            ));
        }
        Ok(golden)
    }
}

impl GoldenEntry {
    /// Whether it is about this part of this node.
    pub fn selects(&self, node: &str, part: &InventoryPart) -> bool {
        let is_named = |patterns: &[String], name: &str| {
            patterns.is_empty() || patterns.iter().any(|pattern| fits(pattern, name))
        };
        part.class == self.class
            && is_named(&self.nodes, node)
            && is_named(&self.parts, &part.name)
            && self.selects.iter().all(|(fact, wanted)| {
                let value = part.value(fact);
                value.is_some_and(|value| wanted.is_met_by(value))
            })
    }
}

/// Whether a name fits a pattern in which `*` stands for anything.
fn fits(pattern: &str, name: &str) -> bool {
    let mut pieces = pattern.split('*');
    let (first, mut pieces): (&str, Vec<&str>) = (pieces.next().unwrap_or_default(), pieces.collect());
    let Some(last) = pieces.pop() else {
        return pattern == name;
    };
    let Some(mut rest) = name.strip_prefix(first) else {
        return false;
    };
    for piece in pieces {
        let Some(at) = rest.find(piece) else {
            return false;
        };
        rest = &rest[at + piece.len()..];
    }
    rest.ends_with(last)
}

fn entry(known: &ClassFacts, section: &Section<'_>) -> Result<GoldenEntry, SuiteError> {
    let all: Vec<&str> = [known.selects, known.wants, &BY_NAME, &WHY].concat();
    section.refuse_unknown_keys(&all)?;
    let names = |key: &str| -> Result<Vec<String>, SuiteError> {
        let members = section.get(key).map(|item| item.one_or_many()).transpose()?;
        let members = members.unwrap_or_default();
        members
            .iter()
            .map(|item| item.text().map(str::to_string))
            .collect()
    };
    let mut selects = Vec::new();
    for fact in known.selects {
        if let Some(item) = section.get(fact) {
            selects.push((fact.to_string(), Wanted::read(&item)?));
        }
    }
    let mut lines = Vec::new();
    for fact in known.wants {
        if let Some(item) = section.get(fact) {
            let wanted = Wanted::read(&item)?;
            lines.push(GoldenLine {
                fact: fact.to_string(),
                text: format!("{fact} = {wanted}"),
                wanted,
                line: item.line(),
            });
        }
    }
    if lines.is_empty() {
        let facts = known.wants.join(", ");
        return Err(section.error(format!(
            "{} requires nothing; give a value for at least one of: {facts}",
            known.title
        )));
    }
    let texts = WHY
        .iter()
        .map(|key| optional_text(section, key))
        .collect::<Result<Vec<_>, _>>()?;
    Ok(GoldenEntry {
        class: known.class,
        nodes: names("node")?,
        parts: names("part")?,
        selects,
        lines,
        because: with_source(texts),
    })
}

fn compatibility(item: &Item<'_>, section: &Section<'_>) -> Result<Compatibility, SuiteError> {
    section.refuse_unknown_keys(&["when", "requires", "because", "source"])?;
    section.require("because")?;
    let texts = WHY
        .iter()
        .map(|key| optional_text(section, key))
        .collect::<Result<Vec<_>, _>>()?;
    Ok(Compatibility {
        when: conditions(&section.require("when")?, "when")?,
        requires: conditions(&section.require("requires")?, "requires")?,
        line: item.line(),
        because: with_source(texts).unwrap_or_default(),
    })
}

/// `{ nic.firmware = ">= 28.42", host.kernel = "6.8.0" }`.
fn conditions(item: &Item<'_>, title: &'static str) -> Result<Vec<Condition>, SuiteError> {
    const EXAMPLE: &str = "a table such as { nic.firmware = \">= 28.42\" }";
    let section = item.section(title).ok_or_else(|| item.expected(EXAMPLE))?;
    let classes: Vec<String> = KNOWN.iter().map(|known| known.class.to_string()).collect();
    let classes: Vec<&str> = classes.iter().map(String::as_str).collect();
    section.refuse_unknown_keys(&classes)?;
    let mut conditions = Vec::new();
    for known in KNOWN {
        let Some(item) = section.get(&known.class.to_string()) else {
            continue;
        };
        let facts = item.section(known.title).ok_or_else(|| item.expected(EXAMPLE))?;
        let all: Vec<&str> = [known.selects, known.wants].concat();
        facts.refuse_unknown_keys(&all)?;
        for fact in all {
            if let Some(item) = facts.get(fact) {
                conditions.push(Condition {
                    class: known.class,
                    fact: fact.to_string(),
                    wanted: Wanted::read(&item)?,
                });
            }
        }
    }
    match conditions.is_empty() {
        true => Err(item.error(format!("`{title}` names no fact; it must be {EXAMPLE}"))),
        false => Ok(conditions),
    }
}

fn optional_text(section: &Section<'_>, key: &str) -> Result<Option<String>, SuiteError> {
    let item = section.get(key);
    item.map(|item| Ok(item.filled_text()?.to_string())).transpose()
}

/// `because (source)`.
fn with_source(texts: Vec<Option<String>>) -> Option<String> {
    match texts.as_slice() {
        [Some(because), Some(source)] => Some(format!("{because} ({source})")),
        [because, source] => because.clone().or_else(|| source.clone()),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
