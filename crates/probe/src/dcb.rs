//! Data centre bridging of an interface: which priorities are paused one by one (PFC), how packets get their priority, and how
//! priorities share the port (ETS). Queried by rtnetlink (`RTM_GETDCB`, `DCB_CMD_IEEE_GET`), as the tool `dcb` does. No privilege is needed.
//!
//! A driver without it is absent: the kernel gives the same answer where it was built without DCB itself. An attribute that is shorter
//! than the kernel's own is left out, never guessed.

use serde::{Deserialize, Serialize};

use super::ethtool::Unavailable;
use super::netlink::Netlink;
use super::netlink::message::{Attributes, attribute, attributes};

const GET_DCB: u16 = 78;
const IEEE_GET: u8 = 21;

const INTERFACE: u16 = 1;
const IEEE: u16 = 13;
const ETS: u16 = 1;
const PFC: u16 = 2;
const APPLICATIONS: u16 = 3;
const BUFFERS: u16 = 10;
const TRUST: u16 = 11;

const APPLICATION: u16 = 1;
/// The selector of an entry of the application table that is about a DSCP.
const BY_DSCP: u8 = 5;
/// What an interface may take a packet's priority from, by selector.
const SELECTORS: [(u8, &str); 2] = [(BY_DSCP, "dscp"), (255, "pcp")];

const PRIORITIES: usize = 8;
const DSCPS: u16 = 64;

/// How a traffic class gets its share of the port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scheduling {
    /// Before all classes below it.
    Strict,
    /// A share of the bandwidth that strict classes leave, in percent.
    Share(u8),
    /// By the class's own shaper (802.1Qav).
    CreditBased,
    /// As the vendor has it.
    Vendor,
    /// A way that this program does not know, by its number.
    Other(u8),
}

/// What an interface does by priority. What its driver does not tell is left out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Dcb {
    /// Priorities with PFC.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pfc: Option<Vec<u8>>,
    /// What the driver assumes about how long a pause takes to work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pfc_delay: Option<u16>,
    /// The traffic class of each priority.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class_of: Option<[u8; PRIORITIES]>,
    /// How each traffic class is served.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduling: Option<[Scheduling; PRIORITIES]>,
    /// DSCPs that have a priority of their own, in order.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dscp_map: Option<Vec<(u8, u8)>>,
    /// What a packet's priority is taken from, the first one first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trust: Option<Vec<String>>,
    /// The receive buffer of each priority, and the size of each buffer in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub buffers: Option<([u8; PRIORITIES], [u32; PRIORITIES])>,
}

/// Asks the driver of an interface.
pub fn dcb(interface: &str) -> Result<Dcb, Unavailable> {
    let request = Attributes::new().text(INTERFACE, interface);
    let answers = Netlink::route()?.ask(GET_DCB, [0, IEEE_GET, 0, 0], request, false)?;
    let ieee = answers.iter().find_map(|answer| attribute(answer, IEEE));
    ieee.map(read).ok_or(Unavailable::Absent)
}

/// The attributes of an answer.
fn read(ieee: &[u8]) -> Dcb {
    let mut dcb = Dcb::default();
    if let Some(pfc) = attribute(ieee, PFC) {
        // What it can, what is on, one that is not used, a byte of padding, and the delay.
        dcb.pfc = pfc.get(1).map(|on| of_bits(*on));
        dcb.pfc_delay = pfc
            .get(4..6)
            .and_then(|delay| Some(u16::from_ne_bytes(delay.try_into().ok()?)));
    }
    if let Some(ets) = attribute(ieee, ETS) {
        // Three flags, then eight bytes each: shares sent, shares received, ways, classes by priority.
        dcb.class_of = eight(ets, 27);
        if let (Some(shares), Some(ways)) = (eight(ets, 3), eight(ets, 19)) {
            let way = |class: usize| match ways[class] {
                0 => Scheduling::Strict,
                1 => Scheduling::CreditBased,
                2 => Scheduling::Share(shares[class]),
                255 => Scheduling::Vendor,
                other => Scheduling::Other(other),
            };
            dcb.scheduling = Some(std::array::from_fn(way));
        }
    }
    if let Some(table) = attribute(ieee, APPLICATIONS) {
        let entries = attributes(table).filter(|(kind, entry)| *kind == APPLICATION && entry.len() >= 4);
        let of_dscp = |(_, entry): (u16, &[u8])| {
            let dscp = u16::from_ne_bytes([entry[2], entry[3]]);
            (entry[0] == BY_DSCP && dscp < DSCPS).then_some((dscp as u8, entry[1]))
        };
        let mut map: Vec<(u8, u8)> = entries.filter_map(of_dscp).collect();
        map.sort_unstable();
        map.dedup();
        dcb.dscp_map = Some(map);
    }
    if let Some(trust) = attribute(ieee, TRUST) {
        let name = |selector: u8| match SELECTORS.iter().find(|(known, _)| *known == selector) {
            Some((_, name)) => name.to_string(),
            None => format!("selector {selector}"),
        };
        let selectors = attributes(trust).filter_map(|(_, selector)| selector.first().copied());
        dcb.trust = Some(selectors.map(name).collect());
    }
    if let Some(buffers) = attribute(ieee, BUFFERS)
        && let Some(of) = eight(buffers, 0)
        && let Some(sizes) = buffers.get(PRIORITIES..5 * PRIORITIES)
    {
        let size = |buffer: usize| {
            let bytes = sizes
                .get(4 * buffer..4 * buffer + 4)
                .and_then(|it| it.try_into().ok());
            bytes.map_or(0, u32::from_ne_bytes)
        };
        dcb.buffers = Some((of, std::array::from_fn(size)));
    }
    dcb
}

fn eight(bytes: &[u8], at: usize) -> Option<[u8; PRIORITIES]> {
    bytes.get(at..at + PRIORITIES)?.try_into().ok()
}

fn of_bits(bits: u8) -> Vec<u8> {
    (0..PRIORITIES as u8).filter(|bit| bits & 1 << bit != 0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// An application table entry.
    fn entry(selector: u8, priority: u8, protocol: u16) -> Vec<u8> {
        let protocol = protocol.to_ne_bytes();
        vec![selector, priority, protocol[0], protocol[1]]
    }

    #[test]
    fn the_lossless_priority_and_how_packets_get_it_are_told() {
        let mut pfc = vec![8, 1 << 3, 0, 0];
        pfc.extend(7u16.to_ne_bytes());
        pfc.resize(136, 0);
        let mut ets = vec![0, 8, 0];
        ets.extend([50, 0, 0, 50, 0, 0, 0, 0]);
        ets.extend([0; 8]);
        ets.extend([2, 0, 0, 2, 0, 0, 255, 1]);
        ets.extend([0, 1, 2, 3, 4, 5, 6, 7]);
        ets.extend([0; 24]);
        let mut buffers = vec![0, 0, 0, 1, 0, 0, 0, 0];
        buffers.extend(
            [20_016u32, 156_096, 0, 0, 0, 0, 0, 0]
                .iter()
                .flat_map(|size| size.to_ne_bytes()),
        );
        buffers.extend(176_112u32.to_ne_bytes());
        let table = Attributes::new()
            .with(APPLICATION, &entry(BY_DSCP, 3, 26))
            .with(APPLICATION, &entry(1, 3, 0x8915))
            .with(APPLICATION, &entry(BY_DSCP, 6, 48))
            .with(APPLICATION, &entry(BY_DSCP, 6, 64));
        let trust = Attributes::new().with(1, &[BY_DSCP]).with(2, &[255]);
        let ieee = Attributes::new()
            .with(PFC, &pfc)
            .with(ETS, &ets)
            .with(BUFFERS, &buffers)
            .nest(APPLICATIONS, &table)
            .nest(TRUST, &trust);
        let dcb = read(ieee.bytes());
        assert_eq!(dcb.pfc, Some(vec![3]));
        assert_eq!(dcb.pfc_delay, Some(7));
        assert_eq!(dcb.class_of, Some([0, 1, 2, 3, 4, 5, 6, 7]));
        let scheduling = dcb.scheduling.unwrap();
        assert_eq!(
            (scheduling[0], scheduling[1], scheduling[6]),
            (Scheduling::Share(50), Scheduling::Strict, Scheduling::Vendor)
        );
        assert_eq!(
            dcb.dscp_map,
            Some(vec![(26, 3), (48, 6)]),
            "entries of other selectors and impossible ones are not DSCPs"
        );
        assert_eq!(dcb.trust, Some(vec!["dscp".to_string(), "pcp".to_string()]));
        assert_eq!(dcb.buffers.unwrap().1[1], 156_096);
    }

    #[test]
    fn no_priority_with_pfc_is_told_from_a_driver_that_does_not_tell() {
        let off = read(Attributes::new().with(PFC, &[8, 0, 0, 0, 0, 0]).bytes());
        assert_eq!(off.pfc, Some(Vec::new()));
        let cut = read(Attributes::new().with(PFC, &[8]).with(ETS, &[0; 20]).bytes());
        assert_eq!(cut, Dcb::default());
    }

    #[test]
    fn an_interface_without_bridging_has_none_and_one_that_is_not_there_a_reason() {
        assert_eq!(dcb("lo"), Err(Unavailable::Absent));
        // A kernel that was built without it says the same of all interfaces.
        assert!(dcb("nowhere0").is_err());
    }

    proptest! {
        #[test]
        fn no_answer_makes_a_reader_fail_or_name_what_cannot_be(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let dcb = read(&bytes);
            prop_assert!(dcb.pfc.iter().flatten().all(|priority| *priority < 8));
            prop_assert!(dcb.dscp_map.iter().flatten().all(|(dscp, _)| *dscp < 64));
        }

        #[test]
        fn what_was_read_is_recorded_and_read_again(bits in any::<u8>(), ets in proptest::collection::vec(any::<u8>(), 59)) {
            let dcb = read(Attributes::new().with(PFC, &[8, bits, 0, 0, 0, 0]).with(ETS, &ets).bytes());
            let written = serde_json::to_string(&dcb).unwrap();
            prop_assert_eq!(serde_json::from_str::<Dcb>(&written).unwrap(), dcb);
        }
    }
}
