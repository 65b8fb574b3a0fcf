//! The page in a real browser: what a reader sees first, what works without scripts, on a phone, on paper and in the dark, and what must
//! never happen.
//!
//! Needs Debian's `chromium`. Without one these tests are skipped (`tests/support/skip.rs`). Pictures
//! are left in `target/browser`; `RAILGAUGE_UPDATE=1` renews the one in the README.

mod contrast;
mod control;
mod driver;
mod hostile;
mod large;
mod look;
mod pages;
mod sheet;
#[path = "../support/skip.rs"]
mod skip;
mod work;
