//! Many runs in a row: what changed since the nights before, and what is only chance.
//!
//! A run says something of every part ([`readings()`]).

mod readings;

pub use readings::readings;
