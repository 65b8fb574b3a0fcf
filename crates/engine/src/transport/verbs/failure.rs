//! What a failed work request means, in words an operator can act on.

use std::{fmt, io};

use record::DEVICE_GONE;

/// The statuses that verbs number.
const MEANINGS: &[(u32, &str, &str)] = &[
    (
        1,
        "local length error",
        "a message was longer than the posted receive; both ends must run the same version of railgauge",
    ),
    (
        2,
        "local queue pair operation error",
        "the NIC could not carry out a request; look for its driver's messages in the kernel log",
    ),
    (
        4,
        "local protection error",
        "memory named in a request is not registered with this device; look for its driver's messages in the kernel log",
    ),
    (
        5,
        "flushed",
        "the queue pair is in the error state: this port went down, this device was removed, or this NIC refused what the peer sent",
    ),
    (
        7,
        "bad response",
        "the peer's NIC sent an invalid response; suspect its firmware",
    ),
    (
        8,
        "local access error",
        "the peer wrote to memory that this side has not exposed; both ends must run the same version of railgauge",
    ),
    (
        9,
        "remote invalid request",
        "the peer's NIC does not support this kind of request, or a message was longer than the posted receive",
    ),
    (
        10,
        "remote access error",
        "the peer's NIC refused access to its memory: wrong address or key, or memory that is not registered any more; both \
         ends must run the same version of railgauge",
    ),
    (
        11,
        "remote operation error",
        "the peer's NIC could not execute the request; read its host's kernel log",
    ),
    (
        12,
        "transport retries exceeded",
        "packets were not acknowledged after every retry: a cable or switch port on the path is down or drops packets, the \
         peer's host, process or port is gone, or routing between the two addresses does not work (try ping between them)",
    ),
    (
        13,
        "RNR (receiver not ready) retries exceeded",
        "the peer posted no receive for a message: its process hangs or gets no CPU time",
    ),
    (
        19,
        "fatal error",
        "the device failed; read the kernel log and reset it",
    ),
    (
        20,
        "response timeout",
        "the peer's NIC did not answer in time; check the error counters of the ports on the path",
    ),
    (
        21,
        "general error",
        "look for the driver's messages in the kernel log",
    ),
];

/// The status of requests flushed from a queue pair in the error state.
pub const FLUSHED: u32 = 5;

/// The meaning of a remote error that the NIC of this side reports for a receive.
const REFUSED_HERE: &str = "this NIC refused what the peer sent: it addressed memory that is not exposed to it, with a wrong \
    address or key; both ends must run the same version of railgauge, or the peer misbehaves";

/// Why a request could not be posted, in words.
pub fn not_posted(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(nix::libc::EIO | nix::libc::ENODEV) => {
            format!("the device took no more requests ({error}): {DEVICE_GONE}")
        }
        _ => format!("a request could not be posted: {error}"),
    }
}

/// Why a work request failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failure {
    /// The status as verbs number it.
    pub status: u32,
    /// The vendor's own code, which the vendor's support can read.
    pub vendor: u32,
    /// Whether it was something this side sent.
    pub sending: bool,
}

impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = MEANINGS.iter().find(|(status, ..)| *status == self.status);
        let what = if self.sending { "sending" } else { "receiving" };
        match known {
            Some((status, name, _)) => write!(out, "{name} while {what} (status {status}")?,
            None => write!(out, "status {} while {what} (unknown to railgauge", self.status)?,
        }
        if self.vendor != 0 {
            write!(out, ", vendor code {:#x}", self.vendor)?;
        }
        write!(out, ")")?;
        match known {
            Some((9..=11, ..)) if !self.sending => write!(out, ": {REFUSED_HERE}"),
            Some((.., causes)) => write!(out, ": {causes}"),
            None => Ok(()),
        }
    }
}

/// One end of a queue pair, as an operator looks for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QpEnd {
    /// World rank.
    pub rank: u32,
    /// Device.
    pub device: String,
    /// Its port.
    pub port: u8,
    /// Queue pair.
    pub queue_pair: u32,
    /// Address, in words: IP address on RoCE, local identifier on InfiniBand.
    pub address: String,
}

impl fmt::Display for QpEnd {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let QpEnd {
            rank,
            device,
            port,
            queue_pair,
            address,
        } = self;
        write!(
            out,
            "rank {rank} ({device} port {port}, {address}, queue pair {queue_pair})"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_says_what_it_is_and_what_may_have_caused_it() {
        let say = |status, vendor| {
            Failure {
                status,
                vendor,
                sending: true,
            }
            .to_string()
        };
        assert!(
            say(12, 0).starts_with("transport retries exceeded while sending (status 12): packets were not")
        );
        assert!(say(13, 0).contains("posted no receive"));
        assert!(say(10, 0x88).contains("(status 10, vendor code 0x88): the peer's NIC refused access"));
        let receiving = Failure {
            status: 10,
            vendor: 0,
            sending: false,
        };
        assert!(
            receiving
                .to_string()
                .contains("while receiving (status 10): this NIC refused what the peer sent")
        );
        assert_eq!(say(99, 0), "status 99 while sending (unknown to railgauge)");
    }
}
