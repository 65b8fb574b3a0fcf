//! Records as JSON. Reading and writing them is compiled once, here, and not again in every crate that does it.

use crate::{Event, History, Inventory, JournalLine, Judgement, Readings, Run};

/// `from_json` for these types.
macro_rules! read {
    ($($record:ty),*) => { $(
        impl $record {
            /// From JSON.
            #[inline(never)]
            pub fn from_json(text: &[u8]) -> serde_json::Result<Self> {
                serde_json::from_slice(text)
            }
        }
    )* };
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
