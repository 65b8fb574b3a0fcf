//! How many lanes a link uses: told by the netlink family `ethtool` only, and by few drivers. No privilege is needed.

use super::super::netlink::Family;
use super::super::netlink::message::{Attributes, attribute};
use super::missing::Missing;
use super::number;

const GET_LINK_MODES: u8 = 4;
const HEADER: u16 = 1;
const NAME: u16 = 2;
const LANES: u16 = 9;

/// The family of questions about interfaces.
pub(super) fn family() -> Result<Family, Missing> {
    Family::find("ethtool", 1)
}

/// The attribute of a request that says which interface it is about.
pub(super) fn about(interface: &str) -> Attributes {
    Attributes::new().nest(HEADER, &Attributes::new().text(NAME, interface))
}

/// The lanes of an interface's link.
pub fn lanes(interface: &str) -> Result<u32, Missing> {
    let answers = family()?.ask(GET_LINK_MODES, about(interface), false)?;
    let said = answers
        .iter()
        .find_map(|answer| number(attribute(answer, LANES)?, 0));
    said.filter(|lanes| *lanes > 0).ok_or(Missing::Absent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_that_no_driver_tells_are_not_guessed() {
        assert!(lanes("lo").is_err());
        assert!(matches!(lanes("nowhere0"), Err(Missing::Unreadable { .. })));
    }
}
