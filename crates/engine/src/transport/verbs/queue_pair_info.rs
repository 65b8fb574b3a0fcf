//! What two queue pairs must know of each other, exchanged over a TCP connection after its handshake.
//!
//! Fixed size, so that the peer cannot make us allocate. A side that cannot continue sends the reason instead, so that both ends
//! report the same one.

use std::io::{self, Read, Write};
use std::net::TcpStream;

use super::context::Gid;

/// Longest device name and longest reason.
const NAME: usize = 64;
const REASON: usize = 400;
/// Bytes of the info.
const INFO_BYTES: usize = 1 + 4 + 4 + 2 + 2 + 1 + 1 + 16 + 8 + 4 + 4 + 4 + NAME;
/// First byte: the info follows, or the reason why there is none.
const INFO: u8 = 1;
const FAILURE: u8 = 2;
/// Sent when the own queue pair is ready to receive.
const READY: u8 = 3;

/// One side's queue pair and the memory it has opened to the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueuePairInfo {
    /// Queue pair.
    pub queue_pair: u32,
    /// Initial packet sequence number (PSN).
    pub psn: u32,
    /// Local identifier on InfiniBand.
    pub lid: u16,
    /// Largest packet payload in bytes.
    pub mtu: u16,
    /// Whether it is InfiniBand.
    pub infiniband: bool,
    /// Port of its device.
    pub port: u8,
    /// Address.
    pub gid: Gid,
    /// Address of the receive memory.
    pub memory: u64,
    /// Its remote key.
    pub key: u32,
    /// Receive slots.
    pub slots: u32,
    /// Bytes of a slot.
    pub slot_bytes: u32,
    /// Device.
    pub device: String,
}

impl QueuePairInfo {
    fn to_bytes(&self) -> [u8; INFO_BYTES] {
        let mut bytes = [0; INFO_BYTES];
        let mut at = 0;
        let mut put = |field: &[u8]| {
            bytes[at..at + field.len()].copy_from_slice(field);
            at += field.len();
        };
        put(&[INFO]);
        put(&self.queue_pair.to_le_bytes());
        put(&self.psn.to_le_bytes());
        put(&self.lid.to_le_bytes());
        put(&self.mtu.to_le_bytes());
        put(&[u8::from(self.infiniband), self.port]);
        put(&self.gid);
        put(&self.memory.to_le_bytes());
        put(&self.key.to_le_bytes());
        put(&self.slots.to_le_bytes());
        put(&self.slot_bytes.to_le_bytes());
        let name = self.device.as_bytes();
        put(&name[..name.len().min(NAME)]);
        bytes
    }

    fn from_bytes(bytes: &[u8; INFO_BYTES]) -> Option<QueuePairInfo> {
        let mut rest = &bytes[1..];
        let mut take = |count: usize| {
            let (field, behind) = rest.split_at(count);
            rest = behind;
            field
        };
        let mut long = || take(4).try_into().map(u32::from_le_bytes).ok();
        let (queue_pair, psn) = (long()?, long()?);
        let mut short = || take(2).try_into().map(u16::from_le_bytes).ok();
        let (lid, mtu) = (short()?, short()?);
        let (infiniband, port) = (take(1)[0] != 0, take(1)[0]);
        let gid = take(16).try_into().ok()?;
        let memory = take(8).try_into().map(u64::from_le_bytes).ok()?;
        let mut long = || take(4).try_into().map(u32::from_le_bytes).ok();
        let (key, slots, slot_bytes) = (long()?, long()?, long()?);
        let name = take(NAME);
        let name = &name[..name.iter().position(|byte| *byte == 0).unwrap_or(NAME)];
        let is_plain = name.iter().all(|byte| byte.is_ascii_graphic());
        // Nothing that is multiplied or divided by later may be out of bounds.
        let fits = slots > 0 && slots <= 1 << 16 && slot_bytes > 0 && slot_bytes <= 1 << 30;
        (is_plain && fits).then(|| QueuePairInfo {
            queue_pair,
            psn,
            lid,
            mtu,
            infiniband,
            port,
            gid,
            memory,
            key,
            slots,
            slot_bytes,
            device: String::from_utf8_lossy(name).into_owned(),
        })
    }

    /// Sends it to the peer.
    pub fn send(&self, stream: &mut TcpStream) -> io::Result<()> {
        stream.write_all(&self.to_bytes())
    }

    /// Receives the peer's info, or its reason for giving up.
    pub fn receive(stream: &mut TcpStream) -> io::Result<QueuePairInfo> {
        let mut bytes = [0; INFO_BYTES];
        stream.read_exact(&mut bytes[..1])?;
        match bytes[0] {
            INFO => {
                stream.read_exact(&mut bytes[1..])?;
                QueuePairInfo::from_bytes(&bytes)
                    .ok_or_else(|| io::Error::other("malformed queue-pair info: slots or name out of bounds"))
            }
            FAILURE => {
                let mut reason = Vec::new();
                // What is missing of it after an error is not worth another error.
                let _ = stream.take(REASON as u64).read_to_end(&mut reason);
                let reason: String = String::from_utf8_lossy(&reason)
                    .chars()
                    .filter(|letter| !letter.is_control())
                    .collect();
                Err(io::Error::other(format!("the peer gave up: {reason}")))
            }
            _ => Err(io::Error::other(
                "malformed queue-pair info: unknown message kind",
            )),
        }
    }
}

/// Tells the peer why this side gives up. The peer may be gone already.
pub fn send_failure(stream: &mut TcpStream, reason: &str) {
    let mut cut = reason.len().min(REASON);
    while !reason.is_char_boundary(cut) {
        cut -= 1;
    }
    let _ = stream.write_all(&[FAILURE]);
    let _ = stream.write_all(&reason.as_bytes()[..cut]);
}

/// Tells the peer that this side is ready to receive.
pub fn send_ready(stream: &mut TcpStream) -> io::Result<()> {
    stream.write_all(&[READY])
}

/// Waits until the peer is ready to receive.
pub fn wait_ready(stream: &mut TcpStream) -> io::Result<()> {
    let mut word = [0];
    stream.read_exact(&mut word)?;
    match word[0] {
        READY => Ok(()),
        FAILURE => Err(io::Error::other("the peer could not connect its queue pair")),
        _ => Err(io::Error::other(
            "malformed message where the peer should report that it is ready",
        )),
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    fn queue_pair_info() -> QueuePairInfo {
        QueuePairInfo {
            queue_pair: 0x00ab_cdef,
            psn: 0x0012_3456,
            lid: 77,
            mtu: 4096,
            infiniband: true,
            port: 2,
            gid: [7; 16],
            memory: 0x7fff_1234_5678_9abc,
            key: 0xdead_beef,
            slots: 8,
            slot_bytes: 256 << 10,
            device: "mlx5_3".to_string(),
        }
    }

    fn two_ends() -> (TcpStream, TcpStream) {
        let door = TcpListener::bind("127.0.0.1:0").unwrap();
        let one = TcpStream::connect(door.local_addr().unwrap()).unwrap();
        (one, door.accept().unwrap().0)
    }

    #[test]
    fn a_card_arrives_as_it_was_sent() {
        let (mut here, mut there) = two_ends();
        queue_pair_info().send(&mut here).unwrap();
        send_ready(&mut here).unwrap();
        assert_eq!(QueuePairInfo::receive(&mut there).unwrap(), queue_pair_info());
        wait_ready(&mut there).unwrap();
    }

    #[test]
    fn a_side_that_cannot_go_on_says_why() {
        let (mut here, mut there) = two_ends();
        send_failure(&mut here, "no such \u{1b}[31mdevice");
        drop(here);
        let heard = QueuePairInfo::receive(&mut there).unwrap_err().to_string();
        assert_eq!(heard, "the peer gave up: no such [31mdevice");
    }

    proptest::proptest! {
        #[test]
        fn whatever_comes_is_a_card_or_an_error(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..300)) {
            let (mut here, mut there) = two_ends();
            here.write_all(&bytes).unwrap();
            drop(here);
            if let Ok(queue_pair_info) = QueuePairInfo::receive(&mut there) {
                proptest::prop_assert!(queue_pair_info.slots > 0 && queue_pair_info.slot_bytes > 0);
                proptest::prop_assert!(queue_pair_info.device.len() <= NAME);
            }
        }
    }
}
