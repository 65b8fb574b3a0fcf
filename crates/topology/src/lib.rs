//! What the cluster is said to be: topology files and imports, the graph of directed links, paths, suites and expected rates.

mod fabric;
mod file;
pub mod graph;
pub mod import;
mod mismatch;
pub mod nodelist;
mod rails;
mod ranks;
pub mod suite;
pub mod trouble;

pub use fabric::{Fabric, PartialRail};
pub use file::*;
