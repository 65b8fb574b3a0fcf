//! What stands for verbs in a binary that was built without them: nothing can be begun, and the error says how to build one
//! that can.

use std::io;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Instant;

use super::super::Link;
use super::super::tcp::Local;
use super::{Introduction, VerbsMissing};
use crate::device::cuda::Direct;

/// No devices.
#[derive(Default)]
pub struct Nics {}

impl Nics {
    /// Refuses.
    pub fn begin(&mut self, _: TcpStream, _: &Local, _: Introduction) -> io::Result<Pending> {
        Err(io::Error::other(VerbsMissing::NotBuilt.to_string()))
    }

    /// Refuses.
    pub fn take_direct(&mut self, _: &[(String, Local)], _: &Arc<Direct>) -> Result<(), String> {
        Err(VerbsMissing::NotBuilt.to_string())
    }
}

/// A queue pair that cannot exist.
pub enum Pending {}

impl Pending {
    /// Cannot happen.
    pub fn meet(self, _: Instant) -> io::Result<Meeting> {
        match self {}
    }
}

/// A connected queue pair that cannot exist.
pub enum Meeting {}

impl Meeting {
    /// Cannot happen.
    pub fn finish(self, _: Instant) -> io::Result<Box<dyn Link>> {
        match self {}
    }
}
