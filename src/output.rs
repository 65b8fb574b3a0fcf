//! Standard output: `print!` and `println!` of this program.
//!
//! A reader that has read enough and gone (`... --json | head`) is no failure: the run goes on, and its exit code stays what it is.

use std::fmt::Arguments;
use std::io::{ErrorKind, Write};
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether it was said that nothing can be written.
static IS_SAID: AtomicBool = AtomicBool::new(false);

/// Writes to standard output; what nobody reads is dropped.
pub fn write(text: Arguments<'_>) {
    match std::io::stdout().lock().write_fmt(text) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::BrokenPipe => {}
        Err(error) => {
            if !IS_SAID.swap(true, Ordering::Relaxed) {
                crate::terminal::warn(format!("cannot write to standard output: {error}"));
            }
        }
    }
}

macro_rules! print {
    ($($arguments:tt)*) => {
        $crate::output::write(format_args!($($arguments)*))
    };
}

macro_rules! println {
    () => {
        $crate::output::write(format_args!("\n"))
    };
    ($($arguments:tt)*) => {
        $crate::output::write(format_args!("{}\n", format_args!($($arguments)*)))
    };
}
