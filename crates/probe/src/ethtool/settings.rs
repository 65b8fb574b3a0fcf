//! Driver, link, error correction, pause frames and rings of an interface. No privilege is needed.

use serde::{Deserialize, Serialize};

use super::ioctl::Room;
use super::missing::Missing;
use super::{number, text};

const DRIVER_INFO: u32 = 0x03;
const RINGS: u32 = 0x10;
const PAUSE: u32 = 0x12;
const LINK_SETTINGS: u32 = 0x4c;
const FEC: u32 = 0x50;

/// Most words of a set of link modes; the kernel has four.
const MOST_WORDS: i8 = 64;

/// Ways of error correction by the bit that stands for each.
const CORRECTIONS: [&str; 6] = ["none", "auto", "off", "rs", "baser", "llrs"];

/// Kinds of ports by number.
const PORTS: [&str; 6] = ["twisted-pair", "aui", "mii", "fibre", "bnc", "direct-attach"];

/// Who drives an interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Driver {
    /// The driver's name.
    pub driver: Option<String>,
    /// Its version; drivers of the kernel itself say the kernel's.
    pub version: Option<String>,
    /// The firmware of the device, with its board id where the driver says it.
    pub firmware: Option<String>,
    /// Where the device is on its bus.
    pub bus: Option<String>,
}

/// How the link of an interface is set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    /// Mbit/s; none when the driver does not know.
    pub speed_mbit: Option<u32>,
    /// `full` or `half`.
    pub duplex: Option<String>,
    /// Whether both ends agree on a speed by themselves; none when the driver does not know.
    pub autonegotiation: Option<bool>,
    /// What is plugged in, as the driver sees it.
    pub port: Option<String>,
}

/// Pause frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pause {
    /// Agreed on with the other end.
    pub autonegotiation: bool,
    /// Obeyed.
    pub receive: bool,
    /// Sent.
    pub transmit: bool,
}

/// Packets that fit into the rings of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rings {
    /// Of the receiving side.
    pub receive: u32,
    /// The most of that side.
    pub receive_most: u32,
    /// Of the sending side.
    pub transmit: u32,
    /// The most of that side.
    pub transmit_most: u32,
}

/// Asks one question of fixed length.
fn ask(interface: &str, command: u32, bytes: usize) -> Result<Room, Missing> {
    let mut room = Room::new(command, bytes)?;
    room.ask(interface)?;
    Ok(room)
}

/// Who drives an interface.
pub fn driver(interface: &str) -> Result<Driver, Missing> {
    let room = ask(interface, DRIVER_INFO, 196)?;
    let field = |index: usize| text(room.bytes().get(4 + 32 * index..36 + 32 * index)?);
    // Drivers without firmware say so in a word.
    let said = |index: usize| field(index).filter(|text| !matches!(text.as_str(), "N/A" | "n/a"));
    Ok(Driver {
        driver: said(0),
        version: said(1),
        firmware: said(2),
        bus: said(3),
    })
}

/// How its link is set.
pub fn link(interface: &str) -> Result<Link, Missing> {
    // The first answer says, as a negative number, for how many words there must be room.
    let mut room = ask(interface, LINK_SETTINGS, 48)?;
    let words = room.bytes()[15] as i8;
    if !(-MOST_WORDS..0).contains(&words) {
        return Err(Missing::because(
            "its driver answers in a way that makes no sense",
        ));
    }
    let words = words.unsigned_abs();
    room = Room::new(LINK_SETTINGS, 48 + 12 * usize::from(words))?;
    room.put(12, u32::from_ne_bytes([0, 0, 0, words]));
    room.ask(interface)?;
    Ok(link_of(room.bytes()))
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

/// The ways of error correction in use, `rs` or `rs baser`; what is configured when the link uses none yet.
pub fn fec(interface: &str) -> Result<String, Missing> {
    let room = ask(interface, FEC, 16)?;
    let bits = |at: usize| number(room.bytes(), at).unwrap_or(0);
    match (corrections(bits(4)), corrections(bits(8))) {
        (Some(active), _) => Ok(active),
        (None, Some(configured)) => Ok(configured),
        (None, None) => Err(Missing::because("its driver does not know it")),
    }
}

/// Ways of error correction by their bits; bits that nobody knows are told as they are.
fn corrections(bits: u32) -> Option<String> {
    let names = (0..32)
        .filter(|bit| bits & 1 << bit != 0)
        .map(|bit| match CORRECTIONS.get(bit as usize) {
            Some(name) => name.to_string(),
            None => format!("bit{bit}"),
        });
    let names: Vec<String> = names.collect();
    (!names.is_empty()).then(|| names.join(" "))
}

/// Whether pause frames are sent and obeyed.
pub fn pause(interface: &str) -> Result<Pause, Missing> {
    let room = ask(interface, PAUSE, 16)?;
    let is_set = |at: usize| number(room.bytes(), at).is_some_and(|value| value != 0);
    Ok(Pause {
        autonegotiation: is_set(4),
        receive: is_set(8),
        transmit: is_set(12),
    })
}

/// How long its rings are.
pub fn rings(interface: &str) -> Result<Rings, Missing> {
    let room = ask(interface, RINGS, 36)?;
    let at = |at: usize| number(room.bytes(), at).unwrap_or(0);
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
        assert_eq!(corrections(1 << 3).as_deref(), Some("rs"));
        assert_eq!(
            corrections(1 << 3 | 1 << 4 | 1 << 9).as_deref(),
            Some("rs baser bit9")
        );
        assert_eq!(corrections(0), None);
    }

    #[test]
    fn an_interface_that_is_not_there_has_no_answers_but_a_reason() {
        let missing = driver("nowhere0").unwrap_err();
        assert_eq!(missing, Missing::because("there is no such interface"));
        assert!(link("nowhere0").is_err() && fec("nowhere0").is_err());
        assert!(pause("nowhere0").is_err() && rings("nowhere0").is_err());
    }

    #[test]
    fn the_loopback_has_neither_rings_nor_error_correction() {
        assert_eq!(rings("lo"), Err(Missing::Absent));
        assert_eq!(fec("lo"), Err(Missing::Absent));
        assert_eq!(pause("lo"), Err(Missing::Absent));
    }

    proptest! {
        #[test]
        fn no_answer_of_a_driver_makes_a_reader_fail(answer in proptest::collection::vec(any::<u8>(), 0..64)) {
            link_of(&answer);
            if let Some(number) = number(&answer, 8) {
                prop_assert_eq!(corrections(number).is_none(), number == 0);
            }
            if let Some(text) = text(&answer) {
                prop_assert!(!text.is_empty() && !text.contains('\0'));
            }
        }
    }
}
