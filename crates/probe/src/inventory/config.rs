//! PCI configuration space: the capability lists, of which two capabilities are used here.
//!
//! The lists come from the device: reading one with a loop ends.

use super::read::unreadable;
use super::tree::Tree;
use record::Fact;

/// The capability that has a device's settings of PCI Express.
const EXPRESS: u8 = 0x10;
/// The extended capability that has access control services.
const ACCESS_CONTROL: u16 = 0x0d;
/// Without privilege the kernel shows only these bytes.
const SHOWN_TO_ALL: usize = 64;
/// Where extended capabilities begin.
const EXTENDED: usize = 0x100;
/// All of it.
const WHOLE: u64 = 4096;
/// Requests and completions between peers are sent up to the root instead of directly.
const REDIRECTS: u16 = 0x04 | 0x08;

/// A device's configuration beyond the bytes that need no privilege.
pub(super) struct Config(Vec<u8>);

impl Config {
    /// The configuration at a path.
    pub(super) fn read(tree: &Tree, path: &str) -> Result<Config, Fact> {
        let bytes = tree.bytes(path, WHOLE)?;
        match bytes.len() {
            ..=SHOWN_TO_ALL => Err(hidden(bytes.len())),
            _ => Ok(Config(bytes)),
        }
    }

    fn word(&self, at: usize) -> Option<u16> {
        let bytes = self.0.get(at..at.checked_add(2)?)?;
        Some(u16::from_le_bytes([bytes[0], bytes[1]]))
    }

    /// The device control register of PCI Express.
    pub(super) fn device_control(&self) -> Result<u16, Fact> {
        let mut at = usize::from(self.0.get(0x34).copied().unwrap_or(0) & !3);
        for _ in 0..48 {
            let (Some(kind), Some(next)) = (self.0.get(at), self.0.get(at + 1)) else {
                break;
            };
            if at < SHOWN_TO_ALL {
                break;
            }
            if let (&EXPRESS, Some(control)) = (kind, self.word(at + 8)) {
                return Ok(control);
            }
            at = usize::from(next & !3);
        }
        Err(unreadable("it has no PCI Express capability"))
    }

    /// Whether a bridge redirects peer-to-peer traffic to the root complex (ACS); none when it has no such control.
    pub(super) fn redirects(&self) -> Result<Option<bool>, Fact> {
        if self.0.len() <= EXTENDED {
            return Err(hidden(self.0.len()));
        }
        let mut at = EXTENDED;
        for _ in 0..960 {
            let (Some(kind), Some(next)) = (self.word(at), self.word(at + 2)) else {
                break;
            };
            if kind == ACCESS_CONTROL {
                let control = self.word(at + 6);
                return Ok(control.map(|control| control & REDIRECTS != 0));
            }
            at = usize::from(next >> 4) & !3;
            if at < EXTENDED {
                break;
            }
        }
        Ok(None)
    }
}

fn hidden(shown: usize) -> Fact {
    Fact::Unreadable {
        why: format!("the kernel shows {shown} bytes of the configuration"),
        needs: Some("root".to_string()),
    }
}

/// The largest read request, the largest payload, and whether relaxed ordering is allowed.
pub(super) fn settings(control: u16) -> (String, String, &'static str) {
    let size = |bits: u16| (128u32 << (bits & 7)).to_string();
    let relaxed = if control & 1 << 4 != 0 { "on" } else { "off" };
    (size(control >> 12), size(control >> 5), relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A configuration of 256 bytes whose second capability is PCI Express, with this device control register.
    fn config(control: u16) -> Vec<u8> {
        let mut config = vec![0; 256];
        config[0x34] = 0x40;
        (config[0x40], config[0x41]) = (0x01, 0x60);
        (config[0x60], config[0x61]) = (EXPRESS, 0);
        config[0x68..0x6a].copy_from_slice(&control.to_le_bytes());
        config
    }

    /// The same of a bridge whose second extended capability is access control.
    fn bridge(control: u16) -> Vec<u8> {
        let mut config = config(0);
        config.resize(4096, 0);
        config[0x100..0x104].copy_from_slice(&0x1480_0001u32.to_le_bytes());
        config[0x148..0x14c].copy_from_slice(&0x0001_000du32.to_le_bytes());
        config[0x14e..0x150].copy_from_slice(&control.to_le_bytes());
        config
    }

    #[test]
    fn read_requests_and_ordering_come_from_the_device_control_register() {
        let read = |control: u16| settings(Config(config(control)).device_control().unwrap());
        assert_eq!(read(0x5050), ("4096".to_string(), "512".to_string(), "on"));
        assert_eq!(read(0x2000), ("512".to_string(), "128".to_string(), "off"));
        let mut circle = config(0);
        circle[0x41] = 0x40;
        assert!(Config(circle).device_control().is_err());
    }

    #[test]
    fn a_bridge_that_sends_peers_up_to_the_root_is_told_from_one_that_does_not() {
        assert_eq!(Config(bridge(0x1d)).redirects(), Ok(Some(true)));
        assert_eq!(Config(bridge(0x00)).redirects(), Ok(Some(false)));
        assert_eq!(
            Config(bridge(0x01)).redirects(),
            Ok(Some(false)),
            "validation alone does not redirect"
        );
        let mut without = bridge(0x1d);
        without[0x148] = 0x0e;
        assert_eq!(Config(without).redirects(), Ok(None));
        let Err(Fact::Unreadable { needs, .. }) = Config(config(0)).redirects() else {
            panic!("256 bytes do not tell")
        };
        assert_eq!(needs.as_deref(), Some("root"));
    }

    proptest! {
        #[test]
        fn no_configuration_makes_a_reader_fail_or_read_on_for_ever(
            bytes in proptest::collection::vec(any::<u8>(), 0..4096)
        ) {
            let config = Config(bytes);
            let _ = config.device_control();
            let is_told = config.redirects().is_ok();
            prop_assert_eq!(is_told, config.0.len() > EXTENDED);
        }
    }
}
