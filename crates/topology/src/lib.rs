//! What the cluster should be: topology files and imports, the graph of directed links, paths, suites and expected rates.

pub mod discover;
mod fabric;
mod file;
pub mod graph;
pub mod import;
mod mismatch;
mod model;
pub mod nodelist;
mod rails;
mod ranks;
pub mod subnet;
pub mod suite;
pub mod text_error;

pub use fabric::{Fabric, PartialRail};
pub use model::{Forwarding, Host, Link, Port, SourceLines, Switch, Tier, Topology, TopologyError};
