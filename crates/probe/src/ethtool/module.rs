//! The memory (EEPROM) of a transceiver or cable. Needs CAP_NET_ADMIN.
//!
//! Newer drivers return it page by page by netlink, older ones at once by ioctl, which does not support the newest module types.

use serde::{Deserialize, Serialize};

use super::super::netlink::message::attribute;
use super::super::transceiver::{Piece, more_pieces};
use super::ioctl::RequestBuffer;
use super::lanes::{about, family};
use super::number;
use super::unavailable::Unavailable;

const MODULE_INFO: u32 = 0x42;
const MODULE_MEMORY: u32 = 0x43;

const GET_MODULE_MEMORY: u8 = 31;
const OFFSET: u16 = 2;
const LENGTH: u16 = 3;
const PAGE: u16 = 4;
const BANK: u16 = 5;
const I2C_ADDRESS: u16 = 6;
const DATA: u16 = 7;

/// The I2C address of every module.
const MODULE: u8 = 0x50;
/// Half a page: the most that one request returns.
const HALF: u32 = 128;
/// The most bytes of one module.
const MOST: u32 = 4096;

/// The pages of a module's memory, the lower one first. Serialized as hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct ModuleMemory(pub Vec<u8>);

impl From<ModuleMemory> for String {
    fn from(memory: ModuleMemory) -> String {
        memory.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl TryFrom<String> for ModuleMemory {
    type Error = String;

    fn try_from(digits: String) -> Result<ModuleMemory, String> {
        let nibble = |digit: u8| (digit as char).to_digit(16).map(|digit| digit as u8);
        let byte = |pair: &[u8]| Some(nibble(*pair.first()?)? << 4 | nibble(*pair.get(1)?)?);
        let bytes: Option<Vec<u8>> = digits.as_bytes().chunks(2).map(byte).collect();
        let bytes = bytes.filter(|bytes| bytes.len() <= MOST as usize);
        Ok(ModuleMemory(bytes.ok_or(
            "the memory of a module must be pairs of hexadecimal digits, at most 4,096 pairs",
        )?))
    }
}

/// The memory of the module in an interface's port.
pub fn module_memory(interface: &str) -> Result<ModuleMemory, Unavailable> {
    // A kernel without the netlink request refuses it like a driver without a module; the ioctl distinguishes them.
    by_page(interface).or_else(|_| at_once(interface))
}

/// By netlink.
fn by_page(interface: &str) -> Result<ModuleMemory, Unavailable> {
    let first = [0, HALF].map(|offset| Piece {
        page: 0,
        address: MODULE,
        offset: offset as u8,
    });
    let mut bytes = half(interface, first[0])?;
    bytes.extend(half(interface, first[1])?);
    for piece in more_pieces(&bytes) {
        // What it measures is not worth losing what it is: a piece that cannot be read is missing, with all behind it.
        match half(interface, piece) {
            Ok(more) => bytes.extend(more),
            Err(_) => break,
        }
    }
    Ok(ModuleMemory(bytes))
}

/// Half a page from an offset on.
fn half(interface: &str, piece: Piece) -> Result<Vec<u8>, Unavailable> {
    let request = about(interface)
        .with(OFFSET, &u32::from(piece.offset).to_ne_bytes())
        .with(LENGTH, &HALF.to_ne_bytes())
        .with(PAGE, &[piece.page])
        .with(BANK, &[0])
        .with(I2C_ADDRESS, &[piece.address]);
    let answers = family()?.ask(GET_MODULE_MEMORY, request, false)?;
    let data = answers.iter().find_map(|answer| attribute(answer, DATA));
    match data {
        Some(data) if data.len() == HALF as usize => Ok(data.to_vec()),
        _ => Err(Unavailable::because(
            "its driver returned less of the module's memory than requested",
        )),
    }
}

/// By ioctl.
fn at_once(interface: &str) -> Result<ModuleMemory, Unavailable> {
    let mut info = RequestBuffer::new(MODULE_INFO, 44)?;
    info.ask(interface)?;
    let len = number(info.bytes(), 8).filter(|len| (1..=MOST).contains(len));
    let len = len.ok_or_else(|| Unavailable::because("its driver reports a module without memory"))?;
    let mut buffer = RequestBuffer::new(MODULE_MEMORY, 16 + len as usize)?;
    buffer.put(12, len);
    buffer.ask(interface)?;
    Ok(ModuleMemory(buffer.bytes()[16..16 + len as usize].to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_interface_without_a_cage_has_no_module() {
        // Without the privilege the kernel refuses the request.
        let without = Unavailable::from(nix::errno::Errno::EPERM);
        let asked = module_memory("lo").unwrap_err();
        assert!(asked == Unavailable::Absent || asked == without, "{asked:?}");
    }

    proptest! {
        #[test]
        fn memory_is_written_down_and_read_again(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let memory = ModuleMemory(bytes);
            let written = serde_json::to_string(&memory).unwrap();
            prop_assert_eq!(serde_json::from_str::<ModuleMemory>(&written).unwrap(), memory);
        }

        #[test]
        fn what_is_no_memory_is_refused(text in "\\PC{0,20}") {
            let is_memory = text.len() % 2 == 0 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
            prop_assert_eq!(ModuleMemory::try_from(text).is_ok(), is_memory);
        }
    }
}
