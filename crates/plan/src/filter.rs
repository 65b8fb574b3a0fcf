//! `--only`: a condition of a plan, in the words a finding uses.
//!
//! `rail=rail1,pair=0:1` keeps the cells for which all conditions hold; `size=1M|64M` holds for either. Values are checked when
//! they are typed; that a filter matches nothing is found out by the plan, which then says what there is.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use strum::{Display, EnumString, IntoStaticStr, VariantNames};

use record::units::Bytes;
use record::{Algorithm, Cell, Collective, DType, Engine, Placement, ReduceOp, TransportKind};
use topology::Fabric;
use topology::suite::{quoted, suggestion};

/// More values than this are not listed in an error.
const MOST_LISTED: usize = 12;

/// A filter that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("--only: {0}")]
pub struct FilterError(String);

/// What a condition of a filter looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Display, EnumString, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "kebab-case")]
enum Key {
    Test,
    Cell,
    Collective,
    Algorithm,
    Size,
    Type,
    Op,
    Placement,
    Transport,
    Engine,
    Rail,
    Pair,
    Rank,
    Pattern,
}

/// One end of a pair.
#[derive(Debug, Clone, PartialEq, Eq)]
enum End {
    Rank(u32),
    Host(String),
}

impl End {
    fn is(&self, rank: u32, fabric: &Fabric) -> bool {
        match self {
            End::Rank(wanted) => *wanted == rank,
            End::Host(wanted) => fabric.rank(rank).is_some_and(|record| record.host == *wanted),
        }
    }
}

/// One value a condition accepts.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Value {
    Test(String),
    Cell(u32),
    Collective(Collective),
    Algorithm(Algorithm),
    Size(Bytes),
    Type(DType),
    Op(ReduceOp),
    Placement(Placement),
    Transport(TransportKind),
    Engine(Engine),
    Rail(String),
    Pair(End, End),
    Rank(End),
    Pattern(String),
}

impl Value {
    fn parse(key: Key, text: &str) -> Result<Value, FilterError> {
        let number = || text.parse::<u32>().map_err(|_| wrong(key, text, "a number"));
        Ok(match key {
            Key::Test => Value::Test(text.to_string()),
            Key::Rail => Value::Rail(text.to_string()),
            Key::Pattern => Value::Pattern(text.to_string()),
            Key::Cell => Value::Cell(number()?),
            Key::Collective => Value::Collective(word(key, text)?),
            Key::Algorithm => Value::Algorithm(word(key, text)?),
            Key::Type => Value::Type(word(key, text)?),
            Key::Op => Value::Op(word(key, text)?),
            Key::Placement => Value::Placement(word(key, text)?),
            Key::Transport => Value::Transport(word(key, text)?),
            Key::Engine => Value::Engine(word(key, text)?),
            Key::Size => Value::Size(
                text.parse()
                    .map_err(|error| FilterError(format!("{key}: {error}")))?,
            ),
            Key::Rank => Value::Rank(end(text)),
            Key::Pair => match text.split_once(':') {
                Some((a, b)) if !a.is_empty() && !b.is_empty() => Value::Pair(end(a), end(b)),
                _ => {
                    return Err(wrong(
                        key,
                        text,
                        "two ranks or hosts such as 0:1 or node07:node12",
                    ));
                }
            },
        })
    }

    fn holds_for(&self, cell: &Cell, fabric: &Fabric) -> bool {
        match self {
            Value::Test(name) => cell.test == *name,
            Value::Cell(id) => cell.id == *id,
            Value::Collective(collective) => cell.collective == *collective,
            Value::Algorithm(algorithm) => cell.algorithm == *algorithm,
            Value::Size(size) => cell.size == *size,
            Value::Type(dtype) => cell.dtype == *dtype,
            Value::Op(op) => cell.op == *op,
            Value::Placement(placement) => cell.placement == *placement,
            Value::Transport(transport) => cell.transport == *transport,
            Value::Engine(engine) => cell.engine == *engine,
            Value::Rail(rail) => cell.rails.contains(rail) || cell.to_rail.as_ref() == Some(rail),
            Value::Pattern(name) => pattern_of(cell) == Some(name),
            Value::Rank(end) => cell.ranks.iter().any(|rank| end.is(*rank, fabric)),
            Value::Pair(a, b) => match cell.ranks.as_slice() {
                [x, y] => {
                    let meet = |x, y| a.is(x, fabric) && b.is(y, fabric);
                    meet(*x, *y) || meet(*y, *x)
                }
                _ => false,
            },
        }
    }
}

/// The pattern of traffic that a cell is part of, by name.
fn pattern_of(cell: &Cell) -> Option<&String> {
    let pattern = cell.streams.as_ref()?.pattern.as_ref()?;
    Some(&pattern.name)
}

/// One condition of a filter: a key and the values it accepts.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Condition {
    key: Key,
    text: String,
    values: Vec<Value>,
}

impl Condition {
    fn holds_for(&self, cell: &Cell, fabric: &Fabric) -> bool {
        self.values.iter().any(|value| value.holds_for(cell, fabric))
    }
}

/// Which cells of a plan to keep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filter {
    conditions: Vec<Condition>,
}

impl Filter {
    /// Whether all conditions hold for a cell.
    pub fn matches(&self, cell: &Cell, fabric: &Fabric) -> bool {
        self.conditions
            .iter()
            .all(|condition| condition.holds_for(cell, fabric))
    }

    /// Why nothing matched: the condition that matches nothing by itself and what it could have matched.
    pub(super) fn what_there_is(&self, cells: &[Cell], fabric: &Fabric) -> String {
        let dead = |condition: &&Condition| !cells.iter().any(|cell| condition.holds_for(cell, fabric));
        match self.conditions.iter().find(dead) {
            Some(condition) => format!(
                "{}: there is {}",
                condition.text,
                listed(condition.key, cells, fabric)
            ),
            None => "each of its conditions matches some cell, but no cell matches all".to_string(),
        }
    }
}

impl FromStr for Filter {
    type Err = FilterError;

    fn from_str(text: &str) -> Result<Filter, FilterError> {
        let mut conditions: Vec<Condition> = Vec::new();
        for condition in text.split(',').map(str::trim) {
            let Some((name, values)) = condition.split_once('=') else {
                return Err(FilterError(format!(
                    "{} is not KEY=VALUE, such as rail=rail1",
                    quoted(condition)
                )));
            };
            let name = name.trim();
            let key: Key = name.parse().map_err(|_| {
                FilterError(format!(
                    "unknown key {}; {}",
                    quoted(name),
                    suggestion(name, Key::VARIANTS)
                ))
            })?;
            if conditions.iter().any(|other| other.key == key) {
                return Err(FilterError(format!(
                    "`{key}` is there twice; write {key}=A|B for either"
                )));
            }
            let values = values.split('|').map(|value| match value.trim() {
                "" => Err(wrong(key, value, "a value")),
                value => Value::parse(key, value),
            });
            conditions.push(Condition {
                key,
                text: condition.to_string(),
                values: values.collect::<Result<_, _>>()?,
            });
        }
        Ok(Filter { conditions })
    }
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let conditions: Vec<&str> = self
            .conditions
            .iter()
            .map(|condition| condition.text.as_str())
            .collect();
        f.write_str(&conditions.join(","))
    }
}

fn wrong(key: Key, text: &str, expected: &str) -> FilterError {
    FilterError(format!("`{key}` takes {expected}, not {}", quoted(text)))
}

fn word<W: FromStr + VariantNames>(key: Key, text: &str) -> Result<W, FilterError> {
    text.parse().map_err(|_| {
        FilterError(format!(
            "unknown {key} {}; {}",
            quoted(text),
            suggestion(text, W::VARIANTS)
        ))
    })
}

fn end(text: &str) -> End {
    match text.trim().parse() {
        Ok(rank) => End::Rank(rank),
        Err(_) => End::Host(text.trim().to_string()),
    }
}

/// The values a key has in a plan, each once.
fn listed(key: Key, cells: &[Cell], fabric: &Fabric) -> String {
    let of_cell = |cell: &Cell| -> Vec<String> {
        match key {
            Key::Test => vec![cell.test.clone()],
            Key::Cell => Vec::new(),
            Key::Collective => vec![cell.collective.to_string()],
            Key::Algorithm => vec![cell.algorithm.to_string()],
            Key::Size => vec![cell.size.to_string()],
            Key::Type => vec![cell.dtype.to_string()],
            Key::Op => vec![cell.op.to_string()],
            Key::Placement => vec![cell.placement.to_string()],
            Key::Transport => vec![cell.transport.to_string()],
            Key::Engine => vec![cell.engine.to_string()],
            Key::Rail => cell.rails.clone(),
            Key::Pattern => pattern_of(cell).cloned().into_iter().collect(),
            Key::Rank => cell.ranks.iter().map(|rank| fabric.rank_name(*rank)).collect(),
            Key::Pair => match cell.ranks.as_slice() {
                [a, b] => vec![format!("{}:{}", a.min(b), a.max(b))],
                _ => Vec::new(),
            },
        }
    };
    if key == Key::Cell {
        return match (cells.first(), cells.last()) {
            (Some(first), Some(last)) => format!("cell {} to {}", first.id, last.id),
            _ => "no cell".to_string(),
        };
    }
    let values: BTreeSet<String> = cells.iter().flat_map(of_cell).collect();
    let more = match values.len().saturating_sub(MOST_LISTED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    match values.is_empty() {
        true => format!("no {key} in this plan"),
        false => {
            let shown: Vec<String> = values.into_iter().take(MOST_LISTED).collect();
            format!("{}{more}", shown.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaint(text: &str) -> String {
        text.parse::<Filter>().unwrap_err().to_string()
    }

    #[test]
    fn a_filter_prints_as_it_was_typed_so_that_a_finding_can_be_repeated() {
        let text = "rail=rail1,pair=node07:node12,size=1M|64M";
        assert_eq!(text.parse::<Filter>().unwrap().to_string(), text);
    }

    #[test]
    fn a_slip_in_a_filter_is_named_with_what_was_meant() {
        let cases = [
            ("rial=rail1", "--only: unknown key `rial`; did you mean `rail`?"),
            ("rail", "--only: `rail` is not KEY=VALUE, such as rail=rail1"),
            ("", "--only: `` is not KEY=VALUE"),
            ("rail=", "--only: `rail` takes a value"),
            (
                "algorithm=rign",
                "--only: unknown algorithm `rign`; did you mean `ring`?",
            ),
            ("size=big", "--only: size: `big` is not a size"),
            ("cell=x", "--only: `cell` takes a number, not `x`"),
            ("pair=3", "--only: `pair` takes two ranks or hosts"),
            ("rail=a,rail=b", "--only: `rail` is there twice; write rail=A|B"),
        ];
        for (text, wanted) in cases {
            let found = complaint(text);
            assert!(found.starts_with(wanted), "{text}: {found}");
        }
    }

    proptest::proptest! {
        #[test]
        fn whatever_is_typed_behind_only_gets_an_answer(text in "[a-z=,|:0-9 µ]{0,40}|\\PC{0,40}") {
            if let Ok(filter) = text.parse::<Filter>() {
                proptest::prop_assert!(filter.to_string().parse::<Filter>() == Ok(filter));
            }
        }
    }
}
