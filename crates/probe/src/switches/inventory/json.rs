//! JSON of one switch, or of many by their names.

use std::cell::Cell;

use serde_json::{Map, Value};

use super::told::Told;
use super::{lldp, nvue, sonic};
use topology::import::node_name;
use topology::text_error::{Lines, TextError};

/// Who a text is about, where it does not say it itself.
#[derive(Debug, Clone, Copy)]
pub(super) enum About<'n> {
    /// Whoever keeps the files called it so.
    Named(&'n str),
    /// The file happens to be called so.
    Perhaps(&'n str),
    /// Nobody says.
    Unknown,
}

impl<'n> About<'n> {
    /// The name to use, when the switch calls itself `own`.
    pub fn name(self, own: Option<&'n str>) -> Option<&'n str> {
        let own = own.filter(|name| !name.trim().is_empty());
        match self {
            About::Named(name) => Some(name),
            About::Perhaps(name) => own.or(Some(name)),
            About::Unknown => own,
        }
    }
}

/// How many objects may be inside each other before a switch's begins.
const DEEPEST: usize = 3;
/// The most troubles whose lines are looked for.
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

pub(super) fn read(text: &str, about: About<'_>) -> Result<Told, TextError> {
    let value: Value = serde_json::from_str(text).map_err(|error| TextError::json(&error))?;
    if let Some(told) = of_one(&value, about) {
        return told.map_err(TextError::whole_text);
    }
    let keys = Keys {
        text,
        lines: Lines::of(text),
        looked_for: Cell::new(0),
    };
    let mut told = Told::default();
    let mut strangers = Vec::new();
    for (name, printed) in value.as_object().into_iter().flatten() {
        match of_one(printed, About::Named(name)) {
            Some(Ok(one)) => told = told.and(one),
            Some(Err(why)) => {
                told.troubles.push(keys.trouble(name, &why));
            }
            None => strangers.push(name),
        }
    }
    if told.is_empty() {
        return Err(TextError::whole_text(
            "JSON, but not of SONiC, NVUE or LLDP: nothing in it that tells of a switch",
        ));
    }
    let strange = |name: &&String| keys.trouble(name, "not of SONiC, NVUE or LLDP");
    told.troubles.extend(strangers.iter().map(strange));
    Ok(told)
}

/// Where keys of a text stand.
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

    fn trouble(&self, key: &str, why: &str) -> TextError {
        TextError {
            line: self.line(key),
            message: format!("`{}`: {why}", node_name(key)),
        }
    }
}

/// What one switch printed; none when it is nothing that is known.
fn of_one(value: &Value, about: About<'_>) -> Option<Result<Told, String>> {
    of_one_within(value, about, DEEPEST)
}

fn of_one_within(value: &Value, about: About<'_>, deep: usize) -> Option<Result<Told, String>> {
    let deep = deep.checked_sub(1)?;
    match value {
        // Several things that it printed.
        Value::Array(list) => {
            let read = list.iter().filter_map(|value| of_one_within(value, about, deep));
            let read: Vec<Result<Told, String>> = read.collect();
            (!read.is_empty()).then(|| {
                read.into_iter()
                    .try_fold(Told::default(), |all, one| Ok(all.and(one?)))
            })
        }
        Value::Object(fields) => {
            let readers = [sonic::read, nvue::read, lldp::read];
            readers.iter().find_map(|read| read(fields, about))
        }
        _ => None,
    }
}

/// Why nothing can be said of a switch without a name.
pub(super) fn nameless() -> String {
    "it does not say which switch it is about: one file or sub-folder per switch, called as the switch, \
     or one object with the switches by name"
        .to_string()
}

/// The text of a field: a text, a number or a flag.
pub(super) fn text(fields: &Map<String, Value>, name: &str) -> Option<String> {
    as_text(fields.get(name)?)
}

/// The first of several fields that is there.
pub(super) fn first(fields: &Map<String, Value>, names: &[&str]) -> Option<String> {
    names.iter().find_map(|name| text(fields, name))
}

pub(super) fn as_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(flag) => Some(flag.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}
