//! How long a NIC may be paused before it stops pausing others (PFC storm prevention). No privilege is needed.

use super::ioctl::RequestBuffer;
use super::unavailable::Unavailable;

const GET_TUNABLE: u32 = 0x48;
/// The tunable and the type of its value, as the kernel numbers them.
const PFC_PREVENTION_TIMEOUT: u32 = 3;
const NUMBER_OF_16_BITS: u32 = 2;
const HEADER: usize = 16;

/// The driver decides.
const AUTO: u16 = u16::MAX;

/// The time after which a port that is paused without end drops what it receives instead of pausing others: `auto`, `off`, or milliseconds.
pub fn pfc_prevention(interface: &str) -> Result<String, Unavailable> {
    let mut buffer = RequestBuffer::new(GET_TUNABLE, HEADER + 2)?;
    buffer.put(4, PFC_PREVENTION_TIMEOUT);
    buffer.put(8, NUMBER_OF_16_BITS);
    buffer.put(12, 2);
    buffer.ask(interface)?;
    let value = buffer.bytes().get(HEADER..HEADER + 2);
    let value = value.and_then(|value| Some(u16::from_ne_bytes(value.try_into().ok()?)));
    value
        .map(in_words)
        .ok_or_else(|| Unavailable::because("its driver returned too little"))
}

fn in_words(milliseconds: u16) -> String {
    match milliseconds {
        0 => "off".to_string(),
        AUTO => "auto".to_string(),
        milliseconds => format!("{milliseconds} ms"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn storm_prevention_that_is_off_is_not_the_drivers_own() {
        let all = [0, 100, u16::MAX].map(in_words);
        assert_eq!(all, ["off", "100 ms", "auto"]);
    }

    #[test]
    fn an_interface_without_storm_prevention_does_not_have_it() {
        assert_eq!(pfc_prevention("lo"), Err(Unavailable::Absent));
        assert!(matches!(
            pfc_prevention("nowhere0"),
            Err(Unavailable::Unreadable { .. })
        ));
    }
}
