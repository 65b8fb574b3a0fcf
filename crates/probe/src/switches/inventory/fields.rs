//! Fields of JSON objects that switches print, and the switch they are about.

use serde_json::{Map, Value};

/// The switch that a text is about, where the text itself does not name it.
#[derive(Debug, Clone, Copy)]
pub(super) enum SwitchHint<'n> {
    /// The name of its folder or key.
    Named(&'n str),
    /// The name of the file, which may be something else.
    Perhaps(&'n str),
    /// Not known.
    Unknown,
}

impl<'n> SwitchHint<'n> {
    /// The name to use, when the switch calls itself `own`.
    pub fn name(self, own: Option<&'n str>) -> Option<&'n str> {
        let own = own.filter(|name| !name.trim().is_empty());
        match self {
            SwitchHint::Named(name) => Some(name),
            SwitchHint::Perhaps(name) => own.or(Some(name)),
            SwitchHint::Unknown => own,
        }
    }
}

/// The error about a switch without a name.
pub(super) fn nameless() -> String {
    "it does not say which switch it is about; use one file or sub-folder per switch, named like the switch, \
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
