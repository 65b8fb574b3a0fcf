//! railgauge's own format, as `railgauge lab counters --json` prints it: the format for scripts that query switches in another
//! way.
//!
//! ```json
//! {"switch_counters": 1, "ports": [
//!   {"switch": "rail0-leaf0", "port": "u1", "counters": {"tx_bytes": 123, "rx_bytes": null}}
//! ]}
//! ```

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{PortBytes, PortTable, Width, number};

/// The version that is written, and the only one that is read.
const VERSION: u64 = 1;

/// The counters of switch ports, as they are written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CounterFile {
    /// Version of the format.
    pub switch_counters: u64,
    /// All ports.
    pub ports: Vec<PortEntry>,
}

/// The counters of one port.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortEntry {
    /// The switch.
    pub switch: String,
    /// The port there.
    pub port: String,
    /// Width of its counters in bits: 32 or 64; 64 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bits: Option<u8>,
    /// By the kernel's names; absent is not zero.
    pub counters: BTreeMap<String, Option<u64>>,
}

impl CounterFile {
    /// A file of the current version.
    pub fn of(ports: Vec<PortEntry>) -> CounterFile {
        CounterFile {
            switch_counters: VERSION,
            ports,
        }
    }
}

/// The table in a file of ours; none when it is not one.
pub(super) fn read(value: &Value) -> Option<Result<PortTable, String>> {
    let version = value.get("switch_counters")?;
    if number::of_value(Some(version)) != Some(VERSION) {
        return Some(Err(format!(
            "`switch_counters` is {version}; this railgauge reads version {VERSION}"
        )));
    }
    Some(ports(value))
}

fn ports(value: &Value) -> Result<PortTable, String> {
    let ports = value.get("ports").and_then(Value::as_array);
    let ports = ports.ok_or("`ports` is missing or not a list")?;
    let mut table = PortTable::default();
    for (index, port) in ports.iter().enumerate() {
        let text = |key: &str| {
            let text = port.get(key).and_then(Value::as_str);
            text.filter(|text| !text.is_empty())
                .ok_or_else(|| format!("`ports[{index}].{key}` is missing or not a text"))
        };
        let (switch, name) = (text("switch")?, text("port")?);
        let width = match port.get("bits").map(|bits| number::of_value(Some(bits))) {
            None | Some(Some(64)) => Width::Bits64,
            Some(Some(32)) => Width::Bits32,
            Some(_) => return Err(format!("`ports[{index}].bits` must be 32 or 64")),
        };
        let counters = port.get("counters").and_then(Value::as_object);
        let counters =
            counters.ok_or_else(|| format!("`ports[{index}].counters` is missing or not an object"))?;
        let bytes = PortBytes {
            tx_bytes: number::of_value(counters.get("tx_bytes")),
            rx_bytes: number::of_value(counters.get("rx_bytes")),
            width,
        };
        table.put(switch, name, bytes)?;
    }
    Ok(table)
}
