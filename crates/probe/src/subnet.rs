//! Subnets as people write them: `10.0.0.0/16`, `fd00::/64`.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// A subnet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Subnet {
    address: IpAddr,
    bits: u8,
}

/// A text that is not a subnet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a subnet is written ADDRESS/BITS, such as 10.0.0.0/16")]
pub struct BadSubnet;

impl Subnet {
    /// Whether `address` lies in it.
    pub fn contains(self, address: IpAddr) -> bool {
        match (self.address, address) {
            (IpAddr::V4(net), IpAddr::V4(address)) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.bits)).unwrap_or(0);
                net.to_bits() & mask == address.to_bits() & mask
            }
            (IpAddr::V6(net), IpAddr::V6(address)) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(self.bits)).unwrap_or(0);
                net.to_bits() & mask == address.to_bits() & mask
            }
            _ => false,
        }
    }
}

impl FromStr for Subnet {
    type Err = BadSubnet;

    fn from_str(text: &str) -> Result<Subnet, BadSubnet> {
        let (address, bits) = text.split_once('/').ok_or(BadSubnet)?;
        let address: IpAddr = address.parse().map_err(|_| BadSubnet)?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let only_digits = !bits.is_empty() && bits.bytes().all(|byte| byte.is_ascii_digit());
        let bits: u8 = bits.parse().map_err(|_| BadSubnet)?;
        match only_digits && bits <= most {
            true => Ok(Subnet { address, bits }),
            false => Err(BadSubnet),
        }
    }
}

impl fmt::Display for Subnet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn holds(subnet: &str, address: &str) -> bool {
        subnet
            .parse::<Subnet>()
            .unwrap()
            .contains(address.parse().unwrap())
    }

    #[test]
    fn an_address_is_in_its_subnet_and_in_no_other() {
        assert!(holds("10.0.0.0/16", "10.0.255.1") && !holds("10.0.0.0/16", "10.1.0.1"));
        assert!(holds("10.0.0.7/32", "10.0.0.7") && !holds("10.0.0.7/32", "10.0.0.6"));
        assert!(holds("0.0.0.0/0", "203.0.113.9") && !holds("0.0.0.0/0", "::1"));
        assert!(holds("fd00::/64", "fd00::9") && !holds("fd00::/64", "fd00:0:0:1::9"));
        for text in [
            "10.0.0.0",
            "10.0.0.0/33",
            "10.0.0/8",
            "10.0.0.0/",
            "10.0.0.0/+8",
            "x/8",
            "::/129",
        ] {
            assert!(text.parse::<Subnet>().is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused_and_read_back_alike(text in "[0-9a-f.:/]{0,24}|\\PC{0,24}") {
            if let Ok(subnet) = text.parse::<Subnet>() {
                prop_assert_eq!(subnet.to_string().parse::<Subnet>(), Ok(subnet));
            }
        }
    }
}
