//! The number of lanes of a link, which only the netlink family `ethtool` has, and few drivers. No privilege is needed.

use super::super::netlink::Family;
use super::super::netlink::message::{Attributes, attribute};
use super::number;
use super::unavailable::Unavailable;

const GET_LINK_MODES: u8 = 4;
const HEADER: u16 = 1;
const NAME: u16 = 2;
const LANES: u16 = 9;

/// The `ethtool` family of generic netlink.
pub(super) fn family() -> Result<Family, Unavailable> {
    Family::find("ethtool", 1)
}

/// The attribute that names the interface of a request.
pub(super) fn about(interface: &str) -> Attributes {
    Attributes::new().nest(HEADER, &Attributes::new().text(NAME, interface))
}

/// The lanes of an interface's link.
pub fn lanes(interface: &str) -> Result<u32, Unavailable> {
    let answers = family()?.ask(GET_LINK_MODES, about(interface), false)?;
    let lanes = answers
        .iter()
        .find_map(|answer| number(attribute(answer, LANES)?, 0));
    lanes.filter(|lanes| *lanes > 0).ok_or(Unavailable::Absent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_that_no_driver_tells_are_not_guessed() {
        assert!(lanes("lo").is_err());
        assert!(matches!(lanes("nowhere0"), Err(Unavailable::Unreadable { .. })));
    }
}
