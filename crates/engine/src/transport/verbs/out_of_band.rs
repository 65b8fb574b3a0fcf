//! The TCP connection by which two ranks agree on queue pairs.

use std::net::TcpStream;

use super::super::tcp::LocalRail;
use super::Nics;

/// An out-of-band connection between two ranks.
pub struct OutOfBand<'a> {
    /// The connection.
    pub stream: TcpStream,
    /// This rank's end of the rail.
    pub local: &'a LocalRail,
    /// Its devices.
    pub nics: &'a mut Nics,
}
