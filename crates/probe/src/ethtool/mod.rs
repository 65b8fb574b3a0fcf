//! What only the driver of a network interface knows: asked as the tool `ethtool` asks it, without running that tool.
//!
//! Every question has an answer or says why not: a driver that has no such thing is told from one that may not tell it. What a
//! driver answers is data: lengths are bounded, text is cut at its end, and nothing that it says makes a reader fail.

mod ioctl;
mod lanes;
mod missing;
mod module;
mod settings;
mod statistics;

pub use lanes::lanes;
pub use missing::Missing;
pub use module::{ModuleMemory, module_memory};
pub use settings::{Driver, Link, Pause, Rings, driver, fec, link, pause, rings};
pub use statistics::statistics;

/// A number of four bytes at a place, in the machine's order.
fn number(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_ne_bytes(bytes.try_into().ok()?))
}

/// Text in a field of fixed length: up to its first zero, whatever is no text replaced. None when it is empty.
fn text(field: &[u8]) -> Option<String> {
    let end = field.iter().position(|byte| *byte == 0).unwrap_or(field.len());
    let text = String::from_utf8_lossy(&field[..end]).trim().to_string();
    (!text.is_empty()).then_some(text)
}
