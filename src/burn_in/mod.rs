//! A burn-in: hours of load in cycles, each an ordinary run, and the decision that follows from all of them.
//!
//! `folder` is where it is kept, `progress` how far it came, `status` what a watchdog sees, `condense` how it makes room.

mod condense;
mod folder;
mod progress;
mod status;

pub use condense::{CellHistogram, Condensed, condense, size_of};
pub use folder::{BurnInFolder, FolderError, JournalFile};
pub use progress::SoFar;
pub use status::{Doing, Status};
