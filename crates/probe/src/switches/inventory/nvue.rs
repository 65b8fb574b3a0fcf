//! NVUE (Cumulus Linux): what `nv show qos roce`, `nv show system`, `nv show platform`, `nv show platform firmware`, `nv show interface` and
//! `nv show platform transceiver` print with `-o json`, one by one or as the branches of one object.

use serde_json::{Map, Value};

use super::super::super::priorities;
use super::fields::{SwitchHint, as_text, first, nameless, text};
use super::parsed::{ParsedInventory, cable, end, fact, module_part, port_part, put, speed, switch_part};
use record::{Fact, InventoryPart};

/// Branches of the whole object.
const BRANCHES: &[&str] = &["system", "platform", "interface", "qos"];
/// Priorities, and traffic classes, of a port.
const PRIORITIES: u8 = 8;
/// Interfaces that no cable is plugged into, and the one for management.
const NO_PORTS: &[&str] = &[
    "loopback", "bridge", "svi", "bond", "vrf", "eth", "sub", "vlan", "tunnel",
];
/// The parts of a switch that have firmware, and what that is called here.
const FIRMWARE: &[(&str, &str)] = &[("ASIC", "firmware"), ("BIOS", "bios")];

const MODULE_FACTS: &[(&str, &[&str])] = &[
    ("vendor", &["vendor-name"]),
    ("part-number", &["vendor-pn"]),
    ("serial", &["vendor-sn"]),
    ("revision", &["vendor-rev"]),
    ("firmware", &["fw-version", "firmware-version", "actual-firmware"]),
    ("kind", &["identifier"]),
    ("length", &["cable-length"]),
    ("date-code", &["vendor-date-code"]),
];

/// What one switch tells; none when it is not NVUE's.
pub(super) fn read(
    object: &Map<String, Value>,
    about: SwitchHint<'_>,
) -> Option<Result<ParsedInventory, String>> {
    let branches: Vec<&Map<String, Value>> = BRANCHES
        .iter()
        .filter_map(|branch| object.get(*branch)?.as_object())
        .collect();
    let all = match branches.is_empty() {
        true => vec![object],
        false => branches,
    };
    if !all.iter().any(|fields| is_ours(fields)) {
        return None;
    }
    let own = all.iter().find_map(|fields| fields.get("hostname")?.as_str());
    let Some(name) = about.name(own) else {
        return Some(Err(nameless()));
    };
    let mut parsed = ParsedInventory::default();
    for fields in all {
        add(&mut parsed, name, fields);
    }
    Some(Ok(parsed))
}

/// Whether it is one of the things that are read.
fn is_ours(fields: &Map<String, Value>) -> bool {
    is_system(fields)
        || is_platform(fields)
        || is_firmware(fields)
        || roce(fields).is_some()
        || fields.values().any(|value| {
            value
                .as_object()
                .is_some_and(|value| is_port(value) || is_module(value))
        })
}

fn is_system(fields: &Map<String, Value>) -> bool {
    let names = ["product-release", "product-name", "build", "image", "build-date"];
    let is_told = |name: &&str| fields.get(*name).is_some_and(|value| !value.is_null());
    (fields.contains_key("hostname") && names.iter().any(is_told)) || fields.contains_key("product-release")
}

fn is_platform(fields: &Map<String, Value>) -> bool {
    let has = |name: &str| fields.contains_key(name);
    has("asic-model") || (has("serial-number") && (has("part-number") || has("product-name") || has("model")))
}

fn is_firmware(fields: &Map<String, Value>) -> bool {
    FIRMWARE.iter().any(|(part, _)| actual(fields, part).is_some())
}

/// What `nv show qos roce` prints, by itself or below `roce`.
fn roce(fields: &Map<String, Value>) -> Option<&Map<String, Value>> {
    let inner = fields.get("roce").and_then(Value::as_object).unwrap_or(fields);
    let has = |name: &str| inner.get(name).is_some_and(Value::is_object);
    (has("pfc") && has("congestion-control")).then_some(inner)
}

fn is_port(interface: &Map<String, Value>) -> bool {
    let link = interface.get("link").and_then(Value::as_object);
    let kind = interface.get("type").and_then(Value::as_str);
    link.is_some() && !kind.is_some_and(|kind| NO_PORTS.contains(&kind))
}

fn is_module(fields: &Map<String, Value>) -> bool {
    fields.contains_key("vendor-pn") || fields.contains_key("vendor-sn")
}

fn actual(fields: &Map<String, Value>, part: &str) -> Option<String> {
    let part = fields.get(part)?.as_object()?;
    first(part, &["actual-firmware", "fw-version", "firmware"])
}

fn add(parsed: &mut ParsedInventory, switch: &str, fields: &Map<String, Value>) {
    let mut part = switch_part(switch);
    if is_system(fields) {
        let image = fields
            .get("version")
            .and_then(|version| as_text(version.get("image")?));
        let os = first(fields, &["product-release", "build", "image"]).or(image);
        put(&mut part, "os", os.as_deref());
        put(&mut part, "hostname", text(fields, "hostname").as_deref());
    }
    let hardware = fields.get("hardware").and_then(Value::as_object);
    for fields in [Some(fields), hardware]
        .into_iter()
        .flatten()
        .filter(|fields| is_platform(fields))
    {
        for (fact, names) in [
            ("type", &["product-name", "model"][..]),
            ("serial", &["serial-number"]),
            ("part-number", &["part-number"]),
            ("asic", &["asic-model"]),
        ] {
            put(&mut part, fact, first(fields, names).as_deref());
        }
    }
    let firmware = fields.get("firmware").and_then(Value::as_object);
    for fields in [Some(fields), firmware].into_iter().flatten() {
        for (name, fact) in FIRMWARE {
            if let Some(version) = actual(fields, name) {
                put(&mut part, fact, Some(&version));
            }
        }
    }
    if let Some(roce) = roce(fields) {
        add_roce(&mut part, roce);
    }
    if !part.facts.is_empty() {
        parsed.part(switch, part);
    }
    let modules = fields.get("transceiver").and_then(Value::as_object);
    for (name, value) in fields.iter().chain(modules.into_iter().flatten()) {
        if let Some(value) = value.as_object() {
            add_interface(parsed, switch, name, value);
        }
    }
}

/// PFC, marking and trust of a whole switch. Classes and priorities are written like those of hosts.
fn add_roce(part: &mut InventoryPart, roce: &Map<String, Value>) {
    let branch = |name: &str| roce.get(name).and_then(Value::as_object);
    let numbers = |said: Option<String>| {
        let said = said.unwrap_or_default();
        match priorities::parse(&said, PRIORITIES) {
            Some(all) => Fact::Value(priorities::list(&all)),
            None => fact(&said),
        }
    };
    put(part, "roce-mode", text(roce, "mode").as_deref());
    if let Some(pfc) = branch("pfc") {
        let is_off =
            |field: &&str| text(pfc, field).is_some_and(|said| said.starts_with("disabled") || said == "off");
        let value = match ["rx-enabled", "tx-enabled"].iter().find(|field| is_off(field)) {
            Some(_) => Fact::Value(priorities::list(&[])),
            None => numbers(text(pfc, "pfc-priority")),
        };
        part.facts.insert("pfc".to_string(), value);
    }
    if let Some(marks) = branch("congestion-control") {
        part.facts
            .insert("ecn".to_string(), numbers(text(marks, "enabled-tc")));
        if let (Some(least), Some(most)) = (text(marks, "min-threshold"), text(marks, "max-threshold")) {
            put(part, "ecn-thresholds", Some(&format!("{least} - {most}")));
        }
    }
    let trust = branch("trust").and_then(|trust| text(trust, "trust-mode"));
    put(part, "trust", trust.map(|said| said.replace(',', " ")).as_deref());
}

fn add_interface(parsed: &mut ParsedInventory, switch: &str, name: &str, interface: &Map<String, Value>) {
    let link = interface.get("link").and_then(Value::as_object);
    if let Some(link) = link.filter(|_| is_port(interface)) {
        let mut part = port_part(name);
        let megabits = text(link, "speed").map(|said| speed(&said));
        put(&mut part, "speed", megabits.as_deref());
        put(&mut part, "state", state_of(link).as_deref());
        for (fact, field) in [
            ("mtu", "mtu"),
            ("fec", "fec"),
            ("autonegotiation", "auto-negotiate"),
            ("duplex", "duplex"),
        ] {
            put(&mut part, fact, text(link, field).as_deref());
        }
        parsed.part(switch, part);
        neighbours(parsed, switch, name, interface);
    }
    let inner = ["transceiver", "pluggable"]
        .iter()
        .filter_map(|branch| interface.get(*branch)?.as_object());
    for fields in inner.chain([interface]).filter(|fields| is_module(fields)) {
        let mut part = module_part(name);
        for (fact, names) in MODULE_FACTS {
            put(&mut part, fact, first(fields, names).as_deref());
        }
        parsed.part(switch, part);
    }
}

/// `{"state": {"up": {}}}`, or the word itself.
fn state_of(link: &Map<String, Value>) -> Option<String> {
    text(link, "oper-status").or_else(|| match link.get("state")? {
        Value::Object(states) => states.keys().next().cloned(),
        state => as_text(state),
    })
}

/// `{"lldp": {"neighbor": {"leaf2": {"port": {"name": "swp1"}}}}}`; older releases have the neighbours right under `lldp`.
fn neighbours(parsed: &mut ParsedInventory, switch: &str, name: &str, interface: &Map<String, Value>) {
    let lldp = interface.get("lldp").and_then(Value::as_object);
    let inner = lldp
        .and_then(|lldp| lldp.get("neighbor"))
        .and_then(Value::as_object);
    for (other, seen) in inner.or(lldp).into_iter().flatten() {
        let port = seen.get("port").and_then(Value::as_object);
        let port = port.and_then(|port| first(port, &["name", "description", "id"]));
        if let Some(port) = port.filter(|port| !port.trim().is_empty()) {
            parsed.cables.push(cable([end(switch, name), end(other, &port)]));
        }
    }
}
