//! Memory and arithmetic on one rank.
//!
//! What a reduction yields and which test data it is fed are defined here once, for every kind of device: a device that
//! disagrees with [`host`] by one bit is wrong. Nothing here knows about peers, schedules or time.

pub mod cuda;
mod element;
pub mod heap;
pub mod host;
pub mod pattern;
mod region;
pub mod telemetry;

pub use pattern::Pattern;
pub use region::{ReadLease, Region, WriteLease};
