//! JSON of one switch, or of many by their names.

use std::cell::Cell;

use serde_json::{Map, Value};

use super::fields::{SwitchHint, nameless};
use super::parsed::{ParsedInventory, cable, end};
use super::{nvue, sonic};
use topology::import::{neighbours_of, node_name};
use topology::text_error::{Lines, TextError};

/// How many objects may be inside each other before a switch's begins.
const DEEPEST: usize = 3;
/// The most errors whose lines are searched.
const MOST_LINES: usize = 100;

pub(super) fn recognises(text: &str) -> bool {
    let mut rest = text.trim_start();
    if rest.starts_with('{') {
        return true;
    }
    // `[[switch]]` begins with brackets, too.
    rest = rest.strip_prefix('[').unwrap_or_default().trim_start();
    rest.starts_with(['{', ']', '"'])
}

pub(super) fn read(text: &str, about: SwitchHint<'_>) -> Result<ParsedInventory, TextError> {
    let value: Value = serde_json::from_str(text).map_err(|error| TextError::json(&error))?;
    if let Some(parsed) = of_one(&value, about) {
        return parsed.map_err(TextError::whole_text);
    }
    let keys = Keys {
        text,
        lines: Lines::of(text),
        looked_for: Cell::new(0),
    };
    let mut parsed = ParsedInventory::default();
    let mut strangers = Vec::new();
    for (name, printed) in value.as_object().into_iter().flatten() {
        match of_one(printed, SwitchHint::Named(name)) {
            Some(Ok(one)) => parsed = parsed.and(one),
            Some(Err(why)) => {
                parsed.errors.push(keys.error(name, &why));
            }
            None => strangers.push(name),
        }
    }
    if parsed.is_empty() {
        return Err(TextError::whole_text(
            "JSON without a switch of SONiC, NVUE or LLDP",
        ));
    }
    let strange = |name: &&String| keys.error(name, "not of SONiC, NVUE or LLDP");
    parsed.errors.extend(strangers.iter().map(strange));
    Ok(parsed)
}

/// Finds the lines of keys in a text.
struct Keys<'t> {
    text: &'t str,
    lines: Lines,
    looked_for: Cell<usize>,
}

impl Keys<'_> {
    /// The line in which a key first stands. A text with thousands of bad keys is not searched for each of them.
    fn line(&self, key: &str) -> Option<usize> {
        self.looked_for.set(self.looked_for.get() + 1);
        let quoted = Value::from(key).to_string();
        let may_look = self.looked_for.get() <= MOST_LINES;
        let at = may_look.then(|| self.text.find(&quoted))??;
        Some(self.lines.line(at))
    }

    fn error(&self, key: &str, why: &str) -> TextError {
        TextError {
            line: self.line(key),
            message: format!("`{}`: {why}", node_name(key)),
        }
    }
}

/// The inventory that one switch printed; none when its format is unknown.
fn of_one(value: &Value, about: SwitchHint<'_>) -> Option<Result<ParsedInventory, String>> {
    of_one_within(value, about, DEEPEST)
}

fn of_one_within(
    value: &Value,
    about: SwitchHint<'_>,
    deep: usize,
) -> Option<Result<ParsedInventory, String>> {
    let deep = deep.checked_sub(1)?;
    match value {
        // The output of several commands.
        Value::Array(list) => {
            let read = list.iter().filter_map(|value| of_one_within(value, about, deep));
            let read: Vec<Result<ParsedInventory, String>> = read.collect();
            (!read.is_empty()).then(|| {
                read.into_iter()
                    .try_fold(ParsedInventory::default(), |all, one| Ok(all.and(one?)))
            })
        }
        Value::Object(fields) => {
            let readers = [sonic::read, nvue::read, read_lldp];
            readers.iter().find_map(|read| read(fields, about))
        }
        _ => None,
    }
}

/// What `lldpcli -f json show neighbors` printed; none when it is not that.
fn read_lldp(fields: &Map<String, Value>, about: SwitchHint<'_>) -> Option<Result<ParsedInventory, String>> {
    fields.get("lldp")?.as_object()?;
    let Some(node) = about.name(None) else {
        return Some(Err(nameless()));
    };
    Some(
        neighbours_of(node, &Value::Object(fields.clone())).map(|neighbours| {
            let cables = neighbours.iter().map(|seen| {
                cable([
                    end(&seen.node, &seen.interface),
                    end(&seen.other, &seen.other_port),
                ])
            });
            ParsedInventory {
                cables: cables.collect(),
                ..ParsedInventory::default()
            }
        }),
    )
}
