//! Records as JSON. Reading and writing them is compiled once, here, and not again in every crate that does it.

use serde::de::Error;

use crate::{Event, History, Inventory, JournalLine, Judgement, Readings, Run};

/// `from_json` for these types.
macro_rules! read {
    ($($record:ty),*) => { $(
        impl $record {
            /// From JSON.
            #[inline(never)]
            pub fn from_json(text: &[u8]) -> serde_json::Result<Self> {
                serde_json::from_str(utf8(text)?)
            }
        }
    )* };
}

/// All of it is checked at once, which is faster than string by string. Where it is not UTF-8, the parser says at which line and column.
pub(crate) fn utf8(text: &[u8]) -> serde_json::Result<&str> {
    std::str::from_utf8(text).map_err(|error| match serde_json::from_slice::<serde_json::Value>(text) {
        Err(placed) => placed,
        Ok(_) => serde_json::Error::custom(error),
    })
}

/// `to_json` for these types: over several lines, for files that people look into.
macro_rules! write_pretty {
    ($($record:ty),*) => { $(
        impl $record {
            /// As JSON, over several lines.
            #[inline(never)]
            pub fn to_json(&self) -> serde_json::Result<String> {
                serde_json::to_string_pretty(self)
            }
        }
    )* };
}

/// `to_json` for these types: on one line, for files that grow by lines.
macro_rules! write_line {
    ($($record:ty),*) => { $(
        impl $record {
            /// As JSON, on one line without its end.
            #[inline(never)]
            pub fn to_json(&self) -> serde_json::Result<String> {
                serde_json::to_string(self)
            }
        }
    )* };
}

read!(Event, Inventory, JournalLine, Judgement, Readings);
write_pretty!(History, Inventory, Judgement, Readings, Run);
write_line!(Event, JournalLine);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_are_not_utf8_are_named_with_their_place() {
        let error = Inventory::from_json(b"{\n\"nodes\": \"\xff\"}").unwrap_err();
        assert_eq!((error.line(), error.column()), (2, 11), "{error}");
        assert_eq!(
            error.to_string(),
            "invalid unicode code point at line 2 column 11"
        );
    }
}
