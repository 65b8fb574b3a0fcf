//! What is said on standard error. Names in it may come from other machines: they stay inert.

use std::fmt::Display;

use report::escape;

/// Something that went wrong, or that a reader of the result must know.
pub(super) fn complain(text: impl Display) {
    eprintln!("railgauge: {}", escape::block(&text.to_string()));
}

/// How things are going.
pub(super) fn tell(text: impl Display) {
    eprintln!("{}", escape::block(&text.to_string()));
}
