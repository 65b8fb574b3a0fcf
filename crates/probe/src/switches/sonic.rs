//! SONiC: what one switch has in its COUNTERS_DB, or prints about its interfaces, as JSON.
//!
//! Three forms are read: interfaces by name with `SAI_PORT_STAT_IF_OUT_OCTETS` and `SAI_PORT_STAT_IF_IN_OCTETS`; a dump of the
//! database (`sonic-db-dump -n COUNTERS_DB -y`, `redis-dump`), where ports have object ids and `COUNTERS_PORT_NAME_MAP` their
//! names; and `show interfaces counters --json`, which has `RX_OK` and `TX_OK`: packets. Packets are not bytes, so the ports of
//! the last are known and their bytes are not, unless it has byte counters as well.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::{PortBytes, Width, number};

const OUT: &str = "SAI_PORT_STAT_IF_OUT_OCTETS";
const IN: &str = "SAI_PORT_STAT_IF_IN_OCTETS";
const ANY_OF_SAI: &str = "SAI_PORT_STAT_";
const NAMES: &str = "COUNTERS_PORT_NAME_MAP";
/// What keys of the database begin with, before a port's name or object id.
const TABLE: &str = "COUNTERS:";

/// The ports of one switch; none when it is not SONiC's.
pub(super) fn read(value: &Value) -> Option<Vec<(String, PortBytes)>> {
    let entries = value.as_object()?;
    let names = names_by_id(entries.get(NAMES));
    let mut ports = Vec::new();
    for (key, entry) in entries {
        let Some(counters) = fields(entry).filter(|fields| is_port(fields)) else {
            continue;
        };
        let id = key.strip_prefix(TABLE).unwrap_or(key);
        let name = match (names.get(id), id.starts_with("oid:")) {
            (Some(name), _) => (*name).to_string(),
            // Queues, buffers and the like have ids, too; an entry without a name is not a port.
            (None, true) => continue,
            (None, false) => id.to_string(),
        };
        let bytes = PortBytes {
            tx_bytes: number::of_value(counters.get(OUT)),
            rx_bytes: number::of_value(counters.get(IN)),
            width: Width::Bits64,
        };
        ports.push((name, bytes));
    }
    (!ports.is_empty()).then_some(ports)
}

/// The fields of an entry: dumps keep them under `value`.
fn fields(entry: &Value) -> Option<&Map<String, Value>> {
    entry.get("value").unwrap_or(entry).as_object()
}

fn is_port(fields: &Map<String, Value>) -> bool {
    fields.keys().any(|key| key.starts_with(ANY_OF_SAI))
        || (fields.contains_key("RX_OK") && fields.contains_key("TX_OK"))
}

fn names_by_id(map: Option<&Value>) -> HashMap<&str, &str> {
    let named = map.and_then(fields).into_iter().flatten();
    named
        .filter_map(|(name, id)| Some((id.as_str()?, name.as_str())))
        .collect()
}
