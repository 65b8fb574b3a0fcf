//! What every format of a report is: a file of the run's folder.

use std::io;

use record::{Judgement, Recorded};

/// Renders a judged run as one file of its folder.
pub trait Writer: Sync {
    /// Name of the file within the run's folder.
    fn file(&self) -> &'static str;
    /// Whether this run has anything for it.
    fn is_wanted(&self, _: &Judgement) -> bool {
        true
    }
    /// Its content.
    fn render(&self, recorded: &Recorded, judgement: &Judgement) -> io::Result<String>;
}
