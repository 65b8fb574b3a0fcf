//! Facts that only the driver of a network interface has, queried as the tool `ethtool` does, without running it.
//!
//! Every query has an answer or a reason: a driver without such a fact is distinguished from one that may not be read. Answers
//! are untrusted data: lengths are bounded, text is cut at its end, and no answer makes a reader fail.

mod ioctl;
mod lanes;
mod module;
mod settings;
mod statistics;
mod tunable;
mod unavailable;

pub use lanes::lanes;
pub use module::{ModuleMemory, module_memory};
pub use settings::{Driver, Link, Pause, Rings, driver, fec, link, pause, rings};
pub use statistics::statistics;
pub use tunable::pfc_prevention;
pub use unavailable::Unavailable;

/// A number of four bytes at an offset, in native byte order.
fn number(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_ne_bytes(bytes.try_into().ok()?))
}

/// Text in a field of fixed length: up to its first zero, invalid UTF-8 replaced. None when it is empty.
fn text(field: &[u8]) -> Option<String> {
    let end = field.iter().position(|byte| *byte == 0).unwrap_or(field.len());
    let text = String::from_utf8_lossy(&field[..end]).trim().to_string();
    (!text.is_empty()).then_some(text)
}
