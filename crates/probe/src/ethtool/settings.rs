//! Driver, link, error correction, pause frames and rings of an interface. No privilege is needed.

use serde::{Deserialize, Serialize};

use super::ioctl::RequestBuffer;
use super::unavailable::Unavailable;
use super::{number, text};

const DRIVER_INFO: u32 = 0x03;
const RINGS: u32 = 0x10;
const PAUSE: u32 = 0x12;
const LINK_SETTINGS: u32 = 0x4c;
const FEC: u32 = 0x50;

/// The most words of a set of link modes; the kernel uses four.
const MOST_WORDS: i8 = 64;

/// FEC modes by their bit.
const FEC_MODES: [&str; 6] = ["none", "auto", "off", "rs", "baser", "llrs"];

/// Kinds of ports by number.
const PORTS: [&str; 6] = ["twisted-pair", "aui", "mii", "fibre", "bnc", "direct-attach"];

/// The driver of an interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Driver {
    /// The driver's name.
    pub driver: Option<String>,
    /// Its version; in-tree drivers report the kernel's.
    pub version: Option<String>,
    /// The firmware of the device, with its board id where the driver reports it.
    pub firmware: Option<String>,
    /// The bus address of the device.
    pub bus: Option<String>,
}

/// The link settings of an interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    /// Mbit/s; none when the driver does not know.
    pub speed_mbit: Option<u32>,
    /// `full` or `half`.
    pub duplex: Option<String>,
    /// Whether autonegotiation is on; none when the driver does not know.
    pub autonegotiation: Option<bool>,
    /// The port type, as the driver reports it.
    pub port: Option<String>,
}

/// Pause frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pause {
    /// Autonegotiated.
    pub autonegotiation: bool,
    /// Received pause frames are obeyed.
    pub receive: bool,
    /// Pause frames are sent.
    pub transmit: bool,
}

/// Ring sizes of a queue, in packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rings {
    /// Receive ring.
    pub receive: u32,
    /// The most of that side.
    pub receive_most: u32,
    /// Transmit ring.
    pub transmit: u32,
    /// The most of that side.
    pub transmit_most: u32,
}

/// Sends one request of fixed length.
fn ask(interface: &str, command: u32, bytes: usize) -> Result<RequestBuffer, Unavailable> {
    let mut buffer = RequestBuffer::new(command, bytes)?;
    buffer.ask(interface)?;
    Ok(buffer)
}

/// The driver of an interface.
pub fn driver(interface: &str) -> Result<Driver, Unavailable> {
    let buffer = ask(interface, DRIVER_INFO, 196)?;
    let field = |index: usize| text(buffer.bytes().get(4 + 32 * index..36 + 32 * index)?);
    // Drivers without firmware report "N/A".
    let reported = |index: usize| field(index).filter(|text| !matches!(text.as_str(), "N/A" | "n/a"));
    Ok(Driver {
        driver: reported(0),
        version: reported(1),
        firmware: reported(2),
        bus: reported(3),
    })
}

/// The link settings of an interface.
pub fn link(interface: &str) -> Result<Link, Unavailable> {
    // The first answer gives, as a negative number, how many words the buffer must have room for.
    let mut buffer = ask(interface, LINK_SETTINGS, 48)?;
    let words = buffer.bytes()[15] as i8;
    if !(-MOST_WORDS..0).contains(&words) {
        return Err(Unavailable::because(
            "its driver returned an invalid number of link mode words",
        ));
    }
    let words = words.unsigned_abs();
    buffer = RequestBuffer::new(LINK_SETTINGS, 48 + 12 * usize::from(words))?;
    buffer.put(12, u32::from_ne_bytes([0, 0, 0, words]));
    buffer.ask(interface)?;
    Ok(link_of(buffer.bytes()))
}

fn link_of(answer: &[u8]) -> Link {
    let byte = |at: usize| answer.get(at).copied().unwrap_or(0xff);
    let speed = number(answer, 4).filter(|speed| *speed != 0 && *speed != u32::MAX);
    Link {
        speed_mbit: speed,
        duplex: match byte(8) {
            0 => Some("half".to_string()),
            1 => Some("full".to_string()),
            _ => None,
        },
        autonegotiation: match byte(11) {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        },
        port: PORTS.get(usize::from(byte(9))).map(|port| port.to_string()),
    }
}

/// The FEC modes in use, `rs` or `rs baser`; those configured when the link uses none yet.
pub fn fec(interface: &str) -> Result<String, Unavailable> {
    let buffer = ask(interface, FEC, 16)?;
    let bits = |at: usize| number(buffer.bytes(), at).unwrap_or(0);
    match (fec_modes(bits(4)), fec_modes(bits(8))) {
        (Some(active), _) => Ok(active),
        (None, Some(configured)) => Ok(configured),
        (None, None) => Err(Unavailable::because("its driver does not know it")),
    }
}

/// The names of FEC modes; unknown bits are named by their number.
fn fec_modes(bits: u32) -> Option<String> {
    let names = (0..32)
        .filter(|bit| bits & 1 << bit != 0)
        .map(|bit| match FEC_MODES.get(bit as usize) {
            Some(name) => name.to_string(),
            None => format!("bit{bit}"),
        });
    let names: Vec<String> = names.collect();
    (!names.is_empty()).then(|| names.join(" "))
}

/// Whether pause frames are sent and obeyed.
pub fn pause(interface: &str) -> Result<Pause, Unavailable> {
    let buffer = ask(interface, PAUSE, 16)?;
    let is_set = |at: usize| number(buffer.bytes(), at).is_some_and(|value| value != 0);
    Ok(Pause {
        autonegotiation: is_set(4),
        receive: is_set(8),
        transmit: is_set(12),
    })
}

/// Its ring sizes.
pub fn rings(interface: &str) -> Result<Rings, Unavailable> {
    let buffer = ask(interface, RINGS, 36)?;
    let at = |at: usize| number(buffer.bytes(), at).unwrap_or(0);
    Ok(Rings {
        receive: at(20),
        receive_most: at(4),
        transmit: at(32),
        transmit_most: at(16),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_a_driver_does_not_know_about_its_link_is_not_a_value() {
        let mut answer = [0u8; 48];
        answer[4..8].copy_from_slice(&400_000u32.to_ne_bytes());
        (answer[8], answer[9], answer[11]) = (1, 5, 1);
        let known = link_of(&answer);
        assert_eq!(
            (known.speed_mbit, known.duplex.as_deref()),
            (Some(400_000), Some("full"))
        );
        assert_eq!(
            (known.port.as_deref(), known.autonegotiation),
            (Some("direct-attach"), Some(true))
        );
        answer[4..12].fill(0xff);
        let unknown = link_of(&answer);
        assert_eq!(
            (unknown.speed_mbit, unknown.duplex, unknown.port),
            (None, None, None)
        );
        assert_eq!(unknown.autonegotiation, None);
    }

    #[test]
    fn error_correction_is_told_by_name_and_a_new_way_is_not_lost() {
        assert_eq!(fec_modes(1 << 3).as_deref(), Some("rs"));
        assert_eq!(
            fec_modes(1 << 3 | 1 << 4 | 1 << 9).as_deref(),
            Some("rs baser bit9")
        );
        assert_eq!(fec_modes(0), None);
    }

    #[test]
    fn an_interface_that_is_not_there_has_no_answers_but_a_reason() {
        let missing = driver("nowhere0").unwrap_err();
        assert_eq!(missing, Unavailable::because("there is no such interface"));
        assert!(link("nowhere0").is_err() && fec("nowhere0").is_err());
        assert!(pause("nowhere0").is_err() && rings("nowhere0").is_err());
    }

    #[test]
    fn the_loopback_has_neither_rings_nor_error_correction() {
        assert_eq!(rings("lo"), Err(Unavailable::Absent));
        assert_eq!(fec("lo"), Err(Unavailable::Absent));
        assert_eq!(pause("lo"), Err(Unavailable::Absent));
    }

    proptest! {
        #[test]
        fn no_answer_of_a_driver_makes_a_reader_fail(answer in proptest::collection::vec(any::<u8>(), 0..64)) {
            link_of(&answer);
            if let Some(number) = number(&answer, 8) {
                prop_assert_eq!(fec_modes(number).is_none(), number == 0);
            }
            if let Some(text) = text(&answer) {
                prop_assert!(!text.is_empty() && !text.contains('\0'));
            }
        }
    }
}
