//! NVUE (Cumulus Linux): what `nv show interface -o json` prints, or its REST interface answers.
//!
//! ```json
//! {"swp1": {"link": {"stats": {"in-bytes": 184151, "out-bytes": 117506}}, "type": "swp"}}
//! ```
//!
//! Releases differ in where the figures are, so `link.stats`, `counters`, `stats` and the interface itself are looked at for
//! `in-bytes` and `out-bytes`.

use serde_json::Value;

use super::{PortBytes, Width, number};

/// Where an interface may have its figures, by the keys that lead there.
const PLACES: &[&[&str]] = &[
    &["link", "stats"],
    &["link", "counters"],
    &["counters"],
    &["stats"],
    &[],
];

/// The ports of one switch; none when it is not NVUE's.
pub(super) fn read(value: &Value) -> Option<Vec<(String, PortBytes)>> {
    let interfaces = value.as_object()?;
    let ports: Vec<(String, PortBytes)> = interfaces
        .iter()
        .filter_map(|(name, interface)| Some((name.clone(), bytes_of(interface)?)))
        .collect();
    (!ports.is_empty()).then_some(ports)
}

fn bytes_of(interface: &Value) -> Option<PortBytes> {
    let at = |place: &&[&str]| place.iter().try_fold(interface, |value, key| value.get(key));
    let has_bytes = |stats: &&Value| stats.get("out-bytes").is_some() || stats.get("in-bytes").is_some();
    let stats = PLACES.iter().filter_map(at).find(has_bytes)?;
    Some(PortBytes {
        tx_bytes: number::of_value(stats.get("out-bytes")),
        rx_bytes: number::of_value(stats.get("in-bytes")),
        width: Width::Bits64,
    })
}
