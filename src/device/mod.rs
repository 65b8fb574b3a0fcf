//! Memory and arithmetic on one rank.

mod region;

pub use region::{ReadLease, Region, WriteLease};
