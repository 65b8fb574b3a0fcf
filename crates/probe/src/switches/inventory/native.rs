//! railgauge's own format, TOML: as `railgauge lab inventory` prints it: the format for scripts that query switches in another way.
//!
//! ```toml
//! [[switch]]
//! name = "rail0-leaf0"
//! type = "MQM9700-NS2F"
//! firmware = "31.2012.4036"
//! os = "3.11.4002"
//! serial = "MT2306X00317"
//! tier = "leaf"
//!
//! [[switch.port]]
//! name = "p1"
//! speed = "400 Gb/s"
//! mtu = 4096
//! fec = "rs"
//! module = { vendor = "NVIDIA", part-number = "MMA4Z00-NS", serial = "MT2251FT05517", firmware = "47.171.0001" }
//!
//! [[cable]]
//! ends = ["h1/rail0", "rail0-leaf0/p1"]
//! part-number = "MCP7Y00-N002"
//! serial = "MT2311VS04721"
//! ```
//!
//! Every value may be a text or a number; everything but names and ends may be left out.

use serde::{Deserialize, Serialize};

use super::parsed::{self, ParsedInventory, cable, module_part, port_part, put, speed, switch_part};
use record::PartAt;
use topology::import::{node_name, port_name};
use topology::text_error::{Lines, TextError};

/// The file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InventoryFile {
    /// Switches.
    #[serde(default, rename = "switch", skip_serializing_if = "Vec::is_empty")]
    pub switches: Vec<SwitchEntry>,
    /// Cables.
    #[serde(default, rename = "cable", skip_serializing_if = "Vec::is_empty")]
    pub cables: Vec<CableEntry>,
}

/// A value: a text, or a number as it is written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct TextOrNumber(pub String);

impl<T: Into<String>> From<T> for TextOrNumber {
    fn from(text: T) -> TextOrNumber {
        TextOrNumber(text.into())
    }
}

/// A switch. All but its name may be unknown.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct SwitchEntry {
    /// Name, as the topology has it.
    pub name: String,
    /// Model.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub model: Option<TextOrNumber>,
    /// Version of its firmware.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub firmware: Option<TextOrNumber>,
    /// Version of its operating system.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub os: Option<TextOrNumber>,
    /// Serial number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serial: Option<TextOrNumber>,
    /// Part number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub part_number: Option<TextOrNumber>,
    /// Its place: leaf, spine or core.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tier: Option<TextOrNumber>,
    /// Priorities with PFC: `3`, `off`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pfc: Option<TextOrNumber>,
    /// Priorities whose pauses are watched for storms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pfc_watchdog: Option<TextOrNumber>,
    /// What a packet's priority is taken from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trust: Option<TextOrNumber>,
    /// Classes of DSCPs: `24-31:3`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dscp_map: Option<TextOrNumber>,
    /// Queues or traffic classes that mark: `3`, `off`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ecn: Option<TextOrNumber>,
    /// Thresholds of marking.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ecn_thresholds: Option<TextOrNumber>,
    /// Its ports.
    #[serde(rename = "port", skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<PortEntry>,
}

/// A port of a switch.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct PortEntry {
    /// Name.
    pub name: String,
    /// Whether it is up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<TextOrNumber>,
    /// Speed: `400 Gb/s`, or in Mbit/s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub speed: Option<TextOrNumber>,
    /// Largest packet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mtu: Option<TextOrNumber>,
    /// Forward error correction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fec: Option<TextOrNumber>,
    /// Priorities with PFC: `3`, `off`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pfc: Option<TextOrNumber>,
    /// Queues or traffic classes that mark: `3`, `off`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ecn: Option<TextOrNumber>,
    /// Thresholds of marking.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ecn_thresholds: Option<TextOrNumber>,
    /// Bytes that may still arrive after a pause.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub headroom: Option<TextOrNumber>,
    /// What is plugged in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub module: Option<ModuleEntry>,
}

/// What is plugged into a port.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct ModuleEntry {
    /// Who made it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vendor: Option<TextOrNumber>,
    /// Part number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub part_number: Option<TextOrNumber>,
    /// Serial number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serial: Option<TextOrNumber>,
    /// Version of its firmware.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub firmware: Option<TextOrNumber>,
    /// Revision.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<TextOrNumber>,
    /// Kind: `OSFP`, `copper`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<TextOrNumber>,
    /// Length of the cable that is part of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub length: Option<TextOrNumber>,
}

/// A cable.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct CableEntry {
    /// Name; the topology's goes first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Both ends, `NODE/PORT`.
    pub ends: Vec<String>,
    /// What is known of it.
    #[serde(flatten)]
    pub module: ModuleEntry,
}

impl InventoryFile {
    /// As a file.
    pub fn to_toml(&self) -> String {
        toml::to_string(self).unwrap_or_default()
    }
}

pub(super) fn recognises(text: &str) -> bool {
    let heads = ["[[switch]]", "[[switch.port]]", "[[cable]]"];
    let mut lines = text.lines().map(str::trim_start);
    lines.any(|line| heads.iter().any(|head| line.starts_with(head)))
}

pub(super) fn read(text: &str) -> Result<ParsedInventory, TextError> {
    let file: InventoryFile = toml::from_str(text).map_err(|error| TextError::toml(text, &error))?;
    let mut parsed = ParsedInventory::default();
    // Where in the file the nth of a kind begins.
    let lines = Lines::of(text);
    let starts =
        |head: &str| -> Vec<usize> { text.match_indices(head).map(|(at, _)| lines.line(at)).collect() };
    let (switches, cables) = (starts("[[switch]]"), starts("[[cable]]"));
    for (index, switch) in file.switches.iter().enumerate() {
        match switch.name.trim().is_empty() {
            true => parsed.errors.push(TextError {
                line: switches.get(index).copied(),
                message: "a switch without `name`".to_string(),
            }),
            false => add_switch(&mut parsed, switch, switches.get(index).copied()),
        }
    }
    for (index, cable) in file.cables.iter().enumerate() {
        match cable_of(cable) {
            Ok(cable) => parsed.cables.push(cable),
            Err(message) => parsed.errors.push(TextError {
                line: cables.get(index).copied(),
                message,
            }),
        }
    }
    Ok(parsed)
}

fn add_switch(parsed: &mut ParsedInventory, switch: &SwitchEntry, line: Option<usize>) {
    let mut part = switch_part(&switch.name);
    for (name, value) in [
        ("type", &switch.model),
        ("firmware", &switch.firmware),
        ("os", &switch.os),
        ("serial", &switch.serial),
        ("part-number", &switch.part_number),
        ("tier", &switch.tier),
        ("pfc", &switch.pfc),
        ("pfc-watchdog", &switch.pfc_watchdog),
        ("trust", &switch.trust),
        ("dscp-map", &switch.dscp_map),
        ("ecn", &switch.ecn),
        ("ecn-thresholds", &switch.ecn_thresholds),
    ] {
        put(&mut part, name, value.as_ref().map(|value| value.0.as_str()));
    }
    parsed.part(&switch.name, part);
    for port in &switch.ports {
        if port.name.trim().is_empty() {
            let message = format!("switch `{}` has a port without `name`", node_name(&switch.name));
            parsed.errors.push(TextError { line, message });
            continue;
        }
        let mut part = port_part(&port.name);
        let megabits = port.speed.as_ref().map(|value| speed(&value.0));
        put(&mut part, "speed", megabits.as_deref());
        for (name, value) in [
            ("state", &port.state),
            ("mtu", &port.mtu),
            ("fec", &port.fec),
            ("pfc", &port.pfc),
            ("ecn", &port.ecn),
            ("ecn-thresholds", &port.ecn_thresholds),
            ("headroom", &port.headroom),
        ] {
            put(&mut part, name, value.as_ref().map(|value| value.0.as_str()));
        }
        parsed.part(&switch.name, part);
        if let Some(module) = &port.module {
            let mut part = module_part(&port.name);
            for (name, value) in facts_of(module) {
                put(&mut part, name, value.map(|value| value.0.as_str()));
            }
            parsed.part(&switch.name, part);
        }
    }
}

fn facts_of(module: &ModuleEntry) -> [(&'static str, Option<&TextOrNumber>); 7] {
    [
        ("vendor", module.vendor.as_ref()),
        ("part-number", module.part_number.as_ref()),
        ("serial", module.serial.as_ref()),
        ("firmware", module.firmware.as_ref()),
        ("revision", module.revision.as_ref()),
        ("kind", module.kind.as_ref()),
        ("length", module.length.as_ref()),
    ]
}

fn cable_of(own: &CableEntry) -> Result<record::Cable, String> {
    let [one, other] = own.ends.as_slice() else {
        return Err("a cable has two `ends`, as in [\"h1/rail0\", \"leaf0/p1\"]".to_string());
    };
    let mut cable = cable([end_of(one)?, end_of(other)?]);
    if let Some(name) = own.name.as_deref().filter(|name| !name.trim().is_empty()) {
        cable.name = node_name(name);
    }
    for (name, value) in facts_of(&own.module) {
        if let Some(value) = value {
            cable.facts.insert(name.to_string(), parsed::fact(&value.0));
        }
    }
    Ok(cable)
}

/// `h1/rail0`, `leaf0/p1`, `gpu001/mlx5_0/1`.
fn end_of(text: &str) -> Result<PartAt, String> {
    let bad = || {
        let shown: String = text.chars().take(60).flat_map(char::escape_default).collect();
        format!("`{shown}` is not the end of a cable; write NODE/PORT")
    };
    let (node, port) = text.split_once('/').ok_or_else(bad)?;
    if node.trim().is_empty() || port.trim().is_empty() {
        return Err(bad());
    }
    let part = match port.split_once('/') {
        Some((device, number)) => format!("{}/{}", port_name(device), port_name(number)),
        None => port_name(port),
    };
    let node = node_name(node);
    Ok(PartAt { node, part })
}

impl<'de> Deserialize<'de> for TextOrNumber {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<TextOrNumber, D::Error> {
        struct TextOrNumberVisitor;
        impl serde::de::Visitor<'_> for TextOrNumberVisitor {
            type Value = TextOrNumber;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a text or a number")
            }

            fn visit_str<E>(self, text: &str) -> Result<TextOrNumber, E> {
                Ok(TextOrNumber(text.to_string()))
            }

            fn visit_i64<E>(self, number: i64) -> Result<TextOrNumber, E> {
                Ok(TextOrNumber(number.to_string()))
            }

            fn visit_u64<E>(self, number: u64) -> Result<TextOrNumber, E> {
                Ok(TextOrNumber(number.to_string()))
            }
        }
        deserializer.deserialize_any(TextOrNumberVisitor)
    }
}
